"""The solver by solves: the default rule at a few penalties, and the estimate at the stop, with no eigenvector.

    a stop on some rows (all pairs) -> readings on all rows around it -> the stop -> the filter as solves at one shift

"factor" has a factor at each penalty, and leaves every row out, exactly. "preconditioned" has one factor near the stop
for all penalties, or products alone where that does not fit (and on a device); some of its rows are guessed or sampled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.progress import Progress
from stopwise._support.threads import blas_for, blas_threads
from stopwise._support.torch import on_host
from stopwise.engine.operators import Dense
from stopwise.engine.solvers.dense_solver import noise_of
from stopwise.engine.solvers.krylov_solver import warn_of_regret
from stopwise.engine.solvers.plan import Plan, Solution, bare_path, penalty_range, solved, sure_stop, with_left_out
from stopwise.engine.solvers.solve_places import Place
from stopwise.engine.solves.costs import SINGLE_ROWS
from stopwise.engine.solves.penalty_search import FoundPenalty, PenaltySearch
from stopwise.engine.solves.resolvent_space import GrowingSpace, largest_eigenvalue, space_around
from stopwise.engine.solves.search_start import SHORT_STRIDE, STRIDE, SearchStart, start_from
from stopwise.engine.solves.shifted_descent import as_resolvents, is_smooth, middle_reading
from stopwise.engine.solves.systems import RidgeSystem
from stopwise.engine.spectrum.block_krylov import with_diagonal
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.filters import GradientFlow, Ridge
from stopwise.path import Path
from stopwise.problem import Problem
from stopwise.rules import Certainty, Stop
from stopwise.rules.prudent import LeftOut

START_ROWS = 1_200
"""Rows on which all pairs read the stop that the search starts from: half a second."""
_PROBES = {"factor": 63, "preconditioned": 7}
"""Random signs beside the responses, which tell sums over all eigenvalues: many where a solve is two triangles."""
_ACCURACY = 1e-6
"""How far the filter's approximation may be off; for many rows one that is fine beside the estimate's error will do,"""
_MANY = {"factor": 60_000, "preconditioned": SINGLE_ROWS}
"""which is from here on: there each solve takes seconds."""
_RIDGE_STEPS = {"factor": 4, "preconditioned": 2}
"""Solves that span ridge's path around its stop; the estimate itself takes one."""
_AGREE, _AGREE_IN_FOLDS = 1e-4, 1e-3
"""How well an error must be known between readings, as a share of it: in folds, chance is larger than that."""
_HARDLY_ANY_SIGNAL = 0.95
"""Left-out error over that of the responses beyond which all penalties up to that of the constant fit are read: it may
be the stop. In normal noise and with 200 rows or more, a fit of less error is better than it by two standard errors."""


def search_starts(place: Place, plan: Plan, progress: Progress) -> tuple[SearchStart, ...]:
    """For each response where the search on all rows of a place starts.

    Of many rows, some thousand say by a factor; else what the plan has, or all pairs of a few rows.
    """
    problem = place.problem
    if _in_two_steps(place):
        part = place.of(problem.subset(problem.random_rows(place.machine.middle_rows), plan.kernel))
        return _Run(part.problem, plan, part.factors(), part, "factor", progress).starts_for_more_rows()
    return _starts_by_all_pairs(problem, plan) if plan.starts is None else plan.starts


def _in_two_steps(place: Place) -> bool:
    return place.problem.n_rows > 2 * place.machine.middle_rows


def _starts_by_all_pairs(problem: Problem, plan: Plan) -> tuple[SearchStart, ...]:
    part = problem.subset(problem.random_rows(min(START_ROWS, problem.n_rows)), plan.kernel)
    part = replace(part, covariates=np.asarray(on_host(part.covariates), dtype=np.float64))
    operator = Dense(np.asarray(part.gram(plan.kernel)), weights=part.weights, centred=part.intercept)
    path = part.path(dense_spectrum(operator), Ridge())
    smallest, largest = penalty_range(part, plan, path.spectrum.largest_bound)
    places = np.arange(math.log(smallest), math.log(max(largest, smallest)) + STRIDE, STRIDE / 2)
    readings = part.n_samples / np.exp(places)
    return tuple(
        start_from(places, LeftOut(path.column(j))(readings), float(path.energy[j])) for j in range(path.n_responses)
    )


