"""Copies are one observation, chance ties are several, and weights know no unit."""

import numpy as np
import pytest

import stopwise as sw
from stopwise.copies import Observations, equal_rows, find_observations, left_out_weights


def smooth(seed=0, n=120, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=n))[:, None], rng


def levels(seed=0, n=1000, kind="binary"):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 10, size=(n, 1)) / 9.0
    mean = 0.2 + 0.6 * X[:, 0]
    y = rng.uniform(size=n) < mean if kind == "binary" else rng.poisson(5 * mean)
    return X, y.astype(float)[:, None], rng


def grid(seed=0, n=300):
    """Certain labels on so many places that few rows share one."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, size=(n, 4)).astype(float)
    return X, (X.sum(axis=1) > 14).astype(float)[:, None], rng


def as_table(found: Observations):
    """Weight and number of observations of every row, in the order of rows."""
    ones = np.ones(len(found.first))
    return (ones if found.weights is None else found.weights), (ones if found.counts is None else found.counts)


def same(one: Observations, other: Observations, X, Z):
    np.testing.assert_array_equal(X[one.first], Z[other.first])
    for left, right in zip(as_table(one), as_table(other), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)


def test_a_table_of_different_rows_is_itself():
    X, y, _ = smooth()
    found = find_observations(X, y)
    assert found.is_table
    assert found.weights is None
    assert found.counts is None
    np.testing.assert_array_equal(found.first, np.arange(120))
    np.testing.assert_array_equal(found.row_of, np.arange(120))


@pytest.mark.parametrize("share", [0.02, 0.2, 1.0])
def test_repeated_rows_of_a_continuous_response_are_one_observation_each(share):
    X, y, rng = smooth()
    again = rng.permutation(120)[: round(share * 120)]
    rows = rng.permutation(np.concatenate([np.arange(120), again]))
    found = find_observations(X[rows], y[rows])
    assert found.n_observations == len(found.first) == 120
    np.testing.assert_array_equal(X[rows][found.first][found.row_of], X[rows])
    weights, counts = as_table(found)
    assert weights.sum() == pytest.approx(120, rel=1e-12)
    assert np.all(counts == 1)
    twice = np.bincount(rows, minlength=120)[rows[found.first]]
    np.testing.assert_allclose(weights / weights.min(), twice / twice.min(), rtol=1e-12)


@pytest.mark.parametrize("kind", ["binary", "poisson"])
def test_responses_with_few_values_repeat_by_chance_and_count_one_by_one(kind):
    X, y, _ = levels(kind=kind)
    found = find_observations(X, y)
    assert found.n_observations == 1000
    assert len(found.first) == len(np.unique(np.column_stack([X, y]), axis=0))
    np.testing.assert_array_equal(np.bincount(found.row_of), as_table(found)[1])
    np.testing.assert_allclose(*as_table(found))


@pytest.mark.parametrize("make", [smooth, levels, grid])
@pytest.mark.parametrize("factor", [2.0, 3.0, 700.0])
def test_equal_weights_and_a_table_written_down_again_are_no_weights(make, factor):
    X, y, _ = make()
    plain = find_observations(X, y)
    same(plain, find_observations(X, y, np.full(len(y), factor)), X, X)
    again = np.repeat(np.arange(len(y)), int(min(factor, 3)))
    same(plain, find_observations(X[again], y[again]), X, X[again])


@pytest.mark.parametrize("make", [smooth, levels])
def test_a_whole_number_weight_is_the_row_so_many_times_and_zero_is_absence(make):
    X, y, rng = make()
    weights = rng.integers(0, 5, size=len(y)).astype(float)
    rows = np.repeat(np.arange(len(y)), weights.astype(int))
    weighted, repeated = find_observations(X, y, weights), find_observations(X[rows], y[rows])
    same(weighted, repeated, X, X[rows])
    kept = weights > 0
    same(weighted, find_observations(X[kept], y[kept], weights[kept]), X, X[kept])
    assert np.all((weighted.row_of >= 0) == kept)


@pytest.mark.parametrize("make", [smooth, levels])
def test_fractional_weights_have_no_unit_and_add_up_to_the_number_of_observations(make):
    X, y, rng = make()
    weights = rng.uniform(0.5, 2, size=len(y))
    one, other = find_observations(X, y, weights), find_observations(X, y, 7 * weights)
    same(one, other, X, X)
    assert one.n_observations == len(y)
    assert as_table(one)[0].sum() == pytest.approx(len(y))
    twice = np.tile(np.arange(len(y)), 2)
    same(one, find_observations(X[twice], y[twice], weights[twice]), X, X[twice])


def test_several_responses_are_copies_only_where_all_agree():
    X, y, rng = smooth()
    both = np.column_stack([y[:, 0], rng.normal(size=120)])
    rows = np.concatenate([np.arange(120), np.arange(30)])
    assert len(find_observations(X[rows], both[rows]).first) == 120
    both = both[rows]
    both[120:135, 1] += 1.0
    assert len(find_observations(X[rows], both).first) == 135


@pytest.mark.parametrize("seed", range(12))
def test_few_rows_that_meet_on_a_grid_are_observations_in_whatever_order(seed):
    """Of 300 rows eleven pairs meet by chance, and one shuffle of them as few as five."""
    X, y, rng = grid(seed)
    order = rng.permutation(len(y))
    assert find_observations(X, y).n_observations == find_observations(X[order], y[order]).n_observations == 300


def test_the_order_of_rows_changes_no_decision():
    X, y, rng = levels()
    order = rng.permutation(len(y))
    one, other = as_table(find_observations(X, y)), as_table(find_observations(X[order], y[order]))
    np.testing.assert_allclose(np.sort(one), np.sort(other), rtol=1e-12)


def test_a_constant_response_and_a_single_level_are_no_trouble():
    X, y, _ = levels()
    assert find_observations(X, np.zeros_like(y)).n_observations in (10, 1000)
    assert find_observations(np.zeros_like(X), y).n_observations == 1000


def test_zero_has_two_signs_and_one_value():
    numbers = equal_rows(np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 1.0]]))
    assert numbers[0] == numbers[1] != numbers[2]
    assert equal_rows(np.array([[0.0], [1.0]])) is None


def test_a_left_out_error_counts_by_the_inverse_of_its_variance():
    """Noise sigma^2 / w and an unknown part of a tenth of sigma^2; of several observations one is left out."""
    weights, counts = np.array([0.5, 1.0, 4.0, 900.0]), np.array([1.0, 1.0, 2.0, 3.0])
    each = weights / counts
    for given, variance, times in ((None, 1 / weights + 0.1, 1.0), (counts, 1 / each + 0.1, counts)):
        found = left_out_weights(weights, given)
        np.testing.assert_allclose(found / found[0], times * variance[0] / variance, rtol=1e-12)
        assert found.sum() == pytest.approx(weights.sum(), rel=1e-12)
    np.testing.assert_allclose(left_out_weights(np.full(5, 1.0)), 1.0, rtol=1e-15)
    np.testing.assert_allclose(left_out_weights(counts, counts), counts, rtol=1e-15)


@pytest.mark.parametrize("wrong", [0.0, 0.02])
def test_nearly_certain_labels_on_a_grid_are_observations_and_rows_written_down_again_are_not(wrong):
    """Rows of equal X agree in either case: only twins that shuffled columns would not have are copies."""
    rng = np.random.default_rng(0)
    grid = rng.integers(0, 4, (300, 3)).astype(float)
    labels = (grid[:, 0] + grid[:, 1] > 3) ^ (rng.uniform(size=300) < wrong)
    assert find_observations(grid, labels[:, None].astype(float)).n_observations == 300
    X = rng.normal(size=(300, 3))
    labels = (X[:, 0] > 0) ^ (rng.uniform(size=300) < wrong)
    some = np.append(np.arange(300), rng.permutation(300)[:60])
    assert find_observations(X[some], labels[some, None].astype(float)).n_observations == 300


def two_groups(wrong=0.05, n=60):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, size=n)
    return group, (group ^ (rng.uniform(size=n) < wrong)).astype(float)[:, None], rng


@pytest.mark.parametrize("wrong", [0.0, 0.05])
@pytest.mark.parametrize("columns", [lambda g: g[:, None], lambda g: np.eye(2)[g], lambda g: np.c_[g, np.ones(len(g))]])
def test_rows_of_few_groups_whose_response_is_nearly_certain_are_observations(columns, wrong):
    group, y, _ = two_groups(wrong)
    X = columns(group).astype(float)
    found = find_observations(X, y)
    assert found.n_observations == 60
    weights = 1.0 + np.arange(60) % 3
    rows = np.repeat(np.arange(60), weights.astype(int))
    same(find_observations(X, y, weights), find_observations(X[rows], y[rows]), X, X[rows])


@pytest.mark.parametrize("beside", [False, True])
def test_rows_written_down_again_are_copies_where_x_or_y_would_not_repeat_by_itself(beside):
    """A class by a measured feature, and a measured response by day; a constant column tells nothing of either."""
    rng = np.random.default_rng(0)
    some = np.append(np.arange(200), rng.permutation(200)[:60])
    feature, day = rng.normal(size=(200, 1)), np.arange(200.0)[:, None]
    for X, y in ((feature, (feature > 0).astype(float)), (day, np.sin(day / 9) + rng.normal(size=(200, 1)))):
        table = np.column_stack([X, np.ones(200)]) if beside else X
        assert find_observations(table[some], y[some]).n_observations == 200


def test_shares_of_two_groups_are_learned_by_regressor_and_classifier():
    group, y, _ = two_groups()
    X = group[:, None].astype(float)
    shares = np.array([y[group == g].mean() for g in (0, 1)])
    fitted = sw.KernelGradientRegressor().fit(X, y[:, 0]).predict([[0.0], [1.0]])
    np.testing.assert_allclose(fitted, shares, atol=0.02)
    proba = sw.KernelGradientClassifier().fit(X, y[:, 0]).predict_proba([[0.0], [1.0]])[:, 1]
    np.testing.assert_allclose(proba, shares, atol=0.1)
