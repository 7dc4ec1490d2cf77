"""A path from solves alone: Lanczos on the resolvent u = a (A + a I)^-1, started at the responses.

m solves span {y, u y, ..., u^(m-1) y}, in which every polynomial of that degree in u is exact: with the pole of
`shifted_descent`, the filter at its clock reading is one of them to within that approximation's error (doubled at most:
Galerkin). A Ritz value theta of u is the eigenvalue (a / n) (1 / theta - 1) of K. Random signs in the same blocks give
the density of all eigenvalues, by Gauss quadrature (stochastic Lanczos: Ubaru, Chen & Saad 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stopwise._support.array_library import library_of
from stopwise._support.arrays import Array
from stopwise.engine.solves.shifted_descent import Resolvent, ResolventPolynomial
from stopwise.filters import Filter
from stopwise.path import Path
from stopwise.spectrum import Basis, Density

_SPENT = 1e-12
"""A direction shorter than this, relative to those before, is rounding: the space is complete."""

_TOP_KNOWN = 1e-9
"""How well the largest eigenvalue is known before its search ends, relative to itself."""


_BEYOND = 2.0
"""Ritz values are at most the largest eigenvalue, which is known far better than to this factor."""


@dataclass(frozen=True)
class ResolventSpace:
    """Orthonormal `rows` (n, k), Ritz pairs of u on them, and the responses' coordinates (on the host)."""

    rows: Array
    ritz: Array
    """Ritz values of u, in (0, 1]."""
    rotation: Array
    coordinates: Array
    """Responses in the basis of Ritz vectors, (k, q)."""
    density: Density
    penalty: float
    n_samples: float
    images: Array
    """u times `rows`."""

    @property
    def eigenvalues(self) -> Array:
        """Of K, descending."""
        return np.maximum(self.penalty / self.n_samples * (1 / self.ritz - 1), 0.0)

    def path(self, bare: Path, middle: float, trace: float, density: Density) -> Path:
        """The path around a clock reading, from one that knows the responses and the largest eigenvalue.

        What is left free (the constant beside an intercept) is no direction of K, and u is zero there: rounding lets it
        into a space that is nearly spent, as a Ritz value far above the largest eigenvalue.
        """
        order, largest = np.argsort(-self.eigenvalues), bare.spectrum.largest_bound
        order = order[self.eigenvalues[order] <= _BEYOND * largest]
        spectrum = replace(
            bare.spectrum,
            eigenvalues=np.minimum(self.eigenvalues[order], largest),
            basis=Basis(library_of(self.rows).host(self.rows + 0.0), self.rotation[:, order]),
            trace=trace,
            density=density,
            bound=density,
        )
        horizon = max(30 * middle, 30 / max(largest, 1e-280))
        return replace(bare, spectrum=spectrum, coefficients=self.coordinates[order], horizon=horizon)

    def before_last_solve(self, filter: Filter, step_sums: Array) -> Array:
        """What one more solve with P turns into dual weights, one column per response."""
        return self.rows @ self._last_coordinates(filter, step_sums)

    def after_last_solve(self, filter: Filter, step_sums: Array) -> Array:
        """The same dual weights from solves already made: a start for the last one."""
        return self.images @ self._last_coordinates(filter, step_sums) / self.penalty

    def _last_coordinates(self, filter: Filter, step_sums: Array) -> Array:
        weights = filter.weight(self.eigenvalues, step_sums).T
        inner = weights * (self.penalty / self.n_samples / self.ritz)[:, None] * self.coordinates
        return library_of(self.rows).take(self.rotation @ inner)


class GrowingSpace:
    """One solve, and more one at a time, from the responses (n, q) and, beside them, probes (n, p), all centred.

    Ridge at other penalties lies in it as well: with u = a (A + a I)^-1 and r = (b - a) / a, P(b) y is
    (u / a) (1 + r u)^-1 y, which a space of m solves knows to ((sqrt(k) - 1) / (sqrt(k) + 1))^m, k = max(a / b, b / a).
    """

    def __init__(self, resolvent: Resolvent, responses: Array, n_samples: float, probes: Array | None = None) -> None:
        self._resolvent, self._responses, self._n_samples = resolvent, responses, n_samples
        self._library = library_of(responses)
        self._walks = None if probes is None else _Walks(probes)
        self._known: list[Array] = []
        self._images: list[Array] = []
        self._next: Array | None = self._library.qr(responses)[0]
        self.extend()

    def extend(self, *, rough: bool = False) -> bool:
        """One more solve, which may be rough where it only tells of other readings; False where nothing is left."""
        if self._next is None:
            return False
        library, walks, width = self._library, self._walks, self._next.shape[1]
        walking = walks is not None and len(self._images) < walks.most
        block = library.join([self._next, walks.last]) if walks is not None and walking else self._next
        image = self._resolvent.residual(block, block.shape[1] - (0 if rough else width))
        if walks is not None and walking:
            walks.advance(image[:, width:])
        self._known.append(self._next)
        self._images.append(image[:, :width])
        self._next = self._direction()
        return True

    def _direction(self) -> Array | None:
        """What the last image adds to the space, orthonormal; None where that is rounding."""
        rows, rest = self._library.join(self._known), self._images[-1]
        for _ in range(2):
            rest = rest - rows @ (rows.T @ rest)
        direction, size = self._library.qr(rest)
        if float(abs(size).max()) < _SPENT:
            return None
        direction = direction - rows @ (rows.T @ direction)
        return self._library.qr(direction)[0]

    def ridge(self, penalty: float) -> tuple[Array, float]:
        """P y at a penalty (Galerkin), and the norm of what it leaves of the equations over that of y, the largest."""
        library, own = self._library, self._resolvent.penalty
        rows, images = library.join(self._known), library.join(self._images)
        ratio = (penalty - own) / own
        small = library.host(rows.T @ images)
        inner = np.eye(len(small)) + ratio * (small + small.T) / 2
        at = library.take(np.linalg.solve(inner, library.host(rows.T @ self._responses)))
        left = self._responses - rows @ at - ratio * (images @ at)
        sizes = library.host((self._responses**2).sum(0)).clip(np.finfo(float).tiny)
        return images @ at / own, float(np.sqrt((library.host((left**2).sum(0)) / sizes).max()))

    def space(self) -> ResolventSpace:
        library, penalty, n = self._library, self._resolvent.penalty, self._n_samples
        rows, applied = library.join(self._known), library.join(self._images)
        matrix = library.host(rows.T @ applied)
        ritz, rotation = np.linalg.eigh((matrix + matrix.T) / 2)
        ritz = np.clip(ritz, 1e-15, 1.0)
        coordinates = rotation.T @ library.host(rows.T @ self._responses)
        if self._walks is None:
            values = np.maximum(penalty / n * (1 / ritz - 1), 0.0)
            density = Density(values, np.ones_like(values), n)
        else:
            density = self._walks.density(penalty, n)
        return ResolventSpace(rows, ritz, rotation, coordinates, density, penalty, n, applied)


