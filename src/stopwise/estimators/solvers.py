"""Which solver: the one asked for, or the one that fits."""

from __future__ import annotations

from typing import Any

from stopwise.estimators.problem import Problem
from stopwise.estimators.solution import DenseSolver, Plan, Solver


def choose_solver(estimator: Any, problem: Problem, plan: Plan) -> Solver:
    """A solver for the estimator's `solver` parameter."""
    name = estimator.solver
    if name in ("auto", "dense"):
        return DenseSolver()
    raise NotImplementedError(f"solver={name!r} is not built yet")
