"""Along the clock for any loss: warm-started minimisers, and the default stop.

The rule is that of least squares (`rules.Prudent`): the earliest reading whose left-out loss is within half a standard
error of the smallest, the standard error being that of the paired difference over rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from scipy.interpolate import CubicSpline

from stopwise._support.arrays import Array
from stopwise._support.minimum import log_vertex
from stopwise.engine.loss_fits.loss_minimiser import LossProblem, Minimiser, minimise
from stopwise.rules import Evidence, Reason, Stop
from stopwise.rules.prudent import constant_stands

RATIO, ROUGH_RATIO = 16.0, 10.0
"""Neighbouring readings of the clock differ by this factor; by the second where only the smallest loss is wanted."""
_MORE_READINGS, _NEAR, _NARROW = 3, 0.35, 5.0
"""At most so many are added (one to a rough walk), until the lowest is as near as this to a parabola's minimum on the
log clock, and the reading before it is no further than this factor."""
COARSE = 1e-2
"""Newton's tolerance along the clock: left-out losses are right to about its square."""
START = 0.05
"""The first reading after 0, over 1 / (largest eigenvalue x largest curvature): hardly anything is fitted there."""
CEILING = 1e9
"""The last reading, over 1 / (mean diagonal of the kernel): what fits better beyond is rounding."""
_RISE_ERRORS, _ROUGH_RISE_ERRORS = 1.0, 2.0
"""The walk ends at a reading that is worse than the best by so many standard errors (a rough one by the second),"""
_HOPELESS = 2.0
"""or worse than the constant fit by this factor, whatever the standard error."""
_FINE, _HALVINGS = 65, 10
"""Where the spline is looked at for its minimum, and how often the distance to the reading before is halved."""
_ATTEMPTS, _AIM, _SAME = 3, 0.9, 1e-3
"""A stop by the spline is sought at this share of the allowance. Where its own excess is beyond the allowance it is one
more reading, so many times, unless there is one at this relative distance."""
_LARGEST = 1e100
_mean, _step_sum = attrgetter("left_out_mean"), attrgetter("step_sum")


@dataclass(frozen=True)
class LossPath:
    """Minimisers at the readings that were looked at, in order, and the one that the rule stops at."""

    readings: tuple[Minimiser, ...]
    chosen: Minimiser
    stop: Stop

    @property
    def lowest(self) -> float:
        """The smallest mean left-out loss, in the units of y."""
        return float(self.stop.evidence.lowest or 0.0)

    @property
    def score(self) -> float:
        """What kernels are ranked by: the smallest left-out loss, plus the smallest evidence where there is one."""
        if not self.chosen.problem.has_evidence:
            return self.lowest
        return self.lowest + min(at.evidence for at in self.readings if math.isfinite(at.left_out_mean))


def walk(problem: LossProblem, *, allowance: float = 0.5, final: bool = True) -> LossPath:
    """Go along the clock from the constant fit, and stop by the rule; not `final`: at the minimum, roughly."""
    readings = [problem.constant]
    if np.ptp(problem.y) == 0 and problem.intercept:  # nothing is compared
        evidence = Evidence("prudent", problem.unit * problem.constant.left_out_mean)
        return LossPath(tuple(readings), readings[0], Stop(None, 0.0, Reason.ZERO, evidence))
    ratio, rise = (RATIO, _RISE_ERRORS) if final else (ROUGH_RATIO, _ROUGH_RISE_ERRORS)
    for step_sum in _clock(problem, ratio):
        readings.append(minimise(problem, step_sum, readings[-1], COARSE))
        best = min(readings, key=_mean)
        above, error = excess(readings[-1], best)
        hopeless = readings[-1].left_out_mean > _HOPELESS * readings[0].left_out_mean
        worse = hopeless or above > max(rise * error, 1e-6 * abs(best.left_out_mean))
        falls = not final and problem.has_evidence and readings[-1].evidence < readings[-2].evidence
        if worse and not falls:
            break
    if final and _constant_stands(readings, allowance):
        best = min(readings, key=_mean)
        return LossPath(tuple(readings), readings[0], _told(readings[0], best, math.inf, allowance))
    closer = _closer(problem, readings, final)
    best = chosen = min(closer, key=_mean)
    if final:
        readings, chosen = closer, _stopped(problem, closer, best, allowance)
        best = chosen if chosen.step_sum == best.step_sum else min(chosen, best, key=_mean)
    return LossPath(tuple(readings), chosen, _told(chosen, best, readings[-1].step_sum, allowance))


def _clock(problem: LossProblem, ratio: float) -> Array:
    """Readings after 0, evenly spaced on a log scale."""
    energies, n = problem.energies, problem.n_samples
    if not energies.size or energies[0] == 0:
        return np.empty(0)
    first = START * n / (float(energies[0]) * problem.bend)
    last = max(CEILING / (problem.kernel_scale * problem.bend), 4 * first)
    return np.geomspace(first, last, 1 + math.ceil(math.log(last / first) / math.log(ratio)))


