"""The matrix-free solver on a GPU: fused tiles, blocks and basis on the device, memory planned before the start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from stopwise._support import memory
from stopwise._support.arrays import Device, Rows, Tensor
from stopwise._support.memory import gibibytes
from stopwise._support.torch import is_tensor, pick_device, torch
from stopwise.engine.gpu.device_operator import Cuda, OnDevice, Precision, as_tensor
from stopwise.engine.gpu.device_store import SLAB, DeviceBasis, TorchStore
from stopwise.engine.gpu.plain_tiles import free_bytes
from stopwise.engine.operators import Operator
from stopwise.engine.solvers.krylov_solver import KrylovSolver, most_columns, probe_count
from stopwise.engine.solvers.plan import Plan, Solution
from stopwise.problem import Problem

DEVICE: Device | str | None = None
"""Another torch device than the GPU for everything below; the tests say "cpu"."""
ROWS = 20_000
"""From here on "auto" takes a GPU that is there: loading torch and compiling a kernel takes seconds."""
_ROUNDING = {"float64": 2.2e-16, "float32": 1.2e-7, "fast": 1e-3}
_WIDTH = 64
"""Columns of a block, whatever settles the stop: at a million rows a product of width 64 takes twice as long as one of
width 16."""
_PARTIAL_SUMS = 2 << 30
"""Bytes that partial sums of a product may take."""
_BLOCKS = 8
"""Blocks in float64 that are alive at once, at most, while a space grows."""


def mode_of(precision: str) -> Precision:
    """The precision of products on the GPU: "auto" is float32-accurate, in fused tiles."""
    return "float32" if precision == "auto" else cast(Precision, precision)


@dataclass(frozen=True)
class OnGpu:
    """Blocks are tensors on a device (a `Place`)."""

    device: Device
    mode: Precision

    def operator(self, problem: Problem, plan: Plan) -> Cuda:
        return Cuda(
            plan.kernel,
            problem.covariates,
            weights=problem.weights,
            centred=problem.intercept,
            precision=self.mode,
            device=self.device,
        )

    def multiplier(self, operator: Operator) -> OnDevice:
        return cast(Cuda, operator).on_device

    def store(self, operator: Operator, limit: int, problem: Problem) -> TorchStore:
        order = canonical_order(cast(Cuda, operator), problem)
        return TorchStore(self.multiplier(operator), reserve=self.working_bytes(problem), order=order)

    def probe_count(self, problem: Problem, plan: Plan) -> int:
        # The block is filled up to its width: beside one response, one probe less.
        return min(probe_count(problem, plan, _WIDTH, _WIDTH), max(1, problem.n_rows // 4))

    def precision(self, problem: Problem, plan: Plan) -> float:
        # Rounding of float32 products is spread at random over rows and columns: against an eigenvalue it averages out.
        unit = _ROUNDING[self.mode]
        return unit if self.mode == "float64" else max(0.1 * unit / float(np.sqrt(problem.n_rows)), 2.5e-11)

    def working_bytes(self, problem: Problem) -> int:
        """What a fit needs on the device beside its basis: rows made ready, blocks, partial sums."""
        d = problem.covariates.shape[1]
        rows = problem.n_rows * (8 * d + 2 * 2 * (3 * d + 32))
        blocks = _BLOCKS * 8 * problem.n_rows * max(_WIDTH, problem.responses.shape[1] + 1)
        return int(rows + blocks + min(_PARTIAL_SUMS, 64 * problem.n_rows * 64))

    def column_limit(self, problem: Problem, plan: Plan) -> int:
        """Columns on the device while they fit, then in host memory."""
        column = problem.n_rows * (8 if self.mode == "float64" else 4)
        working = self.working_bytes(problem)
        free = free_bytes(self.device) if self.device.type == "cuda" else memory.free_bytes()
        here = max(0, free - working) // column
        there = memory.free_bytes() // 3 // column if self.device.type == "cuda" else 0
        if free < working or here + there < 2 * SLAB:
            raise MemoryError(
                f'solver="cuda" needs {gibibytes(working + 2 * SLAB * column)} on {self.device} for '
                f"{problem.n_rows} rows (rows and blocks {gibibytes(working)}, the rest a basis of {2 * SLAB} columns) "
                f'and {gibibytes(free)} are free: free memory on the GPU, fit fewer rows, or use solver="nystrom"'
            )
        return int(min(problem.n_rows, here + there, most_columns(plan)))


class CudaSolver:
    """Block Krylov with products, basis and algebra on the GPU; only small matrices and finished weights come back."""

    name = "cuda"

    def __init__(self, precision: str = "auto") -> None:
        self.mode = mode_of(precision)

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        device = device_for(problem.covariates)
        mode: Precision = "float64" if plan.tol == 0 else self.mode  # one step cannot be told in single precision
        plan = replace(plan, dtype=np.float64 if mode == "float64" else np.float32)
        solution = KrylovSolver(self.name, OnGpu(device, mode)).solve(problem, plan)
        cast(DeviceBasis, solution.path.spectrum.basis).store.forget()
        return replace(solution, device=str(device), precision=mode)


def device_for(covariates: Rows) -> Device:
    """The GPU (or `DEVICE`); a tensor that is on one already stays there."""
    there = cast(Tensor, covariates).device if is_tensor(covariates) else None
    return pick_device(there if DEVICE is None and there is not None and there.type == "cuda" else DEVICE)


def canonical_order(operator: Cuda, problem: Problem) -> Tensor:
    """Rows in an order that shuffling does not change, by one number made of covariates and responses."""
    library, rows = torch(), operator.rows
    responses = as_tensor(problem.responses, rows.device, library.float64)
    mixed = library.cat([rows, responses], 1)
    generator = np.random.default_rng(20140115)
    weights = as_tensor(generator.uniform(1.0, 2.0, mixed.shape[1]), rows.device)
    # Summed column by column: the same row gives the same number wherever it stands.
    key = rows.new_zeros(len(rows))
    for column, weight in zip(mixed.T, weights, strict=True):
        key += column * weight
    return library.argsort(key)
