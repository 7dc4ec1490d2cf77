"""Skewed features drawn in are candidates like any other: in the one list, by the one score, in the one table."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import stopwise as sw
from stopwise.kernels import Gaussian, Warped
from stopwise.kernels.warped import warp_of
from stopwise.problem import make_problem
from stopwise.sample import look_at_features, make_sample, with_powers
from stopwise.selection.candidates import BARELY, best_first, judge, unseen_losses
from stopwise.selection.choice import KERNELS, search_for
from stopwise.selection.kernel_search import Search
from stopwise.selection.learning import Evidence, part_at


def prices(n, seed=0, noise=0.1):
    """A smooth function of the logarithms of two skewed features, in units of their own, and one that is not skewed."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=(n, 3)) * (1.2, 0.9, 1.0)
    y = np.sin(logs[:, 0]) + 0.5 * logs[:, 1] + 0.3 * logs[:, 2] + noise * rng.normal(size=n)
    return np.column_stack([1e4 * np.exp(logs[:, 0]), 3 * np.exp(logs[:, 1]), logs[:, 2]]), y


def sample_of(n=80, seed=0, weights=None, shared=()):
    X, y = prices(n, seed)
    problem = replace(make_problem(X, y[:, None], weights, intercept=True, seed=0), shared_scales=shared)
    features = look_at_features(X, weights, shared)
    return X, features, with_powers(make_sample(problem, features, 10_000), features)


def test_the_table_lists_candidates_of_both_kinds_and_the_lowest_score_is_chosen():
    X, y = prices(150)
    table = sw.KernelRidgeRegressor().fit(X, y).selection_
    assert {row["warped"] for row in table} == {True, False}
    assert all(row["kernel"].startswith("warped ") == row["warped"] for row in table)
    assert table.chosen["score"] == min(row["score"] for row in table)
    plain = min((row for row in table if not row["warped"]), key=lambda row: row["score"])
    assert f"as they are they have {100 * plain['excess']:.1f}% more squared error" in table.reason


@pytest.mark.parametrize("weighted", [False, True])
def test_the_kernel_in_the_features_own_units_is_the_one_that_was_judged(weighted):
    weights = np.random.default_rng(1).uniform(0.5, 2, 80) if weighted else None
    _, features, sample = sample_of(weights=weights)
    part = part_at(sw.kernels.Matern(), np.array([0.7, 1.5, 2.0]))
    candidate = judge(sample.with_warp(), part)
    rows = features.centre + features.spread * sample.covariates
    kernel = candidate.in_units(features)
    assert isinstance(kernel, Warped)
    np.testing.assert_allclose(kernel(rows), part.gram(candidate.sample), rtol=1e-9)
    new = prices(30, seed=5)[0]
    np.testing.assert_allclose(
        kernel(new, rows), part.between(features.standardise(new), candidate.sample), rtol=1e-9, atol=1e-12
    )
    spread = np.sqrt(np.cov(candidate.sample.places.T, aweights=sample.weights, ddof=0).diagonal())
    np.testing.assert_allclose(spread, 1.0, rtol=1e-12)


def test_drawn_in_rows_are_learned_and_judged_like_plain_rows_that_lie_there():
    _, _, rows = sample_of(120)
    drawn = rows.first(60).with_warp()
    plain = replace(rows, covariates=drawn.seen_at(rows.covariates), warp=None)
    part = part_at(sw.kernels.Laplace(), np.ones(3))
    there, here = judge(drawn, part), judge(plain.first(60), part)
    assert there.score == pytest.approx(here.score, rel=1e-12)
    for lost, expected in zip(unseen_losses(there, rows), unseen_losses(here, plain), strict=True):
        np.testing.assert_allclose(lost, expected, rtol=1e-9)
    at = np.array([0.2, -0.3, 0.1, 1.0])
    np.testing.assert_allclose(
        Evidence(drawn, part.kernel)(at)[1], Evidence(plain.first(60), part.kernel)(at)[1], rtol=1e-9
    )


def test_a_linear_part_stays_one_of_the_features_as_they_are():
    _, _, sample = sample_of()
    both = sample.with_warp().with_linear()
    np.testing.assert_array_equal(both.fixed, sample.with_linear().fixed)
    assert not np.allclose(both.places, sample.places)


def test_columns_that_share_a_length_scale_are_left_as_they_are():
    _, _, sample = sample_of(shared=((0, 1),))
    assert sample.warp is None


def test_a_search_that_may_not_draw_in_has_no_such_candidates():
    X, y = prices(150)
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    assert not any(row["warped"] for row in search_for(problem, Search(KERNELS)).table)
    assert not isinstance(sw.KernelRidgeRegressor("gaussian").fit(X, y).kernel_, Warped)


def test_large_tables_profit_too_and_their_far_rows_decide_where_the_map_ends():
    (X, y), (new, truth) = prices(4_000), prices(1_000, seed=1, noise=0.0)
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    plain, found = (search_for(problem, Search(KERNELS[-2:], warped=warped)) for warped in (False, True))
    assert isinstance(found.kernel, Warped)
    assert found.table.n_rows == 600
    np.testing.assert_allclose(found.kernel.high, X.max(axis=0), rtol=1e-12)
    models = (sw.KernelRidgeRegressor(each.kernel).fit(X[:800], y[:800]) for each in (plain, found))
    other, error = (np.mean((model.predict(new) - truth) ** 2) for model in models)
    assert error < 0.9 * other
    assert found.table.chosen["score"] < plain.table.chosen["score"] - 0.1


def test_no_magnitude_of_a_skewed_feature_overflows():
    X, y = prices(100)
    far = np.column_stack([(X[:, 0] / X[:, 0].max() - 0.5) * 1.7e308, X[:, 1:]])
    problem = make_problem(far, y[:, None], None, intercept=True, seed=0)
    features = look_at_features(far, None)
    sample = with_powers(make_sample(problem, features, 100), features)
    assert np.isfinite(sample.with_warp().places).all()
    np.testing.assert_allclose(features.low, sample.covariates.min(axis=0), rtol=1e-9)
    np.testing.assert_allclose(features.high, sample.covariates.max(axis=0), rtol=1e-9)


def test_rows_drawn_in_by_themselves_lie_where_a_search_sees_them():
    X, features, sample = sample_of()
    kernel = warp_of(X, Gaussian())
    candidate = judge(sample.with_warp(), part_at(Gaussian(), np.ones(3)))
    assert kernel.power == candidate.in_units(features).power
    np.testing.assert_allclose(kernel.places(X), candidate.in_units(features).places(X), rtol=1e-9)
    assert warp_of(X, Gaussian(), left_alone=[0, 1]) is None


def test_features_are_drawn_in_where_that_is_more_than_barely_better():
    def candidate(score, warped):
        return SimpleNamespace(score=score, sample=SimpleNamespace(warped=warped, n_samples=100.0))

    plain = candidate(-1.0, False)
    for gain, first in ((0.9, False), (1.1, True)):
        drawn_in = candidate(-1.0 - gain * BARELY / 100, True)
        assert best_first([drawn_in, plain])[0].sample.warped is first


def test_twins_that_see_features_otherwise_take_no_place_among_the_finalists():
    """The best three that see features alike are kept, and of the others the best alone."""
    _, _, sample = sample_of(400, seed=3)
    search = Search(KERNELS, warped=True)
    tried = search._listed(sample.first(search.budget.rows))
    ranked = best_first(tried)
    kept = [c.sample.warped for c in search._finalists(tried, sample)]
    assert kept.count(ranked[0].sample.warped) >= 3
    assert kept.count(not ranked[0].sample.warped) == 1
