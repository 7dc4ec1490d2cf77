"""Slopes that earn their place: picked as slow code picks them, and followed outside the data."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from stopwise.problem import make_problem
from stopwise.sample import look_at_features, make_sample
from stopwise.selection.candidates import judge
from stopwise.selection.learning import chosen_slopes, part_at

GROUPS = ((2, 3, 4), (6, 7))


def table(n=50, responses=1, seed=0):
    """Nine columns, of which 0, the group of 2, 3 and 4, and (weakly) 5 matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 9))
    y = 2 * X[:, 0] + X[:, 2] - X[:, 4] + 0.3 * X[:, 5] + rng.normal(size=n)
    return X, np.column_stack([y, y + rng.normal(size=n)])[:, :responses], rng.integers(1, 4, size=n).astype(float)


def sample_of(X, y, weights=None, shared=()):
    problem = make_problem(X, y, weights, intercept=True, seed=0)
    return make_sample(problem, look_at_features(X, weights, shared), 1000)


def slow_evidence(sample, picked):
    """-2 log likelihood of weighted least squares on the picked groups, its slopes' prior and the picking's."""
    groups, w = sample.groups, sample.weights
    columns = np.isin(groups, list(picked))
    design = np.column_stack([np.ones(len(w)), sample.covariates[:, columns]])
    scores, count = [], int(columns.sum())
    for y in sample.means.T:
        b = np.linalg.solve(design.T @ (w[:, None] * design), design.T @ (w * y))
        left, whole = w @ (y - design @ b) ** 2, w @ (y - np.average(y, weights=w)) ** 2
        free = w.sum() - 1 - count
        slopes = count * math.log(max((whole - left) / count, left / free)) if count else 0.0
        scores.append(free * math.log(left / free) + slopes)
    ways = math.comb(groups.max() + 1, len(picked))
    return float(np.mean(scores)) + 2 * math.log(ways) / sample.means.shape[1]


def slowly_chosen(sample):
    picked, best = set(), slow_evidence(sample, set())
    while others := set(np.unique(sample.groups).tolist()) - picked:
        score, group = min((slow_evidence(sample, picked | {each}), each) for each in others)
        if score >= best:
            break
        best, picked = score, picked | {group}
    return np.isin(sample.groups, list(picked))


@pytest.mark.parametrize("responses", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shared", [(), GROUPS])
def test_slopes_are_picked_as_by_least_squares_written_out(responses, weighted, shared):
    X, y, w = table(responses=responses)
    sample = sample_of(X, y, w if weighted else None, shared)
    chosen = chosen_slopes(sample, most=8)
    np.testing.assert_array_equal(chosen, slowly_chosen(sample))
    assert chosen[0]
    assert not chosen[8]
    if shared:  # a group enters whole
        assert chosen[[2, 3, 4]].all()
        assert not chosen[[6, 7]].any()


def test_all_columns_have_slopes_where_these_are_not_too_many_and_never_more_than_that():
    X, y, _ = table()
    sample = sample_of(X, y)
    assert chosen_slopes(sample, most=9).all()
    for most in (0, 1, 2):
        assert chosen_slopes(sample, most).sum() == most


def test_a_group_of_more_columns_than_rows_has_no_slopes_and_leaves_those_of_others():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=30), rng.normal(size=(30, 40))])
    chosen = chosen_slopes(
        sample_of(X, X[:, :1] + 0.1 * rng.normal(size=(30, 1)), shared=(tuple(range(1, 41)),)), most=6
    )
    assert np.flatnonzero(chosen).tolist() == [0]


def test_of_columns_that_say_the_same_one_has_a_slope_and_noise_has_none():
    X, y, _ = table()
    doubled = np.column_stack([X, X[:, 0] * 2 + 1])
    assert chosen_slopes(sample_of(doubled, y), most=8)[[0, 9]].sum() == 1
    noise = np.random.default_rng(5).normal(size=(50, 1))
    assert not chosen_slopes(sample_of(X, noise), most=8).any()


def test_what_is_picked_does_not_depend_on_units_order_of_rows_or_copies():
    X, y, _ = table()
    chosen = chosen_slopes(sample_of(X, y), most=8)
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_array_equal(chosen, chosen_slopes(sample_of(X[order] * 1e6 + 3, -y[order] / 7), most=8))
    twice = np.full(50, 2.0)
    np.testing.assert_array_equal(
        chosen_slopes(sample_of(X, y, twice), most=8), chosen_slopes(sample_of(X[order], y[order], twice), most=8)
    )


