"""The marginal likelihood of responses along the clock: y ~ N(0, s^2 (I + q K)), q the signal-to-noise ratio."""

from typing import cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise.filters import Ridge
from stopwise.path import Path


def profiled_variance(path: Path, ratio: ArrayLike) -> Array:
    """s^2(q) = (1/m) sum_j ytilde_j^2 / (1 + q lambda_j), m = n less what is not penalised; 0 where m is."""
    free = path.n_samples - path.n_fixed
    left = Ridge().shrinkage(path.spectrum.eigenvalues, ratio) @ path.coefficients**2 + path.unseen_energy
    return cast(Array, left / free if free > 0 else np.zeros_like(left))


def evidence(path: Path, ratio: ArrayLike) -> Array:
    """-2 log likelihood of y ~ N(0, s^2 (I + q K)), s^2 profiled out, up to a constant.

    m log s^2(q) + sum_j log(1 + q lambda_j).
    """
    variance = np.maximum(profiled_variance(path, ratio), np.finfo(float).tiny)
    determinant = path.density.total(np.log1p(np.asarray(ratio)[..., None] * path.density.values))
    return cast(Array, (path.n_samples - path.n_fixed) * np.log(variance) + path.beside_responses(determinant))


def evidence_slope(path: Path, ratio: float) -> float:
    """d evidence / d log q of one response.

    - m sum_j ytilde_j^2 q lambda_j / (1 + q lambda_j)^2 / sum_j ytilde_j^2 / (1 + q lambda_j), plus the degrees of
    freedom of ridge. Where it is zero is known to rounding; where the evidence is smallest, to the root of that.
    """
    left = Ridge().shrinkage(path.spectrum.eigenvalues, ratio)
    squares, values = path.coefficients**2, path.density.values
    fall = float(left * (1 - left) @ squares) / float(left @ squares + path.unseen_energy)
    freedom = float(path.density.total(ratio * values / (1 + ratio * values)))
    return freedom - (path.n_samples - path.n_fixed) * fall


def noise_share(ratio: Array, mean_diagonal: float) -> Array:
    """The share of noise in the variance of a row where y ~ N(0, s^2 (I + q K)): 1 / (1 + q tr K / n)."""
    return cast(Array, 1 / (1 + ratio * mean_diagonal))