def excess(one: Minimiser, best: Minimiser) -> tuple[float, float]:
    """How much larger one mean left-out loss is than another, and the standard error of this difference."""
    return mean_and_error(one.problem, one.left_out_losses - best.left_out_losses)


def mean_and_error(problem: LossProblem, gap: Array) -> tuple[float, float]:
    """The mean of a value for each row, and its standard error over observations."""
    w, n = problem.weights, problem.n_samples
    if not np.all(np.abs(gap) < _LARGEST):
        return math.inf, 0.0
    mean = float(w @ gap) / n
    return mean, math.sqrt(float((w**2 * problem.share) @ (gap - mean) ** 2)) / n


def _constant_stands(readings: list[Minimiser], allowance: float) -> bool:
    """Whether no reading is to be preferred to the constant fit, the first of them."""
    means, first = np.array([_mean(each) for each in readings]), readings[0]
    return allowance > 0 and constant_stands(means, lambda: np.transpose([excess(each, first) for each in readings]))


def _closer(problem: LossProblem, readings: list[Minimiser], final: bool) -> list[Minimiser]:
    """The readings, and more where the parabola through the lowest and its neighbours has its minimum.

    Of a `final` walk, where the lowest is near that, the next is halfway to the reading before: the stop may be there.
    """
    for _ in range(_MORE_READINGS if final else 1):
        at = int(np.argmin([_mean(each) for each in readings]))
        if not 2 <= at < len(readings) - 1:  # the first reading is 0, which has no logarithm
            break
        near = readings[at - 1 : at + 2]
        places = np.array([each.step_sum for each in near])
        step_sum = log_vertex(places, np.minimum([_mean(each) for each in near], _HOPELESS * _mean(readings[0])))
        if final and abs(math.log(step_sum / places[1])) < _NEAR:
            if places[1] < _NARROW * places[0]:
                break
            step_sum = math.sqrt(places[0] * places[1])
        readings = sorted([*readings, minimise(problem, step_sum, near[1], COARSE)], key=_step_sum)
    return readings


def _stopped(problem: LossProblem, readings: list[Minimiser], best: Minimiser, allowance: float) -> Minimiser:
    """The fit at the earliest reading within the allowance."""
    for _ in range(_ATTEMPTS):
        step_sum = _earliest(readings, best, allowance)
        near = min(readings, key=lambda each: abs(each.step_sum - step_sum))
        chosen = minimise(problem, step_sum, near)
        above, error = excess(chosen, best)
        if above <= allowance * error or math.isclose(step_sum, near.step_sum, rel_tol=_SAME):
            return chosen
        readings = sorted([*readings, chosen], key=_step_sum)
    first = readings[_first_within(readings, best, allowance)]
    return minimise(problem, first.step_sum, first)


def _first_within(readings: list[Minimiser], best: Minimiser, allowance: float) -> int:
    """Which reading is the first whose excess is within the allowance; at the latest the best is."""
    over = (above - allowance * error for above, error in (excess(each, best) for each in readings))
    return next(i for i, value in enumerate(over) if value <= 0 or readings[i] is best)


def _earliest(readings: list[Minimiser], best: Minimiser, allowance: float) -> float:
    """The first reading of the clock whose excess is within the allowance.

    It lies between the first reading that is known to be and the one before, where every row's loss is a spline's.
    """
    first = _first_within(readings, best, allowance)
    if allowance == 0 or first == 0 or readings[first - 1].step_sum == 0:
        return best.step_sum if allowance == 0 else readings[first].step_sum
    early, late = (math.log(each.step_sum) for each in readings[first - 1 : first + 1])
    known = [each for each in readings[1:] if math.isfinite(_mean(each))]
    logs, lowest = np.log([each.step_sum for each in known]), best.left_out_losses
    curves = CubicSpline(logs, [each.left_out_losses for each in known])
    if readings[first] is best and late < logs[-1]:
        fine = np.linspace(early, logs[logs > late][0], _FINE)
        late = float(fine[np.argmin(CubicSpline(logs, [_mean(each) for each in known])(fine))])
        lowest = curves(late)
    for _ in range(_HALVINGS):
        middle = (early + late) / 2
        above, error = mean_and_error(best.problem, curves(middle) - lowest)
        early, late = (early, middle) if above <= _AIM * allowance * error else (middle, late)
    return math.exp(late)


def _told(chosen: Minimiser, best: Minimiser, last: float, allowance: float) -> Stop:
    above, error, lowest = (best.problem.unit * each for each in (*excess(chosen, best), best.left_out_mean))
    at = chosen.step_sum
    reason = Reason.ZERO if at == 0 else Reason.CAP if at >= last else Reason.MINIMUM
    evidence = Evidence(
        "prudent", lowest + above, lowest, lowest_step_sum=best.step_sum, standard_error=error, allowance=allowance
    )
    return Stop(None, at, reason, evidence)
