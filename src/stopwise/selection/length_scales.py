"""Length scales learned by the marginal likelihood and its gradient in closed form.

With C = I + q D Gram D and P its inverse less the directions that are not penalised, the evidence is
(m log s^2 + log|C| + log|Q' C^-1 Q|) / n with s^2 = y'Py / m, m = n - p, and its sensitivity to C is
(P - P y y'P / s^2) / n. A kernel's `gram_and_pullback` carries that to its length scales. One length scale for all
features is the same objective with its gradient added up. The arithmetic runs where `Place` says: in numpy, or in torch
on a device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import scipy.linalg
from scipy.linalg import lapack
from scipy.optimize import minimize

from stopwise._support.arrays import Array
from stopwise.kernels import Kernel
from stopwise.kernels.gradients import Values, gram_and_pullback
from stopwise.selection.rows import Sample

PRIOR_SPREAD, ROWS_PER_SCALE = 1.0, 20
"""Standard deviation, in log units, of length scales about their mean; down to half with fewer rows for each."""
_RATIO_BOUNDS = (-7.0, math.log(1e8))
_BOUNDS = (-9.0, 5.0)
_FAILED = 1e10
_DIGITS = 64
"""Learned log length scales are rounded to 1/64: finer differences are the optimiser's, not the data's."""


def prior_variance(n_rows: float, n_scales: int) -> float:
    """Of log length scales about their mean, learned on so many rows."""
    return PRIOR_SPREAD**2 * min(1.0, max(0.25, n_rows / (ROWS_PER_SCALE * n_scales)))


class Place(Protocol):
    """Where the arithmetic happens: an array library, and the few operations that differ between them."""

    xp: Any

    def put(self, values: Array) -> Values:
        """An array of the host there."""

    def bring(self, values: Values) -> Array:
        """An array from there on the host."""

    def eigh(self, matrix: Values) -> tuple[Values, Values]:
        """Eigenvalues, ascending, and eigenvectors of a symmetric matrix, which may be overwritten."""

    def inverse(self, matrix: Values) -> tuple[Values, float] | None:
        """The inverse of a positive definite matrix and its log determinant; None where Cholesky fails."""

    def between(self, kernel: Kernel, new: Array, rows: Array) -> Values:
        """The kernel between new rows (t, d) and others (m, d), there."""


class Host:
    """Arithmetic in numpy."""

    xp: Any = np

    def put(self, values: Array) -> Values:
        return values

    def bring(self, values: Values) -> Array:
        return cast(Array, values)

    def eigh(self, matrix: Values) -> tuple[Values, Values]:
        values, vectors = scipy.linalg.eigh(matrix, driver="evd", overwrite_a=True, check_finite=False)
        return values, vectors

    def inverse(self, matrix: Values) -> tuple[Values, float] | None:
        factor, failed = lapack.dpotrf(matrix.T, overwrite_a=1)  # in Fortran's order: no copy
        if failed:
            return None
        determinant = 2 * float(np.log(np.diagonal(factor)).sum())
        half, _ = lapack.dpotri(factor, overwrite_c=1)
        diagonal = np.diagonal(half).copy()
        half += half.T  # what is not asked for is zero
        np.fill_diagonal(half, diagonal)
        return half, determinant

    def between(self, kernel: Kernel, new: Array, rows: Array) -> Values:
        return kernel(new, rows)


class Device:
    """The same in torch, float64, on one of its devices."""

    def __init__(self, device: Any) -> None:
        from stopwise._support.torch import torch

        self.xp: Any = torch()
        self.device = device

    def put(self, values: Array) -> Values:
        return self.xp.as_tensor(values, dtype=self.xp.float64, device=self.device)

    def bring(self, values: Values) -> Array:
        return cast(Array, values.cpu().numpy())

    def eigh(self, matrix: Values) -> tuple[Values, Values]:
        values, vectors = self.xp.linalg.eigh(matrix)
        return values, vectors

    def inverse(self, matrix: Values) -> tuple[Values, float] | None:
        factor, failed = self.xp.linalg.cholesky_ex(matrix)
        if int(failed):
            return None
        return self.xp.cholesky_inverse(factor), 2 * float(self.xp.log(self.xp.diagonal(factor)).sum())

    def between(self, kernel: Kernel, new: Array, rows: Array) -> Values:
        both = self.put(np.concatenate([new, rows]))
        return gram_and_pullback(kernel, both, self.xp)[0][: len(new), len(new) :]


@dataclass(frozen=True)
class Learned:
    """Log inverse length scales (d,) of standardised features, log q, and the objective there."""

    logs: Array
    log_ratio: float
    value: float

    @property
    def scales(self) -> Array:
        """Length scales in standard deviations of each feature, rounded."""
        return cast(Array, np.exp(-np.round(self.logs * _DIGITS) / _DIGITS))


class Evidence:
    """-2 log evidence / n plus a Gaussian prior on log length scales about their mean, with its gradient.

    Parameters are log inverse length scales of standardised features, one per group of features or one for all, then
    log q, q the signal-to-noise ratio of a single row.
    """

    def __init__(self, sample: Sample, kernel: Kernel, place: Place) -> None:
        self.sample, self.kernel, self.place = sample, kernel, place
        self.rows, self.root = place.put(sample.covariates), place.put(sample.root_weights)
        self.responses, self.fixed = place.put(sample.responses), place.put(sample.fixed)
        self.within = place.put(sample.spread_within)
        self.pairs = self.root[:, None] * self.root[None, :]

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """The value and its gradient."""
        groups = self.sample.groups if len(parameters) > 2 else np.zeros_like(self.sample.groups)
        logs = parameters[:-1]
        value, each, along_ratio = self._likelihood(np.exp(logs[groups]), math.exp(parameters[-1]))
        gradient = np.bincount(groups, each)
        if len(parameters) == 2:
            return value, np.append(gradient, along_ratio)
        gap = logs - logs.mean()
        weight = 1 / (self.sample.n_samples * prior_variance(self.sample.n_rows, logs.size))
        return value + weight * float(gap @ gap), np.append(gradient + 2 * weight * gap, along_ratio)

    def _likelihood(self, rates: Array, q: float) -> tuple[float, Array, float]:
        n, place = self.sample.n_samples, self.place
        gram, pullback = gram_and_pullback(self.kernel, self.rows * place.put(rates), place.xp)
        weights = q * self.pairs
        matrix = weights * gram
        diagonal = range(len(matrix))
        matrix[diagonal, diagonal] += 1.0
        solved = place.inverse(matrix)
        if solved is None:
            return _FAILED, np.zeros(len(rates)), 0.0
        inverse, determinant = self._free(*solved)
        value, sensitivity = self._value(inverse, determinant, n)
        sensitivity = sensitivity * weights
        along_ratio = float((sensitivity * gram).sum())
        return value, np.asarray(pullback(sensitivity).tolist()), along_ratio

    def _free(self, inverse: Values, determinant: float) -> tuple[Values, float]:
        """P and the log determinant of C over the complement of what is not penalised: |C| |Q' C^-1 Q|."""
        if not self.fixed.shape[1]:
            return inverse, determinant
        image = inverse @ self.fixed
        mass = self.fixed.T @ image
        share = self.place.xp.linalg.solve(mass, image.T)
        return inverse - image @ share, determinant + float(self.place.xp.linalg.slogdet(mass)[1])

    def _value(self, inverse: Values, determinant: float, n: float) -> tuple[float, Values]:
        """Mean over responses of (m log s^2 + log|C|) / n, and its derivative with respect to C."""
        free = self.sample.n_free
        residual = inverse @ self.responses
        variance = ((self.responses * residual).sum(0) + self.within) / free
        variance = variance.clip(min=1e-300)
        value = (free * float(self.place.xp.log(variance).mean()) + determinant) / n
        return value, (inverse - (residual / (variance * len(variance))) @ residual.T) / n


def learn(
    sample: Sample,
    kernel: Kernel,
    start: Learned,
    *,
    max_steps: int,
    together: bool = False,
    place: Place | None = None,
) -> Learned:
    """L-BFGS from one start; `together`: one length scale for all features, else one per group of them."""
    groups = np.zeros_like(sample.groups) if together else sample.groups
    first = start.logs[np.unique(groups, return_index=True)[1]]
    begin = np.append(np.clip(first, *_BOUNDS), np.clip(start.log_ratio, *_RATIO_BOUNDS))
    found: Any = minimize(
        Evidence(sample, kernel, place or Host()),
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=[_BOUNDS] * len(first) + [_RATIO_BOUNDS],
        options={"maxiter": max_steps, "maxcor": 20, "ftol": 1e-6, "gtol": 1e-4},
    )
    return Learned(found.x[:-1][groups], float(found.x[-1]), float(found.fun))
