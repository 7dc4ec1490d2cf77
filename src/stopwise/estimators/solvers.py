"""Which solver: the one asked for, or the one that fits."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from stopwise.estimators.krylov import KrylovSolver
from stopwise.estimators.nystrom import NystromSolver
from stopwise.estimators.problem import Problem
from stopwise.estimators.solution import DenseSolver, Plan, Solver
from stopwise.kernels import Precomputed
from stopwise.memory import free_bytes, gibibytes
from stopwise.operators import Dense, Operator
from stopwise.operators.tiled import Tiled
from stopwise.rules import HoldOut

DENSE_ROWS = 2500
"""Up to here an eigendecomposition takes seconds and answers everything exactly."""


def _tiled(problem: Problem, plan: Plan) -> Operator:
    if isinstance(plan.kernel, Precomputed):
        gram = problem.gram(plan.kernel).astype(plan.dtype, copy=False)
        return Dense(gram, weights=problem.weights, centred=problem.intercept)
    return Tiled(
        plan.kernel,
        problem.covariates,
        weights=problem.weights,
        centred=problem.intercept,
        dtype=plan.dtype,
        n_jobs=plan.n_jobs,
    )


def dense_bytes(n_rows: int, dtype: Any) -> float:
    """What the dense route needs at its peak: the matrix, its eigenvectors and LAPACK's workspace."""
    return 4.0 * n_rows**2 * np.dtype(dtype).itemsize


def choose_solver(estimator: Any, problem: Problem, plan: Plan) -> Solver:
    """A solver for the estimator's `solver` parameter; "auto" says what it chose and why with verbose=1."""
    name = estimator.solver
    if name == "auto":
        name, why = _automatic(problem, plan)
        if plan.verbose:
            sys.stderr.write(f"solver={name!r}: {why}\n")
    if name == "dense":
        _check_dense_fits(problem, plan)
        return DenseSolver()
    if name == "krylov":
        return KrylovSolver("krylov", _tiled)
    if name == "nystrom":
        return NystromSolver(estimator.n_landmarks)
    raise NotImplementedError(f"solver={name!r} is not built yet")


def _automatic(problem: Problem, plan: Plan) -> tuple[str, str]:
    n, free = problem.n_rows, free_bytes()
    needed = dense_bytes(n, plan.dtype)
    if isinstance(plan.rule, HoldOut) and needed < 0.8 * free:
        return "dense", "hold-out fits its training half with all eigenpairs"
    if n <= DENSE_ROWS and needed < 0.8 * free:
        return "dense", f"{n} rows: all eigenpairs take {gibibytes(needed)} of {gibibytes(free)} free"
    return "krylov", f"{n} rows: products on tiles instead of {gibibytes(needed)} for all eigenpairs"


def _check_dense_fits(problem: Problem, plan: Plan) -> None:
    needed, free = dense_bytes(problem.n_rows, plan.dtype), free_bytes()
    if needed > free:
        raise MemoryError(
            f"the dense solver needs about {gibibytes(needed)} for {problem.n_rows} rows and {gibibytes(free)} is free: "
            'use solver="krylov" or solver="auto"'
        )
