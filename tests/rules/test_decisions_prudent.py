"""The default rule, decision by decision: left-out errors against refits, searches against curves known by formula."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import stopwise as sw
from stopwise._support.memory import TILE_ENTRIES
from stopwise.engine.operators import Dense
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.path import make_path
from stopwise.rules import prudent
from stopwise.rules.base import Data, clock_grid, coarse_pass
from stopwise.rules.prudent import LeftOut

WEIGHTS = np.array([2.0, 1.0, 0.5, 3.0, 1.0, 1.5, 1.0, 2.5, 1.0, 1.0, 0.7, 1.0])
GROUPS = np.array([0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 7])
"""Which of the twelve rows share their covariates."""
READINGS = np.array([0.0, 0.3, 4.0, 250.0])


def sample(seed=9, noise_std=0.3):
    """Twelve rows on eight places, their Gram matrix, and responses."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=8)[GROUPS]
    return np.exp(-4 * np.abs(x[:, None] - x)), np.sin(7 * x) + noise_std * rng.normal(size=12)


def ridge_path(gram, y, weights=None, intercept=False, filter=None, counts_of_rows=None):
    """The path of centred responses, its spectrum by LAPACK."""
    counts = np.ones(len(y)) if weights is None else weights
    centred = y - (counts @ y) / counts.sum() if intercept else y
    spectrum = dense_spectrum(Dense(gram, weights=weights, centred=intercept))
    root = None if weights is None else np.sqrt(weights)
    return make_path(
        spectrum, filter or sw.filters.Ridge(), centred, intercept=intercept, root_weights=root, counts=counts_of_rows
    )


