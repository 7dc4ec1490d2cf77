"""The default rule on Krylov spaces.

Of rows so few that one fold of them would be too small to judge by, each is left out alone: a space that holds nearly
all degrees of freedom knows the leverages. Where it cannot hold them, and of more rows, folds are left out:

    where some rows stop -> a space on the rows beside a fold -> the fold's errors along its path -> the stop
                            (more folds where their chance leaves it open) -> a space on all rows

The whole path of a space costs one product with the rows left out, so that no minimum along it is missed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np

from stopwise._support.arrays import Array, Index
from stopwise._support.torch import on_host
from stopwise.engine.solvers.krylov_solver import UnsettledWarning, warn_of_regret
from stopwise.engine.solvers.plan import Plan, Solution, Solver, penalty_range, with_left_out
from stopwise.engine.solves.costs import LEAST_LEFT_OUT, fold_size
from stopwise.engine.solves.penalty_search import FoundPenalty, PenaltySearch
from stopwise.engine.solves.products.fold_system import fold_rows
from stopwise.engine.solves.search_start import STRIDE
from stopwise.filters import Ridge
from stopwise.kernels import Precomputed
from stopwise.problem import Problem
from stopwise.rules import Certainty, Fixed, Reason, Stop
from stopwise.rules.prudent import LeftOut

_MOST_ROWS = 8_000
"""Rows of a fold, at most: each fold takes a space of its own."""
_REACH = 4.0
"""How many times smaller a penalty than those started from a space is made to serve; then the square of it more."""
_SPACING = STRIDE / 4
"""Of readings, in log penalty: errors between them are interpolated to 1e-4 of themselves."""
Predict = Callable[[Problem, Plan, Array, Array], Array]
"""(rows to learn from, plan, new rows, dual weights) -> k(new, rows) @ dual weights."""


class KrylovLeftOut:
    """A Krylov solver asked the default rule.

    `predict` multiplies rows left out with the others'; `start`: the penalties that some rows ask for; `finer`: the
    same with products in float64, which few rows can afford: leverages near 1 have few digits in float32.
    """

    def __init__(
        self,
        inner: Solver,
        predict: Predict,
        start: Callable[[Problem, Plan], tuple[float, ...]],
        finer: KrylovLeftOut | None = None,
    ) -> None:
        self.inner, self.predict, self.start, self.name, self.finer = inner, predict, start, inner.name, finer

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        if problem.responses.shape[1] != 1 or plan.rule.left_out_allowance is None or problem.n_rows < 2:
            return self.inner.solve(problem, plan)
        if self.finer is not None and self._few(problem):
            return self.finer.solve(problem, plan)
        alone = self._each_alone(problem, plan)
        if alone is not None:
            return alone
        found, readings = self._search(problem, plan)
        step_sum = 0.0 if found.at_start else problem.n_samples / found.penalty
        solution = self.inner.solve(problem, replace(plan, rule=Fixed(step_sum=step_sum)))
        stop = _told(solution.stops[0], found, problem, plan, readings.products)
        if stop.certainty is not None and not stop.certainty.settled:
            warn_of_regret(found.regret, plan.tol, '; raise tol, or use solver="preconditioned"')
        return replace(solution, path=with_left_out(solution.path, [stop], [found], readings.rows), stops=[stop])

    @staticmethod
    def _few(problem: Problem) -> bool:
        """Whether a fold of the rows would be too small to judge by."""
        return fold_size(problem.n_rows, _MOST_ROWS) < LEAST_LEFT_OUT

    def _each_alone(self, problem: Problem, plan: Plan) -> Solution | None:
        """The stop by leverages of one space, where folds would be small and the space knows them; else None."""
        if not self._few(problem):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsettledWarning)
            solution = self.inner.solve(problem, replace(plan, each_row=True))
        stop, sure = solution.stops[0], solution.stops[0].certainty
        if sure is None or not sure.settled or sure.bracket is None:
            return None
        ridge = solution.path.column(0).along(Ridge())
        here, *ends = LeftOut(ridge).mean(np.array([stop.step_sum, *sure.bracket]))
        regret = float(max(abs(end - here) for end in ends) / max(here, np.finfo(float).tiny))
        known = replace(sure, settled=regret <= plan.tol, regret=regret, bracket=None)
        return replace(solution, stops=[replace(stop, certainty=known)]) if known.settled else None

    def _search(self, problem: Problem, plan: Plan) -> tuple[FoundPenalty, _Readings]:
        """From one fold how far spaces must reach; then more folds, until chance in their rows may lose little."""
        folds = fold_rows(problem.n_rows, problem.seed, _MOST_ROWS)
        furthest, _ = penalty_range(problem, plan, 0.0)
        needed, used = math.ceil(LEAST_LEFT_OUT / len(folds[0])), 1
        readings = _Readings(self, problem, plan, max(min(self.start(problem, plan)) / _REACH, furthest))
        while True:
            for rows in folds[len(readings.folds) : used]:
                readings.leave_out(rows)
            found = readings.found()
            if readings.ends_early(found) and readings.reach > furthest and readings.settled:
                reach = max(readings.reach / _REACH**2, furthest)
                readings = _Readings(self, problem, plan, reach, readings.products)
            elif used == len(folds) or not readings.settled or (found.regret <= plan.tol and used >= needed):
                beyond = readings.ends_early(found) and not readings.settled
                return (replace(found, regret=math.inf) if beyond else found), readings
            else:
                used = min(max(2 * used, needed), len(folds))


@dataclass
class _Readings:
    """Residuals of rows left out, a fold at a time, at the same penalties: those of at least `reach`."""

    asked: KrylovLeftOut
    problem: Problem
    plan: Plan
    reach: float
    products: int = 0
    settled: bool = True
    """Whether the space of every fold serves at the smallest of the penalties."""
    places: Array | None = None
    """Log penalties, ascending."""
    folds: list[Index] = field(default_factory=list)
    residuals: list[Array] = field(default_factory=list)
    """Of each fold, (places, rows), in weighted coordinates."""

    @property
    def rows(self) -> Index:
        return np.concatenate(self.folds)

    def leave_out(self, rows: Index) -> None:
        """Predict these rows from the others along the whole path of a space, which is then let go."""
        problem, plan = self.problem, self.plan
        others = np.setdiff1d(np.arange(problem.n_rows), rows)
        part = problem.subset(others, plan.kernel)
        scout = replace(plan, rule=Fixed(step_sum=part.n_samples / self.reach), filter=Ridge(), noise_given=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsettledWarning)  # the scout's own stop is not used
            space = self.asked.inner.solve(part, scout)
        path, sure = space.path.column(0), space.stops[0].certainty
        if self.places is None:
            least = math.log(max(self.reach, part.n_samples / path.step_sum_cap)) if path.step_sum_cap > 0 else 0.0
            _, most = penalty_range(part, plan, max(path.spectrum.largest_bound, 1e-280))
            most = max(math.log(most), least + _SPACING)
            self.places = np.linspace(least, most, math.ceil((most - least) / _SPACING) + 1)
        self.settled &= sure is None or sure.settled
        self.products += space.path.spectrum.products
        dual = path.dual_coef(part.n_samples / np.exp(self.places)).T
        columns = others if isinstance(plan.kernel, Precomputed) else slice(None)
        fitted = np.asarray(on_host(self.asked.predict(part, plan, problem.covariates[rows][:, columns], dual)))
        level = part.offset[0] - (0.0 if space.mean_row is None else space.mean_row @ dual)
        roots = 1.0 if problem.root_weights is None else problem.root_weights[rows, None]
        self.folds.append(rows)
        self.residuals.append((roots * (problem.responses[rows] - fitted - level)).T)

    def found(self) -> FoundPenalty:
        assert self.places is not None
        problem, rows = self.problem, self.rows
        search = PenaltySearch(
            _no_more,
            weight=float(len(rows) if problem.root_weights is None else (problem.root_weights[rows] ** 2).sum()),
            total=problem.n_samples,
            smallest=math.exp(self.places[0]),
            largest=math.exp(self.places[-1]),
            shares=problem.left_out_shares(rows),
            allowance=self.plan.rule.left_out_allowance or 0.0,
            together=len(self.folds[0]) / problem.n_rows,
            filter=self.plan.filter,
            known=dict(zip(self.places.tolist(), np.concatenate(self.residuals, axis=1), strict=True)),
        )
        return search.found()

    def ends_early(self, found: FoundPenalty) -> bool:
        """Whether the smallest error is at the smallest penalty read, so that a smaller one may be better."""
        assert self.places is not None
        return bool(math.log(found.lowest_penalty) < self.places[1])


def _no_more(penalty: float) -> NoReturn:
    raise AssertionError(f"a reading at the penalty {penalty:g} was asked for beside those made at once")


def _told(stop: Stop, found: FoundPenalty, problem: Problem, plan: Plan, products: int) -> Stop:
    """The stop with the evidence of the rows left out, and what arithmetic may lose in both spaces."""
    sure = stop.certainty or Certainty("krylov")
    settled = sure.settled and found.regret <= plan.tol
    reason = Reason.ZERO if stop.step_sum == 0 else Reason.MINIMUM if settled else Reason.BUDGET
    evidence = replace(stop.evidence, **found.evidence(plan.rule, problem.n_samples))
    products += sure.products or 0
    certainty = replace(sure, settled=settled, regret=found.regret, bracket=None, products=products)
    return replace(stop, reason=reason, evidence=evidence, certainty=certainty)
