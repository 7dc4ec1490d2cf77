"""K seen through landmarks: features whose inner products stand for the kernel, and sums of them that merge.

With landmarks L and k(L, L) = V S V' the features are phi(x) = k(x, L) V S^(-1/2), so that Phi Phi' is the Nystrom
matrix, never above the Gram matrix. Everything a path needs from n rows is then a handful of sums over rows
(`Moments`): they add, so rows may come in tiles, in batches, or from several machines, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.linalg

from stopwise._support.arrays import Array
from stopwise._support.memory import row_tiles
from stopwise.engine.landmarks.row_sample import RowSample, sample_rows
from stopwise.engine.spectrum.eigenpairs import clean_eigenvalues
from stopwise.kernels import Kernel, Precomputed, Rows, common_origin

_CUT = 4.0
"""Directions of k(L, L) below this many units of rounding of the largest are noise. No larger: a step sum of 10^6
still sees directions of 10^-15."""


@dataclass(frozen=True)
class Landmarks:
    """Points that stand for all rows, and the way from a row to its features.

    `projection` is V S^(-1/2) on the directions kept, (m, r); `inverse` its pseudo-inverse S^(1/2) V'.
    """

    kernel: Kernel
    points: Array
    projection: Array
    inverse: Array

    @property
    def rank(self) -> int:
        """How many features there are: the numerical rank of k(L, L)."""
        return int(self.projection.shape[1])

    @cached_property
    def _origin(self) -> Array:
        return common_origin(self.points)

    @cached_property
    def _prepared(self) -> Rows:
        return self.kernel.prepare(self.points, self._origin)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("kernel", "points", "projection", "inverse")}

    def features(self, covariates: Array, out: Array | None = None) -> Array:
        """phi(x) for every row x, (n, r); into the first rows of `out` where it is given."""
        rows = covariates.astype(self.points.dtype, copy=False)
        if rows.shape[1] != self.points.shape[1]:
            raise ValueError(f"landmarks need one column per feature, {rows.shape[1]}; got {self.points.shape[1]}")
        block = self.kernel.block(self.kernel.prepare(rows, self._origin), self._prepared)
        projection = self.projection.astype(block.dtype, copy=False)
        return np.matmul(block, projection, out=None if out is None else out[: len(rows)])

    def same_as(self, other: Landmarks) -> bool:
        """Whether sums made with the other's features may be added to sums made with these."""
        return (
            self.kernel == other.kernel
            and np.array_equal(self.points, other.points)
            and np.array_equal(self.projection, other.projection)
        )


def make_landmarks(kernel: Kernel, points: Array) -> Landmarks:
    """Landmarks at these points; a direction that rounding could have made is left out."""
    if isinstance(kernel, Precomputed):
        raise ValueError(
            "landmarks need a kernel that can be evaluated between any row and a landmark, and a precomputed matrix "
            'cannot: pass the kernel itself, or use solver="dense"'
        )
    kernel.check(points)
    vectors, root = gram_directions(kernel(points).astype(np.float64), float(np.finfo(points.dtype).eps))
    return Landmarks(kernel, points, vectors / root, (vectors * root).T)


def gram_directions(gram: Array, precision: float) -> tuple[Array, Array]:
    """Eigenvectors of a Gram matrix, which is overwritten, and the roots of their eigenvalues, beyond rounding."""
    values, vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
    values = clean_eigenvalues(values, precision)
    keep = values > _CUT * precision * values.max(initial=0.0)
    return vectors[:, keep], np.sqrt(values[keep])


@dataclass(frozen=True)
class Moments:
    """Sums over rows, each counted by its weight w, of all that a path needs: phi phi', phi y, phi, y, y^2, k(x, x).

    `weight` is the sum of the weights, `n_rows` how many rows and `n_observations` how many observations they came
    from. Responses are (q,) a row.
    """

    gram: Array
    cross: Array
    feature_sum: Array
    response_sum: Array
    response_square: Array
    diagonal_sum: float
    weight: float
    n_rows: int
    n_observations: float
    sample: RowSample | None = None
    """Some of the rows, for rules that judge a stop by single rows; None in files of the first version."""

    def __add__(self, other: Moments) -> Moments:
        """The moments of both sets of rows together."""
        names = (*_WEIGHTED, "n_rows", "n_observations")
        sample = None if self.sample is None or other.sample is None else self.sample + other.sample
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names}, sample=sample)

    def mapped(self, factor: Array, shift: Array) -> Moments:
        """The moments of factor * y + shift in place of y."""
        squares = self.response_square * factor**2 + 2 * factor * shift * self.response_sum + self.weight * shift**2
        return replace(
            self,
            cross=self.cross * factor + np.outer(self.feature_sum, shift),
            response_sum=self.response_sum * factor + self.weight * shift,
            response_square=squares,
            sample=None if self.sample is None else self.sample.mapped(factor, shift),
        )

    def of_mean_weight_one(self) -> Moments:
        """The moments with weights that add up to the number of observations."""
        by = self.n_observations / self.weight
        return self if abs(by - 1) <= 1e-12 else self.reweighted(by)

    def reweighted(self, by: float) -> Moments:
        """The moments with every weight multiplied."""
        sample = None if self.sample is None else self.sample.reweighted(by)
        return replace(self, **{name: getattr(self, name) * by for name in _WEIGHTED}, sample=sample)


