"""Where rules stop, decision by decision: the clock's grid, minima and crossings of curves known by formula."""

import math

import numpy as np
import pytest

import stopwise as sw
from bare_paths import FILTERS, STEP, VALUES, bare
from stopwise.rules.base import clock_grid, stop_at
from stopwise.rules.search import first_true, minimise


def valley(bottom):
    """Smallest at `bottom`, and no parabola in the logarithm around it."""

    def depth(s):
        u = np.log(np.maximum(s, 1e-12) / bottom)
        return np.abs(u) ** 1.5 + 0.3 * u**2

    return depth


# --- the clock --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("horizon", [math.inf, 1.0, 0.7, 3.1, 40.0])
def test_the_grid_of_the_clock_is_reachable_from_zero_to_the_cap_and_never_past_it(name, horizon):
    path = bare(name, horizon=horizon)
    grid, cap = clock_grid(path), path.step_sum_cap
    assert cap == min(horizon, 1e3 / 0.02)
    assert grid[0] == 0
    assert np.all(np.diff(grid) > 0)
    if name == "cutoff":
        np.testing.assert_allclose(grid[1:], [1 / value for value in VALUES if 1 / value < cap], rtol=1e-11)
        return
    assert grid[-1] == pytest.approx(float(path.filter.snap(cap * (1 + 1e-12))), rel=1e-11)
    if isinstance(path.filter, sw.filters.SteppedFilter):
        np.testing.assert_allclose(path.filter.snap(grid), grid, rtol=1e-14)
        first = np.arange(min(64, int(path.filter.iteration(cap))) + 1)
        np.testing.assert_allclose(grid[: first.size], path.filter.step_sum(first), rtol=1e-14)
    else:
        assert grid[1] == pytest.approx(1e-3 / VALUES[0], rel=1e-12)
        assert np.all(grid[2:] / grid[1:-1] < 1.12)


def test_the_grid_of_a_clock_that_stands_still_is_zero():
    assert clock_grid(bare(values=[0.0, 0.0])).tolist() == [0.0]
    # an eigenvalue that is kept only past the cap is never kept, and a step past it never made
    assert clock_grid(bare("cutoff", [0.25, 0.1], horizon=4.0)).tolist() == [0.0]
    assert clock_grid(bare("descent", horizon=0.9 * STEP)).tolist() == [0.0]


def test_a_tiny_step_is_counted_from_none():
    grid = clock_grid(bare(sw.filters.GradientDescent(1e-5)))
    np.testing.assert_allclose(grid[:65], 1e-5 * np.arange(65), rtol=1e-14)


def test_a_stop_at_zero_says_that_no_step_is_justified():
    ridge, descent = FILTERS["ridge"], FILTERS["descent"].bind(1.0)
    for reason in sw.Reason:
        found = reason in (sw.Reason.CROSSING, sw.Reason.MINIMUM, sw.Reason.THRESHOLD)
        for filter in (ridge, descent):
            assert stop_at(filter, 0.0, reason).reason is (sw.Reason.ZERO if found else reason)
            assert stop_at(filter, 1.0, reason).reason is reason
        assert stop_at(descent, 0.9 * STEP, reason).reason is (sw.Reason.ZERO if found else reason)


# --- minima -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", ["local", "literal", "global"])
@pytest.mark.parametrize("name", FILTERS)
def test_without_a_spectrum_every_reading_stops_at_zero(name, reading):
    stop = minimise(bare(name, [0.0, 0.0]), valley(1.0), reading)
    assert (stop.step_sum, stop.reason, stop.details) == (0.0, sw.Reason.ZERO, {})
    assert stop.iteration == (0 if isinstance(FILTERS[name], sw.filters.SteppedFilter) else None)


@pytest.mark.parametrize("reading", ["local", "global"])
@pytest.mark.parametrize("bottom", [3e-3, 0.02, 0.971, 5.0, 47_100.0])
@pytest.mark.parametrize("name", ["ridge", "flow"])
def test_a_minimum_along_a_filter_without_steps_is_met_exactly(name, bottom, reading):
    stop = minimise(bare(name), valley(bottom), reading)
    assert stop.step_sum == pytest.approx(bottom, rel=1e-7)
    assert (stop.iteration, stop.reason) == (None, sw.Reason.MINIMUM)
    assert stop.details["criterion"] == valley(bottom)(np.asarray([stop.step_sum]))[0]