def refitted(gram, y, weights, groups, inverse_penalty, intercept):
    """Squared errors of each group when ridge is solved again without its rows, at the same penalty.

    A row of weight w counts as w / (1 + w / 10), times what makes these add up to the weights.
    """
    errors, counted = [], weights / (1 + weights / 10)
    counted = counted * weights.sum() / counted.sum()
    for group in range(groups.max() + 1):
        out, kept = groups == group, groups != group
        inner = gram[np.ix_(kept, kept)]
        if inverse_penalty == 0:
            prediction = np.zeros(out.sum()) + (np.average(y[kept], weights=weights[kept]) if intercept else 0.0)
        else:
            system = inner + np.diag(weights.sum() / inverse_penalty / weights[kept])
            ones = np.ones((len(inner), 1)) if intercept else np.zeros((len(inner), 0))
            bordered = np.block([[system, ones], [ones.T, np.zeros((ones.shape[1],) * 2)]])
            solution = np.linalg.solve(bordered, np.append(y[kept], np.zeros(ones.shape[1])))
            prediction = gram[np.ix_(out, kept)] @ solution[: len(inner)] + solution[len(inner) :].sum()
        errors.append(counted[out] @ (y[out] - prediction) ** 2)
    return np.array(errors)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_left_out_errors_are_those_of_refits(weights, intercept):
    gram, y = sample()
    errors = LeftOut(ridge_path(gram, y, weights, intercept))
    counts, rows = (np.ones(12) if weights is None else weights), np.arange(12)
    expected = np.array([refitted(gram, y, counts, rows, s, intercept) for s in READINGS])
    np.testing.assert_allclose(errors(READINGS), expected, rtol=1e-9)
    np.testing.assert_allclose(errors.mean(READINGS), expected.sum(axis=1) / counts.sum(), rtol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_row_of_several_observations_leaves_out_one_of_them(intercept):
    gram, y = sample()
    counts = np.array([1.0, 2, 1, 3, 1, 1, 2, 1, 1, 1, 4, 1])
    errors = LeftOut(ridge_path(gram, y, counts, intercept, counts_of_rows=counts))(READINGS)
    rows = np.repeat(np.arange(12), counts.astype(int))
    every = gram[np.ix_(rows, rows)]
    alone = np.array([refitted(every, y[rows], np.ones(19), np.arange(19), s, intercept) for s in READINGS])
    np.testing.assert_allclose(errors, [np.bincount(rows, row) for row in alone], rtol=1e-9)


@pytest.mark.parametrize("times", [1, TILE_ENTRIES // 40])
def test_the_excess_is_a_paired_mean_and_its_standard_error(times):
    """Over observations, whether all readings are taken at once or a tile of them."""
    gram, y = sample()
    rows = np.arange(12)
    weights = 12 * WEIGHTS / WEIGHTS.sum()
    errors, readings = LeftOut(ridge_path(gram, y, weights)), np.tile(READINGS, times)
    best = refitted(gram, y, weights, rows, 9.0, False)
    above, spread = errors.excess(readings, best)
    for at, reading in enumerate(READINGS):
        gap = refitted(gram, y, weights, rows, reading, False) - best
        np.testing.assert_allclose(above[at :: len(READINGS)], gap.mean(), rtol=1e-9)
        np.testing.assert_allclose(spread[at :: len(READINGS)], np.std(gap) / math.sqrt(12), rtol=1e-9)
    means = [refitted(gram, y, weights, rows, s, False).mean() for s in READINGS]
    np.testing.assert_allclose(errors.mean(readings), np.tile(means, times), rtol=1e-9)


def test_a_row_that_is_fitted_whatever_it_says_has_an_infinite_error():
    """Silently: no residual over no leverage left is not a number, some residual over none is infinite."""
    path = SimpleNamespace(
        leverage_left=lambda s: np.array([[0.0, 0.0, 0.5]]),
        residual_rows=lambda s: np.array([[0.0, 1.0, 2.0]]),
        root_weights=None,
        row_weights=np.ones(3),
        fixed=None,
    )
    assert LeftOut(path)(np.array([1.0])).tolist() == [[math.inf, math.inf, 16.0]]


class Curve:
    """Stands in for left-out errors: an excess, or a mean, that is a formula of the reading."""

    def __init__(self, formula, spread=1.0):
        self.formula, self.spread = formula, spread

    def mean(self, readings):
        return np.array([self.formula(s) for s in readings])

    def excess(self, readings, best):
        return self.mean(readings), np.full(len(readings), self.spread)


GRID = np.array([0.0, *np.geomspace(0.01, 5e9, 80)])


@pytest.mark.parametrize("start", [0.0123, 0.3, 1.7, 23.0, 4.4e8])
@pytest.mark.parametrize("spread", [0.1, 40.0])
@pytest.mark.parametrize("dip", [1.0, 0.1])
def test_the_earliest_stop_is_where_the_first_stretch_within_the_allowance_begins(start, spread, dip):
    """Also where the error rises above the allowance once more before its smallest value."""

    def excess(s):
        return 0.2 * spread if s >= start or dip * start <= s <= 2 * dip * start else 0.3 * spread

    seen = ((dip * start <= GRID) & (2 * dip * start >= GRID)).any()
    found = sw.rules.Prudent(0.25)._earliest(Curve(excess, spread), GRID, GRID[-3] * 1.2, np.zeros(3))
    assert found == pytest.approx(dip * start if seen else start, rel=2e-9)
    assert excess(found) == 0.2 * spread


@pytest.mark.parametrize("start", [0.002, 0.0071])
def test_the_earliest_stop_may_lie_before_the_first_reading_of_the_grid(start):
    curve = Curve(lambda s: float(s < start))
    assert sw.rules.Prudent()._earliest(curve, GRID, 80.0, np.zeros(3)) == pytest.approx(start, rel=1e-6)


def test_the_earliest_stop_between_the_grid_and_the_best_is_found():
    best = GRID[20] * 1.1
    curve = Curve(lambda s: float(s < GRID[20] * 1.04))
    found = sw.rules.Prudent()._earliest(curve, GRID[:21], best, np.zeros(3))
    assert found == pytest.approx(GRID[20] * 1.04, rel=1e-8)


def test_the_allowance_itself_is_allowed_and_none_means_the_best():
    level = Curve(lambda s: 0.25)
    assert sw.rules.Prudent(0.25)._earliest(level, GRID, 80.0, np.zeros(3)) == 0.0
    assert sw.rules.Prudent(1)._earliest(level, GRID, 80.0, np.zeros(3)) == 0.0
    assert sw.rules.Prudent(0)._earliest(Curve(lambda s: 0.0), GRID, 80.0, np.zeros(3)) == 80.0
    assert sw.rules.Prudent(0.25)._earliest(level, GRID, 0.0, np.zeros(3)) == 0.0


@pytest.mark.parametrize("size", [1, 2, 3, 9, 10, 11, 12, 60])
def test_a_coarse_pass_keeps_its_start_its_end_and_every_eighth(size):
    grid = np.arange(size) * 1.5
    kept = [g for i, g in enumerate(grid) if i < 2 or (i - 2) % 8 == 0 or i == size - 1]
    assert coarse_pass(grid).tolist() == kept


def by_refits(gram, y, weights, groups, allowance):
    """The least mean error on a fine grid of refits, and where the stretch within the allowance before it begins."""
    clock = np.geomspace(2, 60, 800)
    errors = np.array([refitted(gram, y, weights, groups, s, False) for s in clock])
    means = errors.sum(axis=1) / weights.sum()
    best = int(np.argmin(means))
    gaps = errors - errors[best]
    allowed = allowance * np.std(gaps, axis=1) * math.sqrt(gaps.shape[1]) / weights.sum()
    first = best
    while first > 0 and means[first - 1] - means[best] <= allowed[first - 1]:
        first -= 1
    return clock[best], clock[first]


@pytest.mark.parametrize("allowance", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("seed", [9, 12])
def test_the_rule_stops_where_refits_on_a_fine_grid_say(seed, allowance):
    gram, y = sample(seed)
    weights = 12 * WEIGHTS / WEIGHTS.sum()
    path = replace(ridge_path(gram, y, weights), scale=3.0)
    stop = sw.rules.Prudent(allowance).select(path, data=Data(12))
    rows = np.arange(12)
    best, first = by_refits(gram, y, weights, rows, allowance)
    details = stop.details
    assert stop.reason is sw.Reason.MINIMUM
    assert stop.step_sum == pytest.approx(first, rel=0.02)
    assert details["lowest_step_sum"] == pytest.approx(best, rel=0.02)
    at_best, here = (
        refitted(gram, y, weights, rows, s, False) / 12 for s in (details["lowest_step_sum"], stop.step_sum)
    )
    error = np.std(here - at_best) * math.sqrt(len(here))
    assert details["lowest"] == pytest.approx(at_best.sum(), rel=1e-9)
    assert details["criterion"] == pytest.approx(here.sum(), rel=1e-9)
    assert details["standard_error"] == pytest.approx(error, rel=1e-6)
    assert details["allowance"] == allowance
    assert details["criterion"] - details["lowest"] == pytest.approx(allowance * error, rel=1e-6)


def test_another_filter_stops_at_the_last_iterate_before_the_reading_of_ridge():
    gram, y = sample(12)
    ridge = sw.rules.Prudent().select(ridge_path(gram, y))
    descent = ridge_path(gram, y, filter=sw.filters.GradientDescent(0.3))
    stop = sw.rules.Prudent().select(descent)
    assert stop.iteration == math.floor(ridge.step_sum / 0.3) > 0
    assert stop.step_sum == pytest.approx(0.3 * stop.iteration, rel=1e-14)
    assert stop.details == ridge.details


def interpolated():
    """Responses without noise, twelve rows apart: the left-out error falls to the end of the clock."""
    x = np.linspace(0, 1, 12)
    gram = np.exp(-((x[:, None] - x) ** 2) * 3)
    return ridge_path(gram, gram @ np.cos(5 * x))


def test_the_ceiling_of_the_inverse_penalty_is_in_units_of_the_kernel():
    path = interpolated()
    alone = sw.rules.Prudent(0).select(path)
    assert (alone.step_sum, alone.reason) == (prudent.CEILING, sw.Reason.CAP)
    for scale in (0.04, 7.0, 3e8, 1e10):
        stop = sw.rules.Prudent(0).select(path, data=Data(12, kernel_scale=scale))
        last = min(prudent.CEILING / scale, path.step_sum_cap)
        assert (stop.step_sum, stop.reason) == (pytest.approx(last, rel=1e-12), sw.Reason.CAP)
    nothing = sw.rules.Prudent(0).select(path, data=Data(12, kernel_scale=1e30))
    assert (nothing.step_sum, nothing.reason) == (0.0, sw.Reason.ZERO)


def test_a_stop_is_called_the_limit_only_at_the_last_reading_allowed():
    """Whichever reading is the last one: the ceiling is put on each in turn, and is itself allowed."""
    gram, y = sample(12)
    path = ridge_path(gram, y)
    reasons = set()
    for last in clock_grid(path)[1:150]:
        scale = prudent.CEILING / last
        if prudent.CEILING / scale != last:
            continue
        stop = sw.rules.Prudent(0).select(path, data=Data(12, kernel_scale=scale))
        assert stop.step_sum <= last
        assert stop.reason is (sw.Reason.CAP if stop.step_sum == last else sw.Reason.MINIMUM)
        reasons.add(stop.reason)
    assert reasons == {sw.Reason.CAP, sw.Reason.MINIMUM}


@pytest.mark.parametrize("filter", [sw.filters.Ridge(), sw.filters.GradientDescent(0.5)], ids=["ridge", "descent"])
def test_nothing_to_fit_or_nothing_to_fit_with_stops_at_zero(filter):
    gram, y = sample()
    for path in (ridge_path(gram, 0 * y, filter=filter), ridge_path(0 * gram, y, filter=filter)):
        stop = sw.rules.Prudent().select(path)
        assert (stop.step_sum, stop.reason, stop.details) == (0.0, sw.Reason.ZERO, {})
        assert stop.iteration == (0 if isinstance(filter, sw.filters.SteppedFilter) else None)


def test_a_clock_of_one_and_an_energy_of_one_are_like_any_other():
    gram, y = sample()
    path = ridge_path(gram, y / np.linalg.norm(y))
    path = replace(path, horizon=1.0, energy=np.asarray(1.0))
    assert path.step_sum_cap == 1.0
    stop = sw.rules.Prudent(0).select(path)
    assert 0 < stop.step_sum <= 1
    assert "criterion" in stop.details


def test_without_rows_the_norm_of_the_estimate_decides():
    gram, y = sample()
    path = ridge_path(gram, y)
    by_norm = sw.rules.Critical(hilbert_radius="self")
    assert sw.rules.Prudent().without_rows() == by_norm
    bare = replace(path, spectrum=replace(path.spectrum, basis=None))
    for lacking in (bare, replace(path, response=None)):
        stop = sw.rules.Prudent().select(lacking, 0.4, Data(12))
        assert stop == by_norm.decide(lacking, 0.4)
        assert stop.evidence.rule == "critical"
        assert stop.step_sum > 0
    assert sw.rules.Prudent().select(path, 0.4) != by_norm.select(path, 0.4)


def test_the_allowance_is_a_number_of_at_least_zero():
    for right in (0, 0.0, 0.25, 0.9, 3):
        assert sw.rules.Prudent(right).allowance == right
    for wrong in (-1e-9, math.nan, math.inf, "0.25", True, None):
        with pytest.raises(ValueError, match="allowance must be a number of at least 0 standard errors"):
            sw.rules.Prudent(wrong)