_WEIGHTED = ("gram", "cross", "feature_sum", "response_sum", "response_square", "diagonal_sum", "weight")
"""The sums that weights multiply."""


def moments_of(
    landmarks: Landmarks,
    covariates: Array,
    responses: Array,
    weights: Array | None = None,
    counts: Array | None = None,
) -> Moments:
    """One pass over rows in tiles: responses (n, q), weights, and how many observations each row stands for.

    Without `counts` every row is one observation.
    """
    r, q, n = landmarks.rank, responses.shape[1], len(covariates)
    gram: Array = np.zeros((r, r), order="F")
    cross, feature_sum = np.zeros((r, q)), np.zeros(r)
    diagonal_sum, room = 0.0, None
    for rows in row_tiles(n, max(r, len(landmarks.points))):
        # One buffer for all tiles: workers hand memory back at once, and getting it anew costs a fifth of the pass.
        features, y = landmarks.features(covariates[rows], room), responses[rows]
        room = features if room is None else room
        diagonal = np.asarray(landmarks.kernel.diagonal(covariates[rows]), dtype=np.float64)
        w = None if weights is None else weights[rows]
        diagonal_sum += float(diagonal.sum() if w is None else w @ diagonal)
        cross += features.T @ (y if w is None else w[:, None] * y)
        feature_sum += features.sum(axis=0, dtype=np.float64) if w is None else features.T @ w
        if w is not None:
            features *= np.sqrt(w)[:, None].astype(features.dtype)
        gram = _add_gram(gram, features)
    gram = np.triu(gram) + np.triu(gram, 1).T
    counted = responses if weights is None else weights[:, None] * responses
    weight = float(n) if weights is None else float(weights.sum())
    counted_rows = n if weights is None else int(np.count_nonzero(weights))
    squares = np.asarray((counted * responses).sum(axis=0))
    seen = float(counted_rows if counts is None else counts.sum())
    sample = sample_rows(covariates, responses, weights, counts)
    sums = (gram, cross, feature_sum, counted.sum(axis=0), squares, diagonal_sum)
    return Moments(*sums, weight, counted_rows, seen, sample)


def _add_gram(total: Array, features: Array) -> Array:
    """total + features' features in the upper triangle (half the work of a full product)."""
    if features.dtype == np.float64:
        return cast(Array, scipy.linalg.blas.dsyrk(1.0, features.T, beta=1.0, c=total, overwrite_c=1))
    total += scipy.linalg.blas.ssyrk(1.0, features.T)
    return total


@dataclass(frozen=True)
class FeatureRows:
    """sqrt(w) (phi(x) - mean) for every training row, made anew a tile at a time whenever it is multiplied.

    It takes the place of an (n, r) matrix in a `Basis`, at the price of a pass over the rows for each use.
    """

    landmarks: Landmarks
    covariates: Array
    root_weights: Array | None
    mean: Array

    @property
    def dtype(self) -> Any:
        """Features are float64 whatever the kernel is computed in."""
        return np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.covariates), self.landmarks.rank

    def __len__(self) -> int:
        return len(self.covariates)

    def __getitem__(self, rows: slice) -> Array:
        features = self.landmarks.features(self.covariates[rows]).astype(np.float64, copy=False) - self.mean
        return features if self.root_weights is None else cast(Array, features * self.root_weights[rows, None])

    def part(self, rows: Array) -> FeatureRows:
        """Some of the rows, still to be made."""
        root = None if self.root_weights is None else self.root_weights[rows]
        return replace(self, covariates=self.covariates[rows], root_weights=root)

    def tiles(self) -> Iterator[slice]:
        return row_tiles(len(self), max(self.shape[1], len(self.landmarks.points)))

    def __matmul__(self, block: Array) -> Array:
        return np.concatenate([self[rows] @ block for rows in self.tiles()])

    @property
    def T(self) -> _Transposed:
        """The transpose, to multiply from the right."""
        return _Transposed(self)


@dataclass(frozen=True)
class _Transposed:
    rows: FeatureRows

    def __matmul__(self, block: Array) -> Array:
        return cast(Array, sum(self.rows[part].T @ block[part] for part in self.rows.tiles()))


@dataclass(frozen=True)
class Stream:
    """Everything a fit keeps of its rows: landmarks, their moments, and y = shift + unit * response."""

    landmarks: Landmarks
    moments: Moments
    shift: Array
    unit: Array
    intercept: bool
    seed: int = 0

    def in_given_weights(self, unit: float) -> Stream:
        """The same with weights as they were given, before they were multiplied by `unit`: rows may be added to it."""
        return self if unit == 1 else replace(self, moments=self.moments.reweighted(1 / unit))
