"""Is the stop settled? A bracket on it from what the space knows, and what the space does not see of the estimate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.solvers.dense_solver import decide
from stopwise.engine.solvers.plan import Plan
from stopwise.engine.spectrum.block_krylov import GROUPS, BlockKrylov
from stopwise.filters import CutOff, SteppedFilter
from stopwise.path import UNSURE, Path
from stopwise.problem import Problem
from stopwise.rules import Certainty, Reason, Stop
from stopwise.spectrum import Density, Spectrum

_SIGMAS = 3.5
"""Jackknife standard errors on either side of a bracket: eight groups leave seven degrees of freedom."""
_CERTAIN = 1e-9
"""How well an eigenvalue must be known, relative to itself, for a stop that is exact to one step."""
_UNSEEN = 0.05
"""Degrees of freedom outside the space, relative to those left over, up to which leave-one-out may share them out."""


Ask = Callable[[Spectrum], Stop]
"""The stop of one response, had the spectrum been another."""


@dataclass(frozen=True)
class Verdict:
    """A stop with its bracket, and whether it may be trusted as it is."""

    stop: Stop
    sigma: float
    low: float
    high: float
    residual: float
    settled: bool
    noisy: bool = False
    """True where all but the sampling error of the probes (or the width of counted cells) is small enough."""
    narrow: bool = True


def judge(problem: Problem, plan: Plan, path: Path, space: BlockKrylov, column: int, previous: Stop | None) -> Verdict:
    """The stop of one response on the space as it is, with a bracket, and whether it is settled.

    It is where the estimate is accurate, the bracket is within `tol`, and what the rule reads lies inside what the
    space knows. The bracket told is then widened to whole steps (or cuts) on either side: the answer is one of those.
    """
    path = path.column(column)
    stop, sigma = decide(problem, plan, path, column)

    def ask(spectrum: Spectrum) -> Stop:
        return decide(problem, plan, replace(path, spectrum=spectrum), column)[0]

    residual = _estimate_residual(path, space, stop)
    reachable = min(max(1e3 * space.precision, 1e-5), 1e-4)
    accurate = residual <= (1e-12 if plan.tol == 0 else 1e-6 if plan.dtype == np.float64 else reachable)
    if space.complete:
        return Verdict(stop, sigma, stop.step_sum, stop.step_sum, residual, settled=True)
    noisy = False
    if decided_by_bound(plan):
        low, high = _one_sided_bracket(plan, path, stop, ask, by_columns=space.below is not None)
    else:
        low, high, drift = _statistical_bracket(plan, path, stop, ask, previous)
        noisy = accurate and drift <= 0.25 * plan.tol and plan.tol > 0 and _well_inside(path, stop)
    # Leave-one-out error is so flat that five times the width costs nothing that could be measured.
    width = plan.tol * (5 if plan.rule.needs_rows else 1)
    narrow = high <= low * (1 + width) or _same_iterate(path, low, high)
    if (plan.tol == 0 and (high > low or not _step_known(path))) or not _well_inside(path, stop):
        narrow = False
    if (plan.rule.needs_rows and not _leverages_seen(path, stop)) or _nearly_interpolates(plan, path, stop):
        narrow = noisy = False
    if plan.rule.asks_worst_eigenvalue and isinstance(path.filter, CutOff) and not _all_found(path, stop):
        narrow = noisy = False
    low, high = _in_whole_steps(plan, path, stop, low, high)
    return Verdict(stop, sigma, low, high, residual, accurate and narrow, noisy, narrow)


def _in_whole_steps(plan: Plan, path: Path, stop: Stop, low: float, high: float) -> tuple[float, float]:
    """A bracket that ends at iterates, or at cuts between eigenvalues."""
    either_side = plan.tol > 0 and not plan.rule.one_sided
    if isinstance(path.filter, SteppedFilter) and stop.iteration is not None and math.isfinite(high):
        if either_side:
            # Estimates that agree on an iterate may all have been rounded to it.
            beside = path.filter.step_sum(np.array([max(stop.iteration - 1, 0), stop.iteration + 1]))
            low, high = min(low, float(beside[0])), max(high, float(beside[1]))
        low = min(low, float(path.filter.snap(low)))  # descent stops at the last whole step before a crossing
    if isinstance(path.filter, CutOff) and either_side:
        low, high = _with_neighbours(path, stop, low, high)
    return low, high


def _well_inside(path: Path, stop: Stop) -> bool:
    """Is the stop far enough from the horizon that nothing beyond could have been chosen?"""
    if stop.reason is Reason.ZERO:
        return path.horizon * path.spectrum.largest_bound >= 1e5
    first = stop.reason in (Reason.CROSSING, Reason.THRESHOLD)  # what comes after a first crossing is never asked
    return stop.step_sum < (0.6 if first else 0.3) * path.horizon


def _leverages_seen(path: Path, stop: Stop) -> bool:
    """Is what the space has not seen of the leverages, which can only be shared out, too little to matter?"""
    total = float(path.degrees_of_freedom(stop.step_sum))
    seen = float(path.filter.gain(path.spectrum.eigenvalues, stop.step_sum).sum())
    return total - seen <= _UNSEEN * (path.n_samples - total)


def _nearly_interpolates(plan: Plan, path: Path, stop: Stop) -> bool:
    """Is so little left over at the stop that a criterion which divides by it cannot be read much further?"""
    if not plan.rule.divides_by_freedom:
        return False
    left = 1 - float(path.degrees_of_freedom(stop.step_sum)) / path.n_samples
    return left < 2.5 * UNSURE


def _with_neighbours(path: Path, stop: Stop, low: float, high: float) -> tuple[float, float]:
    """A bracket that holds one eigenvalue more on either side: a cut falls between eigenvalues, and may be one off."""
    values = path.spectrum.eigenvalues
    cuts = np.sort(1 / values[values > 0])
    before, after = cuts[cuts < stop.step_sum * (1 - 1e-9)], cuts[cuts > stop.step_sum * (1 + 1e-9)]
    return min(low, float(before[-1])) if before.size else 0.0, max(high, float(after[0]) if after.size else high)


def _all_found(path: Path, stop: Stop) -> bool:
    """Is every Ritz value that a cut-off at the stop could keep an eigenvalue?"""
    assert path.spectrum.converged is not None
    return bool(np.all(path.spectrum.converged[path.spectrum.eigenvalues * stop.step_sum > 0.5]))


def _step_known(path: Path) -> bool:
    """Is the bound on the largest eigenvalue, from which steps take their size, as good as the eigenvalue?"""
    first = float(path.spectrum.eigenvalues[:1].sum())
    return not isinstance(path.filter, SteppedFilter) or path.spectrum.largest_bound <= first * (1 + _CERTAIN)


def _same_iterate(path: Path, low: float, high: float) -> bool:
    if not isinstance(path.filter, SteppedFilter) or not math.isfinite(high):
        return low == high
    return bool(path.filter.iteration(low) == path.filter.iteration(high))


def _one_sided_bracket(plan: Plan, path: Path, stop: Stop, ask: Ask, *, by_columns: bool) -> tuple[float, float]:
    """With radius and noise given the stop from the bound is never late; it is exact once no eigenvalue is missed.

    Every Ritz value near or above the threshold 1/eta being an eigenpair, and the next ones lying well below it, a
    random start has found them all (with probability one, multiplicities up to the block width). A bound that rests on
    columns of K is ahead of the space: then only the statistics tell how far off it may be, once they do not
    contradict it.
    """
    spectrum = path.spectrum
    low = stop.crossing
    if spectrum.floor is not None:
        return low, ask(replace(spectrum, bound=spectrum.floor)).crossing
    threshold = 1 / low if low > 0 else math.inf
    assert spectrum.converged is not None
    near = spectrum.eigenvalues > 0.5 * threshold
    found = bool(np.all(spectrum.converged[near])) and not bool(np.all(near)) and not by_columns
    if found and plan.tol > 0:
        return low, low * (1 + 0.2 * plan.tol)
    if found:
        sharp = spectrum.eigenvalues[near]
        return low, low if sharp.size == 0 or _sharp(path, near) else math.inf
    error = _jackknife(plan, spectrum, ask, as_bound=True)
    high = ask(replace(spectrum, bound=spectrum.density)).crossing * math.exp(min(_SIGMAS * error, 50.0))
    if by_columns and high < low * (1 - 0.2 * plan.tol):
        return low, math.inf
    # Even without chance a stop is not known better than its eigenvalues.
    return low, max(low, high) * (1 + (1e-6 if plan.tol > 0 else 0.0))


def _sharp(path: Path, near: Array) -> bool:
    """Are all eigenvalues near the threshold known to working precision?"""
    residuals = path.spectrum.residuals
    return residuals is not None and bool(
        np.all(residuals[near] ** 2 <= _CERTAIN**1.5 * path.spectrum.eigenvalues[near] ** 2)
    )


def _statistical_bracket(
    plan: Plan, path: Path, stop: Stop, ask: Ask, previous: Stop | None
) -> tuple[float, float, float]:
    """The stop give or take its jackknife error over probes and its last change; and that change."""
    at = stop.step_sum
    if previous is None:
        return 0.0, math.inf, math.inf
    drift = _log_gap(previous.step_sum, at)
    half = min(drift, 50.0)
    if drift <= max(plan.tol, 1e-12) and not plan.scouting:
        # Chance in the probes and what a larger space would still change have nothing to do with each other.
        half = min(math.hypot(_SIGMAS * _jackknife(plan, path.spectrum, ask), drift), 50.0)
        half += _between_eigenvalues(plan, path, ask, at)
        # Leverages share out what the space has not seen: their error is no chance that probes could show.
        half = max(half, (0.5 if plan.rule.needs_rows else 0.05) * plan.tol)
        # Eight groups tell their own spread roughly: some more where the tolerance has room for it.
        half = max(half, min(1.25 * half, 0.45 * plan.tol))
    return at * math.exp(-half), at * math.exp(half), drift


def _between_eigenvalues(plan: Plan, path: Path, ask: Ask, at: float) -> float:
    """How far the stop of a rule that asks for the worst eigenvalue moves with their places.

    One may be anywhere (then the worst is worse), or all may lie where none is known to be (then it is better).
    """
    if not plan.rule.asks_worst_eigenvalue or path.spectrum.floor is not None:
        return 0.0
    known = path.density
    order = np.argsort(known.values)
    values, counts = known.values[order], known.multiplicities[order]
    anywhere = np.geomspace(path.spectrum.largest_bound * 1e-9, path.spectrum.largest_bound, 2000)
    filled = Density(np.append(values, anywhere), np.append(counts, np.zeros(anywhere.size)), known.n_samples)
    between = Density(np.sqrt(values * np.append(values[1:], values[-1:])), counts, known.n_samples)
    others = (ask(replace(path.spectrum, density=density)) for density in (filled, between))
    return min(max(_log_gap(other.step_sum, at) for other in others), 50.0)


def _log_gap(first: float, second: float) -> float:
    if first == second:
        return 0.0
    return abs(math.log(first / second)) if min(first, second) > 0 else math.inf


def decided_by_bound(plan: Plan) -> bool:
    """Does `Spectrum.bound` alone decide, so that an unfinished space stops early and never late?"""
    return plan.rule.one_sided and not plan.noise.needs_path


def reads_traces(plan: Plan) -> bool:
    """Does the decision depend on sums over all eigenvalues?"""
    noise = plan.rule.needs_noise and plan.noise.needs_path
    return noise or plan.rule.needs_traces


def _jackknife(plan: Plan, spectrum: Spectrum, ask: Ask, *, as_bound: bool = False) -> float:
    """Standard error of log(step_sum) over groups of probes."""
    replicas = spectrum.replicas
    if not reads_traces(plan) or not replicas:
        return 0.0
    asked = replicas[:: max(1, len(replicas) // (4 if plan.rule.needs_rows else GROUPS))]
    logs = []
    for replica in asked:
        left = replace(spectrum, density=replica, bound=replica if as_bound else spectrum.bound)
        logs.append(math.log(max(ask(left).crossing, 1e-300)))
    groups = min(GROUPS, len(replicas))
    spread = float(np.sum((np.array(logs) - np.mean(logs)) ** 2)) * len(replicas) / len(asked)
    return math.sqrt((groups - 1) / groups * spread)


def _estimate_residual(path: Path, space: BlockKrylov, stop: Stop) -> float:
    """|K a - f| over |y|: how far weights and fitted values are from belonging together."""
    energy = float(path.energy)
    if energy == 0:
        return 0.0
    weight = path.filter.weight(path.spectrum.eigenvalues, stop.step_sum)
    return float(space.estimate_residual((weight * path.coefficients)[:, None])[0]) / math.sqrt(energy)


def with_bracket(verdict: Verdict, spectrum: Spectrum, products: int, engine: str) -> Stop:
    certainty = Certainty(
        engine=engine,
        settled=verdict.settled,
        bracket=(verdict.low, verdict.high),
        products=products,
        columns=len(spectrum.eigenvalues),
        estimate_residual=verdict.residual,
    )
    reason = verdict.stop.reason if verdict.settled else Reason.BUDGET
    return replace(verdict.stop, reason=reason, certainty=certainty)
