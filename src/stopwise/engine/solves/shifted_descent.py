"""Any smooth filter at one clock reading as a polynomial in one resolvent: successive solves with a single real shift.

Descent, flow and their like leave S(x) of the residual in a direction with x = step_sum * eigenvalue. Restricted
rational approximation with one repeated real pole (Norsett 1978): S(x) is close to a polynomial of degree m in
u = 1 / (1 + x / s), and u(K) is ridge's residual at the penalty s n / step_sum, positive definite. Fitted to the filter
itself, not to exp(-x), so that few steps are as good as many: six solves reach 5e-4, thirteen 1e-6, sixteen 5e-8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.polynomial import chebyshev

from stopwise._support.arrays import Array
from stopwise.filters import Filter, Ridge

_POLE = 0.78
"""The best pole for exp(-x) is about this times the degree, from 4 to 20 (by search; the error is flat around it)."""
_GRID = 400
_LAWSON = 15
"""Rounds of reweighting that turn least squares into nearly the smallest largest error (Lawson 1961)."""
_DEGREES = {6: 5e-4, 8: 8e-5, 10: 1.2e-5, 13: 8e-7, 16: 4.5e-8, 20: 1.5e-9}
"""Degrees tried, and their error for exp(-x) on x >= 0; filters that are met on a shorter range have less."""

_ELSEWHERE = 26
"""A degree that is tried for a pole that is given, which may lie off the best."""

ROUGH = 1e-4
"""The error that is good enough for an estimate from many rows, and that every smooth filter comes below."""


class Resolvent(Protocol):
    """Solves at one penalty."""

    @property
    def penalty(self) -> float:
        """a = n / step_sum of the ridge whose residual it makes."""

    def inverse(self, block: Array, start: Array | None = None) -> Array:
        """(A + a I)^-1 block on the range of H; solves that are iterations `start` from a guess."""

    def residual(self, block: Array, rough: int = 0) -> Array:
        """a (A + a I)^-1 block on the range of H; its last columns may be `rough` where solves are iterations."""


@dataclass(frozen=True)
class ResolventPolynomial:
    """S(x) = 1 - (1 - u) p(u), u = 1 / (1 + x / pole), p given by Chebyshev coefficients on [0, 1].

    S(0) = 1 exactly: what the kernel cannot see is never fitted. `error` is the largest gap on the filter's range.
    """

    pole: float
    coefficients: Array
    error: float

    @property
    def degree(self) -> int:
        """How many solves an estimate takes."""
        return len(self.coefficients)

    def penalty(self, n_samples: float, step_sum: float) -> float:
        """Of the unscaled matrix, where to solve."""
        return self.pole * n_samples / step_sum


def middle_reading(reached: Array, largest: float) -> float:
    """The geometric mean of the clock readings that are not zero; a first one where all are."""
    going = reached[reached > 0]
    return float(np.exp(np.log(going).mean())) if going.size else 1.0 / max(largest, 1e-280)


def as_resolvents(
    filter: Filter, step_sum: float, largest: float, accuracy: float = 1e-6, pole: float | None = None
) -> ResolventPolynomial:
    """The polynomial of least degree whose error is at most `accuracy`, or the best one tried.

    `largest` is a bound on the largest eigenvalue of K: the filter is met on [0, step_sum * largest] only. A `pole`
    that would be cheap is taken where it serves: for exp(-x) to 1e-4 from 1/4 on, to 1e-6 from 1 on.
    """

    def left(x: Array) -> Array:
        return filter.shrinkage(x / step_sum, step_sum)

    if pole is not None:
        found = _least_degree(left, step_sum * largest, accuracy, pole)
        if found.error <= accuracy:
            return found
    if isinstance(filter, Ridge):
        return ResolventPolynomial(1.0, np.ones(1), 0.0)
    return _least_degree(left, step_sum * largest, accuracy)


def _least_degree(
    left: Callable[[Array], Array], furthest: float, accuracy: float, pole: float | None = None
) -> ResolventPolynomial:
    best: ResolventPolynomial | None = None
    degrees = [d for d, known in _DEGREES.items() if known <= accuracy] or [max(_DEGREES)]
    for degree in degrees if pole is None else [*_DEGREES, _ELSEWHERE]:
        found = _fitted(left, degree, _POLE * degree if pole is None else pole, furthest)
        if best is None or found.error < best.error:
            best = found
        if best.error <= accuracy:
            break
    assert best is not None
    return best


def is_smooth(filter: Filter) -> bool:
    """Whether few solves with one shift can follow the filter: descent by any schedule, flow and ridge."""
    return _followed(filter.bind(1.0))


@lru_cache
def _followed(bound: Filter) -> bool:
    return as_resolvents(bound, 100.0, 1.0, ROUGH).error <= ROUGH


def _fitted(left: Callable[[Array], Array], degree: int, pole: float, furthest: float) -> ResolventPolynomial:
    """Nearly the smallest largest error over 0 <= x <= furthest."""
    lowest = pole / (pole + furthest)
    u = lowest + (1 - lowest) * (1 + np.cos(np.linspace(0, np.pi, _GRID))) / 2
    u = u[(u < 1) & (u > 0)]
    if not u.size:
        return ResolventPolynomial(pole, np.zeros(1), 0.0)
    gain = 1 - left(np.minimum(pole * (1 - u) / u, furthest))
    terms = chebyshev.chebvander(2 * u - 1, degree - 1) * (1 - u)[:, None]
    weights, best = np.ones_like(u), None
    for _ in range(_LAWSON):
        coefficients = np.linalg.lstsq(terms * weights[:, None], gain * weights, rcond=None)[0]
        gaps = np.abs(terms @ coefficients - gain)
        if best is None or gaps.max() < best.error:
            best = ResolventPolynomial(pole, coefficients, float(gaps.max()))
        if best.error == 0:
            break
        weights = weights * (gaps / gaps.max() + 1e-3) ** 0.25
        weights /= weights.max()
    assert best is not None
    return best
