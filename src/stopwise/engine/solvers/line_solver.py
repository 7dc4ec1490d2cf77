"""The solver of one covariate: the default rule exactly on every row, and the estimate by solves, in O(n).

    sorted rows -> a stop on bins -> the same on all rows -> the filter as solves at one shift -> weights

Rules that read the whole spectrum (the paper's own among them) go through a Krylov space with the line's products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_for, blas_threads
from stopwise.engine.line.exact_stop import ExactStop
from stopwise.engine.line.fits import fit_at
from stopwise.engine.line.merged_rows import LineRows, in_bins, merge_rows
from stopwise.engine.line.repeated_solves import LineFactor, LineOperator
from stopwise.engine.line.scores import BINS_PER_DEGREE, SharedNoise, evidence_noise, shared_noise
from stopwise.engine.line.transitions import StateSpace, state_space
from stopwise.engine.operators import Dense, Operator
from stopwise.engine.operators.running_sums import Line
from stopwise.engine.solvers.dense_solver import noise_of
from stopwise.engine.solvers.krylov_solver import Host, KrylovSolver
from stopwise.engine.solvers.plan import Plan, Solution, bare_path, penalty_range, solved, sure_stop
from stopwise.engine.solves.penalty_search import FoundPenalty
from stopwise.engine.solves.resolvent_space import GrowingSpace, largest_eigenvalue, space_around
from stopwise.engine.solves.shifted_descent import as_resolvents, is_smooth, middle_reading
from stopwise.engine.spectrum.block_krylov import with_diagonal
from stopwise.kernels import Kernel, Sobolev
from stopwise.noise import Evidence
from stopwise.path import Path
from stopwise.problem import Problem
from stopwise.rules import Certainty, Reason, Stop
from stopwise.rules.base import stop_at
from stopwise.spectrum import Density, spread_density

LINE_ROWS = 300
"""From here on one covariate is solved on the line: below, all eigenpairs take a blink."""
_SEARCH_PLACES = 16_384
"""Bins on which the stop is looked for, no wider than an eighth of the fit's detail; errors are those of all rows."""
_ACCURACY, _ACCURACY_MANY, _MANY = 1e-8, 1e-6, 100_000
"""How far the filter's approximation may be off, and from how many rows a hundred times that is allowed: the error of
an estimate from so many rows is a thousand times larger."""
_RIDGE_STEPS = 4
"""Solves that span ridge's path around its stop."""
_SPECTRUM_PLACES = 1_000
"""Bins whose eigenvalues stand for all of them in sums; exact where there are no more places."""


def on_the_line(kernel: Kernel, n_features: int) -> StateSpace | None:
    """The state-space form of a kernel, where there is one covariate and it has one."""
    return state_space(kernel) if n_features == 1 else None


def line_operator(problem: Problem, plan: Plan) -> Operator:
    """Products with K in O(n)."""
    if isinstance(plan.kernel, Sobolev):
        return Line(plan.kernel, problem.covariates, weights=problem.weights, centred=problem.intercept)
    space = _space(problem, plan)
    rows = merge_rows(problem.covariates[:, 0], problem.responses, problem.weights)
    return LineOperator(plan.kernel, space, problem.covariates, rows, centred=problem.intercept)


def _space(problem: Problem, plan: Plan) -> StateSpace:
    space = on_the_line(plan.kernel, problem.covariates.shape[1])
    if space is None:
        raise ValueError(
            f'solver="line" takes one covariate and the kernels sobolev1, sobolev2, laplace, matern12, matern32 and '
            f"matern52; got {problem.covariates.shape[1]} covariate(s) and {plan.kernel.name}: use one of these, or "
            'solver="krylov"'
        )
    return space


class LineSolver:
    """One covariate, a kernel with a finite state."""

    name = "line"

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        space = _space(problem, plan)
        plan.kernel.check(problem.covariates)
        solvable = plan.rule_by_solves and is_smooth(plan.filter)
        if plan.noise.correlated:
            _check_sharing(problem, solvable=solvable)
        if not solvable:
            return KrylovSolver("line", Host(line_operator)).solve(problem, plan)
        return _Run(problem, plan, space).solution()


def _check_sharing(problem: Problem, *, solvable: bool) -> None:
    """Raise ValueError where noise that neighbours share cannot be estimated with the stop."""
    if not solvable:
        raise ValueError(
            'noise_std=AR1() goes with rule="auto" or Fixed(...), and descent, flow or ridge: other rules take the '
            "noise of rows as independent"
        )
    x, weights = problem.covariates[:, 0], problem.weights
    if np.unique(x).size < len(x) or (weights is not None and np.ptp(weights) > 0):
        raise ValueError(
            "noise_std=AR1() is for rows of equal weight, one at each place, and some places repeat: average them, or "
            "use rule=LeaveBlockOut(size)"
        )


