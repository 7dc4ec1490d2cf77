"""Noise that varies with x: a second, small fit, to the logarithms of squared left-out residuals.

Residuals over their own scale are a standard deviation times a standard normal number, whose log square has mean -1.27
and variance 4.93 (chi-squared with one degree of freedom): log t^2 + 1.27 is the log variance plus noise of known size.
Ridge with a Gaussian kernel smooths it; length scale and penalty are those that leave rows out best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from stopwise._support.arrays import Array
from stopwise.estimators.prediction.host import predict_in_tiles
from stopwise.kernels import Gaussian
from stopwise.kernels.gradients import half_distances, median_distance

LEAST_ROWS = 60
"""With fewer left-out residuals no variation is looked for."""
_CLEAR = 2.5
"""Paired standard errors by which the likelihood of left-out residuals must improve."""
_LEVELS = (0.9, 0.99)
"""Levels at which intervals may not become wider."""
_LENGTHS = (1.0, 2.0, 4.0)
"""Length scales tried, in units of the median distance: noise is taken to vary more slowly than the truth."""
_PENALTIES = tuple(float(p) for p in np.geomspace(0.02, 20.0, 10))
"""Penalties tried, in units of the number of rows over twenty."""
_FLOOR = 6.0
"""Log squares more than this below their median are put there: exact hits, which no logarithm measures."""
_NEGLIGIBLE = 0.001
"""Of the smallest penalty: what may be left of k(x, x) = 1 where penalties are compared."""
_LEFT = 1e-10
"""What may be left of k(x, x) = 1 at every point in the span of those that stay."""


@dataclass(frozen=True)
class VaryingNoise:
    """A log variance at any row, mean zero over the rows it was learned from, between the extremes seen there."""

    centre: Array
    spread: Array
    points: Array
    weights: Array
    constant: float
    length: float
    low: float
    high: float

    def log_variance(self, rows: Array) -> Array:
        """One number per row."""
        scaled = (rows - self.centre) / self.spread
        out = predict_in_tiles(Gaussian(self.length), scaled, self.points, self.weights)
        return cast(Array, np.clip(out + self.constant, self.low, self.high))

    @property
    def ratio(self) -> float:
        """The largest standard deviation over the smallest, at the rows it was learned from."""
        return math.exp((self.high - self.low) / 2)


def find_varying_noise(rows: Array, ratios: Array) -> tuple[VaryingNoise, Array] | None:
    """The variation of left-out residuals over their scales, if it clearly predicts them better, and at the rows.

    The second is the log variance of each row learned from the others.
    """
    if len(rows) < LEAST_ROWS or not np.any(ratios):
        return None
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    if not np.any(spread > 0):
        return None
    spread = np.where(spread > 0, spread, 1.0)
    points = (rows - centre) / spread
    ratios = np.ldexp(ratios, -int(np.frexp(np.abs(ratios).max())[1]))  # squares of tiny ones would be 0
    logs = _log_squares(ratios)
    length, penalty, left_out = _best(points, logs)
    left_out = left_out - left_out.mean()
    gain, error = _improvement(ratios, left_out)
    if gain <= _CLEAR * error or _widens(ratios, left_out):
        return None
    ends = float(left_out.min()), float(left_out.max())
    return VaryingNoise(centre, spread, *_solved(points, logs, length, penalty), length, *ends), left_out


def _log_squares(ratios: Array) -> Array:
    """log t^2, centred: what constant the chi-squared adds is the factor's to find."""
    with np.errstate(divide="ignore"):
        logs = np.log(ratios**2)
    logs = np.maximum(logs, np.median(logs[np.isfinite(logs)]) - _FLOOR)
    return cast(Array, logs - logs.mean())


def _best(points: Array, logs: Array, negligible: float = _NEGLIGIBLE) -> tuple[float, float, Array]:
    """Length scale and penalty with the least left-out error, and the left-out predictions there."""
    n, halves, unit = len(points), half_distances(points), median_distance(points)
    best: tuple[float, float, float, Array] | None = None
    for length in (unit * each for each in _LENGTHS):
        penalties = np.array(_PENALTIES) * n / 20
        thin = _thin_factor(np.exp(halves / length**2), negligible * float(penalties[0]))
        values, vectors = np.linalg.eigh(thin.T @ thin)
        images, gains = thin @ vectors, 1 / (values[:, None] + penalties)
        left = 1 - (images**2 @ gains + 1 / n)
        residuals = (logs[:, None] - images @ (gains * (images.T @ logs)[:, None])) / left
        errors = (residuals**2).sum(axis=0)
        at = int(np.argmin(errors))
        if best is None or errors[at] < best[0]:
            best = float(errors[at]), length, float(penalties[at]), logs - residuals[:, at]
    assert best is not None
    return best[1:]


def _thin_factor(gram: Array, left: float) -> Array:
    """L with L L' the matrix but for at most `left` on its diagonal (pivoted Cholesky), its columns centred."""
    factor, order, rank, _ = dpstrf(gram, tol=left, lower=1)
    out = np.empty((len(gram), rank))
    out[order - 1] = np.tril(factor)[:, :rank]
    return cast(Array, out - out.mean(axis=0))


def _solved(points: Array, logs: Array, length: float, penalty: float) -> tuple[Array, Array, float]:
    """The ridge fit to all rows: points, their weights and a constant.

    A smooth function of few dimensions needs few of the points: with K = L L' by pivoted Cholesky, cut off where
    nothing of any point is left, k(x, all) w is k(x, first) L_1^-T L'w, L_1 the first rows of L.
    """
    gram = np.exp(half_distances(points) / length**2)
    system = gram + penalty * np.eye(len(gram))
    solved = np.linalg.solve(system, np.column_stack([logs, np.ones(len(logs))]))
    constant = float(solved[:, 0].sum() / solved[:, 1].sum())
    weights = solved[:, 0] - constant * solved[:, 1]
    factor, order, rank, _ = dpstrf(gram, tol=_LEFT, lower=1)
    order, factor = order - 1, np.tril(factor)[:, :rank]
    few = solve_triangular(factor[:rank], factor.T @ weights[order], lower=True, trans="T")
    return points[order[:rank]], few, constant


def _widens(ratios: Array, logs: Array) -> bool:
    """Whether intervals at `_LEVELS` are wider than with one variance for all, by the geometric mean over levels.

    A row that is taken to be quiet and is not has a ratio so large that it widens all intervals of high levels.
    """
    before, after = np.abs(ratios), np.abs(ratios) * np.exp(-logs / 2) * float(np.exp(logs / 2).mean())
    with np.errstate(divide="ignore", invalid="ignore"):
        return bool(np.log(np.quantile(after, _LEVELS) / np.quantile(before, _LEVELS)).sum() > 0)


def _improvement(ratios: Array, logs: Array) -> tuple[float, float]:
    """Mean gain in Gaussian log likelihood over a constant variance, each at its best, and its standard error."""
    squared = ratios**2
    scaled = squared * np.exp(-logs)
    before, after = float(squared.mean()), float(scaled.mean())
    gains = 0.5 * (squared / before - scaled / after - logs - math.log(after / before))
    return float(gains.mean()), float(gains.std()) / math.sqrt(len(gains))
