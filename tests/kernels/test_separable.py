"""Products over features of one-dimensional kernels, against the formula written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stopwise.kernels import Laplace, Matern, Product
from stopwise.kernels.base import common_origin, take_rows
from stopwise.kernels.separable import ProductLaplace, ProductMatern, Separable

KINDS = [ProductLaplace, ProductMatern]
ONE_FEATURE = {ProductLaplace: Laplace, ProductMatern: Matern}


def rows(n: int = 23, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tile_is_the_product_of_one_dimensional_kernels(kind: type[Separable]) -> None:
    x, z = rows(), rows(7, seed=1)
    scales = (0.3, 1.0, 2.5, 40.0)
    expected = np.ones((len(x), len(z)))
    for f, scale in enumerate(scales):
        expected *= ONE_FEATURE[kind](scale)(x[:, [f]], z[:, [f]])
    assert np.allclose(kind(scales)(x, z), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tile_agrees_with_pairs(kind: type[Separable]) -> None:
    x, kernel = rows(9), kind(0.7)
    pairs = [[kernel.pair(a, b) for b in x] for a in x]
    assert np.allclose(kernel(x), pairs, rtol=1e-13, atol=0)
    prepared = kernel.prepare(x, common_origin(x))
    part = kernel.block(take_rows(prepared, slice(2, 5)), prepared)
    assert np.array_equal(part, kernel(x)[2:5])


@pytest.mark.parametrize("kind", KINDS)
def test_with_one_feature_it_is_the_kernel_of_the_distance(kind: type[Separable]) -> None:
    x = rows(d=1)
    assert np.allclose(kind(0.4)(x), ONE_FEATURE[kind](0.4)(x), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("kind", KINDS)
def test_the_matrix_is_positive_definite_with_a_unit_diagonal(kind: type[Separable]) -> None:
    x = rows(60, 6)
    gram = kind(1.5)(x)
    assert np.array_equal(gram, gram.T)
    assert np.array_equal(np.diagonal(gram), np.ones(60))
    assert np.array_equal(kind(1.5).diagonal(x), np.ones(60))
    assert np.linalg.eigvalsh(gram)[0] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_many_features_and_long_distances_neither_overflow_nor_turn_subnormal(kind: type[Separable]) -> None:
    x = rows(20, 500) * np.geomspace(1e-6, 1e200, 500)
    gram = kind(1.0)(x)
    assert np.array_equal(gram, np.eye(20))
    near = kind(100.0)(rows(20, 500))
    assert np.all(near > 0)
    assert np.all(np.isfinite(near))
    single = kind(3.0)(rows(30, 40).astype(np.float32))
    assert single.dtype == np.float32
    assert np.all((single == 0) | (single > 1e-20))


@pytest.mark.parametrize("kind", KINDS)
def test_length_scales_are_checked(kind: type[Separable]) -> None:
    with pytest.raises(ValueError, match="positive"):
        kind(-1.0)
    with pytest.raises(ValueError, match="3 entries for 4 features"):
        kind((1.0, 2.0, 3.0))(rows())
    assert kind("auto").with_length_scale(2.0) == kind(2.0)
    with pytest.raises(ValueError, match="auto"):
        kind("auto")(rows())


def test_it_combines_with_other_kernels() -> None:
    x = rows(6)
    both = 2.0 * ProductLaplace(1.0) + Matern(1.0) * ProductMatern(2.0)
    expected = 2.0 * ProductLaplace(1.0)(x) + Matern(1.0)(x) * ProductMatern(2.0)(x)
    assert np.allclose(both(x), expected)
    assert isinstance(Matern(1.0) * ProductMatern(2.0), Product)
    assert math.isclose(both.pair(x[0], x[1]), expected[0, 1])