@dataclass(frozen=True)
class _Run:
    problem: Problem
    plan: Plan
    space: StateSpace

    @cached_property
    def rows(self) -> LineRows:
        """Sorted, ties merged."""
        return merge_rows(
            self.problem.covariates[:, 0], self.problem.responses, self.problem.weights, self.problem.counts
        )

    @cached_property
    def operator(self) -> Operator:
        return line_operator(self.problem, self.plan)

    @cached_property
    def responses(self) -> Array:
        """Weighted, centred responses, (n, q)."""
        roots = np.sqrt(self.rows.row_weights)[:, None]
        return self.operator.centre(roots * self.problem.responses)

    def solution(self) -> Solution:
        plan = self.plan
        largest = self._largest()
        bare = bare_path(self.problem, plan.filter.bind(largest), self.responses, largest)
        stops = [self._stop(bare.column(column), column) for column in range(self.problem.responses.shape[1])]
        path, dual, error = self._estimate(bare, stops)
        path = path.stopped_at(tuple(stop.step_sum for stop in stops))
        sigmas = [self._noise(path, stop, j) for j, stop in enumerate(stops)]
        return solved(self.problem, self.operator, path, stops, dual, error, sigmas, "line")

    def _largest(self) -> float:
        """A bound on K's largest eigenvalue: from bins where rows are many, then a few products with all of them."""
        binned = in_bins(self.rows, _SEARCH_PLACES)
        start = np.random.default_rng([3, self.problem.seed]).normal(size=self.problem.n_rows)
        steps = 60
        if binned is not self.rows:
            centres = binned.covariate[:, None]
            merged = merge_rows(binned.covariate, binned.responses, binned.weights)
            small = LineOperator(self.plan.kernel, self.space, centres, merged, centred=self.problem.intercept)
            vector = np.random.default_rng([3, self.problem.seed]).normal(size=binned.n_places)
            for _ in range(12):
                vector = small.multiply(vector[:, None])[:, 0]
                vector /= max(float(np.linalg.norm(vector)), 1e-300)
            start = (vector / small.root_weights)[binned.place_of] * np.sqrt(self.rows.row_weights)
            steps = 3
        return max(largest_eigenvalue(self.operator.multiply, self.operator.centre(start[:, None])[:, 0], steps), 0.0)

    # ---- where to stop ------------------------------------------------------------------------------------------

    def _stop(self, bare: Path, column: int) -> Stop:
        plan, n = self.plan, self.problem.n_samples
        sure = sure_stop(plan, bare, "line")
        if sure is not None:
            return sure
        if plan.noise.correlated:
            shared = self.shared[column]
            step_sum = n / (shared.penalty * shared.inflation)
            stop = stop_at(bare.filter, step_sum, Reason.MINIMUM, rule="marginal-likelihood")
            return replace(stop, certainty=Certainty("line", regret=0.0))
        found = self._search(bare.spectrum.largest_bound, column)
        certainty = Certainty("line", settled=found.regret <= plan.tol, regret=found.regret)
        return found.stop(bare.filter, plan.rule, n, certainty)

    @cached_property
    def shared(self) -> list[SharedNoise]:
        columns = range(self.rows.responses.shape[1])
        return [shared_noise(self.rows, self.space, j, intercept=self.problem.intercept) for j in columns]

    def _search(self, largest: float, column: int) -> FoundPenalty:
        """The rule's penalty: on all places, or on bins that are fine enough, with the errors of all rows."""
        smallest, most = penalty_range(self.problem, self.plan, largest)
        allowance = self.plan.rule.left_out_allowance or 0.0
        exact = ExactStop(self.rows, self.space, column, self.problem.intercept, allowance)
        places = _SEARCH_PLACES
        while places < self.rows.n_places:
            found = replace(exact, rows=in_bins(self.rows, places)).run(smallest, most)
            if self._freedom(places, found.lowest_penalty) <= places / BINS_PER_DEGREE:
                return exact.confirmed(found)
            places *= 4
        return exact.run(smallest, most)

    def _freedom(self, places: int, penalty: float) -> float:
        fit = fit_at(in_bins(self.rows, places), self.space, penalty, intercept=self.problem.intercept)
        return float(fit.degrees_of_freedom[0])

    # ---- the estimate there -------------------------------------------------------------------------------------

    def _estimate(self, bare: Path, stops: list[Stop]) -> tuple[Path, Array, float]:
        """The path around the stops, dual weights of weighted coordinates (n, q), and the filter's error."""
        n, largest = self.problem.n_samples, bare.spectrum.largest_bound
        reached = np.array([stop.step_sum for stop in stops])
        middle = middle_reading(reached, largest)
        accuracy = _ACCURACY if self.problem.n_rows <= _MANY else _ACCURACY_MANY
        polynomial = as_resolvents(bare.filter, middle, largest, accuracy)
        solves = LineFactor(self.rows, self.space, polynomial.penalty(n, middle), intercept=self.problem.intercept)
        space = space_around(GrowingSpace(solves, self.responses, n), polynomial, reached, _RIDGE_STEPS)
        dual = solves.inverse(space.before_last_solve(bare.filter, reached))
        path = space.path(bare, middle, self.operator.trace, self.density)
        return replace(path, spectrum=with_diagonal(path.spectrum, self.operator.diagonal)), dual, polynomial.error

    @cached_property
    def density(self) -> Density:
        """Eigenvalues of K merged into bins, and what they leave of the trace spread over the others."""
        binned = in_bins(self.rows, _SPECTRUM_PLACES)
        gram = self.plan.kernel(binned.covariate[:, None])
        matrix = Dense(gram, weights=binned.weights, centred=self.problem.intercept).normalized_gram()
        with blas_threads(blas_for(len(matrix))):
            values = np.maximum(np.linalg.eigvalsh(matrix)[::-1], 0.0)
        return spread_density(values, max(self.operator.trace, float(values.sum())), self.problem.n_samples)

    def _noise(self, path: Path, stop: Stop, column: int) -> float:
        """The noise level of one response in problem units; by evidence it is exact here."""
        if self.plan.noise.correlated:
            shared = self.shared[column]
            return shared.noise_std * math.sqrt(shared.inflation)
        if not isinstance(self.plan.noise, Evidence) or self.plan.noise_given is not None:
            return noise_of(self.problem, self.plan, path.column(column), column)
        binned = in_bins(self.rows, _SEARCH_PLACES)
        start = stop.step_sum if stop.step_sum > 0 else 1.0 / max(path.spectrum.largest_bound, 1e-280)
        diagonal = self.operator.trace / self.problem.n_samples
        return evidence_noise(binned, self.space, column, start, diagonal, intercept=self.problem.intercept)
