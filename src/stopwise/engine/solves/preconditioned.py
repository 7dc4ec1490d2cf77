"""(A + a I)^-1 B by block conjugate gradients with one preconditioner, matrix-free.

The iteration is Dubrulle's (2001) retooled block method on the matrix with half a preconditioner on either side: search
directions stay orthonormal, so nearly dependent right-hand sides do no harm. Since F F' never exceeds A, the
preconditioned matrix has no eigenvalue below one, and the preconditioned residual bounds the error: fitted values
y - a x are off by at most sqrt(a) |residual|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
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
class Solved:
    """P block, and by column how far it may be off, relative to that column's norm."""

    solution: Array
    off: Array
    """A bound on the error of a P block."""
    residual: Array
    """The length of what it leaves of the equations, block - (A + a I) solution, with what rounding may hide of it."""


@dataclass(frozen=True)
class QuadraticForms:
    """P block, and for each column z a value z'P z is at least, which it exceeds by at most `short`."""

    solution: Array
    least: Array
    short: Array


@dataclass(frozen=True)
class _Step:
    """Conjugate gradients after some steps, in preconditioned coordinates: the residual is `residual` @ `small`."""

    total: Array
    """The solution so far."""
    residual: Array
    small: Array
    gained: Array
    """Of z'P z, by column: the rest is the squared error in the norm of A + a I, at most the residual's square."""