def space_around(
    growing: GrowingSpace, polynomial: ResolventPolynomial, reached: Array, ridge_steps: int
) -> ResolventSpace:
    """The space that holds the filter at clock readings `reached`, and the path around them.

    Ridge's estimate is its first solve alone: the others, `ridge_steps` in all, may be rough.
    """
    steps, exact = (ridge_steps, 1) if polynomial.degree == 1 else (polynomial.degree, polynomial.degree)
    going = reached[reached > 0]
    if going.size and going.max() > 1.5 * going.min():  # several stops share one pole
        steps = exact = steps + 6
    for made in range(1, steps):
        if not growing.extend(rough=made >= exact):
            break
    return growing.space()


class _Walks:
    """Lanczos on u from each probe on its own, all probes in one block."""

    def __init__(self, probes: Array) -> None:
        self.most = 10
        """Steps at most."""
        self._library = library_of(probes)
        sizes = (probes * probes).sum(0) ** 0.5
        self._sizes = self._library.host(sizes)
        self._known: list[Array] = [probes / sizes]
        self._diagonal: list[Array] = []
        self._beside: list[Array] = []

    @property
    def last(self) -> Array:
        """The block to apply u to next."""
        return self._known[-1]

    def advance(self, image: Array) -> None:
        """Take u times the last block in."""
        self._diagonal.append(self._library.host((self._known[-1] * image).sum(0)))
        rest = image
        for _ in range(2):
            for column in self._known:
                rest = rest - column * (column * rest).sum(0)
        size = (rest * rest).sum(0) ** 0.5
        host = self._library.host(size)
        self._beside.append(host)
        if float(host.min()) < _SPENT:
            self.most = len(self._diagonal)
        self._known.append(rest / size.clip(1e-300))

    def density(self, penalty: float, n_samples: float) -> Density:
        """The mean over probes of their quadrature rules: eigenvalues with multiplicities."""
        values, counts = [], []
        steps = len(self._diagonal)
        for probe, size in enumerate(self._sizes):
            matrix = np.diag([d[probe] for d in self._diagonal])
            for k in range(steps - 1):
                matrix[k, k + 1] = matrix[k + 1, k] = self._beside[k][probe]
            ritz, vectors = np.linalg.eigh(matrix)
            values.append(np.maximum(penalty / n_samples * (1 / np.clip(ritz, 1e-15, 1.0) - 1), 0.0))
            counts.append(size**2 * vectors[0] ** 2 / len(self._sizes))
        return Density(np.concatenate(values), np.concatenate(counts), n_samples)


def largest_eigenvalue(multiply: Callable[[Array], Array], start: Array, steps: int = 16) -> float:
    """A bound on the largest eigenvalue of a symmetric matrix: the Ritz value of Lanczos plus its residual."""
    library = library_of(start)
    known = [start / float((start * start).sum()) ** 0.5]
    diagonal: list[float] = []
    beside: list[float] = []
    largest, off = 0.0, 0.0
    for _ in range(steps):
        image = multiply(known[-1][:, None])[:, 0]
        diagonal.append(float((known[-1] * image).sum()))
        rows = library.join([k[:, None] for k in known])
        for _ in range(2):
            image = image - rows @ (rows.T @ image)
        beside.append(float((image * image).sum()) ** 0.5)
        largest, off = _top_ritz_value(diagonal, beside)
        if off <= _TOP_KNOWN * largest:
            break
        known.append(image / beside[-1])
    return largest + 2 * off


def _top_ritz_value(diagonal: list[float], beside: list[float]) -> tuple[float, float]:
    """The largest Ritz value, and how far an eigenvalue can be: the residual, or its square over the gap below."""
    inner = beside[:-1]
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(inner, 1) + np.diag(inner, -1))
    residual = beside[-1] * abs(float(vectors[-1, -1]))
    gap = float(values[-1] - values[-2]) if len(values) > 1 else 0.0
    return float(values[-1]), min(residual, residual**2 / gap) if gap > 0 else residual
