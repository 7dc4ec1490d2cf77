"""Where a search over penalties starts: at those whose left-out error, on some rows, may be the smallest on all rows.

A penalty of the unscaled matrix, n / step_sum, carries over from some rows to all of them; which of several is best may
not. Left-out errors of the same rows at two penalties are paired, and t = mean difference / its standard error tells
how surely the better one is better. Away from the smallest error t grows, unless the curve has another minimum, or a
shoulder that more rows would make one: there t is locally smallest, and a search that walks downhill would miss it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.minimum import vertex
from stopwise.rules.prudent import SIGMAS

STRIDE, SHORT_STRIDE = math.log(4.0), math.log(2.0)
"""Distance of the first readings, in log penalty: from a start that few rows gave, and from a good one."""
_APART = 2 * STRIDE
"""Starts that are nearer are read together."""
_WORTH = 1e-3
"""Less than this share of the smallest error is not worth a reading."""
_EQUAL = 1e-4
"""Shares of the smallest error by which errors differ that are as good as equal."""
_HALF_AS_BAD = 1.5
"""Times the smallest error: a few far rows make a standard error that hides any difference beyond."""

_UNBOUNDED = 1e100
"""What stands for an infinite error (a row that is fitted whatever it says), so that sums can be told apart."""


@dataclass(frozen=True)
class SearchStart:
    """Penalties of the unscaled matrix that are worth reading, that of the smallest error first."""

    penalties: tuple[float, ...]
    error: float = 1.0
    """The root mean squared left-out error there over that of the responses."""


def standard_error(gap: Array) -> Array:
    """Of the sum of paired differences, (g, m) -> (g,)."""
    count = gap.shape[1]
    squares = ((gap - gap.mean(1, keepdims=True)) ** 2).sum(1) * count / max(count - 1, 1)
    return cast(Array, np.sqrt(squares))


def start_from(places: Array, squares: Array, energy: float) -> SearchStart:
    """From squared left-out errors (g, m) of some rows at ascending log penalties (g,).

    `energy`: the sum of squares of the same rows' responses.
    """
    squares = np.minimum(squares, _UNBOUNDED)
    sums = squares.sum(1)
    lowest = float(sums.min())
    # Towards no penalty errors may be as good as equal: the largest of such penalties.
    best = int(np.flatnonzero(sums <= (1 + _EQUAL) * lowest)[-1])
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = squares - squares[best]
        above, chance = gap.sum(1), standard_error(gap)
        t = np.where(chance > 0, above / chance, np.inf)
    # Errors level off where nothing is fitted, and may where everything is: such an end is no minimum.
    ends = np.where(np.abs(sums[[1, -2]] - sums[[0, -1]]) > _WORTH * lowest, np.inf, -np.inf)
    beside = np.minimum(np.append(ends[0], t[:-1]), np.append(t[1:], ends[1]))
    may_gain = SIGMAS * chance - above > _WORTH * lowest
    minima = np.flatnonzero((t <= beside) & may_gain & (sums <= _HALF_AS_BAD * lowest))
    between = min(max(vertex(sums, best), -0.5), 0.5) * float(places[1] - places[0])
    found = [float(places[best]) + between]
    for place in places[minima[np.argsort(t[minima], kind="stable")]]:
        if min(abs(place - other) for other in found) >= _APART:
            found.append(float(place))
    return SearchStart(tuple(math.exp(place) for place in found), math.sqrt(lowest / energy) if energy > 0 else 1.0)
