"""Minima and first crossings along a path's clock, in whole iterations where the filter has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.minimum import lowest_on_log_scale
from stopwise.filters import SteppedFilter
from stopwise.path import Path
from stopwise.rules.base import Reading, Reason, Stop, clock_grid, stop_at

Criterion = Callable[[Array], Array]
_SCAN = 2**17
"""Iterations looked at one by one before a local minimum is sought on a grid."""


def check_reading(reading: str) -> None:
    """Raise ValueError unless the reading is one of the three."""
    if reading not in ("local", "literal", "global"):
        raise ValueError(f'reading must be "local", "literal" or "global", got {reading!r}')


def minimise(path: Path, criterion: Criterion, reading: Reading = "global") -> Stop:
    """Where a risk estimate is smallest along a path.

    "global": over the whole clock. "local": the first t with risk(t+1) > risk(t), what RWY14 means. "literal": one
    step earlier, as printed (E12).
    """
    check_reading(reading)
    if path.step_sum_cap == 0:
        return stop_at(path.filter, 0.0, Reason.ZERO)
    stepped = isinstance(path.filter, SteppedFilter)
    if reading == "global":
        stop = _global(path, criterion)
    elif stepped:
        stop = _first_rise_stepped(path, criterion)
    else:
        stop = _first_rise_continuous(path, criterion)
    if reading == "literal":
        if not isinstance(path.filter, SteppedFilter) or stop.iteration is None:
            raise ValueError('reading="literal" counts iterations: it needs a filter with steps')
        earlier = float(path.filter.step_sum(max(stop.iteration - 1, 0)))
        stop = replace(stop_at(path.filter, earlier, stop.reason), evidence=stop.evidence)
    return stop


def _told(criterion: Criterion, readings: Array) -> Array:
    """The criterion at these readings; NaN would compare as "no minimum here" for ever."""
    values = np.asarray(criterion(readings))
    if np.isnan(values).any():
        where = float(readings[int(np.argmax(np.isnan(values)))])
        raise ValueError(f"the criterion of a rule must be a number or infinity, got NaN at step_sum {where:g}")
    return values


def _global(path: Path, criterion: Criterion) -> Stop:
    grid = clock_grid(path)
    values = _told(criterion, grid)
    best = int(np.argmin(np.where(np.isfinite(values), values, np.inf)))
    at_end = best == grid.size - 1 and grid.size > 1
    reason = Reason.CAP if at_end else Reason.MINIMUM
    if 0 < best < grid.size - 1:
        at = _refine(path, criterion, grid[best - 1], grid[best], grid[best + 1])
    else:
        at = float(grid[best])
    return stop_at(path.filter, at, reason, criterion=float(criterion(np.asarray([at]))[0]))


def _refine(path: Path, criterion: Criterion, low: float, middle: float, high: float) -> float:
    """The best reachable reading between two grid points around a grid minimum."""
    if isinstance(path.filter, SteppedFilter):
        first, last = (float(path.filter.iteration(v)) for v in (low, high))
        while last - first > 2:
            counts = np.unique(np.floor(np.linspace(first, last, 17)))
            best = int(np.argmin(criterion(path.filter.step_sum(counts))))
            narrowed = counts[max(best - 1, 0)], counts[min(best + 1, counts.size - 1)]
            if narrowed == (first, last):
                break
            first, last = narrowed
        # All that are left; beyond 2^53, where floats are further apart than steps, some of them.
        counts = np.unique(np.floor(np.linspace(first, last, 5)))
        return float(path.filter.step_sum(counts[int(np.argmin(criterion(path.filter.step_sum(counts))))]))
    if path.filter.name == "cutoff":
        return middle

    def value(step_sum: float) -> float:
        return float(criterion(np.asarray([step_sum]))[0])

    return lowest_on_log_scale(np.array([low, middle, high]), np.array([np.inf, value(middle), np.inf]), value)[0]


def _first_rise_stepped(path: Path, criterion: Criterion) -> Stop:
    assert isinstance(path.filter, SteppedFilter)
    last = min(float(path.filter.iteration(path.step_sum_cap)), float(_SCAN))
    first, size = 0.0, 64.0
    while first < last:
        counts = np.arange(first, min(first + size, last) + 1)
        values = _told(criterion, path.filter.step_sum(counts))
        rises = np.flatnonzero(values[1:] > values[:-1])
        if rises.size:
            at = counts[rises[0]]
            return stop_at(
                path.filter, float(path.filter.step_sum(at)), Reason.MINIMUM, criterion=float(values[rises[0]])
            )
        first, size = counts[-1], size * 2
    return _first_rise_on(
        path, criterion, path.filter.step_sum(np.unique(np.maximum(path.filter.iteration(clock_grid(path)), last)))
    )


def _first_rise_continuous(path: Path, criterion: Criterion) -> Stop:
    return _first_rise_on(path, criterion, clock_grid(path))


def _first_rise_on(path: Path, criterion: Criterion, grid: Array) -> Stop:
    values = _told(criterion, grid)
    rises = np.flatnonzero(values[1:] > values[:-1])
    if not rises.size:
        return stop_at(path.filter, float(grid[-1]), Reason.CAP, criterion=float(values[-1]))
    at = int(rises[0])
    best = _refine(path, criterion, grid[max(at - 1, 0)], grid[at], grid[at + 1])
    return stop_at(path.filter, best, Reason.MINIMUM, criterion=float(criterion(np.asarray([best]))[0]))


def first_true(path: Path, condition: Callable[[Array], Array], after: float = 0.0) -> float | None:
    """The first reachable reading past `after` where a condition holds, or None.

    Sought on the grid and then narrowed, so it is the first for a condition that holds once it starts to hold on the
    scale of the grid.
    """
    grid = clock_grid(path)
    grid = grid[grid > after]
    hits = np.flatnonzero(condition(grid)) if grid.size else np.empty(0)
    if not hits.size:
        return None
    low = float(grid[hits[0] - 1]) if hits[0] else after
    high = float(grid[hits[0]])
    if isinstance(path.filter, SteppedFilter):
        first, last = float(path.filter.iteration(low)), float(path.filter.iteration(high))
        while last - first > 1:
            middle = np.floor((first + last) / 2)
            if middle in (first, last):  # beyond 2^53 neighbouring floats are further apart than steps
                break
            holds = bool(condition(np.atleast_1d(path.filter.step_sum(middle)))[0])
            first, last = (first, middle) if holds else (middle, last)
        return float(path.filter.step_sum(last))
    if path.filter.name == "cutoff":
        return high
    for _ in range(60):
        middle = np.sqrt(low) * np.sqrt(high) if low > 0 else high / 2
        low, high = (low, middle) if bool(condition(np.asarray([middle]))[0]) else (middle, high)
    return high
