"""The matrix-free solver: grow a block Krylov space until the stop is settled."""

from __future__ import annotations

import bisect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.memory import free_bytes
from stopwise._support.progress import Progress
from stopwise.engine.operators import Operator
from stopwise.engine.operators.eigenvalue_counts import Counting
from stopwise.engine.operators.running_sums import Line
from stopwise.engine.operators.tiles import Tiled
from stopwise.engine.solvers.dense_solver import finish, noise_of
from stopwise.engine.solvers.krylov_certainty import Verdict, decided_by_bound, judge, reads_traces, with_bracket
from stopwise.engine.solvers.plan import Plan, Solution, path_in_space
from stopwise.engine.spectrum.block_krylov import BlockKrylov, Multiplier, NumpyStore, Store, with_diagonal
from stopwise.exceptions import StopwiseWarning
from stopwise.filters import Ridge
from stopwise.path import Path
from stopwise.problem import Problem
from stopwise.rules import GCV, Stop

_READABLE = 0.002
"""The residual of an estimate, relative to the responses, beyond which its path is not read."""
_WIDE_ROWS = 25_000
"""Beyond so many rows blocks are wide: a column then costs less, and more of them are needed."""
_FEW = 16
"""Columns of a block where eigenvalues, not statistics, settle the stop."""
_MOST_LOOKS = 4
"""How often a rule that reads every row is asked after its scout has settled, each time on a larger space."""
_MOST_DRAWS = 12
"""How often as many probes again are drawn when only their sampling error keeps the bracket wide."""
_LONG = 25
"""Products after which a space is too dear to draw more than once."""


class UnsettledWarning(StopwiseWarning):
    """The stop's bracket is wider than was asked for."""


def warn_of_regret(regret: float, tol: float, advice: str) -> None:
    """Warn of a stop by rows left out that may lose too much; `advice` says why and what to do."""
    warnings.warn(
        f"the stop is not settled: its left-out error may be {100 * regret:.2g} percent above that of the exact stop "
        f"(tol = {tol:g}){advice}",
        UnsettledWarning,
        stacklevel=6,
    )


class Place(Protocol):
    """Where blocks live and are multiplied."""

    def operator(self, problem: Problem, plan: Plan) -> Operator:
        """K."""

    def multiplier(self, operator: Operator) -> Multiplier:
        """The operator as blocks there see it."""

    def store(self, operator: Operator, limit: int, problem: Problem) -> Store:
        """Room for so many columns."""

    def column_limit(self, problem: Problem, plan: Plan) -> int:
        """How many columns fit; MemoryError where too few do."""

    def probe_count(self, problem: Problem, plan: Plan) -> int:
        """How many random columns to start with."""

    def precision(self, problem: Problem, plan: Plan) -> float:
        """Rounding of a product with a vector, in units of the largest eigenvalue."""


@dataclass(frozen=True)
class Host:
    """Blocks are numpy arrays in memory; `make` makes the operator."""

    make: Callable[[Problem, Plan], Operator]

    def operator(self, problem: Problem, plan: Plan) -> Operator:
        return self.make(problem, plan)

    def multiplier(self, operator: Operator) -> Multiplier:
        return operator

    def store(self, operator: Operator, limit: int, problem: Problem) -> Store:
        return NumpyStore(problem.n_rows, limit, operator.centre, canonical_order(problem))

    def column_limit(self, problem: Problem, plan: Plan) -> int:
        """As many columns as a third of free memory holds."""
        fits = int(free_bytes() / 3 / (8 * problem.n_rows))
        if fits < 64:
            raise MemoryError(
                f"a Krylov basis of 64 columns for {problem.n_rows} rows does not fit into a third of the free "
                'memory; free some, or use solver="nystrom"'
            )
        return min(problem.n_rows, fits, most_columns(plan))

    def probe_count(self, problem: Problem, plan: Plan) -> int:
        """With more rows more eigenvalues lie above the threshold: wider blocks find them in fewer products."""
        few, many = (52, 96) if problem.n_rows > _WIDE_ROWS else (_FEW, 48)
        return probe_count(problem, plan, few, many)

    def precision(self, problem: Problem, plan: Plan) -> float:
        return float(np.finfo(plan.dtype).eps)


