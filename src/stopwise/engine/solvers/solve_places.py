"""Where solves happen: numpy on the host, or torch on a device. Each makes the systems of a problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support import memory
from stopwise._support.arrays import Array, Device
from stopwise._support.memory import gibibytes
from stopwise.engine.gpu.device_operator import Cuda, Precision, as_tensor, careful_cost, rounding_error
from stopwise.engine.gpu.plain_tiles import free_bytes
from stopwise.engine.operators import Dense, Operator
from stopwise.engine.operators.centring import centred_gram
from stopwise.engine.operators.tiles import Tiled
from stopwise.engine.solvers.gpu_solver import OnGpu
from stopwise.engine.solvers.plan import Plan
from stopwise.engine.solves.anchor import AnchorSystem
from stopwise.engine.solves.costs import DEVICE, HOST, LEAST_LEFT_OUT, SINGLE_ROWS, Machine
from stopwise.engine.solves.half_held import TILE, HalfHeld
from stopwise.engine.solves.preconditioned import Product
from stopwise.engine.solves.products.fold_system import FoldSystem
from stopwise.engine.solves.products.product_system import Equations, ProductSystem, RawGram
from stopwise.engine.solves.products.unit_system import UnitSystem
from stopwise.engine.solves.systems import FactorSystem
from stopwise.kernels import Precomputed
from stopwise.problem import Problem, random_order

HELD_SHARE = 0.6
"""Of the free memory, what a held matrix may take."""


def half_held_bytes(n_rows: int, *, single: bool) -> float:
    """What a matrix and its factor in one square take, with the columns of the rows left out beside them."""
    return (4.0 if single else 8.0) * n_rows * (n_rows + 6 * min(n_rows, LEAST_LEFT_OUT))


def is_single(problem: Problem, plan: Plan) -> bool:
    """Whether a factor in float32 will do where penalties allow: for so many rows that estimates are rough anyway."""
    return problem.n_rows > SINGLE_ROWS and plan.precision != "float64" and plan.tol > 0


Take = Callable[[Array], Array]
"""A numpy array as one of the place's kind."""


