"""One covariate through solver="line": the same stops and fits as all eigenpairs, whatever filter, ties and weights."""

from __future__ import annotations

import numpy as np
import pytest

import stopwise as sw
from stopwise.engine.line.merged_rows import in_bins, merge_rows
from stopwise.engine.line.repeated_solves import LineFactor, LineProduct
from stopwise.engine.line.transitions import state_space
from stopwise.rules.prudent import LeftOut

KERNELS = ["sobolev1", "sobolev2", "laplace", "matern32", "matern52"]


def data(n=330, digits=3, seed=0):
    rng = np.random.default_rng(seed)
    x = np.round(rng.random(n), digits)
    return x[:, None], np.sin(7 * x) + 0.3 * rng.standard_normal(n), rng.uniform(0.5, 2.0, n)


def drawn_in(kernel, power=0.2):
    return sw.kernels.Warped(kernel, centre=(0.5,), spread=(0.3,), power=(power,), low=(0.0,), high=(1.0,))


def resolved(name):
    if name == "warped":
        return drawn_in(sw.kernels.Matern(0.3))
    return sw.kernels.Matern(0.3, smoothness=int(name[-2]) / 2) if name.startswith("matern") else name


@pytest.mark.parametrize("name", [*KERNELS, "warped"])
@pytest.mark.parametrize("estimator", [sw.KernelGradientRegressor, sw.KernelRidgeRegressor])
def test_the_default_stop_and_its_fit_are_those_of_all_eigenpairs(estimator, name):
    x, y, weights = data()
    kernel = sw.kernels.Laplace(0.3) if name == "laplace" else resolved(name)
    new = np.linspace(0.05, 0.95, 40)[:, None]
    dense = estimator(kernel, solver="dense").fit(x, y, weights)
    line = estimator(kernel, solver="line").fit(x, y, weights)
    assert line.solver_ == "line"
    assert line.step_sum_ == pytest.approx(dense.step_sum_, rel=1e-5)
    # At the stop the criterion moves by up to 0.016 of a relative move of the clock: 1.6e-7 where clocks agree to 1e-5.
    assert line.stop_.evidence.criterion == pytest.approx(dense.stop_.evidence.criterion, rel=1.6e-7)
    assert line.noise_std_ == pytest.approx(dense.noise_std_, rel=1e-4)
    np.testing.assert_allclose(line.predict(new), dense.predict(new), atol=1e-5)
    assert line.stop_.certainty.settled


@pytest.mark.parametrize("power", [-1.5, 0.3, 2.5])
def test_a_covariate_drawn_in_by_a_power_is_predicted_on_the_line_as_by_all_eigenpairs(power):
    """Inside the range of the data, in holes of it and beyond, with deviations and intervals; ties among the rows."""
    x, y, weights = data(n=700)
    x, y, weights = (part[(x[:, 0] < 0.4) | (x[:, 0] > 0.5)] for part in (x, y, weights))
    kernel, new = drawn_in(sw.kernels.Laplace(0.4), power), np.linspace(-0.3, 1.4, 60)[:, None]
    dense, line = (sw.KernelRidgeRegressor(kernel, solver=s).fit(x, y, weights) for s in ("dense", "line"))
    (fit, deviation), (told, deviation_told) = (model.predict(new, return_std=True) for model in (dense, line))
    np.testing.assert_allclose(told, fit, atol=1e-6)
    np.testing.assert_allclose(deviation_told, deviation, rtol=1e-4)
    np.testing.assert_allclose(line.predict_interval(new), dense.predict_interval(new), atol=1e-4)


