"""Rows left out, and rows outside the sample, speak against candidates: by errors, and by how surprising they are."""

from dataclasses import replace

import numpy as np
import pytest

import stopwise as sw
from stopwise.problem import make_problem
from stopwise.sample import look_at_features, make_sample
from stopwise.selection.candidates import best_first, best_unbeaten, judge, not_refuted, unseen_losses
from stopwise.selection.learning import part_at


def rows_of(X, y, limit=10_000, weights=None):
    y = y if y.ndim == 2 else y[:, None]
    problem = make_problem(X, y, weights, intercept=True, seed=0)
    return make_sample(problem, look_at_features(X, weights), limit)


def by_hand(candidate, ratio, column, new):
    """Universal kriging of a new row of weight one, written out: mean, variance over s^2, and s^2."""
    sample = candidate.sample
    kernel = candidate.first.kernel.with_length_scale(candidate.first.scales)
    share = ratio / sample.n_samples
    inverse = np.linalg.inv(share * kernel(sample.covariates) + np.diag(1 / sample.weights))
    cross, prior = share * kernel(new, sample.covariates), share
    F, f, y = sample.design(sample.covariates), sample.design(new), sample.means[:, column]
    spread = np.linalg.inv(F.T @ inverse @ F)
    beta = spread @ F.T @ inverse @ y
    mean = f @ beta + cross @ inverse @ (y - F @ beta)
    gap = f - cross @ inverse @ F
    variance = prior - np.einsum("ij,jk,ik->i", cross, inverse, cross) + np.einsum("ij,jk,ik->i", gap, spread, gap)
    rest = y - F @ beta
    level = (rest @ inverse @ rest + sample.spread_within[column]) / (sample.n_samples - F.shape[1])
    return mean, variance, level


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_and_surprises_are_those_of_kriging_written_out(linear, weighted):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 2))
    X[60:75] = X[:15]  # replicates
    y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.3 * rng.normal(size=(90, 2))
    rows = rows_of(X, y, weights=rng.uniform(0.5, 2, 90) if weighted else None)
    sample = rows.first(40)
    sample = sample.with_linear() if linear else sample
    candidate = judge(sample, part_at(sw.kernels.Matern(), np.array([1.0, 2.0])))
    unseen = np.arange(40, rows.n_rows)
    found = unseen_losses(candidate, rows)
    new, truth = rows.covariates[unseen], (rows.means[unseen] - sample.middle) / sample.unit
    errors, surprises = np.zeros((2, unseen.size, 2))
    for j in range(2):
        errors[:, j] = (truth[:, j] - by_hand(candidate, candidate.ratios[candidate.best[j]], j, new)[0]) ** 2
        likeliest = candidate.ratios[np.argmin(candidate.evidence_curve[:, j])]
        mean, variance, level = by_hand(candidate, likeliest, j, new)
        variance = level * (variance + 1 / rows.weights[unseen])
        surprises[:, j] = np.log(variance) + (truth[:, j] - mean) ** 2 / variance
    np.testing.assert_allclose(found[0], errors.mean(axis=1), rtol=1e-8)
    np.testing.assert_allclose(found[1], surprises.mean(axis=1), rtol=1e-8, atol=1e-8)


def test_what_does_worse_on_unseen_rows_is_refuted(monkeypatch):
    rng = np.random.default_rng(14)
    X = rng.normal(size=(600, 4))
    y = np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=600)
    rows = make_sample(make_problem(X, y[:, None], None, intercept=True, seed=0), look_at_features(X, None), 600)
    sample = rows.first(200)
    good = judge(sample, part_at(sw.kernels.Gaussian(), np.full(4, 2.0)))
    wrong = judge(sample, replace(part_at(sw.kernels.Gaussian(), np.array([2.0, 2.0, 2.0, 1e3])), per_feature=True))
    assert not_refuted([wrong, good], rows) == [good]
    few = rows.first(300)  # of fewer than the sample, only the best by score is asked, if it has many length scales
    assert not_refuted([wrong, good], few) == [good, wrong]
    monkeypatch.setattr(
        "stopwise.selection.candidates.best_first", lambda all: sorted(all, key=lambda c: not c.per_feature)
    )
    assert not_refuted([wrong, good], few) == [good]


@pytest.mark.parametrize("seed", [1, 2])
def test_close_pairs_tell_a_rough_truth_from_noise_where_errors_do_not(seed):
    """A truth drawn from Laplace's kernel in eight dimensions, without noise; 15 of 600 rows have a close partner.

    A smooth kernel with much noise predicts about as well, but for the partners.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 8))
    X = np.vstack([X, X[:15] + 0.02 * rng.normal(size=(15, 8))])
    y = np.linalg.cholesky(sw.kernels.Laplace(4.0)(X)) @ rng.normal(size=len(X))
    rows = rows_of(X, y)
    sample = rows.first(300)
    shapes = [part_at(sw.kernels.Laplace(), np.full(8, 4.0)), part_at(sw.kernels.Matern(), np.full(8, 3.0))]
    rough, smooth = (judge(sample, part) for part in shapes)
    worse = unseen_losses(smooth, rows)[0] - unseen_losses(rough, rows)[0]
    assert abs(worse.mean()) < worse.std() / np.sqrt(worse.size)
    assert not_refuted([smooth, rough], rows) == [rough]


@pytest.mark.parametrize("seed", [0, 2, 3, 5])
def test_the_evidence_of_rows_without_noise_does_not_outvote_the_errors_of_rows_with_much(seed):
    rng = np.random.default_rng(seed)
    X, idle = rng.normal(size=(200, 2)), rng.random(200) < 0.6
    X[idle] *= 0.05
    sample = rows_of(X, np.where(idle, 0.0, X.sum(axis=1) + 0.5 * rng.normal(size=200)))
    kernels = sw.kernels.Gaussian(), sw.kernels.Matern(), sw.kernels.Laplace()
    tried = [judge(sample, part_at(kernel, np.full(2, scale))) for kernel in kernels for scale in (0.25, 1, 4, 16)]
    least = min(tried, key=lambda c: c.errors.sum())
    fair = []
    for each in tried:
        gaps = [a - b for a, b in zip(each.errors[:, 0], least.errors[:, 0], strict=True)]
        if sum(gaps) / 200 <= np.sqrt(np.var(gaps) / 200):
            fair.append(each)
    found = best_unbeaten(tried)
    assert found is min(fair, key=lambda c: c.score)
    assert found.score > best_first(tried)[0].score
    assert found.errors.sum() < 0.55 * best_first(tried)[0].errors.sum()
