"""Along the clock for any loss: warm-started minimisers, and the default stop.

The rule is that of least squares (`rules.Prudent`): the earliest reading whose left-out loss is within half a standard
error of the smallest, the standard error being that of the paired difference over rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.minimum import vertex
from stopwise.engine.loss_fits.loss_minimiser import LossProblem, Minimiser, minimise
from stopwise.rules import Evidence, Reason, Stop
from stopwise.rules.prudent import constant_stands

RATIO, ROUGH_RATIO = 4.0, 10.0
"""Neighbouring readings of the coarse clock differ by this factor (by the second where only the smallest left-out loss
is wanted); between them a parabola and a root are sought."""
COARSE = 1e-2
"""Newton's tolerance along the clock: left-out losses are right to about its square."""
START = 0.05
"""The first reading after 0, over 1 / (largest eigenvalue x largest curvature): hardly anything is fitted there."""
CEILING = 1e9
"""The last reading, over 1 / (mean diagonal of the kernel): what fits better beyond is rounding."""
_RISE_ERRORS = 2.0
"""The walk ends at a reading that is worse than the best by so many standard errors,"""
_HOPELESS = 2.0
"""or worse than the constant fit by this factor, whatever the standard error."""
_ROOT_STEPS, _CLOSE = 3, 0.1
"""The earliest reading within the allowance is found to this share of the allowance."""
_LARGEST = 1e100


@dataclass(frozen=True)
class LossPath:
    """Minimisers at the readings that were looked at, in order, and the one that the rule stops at."""

    readings: tuple[Minimiser, ...]
    chosen: Minimiser
    stop: Stop

    @property
    def lowest(self) -> float:
        """The smallest mean left-out loss."""
        return float(self.stop.evidence.lowest or 0.0)

    @property
    def score(self) -> float:
        """What kernels are ranked by: the smallest left-out loss plus the smallest evidence (of squares: both halved).

        The left-out loss alone where there is no evidence.
        """
        if not self.chosen.problem.has_evidence:
            return self.lowest
        return self.lowest + min(at.evidence for at in self.readings if math.isfinite(at.left_out_mean))


def walk(problem: LossProblem, *, allowance: float = 0.5, final: bool = True) -> LossPath:
    """Go along the clock from the constant fit, and stop by the rule; not `final`: at the minimum, roughly."""
    readings, ratio = [problem.constant], RATIO if final else ROUGH_RATIO
    for step_sum in _clock(problem, ratio):
        readings.append(minimise(problem, step_sum, readings[-1], COARSE))
        best = min(readings, key=_mean)
        above, error = excess(readings[-1], best)
        hopeless = readings[-1].left_out_mean > _HOPELESS * readings[0].left_out_mean
        worse = hopeless or above > max(_RISE_ERRORS * error, 1e-6 * abs(best.left_out_mean))
        falls = not final and problem.has_evidence and readings[-1].evidence < readings[-2].evidence
        if worse and not falls:
            break
    stands = final and _constant_stands(readings, allowance)
    chosen = best = readings[0] if stands else _between(problem, readings, ratio)
    if final:
        rough = _earliest(problem, readings, best, allowance)
        chosen = minimise(problem, rough.step_sum, rough)
        best = chosen if rough is best else min(chosen, best, key=_mean)
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
    w, n = one.problem.weights, one.problem.n_samples
    gap = one.left_out_losses - best.left_out_losses
    if not np.all(np.abs(gap) < _LARGEST):
        return math.inf, 0.0
    mean = float(w @ gap) / n
    return mean, math.sqrt(float(w @ (gap - mean) ** 2)) / n


def _constant_stands(readings: list[Minimiser], allowance: float) -> bool:
    """Whether no reading is to be preferred to the constant fit, the first of them."""

    def over_constant() -> tuple[Array, Array]:
        above, error = zip(*(excess(reading, readings[0]) for reading in readings), strict=True)
        return np.array(above), np.array(error)

    means = np.array([reading.left_out_mean for reading in readings])
    return allowance > 0 and constant_stands(means, over_constant)


def _between(problem: LossProblem, readings: list[Minimiser], ratio: float) -> Minimiser:
    """The minimum by the parabola through the lowest reading and its neighbours, on the log clock."""
    means = np.array([reading.left_out_mean for reading in readings])
    at = int(np.argmin(means))
    shift = vertex(means, at) if at >= 2 else 0.0  # the first reading is 0, which has no logarithm
    if shift == 0:
        return readings[at]
    found = minimise(problem, readings[at].step_sum * ratio**shift, readings[at], COARSE)
    return min(readings[at], found, key=_mean)


def _mean(reading: Minimiser) -> float:
    return reading.left_out_mean


def _earliest(problem: LossProblem, readings: list[Minimiser], best: Minimiser, allowance: float) -> Minimiser:
    """The first reading whose excess is within the allowance, between the first such known and the one before."""

    def over(reading: Minimiser) -> float:
        above, error = excess(reading, best)
        return above - allowance * error

    before = [reading for reading in readings if reading.step_sum < best.step_sum]
    if allowance == 0 or not before:
        return best
    first = next((i for i, reading in enumerate(before) if over(reading) <= 0), len(before))
    low, high = before[max(first - 1, 0)], [*before, best][first]
    for _ in range(_ROOT_STEPS if 0 < low.step_sum < high.step_sum else 0):
        above, below = over(low), over(high)
        share = min(max(above / (above - below), 0.1), 0.9) if math.isfinite(above) and above > below else 0.5
        step_sum = low.step_sum ** (1 - share) * high.step_sum**share
        middle = minimise(problem, step_sum, low if share < 0.5 else high, COARSE)
        low, high = (middle, high) if over(middle) > 0 else (low, middle)
        above, error = excess(high, best)
        if above >= (1 - _CLOSE) * allowance * error:
            break
    return high


def _told(chosen: Minimiser, best: Minimiser, last: float, allowance: float) -> Stop:
    above, error = excess(chosen, best)
    lowest, at = best.left_out_mean, chosen.step_sum
    reason = Reason.ZERO if at == 0 else Reason.CAP if at >= last else Reason.MINIMUM
    evidence = Evidence(
        "prudent", lowest + above, lowest, lowest_step_sum=best.step_sum, standard_error=error, allowance=allowance
    )
    return Stop(None, at, reason, evidence)