@pytest.mark.parametrize("name", ["sobolev1", "sobolev2", "laplace"])
def test_left_out_errors_around_the_stop_are_those_of_all_eigenpairs(name):
    """The constant had a place among the eigenvectors, and leverages missed whatever these do not know."""
    x, y, weights = data()
    kernel = sw.kernels.Laplace(0.3) if name == "laplace" else name
    dense, line = (sw.KernelGradientRegressor(kernel, solver=s).fit(x, y, weights) for s in ("dense", "line"))
    top, trace = dense.eigenvalues_[0], line.path_.spectrum.trace
    assert line.eigenvalues_[0] == pytest.approx(top, rel=1e-6)
    assert line.eigenvalues_[1] < 0.9 * top
    assert line.eigenvalues_.sum() <= trace * (1 + 1e-9)
    at = line.step_sum_ * np.array([0.1, 1.0, 10.0])
    told, exact = (np.sqrt(model.path_.leave_one_out_error(at)) for model in (line, dense))
    np.testing.assert_allclose(told[:2], exact[:2], rtol=1e-3)
    np.testing.assert_allclose(told[2], exact[2], rtol=0.02)
    spent = (line.path_.row_counts * (1 - line.path_.leverage_left(at))).sum(axis=1)
    np.testing.assert_allclose(spent, line.path_.degrees_of_freedom(at) + 1, rtol=1e-6)


@pytest.mark.parametrize("filter", ["descent", "flow"])
@pytest.mark.parametrize("step_sum", [30.0, 1e4, 1e7])
def test_filters_at_a_given_reading_are_dense_to_1e_8(filter, step_sum):
    x, y, weights = data()
    kernel = sw.kernels.Matern(0.3, smoothness=1.5)
    rule = sw.rules.Fixed(step_sum=step_sum)
    models = [
        sw.KernelGradientRegressor(kernel, filter=filter, rule=rule, schedule=0.5, solver=s).fit(x, y, weights)
        for s in ("dense", "line")
    ]
    dense, line = (m.predict(x) for m in models)
    assert models[0].step_sum_ == models[1].step_sum_
    np.testing.assert_allclose(line, dense, atol=3e-8)


def test_a_line_of_two_covariates_is_refused_with_a_remedy():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r'one covariate.*solver="krylov"'):
        sw.KernelRidgeRegressor("matern32", solver="line").fit(rng.random((40, 2)), rng.random(40))


def test_the_papers_rule_on_the_line_agrees_with_all_eigenpairs():
    x, y, _ = data(n=300)
    kernel = sw.kernels.Matern(0.3, smoothness=1.5)
    rule = sw.rules.Critical(hilbert_radius=3.0)
    dense, line = (
        sw.KernelGradientRegressor(kernel, rule=rule, noise_std=0.3, solver=s, tol=0).fit(x, y)
        for s in ("dense", "line")
    )
    assert line.n_iter_ == dense.n_iter_


def test_auto_takes_the_line_for_one_covariate_and_says_what_it_tried():
    x, y, _ = data(n=500, digits=12)
    model = sw.KernelGradientRegressor().fit(x, y)
    assert model.solver_ == "line"
    assert {row["kernel"] for row in model.selection_} == {"laplace", "matern32", "matern52"}
    truth = np.sin(7 * x[:, 0])
    assert np.sqrt(np.mean((model.predict(x) - truth) ** 2)) < 0.07
    mean, std = model.predict(x, return_std=True)
    assert 0.7 < np.mean(np.abs(mean - truth) <= 1.645 * std) <= 1.0


def test_units_of_the_covariate_do_not_matter():
    x, y, _ = data(n=400, digits=12)
    plain = sw.KernelGradientRegressor().fit(x, y)
    moved = sw.KernelGradientRegressor().fit(1e5 * x - 3e4, 1e-3 * y)
    np.testing.assert_allclose(moved.predict(1e5 * x - 3e4), 1e-3 * plain.predict(x), rtol=0, atol=1e-7)


def test_standard_deviations_grow_to_the_priors_between_and_beyond_the_data():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(200) * 0.3, 0.7 + rng.random(200) * 0.3])
    model = sw.KernelRidgeRegressor(sw.kernels.Matern(0.05, smoothness=1.5), solver="line").fit(
        x[:, None], np.sin(9 * x) + 0.2 * rng.standard_normal(400)
    )
    _, std = model.predict(np.array([[0.15], [0.5], [0.99]]), return_std=True)
    assert std[1] > 3 * std[0]


