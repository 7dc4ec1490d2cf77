"""How far the truth may be from the estimate at a new row, in units of the noise variance of a row of weight one.

Ridge at inverse penalty eta is the mean of a Gaussian process with prior covariance (eta / n) k and unit noise; its
variance at x is the prior's less what the rows tell of it: small among the data, the prior's away from them. What is
left free (a constant, a linear part) has columns t that are orthonormal over the rows: the kernel is taken less what
they make up for, and they add |t(x)|^2. All filters share the clock eta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

import numpy as np
import scipy.linalg

from stopwise._support.arrays import Array
from stopwise.engine.landmarks.features import FeatureRows
from stopwise.engine.line.repeated_solves import variance_at
from stopwise.engine.line.transitions import StateSpace
from stopwise.estimators.prediction.host import predict_in_tiles, reduce_in_tiles
from stopwise.kernels import Kernel, Precomputed
from stopwise.problem import Trend
from stopwise.spectrum import Spectrum

_UNSEEN = 1e-4
"""Share of the mean variance over the rows that directions left out may change."""
DIRECTIONS = 32
"""Leading eigenvectors that a variance through landmarks is made from. A value of the kernel takes as long as 30 to 100
multiplications, so that the variance takes about the time of a prediction, however many landmarks there are."""


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

    K is the matrix less what is free. With t the free columns of the m rows and V the eigenvectors, k(x, rows) @ `seen`
    - t(x)' `rest` is the kernel between x and V less what is free, and k(x, rows) @ `weighted` that between x and t;
    `square` is t'K t. `diagonal` stands for k(x, x) of a precomputed kernel, and `columns` say which of all training
    rows these are. `faint` are eigenvalues of directions that were left out, and `unseen` the mean over the rows of
    what no direction sees of k(x, x).
    """

    kernel: Kernel
    rows: Array
    eigenvalues: Array
    seen: Array
    rest: Array
    weighted: Array
    square: Array
    free: Free
    n_observations: float
    diagonal: float = 0.0
    columns: Array | None = None
    faint: Array = field(default_factory=lambda: np.zeros(0))
    unseen: float = 0.0

    def variance(self, new: Array, step_sums: Array) -> Array:
        """Var f(x) / noise variance at each new row and each clock reading, (m, q); nothing of size m x rows."""
        return self.beside(np.zeros((len(self.rows), 0)), new, step_sums)[1]

    def beside(self, dual_coef: Array, new: Array, step_sums: Array, n_jobs: Any = None) -> tuple[Array, Array]:
        """k(new, rows) @ dual_coef and the variance, each tile of the kernel made once for both."""
        split, scale = dual_coef.shape[1], self.free.total / self.n_observations
        out = np.empty((len(new), split + len(step_sums)))

        @np.errstate(over="ignore", invalid="ignore")  # far away a variance is infinite, and intervals are refused
        def reduce(part: slice, product: Array) -> Array:
            prior, image, columns = self._less_free(new[part], product[:, split:])
            free = (columns**2).sum(axis=1) * scale
            return np.hstack([product[:, :split], self._left(prior, image**2, step_sums) + free[:, None]])

        weights = np.hstack([dual_coef, self.weighted, self.seen])
        reduce_in_tiles(self.kernel, self._known(new), self.rows, weights, reduce, out, n_jobs=n_jobs)
        return out[:, :split], out[:, split:]

    def images(self, new: Array) -> tuple[Array, Array]:
        """k between new rows and the eigenvectors, less what is free, (m, k), and the free columns there, (m, p)."""
        product = predict_in_tiles(self.kernel, self._known(new), self.rows, np.hstack([self.weighted, self.seen]))
        return self._less_free(new, product)[1:]

    def visible(self, step_sums: Array) -> Posterior:
        """The same less directions that rows cannot show (`visible_directions`)."""
        kept = np.sort(visible_directions(self.eigenvalues, step_sums))
        return replace(self, eigenvalues=self.eigenvalues[kept], seen=self.seen[:, kept], rest=self.rest[:, kept])

    def _known(self, new: Array) -> Array:
        """New rows as the kernel takes them: of a precomputed matrix the columns of these rows."""
        return new if self.columns is None else new[:, self.columns]

    def _less_free(self, new: Array, product: Array) -> tuple[Array, Array, Array]:
        """k(x, x) and k in the eigenvectors less what is free, and t(x), from k(x, rows) @ [weighted, seen]."""
        columns, p = self.free.at(new), self.weighted.shape[1]
        prior = self._diagonal(new) - 2 * (columns * product[:, :p]).sum(axis=1)
        return prior + ((columns @ self.square) * columns).sum(axis=1), product[:, p:] - columns @ self.rest, columns

    def _diagonal(self, new: Array) -> Array:
        if isinstance(self.kernel, Precomputed):
            return np.full(len(new), self.diagonal)
        return np.asarray(self.kernel.diagonal(new), dtype=np.float64)

    def _left(self, prior: Array, seen: Array, step_sums: Array) -> Array:
        """(eta / n) (k(x, x) - sum_j c_j^2 / (m lambda_j + m / eta)), never negative."""
        known = step_sums / (self.free.total * (1 + np.outer(self.eigenvalues, step_sums)))
        told = seen @ known + self._told_faintly(prior, seen, step_sums)
        return cast(Array, step_sums / self.n_observations * np.maximum(prior[:, None] - told, 0.0))

    def _told_faintly(self, prior: Array, seen: Array, step_sums: Array) -> Array | float:
        """What faint directions tell of k(x, x), (m, q): as much as in the mean over the rows.

        They share what the others leave of k(x, x): in the mean the part sum_j l_j (eta l_j / (1 + eta l_j)) over
        sum_j l_j and what is unseen. Where the others see less of k(x, x) than in the mean, so do they, and nothing
        away from the data.
        """
        if not self.faint.size:
            return 0.0
        left, strong = float(self.faint.sum()) + self.unseen, float(self.eigenvalues.sum())
        grown = np.outer(step_sums, self.faint)
        part = (grown / (1 + grown)) @ self.faint / left
        seen_part = seen @ (1 / (self.free.total * self.eigenvalues)) / np.maximum(prior, np.finfo(float).tiny)
        near = np.minimum(seen_part * ((strong + left) / strong), 1.0)
        return np.outer(prior * np.maximum(1 - seen_part, 0.0) * near, part)


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


