"""The practical path: minimisers along the clock, checked against ridge, a slow solver and brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
from helpers.loss_cases import CASES, problem

import stopwise as sw
from stopwise.engine.loss_fits import loss_minimiser, loss_path, newton_equations
from stopwise.engine.loss_fits.loss_minimiser import LossProblem, Minimiser, minimise
from stopwise.engine.loss_fits.loss_path import _constant_stands, _earliest, excess, mean_and_error, walk
from stopwise.engine.loss_fits.loss_rows import (
    EXACT_ROWS,
    LEAST_LANDMARKS,
    PER_DIMENSION,
    LossRows,
    kernel_problem,
    landmark_count,
)
from stopwise.kernels import Gaussian, Laplace, Matern

KERNELS = (Gaussian(1.0), Matern(1.5), Laplace(2.0))


def ridge(gram, y, weights, step_sum, intercept):
    """(G + a / w)^-1 y, with the intercept by its own equation; dense and slow."""
    n = len(y)
    matrix = gram + np.diag(weights.sum() / step_sum / weights)
    if not intercept:
        return gram @ np.linalg.solve(matrix, y)
    whole = np.block([[matrix, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    found = np.linalg.solve(whole, np.append(y, 0.0))
    return gram @ found[:-1] + found[-1]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_with_squares_the_path_is_ridge(weighted, intercept):
    for seed, kernel in enumerate(KERNELS):
        given, gram = problem("squared", kernel, 40, seed, weighted=weighted, intercept=intercept)
        for step_sum in (0.3, 30.0, 3000.0):
            found = minimise(given, step_sum, given.constant, 1e-13).fitted[:, 0]
            slow = ridge(gram, given.y, given.weights, step_sum, intercept)
            assert np.max(np.abs(found - slow)) < 1e-12 * np.max(np.abs(given.y)) * max(1.0, step_sum / 300)


def slow_minimum(given: LossProblem, step_sum: float) -> np.ndarray:
    """The same objective by a general optimiser, on values and slopes alone."""
    design, q = given.design, given.loss.width
    penalty = given.penalty(step_sum)

    def objective(flat):
        at = flat.reshape(-1, q)
        fitted = design @ at
        slope = design.T @ (given.weights[:, None] * given.loss.slope(given.y, fitted)) + penalty * at
        return given.parts(fitted)[0] + 0.5 * (penalty * at**2).sum(), slope.ravel()

    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 60}
    start = np.zeros(design.shape[1] * q)
    found = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return design @ found.x.reshape(-1, q)


def gradient_left(found: Minimiser) -> float:
    """The norm of the objective's gradient at a fit, as a share of the constant fit's."""
    given = found.problem
    here, constant = (
        given.design.T @ (given.weights[:, None] * given.loss.slope(given.y, f))
        for f in (found.fitted, given.constant.fitted)
    )
    return np.linalg.norm(here + given.penalty(found.step_sum) * found.coefficients) / np.linalg.norm(constant)


@pytest.mark.parametrize("name", CASES)
def test_newton_finds_the_minimum_that_a_slow_solver_finds(name):
    for seed, (kernel, weighted) in enumerate((k, w) for k in KERNELS for w in (False, True, False)):
        given, _ = problem(name, kernel, 25, 10 + seed, weighted=weighted, intercept=seed % 2 == 0)
        step_sum = (2.0, 20.0, 100.0)[seed % 3]
        found = minimise(given, step_sum, given.constant)
        assert gradient_left(found) < 1e-8
        assert np.max(np.abs(found.fitted - slow_minimum(given, step_sum))) < 1e-6 * max(
            1.0, np.abs(found.fitted).max()
        )


@pytest.mark.parametrize(("name", "direct_size"), [*((name, 900) for name in CASES), ("softmax", 1)])
def test_steps_are_those_of_the_whole_hessian_whichever_preconditioner_is_near(name, direct_size, monkeypatch):
    monkeypatch.setattr(newton_equations, "DIRECT_SIZE", direct_size)
    given, _ = problem(name, Matern(1.5), 60, 3, weighted=True, intercept=False)
    fit = minimise(given, 50.0, given.constant, 1e-2)
    penalty = given.penalty(50.0)
    here, there = (given.equations(penalty, at.parts[2], 1e-20) for at in (fit, given.constant))
    assert here.whole == given.design.shape[1]
    gradient = np.random.default_rng(0).normal(size=fit.coefficients.shape)
    hessian = np.einsum("ij,icd,ik->jckd", given.design, here.curvature, given.design).reshape(gradient.size, -1)
    hessian += np.diag(np.repeat(here.penalty[:, 0], gradient.shape[1]))
    slow = np.linalg.solve(hessian, gradient.ravel()).reshape(gradient.shape)
    for near in (here, there):
        assert np.allclose(here.direction(gradient, 1e-20, near), -slow, rtol=1e-6, atol=1e-8 * np.abs(slow).max())


def test_many_unknowns_are_preconditioned_by_the_mean_curvatures_at_any_penalty(monkeypatch):
    monkeypatch.setattr(newton_equations, "DIRECT_SIZE", 1)
    given, _ = problem("softmax", Matern(1.5), 60, 3)
    given = replace(given, features=given.features[:, :40])  # all of them whole
    fit = minimise(given, 50.0, given.constant)
    here = given.equations(given.penalty(50.0), fit.parts[2], 1e-20)
    block = np.random.default_rng(0).normal(size=fit.coefficients.shape)
    for near, step_sum in ((here, 50.0), (here.with_penalty(given.penalty(4.0)), 4.0)):
        penalty = np.maximum(given.penalty(step_sum)[:, 0], newton_equations.NEARLY_FREE * 60 / step_sum)
        mean = np.trace(fit.parts[2], axis1=1, axis2=2) / 2
        slow = np.linalg.solve(given.design.T @ (mean[:, None] * given.design) + np.diag(penalty), block)
        assert np.allclose(near.precondition(block), slow, rtol=1e-8, atol=1e-10)


def test_leverages_by_direction_are_exact_where_rows_curve_alike_and_close_elsewhere(monkeypatch):
    given, _ = problem("softmax", Matern(1.5), 120, 3)
    alike = Minimiser(50.0, given.constant.coefficients, given)
    fits = [alike, *(minimise(given, step_sum, given.constant) for step_sum in (10.0, 100.0, 1000.0))]
    whole = [fit.equations.leverages for fit in fits]
    means = [fit.left_out_mean for fit in fits]
    monkeypatch.setattr(newton_equations, "DIRECT_SIZE", 1)
    monkeypatch.setattr(loss_minimiser, "MORE_STEPS_ROWS", 0)
    again = [Minimiser(fit.step_sum, fit.coefficients, given) for fit in fits]
    assert np.allclose(again[0].equations.leverages, whole[0], rtol=1e-5, atol=1e-8)
    for fit, mean in zip(again[1:], means[1:], strict=True):
        assert fit.left_out_mean == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("neighbours", [1_000, 60])
def test_leverages_by_direction_turn_where_the_exact_ones_do(monkeypatch, neighbours):
    """Along the curvature of a row itself they went on falling: the stop was where four classes are fitted whole."""
    monkeypatch.setattr(loss_minimiser, "MORE_STEPS_ROWS", 0)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(240, 4))
        truth = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2], X[:, 3], -X[:, 0]])
        y = np.argmax(2 * truth + rng.gumbel(size=truth.shape), axis=1).astype(float)
        given = kernel_problem(Gaussian(1.5), LossRows(X, y, np.ones(240)), sw.losses.Softmax(4), 240, 0, True)
        fits = [minimise(given, step_sum, given.constant) for step_sum in (30.0, 300.0, 3e3, 3e4)]
        exact = [fit.left_out_mean for fit in fits]
        with monkeypatch.context() as patch:
            patch.setattr(newton_equations, "DIRECT_SIZE", 1)
            patch.setattr(newton_equations, "NEIGHBOURS", neighbours)
            near = [Minimiser(fit.step_sum, fit.coefficients, given).left_out_mean for fit in fits]
        assert np.argmin(near) == np.argmin(exact) == 2
        assert near[:3] == pytest.approx(exact[:3], rel=0.03)


def test_columns_of_little_share_enter_by_their_diagonal_and_change_little():
    for name in CASES:
        given, _ = problem(name, Laplace(2.0), 150, 4, weighted=True)
        exact = minimise(given, 5.0, given.constant)
        rough = minimise(given, 5.0, given.constant, 1e-2)
        assert rough.equations.whole < given.design.shape[1]
        assert rough.left_out_mean == pytest.approx(exact.left_out_mean, rel=0.02)
        if name == "squared":
            assert np.allclose(rough.equations.leverages, exact.equations.leverages, rtol=1e-9)


def test_with_squares_the_evidence_is_the_gaussian_one():
    for seed, kernel in enumerate(KERNELS):
        given, gram = problem("squared", kernel, 40, seed)
        for step_sum in (0.3, 30.0):
            matrix = np.eye(40) + gram * step_sum / 40
            inverse, ones = np.linalg.inv(matrix), np.ones(40)
            mass = ones @ inverse @ ones
            mean = ones @ inverse @ given.y / mass
            square = (given.y - mean) @ inverse @ (given.y - mean)
            slow = 0.5 * (square + np.linalg.slogdet(matrix)[1] + np.log(mass))
            assert minimise(given, step_sum, given.constant).evidence == pytest.approx(slow / 40, rel=1e-9)


def test_kernels_for_two_classes_are_ranked_with_their_evidence_and_others_without():
    for name, likely in (("logistic", True), ("softmax", False), ("poisson", False), ("quantile", False)):
        path = walk(problem(name, KERNELS[0], 60, 1)[0], final=False)
        least = min(at.evidence for at in path.readings) if likely else 0.0
        assert path.score == pytest.approx(path.lowest + least)


def left_out_by_hand(given: LossProblem, fit: Minimiser) -> np.ndarray:
    """Every row's loss by a fit without it, at the same penalty."""
    out = np.empty(len(given.y))
    for i in range(len(given.y)):
        keep = np.arange(len(given.y)) != i
        weights = given.weights[keep]
        part = LossProblem(given.features[keep], given.y[keep], weights, given.loss, given.intercept)
        start = Minimiser(0.0, fit.coefficients, part)
        without = minimise(part, fit.step_sum * part.n_samples / given.n_samples, start)
        at = given.design[i : i + 1] @ without.coefficients
        out[i] = given.loss.guarded(given.y[i : i + 1], at, given.n_samples)[0]
    return out


