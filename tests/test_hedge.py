"""The winner shares its place with the best of other kernels where the data cannot tell them apart."""

from __future__ import annotations

import numpy as np
import pytest

import stopwise as sw
from stopwise.estimators import hedge
from stopwise.estimators.problem import make_problem
from stopwise.estimators.sample import look_at_features, make_sample
from stopwise.estimators.scores import Ridge


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


def test_a_wiggly_winner_does_not_run_off_outside_the_data():
    # Inside the data both kinds predict alike; far to the right a lone Gaussian can be anywhere.
    rng = np.random.default_rng(5)
    x = rng.gamma(2.0, 1.0, 150)
    y = np.sqrt(x) + 0.15 * x * rng.normal(size=150)
    far = np.array([[2.0 * x.max()]])
    predicted = sw.KernelRidgeRegressor().fit(x[:, None], y).predict(far)[0]
    assert y.min() - np.ptp(y) < predicted < y.max() + np.ptp(y)


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
    X[3] = X[4]  # copies are left out together, and their spread about their mean is not counted here
    sample = make_sample(make_problem(X, y[:, None], None, intercept=intercept, seed=0), look_at_features(X, None))
    gram = sw.kernels.Gaussian(2.0)(sample.covariates)
    ridge = Ridge(sample, gram)
    ratio = ridge.ratios[int(np.argmin(ridge.log_left_out()))]
    errors = []
    for i in range(sample.n_rows):
        kept = np.arange(sample.n_rows) != i
        w = sample.weights[kept]
        target = sample.means[kept, 0]
        middle = np.average(target, weights=w) if intercept else 0.0
        row, matrix = gram[i, kept], gram[np.ix_(kept, kept)]
        system = ratio / sample.n_samples * matrix + np.diag(1 / w)
        if intercept:  # an intercept is a constant with a flat prior
            system = np.block([[system, np.ones((w.size, 1))], [np.ones((1, w.size)), np.zeros((1, 1))]])
            solved = np.linalg.solve(system, np.append(target - middle, 0.0))
            predicted = ratio / sample.n_samples * row @ solved[:-1] + solved[-1]
        else:
            predicted = ratio / sample.n_samples * row @ np.linalg.solve(system, target)
        errors.append(sample.weights[i] * (sample.means[i, 0] - middle - predicted) ** 2)
    assert ridge.left_out_rows() == pytest.approx(np.array(errors), rel=1e-6)
