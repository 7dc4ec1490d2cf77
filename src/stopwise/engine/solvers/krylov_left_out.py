"""The default rule on a Krylov space: some rows are left out of it and predicted at every reading of the clock.

    a space on the other rows -> errors of the rows left out along its path -> the stop -> a space on all rows

For smooth problems of very many rows, where a space of a few hundred columns holds the estimate and its whole path
costs one product with the rows left out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import on_host
from stopwise.engine.solvers.krylov_solver import UnsettledWarning
from stopwise.engine.solvers.plan import Plan, Solution, Solver, with_left_out
from stopwise.engine.solvers.solves_solver import smallest_penalty
from stopwise.engine.solves.penalty_search import FoundPenalty, PenaltySearch
from stopwise.filters import Ridge
from stopwise.problem import Problem
from stopwise.rules import Certainty, Fixed, Reason, Stop

_SHARE, _MOST_ROWS = 20, 8_000
"""Rows left out: one in so many, and at most so many."""

_REACH = 4.0
"""How many times smaller a penalty than the one started from a space is made to serve; then the square of it more."""
Predict = Callable[[Problem, Plan, Array, Array], Array]
"""(rows to learn from, plan, new rows, dual weights) -> k(new, rows) @ dual weights."""


class KrylovLeftOut:
    """A Krylov solver asked the default rule.

    `predict` multiplies rows left out with the others'; `start`: the penalties that some rows ask for.
    """

    def __init__(self, inner: Solver, predict: Predict, start: Callable[[Problem, Plan], tuple[float, ...]]) -> None:
        self.inner, self.predict, self.start, self.name = inner, predict, start, inner.name

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        if problem.responses.shape[1] != 1 or plan.rule.left_out_allowance is None:
            return self.inner.solve(problem, plan)
        rows = problem.random_rows(min(problem.n_rows // _SHARE, _MOST_ROWS))
        found, products = self._search(problem, plan, rows)
        step_sum = 0.0 if found.at_start else problem.n_samples / found.penalty
        solution = self.inner.solve(problem, replace(plan, rule=Fixed(step_sum=step_sum)))
        stop = _told(solution.stops[0], found, problem, plan, products)
        if stop.certainty is not None and not stop.certainty.settled:
            warnings.warn(
                f"the stop is not settled: its left-out error may be {100 * found.regret:.2g} percent above that of "
                f'the exact stop (tol = {plan.tol:g}); raise tol, or use solver="preconditioned"',
                UnsettledWarning,
                stacklevel=5,
            )
        return replace(solution, path=with_left_out(solution.path, [found.left_out], rows), stops=[stop])

    def _search(self, problem: Problem, plan: Plan, rows: Array) -> tuple[FoundPenalty, int]:
        others = np.setdiff1d(np.arange(problem.n_rows), rows)
        part, starts = problem.subset(others, plan.kernel), self.start(problem, plan)
        products, reach, furthest = 0, min(starts) / _REACH, smallest_penalty(problem, plan)
        while True:
            found, more = self._within(problem, plan, rows, part, starts, max(reach, furthest))
            products += more
            if not found.at_end or reach <= furthest or math.isinf(found.regret):
                return found, products
            starts, reach = (reach,), reach / _REACH**2

    def _within(
        self, problem: Problem, plan: Plan, rows: Array, part: Problem, starts: tuple[float, ...], least: float
    ) -> tuple[FoundPenalty, int]:
        """The stop among penalties of at least `least`, in a space that is made to serve there; and its products."""
        scout = replace(plan, rule=Fixed(step_sum=part.n_samples / least), filter=Ridge(), noise_given=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsettledWarning)  # the scout's own stop is not used
            space = self.inner.solve(part, scout)
        new = problem.covariates[rows]
        roots = np.ones(len(rows)) if problem.root_weights is None else problem.root_weights[rows]
        path = space.path.column(0)

        def left_out(penalty: float) -> Array:
            dual = path.dual_coef(part.n_samples / penalty)
            fitted = np.asarray(on_host(self.predict(part, plan, new, dual[:, None])))[:, 0]
            level = float(part.offset[0]) - (0.0 if space.mean_row is None else float(space.mean_row @ dual))
            return cast(Array, roots * (problem.responses[rows, 0] - fitted - level))

        least = max(least, part.n_samples / path.step_sum_cap)
        search = PenaltySearch(
            left_out,
            weight=float((roots**2).sum()),
            total=problem.n_samples,
            smallest=least,
            largest=1e3 * part.n_samples * path.spectrum.largest_bound,
            shares=problem.left_out_shares(rows),
            allowance=plan.rule.left_out_allowance or 0.0,
            together=len(rows) / problem.n_rows,
            agree=1e-3,
        )
        found = search.run(starts)
        sure = space.stops[0].certainty
        beyond = found.at_end and sure is not None and not sure.settled
        return (replace(found, regret=math.inf) if beyond else found), space.path.spectrum.products


def _told(stop: Stop, found: FoundPenalty, problem: Problem, plan: Plan, products: int) -> Stop:
    """The stop with the evidence of the rows left out, and what arithmetic may lose in both spaces."""
    sure = stop.certainty or Certainty("krylov")
    settled = sure.settled and found.regret <= plan.tol
    reason = Reason.ZERO if stop.step_sum == 0 else Reason.MINIMUM if settled else Reason.BUDGET
    evidence = replace(
        stop.evidence,
        **found.evidence(plan.rule, problem.n_samples),
    )
    certainty = replace(
        sure, settled=settled, regret=found.regret, bracket=None, products=(sure.products or 0) + products
    )
    return replace(stop, reason=reason, evidence=evidence, certainty=certainty)
