"""Which solver: the one asked for, or the one that fits."""

from __future__ import annotations

import math
from functools import partial
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.memory import free_bytes, gibibytes, row_tiles
from stopwise._support.progress import Progress, say
from stopwise._support.torch import has_gpu, has_torch, is_tensor
from stopwise.engine.gpu.device_operator import Precision, predict_on_device
from stopwise.engine.gpu.plain_tiles import free_bytes as device_free_bytes
from stopwise.engine.operators import Dense, Operator
from stopwise.engine.operators.tiles import Tiled
from stopwise.engine.solvers import gpu_solver as cuda
from stopwise.engine.solvers.dense_solver import DenseSolver, check_dense_fits, dense_bytes
from stopwise.engine.solvers.gpu_solver import CudaSolver
from stopwise.engine.solvers.krylov_left_out import KrylovLeftOut
from stopwise.engine.solvers.krylov_solver import Host, KrylovSolver
from stopwise.engine.solvers.landmark_solver import NystromSolver
from stopwise.engine.solvers.line_solver import LINE_ROWS, LineSolver, on_the_line
from stopwise.engine.solvers.plan import Plan, Solver
from stopwise.engine.solvers.solve_places import HELD_SHARE, DevicePlace, HostPlace, Place, half_held_bytes, is_single
from stopwise.engine.solvers.solves_solver import SolvesSolver, search_starts
from stopwise.engine.solves.costs import DEVICE, DEVICE_ROWS, HOST, engine_costs, far_off
from stopwise.engine.solves.shifted_descent import is_smooth
from stopwise.kernels import Precomputed
from stopwise.kernels.forms import has_form
from stopwise.problem import Problem

DENSE_ROWS = 2500
"""Up to here an eigendecomposition takes seconds and answers everything exactly."""


KRYLOV_ROWS = 100_000
"""Up to here a product with all pairs of rows takes seconds to minutes on a processor."""


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


def choose_solver(problem: Problem, plan: Plan) -> Solver:
    """The solver that the plan asks for; "auto" says what it chose and why with verbose=1."""
    name = plan.solver
    if problem.trend is not None:
        name = "dense"  # a linear part is projected out of a held matrix
    if name == "auto":
        name, why = _automatic(problem, plan)
        say(f"solver={name!r}: {why}")
    if plan.rule.needs_all_pairs and name != "dense":
        raise ValueError(
            f'the rule {plan.rule.name} needs all eigenpairs, got solver={name!r}: use solver="dense" or "auto"'
        )
    if name == "dense":
        remedy = "fit fewer rows" if plan.rule.needs_all_pairs else 'use solver="krylov" or solver="auto"'
        check_dense_fits("the dense solver", problem.n_rows, plan.dtype, remedy)
        return DenseSolver()
    if name in ("krylov", "cuda") and _by_solves(plan):
        return _krylov_left_out(name, plan)
    if name == "krylov":
        return KrylovSolver("krylov", Host(_tiled))
    if name == "line":
        return LineSolver()
    if name == "nystrom":
        return NystromSolver(plan.n_landmarks)
    if name == "cuda":
        return CudaSolver(plan.precision)
    if name in ("factor", "preconditioned"):
        return SolvesSolver(name, _place(problem, plan))
    raise ValueError(
        f"solver must be one of dense, factor, preconditioned, krylov, line, nystrom, cuda and dask, got {name!r}"
    )


def _krylov_left_out(name: str, plan: Plan) -> Solver:
    """A Krylov space that asks the default rule of rows left out."""
    if name == "cuda":
        exact = KrylovLeftOut(CudaSolver("float64"), partial(_predict_there, precision="float64"), _start)
        finer = exact if plan.precision == "auto" else None
        return KrylovLeftOut(CudaSolver(plan.precision), _predict_there, _start, finer)
    return KrylovLeftOut(KrylovSolver("krylov", Host(_tiled)), _predict_here, _start)


def _predict_here(part: Problem, plan: Plan, new: Array, dual: Array) -> Array:
    tiles = row_tiles(len(new), part.n_rows)
    return np.concatenate([plan.kernel(new[rows], part.covariates) @ dual for rows in tiles])


def _start(problem: Problem, plan: Plan) -> tuple[float, ...]:
    """Penalties at which a search for the stop of the only response starts."""
    with Progress(plan.verbose) as progress:
        return search_starts(_place(problem, plan), plan, progress)[0].penalties


def _predict_there(part: Problem, plan: Plan, new: Array, dual: Array, precision: Precision = "float32") -> Array:
    device = cuda.device_for(part.covariates)
    return cast(Array, predict_on_device(plan.kernel, new, part.covariates, dual, device=device, precision=precision))


