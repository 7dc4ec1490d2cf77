"""What is learned by the evidence: length scales, the shares of kernels in a sum, and which features have slopes.

With C = I + q D Gram D and P its inverse less the directions that are not penalised, the evidence is
(m log s^2 + log|C| + log|Q' C^-1 Q|) / n with s^2 = y'Py / m, m = n - p, and its sensitivity to C is
(P - P y y'P / s^2) / n. A kernel's `gram_and_pullback` carries that to its length scales. One length scale for all
features is the same objective with its gradient added up. The arithmetic runs in numpy, or in torch on a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.optimize import minimize

from stopwise._support.arrays import Array
from stopwise.kernels import Kernel
from stopwise.kernels.gradients import Values, gram_and_pullback
from stopwise.sample import Sample

Objective = Callable[[Array], tuple[float, Array]]
"""A value and its gradient."""
PRIOR_SPREAD, ROWS_PER_SCALE = 1.0, 20
"""Standard deviation, in log units, of length scales about their mean; down to half with fewer rows for each."""
_RATIO_BOUNDS = (-7.0, math.log(1e8))
_SHARE_BOUNDS, _SHARE_STEPS = (-12.0, math.log(1e8)), 12
"""Of log q times a share; the least is no signal at all. So few steps find shares to a few hundredths."""
_BOUNDS = (-9.0, 5.0)
_FAILED = 1e10
_NOTHING = 1e-7
"""The length of a column (of n entries of about unit size) below which only rounding is left of it."""
_DIGITS = 64
"""Learned log length scales are rounded to 1/64: finer differences are the optimiser's, not the data's."""


def prior_variance(n_rows: float, n_scales: int) -> float:
    """Of log length scales about their mean, learned on so many rows."""
    return PRIOR_SPREAD**2 * min(1.0, max(0.25, n_rows / (ROWS_PER_SCALE * n_scales)))


@dataclass(frozen=True)
class Learned:
    """Log inverse length scales (d,) of standardised features, one for all or `per_feature`; log q; the objective."""

    logs: Array
    log_ratio: float
    value: float
    per_feature: bool = False
    edge: str | None = None
    """Which end of the grid the first length scale for all features lies at ("short" or "long"), if any,"""
    fall: float = 0.0
    """and how much the score still fell in the last step to that end."""

    @property
    def scales(self) -> Array:
        """Length scales in standard deviations of each feature, rounded."""
        return cast(Array, np.exp(-np.round(self.logs * _DIGITS) / _DIGITS))


class Likelihood:
    """-2 log evidence / n of y ~ N(F b, s^2 C), C = I + a signal matrix, and its derivative with respect to C."""

    def __init__(self, sample: Sample) -> None:
        take, self.sample = sample.library.take, sample
        self.responses, self.fixed, self.within = map(take, (sample.responses, sample.fixed, sample.spread_within))
        root = take(sample.root_weights)
        self.pairs = root[:, None] * root[None, :]

    def __call__(self, signal: Values) -> tuple[float, Values]:
        """Both at a signal matrix, which is overwritten, mean over responses; no slope where Cholesky fails."""
        n, free, library = self.sample.n_samples, self.sample.n_free, self.sample.library
        library.add_to_diagonal(signal, 1.0)
        solved = library.inverse(signal)
        if solved is None:
            return _FAILED, library.zeros(*signal.shape)
        inverse, determinant = solved
        if self.fixed.shape[1]:  # P, and |C| |Q' C^-1 Q|
            image = inverse @ self.fixed
            mass = self.fixed.T @ image
            inverse = inverse - image @ library.module.linalg.solve(mass, image.T)
            determinant += float(library.module.linalg.slogdet(mass)[1])
        residual = inverse @ self.responses
        variance = (((self.responses * residual).sum(0) + self.within) / free).clip(min=1e-300)
        value = (free * float(library.module.log(variance).mean()) + determinant) / n
        return value, (inverse - (residual / (variance * len(variance))) @ residual.T) / n


class Evidence:
    """-2 log evidence / n plus a Gaussian prior on log length scales about their mean, with its gradient.

    Parameters are log inverse length scales of standardised features, one per group of features or one for all, then
    log q, q the signal-to-noise ratio of a single row.
    """

    def __init__(self, sample: Sample, kernel: Kernel) -> None:
        self.likelihood, self.kernel, self.rows = Likelihood(sample), kernel, sample.library.take(sample.covariates)

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """The value and its gradient."""
        sample, logs = self.likelihood.sample, parameters[:-1]
        groups = sample.groups if logs.size > 1 else np.zeros_like(sample.groups)
        rows = self.rows * sample.library.take(np.exp(logs[groups]))
        gram, pullback = gram_and_pullback(self.kernel, rows, sample.library.module)
        weights = math.exp(parameters[-1]) * self.likelihood.pairs
        value, sensitivity = self.likelihood(weights * gram)
        sensitivity = sensitivity * weights
        each = np.bincount(groups, pullback(sensitivity).tolist())
        gap = logs - logs.mean()
        weight = 1 / (sample.n_samples * prior_variance(sample.n_rows, logs.size))
        slope = np.append(each + 2 * weight * gap, float((sensitivity * gram).sum()))
        return value + weight * float(gap @ gap), slope


def learn(sample: Sample, kernel: Kernel, start: Learned, *, max_steps: int, together: bool = False) -> Learned:
    """L-BFGS from one start; `together`: one length scale for all features, else one per group of them."""
    groups = np.zeros_like(sample.groups) if together else sample.groups
    begin = np.append(start.logs[np.unique(groups, return_index=True)[1]], start.log_ratio)
    bounds = [_BOUNDS] * (begin.size - 1) + [_RATIO_BOUNDS]
    found = _descend(Evidence(sample, kernel), begin, bounds, max_steps, maxcor=20, ftol=1e-6, gtol=1e-4)
    edge = (start.edge, start.fall) if together else (None, 0.0)
    return Learned(found.x[:-1][groups], float(found.x[-1]), float(found.fun), not together, *edge)


def learn_shares(sample: Sample, grams: Sequence[Values], ratio: float) -> Array:
    """The shares of kernels in their sum with the highest evidence, from equal ones; `ratio` starts log q."""
    likelihood = Likelihood(sample)
    signals = [likelihood.pairs * gram for gram in grams]

    def objective(logs: Array) -> tuple[float, Array]:
        parts = [math.exp(log) * signal for log, signal in zip(logs, signals, strict=True)]
        value, sensitivity = likelihood(sum(parts[1:], parts[0] + 0.0))
        return value, np.array([float((sensitivity * part).sum()) for part in parts])

    begin = np.full(len(grams), math.log(ratio / len(grams)))
    found = _descend(objective, begin, [_SHARE_BOUNDS] * len(grams), _SHARE_STEPS)
    weights = np.exp(found.x - found.x.max())
    return cast(Array, weights / weights.sum())


def _descend(
    objective: Objective, begin: Array, bounds: list[tuple[float, float]], steps: int, **options: float
) -> Any:
    begin = np.clip(begin, *np.transpose(bounds))
    return minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps} | options)


def cost_of_slopes(energy: Array, count: Array | int, variance: Array, picking: float) -> Array:
    """-2 log of what `count` slopes and the picking of them are worth beforehand, up to what all models share.

    They count as draws from a Gaussian whose variance fits them, never below the noise's; every number of groups is as
    likely as any other, and every choice of so many (Chen and Chen 2008).
    """
    each = energy / np.maximum(count, 1)
    return cast(Array, count * np.log(np.maximum(each, variance)) + 2 * picking)


def chosen_slopes(sample: Sample, most: int) -> Array:
    """Which columns (d,) have a slope: all where these are at most so many, else as many as raise the evidence.

    Far from the data a kernel returns to its mean and a slope goes on, so a table with a category of a hundred levels
    should still be able to follow its one column of delays. Columns that share a length scale enter together, one
    group after the other, as long as the evidence of least squares grows.
    """
    groups = sample.groups
    if len(groups) <= most:
        return np.ones(len(groups), dtype=bool)
    columns, rest = sample.root_weights[:, None] * sample.covariates, sample.free_responses
    columns = columns - sample.fixed @ (sample.fixed.T @ columns)
    entered: list[int] = []
    count, best = 0, float(_evidence(sample, np.zeros((1, rest.shape[1])), np.zeros(1), 0.0)[0])
    while len(entered) < sample.n_groups:
        picking = math.log(math.comb(sample.n_groups, len(entered) + 1)) / max(1, rest.shape[1])
        gains, widths = _gains(columns, rest, groups)
        taken = (sample.free_responses**2).sum(axis=0) - (rest**2).sum(axis=0)
        scores = _evidence(sample, taken + gains, count + widths, picking)
        scores[entered] = scores[count + widths > most] = np.inf
        at = int(np.argmin(scores))
        if scores[at] >= best:
            break
        basis = _span(columns[:, groups == at])
        best, count = float(scores[at]), count + basis.shape[1]
        rest, columns = rest - basis @ (basis.T @ rest), columns - basis @ (basis.T @ columns)
        entered.append(at)
    return np.isin(groups, entered)


def _gains(columns: Array, rest: Array, groups: Array) -> tuple[Array, Array]:
    """The energy (D, q) that each group of columns takes out of the rest, and its dimension (D,)."""
    squares, sizes = np.einsum("ij,ij->j", columns, columns), np.bincount(groups)
    gains, widths = np.zeros((sizes.size, rest.shape[1])), np.zeros(sizes.size)
    alone = (squares > _NOTHING**2) & (sizes[groups] == 1)
    gains[groups[alone]] = (columns[:, alone].T @ rest) ** 2 / squares[alone, None]
    widths[groups[alone]] = 1
    for group in np.flatnonzero(sizes > 1):
        basis = _span(columns[:, groups == group])
        gains[group], widths[group] = ((basis.T @ rest) ** 2).sum(axis=0), basis.shape[1]
    return gains, widths


def _span(columns: Array) -> Array:
    """An orthonormal basis of columns of about unit variance, less what was taken out of them."""
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return cast(Array, vectors[:, values > _NOTHING])


def _evidence(sample: Sample, energy: Array, counts: Array, picking: float) -> Array:
    """-2 log likelihood of least squares, mean over responses, for slopes that explain this energy (D, q)."""
    free = np.maximum(sample.n_free - counts[:, None], 1.0)
    left = (sample.free_responses**2).sum(axis=0) - energy + sample.spread_within
    variance = np.maximum(left / free, 1e-300)
    cost = cost_of_slopes(energy, counts[:, None], variance, picking)
    return cast(Array, (free * np.log(variance) + cost).mean(axis=1))
