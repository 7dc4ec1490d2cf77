"""Step sizes and their running sum: how far has descent travelled after t steps?

A valid schedule (RWY14, section 3) keeps 0 < step <= min(1, 1/lambda_1), never increases, and travels
infinitely far. What can be checked without the spectrum is checked when the schedule is made, the bound
when it meets the largest eigenvalue.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike, Mask
from stopwise._support.checks import is_finite, is_number, real_array

MAX_ITERATION = 2**53
"""Beyond this many steps neighbouring iterates are one floating-point number; searches end here."""
_ROUNDING = 1e-10
"""By how much a step may pass 1/lambda_1, relative to it: an eigenvalue is known to about this."""


class InvalidSchedule(ValueError):
    """A step-size sequence that breaks one of the three conditions of RWY14."""


class Schedule(ABC):
    """A valid sequence of step sizes, known through its sums and products."""

    @abstractmethod
    def step_size(self, iteration: int) -> float:
        """alpha_t, t = 0, 1, 2, ..."""

    @abstractmethod
    def step_sum(self, iteration: ArrayLike) -> Array:
        """eta_t = alpha_0 + ... + alpha_{t-1} (RWY14, running sum)."""

    @abstractmethod
    def log_shrinkage(self, eigenvalues: Array, iteration: float | Array) -> Array:
        """sum over tau < t of log(1 - alpha_tau lambda)."""

    @abstractmethod
    def iteration(self, step_sum: ArrayLike) -> Array:
        """The largest t with eta_t <= step_sum, as a float array (exact up to 2^53)."""

    def check(self, largest_eigenvalue: float) -> None:
        """Raise InvalidSchedule unless the first, largest step is at most min(1, 1/lambda_1)."""
        bound = largest_step(largest_eigenvalue)
        if self.step_size(0) > bound * (1 + _ROUNDING):
            raise InvalidSchedule(
                f"boundedness broken: the largest step size is {self.step_size(0):g}, above min(1, 1/lambda_1) = "
                f'{bound:g} (lambda_1 = {largest_eigenvalue:g}); use a smaller step, or schedule="auto"'
            )


def largest_step(largest_eigenvalue: float) -> float:
    """min(1, 1/lambda_1), the largest valid step size."""
    if not 0 <= largest_eigenvalue < math.inf:
        raise ValueError(f"the largest eigenvalue must be finite and at least 0, got {largest_eigenvalue!r}")
    return min(1.0, 1.0 / largest_eigenvalue) if largest_eigenvalue > 0 else 1.0


def _check_step(value: object) -> float:
    if not is_number(value):
        raise TypeError(f"step_size must be a number, got {value!r} ({type(value).__name__})")
    if not is_finite(value) or value <= 0:
        raise InvalidSchedule(
            f"boundedness broken: step_size must be positive and finite, at most min(1, 1/lambda_1); got {value!r}"
        )
    return float(value)


def _counts(iteration: ArrayLike) -> Array:
    """Numbers of iterations, whole and at least 0 (a float, since they may pass 2^53)."""
    counts = real_array(iteration, "iteration")
    return _refused(counts, ~(counts >= 0) | (counts != np.floor(counts)), "iteration must be a whole number of")


def _readings(step_sum: ArrayLike) -> Array:
    """Clock readings, at least 0."""
    sums = real_array(step_sum, "step_sum")
    return _refused(sums, ~(sums >= 0), "step_sum must be")


def _refused(values: Array, wrong: Mask, words: str) -> Array:
    if wrong.any():
        raise ValueError(f"{words} at least 0, got {float(values[wrong].flat[0])!r}")
    return values


def _log1p_negative(product: Array) -> Array:
    """log(1 - alpha lambda), with alpha lambda held to at most 1 where rounding passed it."""
    with np.errstate(divide="ignore"):
        return cast(Array, np.log1p(-np.minimum(product, 1.0)))


@dataclass(frozen=True)
class Constant(Schedule):
    """alpha_t = step_size."""

    step: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", _check_step(self.step))

    def step_size(self, iteration: int) -> float:
        return self.step

    def step_sum(self, iteration: ArrayLike) -> Array:
        return cast(Array, _counts(iteration) * self.step)

    def log_shrinkage(self, eigenvalues: Array, iteration: float | Array) -> Array:
        with np.errstate(invalid="ignore"):
            # No step leaves everything, also where one step would leave nothing.
            logs = np.asarray(iteration) * _log1p_negative(self.step * eigenvalues)
        return cast(Array, np.where(np.asarray(iteration) == 0, 0.0, logs))

    def iteration(self, step_sum: ArrayLike) -> Array:
        target = _readings(step_sum)
        guess = np.floor(target / self.step)
        guess = np.where((guess + 1) * self.step <= target, guess + 1, guess)
        return cast(Array, np.where(guess * self.step > target, guess - 1, guess))


class _Searched(Schedule):
    """Schedules whose running sum is inverted by a guess, and a search from there outwards."""

    def iteration(self, step_sum: ArrayLike) -> Array:
        targets = _readings(step_sum)
        found = [float(self._search(float(t))) for t in targets.ravel()]
        return cast(Array, np.array(found).reshape(targets.shape))

    @abstractmethod
    def _guess(self, target: float) -> float:
        """About how many steps have this sum."""

    def _search(self, target: float) -> int:
        """The last iterate whose step sum is at most the target: a bracket that doubles its reach, then bisection."""
        guess = self._guess(target)
        low = int(max(guess, 0.0)) if guess < MAX_ITERATION else MAX_ITERATION
        high, reach = low + 1, 1
        while low > 0 and float(self.step_sum(low)) > target:
            low, high, reach = max(low - reach, 0), low, 2 * reach
        while high <= MAX_ITERATION and float(self.step_sum(high)) <= target:
            low, high, reach = high, min(high + reach, MAX_ITERATION + 1), 2 * reach
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if float(self.step_sum(middle)) <= target else (low, middle)
        return low


_HEAD = 1024
"""Terms added one by one: after them Euler-Maclaurin's next term is below rounding. Also steps taken at once."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
"""Gauss-Legendre nodes and weights: full precision for a smooth integrand over a factor e."""


