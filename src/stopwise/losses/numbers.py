"""Losses for numbers: least squares, two that outliers do not rule, and one for counts. r = y - f throughout."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit, xlogy

from stopwise._support.arrays import Array
from stopwise._support.checks import is_finite
from stopwise.losses.base import Convexity, OneValueLoss, spread_of

_HIGHEST = 600.0
"""exp(f) is held finite: beyond, the loss of a count goes on along its tangent."""


@dataclass(frozen=True)
class Squared(OneValueLoss):
    """phi = r^2 / 2: its minimisers along the clock are ridge's."""

    name: ClassVar[str] = "squared"

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        return (y - f) ** 2 / 2, f - y, np.ones(len(y))

    def convexity(self, reach: float) -> Convexity:
        return Convexity(1.0, 1.0)


class _WithScale(OneValueLoss):
    """A loss with a scale in the units of y, the field `scale_name`; "auto": `spreads` times the residuals' spread."""

    scale_name: ClassVar[str]
    spreads: ClassVar[float]

    def __post_init__(self) -> None:
        value = getattr(self, self.scale_name)
        if value != "auto" and not (is_finite(value) and value > 0):
            raise ValueError(f'{self.scale_name} must be "auto" or a positive number in the units of y, got {value!r}')

    @property
    def scale(self) -> float:
        """The scale, once it is settled."""
        return float(getattr(self, self.scale_name))

    @abstractmethod
    def limit(self, residual: Array) -> float:
        """How far residuals count where squares choose a kernel; beyond twice that they say nothing and count as 0."""

    def targets(self, y: Array, left_out: Array) -> Array:
        residual = y - left_out
        limit = self.limit(residual)
        drawn_in = np.where(np.abs(residual) > 2 * limit, 0.0, np.clip(residual, -limit, limit))
        return np.asarray(left_out + drawn_in)[:, None]

    def rescaled(self, factor: float) -> Self:
        return self if getattr(self, self.scale_name) == "auto" else self._with(self.scale / factor)

    def resolved(self, spread: float) -> Self:
        return self._with(self.spreads * spread) if getattr(self, self.scale_name) == "auto" else self

    def _with(self, scale: float) -> Self:
        return replace(self, **{self.scale_name: scale})  # type: ignore[type-var]


@dataclass(frozen=True)
class Huber(_WithScale):
    """phi = r^2 / 2 for |r| <= t and t |r| - t^2 / 2 beyond, t = `threshold` in the units of y; "auto": 1.345 robust
    standard deviations of left-out residuals, 95% efficiency for normal noise (Huber 1981)."""

    threshold: float | str = "auto"
    name: ClassVar[str] = "huber"
    degree: ClassVar[int] = 2
    scale_name: ClassVar[str] = "threshold"
    spreads: ClassVar[float] = 1.345

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        size, t = np.abs(f - y), self.scale
        value = np.where(size <= t, size**2 / 2, t * size - t**2 / 2)
        return value, np.clip(f - y, -t, t), (size <= t).astype(np.float64)

    def convexity(self, reach: float) -> Convexity:
        """The theorem asks for curvature 1 on the range of the residuals: the threshold must not be met there."""
        return super().convexity(reach) if reach > self.scale else Convexity(1.0, 1.0)

    def limit(self, residual: Array) -> float:
        return 2 * self.scale


@dataclass(frozen=True)
class Quantile(_WithScale):
    """The check loss of the `quantile` q with its kink rounded: phi = q r + h log(1 + exp(-r / h)).

    h = `smoothing`, in the units of y ("auto": a fifth of the residuals' spread); h -> 0 is r (q - 1{r < 0}). It is the
    check loss convolved with a logistic density of scale h (Fernandes, Guerre & Horta 2021).
    """

    quantile: float = 0.5
    smoothing: float | str = "auto"
    name: ClassVar[str] = "quantile"
    degree: ClassVar[int] = 1
    scale_name: ClassVar[str] = "smoothing"
    spreads: ClassVar[float] = 0.2

    def __post_init__(self) -> None:
        if not (is_finite(self.quantile) and 0 < self.quantile < 1):
            raise ValueError(f"quantile must lie between 0 and 1, both excluded, got {self.quantile!r}: .9 is the 90th")
        super().__post_init__()

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        u = (f - y) / self.scale
        value = self.scale * (np.logaddexp(0.0, u) - self.quantile * u)
        return value, expit(u) - self.quantile, expit(u) * expit(-u) / self.scale

    def limit(self, residual: Array) -> float:
        return 4 * spread_of(residual, np.ones(len(residual)))


@dataclass(frozen=True)
class Poisson(OneValueLoss):
    """phi = exp(f) - y f - (y - y log y), half the deviance of a count; f is the logarithm of the mean."""

    name: ClassVar[str] = "poisson"

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        mean = np.exp(np.minimum(f, _HIGHEST))
        value = mean * (1 + np.maximum(f - _HIGHEST, 0.0)) - y * f - y + xlogy(y, y)
        return value, mean - y, mean

    def natural(self, f: Array) -> Array:
        return np.exp(np.minimum(f[:, 0], _HIGHEST))

    def check(self, y: Array) -> None:
        if y.min() < 0:
            raise ValueError(
                f'loss="poisson" is for counts of at least 0, got {float(y.min()):g}: leave such rows out, or use '
                'loss="squared"'
            )
        if y.max() == 0:
            raise ValueError('loss="poisson" needs a count above 0, and every one is 0: there is nothing to fit')

    def targets(self, y: Array, left_out: Array) -> Array:
        return np.log(y + 0.5)[:, None]  # E log(y + c) = log m + (c - 1/2) / m + ..., m the mean
