"""Features drawn in by powers, against scipy's own and the kernel of the places written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import yeojohnson, yeojohnson_normmax

import stopwise as sw
from stopwise._support.torch import has_torch
from stopwise.engine.operators import Dense
from stopwise.kernels import Gaussian, Laplace, ProductLaplace, Warped
from stopwise.kernels.warped import find_warp

if has_torch():
    import torch

POWERS = (1.0, 0.0, 2.0, 0.4, 1.7, -1.5)


def warped(inner, power=POWERS, low=-3.0, high=4.0, centre=0.0, spread=1.0):
    return Warped(
        inner, *((v,) * len(power) for v in (centre, spread)), power, *((v,) * len(power) for v in (low, high))
    )


def rows(n=40, d=6, seed=0):
    return np.random.default_rng(seed).uniform(-3, 4, size=(n, d))


def test_places_are_those_of_yeo_and_johnson_in_the_units_of_each_feature():
    x, kernel = rows(), warped(Gaussian())
    for j, power in enumerate(POWERS):
        np.testing.assert_allclose(kernel.places(x)[:, j], yeojohnson(x[:, j], power), rtol=1e-7, atol=1e-12)
    moved = warped(Gaussian(), low=10 - 3 * 5, high=10 + 4 * 5, centre=10.0, spread=5.0)
    np.testing.assert_allclose(moved.places(10 + 5 * x), 10 + 5 * kernel.places(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.places(x)[:, 0], x[:, 0], rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_matrix_is_the_inner_kernel_of_the_places(dtype):
    x, z = rows().astype(dtype), rows(9, seed=1).astype(dtype)
    for inner in (Gaussian(1.3), Laplace(0.8), ProductLaplace(2.0), 0.3 * Gaussian(2.0) + Laplace(1.0)):
        kernel = warped(inner)
        assert kernel(x, z).dtype == dtype
        np.testing.assert_allclose(
            kernel(x, z), inner(kernel.places(x), kernel.places(z)), rtol=1e-5 if dtype == np.float32 else 1e-12
        )
        np.testing.assert_allclose(kernel.diagonal(x), np.diagonal(kernel(x)), rtol=1e-6)
    x = x.astype(np.float64)
    kernel = warped(Laplace(0.8))
    pairs = [[kernel.pair(a, b) for b in x[:6]] for a in x[:6]]
    np.testing.assert_allclose(kernel(x[:6]), pairs, rtol=1e-12)
    assert np.linalg.eigvalsh(kernel(x))[0] > 0


@settings(deadline=None)
@given(st.floats(-3, 5), st.floats(-5, 0), st.floats(0.1, 6))
def test_a_map_rises_everywhere_and_is_straight_outside_its_ends(power, low, high):
    kernel = warped(Gaussian(), (power,), low, high)
    x = np.array([-1e300, low - 2.0, low - 1.0, low, (low + high) / 2, high, high + 1.0, high + 2.0, 1e300])
    places = kernel.places(x[:, None])[:, 0]
    assert np.isfinite(places).all()
    assert np.all(np.diff(places)[np.diff(x) > 0] > 0)
    left, right = np.diff(places[1:4]), np.diff(places[5:8])
    assert left[0] == pytest.approx(left[1], rel=1e-6)
    assert right[0] == pytest.approx(right[1], rel=1e-6)


def standardised(x):
    return (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)


def found_in(x, left_alone=()):
    z = standardised(x)
    alone = np.isin(np.arange(z.shape[1]), list(left_alone))
    return find_warp(z, np.ones(len(z)), z.min(axis=0), z.max(axis=0), alone)


def test_columns_that_are_normal_enough_or_have_two_values_stay_as_they_are():
    rng = np.random.default_rng(0)
    even = np.column_stack([rng.normal(size=500), rng.uniform(size=500), rng.uniform(size=500) < 0.01, np.ones(500)])
    assert found_in(even.astype(float)) is None
    skewed = np.column_stack([even, np.exp(rng.normal(size=500)), -np.exp(rng.normal(size=500))])
    found = found_in(skewed)
    np.testing.assert_array_equal(found.power[:4], 1.0)
    assert found.power[4] < 0.5
    assert found.power[5] > 1.5
    only = found_in(skewed, left_alone=[4])
    assert only.power[4] == 1.0


@pytest.mark.parametrize("seed", range(8))
def test_powers_are_the_likeliest(seed):
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(60 + 40 * seed, 4))
    skewed = standardised(np.column_stack([np.exp(normal[:, 0]), -(normal[:, 1] ** 4), np.sinh(2 * normal[:, 2] + 1)]))
    expected = [yeojohnson_normmax(column) for column in skewed.T]
    np.testing.assert_allclose(found_in(skewed).power, expected, atol=0.006)


def test_a_wrong_map_is_refused_in_words():
    with pytest.raises(ValueError, match="one number per feature"):
        Warped(Gaussian(), (0.0,), (1.0, 1.0), (1.0,), (0.0,), (1.0,))
    with pytest.raises(ValueError, match="spread must be positive"):
        warped(Gaussian(), (1.0,), spread=0.0)
    with pytest.raises(ValueError, match="low must be at most high"):
        warped(Gaussian(), (1.0,), low=1.0, high=0.0)
    with pytest.raises(ValueError, match="warped for 6 features, got 2"):
        warped(Gaussian())(rows(d=2))


@pytest.mark.torch
@pytest.mark.skipif(not has_torch(), reason="torch is not installed")
def test_products_on_a_device_are_those_of_the_host():
    from stopwise.engine.gpu.device_operator import Cuda, predict_on_device

    x, new, block = rows(80), 3 * rows(11, seed=2), np.random.default_rng(1).normal(size=(80, 3))
    kernel = warped(0.4 * Laplace(1.0) + 0.6 * Gaussian(1.5))
    there = Cuda(kernel, x, centred=True, precision="float64", device="cpu")
    here = Dense(kernel(x), centred=True)
    np.testing.assert_allclose(there.multiply(block), here.multiply(block), rtol=1e-9, atol=1e-12)
    assert there.square_sum == pytest.approx(here.square_sum, rel=1e-9)
    told = predict_on_device(kernel, new, x, block, precision="float64", device="cpu")
    np.testing.assert_allclose(told, kernel(new, x) @ block, rtol=1e-9, atol=1e-12)
    tensor = kernel.places(torch.from_numpy(new))
    np.testing.assert_allclose(tensor.numpy(), kernel.places(new), rtol=1e-13)


def prices(n, seed):
    """A smooth function of the logarithms of two skewed features; rows far out are few."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=(n, 2)) * (1.2, 0.9)
    return np.exp(logs) * (1e4, 3.0), np.sin(logs[:, 0]) + 0.5 * logs[:, 1] + 0.1 * rng.normal(size=n)


