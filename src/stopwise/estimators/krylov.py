"""The matrix-free solver: grow a block Krylov space until the stop is settled."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from stopwise._typing import Array
from stopwise.estimators.problem import Problem
from stopwise.estimators.solution import Plan, Solution, decide, finish
from stopwise.exceptions import StopwiseWarning
from stopwise.filters import Ridge, SteppedFilter
from stopwise.krylov import GROUPS, BlockKrylov, Multiplier, NumpyStore, Store, with_diagonal
from stopwise.memory import free_bytes
from stopwise.operators import Operator
from stopwise.path import Path
from stopwise.progress import Progress
from stopwise.rules import GCV, Critical, Fixed, Reason, Stop
from stopwise.rules.risk import Discrepancy, Oracle
from stopwise.spectrum import Spectrum

_SIGMAS = 3.5
"""Jackknife standard errors on either side of a bracket: eight groups leave seven degrees of freedom."""
_CERTAIN = 1e-9
_READABLE = 0.002
"""The residual of an estimate, relative to the responses, beyond which its path is not read."""
_MOST_LOOKS = 4
"""How often a rule that reads every row is asked after its scout has settled, each time on a larger space."""
_MOST_DRAWS = 12
"""How often as many probes again are drawn when only their sampling error keeps the bracket wide."""


class UnsettledWarning(StopwiseWarning):
    """The stop's bracket is wider than was asked for."""


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
    """True where all but the sampling error of the probes is small enough."""


class Place(Protocol):
    """Where blocks live and are multiplied."""

    def multiplier(self, operator: Any) -> Multiplier:
        """The operator as blocks there see it."""

    def column_limit(self, problem: Problem, plan: Plan) -> int:
        """How many columns fit; MemoryError where too few do."""

    def probe_count(self, problem: Problem, plan: Plan) -> int:
        """How many random columns to start with."""

    def precision(self, problem: Problem, plan: Plan) -> float:
        """Rounding of a product with a vector, in units of the largest eigenvalue."""


class Host:
    """Blocks are numpy arrays in memory."""

    def multiplier(self, operator: Operator) -> Multiplier:
        return operator

    def column_limit(self, problem: Problem, plan: Plan) -> int:
        return _column_limit(problem, plan)

    def probe_count(self, problem: Problem, plan: Plan) -> int:
        return probe_count(problem, plan)

    def precision(self, problem: Problem, plan: Plan) -> float:
        return float(np.finfo(plan.dtype).eps)


class KrylovSolver:
    """Products with K until the bracket on the stop is at most `tol` wide and the estimate's residual is small."""

    def __init__(
        self,
        name: str,
        make_operator: Callable[[Problem, Plan], Operator],
        make_store: Any = None,
        place: Place | None = None,
    ) -> None:
        self.name = name
        self.make_operator = make_operator
        self.make_store = make_store
        self.place: Place = Host() if place is None else place

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        operator = self.make_operator(problem, plan)
        plan = _noise_first(problem, plan if plan.tol == 0 else replace(plan, rule=plan.rule.without_rows()))
        responses = _weighted(problem)
        limit = self.place.column_limit(problem, plan)
        probes = (
            min(self.place.probe_count(problem, plan), 7)
            if getattr(operator, "rational", False)
            else self.place.probe_count(problem, plan)
        )
        store = self._store(operator, limit, problem)
        precision, multiplier = self.place.precision(problem, plan), self.place.multiplier(operator)
        space = BlockKrylov(multiplier, store, responses, probes, seed=problem.seed, precision=precision)
        with Progress(plan.verbose) as progress:
            path, verdicts = self._until_settled(problem, plan, operator, space, limit, progress)
        stops = [_with_bracket(v, path.spectrum, space.products) for v in verdicts]
        if not all(v.settled for v in verdicts):
            _warn(verdicts, plan.tol, space)
        return finish(problem, operator, path, stops, [v.sigma for v in verdicts], self.name, products=space.products)

    def _store(self, operator: Operator, limit: int, problem: Problem) -> Store:
        if self.make_store is not None:
            made: Store = self.make_store(operator, limit)
            return made
        return NumpyStore(problem.n_rows, limit, operator.centre, canonical_order(problem))

    def _until_settled(
        self, problem: Problem, plan: Plan, operator: Operator, space: BlockKrylov, limit: int, progress: Progress
    ) -> tuple[Path, list[Verdict]]:
        before: list[Stop] | None = None
        looked, asked, draws, looks = 0, _scout(plan), 0, 0
        while True:
            more = space.grow()
            progress.show(f"{space.products} products, {space._processed} columns")
            done = not more or space._processed >= limit
            if not done and (space.products < (4 if space.rational else 2) or space._processed < 1.12 * looked):
                continue
            looked = space._processed
            path = krylov_path(problem, asked, operator, space)
            verdicts = self._judge(problem, asked, path, space, before)
            before = [v.stop for v in verdicts]
            if asked is not plan and (done or all(v.settled for v in verdicts)):
                asked, before = plan, None
                path = krylov_path(problem, plan, operator, space)
                verdicts = self._judge(problem, plan, path, space, before)
                before = [v.stop for v in verdicts]
            _aim(space, verdicts[0], path.spectrum.largest_bound)
            _tell(progress, space, verdicts)
            while not done and draws < _MOST_DRAWS and all(v.settled or v.noisy for v in verdicts):
                if all(v.settled for v in verdicts):
                    break
                draws += 1
                progress.show(f"{space.products} products, more probes ({draws})")
                space.more_probes(self._store(operator, limit, problem), draws)
                path = krylov_path(problem, asked, operator, space)
                verdicts = self._judge(problem, asked, path, space, before)
            looks += asked is plan and plan.rule.needs_rows and plan.tol > 0
            if done or all(v.settled for v in verdicts) or draws == _MOST_DRAWS or looks == _MOST_LOOKS:
                return path, verdicts

    def _judge(
        self, problem: Problem, plan: Plan, path: Path, space: BlockKrylov, before: list[Stop] | None
    ) -> list[Verdict]:
        previous: list[Any] = before or [None] * space.n_responses
        return [_verdict(problem, plan, path, space, j, previous[j]) for j in range(space.n_responses)]


