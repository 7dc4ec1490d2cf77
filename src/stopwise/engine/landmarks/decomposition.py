"""What sums over landmark features say about the eigenvalues, and how sure we are.

The Nystrom matrix never exceeds K, so its eigenvalues mu_j are at most lambda_j; the trace of K is known. Between
them lie all spectra that K can have: sum_j min(lambda_j, r) is at most min(n r, trace - sum_j (mu_j - r)+), reached by
filling the smallest mu_j up to one level, and at least what putting all that is missing on the first gives.
Critical with radius and noise given reads the first, so it never stops later than on K itself; both together are the
bracket. The estimate itself is the one of the Nystrom kernel, whose eigenvalues are all known: rules that judge it
from the responses read those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy.linalg

from stopwise._support.arrays import Array
from stopwise.engine.landmarks.features import FeatureRows, Landmarks, Moments
from stopwise.filters import Filter
from stopwise.path import Path
from stopwise.rules import Data, Rule, Stop
from stopwise.spectrum import Basis, Density, Spectrum

_ROUNDING = 1e-12
"""A share of the trace below which what is missing is rounding."""


def filled_density(eigenvalues: Array, trace: float, n_samples: float) -> Density:
    """The spectrum of largest complexity with lambda_j >= the given values and this trace.

    The smallest (unseen ones at zero included) are raised to a common level. `spread_density`, which leaves the seen
    ones alone, is the same where the level lies below them; Nystrom values are no Ritz values, so only this one is
    safe where it does not.
    """
    values = eigenvalues[eigenvalues > 0]
    left = trace - float(values.sum())
    if left <= _ROUNDING * trace:
        return Density(values, np.ones_like(values), n_samples)
    # With the k largest kept, the level is (trace - their sum) / (n - k); the right k is the first whose next value
    # lies at or below it.
    kept = np.arange(values.size + 1)
    rest = trace - np.append(0.0, np.cumsum(values))
    levels = rest / np.maximum(n_samples - kept, 1e-300)
    following = np.append(values, 0.0)
    fits = (following <= levels) & (n_samples - kept > 0)
    k = int(np.argmax(fits)) if fits.any() else values.size
    if n_samples - k <= 0:
        return concentrated_density(values, trace, n_samples)
    return Density(np.append(values[:k], levels[k]), np.append(np.ones(k), n_samples - k), n_samples)


def concentrated_density(eigenvalues: Array, trace: float, n_samples: float) -> Density:
    """The spectrum of least complexity with lambda_j >= the given values and this trace: the rest on the first."""
    values = eigenvalues[eigenvalues > 0]
    if not values.size:
        values = np.zeros(1)
    left = max(trace - float(values.sum()), 0.0)
    if left > _ROUNDING * trace:
        values = np.append(values[0] + left, values[1:])
    return Density(values, np.ones_like(values), n_samples)


@dataclass(frozen=True)
class Decomposition:
    """The eigenpairs of the Nystrom matrix from moments: `spectrum`, the `rotation` W of features, their `mean`.

    `cross` is W' Phi' y (centred if there is an intercept), `energy` the responses' sum of squares.
    """

    spectrum: Spectrum
    rotation: Array
    mean: Array
    cross: Array
    energy: Array
    most: Density
    least: Density

    @property
    def captured(self) -> float:
        """The share of the trace that the landmarks see."""
        trace = self.spectrum.trace
        return min(float(self.spectrum.eigenvalues.sum()) / trace, 1.0) if trace > 0 else 1.0

    @property
    def row_rotation(self) -> Array:
        """W / sqrt(n lambda): from (centred, weighted) features of rows to eigenvectors."""
        return cast(Array, self.rotation / np.sqrt(self.spectrum.n_samples * self.spectrum.eigenvalues))

    def with_rows(self, rows: FeatureRows) -> Decomposition:
        """The same with eigenvectors by row, made again from the rows at each use."""
        basis = Basis(cast(Array, rows), self.row_rotation)
        return replace(self, spectrum=replace(self.spectrum, basis=basis))

    def path(self, filter: Filter, **settings: Any) -> Path:
        """The path of all responses; coordinates are Lambda^(-1/2) W' Phi'y / sqrt n."""
        spectrum = self.spectrum
        root = np.sqrt(spectrum.n_samples * spectrum.eigenvalues)
        coefficients = self.cross / root[:, None]
        return Path(spectrum, filter.bind(spectrum.largest_bound), coefficients, self.energy, **settings)

    def feature_weights(self, filter: Filter, step_sums: Array) -> Array:
        """theta with f(x) = (phi(x) - mean)' theta at one stop per response, (r, q), problem units."""
        weight = filter.weight(self.spectrum.eigenvalues, step_sums).T
        return cast(Array, self.rotation @ (weight * self.cross) / self.spectrum.n_samples)

    def spread(self, landmarks: Landmarks, filter: Filter, step_sums: Array, intercept: bool) -> Spread:
        """Variances of predictions at one stop per response."""
        values, n = self.spectrum.eigenvalues, self.spectrum.n_samples
        factors = (filter.weight(values, step_sums) * np.sqrt(values / n)).T
        return Spread(landmarks, self.mean, self.rotation, factors, 1 / n if intercept else 0.0)


