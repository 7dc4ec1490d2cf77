"""What is learned by the evidence: length scales, the shares of kernels in a sum, and which features have slopes.

With C = I + q D Gram D and P its inverse less the directions that are not penalised, the evidence is
(m log s^2 + log|C| + log|Q' C^-1 Q|) / n with s^2 = y'Py / m, m = n - p, and its sensitivity to C is
(P - P y y'P / s^2) / n. A kernel's `gram_and_pullback` carries that to its length scales. One length scale for all
features is the same objective with its gradient added up. The arithmetic runs in numpy, or in torch on a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.optimize import minimize

from stopwise._support.array_library import HOST
from stopwise._support.arrays import Array
from stopwise.kernels.gradients import Values, gram_and_pullback
from stopwise.kernels.stationary import Stationary
from stopwise.problem import NOTHING
from stopwise.sample import Sample, orthonormal

Objective = Callable[[Array], tuple[float, Array]]
"""A value and its gradient."""
PRIOR_SPREAD, ROWS_PER_SCALE = 1.0, 20
"""Standard deviation, in log units, of length scales about their mean; down to half with fewer rows for each."""
_BOUNDS, _RATIO_BOUNDS = (-9.0, 5.0), (-12.0, math.log(1e8))
"""Of log inverse length scales, and of log q, or log q times a share: the least is no signal at all."""
_SHARE_STEPS, _USUAL_RATIO = 12, 30.0
"""So few steps find shares to a few hundredths; q where a search starts from nothing."""
_FAILED = 1e10
_DIGITS = 64
"""Learned log length scales are rounded to 1/64: finer differences are the optimiser's, not the data's."""


def prior_variance(n_rows: float, n_scales: int) -> float:
    """Of log length scales about their mean, learned on so many rows."""
    return PRIOR_SPREAD**2 * min(1.0, max(0.25, n_rows / (ROWS_PER_SCALE * n_scales)))


@dataclass(frozen=True)
class Part:
    """A kernel with length scales (d,) in standard deviations of the features, one for all or `per_feature`.

    `share` is its part in a sum of kernels. `place` (d + 1,) is where a search from it starts: log inverse length
    scales, not rounded, and log q; `value` is the objective there.
    """

    kernel: Stationary
    scales: Array
    place: Array
    value: float = math.inf
    per_feature: bool = False
    share: float = 1.0
    edge: str | None = None
    """The end of the grid that the first length scale lay at ("short" or "long"), if any."""

    def gram(self, sample: Sample) -> Values:
        """The kernel matrix of a sample, times the share."""
        rows = sample.library.take(sample.places / self.scales)
        return self.share * gram_and_pullback(self.kernel, rows, sample.library.module)[0]

    def between(self, new: Array, sample: Sample) -> Values:
        """The kernel between new standardised rows and a sample's, times the share."""
        new, rows, library = sample.seen_at(new) / self.scales, sample.places / self.scales, sample.library
        if library is HOST:
            return self.share * self.kernel(new, rows)
        both = library.take(np.concatenate([new, rows]))
        return self.share * gram_and_pullback(self.kernel, both, library.module)[0][: len(new), len(new) :]


def likelihood(sample: Sample, signal: Values) -> tuple[float, Values]:
    """-2 log evidence / n of y ~ N(F b, s^2 C), C = I + a signal matrix, and its derivative with respect to C.

    The matrix is overwritten. Both are means over responses; no slope where Cholesky fails.
    """
    n, free, library, linalg = sample.n_samples, sample.n_free, sample.library, sample.library.module.linalg
    responses, fixed, within = map(library.take, (sample.responses, sample.fixed, sample.spread_within))
    library.add_to_diagonal(signal, 1.0)
    solved = library.inverse(signal)
    if solved is None:
        return _FAILED, library.zeros(*signal.shape)
    inverse, determinant = solved
    if fixed.shape[1]:  # P, and |C| |Q' C^-1 Q|
        image = inverse @ fixed
        mass = fixed.T @ image
        inverse = inverse - image @ linalg.solve(mass, image.T)
        determinant += float(linalg.slogdet(mass)[1])
    residual = inverse @ responses
    variance = (((responses * residual).sum(0) + within) / free).clip(min=1e-300)
    value = (free * float(library.module.log(variance).mean()) + determinant) / n
    return value, (inverse - (residual / (variance * len(variance))) @ residual.T) / n


class Evidence:
    """-2 log evidence / n plus a Gaussian prior on log length scales about their mean, with its gradient.

    Parameters are log inverse length scales of standardised features, one per group of features or one for all, then
    log q, q the signal-to-noise ratio of a single row.
    """

    def __init__(self, sample: Sample, kernel: Stationary) -> None:
        self.sample, self.kernel, self.rows = sample, kernel, sample.library.take(sample.places)
        self.pairs = sample.library.take(np.outer(sample.root_weights, sample.root_weights))

    def __call__(self, parameters: Array) -> tuple[float, Array]:
        """The value and its gradient."""
        sample, logs = self.sample, parameters[:-1]
        groups = sample.groups if logs.size > 1 else np.zeros_like(sample.groups)
        rows = self.rows * sample.library.take(np.exp(logs[groups]))
        gram, pullback = gram_and_pullback(self.kernel, rows, sample.library.module)
        weights = math.exp(parameters[-1]) * self.pairs
        value, sensitivity = likelihood(sample, weights * gram)
        sensitivity = sensitivity * weights
        each = np.bincount(groups, pullback(sensitivity).tolist())
        gap = logs - logs.mean()
        weight = 1 / (sample.n_samples * prior_variance(sample.n_rows, logs.size))
        slope = np.append(each + 2 * weight * gap, float((sensitivity * gram).sum()))
        return value + weight * float(gap @ gap), slope