def _aim(space: BlockKrylov, verdict: Verdict, largest: float) -> None:
    """Poles follow the stop once the estimate there means anything; before, they keep ranging."""
    space.pole = 1 / max(verdict.stop.step_sum, 10 / largest) if verdict.residual < 0.01 else 0.0


def _scout(plan: Plan) -> Plan:
    """The plan to grow with: a rule that reads every row is scouted by GCV for ridge, and asked once that has settled.

    The first minimum, since an unfinished space that holds the responses always finds a spurious one at the far end.
    """
    return replace(plan, rule=GCV("local"), filter=Ridge(), scouting=True) if plan.rule.needs_rows else plan


def krylov_path(problem: Problem, plan: Plan, operator: Operator, space: BlockKrylov) -> Path:
    """The path of all responses on the space as it is."""
    spectrum = space.spectrum()
    if plan.rule.needs_rows and not spectrum.complete:
        spectrum = with_diagonal(spectrum, operator.diagonal)
    assert spectrum.basis is not None
    assert spectrum.basis.rotation is not None
    responses = _weighted(problem)
    path = Path(
        spectrum=spectrum,
        filter=plan.filter.bind(spectrum.largest_bound),
        coefficients=space.response_coordinates(spectrum.basis.rotation),
        energy=(responses**2).sum(axis=0),
        intercept=problem.intercept,
        root_weights=problem.root_weights,
        response=responses,
        scale=problem.scale,
        offset=problem.offset,
    )
    return path if space.complete else replace(path, horizon=_horizon(path, space))


def _horizon(path: Path, space: BlockKrylov) -> float:
    """The last clock reading at which the space still holds the (ridge) estimate of every response to a few percent.

    Beyond it a space that contains the responses only interpolates them, and every estimate of risk is fooled.
    """
    largest = path.spectrum.largest_bound
    if largest == 0 or not np.any(path.energy > 0):
        return math.inf
    grid = np.geomspace(0.1 / largest, path.step_sum_cap, 16 if space.rational else 96)
    weights = Ridge().weight(path.spectrum.eigenvalues, grid).T
    assert path.spectrum.basis is not None
    assert path.spectrum.basis.rotation is not None
    worst = np.zeros(grid.size)
    for column in np.flatnonzero(path.energy > 0):
        weighted = weights * path.coefficients[:, column, None]
        residual = space.estimate_residual(path.spectrum.basis.rotation, weighted) / math.sqrt(path.energy[column])
        worst = np.maximum(worst, residual)
    lost = np.flatnonzero(worst > _READABLE)
    return math.inf if not lost.size else float(grid[max(lost[0] - 1, 0)])


