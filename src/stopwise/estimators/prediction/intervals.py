"""Prediction intervals: a normalised jackknife.

The half-width at x is q s(x). s^2(x) is the noise of a new observation plus the variance of the estimate there
(`Posterior`), both in units of the noise variance; at training rows the same with the row left out is 1 / (w (1 - h)).
q is the quantile of left-out residuals over those scales, ridge's on the fit's own clock, exact for ridge. It carries
no finite-sample guarantee: the kernel and the stop were chosen on the same rows, which `Uncertainty.optimism` allows
for as far as counting parameters can (Akaike's final prediction error).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from scipy.stats import norm

from stopwise._support.arrays import Array
from stopwise._support.checks import is_number
from stopwise.estimators.fitted import Fitted
from stopwise.estimators.prediction.host import predict_features
from stopwise.estimators.prediction.other_kernels import Others
from stopwise.estimators.prediction.posterior import Posterior, Variance
from stopwise.estimators.prediction.varying_noise import VaryingNoise
from stopwise.selection.learning import prior_variance
from stopwise.selection.result import Selection

Of = Literal["new", "mean"]
_STD_LEVEL = 0.9
"""A standard deviation is the half-width at this level over the normal quantile there."""


@dataclass(frozen=True)
class Ratios:
    """Left-out residuals over their scales, sorted, and what each counts: a share of one in a set left out whole."""

    values: Array
    counts: Array

    @property
    def total(self) -> int:
        """How many observations were left out."""
        return round(float(self.counts.sum()))

    def quantile(self, level: float) -> float:
        """The ceil((n + 1) level)-th smallest ratio (Lei et al. 2018)."""
        n = self.total
        rank = math.ceil((n + 1) * level * (1 - 1e-12))
        if not 1 <= rank <= n:
            what = "groups or blocks" if np.any(self.counts < 1) else "rows"
            raise ValueError(
                f"level must be at most n / (n + 1) = {n / (n + 1):.4g} with {n} left-out {what}, got {level:g}: ask "
                f"for a lower level or give more {what}"
            )
        return float(self.values[int(np.searchsorted(np.cumsum(self.counts), rank * (1 - 1e-12)))])


@dataclass(frozen=True)
class Calibration:
    """Of one response: the ratios of observations, and the variation of their noise.

    Where copies were merged, `given` are those of rows as they were given, one copy left out at a time: a new row may
    be unlike all, or repeat one again, and the factor holds for both.
    """

    observed: Ratios
    given: Ratios | None
    varying: VaryingNoise | None
    residuals: Ratios
    """Left-out residuals themselves, units of y."""

    @property
    def n_observations(self) -> int:
        """How many observations were left out."""
        return self.observed.total

    def quantile(self, level: float) -> float:
        """The factor at this level."""
        found = self.observed.quantile(level)
        return found if self.given is None else max(found, self.given.quantile(level))


@dataclass(frozen=True)
class Uncertainty:
    """All that intervals need beside the predictions."""

    posterior: Variance
    calibrations: tuple[Calibration, ...]
    step_sums: Array
    optimism: float
    others: Others | None = None
    """Where the kernel was chosen from the data: what other kernels say."""

    def half_width(
        self, X: Array, level: float, of: Of, weights: Array | None = None, variance: Array | None = None
    ) -> Array:
        """Half the interval's width at rows (as the kernel takes them), (m, q), in the units of y.

        `variance` is the posterior's at X, where it is known. Outside the box of the training rows the half-width is
        at least that at the nearest point of the box, grown as the interval of all kernels that the data allow grows
        from there: h^2(x) >= h^2(p) + o^2(x) - o^2(p). What holds new observations holds the curve in their middle.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # which `checked_widths` tells of
            variance = self.variance(X) if variance is None else variance
            half = self._half_width(X, level, of, weights, variance)
            if of == "mean":
                half = np.minimum(half, self._half_width(X, level, "new", None, variance))
        return checked_widths(half, X)

    def _half_width(self, X: Array, level: float, of: Of, weights: Array | None, variance: Array) -> Array:
        """The same of either kind alone."""
        half = self._calibrated(X, level, of, weights, variance)
        if self.others is None or not (far := self.others.outside(X)).any():
            return half
        weights = None if weights is None else weights[far]
        away, edge = X[far], self.others.nearest(X[far])
        grown = self._by_others(away, level, of, weights) ** 2 - self._by_others(edge, level, of, weights) ** 2
        half[far] = np.sqrt(
            np.maximum(half[far] ** 2, self._calibrated(edge, level, of, weights) ** 2 + np.maximum(grown, 0.0))
        )
        return half

    def variance(self, X: Array) -> Array:
        """The estimate's variance at rows in units of the noise's, (m, q)."""
        return self.posterior.variance(X, self.step_sums)

    def std(self, X: Array, of: Of, variance: Array | None = None) -> Array:
        """A standard deviation, (m, q): the 90% half-width over 1.645, or the highest level that few rows allow."""
        level = min(_STD_LEVEL, min((c.n_observations / (c.n_observations + 1)) for c in self.calibrations))
        return self.half_width(X, level, of, None, variance) / _normal(level)

    def _calibrated(
        self, X: Array, level: float, of: Of, weights: Array | None, variance: Array | None = None
    ) -> Array:
        """q s(x); of the curve at least what other kernels allow, and by how much they differ from the fit.

        Left-out rows cannot show that.
        """
        scale = self._scale(self.variance(X) if variance is None else variance, X, of, weights)
        half = scale * self.optimism * self._quantiles(level)
        if of == "new" or self.others is None:
            return half
        gaps, variance = _normal(level) ** 2 * self.others.moments(X)
        return cast(Array, np.sqrt(np.maximum(half**2, variance) + gaps))

    def _by_others(self, X: Array, level: float, of: Of, weights: Array | None) -> Array:
        """The half-width of the mixture of other kernels, with the noise of a new observation as left-out rows show."""
        assert self.others is not None
        noise = np.zeros((len(X), len(self.step_sums)))
        if of == "new":
            noise = self._noise(X) / (1.0 if weights is None else weights[:, None])
            noise = noise * (self.optimism * self._quantiles(level) / _normal(level)) ** 2
        return self.others.half_width(X, level, np.sqrt(noise))

    def _scale(self, variance: Array, X: Array, of: Of, weights: Array | None) -> Array:
        """sqrt of noise (for "new") and estimate's variance, in units of the noise."""
        own = 1.0 if weights is None else 1 / weights[:, None]
        return cast(Array, np.sqrt((variance + own if of == "new" else variance) * self._noise(X)))

    def _noise(self, X: Array) -> Array:
        """The variance of a new observation of weight one, (m, q), in units of the mean noise."""
        varying = [each.varying for each in self.calibrations]
        each_row = [np.ones(len(X)) if each is None else np.exp(each.log_variance(X)) for each in varying]
        return np.column_stack(each_row)

    def _quantiles(self, level: float) -> Array:
        return np.array([each.quantile(level) for each in self.calibrations])


