"""Diagonal entries of (C + s I)^-1 for every shift s near zero, from one factor L L' = C.

With b = L^-1 e_i and M = L^-1 L^-T the entry is b' (I + s M)^-1 b: a few steps of Lanczos on M from b, two triangular
solves each, give quadrature rules for it. Gauss-Radau rules with a node at either end of the spectrum err to opposite
sides, so two of them bracket it (Golub & Meurant 2010, section 6).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from stopwise._support.array_library import library_of
from stopwise._support.arrays import Array

_ABOVE = 1e-6
"""The upper node is this much above the largest eigenvalue, relative to it, so that no other node meets it."""
_COLUMNS = 64
"""Columns whose squares are summed at once, in float64."""


class InverseEntries:
    """Some `rows` of C. The nearer they are to the end, the cheaper the start.

    `smallest`: no eigenvalue of C is below.
    """

    def __init__(self, lower: Array, rows: Array, smallest: float) -> None:
        self._lower, self._library = lower, library_of(lower)
        self._ends = (0.0, (1 + _ABOVE) / smallest)
        first = int(rows.min()) if 2 * int(rows.min()) > len(lower) else 0  # a part of L is copied: a quarter at most
        units = np.zeros((len(lower) - first, len(rows)), dtype=lower.dtype, order="F")
        units[rows - first, np.arange(len(rows))] = 1.0
        units = self._library.solve_lower(lower[first:, first:] if first else lower, units)
        self._sizes = _square_sums(units)
        self._next = np.zeros((len(lower), len(rows)), dtype=lower.dtype, order="F")
        self._next[first:] = units / np.sqrt(self._sizes).astype(lower.dtype)
        self._before: Array | None = None
        self._diagonal: list[Array] = []
        self._beside: list[Array] = []

    @property
    def points(self) -> int:
        """Steps of Lanczos so far."""
        return len(self._diagonal)

    def extend(self) -> None:
        """One more step: two triangular solves with a column for each row."""
        here = self._next
        half = self._library.solve_lower(self._lower, here, transposed=True)
        self._diagonal.append(_square_sums(half))
        rest = self._library.solve_lower(self._lower, half)
        rest -= here * self._diagonal[-1].astype(here.dtype)
        if self._before is not None:
            rest -= self._before * self._beside[-1].astype(here.dtype)
        self._beside.append(np.sqrt(_square_sums(rest)))
        rest /= np.maximum(self._beside[-1], np.finfo(here.dtype).tiny).astype(here.dtype)
        self._before, self._next = here, rest

    def at(self, shift: float) -> tuple[Array, Array, Array]:
        """Each entry of (C + shift I)^-1, and two values on either side of it.

        The two rules' errors are as sqrt(r) to 1, r = 1 + shift / smallest: squares of orthogonal polynomials tend to
        the arcsine distribution, under which x / (1 + shift x) has that share of what (end - x) / (1 + shift x) has.
        """
        root = float(np.sqrt(1 + shift * self._ends[1] / (1 + _ABOVE)))
        first, second = (self._radau(shift, end) for end in self._ends)
        return (first + root * second) / (1 + root), first, second

    def _radau(self, shift: float, end: float) -> Array:
        count, rows = self.points, len(self._sizes)
        if count == 0:
            return self._sizes / (1 + shift * end)
        matrix = np.zeros((rows, count + 1, count + 1))
        for k in range(count):
            matrix[:, k, k] = self._diagonal[k]
            matrix[:, k, k + 1] = matrix[:, k + 1, k] = self._beside[k]
        last = np.zeros((rows, count, 1))
        last[:, -1, 0] = self._beside[-1] ** 2
        inner = matrix[:, :count, :count] - end * np.eye(count)
        matrix[:, count, count] = end + np.linalg.solve(inner, last)[:, -1, 0]
        unit = np.zeros((rows, count + 1, 1))
        unit[:, 0, 0] = self._sizes
        return cast(Array, np.linalg.solve(np.eye(count + 1) + shift * matrix, unit)[:, 0, 0])


def _square_sums(block: Array) -> Array:
    firsts = range(0, block.shape[1], _COLUMNS)
    return np.concatenate([(block[:, j : j + _COLUMNS].astype(np.float64) ** 2).sum(0) for j in firsts])
