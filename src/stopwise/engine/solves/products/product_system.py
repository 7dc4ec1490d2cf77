"""Ridge by products alone: nothing of the matrix is held but a low-rank stand-in, which preconditions every solve."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.operators.centring import centred, centred_gram
from stopwise.engine.solves.factor import factor
from stopwise.engine.solves.preconditioned import Preconditioned, Product
from stopwise.engine.solves.preconditioner import LowRank, randomly_pivoted, stand_in_of
from stopwise.engine.solves.shifted_descent import Resolvent
from stopwise.engine.solves.systems import RidgeSystem

_WHOLE, _SAFE = 2.0, 2.0
"""Errors of float32 products are independent of one another, so that the matrix is off by twice the length of a row of
them; penalties below twice that drown. Then products are in float64."""


@dataclass(frozen=True)
class RawGram:
    """The Gram matrix G as products, columns and its diagonal, all of one array library.

    `careful`: the same products in float64 where `product` is less, `careful_rows` only some rows of them, and `error`
    the largest root mean square by which random signs then come out wrong: the length of a row of errors.
    """

    product: Product
    columns: Callable[[Array], Array]
    diagonal: Array
    careful: Product | None = None
    careful_rows: Callable[[Array, Array], Array] | None = None
    error: Callable[[], float] = float
    careful_cost: float = 15.0
    """Products that one of `careful` takes as long as."""
    held: Callable[[], Array] | None = None
    """Makes the whole matrix, where there is room for it."""


@dataclass(frozen=True)
class Equations:
    """`targets` (n, q) are the responses by row, unweighted; `roots` are square roots of weights.

    Where `gram.held` makes the whole matrix, solves are by a factor, else by products with a preconditioner of `rank`
    columns. `single`: products are in float32 where penalties allow.
    """

    gram: RawGram
    targets: Array
    roots: Array
    intercept: bool
    rank: int
    seed: int
    single: bool = False


class ProductSystem(RidgeSystem):
    """Ridge systems of some equations."""

    unseen: float = 0.0
    """How far rounding may put fitted values off before it would be seen."""

    def __init__(self, given: Equations) -> None:
        self.gram, self.targets, self.roots, self.intercept = given.gram, given.targets, given.roots, given.intercept
        self.single, self._rank, self._seed = given.single, given.rank, given.seed
        self.whole = Weighted(self, None)
        super().__init__(self.whole.responses, float((self.roots * self.roots).sum()))

    @property
    def rounding(self) -> float:
        return 1e-6 if self.single else 1e-12

    def start_vector(self, seed: int) -> Array:
        """The stand-in's first eigenvector, where there is one."""
        return super().start_vector(seed) if self.gram.held is not None else self.whole.stand_in.first_vector

    @cached_property
    def low_rank(self) -> tuple[Array, Array, float]:
        """Features of all rows, their inner products, and the trace that they leave."""
        gram, roots = self.gram, self.roots
        features, _, trace_left = randomly_pivoted(
            lambda at: roots[:, None] * gram.columns(at) * roots[at],
            gram.diagonal * roots**2,
            self._rank,
            np.random.default_rng([20250101, self._seed]),
        )
        return features, features.T @ features, trace_left

    @cached_property
    def error(self) -> float:
        """The length of a row of errors of products."""
        return self.gram.error()

    def multiply(self, block: Array) -> Array:
        return self.whole.product_by(self.gram.product, block)

    def at(self, penalty: float, tol: float = 1e-6) -> Resolvent:
        return self.whole.at(penalty, tol)


class Weighted:
    """A = H D G D H with some rows taken out, and its preconditioner."""

    def __init__(self, system: ProductSystem, left_out: Array | None) -> None:
        self._system, self._left_out = system, left_out
        self.roots = system.roots
        if left_out is not None:
            self.roots = system.roots + 0.0
            self.roots[left_out] = 0.0
        self.constant = self.roots / float((self.roots * self.roots).sum()) ** 0.5 if system.intercept else None
        self.responses = self.centre(self.roots[:, None] * system.targets)

    def centre(self, block: Array) -> Array:
        return centred(block, self.constant)

    @cached_property
    def stand_in(self) -> LowRank:
        """The low-rank matrix below A, from the pivots of all rows."""
        (features, gram, _), mask = self._system.low_rank, None
        if self._left_out is not None:
            few = features[self._left_out]
            gram, mask = gram - few.T @ few, self.roots / self._system.roots
        return stand_in_of(features, gram, self.constant, mask)

    @cached_property
    def rounding(self) -> float:
        """How far float32 products with A are off, relative to what is multiplied: a row of errors."""
        return float(self._system.error * (self.roots**2).max()) if self._system.single else 0.0

    def kept(self, penalty: float) -> float:
        """Root mean square of what a fit keeps of white noise, as rounding is: sqrt(tr (A P)^2 / n), or more.

        Of g(l) = (l / (l + a))^2 the stand-in's eigenvalues have their sum; A's are larger by the trace left over, all
        together, and g is nowhere steeper than 8 / (27 a).
        """
        values, n = self.stand_in.values, len(self.roots)
        known, missed = float(((values / (values + penalty)) ** 2).sum()), self._system.low_rank[2]
        return math.sqrt(min((known + 8 * missed / (27 * penalty)) / n, 1.0))

    @property
    def rounded(self) -> float:
        """The smallest penalty that float32 products can tell from none."""
        return _SAFE * _WHOLE * self.rounding

    def product(self, penalty: float) -> Product:
        """Products with G that are fine enough for weights at a penalty: these grow as it falls."""
        gram = self._system.gram
        rough = self._system.single and penalty < 0.99 * self.rounded  # which may itself be asked for
        return gram.careful if rough and gram.careful is not None else gram.product

    def product_by(self, product: Product, block: Array) -> Array:
        """A block, by one way to multiply with G."""
        inner = self.roots[:, None] * self.centre(block)
        return self.centre(self.roots[:, None] * product(inner))

    def solve(self, penalty: float, tol: float, start: Array | None) -> tuple[Array, Array]:
        """P times the responses, and the length of what it leaves of the equations, for each of them."""
        solver = self.at(penalty, tol)
        if not isinstance(solver, Preconditioned):
            return solver.inverse(self.responses), np.zeros(self.responses.shape[1])
        found = solver.solve(self.responses, start)
        sizes = self._system.library.host((self.responses**2).sum(0)) ** 0.5
        return found.solution, cast(Array, found.residual * sizes)

    def at(self, penalty: float, tol: float) -> Resolvent:
        """Solves at a penalty: by a factor where a matrix is held, else by products (float64 where it is tiny)."""
        gram, held = self._system.gram, self._system.gram.held
        if held is not None:
            self._system.tally.products += 1
            return factor(lambda: centred_gram(held(), self.roots, self.constant), penalty, self.constant)
        product, careful = self.product(penalty), gram.careful or gram.product
        return Preconditioned(
            lambda block: self.product_by(product, block),
            self.stand_in,
            penalty,
            self.centre,
            tol=tol,
            careful=lambda block: self.product_by(careful, block),
            rounding=0.0 if product is gram.careful else self.rounding,
            kept=self.kept(penalty) if self._system.single else 1.0,
            unseen=self._system.unseen,
            tally=self._system.tally,
        )
