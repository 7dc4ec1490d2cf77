"""(A + a I)^-1 B by block conjugate gradients with one preconditioner, matrix-free.

The iteration is Dubrulle's (2001) retooled block method on the matrix with half a preconditioner on either side: search
directions stay orthonormal, so nearly dependent right-hand sides do no harm. Since F F' never exceeds A, the
preconditioned matrix has no eigenvalue below one, and the preconditioned residual bounds the error: fitted values
y - a x are off by at most sqrt(a) |residual|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from stopwise._support.array_library import ArrayLibrary, library_of
from stopwise._support.arrays import Array
from stopwise.engine.solves.preconditioner import LowRank

Product = Callable[[Array], Array]
_REFINEMENTS = 4
"""How often a solve is gone on with where its residual is larger than asked for."""
ROUGH = 0.02
"""How far columns may be off that only feed means over random signs (of z'P z that leaves the square, 4e-4) or the path
away from its stop."""
_TRUE_RESIDUAL = 3.0
"""The residual itself may be this many times the tolerance: both are relative to the right-hand side."""


@dataclass
class Tally:
    """What solves have cost so far."""

    products: int = 0
    """Blocks multiplied with the matrix."""
    columns: int = 0
    """Vectors multiplied with the matrix."""
    exact: int = 0
    """How often products had to be made in float64 instead."""


@dataclass(frozen=True)
class Preconditioned:
    """P block at one penalty, from products with A.

    `multiply` is A (weighted, centred, unscaled); `careful` the same in float64, for penalties that rounding of
    `multiply` would drown. `tol`: how far fitted values may be off, relative to the norm of each right-hand side;
    `rounding`: how far products are, relative to the norm of the block that is multiplied.
    """

    multiply: Product
    stand_in: LowRank
    penalty: float
    centre: Product
    tol: float = 1e-7
    most_products: int = 500
    careful: Product | None = None
    rounding: float = 0.0
    tally: Tally = field(default_factory=Tally)

    def inverse(self, block: Array, start: Array | None = None) -> Array:
        """P block, for (n,) or (n, b); `start` is a guess."""
        return self.solve(block, start)[0]

    def residual(self, block: Array, rough: int = 0) -> Array:
        """a P block: what ridge at this penalty leaves of responses; the last `rough` columns to `ROUGH` alone."""
        return self.penalty * self.solve(block, rough=rough)[0]

    def solve(self, block: Array, start: Array | None = None, rough: int = 0) -> tuple[Array, Array]:
        """P block, and for each column a bound on the error of a P block, relative to that column's norm."""
        flat = block[:, None] if block.ndim == 1 else block
        guess = None if start is None else (start[:, None] if start.ndim == 1 else start)
        columns = flat.shape[1]
        wanted = np.where(np.arange(columns) < columns - rough, self.tol, max(ROUGH, self.tol))
        found = self._refined(self.multiply, flat, guess, wanted)
        if found is None:  # rounding made the matrix indefinite
            if self.careful is None:
                raise ArithmeticError(
                    f"a penalty of {self.penalty:g} is below the rounding of these products (largest eigenvalue "
                    f"{self.stand_in.largest:g}): make them in float64"
                )
            self.tally.exact += 1
            found = self._refined(self.careful, flat, None, wanted)
        solution, off = (flat * 0.0, np.full(flat.shape[1], np.inf)) if found is None else found
        return (solution[:, 0] if block.ndim == 1 else solution), off

    def _refined(self, multiply: Product, block: Array, start: Array | None, tol: Array) -> tuple[Array, Array] | None:
        """Iterate, look at the residual itself, and go on where it is larger than asked for and than rounding explains.

        Predictions A x = y - a x - residual are off by both: the bound on a x says nothing of directions with large
        eigenvalues, which count little there and much here. `tol`: of each column.
        """
        library = library_of(block)
        sizes = np.maximum(_column_norms(library, self.centre(block)), np.finfo(float).tiny)
        sizes[tol > self.tol] = np.inf  # nothing is predicted from these
        rounding = 0.0 if multiply is self.careful else self.rounding
        worst, best = np.inf, None
        for _ in range(_REFINEMENTS):
            found = self._iterate(multiply, block, start, tol, _TRUE_RESIDUAL if best is None else 1.0)
            if found is None:
                return best
            self.tally.products += 1
            left = self.centre(block) - multiply(found[0]) - self.penalty * found[0]
            now = float((_column_norms(library, left) / sizes).max())
            if now >= worst:
                return best
            better, worst, best = now < worst / 2, now, found
            floor = rounding * float((_column_norms(library, found[0]) / sizes).max())
            if now <= max(_TRUE_RESIDUAL * self.tol, floor) or not better:
                break
            start, tol = found[0], tol * max(_TRUE_RESIDUAL * self.tol / now, 1e-3)
        return best

    def _image(self, multiply: Product, block: Array) -> Array:
        """The preconditioned matrix times a block."""
        self.tally.products += 1
        self.tally.columns += block.shape[1]
        inner = self.stand_in.inverse_root(block, self.penalty)
        return self.stand_in.inverse_root(multiply(inner) + self.penalty * inner, self.penalty)

    def _iterate(
        self, multiply: Product, block: Array, start: Array | None, tol: Array, enough: float
    ) -> tuple[Array, Array] | None:
        """Conjugate gradients down to `tol` for each column; a start within `enough` times that is left as it is."""
        library = library_of(block)
        block = self.centre(block)
        sizes = _column_norms(library, block)
        limit = tol * sizes / self.penalty**0.5
        left = block if start is None else block - (multiply(start) + self.penalty * start)
        residual, small = library.qr(self.stand_in.inverse_root(left, self.penalty))
        direction, total = residual, residual * 0.0
        for _ in range(self.most_products):
            if np.all(_column_norms(library, small) <= enough * limit):
                break
            enough = 1.0
            image = self._image(multiply, direction)
            curvature = direction.T @ image
            lower = library.cholesky((curvature + curvature.T) / 2)
            if lower is None:
                return None
            steps = library.solve_lower(lower, library.solve_lower(lower, small + 0.0), transposed=True)
            total = total + direction @ steps
            inverse = library.solve_lower(lower, library.solve_lower(lower, library.eye(len(lower))), transposed=True)
            residual, change = library.qr(residual - image @ inverse)
            small = change @ small
            direction = residual + direction @ change.T
        solution = self.stand_in.inverse_root(total, self.penalty)
        if start is not None:
            solution = solution + start
        off = _column_norms(library, small) * self.penalty**0.5 / np.maximum(sizes, np.finfo(float).tiny)
        return self.centre(solution), off


def _column_norms(library: ArrayLibrary, small: Array) -> Array:
    return cast(Array, library.host((small * small).sum(0)) ** 0.5)
