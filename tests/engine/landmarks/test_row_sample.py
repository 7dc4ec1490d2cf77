"""A sample of rows that merges, and the default rule on it."""

from dataclasses import replace

import numpy as np
import pytest

import stopwise as sw
from stopwise.engine.landmarks import row_sample
from stopwise.engine.landmarks.row_sample import sample_rows
from stopwise.engine.solvers import landmark_solver
from stopwise.rules.prudent import LeftOut


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(row_sample, "SAMPLE_ROWS", 50)


def rows(seed, n=400, levels=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)) if levels is None else rng.integers(0, levels, (n, 2)).astype(float)
    return X, rng.normal(size=(n, 1)), rng.uniform(0.5, 2, n)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("seed", range(20))
def test_the_sample_of_all_rows_is_that_of_their_parts_in_any_order(seed):
    rng = np.random.default_rng(seed)
    X, y, w = rows(seed)
    whole = sample_rows(X, y, w, None)
    parts = np.array_split(rng.permutation(len(X)), 1 + rng.integers(5))
    merged = None
    for part in parts:
        one = sample_rows(X[part], y[part], w[part], None)
        merged = one if merged is None else merged + one
    for name in ("keys", "covariates", "responses", "weights", "counts"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))


@pytest.mark.parametrize("levels", [None, 1, 3, 10])
def test_every_row_is_as_likely_as_another_on_grids_and_among_copies_too(levels, monkeypatch):
    monkeypatch.setattr(row_sample, "SAMPLE_ROWS", 2_000)
    X, y, _ = rows(1, 20_000, levels)
    if levels is None:  # an even grid: bits with a pattern
        X = np.stack(np.meshgrid(np.arange(200.0), np.arange(100.0)), axis=-1).reshape(-1, 2)
    found = sample_rows(X, y, None, None)
    assert len(found) == 2_000
    for all_rows, sampled in ((X, found.covariates), (y, found.responses)):
        off = np.abs(sampled.mean(axis=0) - all_rows.mean(axis=0))
        assert np.all(off <= 4 * all_rows.std(axis=0) / np.sqrt(2_000))


def test_rows_of_no_weight_are_not_there():
    X, y, w = rows(2)
    w[::2] = 0
    found = sample_rows(X, y, w, None)
    kept = sample_rows(X[1::2], y[1::2], w[1::2], None)
    np.testing.assert_array_equal(found.covariates, kept.covariates)
    np.testing.assert_array_equal(found.weights, kept.weights)


def problem(seed, n=400, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + noise * rng.normal(size=n), rng.integers(1, 4, n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cls", [sw.KernelGradientRegressor, sw.KernelRidgeRegressor])
@pytest.mark.parametrize("intercept", [False, True])
def test_with_every_row_a_landmark_the_default_stop_is_that_of_all_eigenpairs(cls, weighted, intercept):
    X, y, w = problem(3)
    given = (w,) if weighted else ()
    kernel = sw.kernels.Laplace(1.0)
    exact = cls(kernel, solver="dense", fit_intercept=intercept).fit(X, y, *given)
    found = cls(kernel, solver="nystrom", n_landmarks=len(X), fit_intercept=intercept).fit(X, y, *given)
    assert found.stop_.evidence.rule == exact.stop_.evidence.rule == "prudent"
    assert found.stop_.step_sum == pytest.approx(exact.stop_.step_sum, rel=1e-4)
    assert found.stop_.evidence.criterion == pytest.approx(exact.stop_.evidence.criterion, rel=1e-6)
    assert found.stop_.certainty.regret == 0


def test_left_out_errors_of_a_sample_are_those_of_fits_without_the_row(few):
    X, y, w = problem(4, 120)
    model = sw.KernelRidgeRegressor(sw.kernels.Matern(0.5), solver="nystrom", n_landmarks=30).fit(X, y, w / 7)
    stream = model._fitted.stream
    at, sample = model.stop_.step_sum, stream.moments.sample
    assert len(sample) == 50
    weights, number = len(X) * w / w.sum(), {row.tobytes(): i for i, row in enumerate(X)}
    left_out = [number[row.tobytes()] for row in sample.covariates]
    F = np.c_[np.ones(len(X)), stream.landmarks.features(X)]
    penalty = np.diag(np.r_[0, np.full(F.shape[1] - 1, len(X) / at)])
    shares = weights / (1 + weights / 10)
    total = 0.0
    for i in left_out:
        kept = weights * (np.arange(len(X)) != i)
        theta = np.linalg.solve(F.T @ (kept[:, None] * F) + penalty, F.T @ (kept * y))
        total += shares[i] * (y[i] - F[i] @ theta) ** 2
    error = model.stop_.evidence.criterion * float(np.ravel(model.path_.scale)[0]) ** 2
    assert error == pytest.approx(total / shares[left_out].sum(), rel=1e-6)


def test_what_a_sample_loses_is_rarely_more_than_its_regret(few):
    beyond, bounds, losses = 0, [], []
    for seed in range(40):
        X, y, _ = problem(100 + seed, 300, noise=(0.1, 1.0)[seed % 2])
        model = sw.KernelRidgeRegressor(sw.kernels.Laplace(1.0), solver="nystrom", n_landmarks=60).fit(X, y)
        errors = LeftOut(model.path_.column(0))
        here = float(errors.mean(np.array([model.stop_.step_sum]))[0])
        best = sw.KernelRidgeRegressor(sw.kernels.Laplace(1.0), solver="nystrom", n_landmarks=60)
        exact = best.set_params(rule=sw.rules.LeaveOneOut()).fit(X, y).stop_.step_sum
        lowest = float(errors.mean(np.array([exact]))[0])
        allowed = model.stop_.evidence.criterion - model.stop_.evidence.lowest
        bounds.append(model.stop_.certainty.regret)
        losses.append((here - lowest - allowed) / here)
        beyond += losses[-1] > bounds[-1]
    assert min(bounds) > 0
    assert beyond <= 1
    assert np.median(bounds) < 0.5


def test_only_the_default_rule_is_shown_rows(monkeypatch):
    def shown(*what):
        raise AssertionError("rows were made")

    monkeypatch.setattr(landmark_solver._Decisions, "_sampled", shown)
    X, y, _ = problem(6)
    for rule in (sw.rules.Critical(), sw.rules.GCV(), sw.rules.MarginalLikelihood()):
        model = sw.KernelRidgeRegressor(sw.kernels.Laplace(1.0), solver="nystrom", n_landmarks=20, rule=rule).fit(X, y)
        assert model.stop_.certainty.bracket is not None
    with pytest.raises(AssertionError, match="rows were made"):
        sw.KernelRidgeRegressor(sw.kernels.Laplace(1.0), solver="nystrom", n_landmarks=20).fit(X, y)


def test_models_of_the_first_version_without_a_sample_fall_back_to_sums():
    X, y, _ = problem(5, 1_100)
    model = sw.KernelRidgeRegressor(sw.kernels.Laplace(1.0), solver="nystrom", n_landmarks=40).partial_fit(X, y)
    stream = model._fitted.stream
    bare = replace(stream, moments=replace(stream.moments, sample=None))
    model._fitted = replace(model._fitted, stream=bare)
    model.partial_fit(X[:50] + 0.01, y[:50])
    assert model.stop_.evidence.rule == "critical"
    assert np.isfinite(model.predict(X)).all()
