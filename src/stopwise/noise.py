"""Noise-level estimators: how loud is the noise?

Each has `estimate(X, y, *, path=None)` and answers a standard deviation in the units of y. Some look at the rows, some
read a spectrum (they need `path`). Rows that share their covariates are never compared by chance: their spread about
their own mean is pooled in, with its degrees of freedom, and their mean stands for them elsewhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
from scipy.optimize import brentq
from scipy.spatial import cKDTree

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import at_least_zero, did_you_mean, flag, is_finite, is_number, real_array
from stopwise._support.memory import row_tiles
from stopwise._support.minimum import lowest_on_log_scale
from stopwise.copies import find_observations, standardised, within_range
from stopwise.filters import Ridge
from stopwise.kernels import Gaussian, Kernel, Matern, Sobolev, as_matrix, take_rows
from stopwise.path import Path

Given: TypeAlias = ArrayLike | None


class NoiseEstimator(ABC):
    """An estimate of the noise's standard deviation."""

    name: ClassVar[str]
    needs_path: ClassVar[bool] = False
    needs_pairs: ClassVar[bool] = False
    """Reads single eigenpairs, where others read sums over them."""
    needs_rows: ClassVar[bool] = False
    needs_sets: ClassVar[bool] = False
    """Reads rows that share noise, left out together (`stopwise.rules.left_out_blocks`)."""
    correlated: ClassVar[bool] = False
    """Whether neighbouring rows share noise, so that left-out rows say nothing of when to stop."""

    def kernel_for(self, given: Kernel | None) -> Kernel | None:
        """The kernel to use where one was given (None: "auto")."""
        return given

    def estimate(
        self, X: Given = None, y: Given = None, *, path: Path | None = None, weights: Array | None = None
    ) -> float:
        """The standard deviation of the noise, in the units of y."""
        return self.estimate_from(self._sample(X, y, weights), path)

    def _sample(self, X: Given, y: Given, weights: Array | None) -> Sample | None:
        """The observations in rows, for an estimator that looks at them."""
        return None

    @abstractmethod
    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        """The same from observations (one response), or from their path, as a solver has them."""


@dataclass(frozen=True)
class Known(NoiseEstimator):
    """A given standard deviation."""

    noise_std: float
    name: ClassVar[str] = "known"

    def __post_init__(self) -> None:
        if not (is_finite(self.noise_std) and self.noise_std > 0):
            raise ValueError(
                f"noise_std must be a positive, finite standard deviation, got {self.noise_std!r}: "
                'leave it "auto" to have it estimated'
            )

    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        return float(self.noise_std)


@dataclass(frozen=True)
class Sample:
    """Observations: covariates (n, d), a response (n,) or several (n, q), weights and how many each row stands for.

    Weights are relative precisions that add up to `n_observations`: the noise level is that of a row of weight one.
    """

    covariates: Array
    response: Array
    weights: Array
    counts: Array

    @property
    def n_observations(self) -> float:
        return float(self.counts.sum())


def sample_of(covariates: Array, response: Array, weights: Array | None = None, counts: Array | None = None) -> Sample:
    """Observations with weights and counts of one where none are given."""
    ones = np.ones(len(response))
    return Sample(covariates, response, ones if weights is None else weights, ones if counts is None else counts)


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


class _FromRows(NoiseEstimator):
    """Estimators that look at rows; the response is scaled so that no magnitude overflows."""

    needs_rows: ClassVar[bool] = True
    least_rows: ClassVar[int] = 2

    @abstractmethod
    def _variance(self, sample: Sample) -> Any:
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
        return size * math.sqrt(max(float(self._variance(centred)), 0.0))


def _squares(gaps: Array, spread: Array) -> Any:
    """The sum over rows of gap^2 / spread, for one response or for each of several."""
    return (gaps.T**2 / spread).T.sum(axis=0)


def _line(covariates: Array, name: str) -> None:
    if covariates.shape[1] != 1:
        raise ValueError(
            f"{name} orders rows along 1 covariate, got {covariates.shape[1]}: use NearestNeighbour() or Evidence()"
        )


@dataclass(frozen=True)
class Rice(_FromRows):
    """sum (y_{i+1} - y_i)^2 / (2 (n - 1)) along the sorted covariate (Rice 1984)."""

    name: ClassVar[str] = "rice"

    def _variance(self, sample: Sample) -> Any:
        _line(sample.covariates, "Rice")
        groups = _group(sample)
        spread = 1 / groups.weights[1:] + 1 / groups.weights[:-1]
        return (groups.within + _squares(np.diff(groups.means, axis=0), spread)) / (groups.spare + spread.size)


