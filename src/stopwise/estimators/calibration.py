"""Do left-out predictions mean what they say? One slope for probabilities, one shift for quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.optimize import minimize_scalar

from stopwise._support.arrays import Array
from stopwise.engine.loss_fits.loss_minimiser import Minimiser
from stopwise.losses import Quantile
from stopwise.losses.base import weighted_quantile

OFF = 2.0
"""A slope further from 1 than so many standard errors is corrected."""
_SLOPES = (0.1, 5.0)
_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """What the left-out predictions say about themselves, and what was done about it.

    `slope`: the factor on the log odds that makes left-out labels likeliest; below 1 the fit is too sure of itself.
    `temperature`: what scores were divided by (1: nothing was off by two standard errors). `shift`: what was added to a
    quantile so that left-out responses lie below it as often as asked. `predicted`, `observed`, `counts`: the
    reliability table, ten bins of left-out probability over all classes.
    """

    slope: float = 1.0
    standard_error: float = math.nan
    temperature: float = 1.0
    shift: float = 0.0
    predicted: Array | None = None
    observed: Array | None = None
    counts: Array | None = None

    def __str__(self) -> str:
        if self.predicted is None:
            return f"shifted by {self.shift:.4g}, so that left-out responses lie below as often as asked"
        told = f"calibration slope {self.slope:.3f} ({self.standard_error:.3f}) on left-out predictions"
        if self.temperature == 1:
            return f"{told}: probabilities are left as they are"
        return f"{told}: more than {OFF:g} standard errors from 1, so scores are divided by {self.temperature:.3f}"


def calibrate(fit: Minimiser, unit: float) -> Calibration | None:
    """The calibration of a fit on the rows it was made from, each left out in turn; None for other losses.

    A shift is in the units of y, of which the fit's own are `unit`.
    """
    problem, loss = fit.problem, fit.problem.loss
    known = np.isfinite(fit.left_out).all(axis=1)
    y, f, w = problem.y[known], fit.left_out[known], problem.weights[known]
    if isinstance(loss, Quantile):
        return Calibration(shift=unit * weighted_quantile(y - f[:, 0], w, loss.quantile) if len(y) else 0.0)
    if not loss.for_classes or not len(y):
        return None
    doubt = 1 / (problem.n_samples + 2)

    def deviance(slope: float) -> float:
        return float(w @ loss.guarded(y, slope * f, doubt))

    slope = float(minimize_scalar(deviance, bounds=_SLOPES, method="bounded", options={"xatol": 1e-6}).x)
    bend = float(np.einsum("i,ij,ijk,ik->", w, f, loss.curvature(y, slope * f), f))
    error = 1 / math.sqrt(bend) if bend > 0 else math.inf
    factor = slope if abs(slope - 1) > OFF * error else 1.0
    return Calibration(slope, error, 1 / factor, 0.0, *reliability(loss.natural(factor * f), y, w))


def reliability(probability: Array, codes: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Mean predicted probability, observed share and weight in ten bins, over all classes (of two: the second)."""
    columns = range(1, 2) if probability.shape[1] == 2 else range(probability.shape[1])
    p = np.concatenate([probability[:, c] for c in columns])
    hit = np.concatenate([(codes == c).astype(np.float64) for c in columns])
    w = np.tile(weights, len(columns))
    bins = np.minimum((p * _BINS).astype(int), _BINS - 1)
    counts = np.bincount(bins, w, _BINS)
    kept = counts > 0
    predicted, observed = (np.bincount(bins, w * v, _BINS)[kept] / counts[kept] for v in (p, hit))
    return cast(Array, predicted), cast(Array, observed), counts[kept]