def test_skewed_features_are_drawn_in_where_that_predicts_better(tmp_path):
    (X, y), (new, truth) = prices(250, 0), prices(500, 1)
    model = sw.KernelGradientRegressor().fit(X, y)
    assert isinstance(model.kernel_, Warped)
    assert "drawn in" in model.selection_.reason
    assert [row["power"] for row in model.selection_.features] == list(model.kernel_.power)
    error = np.sqrt(np.mean((model.predict(new) - truth) ** 2))
    plain = sw.KernelGradientRegressor("matern32").fit(X, y)
    assert error < 0.6 * np.sqrt(np.mean((plain.predict(new) - truth) ** 2))
    by_logs = sw.KernelGradientRegressor().fit(np.log(X), y)
    assert error < 1.2 * np.sqrt(np.mean((by_logs.predict(np.log(new)) - truth) ** 2))
    by_hand = model.kernel_(new, X) @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(new), by_hand, atol=1e-8)
    sw.save(model, tmp_path / "m.stopwise")
    assert np.array_equal(sw.load(tmp_path / "m.stopwise").predict(new), model.predict(new))
    lower, upper = model.predict_interval(new).T
    assert 0.85 < np.mean((truth >= lower) & (truth <= upper)) < 0.95


def test_units_and_offsets_of_skewed_features_do_not_matter():
    X, y = prices(120, 2)
    new, _ = prices(50, 3)
    one = sw.KernelGradientRegressor().fit(X, y).predict(new)
    other = sw.KernelGradientRegressor().fit(X * (1e-3, 64.0) + 8.0, y).predict(new * (1e-3, 64.0) + 8.0)
    np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("solver", ["factor", "preconditioned", "krylov", "nystrom"])
def test_every_solver_takes_a_warped_kernel(solver):
    X, y = prices(150, 4)
    kernel = sw.KernelGradientRegressor().fit(X, y).kernel_
    assert isinstance(kernel, Warped)
    rule = sw.rules.Fixed(step_sum=200.0)
    more = {"n_landmarks": 150} if solver == "nystrom" else {}
    dense = sw.KernelRidgeRegressor(kernel, rule=rule, solver="dense").fit(X, y)
    model = sw.KernelRidgeRegressor(kernel, rule=rule, solver=solver, **more).fit(X, y)
    np.testing.assert_allclose(model.predict(X), dense.predict(X), atol=1e-5)


def test_neither_the_order_of_rows_nor_copies_for_weights_change_a_fit():
    X, y = prices(120, 5)
    new, rng = prices(60, 6)[0], np.random.default_rng(0)
    times = rng.integers(1, 4, size=120)
    model = sw.KernelGradientRegressor().fit(X, y, sample_weight=times)
    assert isinstance(model.kernel_, Warped)
    copied = rng.permutation(np.repeat(np.arange(120), times))
    again = sw.KernelGradientRegressor().fit(X[copied], y[copied])
    assert again.kernel_.power == model.kernel_.power
    np.testing.assert_allclose(again.predict(new), model.predict(new), atol=1e-8)
