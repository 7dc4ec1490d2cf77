"""Ridge systems of one problem at any penalty: what the default rule and the estimate ask of a solver.

`AnchorSystem` (see `anchor`) has one factor for all penalties near.
`FactorSystem` holds the matrix and factors it anew at each penalty; every row is left out, exactly. `FoldSystem`
multiplies only; a random twentieth of the rows (at most 4,000) is left out together, by giving them weight zero: one
solve a penalty, and leave-one-out but for the share they take. (Unit vectors would leave each out alone, but take a
column of the block for every row: a thousand times the products.) More folds follow until the stop is well known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stopwise._support.array_library import ArrayLibrary, library_of
from stopwise._support.arrays import Array, Index
from stopwise.engine.solves.costs import FOLD_ROWS, UNSEEN, fold_size, folds
from stopwise.engine.solves.factor import Factor, centred_gram, factor
from stopwise.engine.solves.preconditioned import Preconditioned, Product, Tally
from stopwise.engine.solves.preconditioner import LowRank, centred, randomly_pivoted, stand_in_of

_MOST_FOLDS, _MOST_LEFT_OUT = 20, 20_000
"""How many folds are made, and how many rows are left out in all of them together, at most."""
_WHOLE, _SAFE = 2.0, 2.0
"""Errors of float32 products are independent of one another, so that the matrix is off by twice the length of a row of
them; penalties below twice that drown. Then products are in float64,"""
_CAREFUL, _FEW_PRODUCTS = 15, 30
"""which takes so many times longer; where that leaves fewer products than this, such penalties are not read."""
_SEARCH = 1e-3
"""How far fitted values may be off while penalties are compared, relative to the responses."""


class FactorSystem:
    """A held matrix. `matrix` makes A anew (weighted, centred, unscaled); `responses` (n, q) are weighted, centred."""

    def __init__(
        self,
        matrix: Callable[[], Array],
        constant: Array | None,
        responses: Array,
        n_samples: float,
        product: Product,
        counts: Array | None = None,
    ) -> None:
        self._counts = counts
        self._matrix, self._constant, self._product = matrix, constant, product
        self.responses, self.n_samples, self.weight = responses, n_samples, n_samples
        self.tally = Tally()
        self._last: Factor | None = None
        self.library = library_of(responses)

    @property
    def together(self) -> float:
        """The share of rows left out at once: each alone."""
        return 0.0

    @property
    def rows_left_out(self) -> Array:
        """Which rows `left_out` tells of: all."""
        return np.arange(len(self.responses))

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

    rounding = 1e-12
    """Of products, relative to the largest eigenvalue."""

    search_tol = 1e-4
    """How far fitted values may be off, relative to the responses, before it would be seen."""

    affordable = 0.0
    """A factor takes as long at any penalty."""

    def start_vector(self, seed: int) -> Array:
        """Where to look for the largest eigenvalue from."""
        return self.library.take(np.random.default_rng([3, seed]).normal(size=len(self.responses)))

    factored: float | None = None
    """No factor is kept for other penalties than its own."""

    def guessed(self) -> float:
        """No residual is guessed."""
        return 0.0

    def expect(self, penalty: float, share: float) -> None:
        """A factor is as fine as float64 at any error."""

    def grow(self) -> bool:
        """Every row is left out already."""
        return False

    def left_out(self, penalty: float) -> Array:
        """Left-out residuals of every row and response, weighted coordinates, on the host."""
        return self.library.host(self.at(penalty).left_out(self.responses, self._counts) + 0.0)


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
    held: Callable[[], Array] | None = None
    """Makes the whole matrix, where there is room for it."""


def fold_rows(n_rows: int, seed: int, most: int = FOLD_ROWS) -> list[Index]:
    """The rows of each fold, ascending: a random share of all rows, at most `most` of them."""
    size = fold_size(n_rows, most)
    order = np.random.default_rng([20160716, seed]).permutation(n_rows)
    count = min(n_rows // size, _MOST_FOLDS, max(_MOST_LEFT_OUT // size, 1))
    return [np.sort(order[k * size : (k + 1) * size]) for k in range(count)]


class FoldSystem:
    """Rows are left out a fold at a time; `grow` takes more folds in where the stop needs them.

    `targets` (n, q) are the responses by row, unweighted; `roots` are square roots of weights. Where `gram.held` makes
    the whole matrix, solves are by a factor, else by products with a preconditioner of `rank` columns, and a solve may
    take about so many `products`.
    """

    def __init__(
        self,
        gram: RawGram,
        targets: Array,
        roots: Array,
        *,
        intercept: bool,
        rank: int,
        seed: int,
        single: bool = False,
        products: float = math.inf,
    ) -> None:
        self.gram, self.targets, self.roots, self.intercept = gram, targets, roots, intercept
        self.library: ArrayLibrary = library_of(targets)
        self.tally, self.single, self._rank, self._seed = Tally(), single, rank, seed
        self._products = products
        self.n_samples = float((roots * roots).sum())
        self.whole = _Weighted(self, None)
        self._folds = [_Fold(self, rows) for rows in fold_rows(len(targets), seed)]
        self.search_tol = _SEARCH
        self._used = min(folds(len(targets))[1], len(self._folds))

    @property
    def weight(self) -> float:
        """Samples that the rows left out stand for."""
        return float(sum(fold.weight for fold in self._folds[: self._used]))

    @property
    def together(self) -> float:
        """The share of rows left out at once."""
        return len(self._folds[0].rows) / len(self.targets)

    @property
    def rounding(self) -> float:
        """Of products, relative to the largest eigenvalue."""
        return 1e-6 if self.single else 1e-12

    @property
    def affordable(self) -> float:
        """The smallest penalty a at which a solve takes about `products` products at most.

        Conjugate gradients reach a tolerance t in sqrt(c) log(2 / t) / 2 steps; c is at most 1 + l / a, where l is the
        largest eigenvalue that the preconditioner leaves, which its own smallest stands for.
        """
        if self.gram.held is not None or not math.isfinite(self._products) or self.whole.stand_in.rank == 0:
            return 0.0
        condition = (2 * self._products / math.log(2 / _SEARCH)) ** 2
        least = float(self.whole.stand_in.values.min()) / max(condition - 1, 1.0)
        only_single = self.single and self._products < _CAREFUL * _FEW_PRODUCTS
        return max(least, self.whole.rounded) if only_single else least

    def start_vector(self, seed: int) -> Array:
        """Where to look for the largest eigenvalue from: the stand-in's first eigenvector, or a random one."""
        if self.gram.held is not None:
            return self.library.take(np.random.default_rng([3, seed]).normal(size=len(self.targets)))
        return self.whole.stand_in.first_vector

    factored: float | None = None
    """Solves are as dear at any penalty."""

    def guessed(self) -> float:
        """No residual is guessed."""
        return 0.0

    def expect(self, penalty: float, share: float) -> None:
        """About the root mean squared left-out error over that of the responses: what solves must be finer than."""
        self.search_tol = min(max(UNSEEN * share, 1e-8), _SEARCH)

    def grow(self) -> bool:
        """Twice as many folds; False where all are in use."""
        before, self._used = self._used, min(2 * self._used, len(self._folds))
        return self._used > before

    @cached_property
    def low_rank(self) -> tuple[Array, Array, float, Array]:
        """Features of all rows, their pivots, the trace left over, and the features' inner products."""
        gram, roots = self.gram, self.roots
        features, pivots, left = randomly_pivoted(
            lambda at: roots[:, None] * gram.columns(at) * roots[at],
            gram.diagonal * roots**2,
            self._rank,
            np.random.default_rng([20250101, self._seed]),
        )
        return features, pivots, left, features.T @ features

    @cached_property
    def error(self) -> float:
        """The length of a row of errors of products."""
        return self.gram.error()

    @property
    def responses(self) -> Array:
        """Weighted, centred responses."""
        return self.whole.responses

    def multiply(self, block: Array) -> Array:
        """A block."""
        return self.whole.multiply(block)

    def at(self, penalty: float, tol: float = 1e-6) -> Preconditioned | Factor:
        """Solves at a penalty on all rows."""
        return self.whole.at(penalty, tol)

    @property
    def rows_left_out(self) -> Array:
        """Which rows `left_out` tells of: those of the folds in use."""
        return np.concatenate([fold.rows for fold in self._folds[: self._used]])

    def left_out(self, penalty: float) -> Array:
        """Left-out residuals of the folds in use, weighted coordinates, (m, q), on the host."""
        return np.concatenate([fold.left_out(penalty) for fold in self._folds[: self._used]])


