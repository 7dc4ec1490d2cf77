"""Filters: eigenvalue and step_sum in, shrinkage out.

A filter answers three questions about each eigen-direction at a clock reading eta: the `shrinkage` S left on
the residual, the `gain` 1 - S of the fit, and the `weight` gain / lambda that makes dual weights, with its
limit where lambda = 0 (no pseudo-inverse). All share the clock of RWY14's running sum.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import at_least_zero, did_you_mean, is_finite
from stopwise.schedules import Constant, Schedule, as_schedule, largest_step

TWO_E = 2 * math.e
"""The constant of RWY14's stopping inequality, from the proof: descent shrinks so that S^2 <= 1 / (2 e eta lambda)."""
Clock: TypeAlias = float | Array
"""One clock reading, or a column of them."""


class Filter(ABC):
    """A way of fitting less than everything; bound to the largest eigenvalue before use.

    A subclass gives `_shrinkage`, and `_gain` or `_weight`; where it `_broadcasts`, a column of clock readings may take
    the place of a single one in all of them.
    """

    name: ClassVar[str]
    default_constant: ClassVar[float] = TWO_E
    """The constant of the stopping inequality that this filter's own shrinkage bound gives."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()

    def bind(self, largest_eigenvalue: float) -> Filter:
        """The filter made ready for a spectrum whose eigenvalues are at most `largest_eigenvalue`."""
        return self

    @abstractmethod
    def _shrinkage(self, eigenvalues: Array, step_sum: Clock) -> Array:
        """S at one clock reading."""

    def _gain(self, eigenvalues: Array, step_sum: Clock) -> Array:
        """1 - S at one clock reading."""
        return cast(Array, self._weight(eigenvalues, step_sum) * eigenvalues)

    def _weight(self, eigenvalues: Array, step_sum: Clock) -> Array:
        """gain / lambda at one clock reading; its limit where lambda is zero (or the quotient would overflow)."""
        positive = eigenvalues > np.finfo(np.float64).tiny
        quotient = self._gain(eigenvalues, step_sum) / np.where(positive, eigenvalues, 1.0)
        return np.where(positive, quotient, self._weight_at_zero(step_sum))

    def _weight_at_zero(self, step_sum: Clock) -> Clock:
        """The limit of gain / lambda at lambda = 0: the distance travelled."""
        return self.snap(step_sum)

    def _broadcasts(self) -> bool:
        return True

    def snap(self, step_sum: ArrayLike) -> Array:
        """The last clock reading at or before `step_sum` that the filter can stop at."""
        return np.asarray(step_sum, dtype=np.float64)

    def shrinkage(self, eigenvalues: ArrayLike, step_sum: ArrayLike) -> Array:
        """S, of shape step_sum.shape + (len(eigenvalues),)."""
        return self._each(self._shrinkage, eigenvalues, step_sum)

    def gain(self, eigenvalues: ArrayLike, step_sum: ArrayLike) -> Array:
        """1 - S, accurate where it is tiny; same shape as `shrinkage`."""
        return self._each(self._gain, eigenvalues, step_sum)

    def weight(self, eigenvalues: ArrayLike, step_sum: ArrayLike) -> Array:
        """(1 - S) / lambda with its limit at lambda = 0; same shape as `shrinkage`."""
        return self._each(self._weight, eigenvalues, step_sum)

    def _each(self, rule: Callable[[Array, Clock], Array], eigenvalues: ArrayLike, step_sum: ArrayLike) -> Array:
        values, sums = _checked(eigenvalues, step_sum)
        if sums.ndim == 0:
            return rule(values, float(sums))
        if self._broadcasts():
            return rule(values, sums[..., None])
        return np.stack([rule(values, float(s)) for s in sums]) if sums.size else np.empty((0, values.size))


def _checked(eigenvalues: ArrayLike, step_sum: ArrayLike) -> tuple[Array, Array]:
    """Eigenvalues and clock readings that every formula below can take."""
    values, sums = at_least_zero(eigenvalues, "eigenvalues"), at_least_zero(step_sum, "step_sum")
    if not math.isfinite(float(values.max(initial=0.0)) * float(sums.max(initial=0.0))):
        raise ValueError(
            f"step_sum times the largest eigenvalue must be finite, got {sums.max():g} times {values.max():g}: rescale "
            "the kernel, or stop earlier"
        )
    return values, sums


class SteppedFilter(Filter):
    """A filter that moves in whole iterations."""

    @abstractmethod
    def step_sum(self, iteration: ArrayLike) -> Array:
        """The clock after so many iterations."""

    @abstractmethod
    def iteration(self, step_sum: ArrayLike) -> Array:
        """The last iteration whose clock does not pass `step_sum`."""

    def snap(self, step_sum: ArrayLike) -> Array:
        return self.step_sum(self.iteration(step_sum))


@dataclass(frozen=True)
class GradientDescent(SteppedFilter):
    """S = prod over tau < t of (1 - alpha_tau lambda) (RWY14, shrinkage matrices)."""

    schedule: object = "auto"
    name: ClassVar[str] = "descent"

    def bind(self, largest_eigenvalue: float) -> GradientDescent:
        return replace(self, schedule=as_schedule(self.schedule, largest_eigenvalue))

    def _bound_schedule(self) -> Schedule:
        if not isinstance(self.schedule, Schedule):
            raise TypeError("bind this filter to a largest eigenvalue first: filter.bind(largest_eigenvalue)")
        return self.schedule

    def step_sum(self, iteration: ArrayLike) -> Array:
        return self._bound_schedule().step_sum(iteration)

    def iteration(self, step_sum: ArrayLike) -> Array:
        return self._bound_schedule().iteration(step_sum)

    def _broadcasts(self) -> bool:
        return isinstance(self.schedule, Constant)

    def _log(self, eigenvalues: Array, step_sum: Clock) -> Array:
        iteration = self.iteration(step_sum)
        return self._bound_schedule().log_shrinkage(eigenvalues, iteration if iteration.ndim else float(iteration))

    def _shrinkage(self, eigenvalues: Array, step_sum: Clock) -> Array:
        return cast(Array, np.exp(self._log(eigenvalues, step_sum)))

    def _gain(self, eigenvalues: Array, step_sum: Clock) -> Array:
        return cast(Array, -np.expm1(self._log(eigenvalues, step_sum)))


@dataclass(frozen=True)
class Ridge(Filter):
    """S = 1 / (1 + nu lambda), nu = inverse_penalty on the clock of step_sum (RWY14, kernel ridge; E13: constant 4)."""

    name: ClassVar[str] = "ridge"
    default_constant: ClassVar[float] = 4.0

    def _shrinkage(self, eigenvalues: Array, step_sum: Clock) -> Array:
        return cast(Array, 1.0 / (1.0 + step_sum * eigenvalues))

    def _weight(self, eigenvalues: Array, step_sum: Clock) -> Array:
        return cast(Array, step_sum / (1.0 + step_sum * eigenvalues))


@dataclass(frozen=True)
class GradientFlow(Filter):
    """S = exp(-eta lambda): descent with infinitely small steps."""

    name: ClassVar[str] = "flow"

    def _shrinkage(self, eigenvalues: Array, step_sum: Clock) -> Array:
        return cast(Array, np.exp(-step_sum * eigenvalues))

    def _gain(self, eigenvalues: Array, step_sum: Clock) -> Array:
        return cast(Array, -np.expm1(-step_sum * eigenvalues))


@dataclass(frozen=True)
class CutOff(Filter):
    """S = 1 where lambda < 1/eta, else 0: regression on the leading principal components."""

    name: ClassVar[str] = "cutoff"

    def _shrinkage(self, eigenvalues: Array, step_sum: Clock) -> Array:
        return 1.0 - self._gain(eigenvalues, step_sum)

    def _gain(self, eigenvalues: Array, step_sum: Clock) -> Array:
        return np.where(eigenvalues * step_sum >= 1.0, 1.0, 0.0)

    def _weight_at_zero(self, step_sum: Clock) -> Clock:
        return 0.0


MAX_NU_STEPS = 200_000
"""The nu-method has no closed form here, so its iterations are run on the eigenvalues, at most this many."""


@dataclass(frozen=True)
class NuMethod(SteppedFilter):
    """Brakhage's accelerated descent: t steps travel as far as t^2 of plain descent.

    The recurrence runs on q = gain / lambda. Its clock, eta_k = 2 k (k + 2 nu) / ((4 nu + 1) lambda_1), is q at
    lambda = 0; under it S^2 <= 1 / (2 e eta lambda) and gain <= 1.2 min(1, eta lambda) (nu = 1; 1.09 from t = 8 on), so
    RWY14's rule carries over. Shrinkage is not monotone in eta.
    """

    nu: float = 1.0
    largest_eigenvalue: float | None = None
    name: ClassVar[str] = "nu-method"

    def __post_init__(self) -> None:
        if not (is_finite(self.nu) and self.nu > 0.5):
            raise ValueError(f"nu must be above 0.5 and finite, got {self.nu!r}")

    def bind(self, largest_eigenvalue: float) -> NuMethod:
        largest_step(largest_eigenvalue)  # refuses what cannot be an eigenvalue
        return replace(self, largest_eigenvalue=largest_eigenvalue if largest_eigenvalue > 0 else 1.0)

    def _scale(self) -> float:
        if self.largest_eigenvalue is None:
            raise TypeError("bind this filter to a largest eigenvalue first: filter.bind(largest_eigenvalue)")
        return self.largest_eigenvalue

    def step_sum(self, iteration: ArrayLike) -> Array:
        k = np.asarray(iteration, dtype=np.float64)
        return cast(Array, 2 * k * (k + 2 * self.nu) / ((4 * self.nu + 1) * self._scale()))

    def iteration(self, step_sum: ArrayLike) -> Array:
        target = np.asarray(step_sum, dtype=np.float64)
        k = np.floor(-self.nu + np.sqrt(self.nu**2 + target * (4 * self.nu + 1) * self._scale() / 2))
        k = np.where(self.step_sum(k + 1) <= target, k + 1, k)
        k = np.where(self.step_sum(k) > target, k - 1, k)
        return cast(Array, np.minimum(k, MAX_NU_STEPS))

    def _weight(self, eigenvalues: Array, step_sum: Clock) -> Array:
        wanted = np.ravel(self.iteration(step_sum)).astype(np.int64)
        x, nu = np.clip(eigenvalues / self._scale(), 0.0, 1.0), self.nu
        out = np.zeros((wanted.size, eigenvalues.size))
        before, now, due = np.zeros_like(x), np.zeros_like(x), set(wanted.tolist())
        for k in range(1, int(wanted.max(initial=0)) + 1):
            mu, omega = 0.0, (4 * nu + 2) / (4 * nu + 1)
            if k > 1:
                below = (k + 2 * nu - 1) * (2 * k + 4 * nu - 1)
                mu = (k - 1) * (2 * k - 3) * (2 * k + 2 * nu - 1) / (below * (2 * k + 2 * nu - 3))
                omega = 4 * (2 * k + 2 * nu - 1) * (k + nu - 1) / below
            before, now = now, now + mu * (now - before) + omega * (1.0 - x * now)
            if k in due:
                out[wanted == k] = now
        out /= self._scale()
        return cast(Array, out if np.ndim(step_sum) else out[0])

    def _shrinkage(self, eigenvalues: Array, step_sum: Clock) -> Array:
        return cast(Array, 1.0 - self._gain(eigenvalues, step_sum))


_DAMPING = 0.01
"""Of the weights below: descent's residual is then followed to .02 with 4 to 8 readings, and errors grow twofold."""