@dataclass(frozen=True, init=False)
class PolynomialDecay(_Searched):
    """alpha_t = step_size * (t + 1)^-power, 0 <= power <= 1.

    Sums over t are added one by one for the first 1,024 terms and by Euler-Maclaurin after them, so that
    ten billion steps cost no more than a thousand.
    """

    step: float
    power: float

    def __init__(self, step_size: float = 1.0, power: float = 0.5) -> None:
        object.__setattr__(self, "step", _check_step(step_size))
        if not is_finite(power):
            raise TypeError(f"power must be a finite number, got {power!r}")
        if power < 0:
            raise InvalidSchedule(f"non-increasing broken: power must be at least 0, got {power!r}: steps would grow")
        if power > 1:
            words = f"infinite travel broken: power must be at most 1, got {power!r}: the steps would have a finite sum"
            raise InvalidSchedule(words)
        object.__setattr__(self, "power", float(power))

    def step_size(self, iteration: int) -> float:
        return float(self.step * float(_counts(iteration) + 1) ** -self.power)

    def step_sum(self, iteration: ArrayLike) -> Array:
        counts = _counts(iteration)
        sums = [float(self._sum(lambda s: s[..., None], np.zeros(1), float(t))[0]) for t in counts.ravel()]
        return cast(Array, np.array(sums).reshape(counts.shape))

    @cached_property
    def _head(self) -> Array:
        """The first 1,024 steps."""
        return cast(Array, self.step * np.arange(1.0, _HEAD + 1) ** -self.power)

    def _guess(self, target: float) -> float:
        """Euler-Maclaurin, inverted: the sum of t^-p to n is (n + 1/2)^(1-p) / (1-p) plus a constant, nearly."""
        rest, shift = np.float64(target - float(self._head.sum())) / self.step, 1 - self.power
        if rest <= 0:
            return float(np.searchsorted(np.cumsum(self._head), target, side="right"))
        with np.errstate(over="ignore"):
            grown = np.exp(rest) if shift == 0 else (1 + shift * rest * (_HEAD + 0.5) ** -shift) ** (1 / shift)
            return float((_HEAD + 0.5) * grown - 0.5)

    def log_shrinkage(self, eigenvalues: Array, iteration: float | Array) -> Array:
        return self._sum(lambda s: _log1p_negative(s[..., None] * eigenvalues), eigenvalues, float(iteration))

    def _sum(self, term: Callable[[Array], Array], like: Array, count: float) -> Array:
        """Sum of term(alpha_t) over t < count; term maps steps of shape (m,) to (m, len(like))."""

        def steps(position: Array) -> Array:
            return cast(Array, self.step * position**-self.power)

        head = int(min(count, _HEAD))
        total = term(self._head[:head]).sum(axis=0) if head else np.zeros_like(like)
        if count <= _HEAD:
            return cast(Array, total)
        # Euler-Maclaurin from a = head + 1 to b = count, inclusive; the integral in log scale.
        a, b = float(_HEAD + 1), float(count)
        panels = max(1, math.ceil(math.log(b / a)))
        edges = np.linspace(math.log(a), math.log(b), panels + 1)
        for left, right in itertools.pairwise(edges):
            half = 0.5 * (right - left)
            position = np.exp(0.5 * (left + right) + half * _NODES)
            total = total + half * np.einsum("i,ij->j", _WEIGHTS * position, term(steps(position)))
        at_ends = term(steps(np.array([a, b])))
        total = total + 0.5 * (at_ends[0] + at_ends[1])
        # First derivatives by central differences over a unit step: exact enough at t > 1,000.
        slopes = term(steps(np.array([a + 0.5, b + 0.5]))) - term(steps(np.array([a - 0.5, b - 0.5])))
        return cast(Array, total + (slopes[1] - slopes[0]) / 12.0)