class _Fold:
    """Some rows, left out together by giving them no weight."""

    def __init__(self, system: FoldSystem, rows: Array) -> None:
        self._system, self.rows = system, rows
        self.weight = float((system.roots[rows] ** 2).sum())
        self._guess: Array | None = None
        self._known: dict[float, Array] = {}

    @cached_property
    def _others(self) -> _Weighted:
        return _Weighted(self._system, self.rows)

    def left_out(self, penalty: float) -> Array:
        """Residuals of these rows, predicted by the others; each penalty is solved once."""
        if penalty not in self._known:
            self._known[penalty] = self._predict(penalty)
        return self._known[penalty]

    def _predict(self, penalty: float) -> Array:
        system, others = self._system, self._others
        solver = others.at(penalty, system.search_tol)
        self._guess = solver.inverse(others.responses, self._guess)
        dual = others.roots[:, None] * self._guess
        fitted = others.product(penalty)(dual)
        system.tally.products += 1
        # An intercept averages what rounding does to its rows; each row left out would be off by all of it.
        careful = system.gram.careful_rows
        own = fitted[self.rows] if careful is None else careful(self.rows, dual)
        gap = system.targets[self.rows] - own
        if system.intercept:
            weights = others.roots**2
            gap = gap - (weights @ (system.targets - fitted)) / weights.sum()
        return system.library.host(system.roots[self.rows][:, None] * gap + 0.0)


