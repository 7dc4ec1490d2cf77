"""Kernels on an interval: Sobolev splines, anchored or free, and periodic ones."""

import math
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import flag, positive, real_array
from stopwise.kernels.base import Kernel, Rows, as_matrix, one_feature

Interval = tuple[float, float] | Literal["auto"]


def _as_interval(value: object) -> Interval:
    if isinstance(value, str) and value == "auto":
        return "auto"
    ends = np.empty(0) if isinstance(value, str) else real_array(value, "interval")
    if ends.shape != (2,):
        raise ValueError(f'interval must be (left, right) or "auto", got {value!r}')
    left, right = (float(end) for end in ends)
    if not (left < right and math.isfinite(right - left)):
        raise ValueError(f"interval needs two finite ends, left < right; got ({left!r}, {right!r})")
    return (left, right)


@dataclass(frozen=True)
class _OnInterval(Kernel):
    order: int = 1

    def ends(self) -> tuple[float, float]:
        interval = self.interval  # type: ignore[attr-defined]
        if interval == "auto":
            raise ValueError(
                'interval="auto" is read off the data when an estimator is fitted; give (left, right) to '
                "evaluate the kernel by itself"
            )
        return cast(tuple[float, float], interval)

    def unit(self, values: Array) -> Array:
        """The covariate mapped from the kernel's interval to [0, 1]."""
        left, right = self.ends()
        if (left, right) == (0.0, 1.0):
            return values
        return cast(Array, (values - values.dtype.type(left)) / values.dtype.type(right - left))

    def prepare(self, covariates: Array, origin: Array) -> Rows:
        return self.unit(one_feature(covariates, self.name))

    def resolved(self, covariates: Array) -> Kernel:
        if self.interval != "auto":  # type: ignore[attr-defined]
            return self
        column = one_feature(covariates, self.name)
        left, right = float(column.min()), float(column.max())
        if left == right:
            left, right = left - 0.5, right + 0.5
        return replace(self, interval=(left, right))  # type: ignore[call-arg]


@dataclass(frozen=True)
class Sobolev(_OnInterval):
    """Splines on an interval; u, v are x, z mapped to [0, 1], m = min(u, v), M = max(u, v).

    order 1, anchored (RWY14, first-order Sobolev): min(u, v); functions with f = 0 at the left end.
    order 2, anchored: m^2 (3M - m) / 6; f and f' vanish at the left end (cubic splines).
    `anchored=False` frees the value (order 1: + 1) and the slope (order 2: + 1 + u v) there.
    """

    anchored: bool = True
    interval: Interval = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"Sobolev order must be 1 or 2, got {self.order!r}")
        flag(self.anchored, "anchored")
        object.__setattr__(self, "interval", _as_interval(self.interval))

    @property
    def name(self) -> str:
        return f"sobolev{self.order}"

    def check(self, covariates: Array) -> None:
        column = one_feature(covariates, self.name)
        left, right = self.ends()
        slack = 1e-12 * (right - left)
        if column.size and (column.min() < left - slack or column.max() > right + slack):
            raise ValueError(
                f"the {self.name} kernel lives on [{left:g}, {right:g}] but the covariate runs from "
                f"{column.min():g} to {column.max():g}: rescale it, or state Sobolev(interval=(a, b)) wide "
                'enough for all data to come (or interval="auto" at fit)'
            )

    def pair(self, x: Array, z: Array) -> float:
        u, v = (float(self.unit(np.atleast_1d(np.asarray(p, dtype=np.float64)))[0]) for p in (x, z))
        low, high = min(u, v), max(u, v)
        if self.order == 1:
            return low + (0.0 if self.anchored else 1.0)
        return low * low * (3 * high - low) / 6 + (0.0 if self.anchored else 1.0 + u * v)

    def block(self, left: Rows, right: Rows) -> Array:
        low = np.minimum(left[:, None], right[None, :])
        if self.order == 1:
            if not self.anchored:
                low += 1.0
            return cast(Array, low)
        out = 3.0 * np.maximum(left[:, None], right[None, :])
        out -= low
        low *= low
        out *= low
        out /= 6.0
        if not self.anchored:
            out += left[:, None] * right[None, :]
            out += 1.0
        return cast(Array, out)

    def diagonal(self, covariates: ArrayLike) -> Array:
        u = self.unit(one_feature(as_matrix(covariates), self.name))
        anchored = u if self.order == 1 else u**3 / 3.0
        if self.anchored:
            return cast(Array, anchored.copy())
        return cast(Array, 1.0 + anchored + (0.0 if self.order == 1 else u * u))


_BERNOULLI = {1: (1.0, -1.0, 1 / 6), 2: (1.0, -2.0, 1.0, 0.0, -1 / 30), 3: (1.0, -3.0, 2.5, 0.0, -0.5, 0.0, 1 / 42)}
"""Coefficients of the Bernoulli polynomials B_2m, highest power first, by m."""


@dataclass(frozen=True)
class PeriodicSobolev(_OnInterval):
    """Periodic functions on an interval, by Bernoulli polynomials (order 1, 2 or 3).

    k(x, z) = 1 + (-1)^(m-1) (2 pi)^(2m) / (2m)! B_2m({u - v}) = 1 + 2 sum_j j^(-2m) cos(2 pi j (u - v)).
    The interval's width is the period, and x may lie anywhere. For a season beside a trend add it to another kernel:
    Matern(5.0, 2.5) + PeriodicSobolev.of_period(1.0). A sum has no banded form: it is solved densely, by Krylov spaces
    or by landmarks, and `solver_` says how.
    """

    interval: Interval = (0.0, 1.0)

    @classmethod
    def of_period(cls, period: float, order: int = 2) -> "PeriodicSobolev":
        """Functions that repeat after `period`, in the units of the covariate."""
        return cls(order, (0.0, positive(period, "period")))

    def __post_init__(self) -> None:
        if self.order not in (1, 2, 3):
            raise ValueError(f"PeriodicSobolev order must be 1, 2 or 3, got {self.order!r}")
        object.__setattr__(self, "interval", _as_interval(self.interval))

    @property
    def name(self) -> str:
        return f"periodicsobolev{self.order}"

    def check(self, covariates: Array) -> None:
        one_feature(covariates, self.name)

    def _of_shift(self, shift: Array) -> Array:
        fraction = shift - np.floor(shift)
        m = self.order
        factor = (-1) ** (m - 1) * (2 * math.pi) ** (2 * m) / math.factorial(2 * m)
        return cast(Array, (1.0 + factor * np.polyval(_BERNOULLI[m], fraction)).astype(shift.dtype))

    def pair(self, x: Array, z: Array) -> float:
        u, v = (self.unit(np.atleast_1d(np.asarray(p, dtype=np.float64))) for p in (x, z))
        return float(self._of_shift(u - v)[0])

    def block(self, left: Rows, right: Rows) -> Array:
        # |u - v| keeps the matrix exactly symmetric: B_2m(t) = B_2m(1 - t).
        return self._of_shift(np.abs(left[:, None] - right[None, :]))

    def diagonal(self, covariates: ArrayLike) -> Array:
        return self._of_shift(np.zeros_like(one_feature(as_matrix(covariates), self.name)))
