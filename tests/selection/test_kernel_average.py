"""The winner shares its place with the best of other kernels where their sum has the lower score."""

from __future__ import annotations

import numpy as np
import pytest

import stopwise as sw
from stopwise.problem import make_problem
from stopwise.sample import look_at_features, make_sample
from stopwise.selection.candidates import judge
from stopwise.selection.choice import KERNELS, search_for
from stopwise.selection.kernel_search import Budget, Search
from stopwise.selection.learning import learn_shares, part_at


def noisy(n: int = 120, seed: int = 2, noise: float = 0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + noise * rng.normal(size=n)


def test_a_sum_of_kernels_has_the_lowest_score_and_the_table_says_so():
    X, y = noisy(seed=5)
    model = sw.KernelRidgeRegressor().fit(X, y)
    assert isinstance(model.kernel_, sw.kernels.Sum)
    assert "a sum of kernels, each with its share by the evidence" in model.selection_.reason
    chosen = model.selection_.chosen
    alike = [row for row in model.selection_ if all(row[name] == chosen[name] for name in ("rows", "per_feature"))]
    assert chosen["score"] == min(row["score"] for row in alike)
    shares = [float(part.split()[0]) for part in chosen["kernel"].split(" + ") if part != "linear"]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0, abs=0.02)  # shown to two digits
    assert model.kernel_.diagonal(X[:3]) == pytest.approx(1.0)


def test_learned_shares_have_the_highest_evidence_of_all_on_a_grid():
    X, _ = noisy(60)
    rng = np.random.default_rng(3)
    grams = [sw.kernels.Gaussian(1.5)(X), sw.kernels.Laplace(0.5)(X)]
    y = np.linalg.cholesky(30 * (0.7 * grams[0] + 0.3 * grams[1]) + np.eye(60)) @ rng.normal(size=60)
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    sample = make_sample(problem, look_at_features(X, None), 100)
    rows = sample.covariates
    grams = [sw.kernels.Gaussian(1.5)(rows), sw.kernels.Laplace(0.5)(rows)]
    parts = [
        part_at(kernel, np.full(3, scale))
        for kernel, scale in ((sw.kernels.Gaussian(), 1.5), (sw.kernels.Laplace(), 0.5))
    ]
    shares = learn_shares(sample, parts, 10.0)
    contrasts = np.linalg.svd(np.ones((60, 1)))[0][:, 1:]
    target = contrasts.T @ sample.means[:, 0]

    def evidence(share: float) -> float:
        """The best over signal-to-noise ratios, written out."""
        values = []
        for q in np.geomspace(0.1, 1e4, 120):
            matrix = contrasts.T @ (np.eye(60) + q * (share * grams[0] + (1 - share) * grams[1])) @ contrasts
            variance = target @ np.linalg.solve(matrix, target) / 59
            values.append(59 * np.log(variance) + np.linalg.slogdet(matrix)[1])
        return min(values)

    assert evidence(shares[0]) <= min(evidence(each) for each in np.linspace(0, 1, 41)) + 0.05


def test_smooth_data_without_noise_keep_the_winner_alone():
    X, _ = noisy(150)
    y = np.sin(X[:, 0]) * np.exp(-0.3 * X[:, 1] ** 2) + X[:, 2] ** 2
    model = sw.KernelRidgeRegressor(relevance=False).fit(X, y)
    assert isinstance(model.kernel_, sw.kernels.Gaussian)
    assert "a sum of kernels" not in model.selection_.reason


def test_a_kernel_asked_for_by_name_is_never_averaged():
    X, y = noisy()
    assert isinstance(sw.KernelRidgeRegressor("matern32").fit(X, y).kernel_, sw.kernels.Matern)


def chosen(X, y, **budget):
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    return search_for(problem, Search(KERNELS, linear=True, budget=Budget(**budget)))


@pytest.mark.parametrize("seed", [2, 4, 9])
def test_a_sum_is_only_taken_where_its_score_is_lower(seed):
    """With far rows, on which sums may fail too."""
    rng = np.random.default_rng(seed)
    X = rng.lognormal(sigma=1.3, size=(100, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.1 * X[:, 0] * X[:, 1]
    joined, alone = chosen(X, y), chosen(X, y, summed_rows=0)
    assert joined.table.chosen["score"] <= alone.table.chosen["score"]


def test_kernels_of_large_samples_are_not_summed():
    X, y = noisy(seed=5)
    assert not isinstance(chosen(X, y, summed_rows=119).kernel, sw.kernels.Sum)
    assert isinstance(chosen(X, y, summed_rows=120).kernel, sw.kernels.Sum)


def test_units_do_not_change_a_sum():
    X, y = noisy(seed=5)
    new = X[:20] + 0.1
    plain = sw.KernelRidgeRegressor().fit(X, y)
    assert isinstance(plain.kernel_, sw.kernels.Sum)
    moved = sw.KernelRidgeRegressor().fit(X * [1e3, 1e-4, 7.0] + [5.0, 0.0, -1.0], 50 * y - 3)
    there = moved.predict(new * [1e3, 1e-4, 7.0] + [5.0, 0.0, -1.0])
    assert (there + 3) / 50 == pytest.approx(plain.predict(new), abs=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
def test_left_out_rows_are_those_of_ridge_fitted_without_them(intercept):
    X, y = noisy(25)
    X[3] = X[4]  # replicates are left out one at a time, and their errors added
    problem = make_problem(X, y[:, None], None, intercept=intercept, seed=0)
    features = look_at_features(X, None)
    sample = make_sample(problem, features, 100)
    ridge = judge(sample, part_at(sw.kernels.Gaussian(), np.full(3, 2.0)))
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
    assert ridge.errors[:, 0] == pytest.approx(errors, rel=1e-6)