def check_level(level: object) -> float:
    """A coverage between 0 and 1."""
    if not is_number(level) or not 0 < float(cast(float, level)) < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}: 0.9 covers nine of ten new observations")
    return float(cast(float, level))


def check_of(of: object) -> Of:
    """What an interval is for."""
    if of not in ("new", "mean"):
        raise ValueError(f'of must be "new" (observations) or "mean" (the curve), got {of!r}')
    return cast(Of, of)


def _normal(level: float) -> float:
    """How many standard deviations on either side hold this share of a normal number."""
    return float(norm.ppf((1 + level) / 2))


def checked_widths(widths: Array, X: Array) -> Array:
    """Widths (m, q) at rows, refused where they are beyond what a float holds."""
    if np.isfinite(widths).all():
        return widths
    far = int(np.abs(X).max(axis=1).argmax())
    raise ValueError(
        "intervals and standard deviations must be below about 1e150, to be squared, and grow past that with the "
        f"distance from the training rows: row {far} of X reaches {np.abs(X[far]).max():.3g}; leave such rows out, "
        "rescale y, or predict without them"
    )


def standard_deviations(
    fitted: Fitted, uncertainty: Uncertainty | None, X: Array, of: Of, variance: Array | None
) -> Array:
    """Standard deviations at rows as the kernel takes them, (m, q); `variance` is the posterior's, where it is known.

    A fit that kept sums over rows alone knows the estimate's noise and not what bias and noise left-out rows show.
    """
    if uncertainty is not None:
        return uncertainty.std(X, of, variance)
    if fitted.spread is None:
        raise ValueError("standard deviations need the rows of the fit, and this one kept none: fit again")
    with np.errstate(over="ignore", invalid="ignore"):
        variance = fitted.spread.variance(X) + float(of == "new")
        return checked_widths(np.sqrt(variance * fitted.noise_std**2), X)


def predict_with_variance(
    fitted: Fitted, uncertainty: Uncertainty | None, X: Array, n_jobs: int | None
) -> tuple[Array, Array | None]:
    """Predictions at rows as the kernel takes them, (m, q), and the posterior's variance where one pass gives both."""
    posterior = None if uncertainty is None else uncertainty.posterior
    if not isinstance(posterior, Posterior) or not np.array_equal(posterior.rows, fitted.covariates):
        return predict_features(fitted, X, n_jobs), None
    assert uncertainty is not None
    values, variance = posterior.beside(fitted.dual_coef, X, uncertainty.step_sums, n_jobs)
    return values + fitted.beside_kernel(X), variance


def optimism(fitted: Fitted) -> float:
    """sqrt((n + p) / (n - p)): what p parameters chosen on n observations flatter errors by (Akaike 1970).

    The kernel was chosen on the observations behind the distinct rows that it was judged on.
    """
    parameters, n, selection = float(not fitted.rule.reads_clock_only), fitted.path.n_samples, fitted.selection
    if selection is not None and len(selection):
        n *= selection.n_rows / selection.n_distinct if selection.n_rows else 1.0
        parameters += 2 + free_scales(selection)
    parameters = min(parameters, n / 2)
    return math.sqrt((n + parameters) / (n - parameters))


def free_scales(selection: Selection) -> float:
    """How many length scales the data moved away from the common one.

    Those of each feature have a Gaussian prior about their mean; with a prior that fits them, sum (gap / spread)^2 is
    the number of parameters that the data determine (MacKay 1992).
    """
    chosen = next((row for row in selection if row.get("chosen")), {})
    if not chosen.get("per_feature"):
        return 0.0
    logs = np.log([float(cast(float, row["relevance"])) for row in selection.features if row.get("relevance")])
    if not logs.size:
        return 0.0
    moved = float(((logs - logs.mean()) ** 2).sum()) / prior_variance(selection.n_rows, logs.size)
    return min(moved, logs.size - 1.0)
