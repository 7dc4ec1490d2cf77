"""(A + a I)^-1 by a Cholesky factor in float64, and exact leave-one-out from the diagonal of the inverse.

A is the weighted, centred, unscaled Gram matrix H D G D H (D = diag(sqrt w), H = I - q q', q = sqrt(w / n)) and a the
penalty n / step_sum. On the range of H the inverse is P = C^-1 - C^-1 1 1'C^-1 / (1'C^-1 1) with C = G + a W^-1, in
weighted coordinates: ridge's residual is a P y, and leaving row i out makes it [P y]_i / P_ii. The arrays may be
numpy's or torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.array_library import ArrayLibrary, library_of
from stopwise._support.arrays import Array
from stopwise.engine.operators.centring import centred, subtract_outer
from stopwise.engine.spectrum.eigenpairs import IndefiniteMatrix

_ROUNDING = 4e-16
"""Rounding of a Gram matrix in units of its trace: the first shift tried where a penalty below it leaves no factor."""
_LARGEST_SHIFT = 1e-8
"""A kernel matrix that needs a larger shift, in units of its trace, is not positive semi-definite (root of epsilon)."""
BLOCK = 1024
"""Columns of the inverse factor that are made at once."""


@dataclass(frozen=True)
class Factor:
    """L L' = A + (penalty + shift) I + scale q q'; `constant` is q, or None without an intercept.

    The term in q gives the direction that the intercept takes out an eigenvalue like the others'; it is taken off
    again after each solve. `shift` is what rounding needed on top of the penalty, zero but for tiny penalties.
    """

    lower: Array
    penalty: float
    constant: Array | None
    scale: float
    shift: float = 0.0
    order: Array | None = None
    """The rows of A in the order of L and q; None where that is their own."""

    @cached_property
    def _library(self) -> ArrayLibrary:
        return library_of(self.lower)

    def inverse(self, block: Array, start: Array | None = None) -> Array:
        """P block, for (n,) or (n, b); no guess is needed to `start` from."""
        own = block if self.order is None else block[self.order]
        half = self._library.solve_lower(self.lower, centred(own, self.constant))
        return self._as_given(centred(self._library.solve_lower(self.lower, half, transposed=True), self.constant))

    def _as_given(self, found: Array) -> Array:
        """From the order of L to that of the rows."""
        if self.order is None:
            return found
        out = np.empty(found.shape)
        out[self.order] = found
        return out

    def residual(self, block: Array, rough: int = 0) -> Array:
        """a P block: what ridge at this penalty leaves of responses; none of its columns is `rough`."""
        return self.penalty * self.inverse(block)

    def inverse_diagonal(self) -> Array:
        """The diagonal of P, exact, in n^3 / 3 multiplications: column norms of L^-1, a block of columns at a time."""
        n = len(self.lower)
        out = self._library.zeros(n)
        for first in range(0, n, BLOCK):
            for part in self._inverse_columns(first, min(BLOCK, n - first)):
                out[first : first + BLOCK] += (part * part).sum(0)
        if self.constant is not None:
            out = out - self.constant**2 / (self.scale + self.penalty + self.shift)
        return self._as_given(out)

    def _inverse_columns(self, first: int, count: int) -> list[Array]:
        """Some columns of L^-1, in blocks of rows from `first` on, by products with slices of L: none is copied."""
        parts: list[Array] = []
        for top in range(first, len(self.lower), BLOCK):
            rows = self.lower[top : top + BLOCK]
            block = self._library.eye(count) if top == first else 0.0
            for k, part in enumerate(parts):
                block = block - rows[:, first + k * BLOCK : first + (k + 1) * BLOCK] @ part
            parts.append(self._library.solve_lower(rows[:, top : top + BLOCK], cast(Array, block)))
        return parts

    def left_out(self, response: Array, counts: Array | None = None) -> Array:
        """Leave-one-out residuals [P y]_i / P_ii in weighted coordinates; exact for ridge at a held penalty."""
        return left_alone(self.residual(response), self.penalty * self.inverse_diagonal(), counts)


def left_alone(residual: Array, left: Array, counts: Array | None) -> Array:
    """Residuals of rows left out from those of a fit to all rows and what it leaves of each row itself, a P_ii.

    A row that stands for m observations loses one of them: its leverage 1 - a P_ii counts for a share 1/m.
    """
    if counts is not None:
        left = 1 - (1 - left) / counts
    return cast(Array, residual / (left if residual.ndim == 1 else left[:, None]))


def factor(matrix: Callable[[], Array], penalty: float, constant: Array | None = None) -> Factor:
    """The factor of A + penalty I. `matrix` makes A anew, as an array that may be overwritten."""
    scale = 0.0

    def attempt(shift: float) -> tuple[Array | None, float]:
        nonlocal scale
        own = matrix()
        library, trace = library_of(own), float(own.diagonal().sum())
        scale = max(trace / max(len(own), 1), 1e-300)
        if constant is not None:
            subtract_outer(own, -scale * constant, constant)
        library.add_to_diagonal(own, penalty + shift)
        return library.cholesky(own), trace

    lower, shift = with_least_shift(attempt, penalty)
    return Factor(lower, penalty, constant, scale, shift)


def with_least_shift(attempt: Callable[[float], tuple[Array | None, float]], penalty: float) -> tuple[Array, float]:
    """The factor that `attempt(shift)` finds, or None, beside the matrix's trace; and the shift that it took.

    A kernel that is positive semi-definite gets a factor at any penalty of at least 0: where rounding is larger than
    the penalty, the smallest shift that works is added, and told.
    """
    shift = 0.0
    while True:
        lower, trace = attempt(shift)
        if lower is not None:
            return lower, shift
        shift = max(10 * shift, _ROUNDING * trace)
        if shift > _LARGEST_SHIFT * trace:
            raise IndefiniteMatrix(
                f"the kernel matrix is not positive semi-definite: a shift of {shift:g} (its trace is {trace:g}) on "
                f"top of the penalty {penalty:g} leaves it no Cholesky factor; pass a positive semi-definite kernel"
            )