def sum_of_ridges(filter: Filter, readings: Array, largest_eigenvalue: float) -> Array:
    """Weights (k,) with which ridge at clock readings (k,) comes near a filter at the first of them.

    They add up to one, by damped least squares over eigenvalues around 1 / step_sum; for ridge itself the first is one.
    Whatever is linear in the dual weights is then the same sum of ridge's: predictions, and so the residuals of rows
    left out, for which ridge has a closed form.
    """
    eigenvalues = np.minimum(np.geomspace(1e-3, 1e3, 200) / max(float(readings[0]), 1e-300), largest_eigenvalue)
    ridges = Ridge().shrinkage(eigenvalues, readings).T
    aim = filter.shrinkage(eigenvalues, readings[0]) - ridges[:, 0]
    apart, one = ridges[:, 1:] - ridges[:, :1], math.sqrt(len(aim))
    damping = _DAMPING * np.eye(apart.shape[1])
    weights = np.linalg.lstsq(np.vstack([apart / one, damping]), np.append(aim / one, np.zeros(len(damping))))[0]
    return np.append(1 - weights.sum(), weights)


_NAMED = {cls.name: cls for cls in (GradientDescent, GradientFlow, CutOff, NuMethod, Ridge)}
"""Filters by the names that `filter=` takes."""


def as_filter(value: object, schedule: object = "auto") -> Filter:
    """A filter from an instance or a name; `schedule` goes to gradient descent."""
    if isinstance(value, GradientDescent) and value.schedule == "auto":
        return GradientDescent(schedule)
    if isinstance(value, Filter):
        return value
    if isinstance(value, str) and value in _NAMED:
        return GradientDescent(schedule) if value == "descent" else _NAMED[value]()
    names = ", ".join(f'"{name}"' for name in _NAMED)
    got = f"{value!r}{did_you_mean(value, _NAMED)}"
    raise ValueError(f"filter must be one of {names} or a sw.filters instance; got {got}")
