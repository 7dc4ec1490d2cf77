"""What the eigenvalues say, and how sure we are.

A `Spectrum` holds leading eigenpairs (or Ritz pairs) and the trace. Sums over all eigenvalues go through a
`Density`: values with multiplicities. Where every eigenvalue is known the multiplicities are one; where some are
unseen, the trace that is left is spread evenly over them, which makes every concave sum (complexity, degrees of
freedom) as large as it can be. A matrix-free solver may add a sharper statistical density, with jackknife
replicas to tell its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.memory import row_tiles

KEPT_ENTRIES = 40_000_000
"""Squares of so many entries (320 MB) are kept; of more, they are made again at each use."""


@dataclass(frozen=True)
class Density:
    """Eigenvalues with multiplicities: enough for every sum over the spectrum."""

    values: Array
    multiplicities: Array
    n_samples: float

    def total(self, terms: Array) -> Array:
        """Sum over the spectrum of a function that vanishes at zero, given its `terms` at `values` (last axis)."""
        return cast(Array, terms @ self.multiplicities)

    @property
    def trace(self) -> float:
        """The sum of all eigenvalues."""
        return float(self.values @ self.multiplicities)


def spread_density(eigenvalues: Array, trace: float, n_samples: float) -> Density:
    """Known eigenvalues, and the trace that is left spread evenly over the unseen ones.

    By concavity this is the largest that sum_j min(lambda_j, r) can be, and the truth where r is above them all.
    """
    unseen = n_samples - eigenvalues.size
    left = trace - float(eigenvalues.sum())
    if unseen <= 0 or left <= 1e-13 * trace:
        return Density(eigenvalues, np.ones_like(eigenvalues), n_samples)
    values = np.append(eigenvalues, left / unseen)
    return Density(values, np.append(np.ones_like(eigenvalues), unseen), n_samples)


@dataclass(frozen=True)
class Basis:
    """Orthonormal vectors as `rows @ rotation`; the rotation may be left out."""

    rows: Array
    rotation: Array | None = None

    def combine(self, coefficients: Array) -> Array:
        """The vectors summed with these coefficients: (k,) or (k, q) -> (n,) or (n, q)."""
        inner = coefficients if self.rotation is None else self.rotation @ coefficients
        return cast(Array, self.rows @ inner.astype(self.rows.dtype, copy=False))

    def coordinates(self, vectors: Array) -> Array:
        """Inner products of every basis vector with `vectors`: (n,) or (n, q) -> (k,) or (k, q)."""
        inner = (self.rows.T @ vectors.astype(self.rows.dtype, copy=False)).astype(np.float64)
        return cast(Array, inner if self.rotation is None else self.rotation.T @ inner)

    @cached_property
    def vectors(self) -> Array:
        """The vectors themselves, rotated once."""
        return self.rows if self.rotation is None else cast(Array, self.rows @ self.rotation)

    @cached_property
    def _squares(self) -> Array | None:
        """Squares of all entries, kept where they are small enough."""
        few = self.rows.shape[0] * self.width <= KEPT_ENTRIES
        return self.vectors.astype(np.float64, copy=False) ** 2 if few else None

    @property
    def width(self) -> int:
        """How many vectors there are."""
        return int((self.rows if self.rotation is None else self.rotation).shape[1])

    def squared(self, weights: Array) -> Array:
        """Sum over j of weights_j v_ij^2 for every row i: (k,) or (k, g) -> (n,) or (n, g)."""
        if self._squares is not None:
            return cast(Array, self._squares @ weights)
        out = np.empty((len(self.rows), *weights.shape[1:]))
        # Rows that are made anew in tiles may not fit in memory all at once.
        lazy = self.rotation is not None and not isinstance(self.rows, np.ndarray)
        for rows in row_tiles(len(self.rows), self.width):
            part = (self.rows[rows] @ self.rotation if lazy else self.vectors[rows]).astype(np.float64)
            out[rows] = (part * part) @ weights
        return out


@dataclass(frozen=True)
class Spectrum:
    """Leading eigenpairs of K, the trace, and what stands for the rest.

    `largest_bound` is never below lambda_1. `diagonal_left` is the diagonal of K minus its known part (for
    leverages). `converged` tells which pairs are eigenpairs to working precision.
    """

    eigenvalues: Array
    basis: Basis | None
    trace: float
    n_samples: float
    density: Density
    bound: Density
    largest_bound: float
    complete: bool = True
    replicas: tuple[Density, ...] = ()
    diagonal_left: Array | None = None
    converged: Array | None = None
    residuals: Array | None = None
    products: int = 0
    floor: Density | None = None
    """The other side of `bound`, where there is one: no concave sum is below it."""

    @property
    def rank(self) -> int:
        """How many eigenvalues are above zero."""
        return int(np.count_nonzero(self.eigenvalues > 0))


def known_spectrum(eigenvalues: Array, density: Density, largest_bound: float, basis: Basis | None = None) -> Spectrum:
    """Eigenvalues with one density for every sum over them and for the bound on it."""
    return Spectrum(eigenvalues, basis, density.trace, density.n_samples, density, density, largest_bound)