def delays(n=200, seed=0):
    """Arrivals late by what departures were late by, among 70 airports: more levels than slopes could be had for."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "late": rng.exponential(20, size=n),
            "miles": rng.uniform(100, 3000, size=n),
            "to": rng.choice([f"airport {i}" for i in range(70)], size=n),
        }
    )
    return frame, 1.1 * frame["late"].to_numpy() + 5 * rng.normal(size=n)


def test_a_table_of_many_levels_follows_its_line_far_outside_the_data():
    frame, y = delays()
    model = sw.KernelGradientRegressor().fit(frame, y)
    assert model.X_fit_.shape[1] > len(y) / 5
    assert model.selection_.chosen["linear"]
    slopes = model.linear_coef_
    assert slopes[0] == pytest.approx(1.1, rel=0.1)
    assert np.count_nonzero(slopes) == 1
    far = frame.iloc[:1].assign(late=2000.0)
    assert model.predict(far)[0] == pytest.approx(2200, rel=0.1)


def test_a_refit_and_intervals_keep_to_the_slopes_of_the_fit():
    frame, y = delays()
    model = sw.KernelRidgeRegressor().fit(frame, y)
    own = model.predict(frame[:20])
    _, std = model.predict(frame[:20].assign(late=300.0), return_std=True)
    assert np.all(np.isfinite(std))
    assert np.all(std < 100)
    model.refit(3 * y + 1)
    assert np.count_nonzero(model.linear_coef_) == 1
    np.testing.assert_allclose(model.predict(frame[:20]), 3 * own + 1, rtol=1e-6)


def test_where_a_line_suffices_every_candidate_is_listed_once():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 3))
    chosen = sw.KernelRidgeRegressor().fit(X, X @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=150))
    listed = [str({name: value for name, value in row.items() if name != "chosen"}) for row in chosen.selection_]
    assert len(listed) == len(set(listed)) > 10


def levels(n=120, lonely=(5,), seed=0):
    """A line, two more levels of a category, and one more that these rows alone have."""
    rng = np.random.default_rng(seed)
    level = rng.integers(3, size=n)
    level[list(lonely)] = 3 + np.arange(len(lonely))
    X = np.column_stack([rng.normal(size=(n, 2)), np.eye(3 + len(lonely))[level]])
    return X, X[:, 0] - X[:, 3] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("weighted", [False, True])
def test_decisive_rows_are_those_without_which_a_slope_is_lost(weighted):
    X, y = levels(lonely=(5, 17))
    sample = sample_of(X, y[:, None], np.random.default_rng(1).uniform(0.5, 2, 120) if weighted else None)
    design = np.column_stack([np.ones(120), sample.covariates])
    rank = np.linalg.matrix_rank(design)
    lost = [np.linalg.matrix_rank(np.delete(design, i, axis=0)) < rank for i in range(120)]
    assert sum(lost) == 2
    np.testing.assert_array_equal(sample.decisive, lost)
    np.testing.assert_array_equal(sample.with_linear().decisive, lost)
    assert not replace(sample, slopes=np.zeros(7, dtype=bool)).decisive.any()
    assert not sample_of(np.vstack([X, X[[5, 17]]]), np.append(y, [0.0, 1.0])[:, None]).decisive.any()  # two rows each


def test_rows_that_alone_decide_a_slope_count_for_no_candidate_and_the_others_are_left_out_as_ever():
    X, y = levels(60)
    sample = sample_of(X, y[:, None])
    at = int(np.flatnonzero(sample.decisive)[0])
    part = part_at(sw.kernels.Matern(), np.full(6, 3.0))
    for rows in (sample, sample.with_linear()):
        ridge = judge(rows, part)
        assert np.isfinite(ridge.score)
        assert ridge.errors[at] == 0
        gram = ridge.ratios[ridge.best[0]] / 60 * part.gram(sample)
        for i in np.delete(np.arange(60), at)[:8]:
            kept = np.arange(60) != i
            inverse = np.linalg.inv(gram[np.ix_(kept, kept)] + np.eye(59))
            design = rows.design(sample.covariates)
            b = np.linalg.pinv(design[kept].T @ inverse @ design[kept]) @ design[kept].T @ inverse @ sample.means[kept]
            predicted = design[i] @ b + gram[i, kept] @ inverse @ (sample.means[kept] - design[kept] @ b)
            assert ridge.errors[i, 0] == pytest.approx((sample.means[i] - predicted)[0] ** 2, rel=1e-6)


def test_a_level_that_one_row_alone_has_does_not_keep_the_others_from_their_line():
    X, y = levels()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sw.KernelRidgeRegressor().fit(X, y)
    assert model.selection_.chosen["linear"]
    assert all(np.isfinite(row["score"]) and np.isfinite(row["excess_error"]) for row in model.selection_)
    others = np.arange(120) != 5
    without = sw.KernelRidgeRegressor().fit(X[others], y[others])
    assert without.selection_.chosen["linear"]
    np.testing.assert_allclose(model.predict(X[others]), without.predict(X[others]), atol=0.02)