class Place(ABC):
    """Makes the systems of one problem."""

    machine: Machine
    """What work costs there."""
    operator: Operator
    """K, for products that are few."""
    device: str | None = None
    """The device's name, or None on the host."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan

    @abstractmethod
    def of(self, problem: Problem) -> Place:
        """The same place for another problem."""

    @abstractmethod
    def factors(self) -> FactorSystem:
        """The held matrix."""

    @abstractmethod
    def sampled(self, *, held: bool) -> ProductSystem | AnchorSystem:
        """Some rows left out: with a `held` matrix, or whichever way fits."""

    @abstractmethod
    def _free(self) -> float:
        """Bytes of memory that can still be had there."""

    @property
    def _roots(self) -> Array:
        return np.ones(self.problem.n_rows) if self.problem.root_weights is None else self.problem.root_weights

    def _factors(self, matrix: Callable[[], Array], product: Product, take: Take) -> FactorSystem:
        """The system of a Gram matrix that `matrix` makes anew, and K as a `product`."""
        problem, n = self.problem, self.problem.n_samples
        roots = None if problem.root_weights is None else take(problem.root_weights)
        constant = take(self._roots / np.sqrt(n)) if problem.intercept else None
        return FactorSystem(
            lambda: centred_gram(matrix(), roots, constant),
            constant,
            take(problem.weighted_responses),
            n,
            lambda block: n * product(block),
            None if problem.counts is None else take(problem.counts),
        )

    @property
    def _alone(self) -> bool:
        """Whether products leave rows out alone."""
        return self.problem.n_rows <= self.machine.alone_rows

    def _equations(self, gram: RawGram, take: Take, *, single: bool = False) -> Equations:
        problem = self.problem
        rank = self.machine.columns(problem.n_rows, self._free())
        roots = take(self._roots)
        return Equations(gram, take(problem.responses), roots, problem.intercept, rank, problem.seed, single)

    def _units(self, gram: RawGram, take: Take) -> UnitSystem:
        """Rows left out alone."""
        return UnitSystem(self._equations(gram, take), self.problem.counts)

    def _folds(self, gram: RawGram, take: Take, *, single: bool = False) -> FoldSystem:
        """Rows left out a fold at a time."""
        products = self.machine.affordable_products(self.problem.n_rows)
        return FoldSystem(self._equations(gram, take, single=single), products)

    def _no_room(self, needed: float, free: float) -> MemoryError:
        where, other = ("", ' or solver="nystrom"') if self.device is None else (f" on {self.device}", "")
        return MemoryError(
            f'solver="factor" needs about {gibibytes(needed)}{where} for {self.problem.n_rows} rows and '
            f'{gibibytes(free)} are free: use solver="preconditioned"{other}'
        )


class HostPlace(Place):
    """numpy: a matrix that is held where it fits, tiles where not."""

    machine = HOST

    def of(self, problem: Problem) -> HostPlace:
        return HostPlace(problem, self.plan)

    def _free(self) -> float:
        return memory.free_bytes()

    @cached_property
    def _held(self) -> Array | None:
        """The Gram matrix in float64 where it and one copy fit, made a tile at a time."""
        problem, kernel, n = self.problem, self.plan.kernel, self.problem.n_rows
        if isinstance(kernel, Precomputed):
            return np.asarray(problem.gram(kernel), dtype=np.float64)
        if 2 * 8.0 * n**2 >= HELD_SHARE * self._free():
            return None
        held, everything = np.empty((n, n)), np.arange(n)
        for rows in np.array_split(everything, -(-n // TILE)):
            held[rows[0] : rows[-1] + 1] = problem.gram(kernel, rows, everything)
        return held

    @cached_property
    def operator(self) -> Operator:  # type: ignore[override]
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
        needed, free = 8.0 * self.problem.n_rows**2, self._free()
        if needed > 0.9 * free:
            raise self._no_room(needed, free)
        return self._factors(self._matrix, lambda block: self.operator.multiply(block), np.asarray)

    def sampled(self, *, held: bool) -> ProductSystem | AnchorSystem:
        needed = half_held_bytes(self.problem.n_rows, single=is_single(self.problem, self.plan))
        free = self._free()
        if needed < HELD_SHARE * free:
            return self._anchored(free)
        if held:
            raise self._no_room(needed, free)
        problem, operator = self.problem, self.operator
        gram = RawGram(
            operator.gram_product,
            lambda rows: problem.gram(self.plan.kernel, None, rows),
            np.asarray(operator.gram_diagonal(), dtype=np.float64),
        )
        return self._units(gram, np.asarray) if self._alone else self._folds(gram, np.asarray)

    def _anchored(self, free: float) -> AnchorSystem:
        problem, kernel = self.problem, self.plan.kernel
        x = problem.covariates
        self.operator = HalfHeld(
            lambda rows, columns: problem.gram(kernel, rows, columns),
            np.diagonal(x) if isinstance(kernel, Precomputed) else kernel.diagonal(x),
            random_order(problem.n_rows, problem.seed)[::-1],  # the sample last
            weights=problem.weights,
            centred=problem.intercept,
            dtype=np.float32 if is_single(problem, self.plan) else np.float64,
            n_jobs=self.plan.n_jobs,
        )
        system = AnchorSystem(
            self.operator,
            problem.weighted_responses,
            problem.counts,
            shares=problem.left_out_shares(np.arange(problem.n_rows)),
            fits_double=half_held_bytes(problem.n_rows, single=False) < HELD_SHARE * free,
        )
        system.grow()  # a sample alone may miss the few rows that errors lie in
        return system


class DevicePlace(Place):
    """torch on a device: factors in float64, products in fused float32 tiles where penalties allow."""

    machine = DEVICE

    def __init__(self, problem: Problem, plan: Plan, device: Device) -> None:
        super().__init__(problem, plan)
        self._device, self.device = device, str(device)
        self.machine = self.machine.fusing(plan.kernel, problem.covariates.shape[1])

    def _free(self) -> float:
        return free_bytes(self._device)

    def _take(self, values: Array) -> Array:
        return cast(Array, as_tensor(values, self._device).double())

    def of(self, problem: Problem) -> DevicePlace:
        return DevicePlace(problem, self.plan, self._device)

    def _operator(self, precision: Precision) -> Cuda:
        return OnGpu(self._device, precision).operator(self.problem, self.plan)

    @cached_property
    def operator(self) -> Cuda:  # type: ignore[override]
        """K in float64."""
        return self._operator("float64")

    def _matrix(self) -> Array:
        """The Gram matrix on the device, to be overwritten."""
        return cast(Array, self.operator.gram())

    def _product(self, operator: Cuda) -> Product:
        """G times a block, in the operator's precision."""
        return lambda block: operator.cross.product(as_tensor(block, self._device).contiguous()).double()

    def factors(self) -> FactorSystem:
        needed, free = 2 * 8.0 * self.problem.n_rows**2, self._free()
        if self._device.type == "cuda" and needed > free:
            raise self._no_room(needed, free)
        return self._factors(self._matrix, self.operator.on_device.multiply, self._take)

    def sampled(self, *, held: bool) -> ProductSystem:
        problem, exact = self.problem, self.operator
        if self._alone and not held:
            gram = RawGram(self._product(exact), exact.columns, self._take(exact.gram_diagonal()))
            return self._units(gram, self._take)
        single = self.plan.precision != "float64" and self.plan.tol > 0
        fast = self._operator("carried") if single else exact
        if not held:
            self.operator = fast  # an intercept as fine as the solves
        gram = RawGram(
            self._product(fast),
            exact.columns,
            self._take(exact.gram_diagonal()),
            careful=self._product(exact),
            careful_rows=exact.product_of_rows if single else None,
            error=lambda: rounding_error(fast, exact, problem.seed),
            careful_cost=careful_cost(exact),
            held=self._matrix if held else None,
        )
        return self._folds(gram, self._take, single=single)
