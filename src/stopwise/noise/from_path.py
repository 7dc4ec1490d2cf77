"""Noise levels read off a path: its spectrum's tail, the residual that GCV leaves, or the marginal likelihood."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, Literal, cast

import numpy as np
from scipy.optimize import brentq

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import is_number
from stopwise._support.minimum import lowest_on_log_scale
from stopwise.filters import Ridge
from stopwise.noise.estimator import NoiseEstimator, Sample
from stopwise.noise.marginal_likelihood import evidence, evidence_slope, noise_share, profiled_variance
from stopwise.path import Path


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
            return cast(Array, evidence(path, ratio) - 2 * np.log(noise_share(np.asarray(ratio), diagonal)))

        def slope(log: float) -> float:
            ratio = math.exp(log)
            return evidence_slope(path, ratio) + 2 * (1 - float(noise_share(np.asarray(ratio), diagonal)))

        nothing = path.spectrum.largest_bound == 0 or float(path.energy) == 0
        best = 0.0 if nothing else _lowest(path, score)
        if best > 0:
            ends = [math.log(best) + side * _NEARBY for side in (-1, 1)]
            if slope(ends[0]) < 0 < slope(ends[1]):
                best = math.exp(brentq(slope, *ends, xtol=1e-14))
        return float(profiled_variance(path, best))


_NEARBY = 1e-4
"""On either side of where a function's values are smallest, in logarithms: between, its slope tells more digits."""
