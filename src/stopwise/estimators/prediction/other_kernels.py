"""Other kernels that the data allow, and how far from the fit they put the truth.

Among the data the rows decide, and a fit's kernel matters little; outside them the kernel decides, and it was chosen by
rows that say next to nothing of it: in a bounded region only the roughness of a truth can be learned, not how large it
grows or how soon it turns back (Stein 1999; Zhang 2004). So Gaussian, Matern 3/2 and Laplace kernels at many length
scales and penalties, with slopes left free, are weighed by their evidence on a sample of the rows: a mixture of
Gaussian processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from scipy.special import logsumexp, ndtr

from stopwise._support.arrays import Array
from stopwise._support.memory import spans
from stopwise.estimators.prediction.posterior import Free, Posterior, posterior_of_rows
from stopwise.estimators.prediction.training_range import outside
from stopwise.kernels import Gaussian, Kernel, Laplace, Matern
from stopwise.kernels.base import parts
from stopwise.kernels.gradients import median_distance
from stopwise.kernels.stationary import Stationary
from stopwise.problem import Problem, Trend, make_trend
from stopwise.sample import look_at_features, make_sample
from stopwise.selection.candidates import ratio_grid

SAMPLE_ROWS = 200
"""Places that stand for all rows: the matrices of 33 kernels are decomposed on them, in milliseconds each."""
_KERNELS: tuple[Stationary, ...] = (Gaussian(), Matern(), Laplace())
_LENGTHS = tuple(2.0**power for power in range(-4, 7))
"""In units of the median distance between rows, in the metric of the fit's own kernel: equally likely before."""
_READINGS = 40
"""Penalties tried for each, equally likely on the log scale: from a hundredth of what the data can see."""
_ROWS_PER_SLOPE = 5
"""Slopes are left free where there are so many places for each."""
_KEPT = 0.999
"""Of the probability; the least likely models are left out."""
_NEGLIGIBLE = 0.05
"""A sample that is a smaller share of the table says nothing of how kernels differ on all of it: nearly nowhere."""
_TILE = 512
"""New rows that all models are asked about at once: 0.8 MB of kernel entries with a sample."""
_HALVINGS = 40
"""Of the bracket of a half-width: 2^-40 of it is left."""


@dataclass(frozen=True)
class Model:
    """One kernel on the sample at clock readings (g,), with the noise variance and probability of each."""

    posterior: Posterior
    coordinates: Array
    """The responses in its eigenvectors, (k,)."""
    level: Array
    """The responses in its free columns, (p,)."""
    step_sums: Array
    noise: Array
    share: Array

    def means(self, new: Array) -> Array:
        """The posterior mean at each new row and reading, (m, g), units of y."""
        values, total = self.posterior.eigenvalues, self.posterior.free.total
        weights = self.step_sums / (total * (1 + np.outer(values, self.step_sums))) * self.coordinates[:, None]
        images, free = self.posterior.images(new)
        return cast(Array, images @ weights + (free @ self.level)[:, None])

    def deviations(self, new: Array) -> Array:
        """The posterior standard deviation of the curve, (m, g), units of y."""
        return cast(Array, np.sqrt(self.posterior.variance(new, self.step_sums) * self.noise))


@dataclass(frozen=True)
class Sampled:
    """Places that stand for all rows (as the kernel takes them), one response, and the fit's own kernel and clock."""

    rows: Array
    weights: Array
    response: Array
    """The mean at each place in the units of y, less a constant (and linear part) where the fit has one."""
    within: float
    """The weighted sum of squares of all observations about the mean of their place."""
    kernel: Kernel
    intercept: bool
    trend: Trend | None
    """The fit's slopes, if it has any."""
    step_sum: float
    n_observations: float
    """Of the whole table."""

    def free(self, *, every_slope: bool = False) -> Free:
        """A constant and the fit's slopes, or all, left free on the sample."""
        sloped = None if every_slope or self.trend is None else self.trend.sloped
        trend = make_trend(self.rows, self.weights, sloped) if every_slope or self.trend is not None else None
        return Free(self.intercept, trend, float(self.weights.sum()))

    def projected(self, posterior: Posterior) -> tuple[Array, Array]:
        """The responses in the eigenvectors and the free columns of a kernel."""
        free = posterior.free.at(self.rows)
        level = free.T @ (self.weights * self.response)
        rest = self.response - free @ level
        return cast(Array, posterior.seen.T @ rest), cast(Array, level)


