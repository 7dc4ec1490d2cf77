"""A linear part left unpenalised: the same numbers as ridge with a flat prior on slopes, written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stopwise as sw
from stopwise.engine.solvers.dense_solver import DenseSolver
from stopwise.engine.solvers.plan import Plan, Solution
from stopwise.filters import Ridge
from stopwise.noise import Known
from stopwise.problem import Problem, make_problem, make_trend
from stopwise.rules import Fixed, Prudent

KERNEL = sw.kernels.Matern(1.3)


def data(n: int = 40, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 20.0, 0.1][:d] + 5.0
    y = np.column_stack([X[:, 0] + np.sin(3 * X[:, 0]), 1e3 - X[:, 1]]) + 0.3 * rng.normal(size=(n, 2))
    return X, y, rng.integers(1, 4, size=n).astype(float)


def written_out(X: np.ndarray, y: np.ndarray, w: np.ndarray, penalty: float, new: np.ndarray) -> np.ndarray:
    """[G + penalty / w, F; F', 0] [dual, b] = [y, 0]: predictions at new rows."""
    F = np.column_stack([np.ones(len(X)), X])
    system = np.block([[KERNEL(X) + penalty * np.diag(1 / w), F], [F.T, np.zeros((F.shape[1], F.shape[1]))]])
    solved = np.linalg.solve(system, np.vstack([y, np.zeros((F.shape[1], y.shape[1]))]))
    return KERNEL(new, X) @ solved[: len(X)] + np.column_stack([np.ones(len(new)), new]) @ solved[len(X) :]


def solved(X: np.ndarray, y: np.ndarray, w: np.ndarray | None, step_sum: float) -> tuple[Problem, Solution]:
    problem = make_problem(X, y, w, intercept=True, seed=0).with_trend()
    plan = Plan(kernel=KERNEL, filter=Ridge(), rule=Fixed(step_sum=step_sum), noise=Known(1.0))
    return problem, DenseSolver().solve(problem, plan)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_fit_is_ridge_with_free_slopes(weighted: bool) -> None:
    X, y, w = data()
    w = w if weighted else np.ones(len(X))
    new = data(seed=1)[0][:7]
    _, solution = solved(X, y, w if weighted else None, 50.0)
    expected = written_out(X, y, w, w.sum() / 50.0, new)
    assert solution.slopes is not None
    predicted = KERNEL(new, X) @ solution.dual_coef + solution.intercept + new @ solution.slopes
    assert np.allclose(predicted, expected, rtol=1e-7)
    assert np.allclose(solution.path.fit(), written_out(X, y, w, w.sum() / 50.0, X), rtol=1e-7)


def test_a_row_with_a_feature_of_its_own_tells_the_rule_nothing() -> None:
    """Its slope fits it whatever it says: the smallest error is at the penalty of the fit without row and feature."""
    X, y, _ = data(60)
    alone = np.zeros((60, 1))
    alone[7] = 1.0
    penalties = []
    for features, rows in ((np.hstack([X, alone]), np.arange(60)), (X, np.delete(np.arange(60), 7))):
        scales = (0.8, 200.0, 1.0, 1e9)[: features.shape[1]]
        plan = Plan(kernel=sw.kernels.Matern(scales), filter=Ridge(), rule=Prudent(), noise=Known(1.0))
        problem = make_problem(features[rows], y[rows, :1], None, intercept=True, seed=0).with_trend()
        stop = DenseSolver().solve(problem, plan).stops[0]
        assert stop.evidence.lowest_step_sum
        penalties.append(len(rows) / stop.evidence.lowest_step_sum)
    assert penalties[0] == pytest.approx(penalties[1], rel=1e-3)


def test_left_out_residuals_are_those_of_fits_without_the_row() -> None:
    X, y, _ = data(25)
    _, solution = solved(X, y, None, 30.0)
    left_out = solution.path.leave_one_out()
    for i in (0, 7, 24):
        kept = np.arange(25) != i
        predicted = written_out(X[kept], y[kept], np.ones(24), 25 / 30.0, X[i : i + 1])[0]
        assert left_out[i] == pytest.approx(y[i] - predicted, rel=1e-6)


def test_a_linear_truth_without_noise_is_found_whatever_the_stop() -> None:
    X, _, _ = data()
    y = X @ [[1.0], [-2.0], [30.0]] + 4.0
    problem, solution = solved(X, y, None, 1e-6)
    assert solution.slopes is not None
    assert np.allclose(solution.slopes[:, 0], [1.0, -2.0, 30.0])
    assert solution.intercept == pytest.approx(4.0)
    assert np.allclose(problem.in_y_units(0), y[:, 0])


def test_columns_that_are_sums_of_others_add_nothing() -> None:
    X, _, w = data()
    trend = make_trend(np.column_stack([X, X[:, 0] + X[:, 1]]), w)
    assert trend.mixing.shape == (5, 4)
    columns = trend.at(np.column_stack([X, X[:, 0] + X[:, 1]]))
    assert np.allclose(columns.T @ (w[:, None] * columns), np.eye(4), atol=1e-10)


def test_slopes_of_some_features_are_those_of_a_table_that_holds_no_others() -> None:
    X, _, w = data()
    sloped = np.array([True, False, True])
    trend, alone = make_trend(X, w, sloped), make_trend(X[:, sloped], w)
    np.testing.assert_array_equal(trend.sloped, sloped)
    some, others = trend.at(X), alone.at(X[:, sloped])
    np.testing.assert_allclose(some @ some.T, others @ others.T, atol=1e-10)  # the same space, whatever its signs
    assert make_trend(X, w).sloped.all()


@pytest.mark.parametrize("constant", [0.1, 1 / 3, -3.0122e-08, 1e5 + 0.1])
def test_a_constant_column_has_no_slope_even_where_its_mean_rounds(constant: float) -> None:
    rng = np.random.default_rng(4)
    rows = np.column_stack([rng.normal(size=200), np.full(200, constant)])
    trend = make_trend(rows, rng.uniform(0.5, 2, size=200))
    assert trend.mixing.shape[1] == 2
    moved = trend.at(np.array([[0.0, constant + 1e-4]]))
    np.testing.assert_allclose(moved, trend.at(np.array([[0.0, constant]])), atol=1e-8)


def test_standard_deviations_count_the_slopes() -> None:
    """With nothing of the kernel's part, they are those of least squares."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=60)
    model = sw.KernelRidgeRegressor(rule=Fixed(step_sum=1e-9), noise_std=1.0).fit(X, y)
    assert model.linear_coef_ is not None
    new = rng.normal(size=(5, 2))
    F, f = np.column_stack([np.ones(60), X]), np.column_stack([np.ones(5), new])
    expected = np.sqrt(np.einsum("ij,ij->i", f @ np.linalg.inv(F.T @ F), f))
    own = replace(model.uncertainty(), others=None)  # without what other kernels would say
    ratio = own.std(new, "mean")[:, 0] / expected
    assert ratio == pytest.approx(np.full(5, ratio[0]), rel=1e-4)
    assert ratio[0] == pytest.approx(1.0, rel=0.2)  # the noise as left-out rows show it
    again = model.refit(3 * y + 1)
    assert again.predict(new) == pytest.approx(f @ np.linalg.lstsq(F, 3 * y + 1, rcond=None)[0], rel=1e-5)


def test_shares_that_add_up_to_a_hundred_but_for_their_last_digit_have_one_slope_less():
    rng = np.random.default_rng(0)
    two = rng.uniform(0, 50, size=(80, 2))
    shares = np.column_stack([two, np.round(100 - two.sum(axis=1), 7)])
    trend = make_trend(shares, None)
    assert trend.mixing.shape[1] == 3  # the constant and two slopes
    assert np.abs(trend.at(shares + np.array([0.0, 0.0, 1e-6]))).max() < 1.0
