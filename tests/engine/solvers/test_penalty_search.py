"""The search over penalties against a planted curve of left-out errors."""

import math

import numpy as np
import pytest

from stopwise.engine.solves.penalty_search import PenaltySearch

BEST = 1e-2


def planted(penalty):
    """Residuals whose mean square is 1 + (log penalty - log BEST)^2 / 100, the same for each row but for its sign."""
    signs = np.where(np.arange(400) % 2 == 0, 1.0, -1.0)
    return signs * math.sqrt(1 + math.log(penalty / BEST) ** 2 / 100)


def two_minima(penalty):
    """The same with the mean square 1 + d^2 / 100 about BEST and .9 + d^2 / 100 about its 10^4 times smaller."""
    near, far = (math.log(penalty / place) ** 2 / 100 for place in (BEST, 1e-4 * BEST))
    return np.sign(planted(penalty)) * math.sqrt(min(1 + near, 0.9 + far))


def search(curve=planted, **options):
    read = []

    def left_out(penalty):
        read.append(penalty)
        return curve(penalty)

    given = PenaltySearch(left_out, weight=400.0, total=400.0, smallest=1e-9, largest=1e6, **options)
    return given, read


@pytest.mark.parametrize("start", [1e-6, 1e-2, 10.0])
def test_the_smallest_error_is_found_from_either_side(start):
    found = search()[0].run((start,))
    assert found.lowest_penalty == pytest.approx(BEST, rel=0.05)
    assert found.lowest == pytest.approx(1.0, rel=1e-4)
    assert found.regret < 1e-3
    assert not found.at_end


def test_no_reading_is_made_below_what_is_affordable_and_the_regret_says_so():
    given, read = search(affordable=1.0)
    found = given.run((1e-4,))
    assert min(read) >= 1.0 * (1 - 1e-12)
    assert found.lowest_penalty == pytest.approx(1.0)
    assert not found.at_end
    # the last stride, from 4 to 1, gained this much; the curve is convex, so the next one gains less
    last = (planted(4.0)[0] ** 2 - planted(1.0)[0] ** 2) / planted(1.0)[0] ** 2
    assert found.regret >= last
    assert found.regret == pytest.approx(last, rel=0.2)


def test_an_affordable_penalty_below_the_best_costs_nothing():
    assert search(affordable=1e-5)[0].run((1.0,)).regret == pytest.approx(search()[0].run((1.0,)).regret)


@pytest.mark.parametrize("second", [1e-6, 1e-5, 1e-7, 1e-8])
def test_the_better_of_two_minima_is_found_from_a_start_beside_each(second):
    assert search(two_minima)[0].run((BEST,)).lowest == pytest.approx(1.0, rel=1e-3)  # what one start finds
    found = search(two_minima)[0].run((BEST, second))
    assert found.lowest == pytest.approx(0.9, rel=1e-3)
    assert found.lowest_penalty == pytest.approx(1e-4 * BEST, rel=0.1)
    assert found.regret < 0.01


def test_a_second_start_where_there_is_no_second_minimum_costs_few_readings():
    (one, read), (two, more) = search(), search()
    assert two.run((BEST, 1e-6)).lowest == pytest.approx(one.run((BEST,)).lowest, rel=1e-4)
    assert len(more) <= len(read) + 2


def test_strides_to_smaller_penalties_do_not_shrink_after_a_reading_between_others():
    """A parabola through the first readings has its minimum between them; the error falls on below all of them."""
    given, read = search(lambda penalty: np.sign(planted(penalty)) * math.sqrt(1 + 100 * penalty))
    assert given.run((1e-3,)).lowest == pytest.approx(1.0, rel=1e-3)
    assert len(read) <= 12


@pytest.mark.parametrize(("allowance", "first_dip"), [(5.0, False), (10.0, True)])
def test_the_stop_is_in_an_earlier_dip_where_that_is_within_the_allowance(allowance, first_dip):
    """Two dips a factor 10^4 apart: the earlier is 8 standard errors above the later, what lies between 160."""
    noise = np.random.default_rng(0).standard_normal(400)

    def left_out(penalty):
        place = math.log10(penalty / BEST) / 4
        return np.sqrt(1.05 + 0.02 * place + 3.2 * (place * (place - 1)) ** 2 + 0.05 * place * noise)

    given = PenaltySearch(left_out, weight=400.0, total=400.0, smallest=1e-6, largest=1e6, allowance=allowance)
    found = given.run((BEST,), also=tuple(np.log(np.geomspace(1e-4, 1e4, 17))))
    assert found.lowest_penalty == pytest.approx(BEST, rel=0.05)
    assert (found.penalty > 1e4 * BEST) == first_dip
    assert (found.penalty < 1.1 * BEST) != first_dip
    assert found.criterion - found.lowest <= allowance * found.standard_error


@pytest.mark.parametrize(("gain", "stands"), [(0.03, True), (0.1, False)])
@pytest.mark.parametrize("start", [1e-3, 1e5])
def test_a_dip_after_a_rise_from_the_constant_fit_must_be_clearly_below_it(gain, stands, start):
    """From the largest penalty on the mean square rises by .2 and falls by `gain`, whose standard error is .025."""

    def left_out(penalty):
        place = math.log10(1e6 / penalty) / 8
        mean = 1 + 0.2 * math.sin(math.pi * place) ** 2 - gain * math.exp(-(((place - 1) / 0.15) ** 2))
        return np.sqrt(mean + 0.5 * place * np.sign(planted(1.0)))

    given = PenaltySearch(left_out, weight=400.0, total=400.0, smallest=1e-4, largest=1e6)
    found = given.run((start,), also=tuple(np.log(np.geomspace(1e-4, 1e6, 21))))
    assert found.at_start == stands
    assert found.lowest_penalty == pytest.approx(BEST, rel=0.1)
    assert found.lowest == pytest.approx(1 - gain, rel=1e-3)
    assert found.criterion == pytest.approx(1.0 if stands else found.lowest, rel=1e-3)


@pytest.mark.parametrize("off", [0.01, 0.3])
def test_what_unfinished_solves_may_change_of_an_error_is_part_of_the_regret(off):
    """Squares 1 + 2 e d + d^2 of 400 rows, with d of root mean square `off` at each of two readings."""
    exact = search()[0].run((BEST,))
    rough = search(unsolved=lambda penalty: off)[0].run((BEST,))
    assert rough.penalty == exact.penalty
    chance = 2.5 * math.sqrt(2) * 2 * off / math.sqrt(400)
    assert rough.regret - exact.regret == pytest.approx(off**2 + chance, rel=0.05)
    assert rough.lasting == pytest.approx(off**2, rel=0.05)  # more rows would lower the rest
    assert exact.lasting == 0


def test_an_unsure_reading_far_above_the_smallest_error_costs_nothing():
    exact = search()[0].run((BEST,))
    rough = search(unsolved=lambda penalty: 0.05 if penalty > 1e3 * BEST else 0.0)[0].run(
        (BEST,), also=(math.log(1e5),)
    )
    assert rough.regret == pytest.approx(exact.regret, abs=1e-4)
    near = search(unsolved=lambda penalty: 0.05 if penalty < BEST else 0.0)[0].run((BEST,))
    assert near.regret > exact.regret + 1e-3