@dataclass(frozen=True)
class GasserSrokaJennen(_FromRows):
    """Residuals from the line through both neighbours (Gasser, Sroka & Jennen-Steinmetz 1986)."""

    name: ClassVar[str] = "gsjs"
    least_rows: ClassVar[int] = 3

    def _variance(self, sample: Sample) -> Any:
        _line(sample.covariates, "GasserSrokaJennen")
        groups = _group(sample)
        if len(groups.means) < 3:
            return Rice()._variance(sample)
        x, y, m = groups.covariates[:, 0], groups.means, groups.weights
        a = (x[2:] - x[1:-1]) / (x[2:] - x[:-2])
        b = 1 - a
        gaps = (a * y[:-2].T + b * y[2:].T - y[1:-1].T).T
        spread = a**2 / m[:-2] + b**2 / m[2:] + 1 / m[1:-1]
        return (groups.within + _squares(gaps, spread)) / (groups.spare + spread.size)


@dataclass(frozen=True)
class HallMarron(_FromRows):
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

    def _variance(self, sample: Sample) -> Any:
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
class NearestNeighbour(_FromRows):
    """Half the mean squared difference to the nearest distinct neighbour, after a linear fit is taken out.

    Covariates are standardised first, so their units do not matter.
    """

    detrend: bool = True
    name: ClassVar[str] = "nearest-neighbour"

    def __post_init__(self) -> None:
        flag(self.detrend, "detrend")

    def _variance(self, sample: Sample) -> Any:
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


class _FromPath(NoiseEstimator):
    """Estimators that read a spectrum."""

    needs_path: ClassVar[bool] = True

    @abstractmethod
    def _path_variance(self, path: Path) -> float:
        """The variance of the noise of one response, problem units."""

    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        if path is None:
            raise ValueError(f"the noise estimator {type(self).__name__} reads a spectrum: give path=")
        if not isinstance(path, Path):
            raise TypeError(f"path must be a path, such as model.path_; got {path!r}")
        if path.coefficients.ndim != 1:
            raise ValueError("the noise level is estimated for one response at a time: give path.column(j)")
        return float(path.scale) * math.sqrt(max(self._path_variance(path), 0.0))