@dataclass(frozen=True)
class Preconditioned:
    """P block at one penalty, from products with A.

    `multiply` is A (weighted, centred, unscaled); `careful` the same in float64, for penalties that rounding of
    `multiply` would drown. `tol`: how far fitted values may be off, relative to the norm of each right-hand side;
    `rounding`: how far products are, relative to the norm of the block that is multiplied; `kept`: the share of that by
    which fitted values are then off, and `unseen` how far they may be for that where it is more than `tol`.
    """

    multiply: Product
    stand_in: LowRank
    penalty: float
    centre: Product
    tol: float = 1e-7
    most_products: int = 500
    careful: Product | None = None
    rounding: float = 0.0
    kept: float = 1.0
    unseen: float = 0.0
    tally: Tally = field(default_factory=Tally)

    def inverse(self, block: Array, start: Array | None = None) -> Array:
        """P block, for (n,) or (n, b); `start` is a guess."""
        return self.solve(block, start).solution

    def residual(self, block: Array, rough: int = 0) -> Array:
        """a P block: what ridge at this penalty leaves of responses; the last `rough` columns to `ROUGH` alone."""
        return self.penalty * self.solve(block, rough=rough).solution

    def solve(self, block: Array, start: Array | None = None, rough: int = 0) -> Solved:
        """P block, and how far each column may be off; the last `rough` columns to `ROUGH` alone."""
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
        if found is None:
            found = Solved(flat * 0.0, np.full(columns, np.inf), np.full(columns, np.inf))
        return replace(found, solution=found.solution[:, 0]) if block.ndim == 1 else found

    def _refined(self, multiply: Product, block: Array, start: Array | None, tol: Array) -> Solved | None:
        """Iterate, look at the residual itself, and go on where it is larger than asked for. `tol`: of each column.

        Predictions A x = y - a x - residual are off by both: the bound on a x says nothing of directions with large
        eigenvalues, which count little there and much here. Where rounding of products would hide the residual, it is
        looked at in float64: each round then gains the penalty over the rounding. Where it would not, what is seen
        within the rounding of products is rounding, of which fitted values keep a share, beside what the iteration left
        by its own account.
        """
        library, block = library_of(block), self.centre(block)
        sizes = np.maximum(_column_norms(library, block), np.finfo(float).tiny)
        exact = tol <= self.tol  # nothing is predicted from the others
        asked = np.where(exact, _TRUE_RESIDUAL * self.tol, np.inf)
        solution, left, worst, best = block * 0.0, block, np.inf, None
        if start is not None:
            solution, left = start, self._left(multiply, block, start)
        for _ in range(_REFINEMENTS):
            found = self._iterate(multiply, left, tol * sizes, asked * sizes, _TRUE_RESIDUAL if best is None else 1.0)
            if found is None:
                break
            solution = self.centre(solution + found[0])
            rounded = (0.0 if multiply is self.careful else self.rounding) * _column_norms(library, solution) / sizes
            finer = None if np.all(self.kept * rounded[exact] <= max(self.tol, self.unseen)) else self.careful
            left = self._left(finer or multiply, block, solution)
            seen, floor = _column_norms(library, left) / sizes, rounded if finer is None else 0.0 * rounded
            off = np.hypot(np.where(seen <= floor, found[2] / sizes, seen), self.kept * floor)
            before, now = worst, float(off[exact].max(initial=0.0))
            if now < before:
                worst, best = now, Solved(solution, found[1] / sizes, off)
            if np.all(seen <= np.maximum(asked, floor)) or now > before / 2:
                break
        return best

    def _left(self, multiply: Product, block: Array, solution: Array) -> Array:
        """What a solution leaves of the equations."""
        self.tally.products += 1
        return block - multiply(solution) - self.penalty * solution

    def _image(self, multiply: Product, block: Array) -> Array:
        """The preconditioned matrix times a block."""
        self.tally.products += 1
        self.tally.columns += block.shape[1]
        inner = self.stand_in.inverse_root(block, self.penalty)
        return self.stand_in.inverse_root(multiply(inner) + self.penalty * inner, self.penalty)

    def _iterate(
        self, multiply: Product, left: Array, limit: Array, asked: Array, enough: float
    ) -> tuple[Array, Array, Array] | None:
        """P left by conjugate gradients, a bound on the error of a P left, and the length of the residual, by column.

        Down to `limit` for that bound and to `asked` for the residual; nothing is done where both are within `enough`.
        """
        library, root, state = library_of(left), self.penalty**0.5, None

        def residual(state: _Step) -> Array:
            return _column_norms(library, self.stand_in.root(state.residual @ state.small, self.penalty))

        for state in self._steps(multiply, left):
            if state is None:
                return None
            bound = root * _column_norms(library, state.small)
            if np.all(bound <= enough * limit) and np.all(residual(state) <= asked):
                break
            enough = 1.0
        assert state is not None
        return self.stand_in.inverse_root(state.total, self.penalty), bound, residual(state)

    def quadratic_forms(self, block: Array, enough: Callable[[Array, Array], bool]) -> QuadraticForms:
        """z'P z of each column z, until `enough(least, short)`."""
        block = self.centre(block)
        library, state = library_of(block), None
        for step in self._steps(self.multiply, block):
            if step is None:  # what was found until then says how far it is off
                break
            state = step
            if enough(state.gained, _column_norms(library, state.small) ** 2):
                break
        assert state is not None
        solution = self.centre(self.stand_in.inverse_root(state.total, self.penalty))
        return QuadraticForms(solution, state.gained, _column_norms(library, state.small) ** 2)

    def _steps(self, multiply: Product, left: Array) -> Iterator[_Step | None]:
        """Block conjugate gradients from zero, in preconditioned coordinates; None where products are indefinite."""
        library = library_of(left)
        residual, small = library.qr(self.stand_in.inverse_root(left, self.penalty))
        direction, total, gained = residual, residual * 0.0, np.zeros(left.shape[1])
        yield _Step(total, residual, small, gained)
        for _ in range(self.most_products):
            image = self._image(multiply, direction)
            curvature = direction.T @ image
            lower = library.cholesky((curvature + curvature.T) / 2)
            if lower is None:
                yield None
                return
            steps = library.solve_lower(lower, library.solve_lower(lower, small + 0.0), transposed=True)
            total, gained = total + direction @ steps, gained + library.host((small * steps).sum(0))
            inverse = library.solve_lower(lower, library.solve_lower(lower, library.eye(len(lower))), transposed=True)
            residual, change = library.qr(residual - image @ inverse)
            small = change @ small
            direction = residual + direction @ change.T
            yield _Step(total, residual, small, gained)


def _column_norms(library: ArrayLibrary, small: Array) -> Array:
    return cast(Array, library.host((small * small).sum(0)) ** 0.5)