@dataclass(frozen=True)
class Spread:
    """The variance of the estimate at any point, in units of the noise variance.

    f(x) is (phi(x) - mean)' W g(Lambda) W' Phi'y / n, so its variance is sum_j g_j^2 lambda_j (w_j'(phi(x) - mean))^2
    / n, and 1/n more for an intercept. `factors` are g_j sqrt(lambda_j / n), a column per response.
    """

    landmarks: Landmarks
    mean: Array
    rotation: Array
    factors: Array
    constant: float

    def variance(self, covariates: Array) -> Array:
        """One column per response."""
        features = FeatureRows(self.landmarks, covariates, None, self.mean)
        out = np.empty((len(covariates), self.factors.shape[1]))
        for rows in features.tiles():
            out[rows] = (features[rows] @ self.rotation) ** 2 @ self.factors**2
        return out + self.constant


def decompose(moments: Moments, *, centred: bool) -> Decomposition:
    """Eigenpairs, exact or bounded trace, and the two extreme spectra.

    Centring takes n mean mean' out of Phi'Phi. The trace of the centred K is trace - q'Kq, and q'Kq is at least
    |mean|^2, what the landmarks see of it: an upper bound, so complexity is still never under-estimated.
    """
    n = moments.weight
    mean = moments.feature_sum / n if centred else np.zeros_like(moments.feature_sum)
    matrix = moments.gram / n - np.outer(mean, mean)
    values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
    values, vectors = values[::-1], vectors[:, ::-1]
    # What centring and eigenvalues leave of rounding is noise; a step sum of 10^6 still sees 10^-15 of the trace.
    keep = values > 4 * np.finfo(np.float64).eps * moments.diagonal_sum / n
    values, vectors = values[keep], vectors[:, keep]
    trace = max(moments.diagonal_sum / n - float(mean @ mean), float(values.sum()))
    response_mean = moments.response_sum / n if centred else np.zeros_like(moments.response_sum)
    cross = vectors.T @ (moments.cross - np.outer(moments.feature_sum, response_mean))
    energy = np.maximum(moments.response_square - n * response_mean**2, 0.0)
    # Weights below one stand for fewer samples than there are rows, and rank counts rows.
    dimensions = max(n, float(moments.n_rows))
    most = replace(filled_density(values, trace, dimensions), n_samples=n)
    own = Density(values, np.ones_like(values), n)
    spectrum = Spectrum(
        eigenvalues=values,
        basis=None,
        trace=trace,
        n_samples=n,
        density=own,
        bound=most,
        largest_bound=float(values.max(initial=0.0)) * (1 + 1e-14 * np.sqrt(max(values.size, 1))),
    )
    # The centred trace may be as small as what the landmarks see; the whole one is exact.
    least = own if centred else concentrated_density(values, trace, n)
    return Decomposition(spectrum, vectors, mean, cross, energy, most, least)


def bracket_stop(
    path: Path, rule: Rule, noise_std: float, data: Data, stop: Stop, extremes: Decomposition, tol: float
) -> tuple[tuple[float, float], bool]:
    """The earliest and the latest clock reading among the stop and those of the same rule under both extreme spectra.

    And whether they differ by at most the share `tol` (0: not at all). A proof for Critical with radius and noise
    given; for rules that read the responses a range, since what the landmarks miss of them is not known.
    """
    stops = [stop]
    for density in (extremes.most, extremes.least):
        spectrum = replace(path.spectrum, density=density, bound=density)
        stops.append(rule.select(replace(path, spectrum=spectrum), noise_std, data))
    low, *_, high = sorted(stops, key=lambda one: one.step_sum)
    if low.iteration is not None and high.iteration is not None:
        settled = high.iteration - low.iteration <= tol * high.iteration
    else:
        settled = high.step_sum - low.step_sum <= max(tol, 1e-9) * high.step_sum
    return (low.step_sum, high.step_sum), settled