@pytest.mark.parametrize("name", CASES)
def test_left_out_losses_are_those_of_brute_force_at_the_stop(name):
    for seed in range(2):
        given, _ = problem(name, KERNELS[seed], 60, seed)
        path = walk(given)
        slow = left_out_by_hand(given, path.chosen).mean()
        assert path.chosen.left_out_mean == pytest.approx(slow, rel=1e-8 if name == "squared" else 0.02)


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_left_out_losses_are_within_two_percent_on_forty_problems_and_so_is_the_stop(name):
    for seed in range(6):
        given, _ = problem(name, KERNELS[seed % 3], (60, 120, 200)[seed % 3], seed, intercept=seed % 2 == 0)
        path = walk(given)
        slow = left_out_by_hand(given, path.chosen).mean()
        assert path.chosen.left_out_mean == pytest.approx(slow, rel=0.02)
        lowest = min(path.readings, key=lambda at: at.left_out_mean)
        near = [at for at in path.readings if abs(np.log(max(at.step_sum, 1e-9) / max(lowest.step_sum, 1e-9))) < 1.5]
        best = min(left_out_by_hand(given, at).mean() for at in near)
        at_best = left_out_by_hand(given, lowest).mean()
        assert at_best <= 1.02 * best


def test_a_walk_that_overshoots_counts_comes_back():
    given, _ = problem("poisson", Gaussian(1.0), 60, 3, intercept=False)
    path = walk(given)
    assert path.chosen.left_out_mean == pytest.approx(left_out_by_hand(given, path.chosen).mean(), rel=0.02)
    assert path.lowest < given.constant.left_out_mean