@dataclass(frozen=True)
class ColumnBounds:
    """When eigenvalues are bounded from columns of K, and from how many."""

    from_rows: int = 25_000
    """Beyond so many rows products cost more than the columns do."""
    per_root: float = 10.0
    """Columns, in units of the root of the number of rows."""
    growth: float = 1.5
    """How many times as many are taken where they alone keep the bracket wide,"""
    rounds: int = 2
    """and how often."""


class KrylovSolver:
    """Products with K until the bracket on the stop is at most `tol` wide and the estimate's residual is small."""

    columns: ClassVar[ColumnBounds] = ColumnBounds()

    def __init__(self, name: str, place: Place) -> None:
        self.name, self.place = name, place

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        if plan.tol == 0:
            plan = replace(plan, dtype=np.float64)  # one step among many cannot be told in single precision
        elif not plan.each_row:
            plan = replace(plan, rule=plan.rule.without_rows())
        operator, responses = self.place.operator(problem, plan), problem.weighted_responses
        plan = _noise_first(problem, plan)
        limit = self.place.column_limit(problem, plan)
        probes, counting = self.place.probe_count(problem, plan), None
        if isinstance(operator, Line) and operator.rational:
            counting = _counting(operator, plan)
            probes = min(probes, 7) if counting is None else int(not np.all(np.any(responses != 0, axis=0)))
        below = _from_columns(operator, problem, plan, self.columns)
        if below is not None:  # what is left for the space to find is the responses' part
            probes = min(probes, _FEW - 1)
        store = self.place.store(operator, limit, problem)
        precision, multiplier = self.place.precision(problem, plan), self.place.multiplier(operator)
        bounded = decided_by_bound(plan)
        space = BlockKrylov(multiplier, store, responses, probes, problem.seed, precision, counting, bounded, below)
        with Progress(plan.verbose) as progress:
            path, verdicts = self._until_settled(problem, plan, operator, space, limit, progress)
        stops = [with_bracket(v, path.spectrum, space.products, self.name) for v in verdicts]
        if not _settled(verdicts):
            _warn(verdicts, plan, space)
        return finish(problem, path, stops, [v.sigma for v in verdicts], self.name, operator.mean_row)

    def _until_settled(
        self, problem: Problem, plan: Plan, operator: Operator, space: BlockKrylov, limit: int, progress: Progress
    ) -> tuple[Path, list[Verdict]]:
        unknown: Sequence[Stop | None] = [None] * space.n_responses
        before = unknown
        looked, asked, draws, looks = 0, _scout(plan), 0, 0
        pace = 1.1 if space.counting is None else 1.3

        def look(asked: Plan, before: Sequence[Stop | None]) -> tuple[Path, list[Verdict]]:
            path = krylov_path(problem, asked, operator, space)
            return path, [judge(problem, asked, path, space, j, stop) for j, stop in enumerate(before)]

        while True:
            more = space.grow()
            progress.show(f"{space.products} products, {space.processed} columns")
            done = not more or space.processed >= limit
            if not done and (space.products < (4 if space.rational else 2) or space.processed < pace * looked):
                continue
            looked = space.processed
            path, verdicts = look(asked, before)
            if asked is not plan and (done or _settled(verdicts)):
                asked = plan
                path, verdicts = look(asked, unknown)
            first = verdicts[0]
            _aim(space, first, path.spectrum.largest_bound)
            progress.show(f"{space.products} products, step_sum in [{first.low:.4g}, {first.high:.4g}]")
            if _sharpen(space, verdicts):
                path, verdicts = look(asked, [v.stop for v in verdicts])
            elif space.counting is not None and _settled_but_for_chance(verdicts):
                done = True  # neither a larger space nor finer counts would tell more
            before, most_draws = [v.stop for v in verdicts], _most_draws(space)
            while not (done or _settled(verdicts) or draws >= most_draws):
                if not space.n_probes or not _settled_but_for_chance(verdicts):
                    break
                draws += 1
                progress.show(f"{space.products} products, more probes ({draws})")
                space.more_probes(self.place.store(operator, limit, problem), draws)
                path, verdicts = look(asked, before)
            looks += asked is plan and plan.rule.needs_rows and plan.tol > 0
            if done or _settled(verdicts) or draws >= most_draws or looks == _MOST_LOOKS:
                return path, verdicts


