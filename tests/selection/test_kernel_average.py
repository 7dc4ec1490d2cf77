"""The winner shares its place with the best of other kernels where the data cannot tell them apart."""

from __future__ import annotations

import numpy as np
import pytest

import stopwise as sw
from stopwise.problem import make_problem
from stopwise.selection.candidates import left_out
from stopwise.selection.choice import KERNELS, Budget, Search
from stopwise.selection.length_scales import Host
from stopwise.selection.rows import look_at_features, make_sample


def noisy(n: int = 120, seed: int = 2, noise: float = 0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + noise * rng.normal(size=n)


def test_noisy_data_get_an_average_and_the_table_says_so():
    X, y = noisy()
    model = sw.KernelRidgeRegressor(relevance=False).fit(X, y)
    assert isinstance(model.kernel_, sw.kernels.Sum)
    assert "averaged with kernels that left-out rows cannot tell" in model.selection_.reason
    chosen = model.selection_.chosen
    shares = [float(part.split()[0]) for part in chosen["kernel"].split(" + ") if part != "linear"]
    assert shares[0] == 0.5
    assert sum(shares) == pytest.approx(1.0, abs=0.02)  # shown to two digits
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


def chosen(X, y, **budget):
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    return Search(KERNELS, per_feature=False, budget=Budget(**budget)).run(problem)


@pytest.mark.parametrize("seed", [2, 4, 9])
def test_an_average_is_only_taken_where_left_out_rows_are_predicted_as_well(seed):
    """A few far rows, on which an average fails, make a standard error that hides any difference."""
    rng = np.random.default_rng(seed)
    X = rng.lognormal(sigma=1.3, size=(100, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.1 * X[:, 0] * X[:, 1]
    joined, alone = chosen(X, y), chosen(X, y, sharing=0)
    assert joined.table.chosen["left_out_rmse"] <= alone.table.chosen["left_out_rmse"] * (1 + 1e-9)


def test_large_samples_are_not_averaged():
    X, y = noisy()
    assert not isinstance(chosen(X, y, averaged_rows=119).kernel, sw.kernels.Sum)
    assert isinstance(chosen(X, y, averaged_rows=120).kernel, sw.kernels.Sum)


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
    sample = make_sample(problem, features, 100)
    ridge = left_out(sample, sw.kernels.Gaussian(2.0)(sample.covariates), Host())
    ratio = ridge.ratios[ridge.best[0]]
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
    assert ridge.rows[:, 0] == pytest.approx(errors, rel=1e-6)