def test_the_stop_is_the_earliest_within_half_a_standard_error():
    given, _ = problem("logistic", Gaussian(1.0), 100, 5)
    path = walk(given)
    best = min(path.readings, key=lambda at: at.left_out_mean)
    above, error = excess(path.chosen, best)
    assert above <= 0.55 * error
    earlier = minimise(given, path.chosen.step_sum / 1.3, path.chosen)
    above, error = excess(earlier, best)
    assert above > 0.4 * error


def test_an_earlier_dip_within_half_a_standard_error_is_the_stop():
    """Losses of ten rows at readings 0 to 4, the last the best: the second, a dip before a rise, is near enough."""
    given, turns = SimpleNamespace(weights=np.ones(10), share=np.ones(10), n_samples=10.0), np.tile([-1.0, 1.0], 5)
    above = (9.0, 0.4, 9.0, 0.4, 0.0)  # standard errors
    readings = [
        SimpleNamespace(problem=given, step_sum=float(i), left_out_losses=2 + a / 10**0.5 + (a > 0) * turns)
        for i, a in enumerate(above)
    ]
    assert _earliest(readings, readings[-1], 0.5) == 1.0
    assert _earliest(readings, readings[-1], 0.0) == 4.0


@pytest.mark.parametrize(("gain", "stands"), [(1.0, True), (3.0, False)])
def test_the_constant_fit_stands_where_losses_rise_from_it_and_are_nowhere_clearly_lower(gain, stands):
    given, turns = SimpleNamespace(weights=np.ones(10), share=np.ones(10), n_samples=10.0), np.tile([-1.0, 1.0], 5)
    readings = [
        SimpleNamespace(problem=given, left_out_losses=losses, left_out_mean=losses.mean())
        for losses in (2 + a / 10**0.5 + (a != 0) * turns for a in (0.0, 0.5, -gain))
    ]
    assert _constant_stands(readings, 0.5) == stands
    assert not _constant_stands(readings, 0.0)
    assert not _constant_stands(readings[::2], 0.5)  # lower from the start