def _settled(verdicts: list[Verdict]) -> bool:
    return all(v.settled for v in verdicts)


def _settled_but_for_chance(verdicts: list[Verdict]) -> bool:
    return all(v.settled or v.noisy for v in verdicts)


def _aim(space: BlockKrylov, verdict: Verdict, largest: float) -> None:
    """Poles follow the stop once the estimate there means anything; before, they keep ranging."""
    space.pole = 1 / max(verdict.stop.step_sum, 10 / largest) if verdict.residual < 0.01 else 0.0


def _most_draws(space: BlockKrylov) -> int:
    """Draws cost as many products as the space did: after many, one more opinion is all that pays."""
    return _MOST_DRAWS if space.steps <= _LONG else 1


def _counting(operator: Line, plan: Plan) -> Counting | None:
    """Exact counts of eigenvalues, unless an exact stop or single eigenvectors are asked for."""
    if plan.tol == 0 or plan.rule.needs_rows or (plan.rule.needs_noise and plan.noise.needs_pairs):
        return None
    return operator.counting


def _sharpen(space: BlockKrylov, verdicts: list[Verdict]) -> bool:
    """Count more finely, or bound eigenvalues more sharply, where estimates are known and brackets still too wide."""
    if space.below is not None:
        return any(not v.narrow and v.residual <= 1e-6 for v in verdicts) and space.sharpen()
    if space.counting is None:
        return False
    wide = [v for v in verdicts if not v.narrow and v.residual < 5e-5 and v.stop.step_sum > 0]
    refined = [space.counting.refine(1 / v.stop.step_sum, again=v.noisy) for v in wide]
    return any(refined)


def _scout(plan: Plan) -> Plan:
    """The plan to grow with: a rule that reads every row is scouted by GCV for ridge, and asked once that has settled.

    The first minimum, since an unfinished space that holds the responses always finds a spurious one at the far end.
    So is a stop that was given, for the noise level.
    """
    first = plan.rule.needs_rows or plan.noise_elsewhere
    return replace(plan, rule=GCV("local"), filter=Ridge(), scouting=True) if first else plan


def krylov_path(problem: Problem, plan: Plan, operator: Operator, space: BlockKrylov) -> Path:
    """The path of all responses on the space as it is."""
    spectrum = space.spectrum()
    if plan.rule.needs_rows and not spectrum.complete:
        spectrum = with_diagonal(spectrum, operator.diagonal)
    filter, coordinates = plan.filter.bind(spectrum.largest_bound), space.response_coordinates()
    path = path_in_space(problem, spectrum, filter, coordinates, problem.weighted_responses)
    return path if space.complete else replace(path, horizon=_horizon(path, space))


def _horizon(path: Path, space: BlockKrylov) -> float:
    """The last clock reading at which the space still holds the (ridge) estimate of every response to a few percent.

    Beyond it a space that contains the responses only interpolates them, and every estimate of risk is fooled.
    """
    largest = path.spectrum.largest_bound
    if largest == 0 or not np.any(path.energy > 0):
        return math.inf
    grid = np.geomspace(0.1 / largest, path.step_sum_cap, 96)
    if space.rational:  # a residual is a product there: halve the grid instead of asking all of it
        first = bisect.bisect_left(range(grid.size), True, key=lambda i: bool(_lost(path, space, grid[i : i + 1])[0]))
    else:
        first = int(np.argmax(np.append(_lost(path, space, grid), True)))
    return math.inf if first == grid.size else float(grid[max(first - 1, 0)])


