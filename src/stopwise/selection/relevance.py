"""One length scale per feature, learned by the marginal likelihood and its gradient in closed form.

With C = I + q D Gram D and P its inverse (less the intercept's direction), the evidence is
(n log s^2 + log|C|) / n with s^2 = y'Py / n, and its sensitivity to C is (P - P y y'P / s^2) / n. Times the kernel's
derivative in r^2, elementwise, that is a matrix B; the derivative with respect to the log inverse length scale of
feature f is then 4 (x'diag(B1)x - x'Bx), x the scaled column: two matrix products for all features together,
O(n^2 (n + d)) in all and never an n x n x d array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from stopwise._support.arrays import Array
from stopwise.kernels.radial import Radial
from stopwise.selection.sample import Sample

PRIOR_SPREAD = 1.0
"""Standard deviation, in log units, of the length scales about their common mean."""
_RATIO_BOUNDS = (-7.0, math.log(1e8))
_BOUNDS = (-9.0, 5.0)
_FAILED = 1e10


@dataclass(frozen=True)
class Objective:
    """Evidence per sample plus a Gaussian prior on log length scales about their mean, as a function of parameters.

    Parameters are log inverse length scales (d,) of standardised features, then log q, q the signal-to-noise ratio
    of a single row.
    """

    sample: Sample
    kernel: Radial
    prior_spread: float = PRIOR_SPREAD

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """The value and its gradient."""
        logs, q = parameters[:-1], float(np.exp(parameters[-1]))
        sample, n = self.sample, self.sample.n_samples
        x = sample.covariates * np.exp(logs)
        u = half_distances(x)
        weighted = q * np.outer(sample.root_weights, sample.root_weights)
        matrix = weighted * self.kernel.profile(u.copy())
        matrix[np.diag_indices_from(matrix)] += 1.0
        solved = _inverse(matrix, sample)
        if solved is None:
            return _FAILED, np.zeros_like(parameters)
        inverse, determinant = solved
        value, sensitivity = _evidence(sample, inverse, determinant)
        along_ratio = float(np.vdot(sensitivity, matrix) - np.trace(sensitivity))
        sensitivity *= weighted
        sensitivity *= self.kernel.slope(u)
        np.fill_diagonal(sensitivity, 0.0)
        rows = sensitivity.sum(axis=1)
        gradient = 4 * (rows @ x**2 - np.einsum("if,if->f", x, sensitivity @ x))
        prior, pull = self._prior(logs, n)
        return value + prior, np.append(gradient + pull, along_ratio)

    def _prior(self, logs: Array, n: float) -> tuple[float, Array]:
        """(2/n) sum (log l - mean)^2 / (2 spread^2) and its gradient."""
        gap = logs - logs.mean()
        return float(gap @ gap) / (n * self.prior_spread**2), cast(Array, 2 * gap / (n * self.prior_spread**2))


def half_distances(x: Array) -> Array:
    """-|x - z|^2 / 2 between all rows, never above zero and zero on the diagonal."""
    norms = np.einsum("ij,ij->i", x, x)
    u = x @ x.T
    u -= 0.5 * norms[:, None]
    u -= 0.5 * norms[None, :]
    np.minimum(u, 0.0, out=u)
    np.fill_diagonal(u, 0.0)
    return cast(Array, u)


def _inverse(matrix: Array, sample: Sample) -> tuple[Array, float] | None:
    """C^-1 less the intercept's direction and the matching log determinant; None where Cholesky fails."""
    factor, failed = lapack.dpotrf(matrix, lower=1)
    if failed:
        return None
    determinant = 2 * float(np.log(np.diagonal(factor)).sum())
    half, _ = lapack.dpotri(factor, lower=1)
    inverse = np.tril(half)
    inverse += np.tril(half, -1).T
    if sample.intercept:
        # |HCH| over the orthogonal complement of the constant = |C| (q' C^-1 q) for the unit vector q.
        constant = sample.root_weights / np.sqrt(sample.n_samples)
        image = inverse @ constant
        mass = float(constant @ image)
        inverse -= np.outer(image, image / mass)
        determinant += float(np.log(mass))
    return inverse, determinant


def _evidence(sample: Sample, inverse: Array, determinant: float) -> tuple[float, Array]:
    """Mean over responses of (n log s^2 + log|C|) / n, and its derivative with respect to C."""
    n, free = sample.n_samples, sample.n_free
    residual = inverse @ sample.responses
    energy = np.einsum("ij,ij->j", sample.responses, residual) + sample.spread_within
    variance = np.maximum(energy / free, 1e-300)
    value = (free * float(np.log(variance).mean()) + determinant) / n
    count = len(variance)
    return value, (inverse - (residual / (variance * count)) @ residual.T) / n


@dataclass(frozen=True)
class Learned:
    """Log inverse length scales, log q, the objective there, and how many times it was evaluated."""

    logs: Array
    log_ratio: float
    value: float
    evaluations: int
    start: int = 0
    """Which of several starts led here."""

    @property
    def scales(self) -> Array:
        """Length scales in standard deviations of each feature."""
        return cast(Array, np.exp(-self.logs))


def learn_from(sample: Sample, kernel: Radial, starts: Sequence[tuple[Array, float]], max_steps: int) -> Learned:
    """The lowest of what several starts (log inverse length scales, log q) lead to."""
    found = [learn(sample, kernel, logs, log_ratio, max_steps) for logs, log_ratio in starts]
    at = min(range(len(found)), key=lambda i: round(found[i].value, 9))
    return replace(found[at], start=at)


def learn(sample: Sample, kernel: Radial, logs: Array, log_ratio: float, max_steps: int) -> Learned:
    """L-BFGS from one start."""
    start = np.append(np.clip(logs, *_BOUNDS), np.clip(log_ratio, *_RATIO_BOUNDS))
    found: Any = minimize(
        Objective(sample, kernel),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[_BOUNDS] * len(logs) + [_RATIO_BOUNDS],
        options={"maxiter": max_steps, "maxcor": 20, "ftol": 1e-7, "gtol": 1e-4},
    )
    return Learned(found.x[:-1], float(found.x[-1]), float(found.fun), int(found.nfev))
