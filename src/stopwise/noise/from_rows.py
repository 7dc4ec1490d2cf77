"""Noise levels from the rows themselves: differences of neighbours, and residuals of a local mean.

Rows that share their covariates are never compared by chance: their spread about their own mean is pooled in, with its
degrees of freedom, and their mean stands for them elsewhere.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np
from scipy.spatial import cKDTree

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import at_least_zero, flag, is_finite, real_array
from stopwise._support.memory import row_tiles
from stopwise.copies import find_observations, standardised, within_range
from stopwise.kernels import Gaussian, as_matrix, take_rows
from stopwise.noise.estimator import Given, NoiseEstimator, Sample, sample_of
from stopwise.path import Path


@dataclass(frozen=True)
class _Groups:
    """Distinct covariates with the mean of their responses, their weight, and the spread within."""

    covariates: Array
    means: Array
    weights: Array
    within: Any
    spare: float
    """Degrees of freedom of the spread within ties."""


def _group(sample: Sample) -> _Groups:
    distinct, index = np.unique(sample.covariates, axis=0, return_inverse=True)
    index = index.reshape(-1)
    weights = np.bincount(index, weights=sample.weights)
    totals = np.zeros((weights.size, *sample.response.shape[1:]))
    np.add.at(totals, index, (sample.response.T * sample.weights).T)
    means = (totals.T / weights).T
    within = (((sample.response - means[index]) ** 2).T * sample.weights).T.sum(axis=0)
    return _Groups(distinct, means, weights, within, sample.n_observations - weights.size)


class FromRows(NoiseEstimator):
    """Estimators that look at rows; the response is scaled so that no magnitude overflows."""

    needs_rows: ClassVar[bool] = True
    least_rows: ClassVar[int] = 2

    @abstractmethod
    def variance(self, sample: Sample) -> Any:
        """The variance of the noise at weight one: a number for (n,), one for each column of (n, q)."""

    def _sample(self, X: Given, y: Given, weights: Array | None) -> Sample:
        if X is None or y is None:
            raise ValueError(f"the noise estimator {type(self).__name__} needs rows: give X and y")
        covariates, response = as_matrix(X).astype(np.float64), real_array(y, "y")
        if response.ndim != 1 or len(response) != len(covariates):
            raise ValueError(f"X and y must have one row each per sample; got {covariates.shape} and {response.shape}")
        if not (np.all(np.isfinite(covariates)) and np.all(np.isfinite(response))):
            raise ValueError("X and y must be finite: they hold NaN or infinity")
        if weights is not None:
            weights = at_least_zero(weights, "weights")
            if weights.shape != response.shape:
                raise ValueError(f"weights must have one entry per row, {len(response)}; got shape {weights.shape}")
        counted = len(response) if weights is None else int(np.count_nonzero(weights))
        if counted < self.least_rows:
            raise ValueError(f"{type(self).__name__} needs at least {self.least_rows} rows, got {counted}")
        found = find_observations(covariates, response[:, None], weights)
        rows = found.first
        return sample_of(covariates[rows], response[rows], found.weights, found.counts)

    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        assert sample is not None
        if sample.n_observations < self.least_rows:
            raise ValueError(
                f"{type(self).__name__} needs at least {self.least_rows} rows, got {sample.n_observations:g}"
            )
        size = float(np.abs(sample.response).max())
        if size == 0:
            return 0.0
        response = sample.response / size
        centred = replace(sample, response=response - np.average(response, weights=sample.weights))
        return size * math.sqrt(max(float(self.variance(centred)), 0.0))


def _squares(gaps: Array, spread: Array) -> Any:
    """The sum over rows of gap^2 / spread, for one response or for each of several."""
    return (gaps.T**2 / spread).T.sum(axis=0)


def _line(covariates: Array, name: str) -> None:
    if covariates.shape[1] != 1:
        raise ValueError(
            f"{name} orders rows along 1 covariate, got {covariates.shape[1]}: use NearestNeighbour() or Evidence()"
        )


@dataclass(frozen=True)
class Rice(FromRows):
    """sum (y_{i+1} - y_i)^2 / (2 (n - 1)) along the sorted covariate (Rice 1984)."""

    name: ClassVar[str] = "rice"

    def variance(self, sample: Sample) -> Any:
        _line(sample.covariates, "Rice")
        groups = _group(sample)
        spread = 1 / groups.weights[1:] + 1 / groups.weights[:-1]
        return (groups.within + _squares(np.diff(groups.means, axis=0), spread)) / (groups.spare + spread.size)


@dataclass(frozen=True)
class GasserSrokaJennen(FromRows):
    """Residuals from the line through both neighbours (Gasser, Sroka & Jennen-Steinmetz 1986)."""

    name: ClassVar[str] = "gsjs"
    least_rows: ClassVar[int] = 3

    def variance(self, sample: Sample) -> Any:
        _line(sample.covariates, "GasserSrokaJennen")
        groups = _group(sample)
        if len(groups.means) < 3:
            return Rice().variance(sample)
        x, y, m = groups.covariates[:, 0], groups.means, groups.weights
        a = (x[2:] - x[1:-1]) / (x[2:] - x[:-2])
        b = 1 - a
        gaps = (a * y[:-2].T + b * y[2:].T - y[1:-1].T).T
        spread = a**2 / m[:-2] + b**2 / m[2:] + 1 / m[1:-1]
        return (groups.within + _squares(gaps, spread)) / (groups.spare + spread.size)


@dataclass(frozen=True)
class HallMarron(FromRows):
    """|(I - A) y|^2 / (n - 2 tr A + |A|_F^2), A a Gaussian kernel smoother (Hall & Marron 1990).

    With weights w: sum w (y - Ay)^2 over n - 2 tr A + sum_ij w_i A_ij^2 / w_j, A weighing its neighbours by w.

    `bandwidth`: a number in the units of the covariates, or "auto", 1.06 sd n^(-1/(d+4)) for each.
    """

    bandwidth: float | Literal["auto"] = "auto"
    name: ClassVar[str] = "hall-marron"

    def __post_init__(self) -> None:
        named = isinstance(self.bandwidth, str) and self.bandwidth == "auto"
        if not named and not (is_finite(self.bandwidth) and cast(float, self.bandwidth) > 0):
            raise ValueError(f'bandwidth must be "auto" or positive and finite, got {self.bandwidth!r}')

    def variance(self, sample: Sample) -> Any:
        covariates, response, weights = sample.covariates, sample.response, sample.weights
        n, d = sample.n_observations, covariates.shape[1]
        if self.bandwidth == "auto":
            scaled = standardised(covariates, sample.counts) / (1.06 * n ** (-1 / (d + 4)))
        else:
            inside, reach = within_range(covariates)
            # Below 1e-100 of the range no two rows are near, however close; and no square overflows.
            scaled = inside / np.maximum(float(self.bandwidth) / reach, 1e-100)
        residual: Any = 0.0
        trace, squares = 0.0, 0.0
        gaussian = Gaussian()
        prepared = gaussian.prepare(scaled, scaled.mean(axis=0))
        for rows in row_tiles(len(weights), len(weights)):
            smoother = gaussian.block(take_rows(prepared, rows), prepared) * weights
            smoother /= smoother.sum(axis=1, keepdims=True)
            left_over = response[rows] - smoother @ response
            residual = residual + ((left_over**2).T * weights[rows]).T.sum(axis=0)
            trace += float(smoother[np.arange(len(smoother)), np.arange(len(weights))[rows]].sum())
            squares += float((weights[rows] @ smoother**2 / weights).sum())
        left = n - 2 * trace + squares
        if left <= 1e-8 * n:
            raise ValueError(
                f"HallMarron has no degrees of freedom left (n = {n:g}, {d} covariates): give a larger bandwidth, or "
                "use NearestNeighbour() or Evidence()"
            )
        return residual / left


@dataclass(frozen=True)
class NearestNeighbour(FromRows):
    """Half the mean squared difference to the nearest distinct neighbour, after a linear fit is taken out.

    Covariates are standardised first, so their units do not matter.
    """

    detrend: bool = True
    name: ClassVar[str] = "nearest-neighbour"

    def __post_init__(self) -> None:
        flag(self.detrend, "detrend")

    def variance(self, sample: Sample) -> Any:
        response, root, d = sample.response, np.sqrt(sample.weights), sample.covariates.shape[1]
        scaled = standardised(sample.covariates, sample.counts)
        if self.detrend and sample.n_observations > 3 * (d + 1):
            design = np.column_stack([np.ones(len(scaled)), scaled])
            slopes = np.linalg.lstsq(root[:, None] * design, (response.T * root).T, rcond=None)[0]
            response = response - design @ slopes
        groups = _group(replace(sample, covariates=scaled, response=response))
        if len(groups.means) == 1:
            return groups.within / groups.spare
        _, near = cKDTree(groups.covariates).query(groups.covariates, k=2)
        other = np.where(near[:, 0] == np.arange(len(near)), near[:, 1], near[:, 0])
        spread = 1 / groups.weights + 1 / groups.weights[other]
        return (groups.within + _squares(groups.means - groups.means[other], spread)) / (groups.spare + spread.size)


def noise_levels(estimator: NoiseEstimator, X: ArrayLike, responses: Array, path: Path) -> Array:
    """One estimate for each column of `responses` (n, q); at once where the estimator looks at rows.

    `path` is the path of the same responses; as everywhere, a standard deviation in the units of y.
    """
    if isinstance(estimator, FromRows):
        centred = responses - responses.mean(axis=0)
        return cast(Array, np.sqrt(np.maximum(estimator.variance(sample_of(as_matrix(X), centred)), 0.0)))
    columns = range(responses.shape[1])
    return np.array([estimator.estimate(X, responses[:, j], path=path.column(j)) for j in columns])