@dataclass(frozen=True)
class OtherKernels:
    """The mixture, and the fit's own kernel on the same sample."""

    sample: Sampled

    @cached_property
    def own(self) -> Model:
        """The fit on the sample, with the fit's ratio of prior to noise."""
        sample = self.sample
        posterior = self._posterior(sample.kernel, sample.free())
        at = np.array([sample.step_sum * posterior.free.total / sample.n_observations])
        return Model(posterior, *sample.projected(posterior), at, np.ones(1), np.ones(1))

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The likeliest models, which hold nearly all of the probability."""
        sample = self.sample
        n, d = sample.rows.shape
        free = sample.free(every_slope=sample.intercept and n >= _ROWS_PER_SLOPE * d)
        metric = _metric(sample.kernel, d)
        unit, own = median_distance(sample.kernel.places(sample.rows) / metric) * metric, sample.kernel
        scaled = (kernel.with_length_scale(unit * s) for kernel in _KERNELS for s in _LENGTHS)
        return _likeliest([self._weighed(own.with_inner(kernel), free) for kernel in scaled])

    def _posterior(self, kernel: Kernel, free: Free) -> Posterior:
        return posterior_of_rows(kernel, self.sample.rows, self.sample.weights, free, free.total)

    def _weighed(self, kernel: Kernel, free: Free) -> Model:
        """A kernel at a grid of readings; shares are log likelihoods, the noise variance at its best."""
        posterior = self._posterior(kernel, free)
        coordinates, level = self.sample.projected(posterior)
        values = posterior.eigenvalues
        step_sums = ratio_grid(float(values[-1]), _READINGS)
        grown = 1 + np.outer(step_sums, values)
        freedom = free.total - len(level)
        noise = np.maximum(((coordinates**2 / grown).sum(axis=1) + self.sample.within) / freedom, 1e-300)
        log_likelihood = -0.5 * (freedom * np.log(noise) + np.log(grown).sum(axis=1))
        return Model(posterior, coordinates, level, step_sums, noise, log_likelihood)

    def moments(self, new: Array) -> Array:
        """Mean squares under other kernels, (2, m), shrunk to the size of the table.

        Of what they say less what the fit says, and of how far from that the curve may be.
        """
        share, out = self.own.posterior.free.total / self.sample.n_observations, np.zeros((2, len(new)))
        if share >= _NEGLIGIBLE:
            for part in spans(len(new), _TILE):
                deviations = np.hstack([model.deviations(new[part]) for model in self.models])
                out[0, part] = share * (self._gaps(new[part]) ** 2 @ self._shares)
                out[1, part] = share * (deviations**2 @ self._shares)
        return out

    def half_width(self, new: Array, level: float, noise_std: Array) -> Array:
        """Half of the interval around the fit that holds the mixture's probability `level`, (m,)."""
        out = np.empty(len(new))
        for part in spans(len(new), _TILE):
            deviations = np.hstack([model.deviations(new[part]) for model in self.models])
            deviations = np.maximum(np.hypot(deviations, noise_std[part, None]), 1e-300)
            out[part] = _half_widths(self._gaps(new[part]), deviations, self._shares, level)
        return out

    @cached_property
    def _shares(self) -> Array:
        return np.concatenate([model.share for model in self.models])

    def _gaps(self, new: Array) -> Array:
        """The mean of every model less the fit's, (m, models)."""
        own = self.own.means(new)
        return np.hstack([model.means(new) - own for model in self.models])


@dataclass(frozen=True)
class Others:
    """The mixture of each response, and the box of the training rows, (2, d)."""

    box: Array
    responses: tuple[OtherKernels, ...]

    def outside(self, rows: Array) -> Array:
        """Which rows lie outside the box."""
        return cast(Array, outside(self.box, rows).any(axis=1))

    def nearest(self, rows: Array) -> Array:
        """The nearest point of the box."""
        return np.clip(rows, *self.box)

    def moments(self, rows: Array) -> Array:
        """As of one, (2, m, q)."""
        return np.stack([each.moments(rows) for each in self.responses], axis=-1)

    def half_width(self, rows: Array, level: float, noise_std: Array) -> Array:
        """As of one, (m, q)."""
        each = zip(self.responses, noise_std.T, strict=True)
        return np.column_stack([others.half_width(rows, level, noise) for others, noise in each])


def sample_places(problem: Problem, kernel: Kernel, trend: Trend | None, step_sum: float) -> Sampled:
    """At most 200 distinct places of a problem of one response, whatever the order and number of rows at each."""
    features = look_at_features(problem.covariates, problem.weights)
    found = make_sample(problem, features, SAMPLE_ROWS)
    rows = np.tile(problem.covariates[0].astype(np.float64), (found.n_rows, 1))
    rows[:, features.kept] = features.centre + features.spread * found.covariates
    varies = found.means.shape[1] > 0
    unit = float(problem.scale[0] * found.unit[0]) if varies else 0.0
    response = unit * found.means[:, 0] if varies else np.zeros(found.n_rows)
    within = unit**2 * float(found.spread_within[0]) if varies else 0.0
    settings = kernel, problem.intercept, trend, step_sum, problem.n_samples
    return Sampled(rows, found.weights, response, within, *settings)


def has_length_scale(kernel: Kernel) -> bool:
    """Whether other length scales can be put in place of a kernel's own."""
    return any(isinstance(part, Stationary) for part in parts(kernel))


def _metric(kernel: Kernel, n_features: int) -> Array:
    """The length scales of a kernel's first part that has any, (d,)."""
    scales = next(part.scales for part in parts(kernel) if isinstance(part, Stationary))
    return np.broadcast_to(scales, (n_features,))


def _likeliest(tried: Sequence[Model]) -> tuple[Model, ...]:
    """Log likelihoods made shares that add up to one, and unlikely models left out."""
    logs = np.array([model.share for model in tried])
    shares = np.exp(logs - logsumexp(logs))
    ordered = np.sort(shares.ravel())[::-1]
    least = ordered[int(np.searchsorted(np.cumsum(ordered), _KEPT))]
    total = float(ordered[ordered >= least].sum())
    found = []
    for model, share in zip(tried, shares, strict=True):
        kept = share >= least
        if kept.any():
            at = model.step_sums[kept], model.noise[kept], share[kept] / total
            found.append(Model(model.posterior, model.coordinates, model.level, *at))
    return tuple(found)


def _half_widths(gaps: Array, deviations: Array, shares: Array, level: float) -> Array:
    """The h of each row with sum_k share_k P(|gap_k + deviation_k Z| <= h) = level, by halving."""
    low = np.zeros(len(gaps))
    high = np.abs(gaps).max(axis=1) + deviations.max(axis=1) * math.sqrt(1 / (1 - level))
    for _ in range(_HALVINGS):
        middle = ((low + high) / 2)[:, None]
        inside = (ndtr((middle - gaps) / deviations) - ndtr((-middle - gaps) / deviations)) @ shares
        low, high = np.where(inside < level, middle[:, 0], low), np.where(inside < level, high, middle[:, 0])
    return cast(Array, high)