@pytest.mark.parametrize("reading", ["local", "global"])
@pytest.mark.parametrize("horizon", [math.inf, 1.0])
@pytest.mark.parametrize("name", FILTERS)
def test_a_criterion_that_only_falls_runs_to_the_cap(name, horizon, reading):
    path = bare(name, horizon=horizon)
    stop = minimise(path, lambda s: -s, reading)
    last = clock_grid(path)[-1]
    assert (stop.step_sum, stop.reason, stop.details) == (last, sw.Reason.CAP, {"criterion": -last})


@pytest.mark.parametrize("reading", ["local", "global"])
@pytest.mark.parametrize("name", FILTERS)
def test_a_criterion_that_only_rises_stops_at_zero(name, reading):
    stop = minimise(bare(name), lambda s: s + 7.0, reading)
    assert (stop.step_sum, stop.reason, stop.details) == (0.0, sw.Reason.ZERO, {"criterion": 7.0})


@pytest.mark.parametrize("reading", ["local", "global"])
@pytest.mark.parametrize("at", [1, 2, 4])
def test_cut_off_stops_at_an_eigenvalue_whatever_lies_between(at, reading):
    path = bare("cutoff")
    grid = clock_grid(path)
    stop = minimise(path, valley(grid[at] * 1.05), reading)
    assert stop.step_sum == grid[at]
    assert stop.reason is sw.Reason.MINIMUM


def test_cut_off_with_one_eigenvalue_keeps_it_or_not():
    path = bare("cutoff", [0.5])
    assert minimise(path, lambda s: -s).reason is sw.Reason.CAP
    shut = minimise(bare("cutoff", [0.5], horizon=1.9), lambda s: -s)
    assert (shut.step_sum, shut.reason) == (0.0, sw.Reason.ZERO)


def test_a_minimum_just_after_zero_is_the_first_reading():
    """Between zero and the first reading of the grid there is no scale to search on."""
    path = bare("ridge")
    first = clock_grid(path)[1]
    for reading in ("local", "global"):
        for bottom in (0.97, 1.02):
            assert minimise(path, valley(first * bottom), reading).step_sum == first


def test_the_first_of_two_minima_is_the_local_one_and_the_deeper_the_global_one():
    path = bare("ridge")

    def two(s):
        return np.minimum(valley(0.3)(s), valley(500.0)(s) - 0.5)

    local, overall = minimise(path, two, "local"), minimise(path, two, "global")
    assert local.step_sum == pytest.approx(0.3, rel=1e-7)
    assert overall.step_sum == pytest.approx(500.0, rel=1e-7)
    assert overall.details["criterion"] == pytest.approx(-0.5, abs=1e-9)


def test_a_minimum_in_the_last_stretch_before_the_cap_is_met():
    path = bare("ridge", horizon=50.0)
    grid = clock_grid(path)
    for reading in ("local", "global"):
        stop = minimise(path, valley(grid[-2] * 1.01), reading)
        assert stop.step_sum == pytest.approx(grid[-2] * 1.01, rel=1e-7)
        assert stop.reason is sw.Reason.MINIMUM


def test_a_level_stretch_is_not_a_rise():
    def terrace(s):
        return np.where(s < 2.0, 5.0, np.where(s < 12.0, 4.0, 4.0 + valley(60.0)(s) - valley(60.0)(12.0)))

    assert minimise(bare("ridge"), terrace, "local").step_sum == pytest.approx(60.0, rel=1e-7)
    assert minimise(bare("descent"), terrace, "local").step_sum == 60.0


def test_a_grid_minimum_is_kept_where_its_neighbourhood_is_worse():
    path = bare("ridge")
    grid = clock_grid(path)
    stop = minimise(path, lambda s: np.where(np.isin(s, grid[40]), 1.0, 2.0))
    assert (stop.step_sum, stop.details["criterion"]) == (grid[40], 1.0)


def test_readings_of_infinite_risk_are_passed_over_without_a_warning():
    stop = minimise(bare("ridge"), lambda s: np.where(s > 4.0, math.inf, 1 / (1 + s)))
    assert stop.step_sum == pytest.approx(4.0, rel=0.1)
    assert stop.step_sum <= 4.0


