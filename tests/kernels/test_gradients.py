"""The derivative of a kernel matrix with respect to its length scales, against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from stopwise.kernels import Gaussian, Laplace, Linear, Matern, ProductLaplace, ProductMatern
from stopwise.kernels.gradients import gram_and_pullback
from stopwise.kernels.stationary import Stationary

KERNELS = [Gaussian(), Laplace(), Matern(), Matern(1.0, 0.5), Matern(1.0, 2.5), ProductLaplace(), ProductMatern()]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def scaled_rows(n: int = 15, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    rows[3] = rows[5]  # copies, where rough kernels have a kink
    sensitivity = rng.normal(size=(n, n))
    return rows, sensitivity + sensitivity.T


@each_kernel
def test_the_matrix_is_the_kernels_own(kernel: Stationary) -> None:
    rows, _ = scaled_rows()
    # Copies are 1e-8 apart where a distance comes from an inner product, and rough kernels show it.
    assert np.allclose(gram_and_pullback(kernel, rows, np)[0], kernel(rows), rtol=1e-12, atol=1e-7)


@each_kernel
def test_the_gradient_is_that_of_finite_differences(kernel: Stationary) -> None:
    rows, sensitivity = scaled_rows()
    logs = np.array([0.2, -0.5, 0.9])

    def value(logs: np.ndarray) -> float:
        return float(np.vdot(sensitivity, gram_and_pullback(kernel, rows * np.exp(logs), np)[0]))

    gradient = gram_and_pullback(kernel, rows * np.exp(logs), np)[1](sensitivity)
    for f in range(3):
        step = 1e-6 * np.eye(3)[f]
        assert gradient[f] == pytest.approx((value(logs + step) - value(logs - step)) / 2e-6, rel=1e-6, abs=1e-8)


@each_kernel
def test_torch_gives_the_same_numbers(kernel: Stationary) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'stopwise[torch]'")
    rows, sensitivity = scaled_rows()
    gram, pull = gram_and_pullback(kernel, rows, np)
    there, pull_there = gram_and_pullback(kernel, torch.from_numpy(rows), torch)
    assert np.allclose(there.numpy(), gram, rtol=1e-12, atol=1e-7)
    assert np.allclose(pull_there(torch.from_numpy(sensitivity)).numpy(), pull(sensitivity), rtol=1e-6)


@pytest.mark.parametrize("kernel", [ProductLaplace(), ProductMatern()], ids=lambda kernel: kernel.name)
def test_many_features_far_apart_do_not_overflow(kernel: Stationary) -> None:
    rows = 1e3 * np.random.default_rng(1).normal(size=(6, 200))
    gram, pull = gram_and_pullback(kernel, rows, np)
    assert np.array_equal(gram, np.eye(6))
    assert np.all(np.isfinite(pull(np.ones((6, 6)))))


def test_a_kernel_without_length_scales_says_so() -> None:
    with pytest.raises(TypeError, match="linear"):
        gram_and_pullback(Linear(), np.ones((2, 1)), np)