@dataclass(frozen=True, init=False)
class Sequence(_Searched):
    """Given step sizes; the last one goes on for ever."""

    steps: tuple[float, ...]

    def __init__(self, steps: SequenceOf[float] | Array) -> None:
        values = real_array(list(steps) if isinstance(steps, Iterator) else steps, "steps")
        if values.ndim != 1 or values.size == 0:
            raise InvalidSchedule(f"a sequence of steps needs at least one step size in one dimension, got {steps!r}")
        if not np.all(np.isfinite(values)) or np.any(values < 0):
            bad = values[~np.isfinite(values) | (values < 0)][0]
            raise InvalidSchedule(f"boundedness broken: steps must be positive and finite, got {float(bad)!r}")
        if (rises := np.flatnonzero(np.diff(values) > 0)).size:
            before, after = values[rises[0] : rises[0] + 2]
            raise InvalidSchedule(
                f"non-increasing broken: step {rises[0] + 1} is {after:g}, above step {rises[0]} = {before:g}; steps "
                "must stay level or shrink, so sort them in descending order"
            )
        if values[-1] == 0:
            words = "infinite travel broken: the last step is 0 and goes on for ever, so the sum is finite"
            raise InvalidSchedule(f"{words}; end with a positive step")
        object.__setattr__(self, "steps", tuple(float(v) for v in values))

    @cached_property
    def _sums(self) -> Array:
        return np.concatenate([[0.0], np.cumsum(self.steps)])

    def _guess(self, target: float) -> float:
        inside = np.searchsorted(self._sums, target, side="right") - 1
        return float(inside + max(0.0, target - float(self._sums[-1])) / self.steps[-1])

    def step_size(self, iteration: int) -> float:
        return self.steps[int(min(float(_counts(iteration)), len(self.steps) - 1))]

    def step_sum(self, iteration: ArrayLike) -> Array:
        counts = _counts(iteration)
        inside = np.minimum(counts, len(self.steps)).astype(np.int64)
        return cast(Array, self._sums[inside] + (counts - inside) * self.steps[-1])

    def log_shrinkage(self, eigenvalues: Array, iteration: float | Array) -> Array:
        inside = int(min(float(iteration), len(self.steps)))
        total = np.zeros_like(eigenvalues)
        for first in range(0, inside, _HEAD):
            steps = np.asarray(self.steps[first : min(first + _HEAD, inside)])
            total = total + _log1p_negative(steps[:, None] * eigenvalues).sum(axis=0)
        rest = float(iteration) - inside
        if rest > 0:
            total = total + rest * _log1p_negative(self.steps[-1] * eigenvalues)
        return total


def as_schedule(schedule: object, largest_eigenvalue: float) -> Schedule:
    """A checked schedule from an instance, a number, a sequence, or "auto" (the largest valid constant step)."""
    if isinstance(schedule, str) and schedule == "auto":
        return Constant(largest_step(largest_eigenvalue))
    if schedule is None or isinstance(schedule, str | type | dict | set):
        words = f'schedule must be "auto", a number, a sequence or a sw.schedules instance; got {schedule!r}'
        raise ValueError(words) if isinstance(schedule, str) else TypeError(words)
    if not isinstance(schedule, Schedule):
        given = cast(ArrayLike, schedule)
        schedule = Constant(cast(float, given)) if np.ndim(given) == 0 else Sequence(cast(Array, given))
    schedule.check(largest_eigenvalue)
    return schedule