def test_where_the_constant_fit_stands_the_smallest_loss_is_told_as_it_is(monkeypatch):
    monkeypatch.setattr(loss_path, "constant_stands", lambda means, over_constant: True)
    given, _ = problem("logistic", Gaussian(1.0), 80, 2)
    path = walk(given)
    assert path.chosen is given.constant
    assert path.stop.evidence.criterion == pytest.approx(given.constant.left_out_mean)
    assert path.lowest == min(at.left_out_mean for at in path.readings) < given.constant.left_out_mean


def test_no_allowance_stops_at_the_minimum():
    given, _ = problem("poisson", Gaussian(1.0), 80, 2)
    path = walk(given, allowance=0.0)
    assert path.chosen.left_out_mean <= min(at.left_out_mean for at in path.readings) + 1e-9


@pytest.mark.parametrize("name", ["squared", "logistic", "softmax", "poisson", "huber"])
def test_one_observation_of_a_row_is_left_out_at_a_time_with_its_share_of_the_weight(name):
    plain, _ = problem(name, Gaussian(1.0), 30, 3)
    rng = np.random.default_rng(0)
    weights, counts = rng.uniform(0.5, 4, 30), rng.integers(1, 4, 30).astype(float)
    given = replace(plain, weights=weights, counts=counts)
    found = minimise(given, 3.0, given.constant, 1e-10).left_out
    for i in range(0, 30, 6):
        less = weights.copy()
        less[i] *= 1 - 1 / counts[i]
        less = np.maximum(less, 1e-12)
        without = replace(plain, weights=less)
        slow = minimise(without, 3.0 * less.sum() / weights.sum(), without.constant, 1e-10).fitted[i]
        assert np.allclose(found[i], slow, atol=1e-8 if name == "squared" else 0.03)


def test_a_standard_error_counts_observations_and_not_weights():
    """Six observations drawn over and over: the error of a weighted mean is that of sum w gap."""
    rng = np.random.default_rng(0)
    weights, counts = np.array([4.0, 1.0, 1.0]), np.array([2.0, 1.0, 3.0])
    given = LossProblem(np.empty((3, 0)), np.zeros(3), weights, sw.losses.Squared(), counts=counts)
    gap = np.array([1.0, -2.0, 0.5])
    mean, error = mean_and_error(given, gap)
    each = np.repeat(weights / counts * (gap - mean), counts.astype(int))
    assert mean == pytest.approx(2.5 / 6)
    drawn = each[rng.integers(0, 6, (100_000, 6))].mean(axis=1)
    assert error == pytest.approx(drawn.std(), rel=0.01)


def test_rows_stand_in_the_order_of_their_values():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 3, (40, 2)).astype(float), rng.integers(0, 2, 40).astype(float), rng.uniform(1, 2, 40)
    one, order = LossRows(*columns, np.arange(40.0)).in_order(), rng.permutation(40)
    other = LossRows(*(each[order] for each in columns), order.astype(float)).in_order()
    for name in ("covariates", "y", "weights", "counts"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    table = np.column_stack([one.covariates, one.y])
    assert np.array_equal(table, table[np.lexsort(table.T[::-1])])


def test_features_of_all_rows_are_the_kernel_and_of_some_never_more():
    rng = np.random.default_rng(0)
    rows = LossRows(rng.normal(size=(50, 3)), np.zeros(50), np.ones(50))
    kernel = Matern(1.5)
    gram = kernel(rows.covariates)
    whole = kernel_problem(kernel, rows, sw.losses.Squared(), None, 0, False).features
    assert np.allclose(whole @ whole.T, gram, atol=1e-10)
    some = kernel_problem(kernel, rows, sw.losses.Squared(), 10, 0, False).features
    assert some.shape[1] <= 10
    assert np.linalg.eigvalsh(gram - some @ some.T).min() > -1e-10


def test_landmarks_follow_the_effective_dimension_between_their_limits():
    counts = [landmark_count(1000, dimension) for dimension in (1.0, 25.3, 1000.0)]
    assert counts == [LEAST_LANDMARKS, math.ceil(PER_DIMENSION * 25.3), landmark_count(1000)]
    assert landmark_count(EXACT_ROWS, 1.0) == EXACT_ROWS
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = rng.random(900) < 1 / (1 + np.exp(-2 * X[:, 0]))
    few, all_of_them = (sw.KernelGradientClassifier(n_landmarks=count).fit(X, y) for count in ("auto", 400))
    assert len(few.X_fit_) < 400
    assert np.abs(few.predict_proba(X) - all_of_them.predict_proba(X)).max() < 0.02