def _verdict(
    problem: Problem, plan: Plan, path: Path, space: BlockKrylov, column: int, previous: Stop | None
) -> Verdict:
    stop, sigma = decide(problem, plan, path, column)
    residual = _estimate_residual(path, space, stop, column)
    reachable = min(max(1e3 * space.precision, 1e-5), 1e-4)
    accurate = residual <= (1e-12 if plan.tol == 0 else 1e-6 if plan.dtype == np.float64 else reachable)
    if space.complete:
        return Verdict(stop, sigma, stop.step_sum, stop.step_sum, residual, True)
    noisy = False
    if plan.rule.one_sided and not plan.noise.needs_path:
        low, high = _one_sided_bracket(problem, plan, path, column, stop)
    else:
        low, high, drift = _statistical_bracket(problem, plan, path, column, stop, previous)
        noisy = accurate and drift <= 0.25 * plan.tol and plan.tol > 0 and _well_inside(path, stop)
    # Leave-one-out error is so flat that five times the width costs nothing that could be measured.
    width = plan.tol * (5 if plan.rule.needs_rows else 1)
    narrow = high <= low * (1 + width) or _same_iterate(path, low, high)
    if (plan.tol == 0 and high > low) or not _well_inside(path, stop):
        narrow = False
    if isinstance(path.filter, SteppedFilter) and stop.iteration is not None and math.isfinite(high) and high == low:
        # Estimates that agree on an iterate may all have been rounded to it.
        beside = path.filter.step_sum(np.array([max(stop.iteration - 1, 0), stop.iteration + 1]))
        low, high = (float(v) for v in beside) if plan.tol > 0 and not plan.rule.one_sided else (low, high)
    return Verdict(stop, sigma, low, high, residual, accurate and narrow, noisy)


def _well_inside(path: Path, stop: Stop) -> bool:
    """Is the stop far enough from the horizon that nothing beyond could have been chosen?"""
    if stop.reason is Reason.ZERO:
        return path.horizon * path.spectrum.largest_bound >= 1e5
    return stop.step_sum < 0.3 * path.horizon


def _same_iterate(path: Path, low: float, high: float) -> bool:
    if not isinstance(path.filter, SteppedFilter) or not math.isfinite(high):
        return low == high
    return bool(path.filter.iteration(low) == path.filter.iteration(high))


def _one_sided_bracket(problem: Problem, plan: Plan, path: Path, column: int, stop: Stop) -> tuple[float, float]:
    """With radius and noise given the stop from the bound is never late; it is exact once no eigenvalue is missed.

    Every Ritz value near or above the threshold 1/eta being an eigenpair, and the next ones lying well below it, a
    random start has found them all (with probability one, multiplicities up to the block width).
    """
    spectrum = path.spectrum
    low = float(stop.details.get("critical_step_sum", stop.step_sum))
    threshold = 1 / low if low > 0 else math.inf
    assert spectrum.converged is not None
    near = spectrum.eigenvalues > 0.5 * threshold
    found = bool(np.all(spectrum.converged[near])) and not bool(np.all(near))
    if found and plan.tol > 0:
        return low, low * (1 + 0.2 * plan.tol)
    if found:
        sharp = spectrum.eigenvalues[near]
        return low, low if sharp.size == 0 or _sharp(path, near) else math.inf
    statistical = replace(spectrum, bound=spectrum.density)
    other, _ = decide(problem, plan, replace(path, spectrum=statistical), column)
    high = float(other.details.get("critical_step_sum", other.step_sum))
    error = _jackknife(problem, plan, path, column, as_bound=True)
    return low, max(low, high * math.exp(min(_SIGMAS * error, 50.0)))


def _sharp(path: Path, near: Array) -> bool:
    """Are all eigenvalues near the threshold known to working precision?"""
    residuals = path.spectrum.residuals
    return residuals is not None and bool(
        np.all(residuals[near] ** 2 <= _CERTAIN**1.5 * path.spectrum.eigenvalues[near] ** 2)
    )


def _statistical_bracket(
    problem: Problem, plan: Plan, path: Path, column: int, stop: Stop, previous: Stop | None
) -> tuple[float, float, float]:
    """The stop give or take its jackknife error over probes and its last change; and that change."""
    at = stop.step_sum
    if previous is None:
        return 0.0, math.inf, math.inf
    drift = _log_gap(previous.step_sum, at)
    half = min(drift, 50.0)
    if drift <= max(plan.tol, 1e-12) and not plan.scouting:
        half = min(_SIGMAS * _jackknife(problem, plan, path, column) + drift, 50.0)
    return at * math.exp(-half), at * math.exp(half), drift


def _log_gap(first: float, second: float) -> float:
    if first == second:
        return 0.0
    return abs(math.log(first / second)) if min(first, second) > 0 else math.inf


def _reads_traces(plan: Plan) -> bool:
    """Does the decision depend on sums over all eigenvalues?"""
    noise = plan.rule.needs_noise and plan.noise.needs_path
    return noise or not isinstance(plan.rule, Discrepancy | Fixed | Oracle)


