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


@dataclass(frozen=True)
class LeftOutClasses:
    """Codes (n,), weights (n,) and class probabilities (n, classes) of rows, each predicted by a fit without it."""

    codes: Array
    weights: Array
    probability: Array

    @property
    def confusion(self) -> Array:
        """Rows (by weight) of each class, down, that are taken for each class, across."""
        count = self.probability.shape[1]
        table = np.zeros((count, count))
        np.add.at(table, (self.codes, np.argmax(self.probability, axis=1)), self.weights)
        return table

    @property
    def accuracy(self) -> float:
        """The share of rows whose class is the likeliest."""
        return float(np.trace(self.confusion) / self.weights.sum())

    @property
    def commonest(self) -> float:
        """The share of the commonest class: what no features at all would predict."""
        return float(np.bincount(self.codes, self.weights).max() / self.weights.sum())

    @property
    def certainty(self) -> float:
        """The mean probability of the likeliest class: what the accuracy is where probabilities mean what they say."""
        return float(np.average(self.probability.max(axis=1), weights=self.weights))

    @property
    def reliability(self) -> tuple[Array, Array, Array]:
        """Mean predicted probability, observed share and weight in ten bins, over all classes (of two: the second)."""
        p, seen = self.probability, np.eye(self.probability.shape[1])[self.codes]
        p, seen = (each[:, 1:] if p.shape[1] == 2 else each for each in (p, seen))
        w = np.repeat(self.weights, p.shape[1])
        bins = np.minimum((p.ravel() * _BINS).astype(int), _BINS - 1)
        counts = np.bincount(bins, w, _BINS)
        kept = counts > 0
        predicted, observed = (np.bincount(bins, w * v.ravel(), _BINS)[kept] / counts[kept] for v in (p, seen))
        return cast(Array, predicted), cast(Array, observed), counts[kept]


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

    def deviance(slope: float) -> float:
        return float(w @ loss.guarded(y, slope * f, problem.n_samples))

    slope = float(minimize_scalar(deviance, bounds=_SLOPES, method="bounded", options={"xatol": 1e-6}).x)
    bend = float(np.einsum("i,ij,ijk,ik->", w, f, loss.curvature(y, slope * f), f))
    error = 1 / math.sqrt(bend) if bend > 0 else math.inf
    factor = slope if abs(slope - 1) > OFF * error else 1.0
    told = LeftOutClasses(y.astype(int), w, loss.natural(factor * f))
    return Calibration(slope, error, 1 / factor, 0.0, *told.reliability)
