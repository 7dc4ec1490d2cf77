"""Where solves happen: numpy on the host, or torch on a device. Each makes the systems of a problem."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol, cast

import numpy as np

from stopwise._support import memory
from stopwise._support.arrays import Array, Device
from stopwise._support.memory import gibibytes
from stopwise.engine.gpu.device_matrix import columns_on_device, gram_on_device
from stopwise.engine.gpu.device_operator import Cuda, as_tensor, rounding_error
from stopwise.engine.gpu.plain_tiles import free_bytes
from stopwise.engine.operators import Dense, Operator
from stopwise.engine.operators.tiles import Tiled
from stopwise.engine.solvers.plan import Plan
from stopwise.engine.solves.anchor import AnchorSystem
from stopwise.engine.solves.costs import (
    DEVICE,
    DEVICE_SOLVE,
    HOST,
    HOST_SOLVE,
    LEAST_LEFT_OUT,
    LEAST_PRODUCTS,
    SINGLE_ROWS,
)
from stopwise.engine.solves.factor import centred_gram
from stopwise.engine.solves.half_held import HalfHeld
from stopwise.engine.solves.systems import FactorSystem, FoldSystem, RawGram
from stopwise.kernels import Precomputed
from stopwise.problem import Problem

HELD_SHARE = 0.6
"""Of the free memory, what a held matrix may take."""
_TILE_ROWS = 500
"""Rows of a held matrix that are made at once: its kernel takes several copies of them."""
HOST_RANK, DEVICE_RANK = 1_500, 5_000
"""Columns of a preconditioner: about as many multiplications as a handful of products with a block of sixteen."""


def half_held_bytes(n_rows: int, *, single: bool) -> float:
    """What a matrix and its factor in one square take, with the columns of the rows left out beside them."""
    return (4.0 if single else 8.0) * n_rows * (n_rows + 6 * min(n_rows, LEAST_LEFT_OUT))


def is_single(problem: Problem, plan: Plan) -> bool:
    """Whether a factor in float32 will do where penalties allow: for so many rows that estimates are rough anyway."""
    return problem.n_rows > SINGLE_ROWS and plan.precision != "float64" and plan.tol > 0


class Place(Protocol):
    """Makes the systems of one problem."""

    @property
    def problem(self) -> Problem:
        """Whose systems."""

    def of(self, problem: Problem) -> Place:
        """The same place for another problem."""

    @property
    def operator(self) -> Operator:
        """K, for products that are few."""

    @property
    def device(self) -> str | None:
        """The device's name, or None on the host."""

    def factors(self) -> FactorSystem:
        """The held matrix."""

    def sampled(self, *, held: bool) -> FoldSystem | AnchorSystem:
        """Some rows left out: with a `held` matrix, or whichever way fits."""


def _roots(problem: Problem) -> Array:
    return np.ones(problem.n_rows) if problem.root_weights is None else problem.root_weights


def _constant(problem: Problem) -> Array | None:
    return _roots(problem) / np.sqrt(problem.n_samples) if problem.intercept else None