@pytest.mark.parametrize("name", KERNELS)
def test_repeated_solves_and_products_are_those_of_the_matrix(name):
    rng = np.random.default_rng(4)
    kernel = sw.kernels.Sobolev(int(name[-1])) if name.startswith("sobolev") else resolved(name)
    kernel = sw.kernels.Laplace(0.2) if name == "laplace" else kernel
    x, weights, block = np.sort(rng.random(150)), rng.uniform(0.5, 2, 150), rng.standard_normal((150, 2))
    gram, new = kernel(x[:, None], x[:, None]), rng.random(20)
    inverse = np.linalg.inv(gram + np.diag(0.02 / weights))
    ones = inverse @ np.ones(150)
    projected = inverse - np.outer(ones, ones) / ones.sum()
    factor = LineFactor(merge_rows(x, block, weights), state_space(kernel), 0.02, intercept=True)
    np.testing.assert_allclose(
        factor.solve(block), projected @ block, rtol=0, atol=1e-8 * np.abs(projected @ block).max()
    )
    product = LineProduct(state_space(kernel), x)
    np.testing.assert_allclose(product.own(block), gram @ block, atol=1e-9)
    np.testing.assert_allclose(product.at(new, block), kernel(new[:, None], x[:, None]) @ block, atol=1e-9)


def test_bins_keep_every_sum_of_the_rows():
    rng = np.random.default_rng(5)
    rows = merge_rows(np.round(rng.random(1000), 3), rng.standard_normal((1000, 2)), rng.uniform(0.5, 2, 1000))
    binned = in_bins(rows, 64)
    assert binned.n_places == 64
    assert binned.n_samples == pytest.approx(rows.n_samples)
    total = (rows.weights[:, None] * rows.responses**2 + rows.within).sum(axis=0)
    np.testing.assert_allclose((binned.weights[:, None] * binned.responses**2 + binned.within).sum(axis=0), total)


@pytest.mark.parametrize(
    "x", [np.r_[np.zeros(200), np.linspace(0, 1, 200)], np.r_[np.linspace(0, 1e-9, 200), np.linspace(0.5, 1, 200)]]
)
def test_designs_that_splines_refuse_are_fitted(x):
    rng = np.random.default_rng(6)
    model = sw.KernelRidgeRegressor("sobolev2", solver="line").fit(x[:, None], x + 0.1 * rng.standard_normal(len(x)))
    assert np.all(np.isfinite(model.predict(x[:, None])))


@pytest.mark.parametrize("seed", [94, 237])
def test_an_earlier_dip_of_the_error_is_the_stop_as_on_all_eigenpairs(seed):
    """Left-out errors fall, rise above the allowance and fall again: the first dip is within it, and is taken."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(60, 1))
    y = np.sin(20 * x[:, 0]) + rng.normal(size=60)
    dense, line = (
        sw.KernelRidgeRegressor(sw.kernels.Matern(0.2, smoothness=2.5), solver=s).fit(x, y) for s in ("dense", "line")
    )
    assert line.step_sum_ == pytest.approx(dense.step_sum_, rel=1e-4)
    seen, errors = line.stop_.evidence, LeftOut(dense.path_)
    between = np.geomspace(line.step_sum_, seen.lowest_step_sum, 200)
    above, spread = errors.excess(between, errors(between[-1:])[0])
    assert (above > 0.55 * spread).any()
    assert above[0] <= 0.501 * spread[0]


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.StopwiseWarning")
@pytest.mark.parametrize("smoothness", [1.5, 2.5])
def test_how_far_a_row_is_beyond_all_others_makes_no_difference(smoothness):
    """At 1e60, as a sentinel is, the powers of the gap overflowed and LAPACK gave up."""
    rng = np.random.default_rng(0)
    x, kernel, new = (
        rng.uniform(size=400),
        sw.kernels.Matern(0.3, smoothness=smoothness),
        np.linspace(0, 1, 20)[:, None],
    )
    y = np.append(np.sin(5 * x) + 0.1 * rng.normal(size=400), 0.3)
    near, far = (
        sw.KernelGradientRegressor(kernel, solver="line").fit(np.append(x, at)[:, None], y) for at in (1e3, 1e100)
    )
    np.testing.assert_allclose(far.predict(new), near.predict(new), rtol=1e-9)
    np.testing.assert_allclose(far.predict_interval(new), near.predict_interval(new), rtol=1e-6)
