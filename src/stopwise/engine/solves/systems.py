"""Ridge systems of one problem at any penalty: what the default rule and the estimate ask of a solver.

`AnchorSystem` (see `anchor`) has one factor for all penalties near.
`FactorSystem` holds the matrix and factors it anew at each penalty; every row is left out, exactly. `FoldSystem`
multiplies only; a random twentieth of the rows (at most 4,000) is left out together, by giving them weight zero: one
solve a penalty, and leave-one-out but for the share they take. (Unit vectors would leave each out alone, but take a
column of the block for every row: a thousand times the products.) More folds follow until the stop is well known.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.array_library import library_of
from stopwise._support.arrays import Array, Index
from stopwise.engine.operators.centring import centred, centred_gram
from stopwise.engine.solves.costs import FOLD_ROWS, UNSEEN, fold_size, folds_needed
from stopwise.engine.solves.factor import Factor, factor
from stopwise.engine.solves.preconditioned import Preconditioned, Product, Tally
from stopwise.engine.solves.preconditioner import LowRank, randomly_pivoted, stand_in_of
from stopwise.engine.solves.shifted_descent import Resolvent

_MOST_FOLDS, _MOST_LEFT_OUT = 20, 20_000
"""How many folds are made, and how many rows are left out in all of them together, at most."""
_WHOLE, _SAFE = 2.0, 2.0
"""Errors of float32 products are independent of one another, so that the matrix is off by twice the length of a row of
them; penalties below twice that drown. Then products are in float64,"""
_CAREFUL, _FEW_PRODUCTS = 15, 30
"""which takes so many times longer; where that leaves fewer products than this, such penalties are not read."""
_SEARCH = 1e-3
"""How far fitted values may be off while penalties are compared, relative to the responses; and how much rounding may
add to squared errors, relative to them."""


class RidgeSystem(ABC):
    """Ridge at any penalty, and residuals of rows left out there; `responses` (n, q) are weighted, centred.

    What stands here is true where every row is left out, alone and exactly.
    """

    def __init__(self, responses: Array, n_samples: float) -> None:
        self.responses, self.n_samples = responses, n_samples
        self.library, self.tally = library_of(responses), Tally()

    @abstractmethod
    def multiply(self, block: Array) -> Array:
        """A block."""

    @abstractmethod
    def at(self, penalty: float, tol: float = 1e-6) -> Resolvent:
        """Solves at a penalty, of which iterations may leave `tol` of the responses."""

    @abstractmethod
    def left_out(self, penalty: float) -> Array:
        """Residuals of `rows_left_out`, each predicted by others, in weighted coordinates, (m, q), on the host."""

    @property
    def rows_left_out(self) -> Array:
        """Which rows `left_out` tells of."""
        return np.arange(len(self.responses))

    @property
    def weight(self) -> float:
        """Samples that the rows left out stand for."""
        return self.n_samples

    @property
    def together(self) -> float:
        """The share of rows left out at once; zero for each alone."""
        return 0.0

    def grow(self) -> bool:
        """Leave more rows out; False where that cannot be."""
        return False

    def guessed(self) -> float:
        """Standard error that guessed residuals add to differences of mean squared errors."""
        return 0.0

    def unsolved(self, penalty: float) -> Array:
        """Root mean square by which unfinished solves may put the residuals of `left_out` off, for each response."""
        return np.zeros(self.responses.shape[1])

    def expect(self, penalty: float, share: float) -> None:
        """About where the stop is, and its root mean squared left-out error over that of the responses."""

    @property
    def search_tol(self) -> float:
        """How far fitted values may be off, relative to the responses, before it would be seen."""
        return 1e-4

    @property
    def rounding(self) -> float:
        """Of products, relative to the largest eigenvalue."""
        return 1e-12

    @property
    def affordable(self) -> float:
        """The smallest penalty that is read."""
        return 0.0

    @property
    def factored(self) -> float | None:
        """The penalty at which solves cost next to nothing, if there is one."""
        return None

    def start_vector(self, seed: int) -> Array:
        """Where to look for the largest eigenvalue from."""
        return self.library.take(np.random.default_rng([3, seed]).normal(size=len(self.responses)))


class FactorSystem(RidgeSystem):
    """A held matrix. `matrix` makes A anew (weighted, centred, unscaled), `product` multiplies with it."""

    def __init__(
        self,
        matrix: Callable[[], Array],
        constant: Array | None,
        responses: Array,
        n_samples: float,
        product: Product,
        counts: Array | None = None,
    ) -> None:
        super().__init__(responses, n_samples)
        self._matrix, self._constant, self._product, self._counts = matrix, constant, product, counts
        self._last: Factor | None = None

    def multiply(self, block: Array) -> Array:
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


class FoldSystem(RidgeSystem):
    """Rows are left out a fold at a time; `grow` takes more folds in where the stop needs them.

    `targets` (n, q) are the responses by row, unweighted; `roots` are square roots of weights. Where `gram.held` makes
    the whole matrix, solves are by a factor, else by products with a preconditioner of `rank` columns, and a solve may
    take about so many `products`. `unseen`: how far rounding may put fitted values off before it would be seen.
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
        self.single, self._rank, self._seed, self._products = single, rank, seed, products
        self.whole = _Weighted(self, None)
        super().__init__(self.whole.responses, float((roots * roots).sum()))
        self._folds = [_Fold(self, rows) for rows in fold_rows(len(targets), seed)]
        self._search_tol, self.unseen = _SEARCH, 0.0
        self._used = min(folds_needed(len(targets)), len(self._folds))

    @property
    def weight(self) -> float:
        return float(sum(fold.weight for fold in self._folds[: self._used]))

    @property
    def together(self) -> float:
        return len(self._folds[0].rows) / len(self.targets)

    @property
    def rounding(self) -> float:
        return 1e-6 if self.single else 1e-12

    @property
    def search_tol(self) -> float:
        return self._search_tol

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
        """The stand-in's first eigenvector, where there is one."""
        return super().start_vector(seed) if self.gram.held is not None else self.whole.stand_in.first_vector

    def expect(self, penalty: float, share: float) -> None:
        """Solves must be finer than the error."""
        self._search_tol = min(max(UNSEEN * share, 1e-8), _SEARCH)
        self.unseen = math.sqrt(_SEARCH) * share  # noise of its own, as rounding is, adds its square to squared errors

    def grow(self) -> bool:
        """Twice as many folds."""
        before, self._used = self._used, min(2 * self._used, len(self._folds))
        return self._used > before

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

    @property
    def rows_left_out(self) -> Array:
        return np.concatenate([fold.rows for fold in self._folds[: self._used]])

    def left_out(self, penalty: float) -> Array:
        return np.concatenate([fold.left_out(penalty) for fold in self._folds[: self._used]])

    def unsolved(self, penalty: float) -> Array:
        folds = self._folds[: self._used]
        squares = sum(fold.weight * fold.unsolved[penalty] ** 2 for fold in folds)
        return cast(Array, np.sqrt(squares / self.weight))


class _Fold:
    """Some rows, left out together by giving them no weight."""

    def __init__(self, system: FoldSystem, rows: Array) -> None:
        self._system, self.rows = system, rows
        self.weight = float((system.roots[rows] ** 2).sum())
        self._guess: Array | None = None
        self._known: dict[float, Array] = {}
        self.unsolved: dict[float, Array] = {}
        """By penalty: root mean square of what solves left of the others' equations, for each response.

        A solution that leaves r of the equations is off by P r, and fitted values by A P r, which is no longer than r.
        Rows are left out at random, so that their predictions are off by about as much as fitted values (on the tests'
        problems: by as much for smooth kernels, by up to twice as much for Laplace's)."""

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
        self._guess, left = others.solve(penalty, system.search_tol, self._guess)
        self.unsolved[penalty] = left / float((others.roots**2).sum()) ** 0.5
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
