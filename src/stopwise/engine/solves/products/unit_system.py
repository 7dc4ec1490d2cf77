"""Rows left out alone, by products: unit vectors z as right-hand sides give P_ii = z'P z, and e_i = [P y]_i / P_ii.

Block conjugate gradients know z'P z to the square of their error, and from below; with as many columns as the
preconditioner has, a few steps span all that it leaves, at any penalty. A column takes as many multiplications as a
product: this is for rows that are few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.solves.costs import LEAST_LEFT_OUT
from stopwise.engine.solves.factor import left_alone
from stopwise.engine.solves.preconditioned import Preconditioned
from stopwise.engine.solves.products.product_system import Equations, ProductSystem
from stopwise.engine.solves.systems import KNOWN
from stopwise.problem import random_order


@dataclass
class _Reading:
    """What is known at one penalty."""

    solution: Array
    """P y, (n, q), on the host."""
    off: Array
    """A bound on the length of its error times the penalty, (q,)."""
    lefts: list[Array]
    """a P_ii of the rows of each block,"""
    shorts: list[Array]
    """and the share by which it may be more."""


class UnitSystem(ProductSystem):
    """A random sample of rows, each left out alone; `grow` takes twice as many until it has all.

    `counts`: observations that each row stands for.
    """

    def __init__(self, given: Equations, counts: Array | None = None) -> None:
        super().__init__(given)
        self._counts, self._error = counts, 1.0
        self._order = random_order(len(given.targets), given.seed)
        self._blocks: list[Array] = []
        self._readings: dict[float, _Reading] = {}
        self._take(LEAST_LEFT_OUT)

    def _take(self, count: int) -> None:
        """More rows of the order, in blocks as wide as the preconditioner."""
        used = sum(map(len, self._blocks))
        rows = self._order[used : used + count]
        self._blocks += np.array_split(rows, -(-len(rows) // self._rank))

    @property
    def rows_left_out(self) -> Array:
        return np.concatenate(self._blocks)

    @property
    def weight(self) -> float:
        return float((self.roots[self.rows_left_out] ** 2).sum())

    def grow(self) -> bool:
        used = sum(map(len, self._blocks))
        if used == len(self._order):
            return False
        self._take(used)
        return True

    def expect(self, penalty: float, share: float) -> None:
        self._error = min(share, 1.0)

    def left_out(self, penalty: float) -> Array:
        found, rows = self._read(penalty), self.rows_left_out
        counts = None if self._counts is None else self._counts[rows]
        return left_alone(penalty * found.solution[rows], np.concatenate(found.lefts), counts)

    def unsolved(self, penalty: float) -> Array:
        """Residuals a P y are off by at most `off` in all, and a P_ii, which divides them, by a share of its own."""
        found = self._read(penalty)
        divided = found.off * _mean_inverse(np.concatenate(found.lefts)) / self.n_samples**0.5
        shares = self.left_out(penalty) * np.concatenate(found.shorts)[:, None]
        return cast(Array, np.hypot(divided, (shares**2).sum(0) ** 0.5 / self.weight**0.5))

    def _read(self, penalty: float) -> _Reading:
        solver = self.at(penalty)
        assert isinstance(solver, Preconditioned)
        found = self._readings.get(penalty)
        if found is None:
            found = self._readings[penalty] = self._first(solver)
        for rows in self._blocks[len(found.lefts) :]:
            forms = solver.quadratic_forms(self._unit_vectors(rows), _units_known)
            found.lefts.append(penalty * forms.least)
            found.shorts.append(forms.short / forms.least)
        return found

    def _first(self, solver: Preconditioned) -> _Reading:
        """P y beside the first rows, which say how fine it must be."""
        q, penalty = self.responses.shape[1], solver.penalty
        sizes = self.library.host((self.responses**2).sum(0)) ** 0.5

        def enough(least: Array, short: Array) -> bool:
            if not _units_known(least[q:], short[q:]):
                return False
            off = (penalty * short[:q]) ** 0.5 * _mean_inverse(penalty * least[q:])
            return bool(np.all(off <= KNOWN / 2 * self._error * sizes))

        block = self.library.join([self.responses, self._unit_vectors(self._blocks[0])])
        forms = solver.quadratic_forms(block, enough)
        solution, off = self.library.host(forms.solution[:, :q] + 0.0), (penalty * forms.short[:q]) ** 0.5
        return _Reading(solution, off, [penalty * forms.least[q:]], [forms.short[q:] / forms.least[q:]])

    def _unit_vectors(self, rows: Array) -> Array:
        block = np.zeros((len(self._order), len(rows)))
        block[rows, np.arange(len(rows))] = 1.0
        return self.library.take(block)


def _units_known(least: Array, short: Array) -> bool:
    """Squared residuals are off by twice the share by which P_ii is."""
    return bool(np.all(2 * short <= KNOWN * least))


def _mean_inverse(left: Array) -> float:
    """Root mean square of 1 / left."""
    with np.errstate(divide="ignore"):
        return float(np.mean(left**-2.0) ** 0.5)