class HostPlace:
    """numpy: a matrix that is held where it fits, tiles where not."""

    device: str | None = None

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan

    def of(self, problem: Problem) -> HostPlace:
        """The same place for another problem."""
        return HostPlace(problem, self.plan)

    @cached_property
    def _held(self) -> Array | None:
        """The Gram matrix in float64 where it and one copy fit, made a tile at a time."""
        problem, kernel, n = self.problem, self.plan.kernel, self.problem.n_rows
        if isinstance(kernel, Precomputed):
            return np.asarray(problem.gram(kernel), dtype=np.float64)
        if 2 * 8.0 * n**2 >= HELD_SHARE * memory.free_bytes():
            return None
        held, everything = np.empty((n, n)), np.arange(n)
        for rows in np.array_split(everything, -(-n // _TILE_ROWS)):
            held[rows[0] : rows[-1] + 1] = problem.gram(kernel, rows, everything)
        return held

    @cached_property
    def operator(self) -> Operator:
        """K, for products that are few."""
        problem, plan = self.problem, self.plan
        if self._held is not None:
            own = not isinstance(plan.kernel, Precomputed)
            return Dense(self._held, weights=problem.weights, centred=problem.intercept, own=own)
        return Tiled(
            plan.kernel, problem.covariates, weights=problem.weights, centred=problem.intercept, n_jobs=plan.n_jobs
        )

    def _matrix(self) -> Array:
        """The Gram matrix, to be overwritten."""
        fresh = self.problem.gram(self.plan.kernel) if self._held is None else self._held.copy()
        return fresh.astype(np.float64, copy=False)

    def factors(self) -> FactorSystem:
        problem = self.problem
        needed = 8.0 * problem.n_rows**2
        if needed > 0.9 * memory.free_bytes():
            raise MemoryError(
                f'solver="factor" needs about {gibibytes(needed)} for {problem.n_rows} rows and '
                f'{gibibytes(memory.free_bytes())} are free: use solver="preconditioned" or solver="nystrom"'
            )
        roots, constant = problem.root_weights, _constant(problem)
        responses = problem.responses * _roots(problem)[:, None]

        n = problem.n_samples
        return FactorSystem(
            lambda: centred_gram(self._matrix(), roots, constant),
            constant,
            responses,
            n,
            lambda block: n * self.operator.multiply(block),
            problem.counts,
        )

    def sampled(self, *, held: bool) -> FoldSystem | AnchorSystem:
        needed, free = (
            half_held_bytes(self.problem.n_rows, single=is_single(self.problem, self.plan)),
            memory.free_bytes(),
        )
        if needed < HELD_SHARE * free:
            return self._anchored()
        if held:
            raise MemoryError(
                f'solver="factor" needs about {gibibytes(needed)} for {self.problem.n_rows} rows and '
                f'{gibibytes(free)} are free: use solver="preconditioned" or solver="nystrom"'
            )
        return self._folds()

    def _anchored(self) -> AnchorSystem:
        problem, kernel, free = self.problem, self.plan.kernel, memory.free_bytes()
        order = np.random.default_rng([20160716, problem.seed]).permutation(problem.n_rows)
        x = problem.covariates
        self.operator = HalfHeld(
            lambda rows, columns: problem.gram(kernel, rows, columns),
            np.diagonal(x) if isinstance(kernel, Precomputed) else kernel.diagonal(x),
            order[::-1],  # the sample last
            weights=problem.weights,
            centred=problem.intercept,
            dtype=np.float32 if is_single(problem, self.plan) else np.float64,
            n_jobs=self.plan.n_jobs,
        )
        responses, double = problem.responses * _roots(problem)[:, None], half_held_bytes(problem.n_rows, single=False)
        fits_double = double < HELD_SHARE * free
        shares = problem.left_out_shares(np.arange(problem.n_rows))
        system = AnchorSystem(self.operator, responses, problem.counts, shares=shares, fits_double=fits_double)
        system.grow()  # a sample alone may miss the few rows that errors lie in
        return system

    def _folds(self) -> FoldSystem:
        problem, operator = self.problem, self.operator
        gram = RawGram(
            operator.gram_product,
            lambda rows: problem.gram(self.plan.kernel, None, rows),
            np.asarray(operator.gram_diagonal(), dtype=np.float64),
        )
        return FoldSystem(
            gram,
            problem.responses,
            _roots(problem),
            intercept=problem.intercept,
            rank=min(HOST_RANK, max(problem.n_rows // 4, 1)),
            seed=problem.seed,
            products=max(HOST_SOLVE / HOST.product(problem.n_rows, held=False), LEAST_PRODUCTS),
        )


class DevicePlace:
    """torch on a device: factors in float64, products in fused float32 tiles where penalties allow."""

    def __init__(self, problem: Problem, plan: Plan, device: Device) -> None:
        self.problem, self.plan, self._device = problem, plan, device
        self.device = str(device)

    def of(self, problem: Problem) -> DevicePlace:
        """The same place for another problem."""
        return DevicePlace(problem, self.plan, self._device)

    def _operator(self, precision: str) -> Cuda:
        problem = self.problem
        return Cuda(
            self.plan.kernel,
            problem.covariates,
            weights=problem.weights,
            centred=problem.intercept,
            precision="float64" if precision == "float64" else "float32",
            device=self._device,
        )

    @cached_property
    def operator(self) -> Cuda:
        """K in float64."""
        return self._operator("float64")

    def _matrix(self) -> Array:
        """The Gram matrix on the device, to be overwritten."""
        return cast(Array, gram_on_device(self.operator.form, self.operator.rows, self.operator.origin))

    def factors(self) -> FactorSystem:
        problem, operator = self.problem, self.operator
        needed, free = 2 * 8.0 * problem.n_rows**2, free_bytes(self._device)
        if self._device.type == "cuda" and needed > free:
            raise MemoryError(
                f'solver="factor" needs about {gibibytes(needed)} on {self.device} for {problem.n_rows} rows and '
                f'{gibibytes(free)} are free: use solver="preconditioned"'
            )
        weighted = problem.weights is not None
        roots = as_tensor(_roots(problem), self._device) if weighted else None
        direction = _constant(problem)
        constant = None if direction is None else as_tensor(direction, self._device)
        responses = as_tensor(problem.responses * _roots(problem)[:, None], self._device)
        counts = None if problem.counts is None else as_tensor(problem.counts, self._device).double()

        n = problem.n_samples
        return FactorSystem(
            lambda: centred_gram(self._matrix(), roots, constant),
            constant,
            responses,
            n,
            lambda block: n * operator.on_device.multiply(block),
            counts,
        )

    def sampled(self, *, held: bool) -> FoldSystem:
        problem, exact = self.problem, self.operator
        single = self.plan.precision != "float64" and self.plan.tol > 0
        fast = self._operator("float32") if single else exact
        if not held:
            self.operator = fast  # an intercept as fine as the solves
        gram = RawGram(
            lambda block: fast.cross.product(as_tensor(block, self._device).contiguous()).double(),
            lambda rows: columns_on_device(exact.form, exact.rows, exact.origin, rows),
            as_tensor(exact.gram_diagonal(), self._device).double(),
            careful=lambda block: exact.cross.product(as_tensor(block, self._device).contiguous()),
            careful_rows=exact.product_of_rows if single else None,
            error=lambda: rounding_error(fast, exact, problem.seed),
            held=self._matrix if held else None,
        )
        return FoldSystem(
            gram,
            as_tensor(problem.responses, self._device).double(),
            as_tensor(_roots(problem), self._device).double(),
            intercept=problem.intercept,
            rank=min(DEVICE_RANK, max(problem.n_rows // 4, 1)),
            seed=problem.seed,
            single=single,
            products=max(DEVICE_SOLVE / DEVICE.product(problem.n_rows, held=False), LEAST_PRODUCTS),
        )
