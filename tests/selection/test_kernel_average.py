"""The winner shares its place with the best of other kernels where the data cannot tell them apart."""

from __future__ import annotations

import numpy as np
import pytest

import stopwise as sw
from stopwise.problem import make_problem
from stopwise.selection import kernel_average as hedge
from stopwise.selection.sample import look_at_features, make_sample
from stopwise.selection.scores import Ridge


def noisy(n: int = 120, seed: int = 0, noise: float = 1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(3 * X[:, 0]) + np.abs(X[:, 1]) + noise * rng.normal(size=n)


def test_noisy_data_get_an_average_and_the_table_says_so():
    X, y = noisy()
    model = sw.KernelRidgeRegressor(relevance=False).fit(X, y)
    assert isinstance(model.kernel_, sw.kernels.Sum)
    assert "averaged with the best" in model.selection_.reason
    chosen = model.selection_.chosen
    shares = [float(part.split()[0]) for part in chosen["kernel"].split(" + ")]
    assert shares == pytest.approx([0.6, 0.2, 0.2])
    assert model.kernel_.diagonal(X[:3]) == pytest.approx(1.0)


def test_smooth_data_without_noise_keep_the_winner_alone():
    X, _ = noisy(150)
    y = np.sin(X[:, 0]) * np.exp(-0.3 * X[:, 1] ** 2) + X[:, 2] ** 2
    model = sw.KernelRidgeRegressor(relevance=False).fit(X, y)
    assert isinstance(model.kernel_, sw.kernels.Gaussian)
    assert "averaged" not in model.selection_.reason


def test_a_kernel_asked_for_by_name_is_never_averaged():
    X, y = noisy()
    assert isinstance(sw.KernelRidgeRegressor("matern32").fit(X, y).kernel_, sw.kernels.Matern)


@pytest.mark.parametrize("seed", [13, 17, 28, 38])
def test_a_wiggly_winner_does_not_run_off_outside_the_data(seed, monkeypatch):
    """Inside the data both kinds predict alike; far to the right a lone Gaussian can be anywhere."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(2.0, 1.0, 150)
    y = np.sqrt(x) + 0.15 * x * rng.normal(size=150)
    far = np.array([[2.0 * x.max()]])

    def stays():
        predicted = sw.KernelRidgeRegressor().fit(x[:, None], y).predict(far)[0]
        return y.min() - np.ptp(y) < predicted < y.max() + np.ptp(y)

    assert stays()
    monkeypatch.setattr(hedge, "HEDGED_ROWS", 0)
    assert not stays()


@pytest.mark.filterwarnings("ignore::stopwise.estimators.doubts.TrustWarning")
@pytest.mark.parametrize("seed", [2, 4, 9])
def test_an_average_that_is_much_worse_is_not_taken_for_want_of_standard_error(seed, monkeypatch):
    """A few far rows, on which the average fails, make a standard error that hides any difference."""
    rng = np.random.default_rng(seed)
    X = rng.lognormal(sigma=1.3, size=(100, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.1 * X[:, 0] * X[:, 1]
    alone = sw.KernelRidgeRegressor(relevance=False).fit(X, y)
    assert isinstance(alone.kernel_, sw.kernels.Gaussian)
    monkeypatch.setattr(hedge, "_WORSE", np.inf)
    joined = sw.KernelRidgeRegressor(relevance=False).fit(X, y)
    assert isinstance(joined.kernel_, sw.kernels.Sum)
    assert joined.selection_.chosen["left_out_rmse"] > 2 * alone.selection_.chosen["left_out_rmse"]


def test_large_samples_are_not_hedged(monkeypatch):
    X, y = noisy()
    monkeypatch.setattr(hedge, "HEDGED_ROWS", 119)
    assert not isinstance(sw.KernelRidgeRegressor(relevance=False).fit(X, y).kernel_, sw.kernels.Sum)
    monkeypatch.setattr(hedge, "HEDGED_ROWS", 120)
    assert isinstance(sw.KernelRidgeRegressor(relevance=False).fit(X, y).kernel_, sw.kernels.Sum)


def test_units_do_not_change_an_average():
    X, y = noisy()
    new = X[:20] + 0.1
    plain = sw.KernelRidgeRegressor(relevance=False).fit(X, y)
    moved = sw.KernelRidgeRegressor(relevance=False).fit(X * [1e3, 1e-4, 7.0] + [5.0, 0.0, -1.0], 50 * y - 3)
    there = moved.predict(new * [1e3, 1e-4, 7.0] + [5.0, 0.0, -1.0])
    assert (there + 3) / 50 == pytest.approx(plain.predict(new), abs=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
def test_left_out_rows_are_those_of_ridge_fitted_without_them(intercept):
    X, y = noisy(25)
    X[3] = X[4]  # replicates are left out one at a time, and their errors added
    problem = make_problem(X, y[:, None], None, intercept=intercept, seed=0)
    features = look_at_features(X, None)
    sample = make_sample(problem, features)
    ridge = Ridge(sample, sw.kernels.Gaussian(2.0)(sample.covariates))
    ratio = ridge.ratios[int(np.argmin(ridge.log_left_out()))]
    rows = features.standardise(X)
    gram, target = sw.kernels.Gaussian(2.0)(rows), y - (y.mean() if intercept else 0.0)
    target = target / np.sqrt(np.mean(target**2))
    errors = np.zeros(sample.n_rows)
    for i in range(25):
        kept = np.arange(25) != i
        row, matrix = gram[i, kept], gram[np.ix_(kept, kept)]
        system = ratio / 25 * matrix + np.eye(24)
        if intercept:  # an intercept is a constant with a flat prior
            system = np.block([[system, np.ones((24, 1))], [np.ones((1, 24)), np.zeros((1, 1))]])
            solved = np.linalg.solve(system, np.append(target[kept], 0.0))
            predicted = ratio / 25 * row @ solved[:-1] + solved[-1]
        else:
            predicted = ratio / 25 * row @ np.linalg.solve(system, target[kept])
        place = np.argmin(np.abs(sample.covariates - rows[i]).sum(axis=1))
        errors[place] += (target[i] - predicted) ** 2
    assert ridge.left_out_rows() == pytest.approx(errors, rel=1e-6)