def _jackknife(problem: Problem, plan: Plan, path: Path, column: int, as_bound: bool = False) -> float:
    """Standard error of log(step_sum) over groups of probes."""
    replicas = path.spectrum.replicas
    if not _reads_traces(plan) or not replicas:
        return 0.0
    asked = replicas[:: max(1, len(replicas) // (4 if plan.rule.needs_rows else GROUPS))]
    key = "critical_step_sum" if isinstance(plan.rule, Critical) else ""
    logs = []
    for replica in asked:
        spectrum = path.spectrum.with_density(replica)
        if as_bound:
            spectrum = replace(spectrum, bound=replica)
        stop, _ = decide(problem, plan, replace(path, spectrum=spectrum), column)
        logs.append(math.log(max(float(stop.details.get(key, stop.step_sum)), 1e-300)))
    groups = min(GROUPS, len(replicas))
    spread = float(np.sum((np.array(logs) - np.mean(logs)) ** 2)) * len(replicas) / len(asked)
    return math.sqrt((groups - 1) / groups * spread)


def _estimate_residual(path: Path, space: BlockKrylov, stop: Stop, column: int) -> float:
    """|K a - f| over |y|: how far weights and fitted values are from belonging together."""
    energy = float(path.energy[column])
    if energy == 0:
        return 0.0
    weight = path.filter.weight(path.spectrum.eigenvalues, stop.step_sum)
    assert path.spectrum.basis is not None
    assert path.spectrum.basis.rotation is not None
    weighted = (weight * path.coefficients[:, column])[:, None]
    return float(space.estimate_residual(path.spectrum.basis.rotation, weighted)[0]) / math.sqrt(energy)


def _with_bracket(verdict: Verdict, spectrum: Spectrum, products: int) -> Stop:
    stop = verdict.stop
    if not verdict.settled:
        stop = replace(stop, reason=Reason.BUDGET)
    return stop.with_details(
        bracket=(verdict.low, verdict.high),
        settled=verdict.settled,
        products=products,
        residual=verdict.residual,
        columns=len(spectrum.eigenvalues),
    )


def _warn(verdicts: list[Verdict], tol: float, space: BlockKrylov) -> None:
    worst = next(v for v in verdicts if not v.settled)
    warnings.warn(
        f"the stop is not settled: step_sum lies between {worst.low:.4g} and {worst.high:.4g} after {space.products} "
        f"products ({space._processed} columns; tol = {tol:g}, residual {worst.residual:.1e}); it may be trusted that "
        'far. Raise tol, free memory, or use solver="nystrom"',
        UnsettledWarning,
        stacklevel=5,
    )


def _tell(progress: Progress, space: BlockKrylov, verdicts: list[Verdict]) -> None:
    first = verdicts[0]
    progress.show(f"{space.products} products, step_sum in [{first.low:.4g}, {first.high:.4g}]")


def _weighted(problem: Problem) -> Array:
    root = problem.root_weights
    return problem.responses if root is None else problem.responses * root[:, None]


def _noise_first(problem: Problem, plan: Plan) -> Plan:
    """A noise level that only looks at rows is estimated once."""
    if not plan.rule.needs_noise or plan.noise.needs_path or problem.responses.shape[1] != 1:
        return plan
    sigma = plan.noise.estimate(problem.covariates, problem.in_y_units(0), weights=problem.weights)
    return replace(plan, noise_given=sigma)


def probe_count(problem: Problem, plan: Plan, few: int = 16, many: int = 48) -> int:
    """Few probes where eigenvalues settle the stop, more where only statistics can; responses count as some of them."""
    wanted = few if (plan.rule.one_sided and not plan.noise.needs_path) or not _reads_traces(plan) else many
    return int(max(1, min(wanted - problem.responses.shape[1], problem.n_rows - 1)))


def _column_limit(problem: Problem, plan: Plan) -> int:
    """As many columns as a third of free memory holds."""
    fits = int(free_bytes() / 3 / (8 * problem.n_rows))
    if fits < 64:
        raise MemoryError(
            f"a Krylov basis of 64 columns for {problem.n_rows} rows does not fit into a third of the free "
            'memory; free some, or use solver="nystrom"'
        )
    most = 6000 if plan.tol == 0 else 2500
    return min(problem.n_rows, fits, most)


def canonical_order(problem: Problem) -> Array:
    """Rows in an order that shuffling does not change: by covariates, then responses."""
    keys = (
        np.column_stack([problem.covariates, problem.responses])
        if problem.covariates.shape[1] < 64
        else problem.responses
    )
    return np.lexsort(keys.T[::-1])