def _lost(path: Path, space: BlockKrylov, clock: Array) -> Array:
    """Where on the clock the residual of the (ridge) estimate of any response is too large to be read."""
    weights = Ridge().weight(path.spectrum.eigenvalues, clock).T
    lost = np.zeros(clock.size, dtype=bool)
    for column in np.flatnonzero(path.energy > 0):
        weighted = weights * path.coefficients[:, column, None]
        lost |= space.estimate_residual(weighted) > _READABLE * math.sqrt(path.energy[column])
    return lost


def _warn(verdicts: list[Verdict], plan: Plan, space: BlockKrylov) -> None:
    worst = next(v for v in verdicts if not v.settled)
    told = f"between step_sum {worst.low:.4g} and {worst.high:.4g} as far as the space can tell, which may be wrong"
    if decided_by_bound(plan):
        upper = f", and below {worst.high:.4g} as far as the space can tell, which may be wrong"
        told = f"not before step_sum {worst.low:.4g}" + (upper if math.isfinite(worst.high) else "")
    elif math.isinf(worst.high):
        told = "where this space cannot tell"
    warnings.warn(
        f"the stop is not settled after {space.products} products ({space.processed} columns; tol = {plan.tol:g}, "
        f'residual {worst.residual:.1e}): the exact one lies {told}. Raise tol, free memory, or use solver="nystrom"',
        UnsettledWarning,
        stacklevel=5,
    )


def _noise_first(problem: Problem, plan: Plan) -> Plan:
    """A noise level that only looks at rows is estimated once."""
    if not plan.rule.needs_noise or plan.noise.needs_path or problem.responses.shape[1] != 1:
        return plan
    return replace(plan, noise_given=noise_of(problem, plan, None, 0) * float(problem.scale[0]))


def probe_count(problem: Problem, plan: Plan, few: int, many: int) -> int:
    """Few probes where eigenvalues settle the stop, `many` where only statistics can; responses are some of them."""
    wanted = few if decided_by_bound(plan) or not reads_traces(plan) else many
    return int(max(1, min(wanted - problem.responses.shape[1], problem.n_rows - 1)))


def most_columns(plan: Plan) -> int:
    """Columns beyond which a space is given up, whatever the memory."""
    return 6000 if plan.tol == 0 else 2500


def _from_columns(
    operator: Operator, problem: Problem, plan: Plan, bounds: ColumnBounds
) -> Callable[[int], Array | None] | None:
    """Where products are dear and the bound decides, columns of K bound the eigenvalues for the price of one product.

    Not in single precision, nor for an exact stop: rounding would cost, or the shift would.
    """
    if not (isinstance(operator, Tiled) and problem.n_rows > bounds.from_rows and decided_by_bound(plan)):
        return None
    if plan.tol == 0 or plan.dtype != np.float64:
        return None
    order = canonical_order(problem)[np.random.default_rng([problem.seed, 1]).permutation(problem.n_rows)]

    def values(effort: int) -> Array | None:
        count = round(bounds.per_root * bounds.growth**effort * math.sqrt(problem.n_rows))
        if effort > bounds.rounds or (effort > 0 and (count > problem.n_rows / 2 or 64 * count**2 > free_bytes())):
            return None
        return operator.values_from_columns(order[:count])

    return values


def canonical_order(problem: Problem) -> Array:
    """Rows in an order that shuffling does not change: by covariates, then responses."""
    few = problem.covariates.shape[1] < 64
    keys = np.column_stack([problem.covariates, problem.responses]) if few else problem.responses
    return np.lexsort(keys.T[::-1])
