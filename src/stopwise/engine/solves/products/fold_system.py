"""Rows left out a fold at a time: a random twentieth of them (at most 4,000), by giving them weight zero.

One solve a penalty and fold, and leave-one-out but for the share that a fold takes. More folds follow until the stop is
well known.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array, Index
from stopwise.engine.solves.costs import FOLD_ROWS, UNSEEN, fold_size, folds_needed
from stopwise.engine.solves.products.product_system import Equations, ProductSystem, Weighted
from stopwise.problem import random_order

_MOST_FOLDS, _MOST_LEFT_OUT = 20, 20_000
"""How many folds are made, and how many rows are left out in all of them together, at most."""
_FEW_PRODUCTS = 30
"""Where a solve may take fewer products in float64 than this, penalties that float32 would drown are not read."""
_SEARCH = 1e-3
"""How far fitted values may be off while penalties are compared, relative to the responses; and how much rounding may
add to squared errors, relative to them."""


def fold_rows(n_rows: int, seed: int, most: int = FOLD_ROWS) -> list[Index]:
    """The rows of each fold, ascending: a random share of all rows, at most `most` of them."""
    size = fold_size(n_rows, most)
    order = random_order(n_rows, seed)
    count = min(n_rows // size, _MOST_FOLDS, max(_MOST_LEFT_OUT // size, 1))
    return [np.sort(order[k * size : (k + 1) * size]) for k in range(count)]


class FoldSystem(ProductSystem):
    """Rows are left out a fold at a time; `grow` takes more folds in where the stop needs them.

    A solve may take about so many `products`.
    """

    def __init__(self, given: Equations, products: float = math.inf) -> None:
        super().__init__(given)
        self._products, self._search_tol = products, _SEARCH
        self._folds = [_Fold(self, rows) for rows in fold_rows(len(given.targets), given.seed)]
        self._used = min(folds_needed(len(given.targets)), len(self._folds))

    @property
    def weight(self) -> float:
        return float(sum(fold.weight for fold in self._folds[: self._used]))

    @property
    def together(self) -> float:
        return len(self._folds[0].rows) / len(self.targets)

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
        only_single = self.single and self._products < self.gram.careful_cost * _FEW_PRODUCTS
        return max(least, self.whole.rounded) if only_single else least

    def expect(self, penalty: float, share: float) -> None:
        """Solves must be finer than the error."""
        self._search_tol = min(max(UNSEEN * share, 1e-8), _SEARCH)
        self.unseen = math.sqrt(_SEARCH) * share  # noise of its own, as rounding is, adds its square to squared errors

    def grow(self) -> bool:
        """Twice as many folds."""
        before, self._used = self._used, min(2 * self._used, len(self._folds))
        return self._used > before

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
        Rows are left out at random, so that their predictions are off by about as much as fitted values: by .4 to 2.7
        times as much on 48 random problems, 1.2 at the median."""

    @cached_property
    def _others(self) -> Weighted:
        return Weighted(self._system, self.rows)

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
