"""Losses that outliers do not rule: Huber's, and a smoothed quantile loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import expit

from stopwise._support.arrays import Array
from stopwise._support.checks import is_finite
from stopwise.losses.base import Convexity, Loss, spread_of

HUBER_SCALES = 1.345
"""Residuals beyond so many standard deviations count linearly: 95% efficiency for normal noise (Huber 1981)."""
WIDTH_SCALES = 0.2
"""The quantile's kink is rounded over so many standard deviations of the residuals."""


@dataclass(frozen=True)
class Huber(Loss):
    """phi = r^2 / 2 for |r| <= t and t |r| - t^2 / 2 beyond, r = y - f, t = `threshold` in the units of y.

    "auto": 1.345 robust standard deviations of left-out residuals.
    """

    threshold: float | str = "auto"
    name: ClassVar[str] = "huber"
    has_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_scale(self.threshold, "threshold")

    def value(self, y: Array, f: Array) -> Array:
        size, t = np.abs(y - f[:, 0]), float(self.threshold)
        return np.asarray(np.where(size <= t, size**2 / 2, t * size - t**2 / 2))

    def slope(self, y: Array, f: Array) -> Array:
        return np.asarray(np.clip(f - y[:, None], -float(self.threshold), float(self.threshold)))

    def curvature(self, y: Array, f: Array) -> Array:
        return np.asarray((np.abs(f - y[:, None]) <= float(self.threshold)).astype(np.float64)[:, :, None])

    def convexity(self, reach: float) -> Convexity:
        """The theorem asks for curvature 1 on the range of the residuals: the threshold must not be met there."""
        if reach > float(self.threshold):
            return super().convexity(reach)
        return Convexity(1.0, 1.0)

    def robust(self, y: Array, left_out: Array) -> Array:
        return left_out + _drawn_in(y - left_out, 2 * float(self.threshold))

    def rescaled(self, factor: float) -> Huber:
        return self if isinstance(self.threshold, str) else replace(self, threshold=self.threshold / factor)

    def resolved(self, residual: Array, weights: Array) -> Huber:
        if self.threshold != "auto":
            return self
        return replace(self, threshold=HUBER_SCALES * spread_of(residual, weights))


@dataclass(frozen=True)
class Quantile(Loss):
    """The check loss of the `quantile` q with its kink rounded: phi = q r + h log(1 + exp(-r / h)), r = y - f.

    h = `smoothing`, in the units of y ("auto": a fifth of the residuals' spread); h -> 0 is r (q - 1{r < 0}). It is the
    check loss convolved with a logistic density of scale h (Fernandes, Guerre & Horta 2021).
    """

    quantile: float = 0.5
    smoothing: float | str = "auto"
    name: ClassVar[str] = "quantile"
    has_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (is_finite(self.quantile) and 0 < self.quantile < 1):
            raise ValueError(f"quantile must lie between 0 and 1, both excluded, got {self.quantile!r}: .9 is the 90th")
        _check_scale(self.smoothing, "smoothing")

    def value(self, y: Array, f: Array) -> Array:
        r, h = y - f[:, 0], float(self.smoothing)
        return self.quantile * r + h * np.logaddexp(0.0, -r / h)

    def slope(self, y: Array, f: Array) -> Array:
        return np.asarray(expit((f - y[:, None]) / float(self.smoothing)) - self.quantile)

    def curvature(self, y: Array, f: Array) -> Array:
        u, h = (f - y[:, None]) / float(self.smoothing), float(self.smoothing)
        return np.asarray((expit(u) * expit(-u) / h)[:, :, None])

    def robust(self, y: Array, left_out: Array) -> Array:
        return left_out + _drawn_in(y - left_out, 4 * spread_of(y - left_out, np.ones(len(y))))

    def rescaled(self, factor: float) -> Quantile:
        return self if isinstance(self.smoothing, str) else replace(self, smoothing=self.smoothing / factor)

    def resolved(self, residual: Array, weights: Array) -> Quantile:
        if self.smoothing != "auto":
            return self
        return replace(self, smoothing=WIDTH_SCALES * spread_of(residual, weights))


def _drawn_in(residual: Array, limit: float) -> Array:
    """Residuals clipped at a limit; those beyond twice the limit say nothing and count as 0."""
    return np.where(np.abs(residual) > 2 * limit, 0.0, np.clip(residual, -limit, limit))


def _check_scale(value: object, name: str) -> None:
    if isinstance(value, str) and value == "auto":
        return
    if not (is_finite(value) and float(value) > 0):  # type: ignore[arg-type]
        raise ValueError(f'{name} must be "auto" or a positive number in the units of y, got {value!r}')