@dataclass(frozen=True)
class SpectralTail(_FromPath):
    """The mean of ytilde_j^2 beyond the k leading eigenvectors; its bias is at most n lambda_{k+1} R^2 / (n - k).

    `leading` (k) is half the sample by default, or as many as the spectrum is sure of.
    """

    leading: int | Literal["auto"] = "auto"
    name: ClassVar[str] = "spectral-tail"
    needs_pairs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        named = isinstance(self.leading, str) and self.leading == "auto"
        if not named and not (is_number(self.leading) and isinstance(self.leading, Integral) and self.leading >= 0):
            raise ValueError(f'leading must be "auto" or a whole number of at least 0, got {self.leading!r}')

    def _path_variance(self, path: Path) -> float:
        sure = path.spectrum.rank  # beyond it every direction is noise, and which comes first is chance
        if path.spectrum.converged is not None:
            sure = min(sure, int(np.argmin(np.append(path.spectrum.converged, False))))
        wanted = int(path.n_samples // 2) if self.leading == "auto" else int(self.leading)
        if not 0 <= wanted < path.n_samples - path.n_fixed:
            raise ValueError(f"leading must lie between 0 and n - 1 = {path.n_samples - 1:g}, got {wanted}")
        k = min(wanted, sure)
        tail = float(path.energy - (path.coefficients[:k] ** 2).sum())
        return tail / (path.n_samples - k - path.n_fixed)


def _lowest(path: Path, function: Callable[[ArrayLike], Array]) -> float:
    """Where a function of the clock, zero included, is smallest."""
    if path.step_sum_cap == 0:
        return 0.0
    grid = np.append(0.0, np.geomspace(1e-3 / path.spectrum.largest_bound, path.step_sum_cap, 80))
    return lowest_on_log_scale(grid, function(grid), lambda at: float(function(at)))[0]


@dataclass(frozen=True)
class ResidualGCV(_FromPath):
    """The residual of the ridge fit that GCV chooses: RSS / (n - df)."""

    name: ClassVar[str] = "gcv"

    def _path_variance(self, path: Path) -> float:
        ridge = path.along(Ridge())
        at = _lowest(ridge, ridge.gcv)
        free = ridge.n_samples - float(ridge.degrees_of_freedom(at)) - ridge.n_fixed
        return ridge.n_samples * float(ridge.mean_squared_residual(at)) / max(free, 1e-8 * ridge.n_samples)


@dataclass(frozen=True)
class Evidence(_FromPath):
    """Marginal likelihood: y ~ N(0, s^2 (I + q K)), s profiled out (an intercept costs one degree).

    q maximises the likelihood times the share of noise in the variance of a row, 1 / (1 + q tr K / n). Where few rows
    lie near each other, they hardly tell noise from a curve that turns between any two of them: the likelihoods of all
    noise and of none then differ by chance, and the share takes the louder of two noises that rows cannot tell apart.
    """

    name: ClassVar[str] = "evidence"

    def _path_variance(self, path: Path) -> float:
        diagonal = path.spectrum.trace / path.n_samples

        def score(ratio: ArrayLike) -> Array:
            return cast(Array, path.evidence(ratio) - 2 * np.log(noise_share(np.asarray(ratio), diagonal)))

        def slope(log: float) -> float:
            ratio = math.exp(log)
            return path.evidence_slope(ratio) + 2 * (1 - float(noise_share(np.asarray(ratio), diagonal)))

        nothing = path.spectrum.largest_bound == 0 or float(path.energy) == 0
        best = 0.0 if nothing else _lowest(path, score)
        if best > 0:
            ends = [math.log(best) + side * _NEARBY for side in (-1, 1)]
            if slope(ends[0]) < 0 < slope(ends[1]):
                best = math.exp(brentq(slope, *ends, xtol=1e-14))
        return float(path.profiled_variance(best))


_NEARBY = 1e-4
"""On either side of where a function's values are smallest, in logarithms: between, its slope tells more digits."""


def noise_share(ratio: Array, mean_diagonal: float) -> Array:
    """The share of noise in the variance of a row where y ~ N(0, s^2 (I + q K)): 1 / (1 + q tr K / n)."""
    return cast(Array, 1 / (1 + ratio * mean_diagonal))


@dataclass(frozen=True)
class AR1(NoiseEstimator):
    """Noise that neighbours along one covariate share: correlation exp(-gap / length), AR(1) on an even design.

    Length, level and stop maximise the likelihood of curve plus noise, exactly, in O(n). `noise_std_` is the level of
    independent noise that would blur the curve as much: the standard deviation times sqrt((1 + rho) / (1 - rho)), rho
    the correlation of neighbours. A curve must be smoother than such noise to be told from it; noise shared over more
    than a twentieth of the covariate's range counts as curve.
    """

    name: ClassVar[str] = "ar1"
    correlated: ClassVar[bool] = True

    def kernel_for(self, given: Kernel | None) -> Kernel | None:
        if given is None:
            return Sobolev(2, interval="auto")
        if given.needs_scale:
            raise ValueError(
                f"noise_std=AR1() needs the length scale of {given.name} as a number: it is not chosen from rows that "
                'share noise; or leave kernel="auto", a cubic spline'
            )
        smooth = (isinstance(given, Sobolev) and given.order == 2) or (
            isinstance(given, Matern) and given.smoothness > 1
        )
        if not smooth:
            raise ValueError(
                "noise_std=AR1() goes with the kernels sobolev2, matern32 and matern52 on one covariate, got "
                f"{given.name}: a rougher curve cannot be told from noise that neighbours share"
            )
        return given

    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        raise ValueError(
            'noise_std=AR1() is estimated along one covariate together with the stop: use solver="line" (or "auto") '
            'and rule="auto" or Fixed(...)'
        )


@dataclass(frozen=True)
class LeftOutTogether(NoiseEstimator):
    """Noise that rows of a group or block share, from groups or blocks left out whole.

    What `noise_std="auto"` is where `fit` is given `groups`, or `LeaveBlockOut` a size: the standard deviation of one
    row's noise, its own and what it shares with others. Estimates that take rows as independent count that as signal.
    """

    name: ClassVar[str] = "left-out-together"
    needs_sets: ClassVar[bool] = True

    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        raise ValueError(
            "noise_std=LeftOutTogether() needs rows that belong together: fit(..., groups=), or "
            "rule=LeaveBlockOut(size)"
        )


_ALL = (HallMarron, Rice, GasserSrokaJennen, NearestNeighbour, SpectralTail, ResidualGCV, Evidence)
_NAMED: Mapping[str, NoiseEstimator] = {cls.name: cls() for cls in _ALL} | {"auto": Evidence()}
"""Estimators by the names that `noise_std=` takes."""


def noise_levels(estimator: NoiseEstimator, X: ArrayLike, responses: Array, path: Path) -> Array:
    """One estimate for each column of `responses` (n, q); at once where the estimator looks at rows.

    `path` is the path of the same responses; as everywhere, a standard deviation in the units of y.
    """
    if isinstance(estimator, _FromRows):
        centred = responses - responses.mean(axis=0)
        return cast(Array, np.sqrt(np.maximum(estimator._variance(sample_of(as_matrix(X), centred)), 0.0)))
    columns = range(responses.shape[1])
    return np.array([estimator.estimate(X, responses[:, j], path=path.column(j)) for j in columns])


def as_noise(noise_std: object) -> NoiseEstimator:
    """A noise estimator from an instance, a name, or a number (known)."""
    if isinstance(noise_std, NoiseEstimator):
        return noise_std
    if isinstance(noise_std, str):
        if noise_std in _NAMED:
            return _NAMED[noise_std]
        names = ", ".join(f'"{name}"' for name in _NAMED)
        got = f"{noise_std!r}{did_you_mean(noise_std, _NAMED)}"
        raise ValueError(f"noise_std must be a positive number, one of {names}, or a sw.noise instance; got {got}")
    if is_number(noise_std):
        return Known(noise_std)
    raise TypeError(f"noise_std must be a number, a name or a sw.noise instance; got {type(noise_std).__name__}")