def posterior_of_pairs(
    kernel: Kernel,
    rows: Array,
    weights: Array,
    pairs: tuple[Array, Array],
    free: Free,
    n_observations: float,
    columns: Array | None = None,
) -> Posterior:
    """The posterior from eigenvalues and eigenvectors over some rows; weights add up to the observations among them."""
    (values, vectors), own, root = pairs, free.at(rows), np.sqrt(weights)[:, None]
    weighted, seen = root**2 * own, root * vectors
    images = predict_in_tiles(kernel, rows, rows, weighted) if own.shape[1] else weighted
    square = weighted.T @ images
    rest = (images - own @ square).T @ seen
    diagonal = float(np.diagonal(rows).mean()) if isinstance(kernel, Precomputed) else 0.0
    seen = seen - weighted @ (own.T @ seen)
    return Posterior(kernel, rows, values, seen, rest, weighted, square, free, n_observations, diagonal, columns)


def posterior_of_rows(
    kernel: Kernel, rows: Array, weights: Array, free: Free, n_observations: float, columns: Array | None = None
) -> Posterior:
    """The same, decomposed anew.

    Of a precomputed kernel `rows` are the matrix between them, and `columns` say which of all rows they are.
    """
    gram = (rows if isinstance(kernel, Precomputed) else kernel(rows)).astype(np.float64)
    root, total = np.sqrt(weights), float(weights.sum())
    fixed = root[:, None] * free.at(rows)
    matrix = gram * root[:, None] * (root / total)
    matrix = matrix - fixed @ (fixed.T @ matrix)
    matrix = matrix - (matrix @ fixed) @ fixed.T
    values, vectors = scipy.linalg.eigh((matrix + matrix.T) / 2, check_finite=False, driver="evd")
    return posterior_of_pairs(kernel, rows, weights, (np.maximum(values, 0.0), vectors), free, n_observations, columns)


def visible_directions(eigenvalues: Array, step_sums: Array) -> Array:
    """All but the faintest directions, which together change the mean variance over the rows by 1e-4 of it.

    A direction of eigenvalue l adds (eta l)^2 / (1 + eta l) to the sum of variances over the rows if left to the prior,
    and eta l / (1 + eta l) if not. The strongest come last.
    """
    grown = eigenvalues * step_sums.max(initial=0.0)
    order = np.argsort(grown, kind="stable")
    gains = grown / (1 + grown)
    return cast(Array, order[np.cumsum((grown * gains)[order]) > _UNSEEN * gains.sum()])


def posterior_of_landmarks(
    features: FeatureRows, rotation: Array, spectrum: Spectrum, free: Free, step_sums: Array | None = None
) -> Posterior:
    """The posterior of all rows seen through landmarks; what these do not see of k(x, x) is left to the prior.

    From all directions, or at clock readings from the leading `DIRECTIONS` of those that rows can show there.

    With phi(x) = k(x, L) P the features and `rotation` W / sqrt(n lambda), an eigenvector's value at a row is
    sqrt(w) (phi - mean)' W / sqrt(n lambda), so that k in the eigenvectors is n lambda times that without sqrt(w).
    """
    landmarks, mean, values = features.landmarks, features.mean, spectrum.eigenvalues
    order = np.arange(len(values)) if step_sums is None else visible_directions(values, step_sums)
    faint, kept = (order[:0], order) if step_sums is None else (order[:-DIRECTIONS], np.sort(order[-DIRECTIONS:]))
    grown = rotation[:, kept] * (free.total * values[kept])
    constant = np.full(int(free.intercept), math.sqrt(free.total))
    weighted = np.outer(landmarks.projection @ mean, constant)
    return Posterior(
        landmarks.kernel,
        landmarks.points,
        values[kept],
        landmarks.projection @ grown,
        np.outer(constant, mean @ grown),
        weighted,
        float(mean @ mean) * np.outer(constant, constant),
        free,
        free.total,
        faint=values[faint],
        unseen=max(spectrum.trace - float(values.sum()), 0.0),
    )
