"""Ridge systems of one problem at any penalty: what the default rule and the estimate ask of a solver.

`FactorSystem` holds the matrix and factors it anew at each penalty; every row is left out, exactly. `GradientSystem`
multiplies only; a random tenth of the rows (at most 4,000) is left out together, by giving them weight zero, which
costs one solve a penalty and is leave-one-out but for the share they take. Where rows are few, unit vectors leave
each of them out alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stopwise._support.array_library import ArrayLibrary, library_of
from stopwise._support.arrays import Array
from stopwise.engine.solves.factor import Factor, factor
from stopwise.engine.solves.preconditioned import Preconditioned, Product, Tally
from stopwise.engine.solves.preconditioner import LowRank, randomly_pivoted, stand_in_of
from stopwise.engine.solves.sampled_left_out import left_out_rows, sample_rows

_EACH_ROW = 2_500
"""Up to here conjugate gradients leave out every row, by unit vectors in blocks."""
_UNITS = 256
_SHARE, _MOST_ROWS = 10, 4_000
"""Rows left out together: one in so many, and at most so many (a paired standard error of a fraction of a percent)."""
_SINGLE = 2e-6
"""Penalties below this share of the largest eigenvalue drown in the rounding of float32 products."""
_SEARCH = 1e-3
"""How far fitted values may be off while penalties are compared, relative to the responses."""


class FactorSystem:
    """A held matrix. `matrix` makes A (weighted, centred, unscaled) anew; `responses` (n, q) are weighted and centred."""

    def __init__(
        self, matrix: Callable[[], Array], constant: Array | None, responses: Array, n_samples: float, product: Product
    ) -> None:
        self._matrix, self._constant, self._product = matrix, constant, product
        self.responses, self.n_samples, self.weight = responses, n_samples, n_samples
        self.tally = Tally()
        self._last: Factor | None = None
        self.library = library_of(responses)

    def multiply(self, block: Array) -> Array:
        """A block."""
        self.tally.columns += block.shape[1]
        return self._product(block)

    def at(self, penalty: float, tol: float = 0.0) -> Factor:
        """The factor at a penalty; the last one is kept."""
        if self._last is None or self._last.penalty != penalty:
            self._last = None  # room for the next
            self.tally.products += 1
            self._last = factor(self._matrix, penalty, self._constant)
        return self._last

    def left_out(self, penalty: float) -> Array:
        """Left-out residuals of every row and response, weighted coordinates, on the host."""
        return self.library.host(self.at(penalty).left_out(self.responses) + 0.0)


@dataclass(frozen=True)
class RawGram:
    """The Gram matrix G as products, columns and its diagonal, all of one array library.

    `careful`: the same products in float64 where `product` is less.
    """

    product: Product
    columns: Callable[[Array], Array]
    diagonal: Array
    careful: Product | None = None


class GradientSystem:
    """Products alone. `targets` (n, q) are the responses by row, unweighted; `roots` are square roots of weights."""

    def __init__(
        self, gram: RawGram, targets: Array, roots: Array, *, intercept: bool, rank: int, seed: int, single: bool = False
    ) -> None:
        self.gram, self.targets, self.roots, self.intercept = gram, targets, roots, intercept
        self.library: ArrayLibrary = library_of(targets)
        self.tally, self._seed, self._single = Tally(), seed, single
        rows, self.pivots, self.trace_left = randomly_pivoted(
            lambda at: self.roots[:, None] * gram.columns(at) * self.roots[at],
            gram.diagonal * roots**2,
            rank,
            np.random.default_rng([20250101, seed]),
        )
        self._features = rows
        self.n_samples = float((roots * roots).sum())
        self.whole = _Weighted(self, roots)
        count = min(len(targets) // _SHARE, _MOST_ROWS)
        self.each_row = len(targets) <= _EACH_ROW
        self.rows = np.arange(len(targets)) if self.each_row else sample_rows(len(targets), count, seed)
        self.weight = float((roots[self.rows] ** 2).sum())
        self._guess: Array | None = None

    @property
    def responses(self) -> Array:
        """Weighted, centred responses."""
        return self.whole.responses

    def multiply(self, block: Array) -> Array:
        """A block."""
        return self.whole.multiply(block)

    def at(self, penalty: float, tol: float = 1e-6) -> Preconditioned:
        """Solves at a penalty on all rows."""
        return self.whole.at(penalty, tol)

    @cached_property
    def _others(self) -> _Weighted:
        """The same with no weight on the rows left out."""
        roots = self.roots + 0.0
        roots[self.rows] = 0.0
        return _Weighted(self, roots)

    def left_out(self, penalty: float) -> Array:
        """Left-out residuals of the sampled rows, weighted coordinates, (m, q), on the host."""
        if self.each_row:
            return self._one_by_one(penalty)
        others = self._others
        solver = others.at(penalty, _SEARCH)
        self._guess, _ = solver.solve(others.responses, self._guess)
        fitted = self.gram.product(others.roots[:, None] * self._guess)
        self.tally.products += 1
        gap = self.targets - fitted
        if self.intercept:
            weights = others.roots**2
            gap = gap - (weights @ gap) / weights.sum()
        return self.library.host((self.roots[:, None] * gap)[self.rows] + 0.0)

    def _one_by_one(self, penalty: float) -> Array:
        solver = self.at(penalty, 1e-5)
        solved = solver.inverse(self.responses)
        parts = [
            left_out_rows(solver, self.responses, self.rows[first : first + _UNITS], solved=solved).residuals
            for first in range(0, len(self.rows), _UNITS)
        ]
        return np.concatenate(parts)


class _Weighted:
    """A = H D G D H for some weights, with its preconditioner."""

    def __init__(self, system: GradientSystem, roots: Array) -> None:
        self._system, self.roots = system, roots
        self.constant = roots / float((roots * roots).sum()) ** 0.5 if system.intercept else None
        self.responses = self.centre(roots[:, None] * system.targets)

    def centre(self, block: Array) -> Array:
        """H block."""
        if self.constant is None:
            return block
        means = self.constant @ block
        return block - (self.constant[:, None] * means if block.ndim == 2 else self.constant * means)

    @cached_property
    def stand_in(self) -> LowRank:
        """The low-rank matrix below A, from the pivots of all rows."""
        system = self._system
        share = self.roots / system.roots
        rows = self.centre(share[:, None] * system._features)
        return stand_in_of(rows, system.pivots, system.trace_left)

    def _product(self, product: Product, block: Array) -> Array:
        inner = self.roots[:, None] * self.centre(block)
        return self.centre(self.roots[:, None] * product(inner))

    def multiply(self, block: Array) -> Array:
        """A block."""
        return self._product(self._system.gram.product, block)

    def careful(self, block: Array) -> Array:
        """A block in float64."""
        return self._product(self._system.gram.careful or self._system.gram.product, block)

    def at(self, penalty: float, tol: float) -> Preconditioned:
        """Solves at a penalty, in float64 where its size asks for it."""
        rough = self._system._single and penalty < _SINGLE * self.stand_in.largest
        return Preconditioned(
            self.careful if rough else self.multiply,
            self.stand_in,
            penalty,
            self.centre,
            tol=tol,
            careful=self.careful,
            tally=self._system.tally,
        )