def _by_solves(plan: Plan) -> bool:
    """Whether solves answer: the default rule or a stop that was given, along a filter that is smooth."""
    return plan.rule_by_solves and is_smooth(plan.filter) and plan.tol > 0


def _cheapest(problem: Problem, plan: Plan) -> tuple[str, str] | None:
    """The engine of least cost that fits into memory, with its cost in words; None where all take too long."""
    n = problem.n_rows
    device = _device_pays(problem, plan)
    machine = DEVICE.fusing(plan.kernel, problem.covariates.shape[1]) if device else HOST
    free = device_free_bytes(cuda.device_for(problem.covariates)) if device else free_bytes()
    square = half_held_bytes(n, single=is_single(problem, plan))
    has_room = not device and square < HELD_SHARE * free
    needed = {
        "dense": math.inf if device else dense_bytes(n, plan.dtype),
        "factor": square if not device and n > machine.every_row else 2 * 8.0 * n**2,
        "preconditioned": square if has_room else 0.0,  # it takes as many columns as fit
    }
    seconds = engine_costs(n, machine, has_room=has_room)
    fits = sorted((engine for engine in seconds if needed[engine] < 0.8 * free), key=seconds.__getitem__)
    if not fits or seconds[fits[0]] > machine.patience:
        return None
    others = ", ".join(f"{engine} {_in_words(seconds[engine])}" for engine in fits[1:])
    where = "on the GPU" if device else "on the CPU"
    about = f"about {_in_words(seconds[fits[0]])}"
    if has_room and fits[0] == "preconditioned":
        about += f", {_in_words(far_off(n, machine))} where some rows say little of the stop"
    return fits[0], f"{n} rows {where}: {about}" + (f" ({others})" if others else "")


def _in_words(seconds: float) -> str:
    """Two digits."""
    return f"{float(f'{seconds:.2g}'):g} s"


def _device_pays(problem: Problem, plan: Plan) -> bool:
    """Whether solves are quicker on a device."""
    return _gpu(problem, plan, DEVICE_ROWS)[0]


def _place(problem: Problem, plan: Plan) -> Place:
    """Where solves happen: where the rows are, or on a GPU that is there and pays."""
    if cuda.DEVICE is not None or _device_pays(problem, plan):
        return DevicePlace(problem, plan, cuda.device_for(problem.covariates))
    return HostPlace(problem, plan)


def _automatic(problem: Problem, plan: Plan) -> tuple[str, str]:
    n, free = problem.n_rows, free_bytes()
    if plan.noise.correlated:
        return "line", "noise that neighbours share is told from the curve along the line"
    needed = dense_bytes(n, plan.dtype)
    if plan.rule.needs_all_pairs:
        return "dense", "blocks and groups of rows are left out by all eigenpairs"
    if plan.rule.splits_rows and needed < 0.8 * free:
        return "dense", "hold-out fits its training half with all eigenpairs"
    line = on_the_line(plan.kernel, problem.covariates.shape[1]) is not None
    if line and n >= LINE_ROWS and plan.rule.left_out_allowance is not None:
        return "line", f"{n} rows of one covariate: a few passes over them sorted"
    if n <= DENSE_ROWS and needed < 0.8 * free:
        return "dense", f"{n} rows: all eigenpairs take {gibibytes(needed)} of {gibibytes(free)} free"
    if line:
        return "line", f"{n} rows of one covariate: products in a few passes over them sorted"
    if _by_solves(plan):
        cheapest = _cheapest(problem, plan)
        if cheapest is not None:
            return cheapest
    gpu, why = _gpu(problem, plan, cuda.ROWS)
    # What takes too many products by solves is too rough for a Krylov space.
    if gpu and (is_tensor(problem.covariates) or n <= KRYLOV_ROWS or not _by_solves(plan)):
        return "cuda", f"{n} rows: products on tiles, {why}"
    if n > KRYLOV_ROWS and not isinstance(plan.kernel, Precomputed):
        return "nystrom", f"{n} rows: landmarks, since products with all pairs of rows would take hours {why}"
    return "krylov", f"{n} rows: products on tiles instead of {gibibytes(needed)} for all eigenpairs, {why}"


def _gpu(problem: Problem, plan: Plan, from_rows: int) -> tuple[bool, str]:
    """Whether rows are on a device already, or one is there and worth it for so many; and why (not)."""
    if is_tensor(problem.covariates):
        return True, f"where the rows are, on {problem.covariates.device}"
    if problem.n_rows < from_rows:
        return False, f"on the CPU (a GPU pays from {from_rows} rows on)"
    if not has_torch():
        return False, "on the CPU (torch, which would look for a GPU, is not installed)"
    if not has_gpu():
        return False, "on the CPU (torch sees no GPU)"
    if not has_form(plan.kernel):
        return False, f"on the CPU (the {plan.kernel.name} kernel has no device form)"
    return True, "on the GPU"