class _Weighted:
    """A = H D G D H with some rows taken out, and its preconditioner."""

    def __init__(self, system: FoldSystem, left_out: Array | None) -> None:
        self._system, self._left_out = system, left_out
        self.roots = system.roots
        if left_out is not None:
            self.roots = system.roots + 0.0
            self.roots[left_out] = 0.0
        self.constant = self.roots / float((self.roots * self.roots).sum()) ** 0.5 if system.intercept else None
        self.responses = self.centre(self.roots[:, None] * system.targets)

    def centre(self, block: Array) -> Array:
        """H block."""
        return centred(block, self.constant)

    @cached_property
    def stand_in(self) -> LowRank:
        """The low-rank matrix below A, from the pivots of all rows."""
        (features, pivots, left, gram), mask = self._system.low_rank, None
        if self._left_out is not None:
            few = features[self._left_out]
            gram, mask = gram - few.T @ few, self.roots / self._system.roots
        return stand_in_of(features, gram, pivots, left, self.constant, mask)

    @cached_property
    def rounding(self) -> float:
        """How far float32 products with A are off, relative to what is multiplied."""
        return float(_WHOLE * self._system.error * (self.roots**2).max()) if self._system.single else 0.0

    @property
    def rounded(self) -> float:
        """The smallest penalty that float32 products can tell from none."""
        return _SAFE * self.rounding

    def product(self, penalty: float) -> Product:
        """Products with G that are fine enough for weights at a penalty: these grow as it falls."""
        gram = self._system.gram
        rough = self._system.single and penalty < 0.99 * self.rounded  # which may itself be asked for
        return gram.careful if rough and gram.careful is not None else gram.product

    def _product(self, product: Product, block: Array) -> Array:
        inner = self.roots[:, None] * self.centre(block)
        return self.centre(self.roots[:, None] * product(inner))

    def multiply(self, block: Array) -> Array:
        """A block."""
        return self._product(self._system.gram.product, block)

    def careful(self, block: Array) -> Array:
        """A block in float64."""
        return self._product(self._system.gram.careful or self._system.gram.product, block)

    def at(self, penalty: float, tol: float) -> Preconditioned | Factor:
        """Solves at a penalty: by a factor where a matrix is held, else by products (float64 where it is tiny)."""
        held = self._system.gram.held
        if held is not None:
            self._system.tally.products += 1
            return factor(lambda: centred_gram(held(), self.roots, self.constant), penalty, self.constant)
        product = self.product(penalty)
        return Preconditioned(
            lambda block: self._product(product, block),
            self.stand_in,
            penalty,
            self.centre,
            tol=tol,
            careful=self.careful,
            rounding=0.0 if product is self._system.gram.careful else self.rounding,
            tally=self._system.tally,
        )