def learn(sample: Sample, start: Part, *, max_steps: int, per_feature: bool) -> Part:
    """L-BFGS from one start, to one length scale for all features or one per group of them."""
    groups = sample.groups if per_feature else np.zeros_like(sample.groups)
    first = np.unique(groups, return_index=True)[1]
    bounds = [_BOUNDS] * first.size + [_RATIO_BOUNDS]
    options = {"maxcor": 20, "ftol": 1e-6, "gtol": 1e-4}
    found = _descend(Evidence(sample, start.kernel), start.place[[*first, -1]], bounds, max_steps, **options)
    place = found.x[[*groups, -1]]
    scales = np.exp(-np.round(place[:-1] * _DIGITS) / _DIGITS)
    return replace(start, scales=scales, place=place, value=float(found.fun), per_feature=per_feature)


def part_at(kernel: Stationary, scales: Array, ratio: float = _USUAL_RATIO) -> Part:
    """A kernel at some length scales, as they are."""
    return Part(kernel, scales, np.append(-np.log(scales), math.log(ratio)))


def learn_shares(sample: Sample, parts: Sequence[Part], ratio: float) -> Array:
    """The shares of kernels in their sum with the highest evidence, from equal ones; `ratio` starts log q."""
    pairs = sample.library.take(np.outer(sample.root_weights, sample.root_weights))
    signals = [pairs * part.gram(sample) for part in parts]

    def objective(logs: Array) -> tuple[float, Array]:
        terms = [math.exp(log) * signal for log, signal in zip(logs, signals, strict=True)]
        value, sensitivity = likelihood(sample, sum(terms[1:], terms[0] + 0.0))
        return value, np.array([float((sensitivity * term).sum()) for term in terms])

    begin = np.full(len(parts), math.log(ratio / len(parts)))
    found = _descend(objective, begin, [_RATIO_BOUNDS] * len(parts), _SHARE_STEPS)
    weights = np.exp(found.x - found.x.max())
    return cast(Array, weights / weights.sum())


def _descend(
    objective: Objective, begin: Array, bounds: list[tuple[float, float]], steps: int, **options: float
) -> Any:
    begin = np.clip(begin, *np.transpose(bounds))
    return minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps} | options)


def deviance(left: Array, free: Array | float, energy: Array, count: Array | float, picking: float) -> Array:
    """-2 log likelihood of `free` observations whose squares add up to `left`, their variance profiled out.

    And -2 log of what `count` slopes that explain this energy, and the picking of them, are worth beforehand, up to
    what all models share: they count as draws from a Gaussian whose variance fits them, never below the noise's; every
    number of groups is as likely as any other, and every choice of so many (Chen and Chen 2008).
    """
    variance = np.maximum(left / free, 1e-300)
    slopes = count * np.log(np.maximum(energy / np.maximum(count, 1), variance))
    return cast(Array, free * np.log(variance) + slopes + 2 * picking)


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
    whole, count, within = (rest**2).sum(axis=0), 0, sample.spread_within
    best = float(deviance(whole + within, sample.n_free, 0 * whole, 0, 0.0).mean())
    while len(entered) < sample.n_groups:
        gains, widths = _gains(columns, rest, groups)
        energy, counts = whole - (rest**2).sum(axis=0) + gains, (count + widths)[:, None]
        left, free = whole - energy + within, np.maximum(sample.n_free - counts, 1.0)
        scores = deviance(left, free, energy, counts, sample.picking(len(entered) + 1)).mean(axis=1)
        scores[entered] = scores[counts[:, 0] > most] = np.inf
        at = int(np.argmin(scores))
        if scores[at] >= best:
            break
        basis = orthonormal(columns[:, groups == at])
        best, count = float(scores[at]), count + basis.shape[1]
        rest, columns = rest - basis @ (basis.T @ rest), columns - basis @ (basis.T @ columns)
        entered.append(at)
    return np.isin(groups, entered)


def _gains(columns: Array, rest: Array, groups: Array) -> tuple[Array, Array]:
    """The energy (D, q) that each group of columns takes out of the rest, and its dimension (D,)."""
    squares, sizes = np.einsum("ij,ij->j", columns, columns), np.bincount(groups)
    gains, widths = np.zeros((sizes.size, rest.shape[1])), np.zeros(sizes.size)
    alone = (squares > NOTHING**2) & (sizes[groups] == 1)
    gains[groups[alone]] = (columns[:, alone].T @ rest) ** 2 / squares[alone, None]
    widths[groups[alone]] = 1
    for group in np.flatnonzero(sizes > 1):
        basis = orthonormal(columns[:, groups == group])
        gains[group], widths[group] = ((basis.T @ rest) ** 2).sum(axis=0), basis.shape[1]
    return gains, widths