class SolvesSolver:
    """`place` makes what is solved with; `name` is what the user calls it."""

    def __init__(self, name: str, place: Place) -> None:
        self.name, self.place = name, place

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        _check(plan, self.name)
        with blas_threads(blas_for(problem.n_rows)), Progress(plan.verbose) as progress:
            system = self._system(problem)
            return _Run(problem, plan, system, self.place, self.name, progress).solution()

    def _system(self, problem: Problem) -> RidgeSystem:
        if self.name == "preconditioned":
            return self.place.sampled(held=False)
        every_row = problem.n_rows <= self.place.machine.every_row
        return self.place.factors() if every_row else self.place.sampled(held=True)


def _check(plan: Plan, name: str) -> None:
    if not plan.rule_by_solves:
        raise ValueError(
            f'solver="{name}" answers the default rule and Fixed; the rule {plan.rule.name} reads the whole spectrum: '
            'use solver="dense" or solver="krylov"'
        )
    if not is_smooth(plan.filter):
        raise ValueError(
            f'solver="{name}" takes ridge, descent and flow; the filter {plan.filter.name} is no smooth function of '
            'the eigenvalue: use solver="dense" or solver="krylov"'
        )


@dataclass(frozen=True)
class _Run:
    problem: Problem
    plan: Plan
    system: RidgeSystem
    place: Place
    name: str
    progress: Progress
    seen: dict[float, Array] = field(default_factory=dict)
    """Left-out residuals of all responses at the penalties read."""

    def solution(self) -> Solution:
        problem, largest = self.problem, self._largest()
        responses = self.system.library.host(self.system.responses + 0.0)
        bare = bare_path(problem, self.plan.filter.bind(largest), responses, largest)
        found = [self._stop(bare.column(column), column) for column in range(problem.responses.shape[1])]
        stops = [stop for stop, _ in found]
        path, dual, error = self._estimate(bare, stops)
        path = with_left_out(path, stops, [by for _, by in found], self.system.rows_left_out)
        self._warn([by for _, by in found if by is not None])
        path = path.stopped_at(tuple(stop.step_sum for stop in stops))
        seen = self._path_of_noise(bare) if self.plan.noise_elsewhere else path
        sigmas = [noise_of(problem, self.plan, seen.column(j), j) for j in range(len(stops))]
        device = self.place.device
        solution = solved(problem, self.place.operator, path, stops, dual, error, sigmas, self.name)
        return replace(solution, device=device, precision=None if device is None else "float64")

    @property
    def _sampled(self) -> bool:
        """Whether chance in the choice of rows takes part: not each row was left out, alone and exactly."""
        system = self.system
        return system.together > 0 or system.guessed() > 0 or system.weight < (1 - 1e-9) * system.n_samples

    def _warn(self, found: list[FoundPenalty]) -> None:
        """Say of the first stop that is not settled what leaves it open, and what would help."""
        tol, loose = self.plan.tol, [each for each in found if each.regret > self.plan.tol]
        if not loose:
            return
        why, other = "errors between the penalties read are interpolated", 'solver="dense"'
        if self._sampled:
            why, other = "only a sample of rows was left out", 'a GPU or solver="factor"'
        if loose[0].regret - loose[0].unsolved <= tol:
            why, other = "solves at such small penalties come to no end", 'solver="factor"'
        warn_of_regret(loose[0].regret, tol, f", since {why}; raise tol, or use {other}")

    def _largest(self) -> float:
        """The largest eigenvalue of K, or just above it."""
        system, n = self.system, self.problem.n_samples
        self.progress.show("largest eigenvalue")
        found = largest_eigenvalue(lambda block: system.multiply(block) / n, system.start_vector(self.problem.seed))
        return max(found, 0.0) * (1 + system.rounding)

    # ---- where to stop ------------------------------------------------------------------------------------------

    def _stop(self, bare: Path, column: int) -> tuple[Stop, FoundPenalty | None]:
        """The stop of one response, and what its search found."""
        plan = self.plan
        sure = sure_stop(plan, bare, self.name)
        if sure is not None:
            return sure, None
        found = self._search(bare.spectrum.largest_bound, column)
        settled, products = found.regret <= plan.tol, self.system.tally.products
        certainty = Certainty(self.name, settled=settled, regret=found.regret, products=products)
        return found.stop(bare.filter, plan.rule, self.problem.n_samples, certainty), found

    def _search(self, largest: float, column: int) -> FoundPenalty:
        """Readings on the rows left out, on more of them where their chance leaves the stop open."""
        start, stride = self._starts[column], SHORT_STRIDE if _in_two_steps(self.place) else STRIDE
        self.system.expect(start.penalties[0], start.error)
        constant = tuple[float, ...]()
        if self.plan.rule.left_out_allowance and start.error > _HARDLY_ANY_SIGNAL:
            top = math.log(penalty_range(self.problem, self.plan, largest)[1])
            constant = tuple(np.arange(top, math.log(start.penalties[0]), -STRIDE).tolist())
        starts, also = start.penalties, constant
        while True:
            search = self._readings(largest, column, stride)
            found = search.run(starts, also)
            starts, stride, also = (found.lowest_penalty,), SHORT_STRIDE, (*constant, *search.still_open())
            if found.regret <= self.plan.tol or found.lasting > self.plan.tol or not self.system.grow():
                return found
            self.seen.clear()

    def _readings(self, largest: float, column: int, stride: float) -> PenaltySearch:
        problem, system = self.problem, self.system
        smallest, largest = penalty_range(problem, self.plan, largest)

        def left_out(penalty: float) -> Array:
            if penalty not in self.seen:
                self.progress.show(f"reading {len(self.seen) + 1}: penalty {penalty:.3g}")
                self.seen[penalty] = system.left_out(penalty)
            return self.seen[penalty][:, column]

        return PenaltySearch(
            left_out,
            weight=system.weight,
            total=system.n_samples,
            smallest=smallest,
            largest=largest,
            shares=problem.left_out_shares(system.rows_left_out),
            allowance=self.plan.rule.left_out_allowance or 0.0,
            together=system.together,
            guessed=system.guessed,
            unsolved=lambda penalty: float(system.unsolved(penalty)[column]),
            agree=_AGREE_IN_FOLDS if system.together > 0 else _AGREE,
            affordable=system.affordable,
            stride=stride,
            filter=self.plan.filter,
        )

    @cached_property
    def _starts(self) -> tuple[SearchStart, ...]:
        self.progress.show("a stop on some rows")
        return search_starts(self.place, self.plan, self.progress)

    def starts_for_more_rows(self) -> tuple[SearchStart, ...]:
        """For each response where a search on rows that these are a sample of starts."""
        largest, found = self._largest(), []
        for column, energy in enumerate((self.system.responses**2).sum(0)):
            search = self._readings(largest, column, STRIDE)
            search.run(self._starts[column].penalties)
            found.append(search.start(float(energy)))
        return tuple(found)

    # ---- the estimate there -------------------------------------------------------------------------------------

    def _path_of_noise(self, bare: Path) -> Path:
        """The path around readings that left-out rows would choose: a given stop may be anywhere, and where it is
        early nothing is seen there of what is noise."""
        largest = bare.spectrum.largest_bound
        if largest == 0:
            return bare
        reached = np.array([self.problem.n_samples / start.penalties[0] for start in self._starts])
        return self._around(replace(bare, filter=GradientFlow().bind(largest)), reached)[0]

    def _estimate(self, bare: Path, stops: list[Stop]) -> tuple[Path, Array, float]:
        """The path around the stops, dual weights of P's coordinates (n, q), and the filter's error."""
        return self._around(bare, np.array([stop.step_sum for stop in stops]))

    def _around(self, bare: Path, reached: Array) -> tuple[Path, Array, float]:
        """The same around clock readings, one for each response."""
        system, operator, n = self.system, self.place.operator, self.problem.n_samples
        largest = bare.spectrum.largest_bound
        middle = middle_reading(reached, largest)
        accuracy, tol = _ACCURACY, 1e-5 * self.plan.tol
        if self.problem.n_rows > _MANY[self.name]:
            accuracy, tol = system.search_tol, system.search_tol / 5
        pole = None if system.factored is None else system.factored * middle / n
        polynomial = as_resolvents(bare.filter, middle, largest, accuracy, pole)
        solver = system.at(polynomial.penalty(n, middle), tol)
        self.progress.show("the path around the stop")
        growing = GrowingSpace(solver, system.responses, n, system.library.take(self._probes()))
        space = space_around(growing, polynomial, reached, _RIDGE_STEPS[self.name])
        self.progress.show("the estimate")
        dual = space.after_last_solve(bare.filter, reached)
        if polynomial.degree > 1 or np.ptp(reached) > 0:  # else its first solve is the estimate
            dual = solver.inverse(space.before_last_solve(bare.filter, reached), dual)
        path = space.path(bare, middle, operator.trace, space.density)
        spectrum = with_diagonal(replace(path.spectrum, products=system.tally.products), operator.diagonal)
        return replace(path, spectrum=spectrum), system.library.host(dual + 0.0), polynomial.error

    def _probes(self) -> Array:
        """Random signs, centred, (n, p)."""
        rows, generator = self.problem.n_rows, np.random.default_rng([5, self.problem.seed])
        probes = generator.choice([-1.0, 1.0], size=(rows, min(_PROBES[self.name], rows)))
        direction = self.place.operator.constant_direction
        return probes - np.outer(direction, direction @ probes) if self.problem.intercept else probes