def test_not_a_number_is_refused_with_its_reading():
    with pytest.raises(ValueError, match="got NaN at step_sum 20"):
        minimise(bare("descent", horizon=20.0), lambda s: np.where(s == 20.0, math.nan, -s))


@pytest.mark.parametrize("name", ["descent", "nu-method"])
def test_every_iterate_is_found_where_it_is_the_first_to_rise(name):
    """A loop over iterates says where; the criterion falls again afterwards, below every value before."""
    path = bare(name)
    clock = path.filter.step_sum(np.arange(600))
    for t in [*range(4), 31, 63, 64, 65, 66, 127, 128, 129, 190, 191, 192, 193, 320, 447, 448, 449, 490]:
        bump = clock[t + 1]

        def criterion(s, bump=bump):
            return -s + np.where(s == bump, 0.1 + 2 * bump, 0.0)

        scores = criterion(clock)
        expected = next(i for i in range(len(clock)) if scores[i + 1] > scores[i])
        local, literal = minimise(path, criterion, "local"), minimise(path, criterion, "literal")
        assert local.iteration == expected == t
        assert local.details == {"criterion": scores[t]}
        assert (literal.iteration, literal.details) == (max(t - 1, 0), local.details)


@pytest.mark.parametrize(
    "t", [1, 2, 63, 64, 65, 66, 67, 97, 98, 99, 100, 101, 102, 1234, 5678, 23_456, 131_500, 133_000, 150_001]
)
@pytest.mark.parametrize("scan", [2**17, 50])
def test_a_valley_between_the_iterates_of_the_grid_is_met_to_the_step(t, scan):
    """Also where single iterates are given up early for a grid."""
    path = bare("descent")
    for reading in ("local", "global"):
        stop = minimise(path, valley(t * STEP * (1 + 1e-7)), reading, scan=scan)
        assert (stop.iteration, stop.reason) == (t, sw.Reason.MINIMUM)
        assert stop.details["criterion"] == valley(t * STEP * (1 + 1e-7))(np.asarray([t * STEP]))[0]


def test_a_rise_past_the_cap_is_not_seen():
    path = bare("descent", horizon=10.1 * STEP)
    stop = minimise(path, valley(10 * STEP), "local")
    assert (stop.iteration, stop.reason) == (10, sw.Reason.CAP)


def test_steps_beyond_what_a_float_counts_are_still_searched():
    path = bare(sw.filters.GradientDescent(1e-15))
    for bottom in (700.0, 33_333.0):
        assert minimise(path, valley(bottom)).step_sum == pytest.approx(bottom, rel=1e-8)
        assert first_true(path, lambda s, at=bottom: s >= at) == pytest.approx(bottom, rel=1e-12)


def test_the_literal_reading_counts_iterations():
    with pytest.raises(ValueError, match=r'^reading="literal" counts iterations: it needs a filter with steps$'):
        minimise(bare("ridge"), valley(1.0), "literal")


# --- crossings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["descent", "nu-method"])
def test_the_first_iterate_of_a_condition_is_found_to_the_step(name):
    path = bare(name)
    for t in [*range(1, 70), 101, 250, 333, 490]:
        here, before = (float(path.filter.step_sum(k)) for k in (t, t - 1))
        assert first_true(path, lambda s, here=here: s >= here) == here
        assert first_true(path, lambda s, before=before: s > before) == here
        assert first_true(path, lambda s: s >= 0, after=before) == here


@pytest.mark.parametrize("at", [1e-4, 4e-4, 5.3e-4, 0.7, 1.0, 23.0, 40_000.0])
@pytest.mark.parametrize("name", ["ridge", "flow"])
def test_the_first_reading_of_a_condition_is_found_to_rounding(name, at):
    assert first_true(bare(name), lambda s: s >= at) == pytest.approx(at, rel=1e-13)


def test_a_crossing_is_sought_past_a_reading_and_may_not_exist():
    path = bare("ridge")

    def never_asked_of_nothing(s):
        assert s.size
        return s >= 2.0

    assert first_true(path, never_asked_of_nothing, after=1.5) == pytest.approx(2.0, rel=1e-13)
    assert first_true(path, never_asked_of_nothing, after=path.step_sum_cap) is None
    assert first_true(path, lambda s: s < 0) is None
    grid = clock_grid(bare("cutoff"))
    assert first_true(bare("cutoff"), lambda s: s > 3.0) == next(g for g in grid if g > 3.0)
