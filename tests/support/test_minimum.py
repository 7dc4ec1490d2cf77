"""The smallest value along a log scale: found between the points of a grid, and kept at its ends."""

import math

import numpy as np
import pytest

from stopwise._support.minimum import lowest_on_log_scale

GRID = np.array([0.0, *np.geomspace(0.01, 5e9, 80)])


def lowest(function):
    return lowest_on_log_scale(GRID, np.array([function(s) for s in GRID]), function)


@pytest.mark.parametrize("at", [2, 3, 20, 79])
@pytest.mark.parametrize("shift", [0.86, 1.0, 1.16])
def test_the_lowest_value_is_found_between_the_readings_of_the_grid(at, shift):
    """A parabola in the logarithm, with a ripple of the third power so that no parabola goes through it."""
    bottom = math.log(GRID[at] * shift)

    def mean(s):
        u = math.log(s) - bottom if s else -60.0
        return 2 + u**2 + 0.1 * abs(u) ** 3

    where, value = lowest(mean)
    assert where == pytest.approx(math.exp(bottom), rel=2e-7)
    assert value == pytest.approx(2, rel=1e-12)


def test_the_lowest_value_at_an_end_stays_there():
    for at, curve in ((0, lambda s: s), (1, lambda s: abs(s - GRID[1])), (80, lambda s: -s)):
        assert lowest(curve) == (GRID[at], curve(GRID[at]))


def test_the_lowest_value_of_a_grid_is_kept_where_its_neighbourhood_is_worse():
    assert lowest(lambda s: 1.0 if s == GRID[30] else 2.0) == (GRID[30], 1.0)


@pytest.mark.parametrize("beyond", [math.inf, math.nan])
def test_readings_without_a_number_are_passed_over(beyond):
    """Not a number never wins, and no warning comes from a parabola through infinity."""
    where, value = lowest(lambda s: 1 / (1 + s) if s <= GRID[30] else beyond)
    assert where == pytest.approx(GRID[30], rel=1e-6)
    assert value == pytest.approx(1 / (1 + GRID[30]), rel=1e-6)
