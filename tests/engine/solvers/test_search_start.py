"""Where a search over penalties starts, from left-out errors of some rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stopwise.engine.solves.search_start import standard_error, start_from

PLACES = np.arange(-14.0, 6.0, 0.5)
ROWS = 1_000


def squares(means, spread, seed=0):
    """Errors of rows whose means over rows are given; those of two penalties differ by about `spread` a row."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(2, ROWS))
    noise -= noise.mean(1, keepdims=True)
    along = np.stack([np.cos(PLACES / 3), np.sin(PLACES / 3)], axis=1)
    return np.maximum(np.asarray(means)[:, None] + spread * along @ noise, 0.0)


def bowl(at, lowest=1.0):
    return lowest + (PLACES - at) ** 2 / 50


def logs(start):
    return [math.log(penalty) for penalty in start.penalties]


def test_the_standard_error_is_that_of_a_sum():
    gap = np.random.default_rng(0).normal(size=(3, 50))
    assert standard_error(gap) == pytest.approx(math.sqrt(50) * gap.std(1, ddof=1))


def test_one_minimum_is_one_start_and_its_error_is_told():
    start = start_from(PLACES, squares(bowl(-3.2), 0.1), energy=4.0 * ROWS)
    assert logs(start) == pytest.approx([-3.2], abs=0.02)  # between two readings
    assert start.error == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(("spread", "expected"), [(0.5, [-3.0, -10.0]), (0.05, [-3.0])])
def test_another_minimum_is_a_start_unless_chance_refutes_it(spread, expected):
    means = np.minimum(bowl(-3.0), bowl(-10.0, 1.03))
    assert logs(start_from(PLACES, squares(means, spread), ROWS)) == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize(("least", "worth"), [(1.2, 0.02), (2.0, 0.02), (3.0, 0.02), (1.2, 1e-4)])
def test_a_shoulder_that_more_rows_may_make_a_minimum_is_a_start(least, worth):
    """The mean falls all the way to the minimum at -5; t has another minimum, `least`, at -10."""
    away = np.abs(PLACES + 5.0)
    above = np.where(PLACES > -5.0, 0.02, worth) * away
    t = 4.0 + 0.05 * away - (4.25 - least) * np.exp(-((PLACES + 10.0) ** 2))
    noise = np.random.default_rng(1).normal(size=ROWS)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    rows = (1 + above)[:, None] + (above / t * math.sqrt(ROWS))[:, None] * noise
    open_ = least < 2.5 and worth > 1e-3  # standard errors, and the share that is worth a reading
    assert logs(start_from(PLACES, rows, ROWS)) == pytest.approx([-5.0, -10.0] if open_ else [-5.0], abs=0.3)


def test_no_penalty_half_as_bad_again_is_a_start_whatever_a_few_rows_hide():
    rows = squares(np.minimum(bowl(-3.0), bowl(-10.0, 1.0)), 0.1)
    rows[PLACES < -8.0, 0] += 0.7 * ROWS  # one row far off: its own standard error is as large as the difference
    assert logs(start_from(PLACES, rows, ROWS)) == pytest.approx([-3.0], abs=0.1)


def test_where_errors_level_off_the_largest_penalty_is_the_start():
    level = 1 - 1e-6 * PLACES.argsort()[::-1] + np.maximum(PLACES + 4.0, 0.0) ** 2 / 50
    assert logs(start_from(PLACES, squares(level, 0.1), ROWS)) == pytest.approx([-4.0], abs=0.5)


@pytest.mark.parametrize("end", [-1, 1])
def test_an_end_at_which_errors_level_off_is_no_start(end):
    towards = np.minimum(end * (PLACES + 4.0), 3.0)  # beyond, neither means nor rows change but for a trifle
    trifle = -1e-6 * end * PLACES
    noise = np.random.default_rng(0).normal(size=ROWS)
    rows = (1 + towards**2 / 300 + trifle)[:, None] + 0.3 * np.outer(towards, noise - noise.mean())
    assert logs(start_from(PLACES, rows, ROWS)) == pytest.approx([-4.0], abs=0.5)


def test_errors_that_overflow_are_no_start():
    rows = squares(bowl(-3.0), 0.1)
    rows[0, 5] = np.inf
    assert logs(start_from(PLACES, rows, ROWS)) == pytest.approx([-3.0], abs=0.1)


def test_a_response_of_no_energy_has_a_start():
    assert start_from(PLACES, np.zeros((PLACES.size, 20)), 0.0).error == 1.0
