"""How far the truth may be from the estimate at a new row, in units of the noise variance of a row of weight one.

Ridge at inverse penalty eta is the mean of a Gaussian process with prior covariance (eta / n) k and unit noise; its
variance at x is the prior's less what the rows tell of it: small among the data, the prior's away from them. What is
left free (a constant, a linear part) has columns t that are orthonormal over the rows: the kernel is taken less what
they make up for, and they add |t(x)|^2. All filters share the clock eta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, cast

import numpy as np
import scipy.linalg

from stopwise._support.arrays import Array
from stopwise._support.memory import row_tiles
from stopwise.engine.line.predictions import variance_at
from stopwise.engine.line.transitions import StateSpace
from stopwise.estimators.prediction.host import CrossKernel, predict_in_tiles
from stopwise.kernels import Kernel, Precomputed
from stopwise.problem import Trend

_UNSEEN = 1e-4
"""A direction with step_sum x eigenvalue below this is nearly all prior."""


class Variance(Protocol):
    """The estimate's variance at any row."""

    def variance(self, new: Array, step_sums: Array) -> Array:
        """Var f(x) / noise variance at each new row and each clock reading, (m, q)."""


@dataclass(frozen=True)
class Free:
    """What is left unpenalised: nothing, a constant, or a constant and linear part."""

    intercept: bool
    trend: Trend | None
    total: float
    """The weights' sum over the rows that the columns are orthonormal over."""

    def at(self, covariates: Array) -> Array:
        """t at some rows, (m, p)."""
        if self.trend is not None:
            return self.trend.at(covariates)
        return np.full((len(covariates), int(self.intercept)), self.total**-0.5)


@dataclass(frozen=True)
class Posterior:
    """The variance at any row, from the eigenpairs of D K D / m over rows of m observations that stand for all n.

    `vectors` (rows, k) and `eigenvalues` are of the weighted matrix less what is free; `diagonal` stands for k(x, x) of
    a precomputed kernel, and `columns` say which of all training rows these are.
    """

    kernel: Kernel
    rows: Array
    root_weights: Array
    eigenvalues: Array
    vectors: Array
    free: Free
    n_observations: float
    diagonal: float = 0.0
    columns: Array | None = None

    def variance(self, new: Array, step_sums: Array) -> Array:
        """Var f(x) / noise variance at each new row and each clock reading, (m, q); nothing of size m x rows."""
        out = np.empty((len(new), len(step_sums)))
        for part, prior, image, columns in self._tiles(new):
            free = (columns**2).sum(axis=1) * (self.free.total / self.n_observations)
            out[part] = self._left(prior, image**2, step_sums) + free[:, None]
        return out

    def images(self, new: Array) -> tuple[Array, Array]:
        """k between new rows and the eigenvectors, less what is free, (m, k), and the free columns there, (m, p)."""
        tiles = [(image, columns) for _, _, image, columns in self._tiles(new)]
        return np.vstack([image for image, _ in tiles]), np.vstack([columns for _, columns in tiles])

    def visible(self, step_sums: Array) -> Posterior:
        """The same less the directions that these readings leave to the prior within a share of 1e-4 of it."""
        kept = self.eigenvalues * step_sums.max(initial=0.0) > _UNSEEN
        return replace(self, eigenvalues=self.eigenvalues[kept], vectors=self.vectors[:, kept])

    def _tiles(self, new: Array) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Some of the new rows at a time: which, k(x, x) and k in the eigenvectors less what is free, and t(x)."""
        cross = CrossKernel(self.kernel, new if self.columns is None else new[:, self.columns], self.rows)
        weighted, square, seen, own, rest = self._small_parts
        for part in row_tiles(*cross.shape):
            block, prior = cross.tile(part).astype(np.float64, copy=False), self._diagonal(new[part])
            columns, image = self.free.at(new[part]), block @ weighted
            prior = prior - 2 * (columns * image).sum(axis=1) + ((columns @ square) * columns).sum(axis=1)
            yield part, prior, block @ seen - columns @ rest - image @ own, columns

    @cached_property
    def _small_parts(self) -> tuple[Array, Array, Array, Array, Array]:
        """W t, t'W K W t, sqrt(W) V, t' sqrt(W) V and (K W t - t t'W K W t)' sqrt(W) V over the rows."""
        own = self.free.at(self.rows)
        weighted, seen = self.root_weights[:, None] ** 2 * own, self.root_weights[:, None] * self.vectors
        if not weighted.shape[1]:
            return weighted, np.zeros((0, 0)), seen, own.T @ seen, own.T @ seen
        images = predict_in_tiles(self.kernel, self.rows, self.rows, weighted)
        square = weighted.T @ images
        return weighted, square, seen, own.T @ seen, (images - own @ square).T @ seen

    def _diagonal(self, new: Array) -> Array:
        if isinstance(self.kernel, Precomputed):
            return np.full(len(new), self.diagonal)
        return np.asarray(self.kernel.diagonal(new), dtype=np.float64)

    def _left(self, prior: Array, seen: Array, step_sums: Array) -> Array:
        """(eta / n) (k(x, x) - sum_j c_j^2 / (m lambda_j + m / eta)), never negative."""
        known = step_sums / (self.free.total * (1 + np.outer(self.eigenvalues, step_sums)))
        return cast(Array, step_sums / self.n_observations * np.maximum(prior[:, None] - seen @ known, 0.0))


@dataclass(frozen=True)
class LinePosterior:
    """The same on a line, exact from all rows in O(n + m)."""

    space: StateSpace
    rows: Array
    weights: Array
    intercept: bool

    def variance(self, new: Array, step_sums: Array) -> Array:
        """As of `Posterior`."""
        with np.errstate(divide="ignore"):
            penalties = float(self.weights.sum()) / step_sums
        places = self.rows[:, 0], self.weights, penalties, new[:, 0]
        return variance_at(self.space, *places, intercept=self.intercept)


def posterior_of_rows(
    kernel: Kernel, rows: Array, weights: Array, free: Free, n_observations: float, columns: Array | None = None
) -> Posterior:
    """The posterior from some rows, decomposed anew; weights add up to the observations among them.

    Of a precomputed kernel `rows` are the matrix between them, and `columns` say which of all rows they are.
    """
    gram = (rows if isinstance(kernel, Precomputed) else kernel(rows)).astype(np.float64)
    root, total = np.sqrt(weights), float(weights.sum())
    fixed = root[:, None] * free.at(rows)
    matrix = gram * root[:, None] * (root / total)
    matrix = matrix - fixed @ (fixed.T @ matrix)
    matrix = matrix - (matrix @ fixed) @ fixed.T
    values, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2, check_finite=False, driver="evd")
    diagonal = float(np.diagonal(rows).mean()) if isinstance(kernel, Precomputed) else 0.0
    return Posterior(kernel, rows, root, np.maximum(values, 0.0), vectors, free, n_observations, diagonal, columns)
