"""Minima and first crossings along a path's clock.

A filter with steps is searched in whole iterations, for many responses at once: a criterion is asked for some columns
at some clock readings and answers a table, readings by columns. Columns that share a bracket are narrowed together, and
those that have stopped drop out of the scan. A filter without steps is searched on a grid and between its points.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np

from stopwise._support.arrays import Array, Index, Mask
from stopwise._support.minimum import lowest_on_log_scale
from stopwise.filters import CutOff, SteppedFilter
from stopwise.path import Path
from stopwise.rules.base import Reading, Reason, Stop, clock_grid, stop_at

Criterion: TypeAlias = Callable[[Array], Array]
"""Values at some clock readings, for one response."""
Table: TypeAlias = Callable[[Index, Array], Array]
"""(columns, step_sums) -> values of shape (len(step_sums), len(columns))."""
_ENTRIES = 2**20
"""Entries of a table that is asked for in a scan."""
_POINTS = 17
"""Points into which a bracket is cut; a bracket of fewer iterations is looked at whole."""


def check_reading(reading: str) -> None:
    """Raise ValueError unless the reading is one of the three."""
    if reading not in ("local", "literal", "global"):
        raise ValueError(f'reading must be "local", "literal" or "global", got {reading!r}')


def minimise(path: Path, criterion: Criterion, reading: Reading = "global", *, scan: int = 2**17) -> Stop:
    """Where a risk estimate is smallest along a path.

    "global": over the whole clock. "local": the first t with risk(t+1) > risk(t), what RWY14 means. "literal": one
    step earlier, as printed (E12). `scan` iterations are looked at one by one for a first rise before a grid takes
    over: a blink for one response.
    """
    check_reading(reading)
    if path.step_sum_cap == 0:
        return stop_at(path.filter, 0.0, Reason.ZERO)
    stepped = isinstance(path.filter, SteppedFilter)
    if reading == "literal" and not stepped:
        raise ValueError('reading="literal" counts iterations: it needs a filter with steps')
    if stepped:
        nearest: Reading = "global" if reading == "global" else "local"

        def table(_: Index, readings: Array) -> Array:
            return _told(criterion, readings)[:, None]

        at = float(minimise_each(path, 1, table, nearest, ratio=1.1, scan=scan)[0])
        at_end = at == float(path.filter.snap(path.step_sum_cap)) and (at > 0 or reading != "global")
    else:
        at, at_end = _between_points(path, criterion, reading)
    value = float(criterion(np.asarray([at]))[0])
    stop = stop_at(path.filter, at, Reason.CAP if at_end else Reason.MINIMUM, criterion=value)
    if reading == "literal" and isinstance(path.filter, SteppedFilter):
        earlier = float(path.filter.step_sum(max((stop.iteration or 0) - 1, 0)))
        stop = replace(stop_at(path.filter, earlier, stop.reason), evidence=stop.evidence)
    return stop


def _told(criterion: Criterion, readings: Array) -> Array:
    """The criterion at these readings; NaN would compare as "no minimum here" for ever."""
    values = np.asarray(criterion(readings))
    if np.isnan(values).any():
        where = float(readings[int(np.argmax(np.isnan(values)))])
        raise ValueError(f"the criterion of a rule must be a number or infinity, got NaN at step_sum {where:g}")
    return values


def _between_points(path: Path, criterion: Criterion, reading: Reading) -> tuple[float, bool]:
    """The minimum on a clock without steps, and whether it is the clock's end."""
    grid = clock_grid(path)
    values = _told(criterion, grid)
    best = int(np.argmin(np.where(np.isfinite(values), values, np.inf)))
    if reading != "global":
        best = int(np.argmax(np.append(_rises(values), True)))
    if isinstance(path.filter, CutOff) or not 0 < best < grid.size - 1:
        return float(grid[best]), best == grid.size - 1 and grid.size > 1
    bracket, known = grid[best - 1 : best + 2], np.array([np.inf, values[best], np.inf])
    return lowest_on_log_scale(bracket, known, lambda s: float(criterion(np.asarray([s]))[0]))[0], False


# ---- whole iterations, many responses at once ------------------------------------------------------------------------


def _steps(path: Path) -> SteppedFilter:
    if not isinstance(path.filter, SteppedFilter):
        raise TypeError(f"these searches count iterations; the {path.filter.name} filter has none")
    return path.filter


def minimise_each(
    path: Path,
    n_columns: int,
    criterion: Table,
    reading: Reading = "global",
    *,
    ratio: float = 1.03,
    scan: int = 2**12,
    tolerance: float = 0.0,
) -> Array:
    """Where each column's criterion is smallest, as a clock reading: `minimise` for many responses (E12).

    `ratio` spaces the grid; `scan` iterations are looked at one by one for a first rise before the grid takes over (the
    sums of decaying powers that rules read have no feature finer than the grid beyond); `tolerance` is the relative
    width of a bracket in which 17 points are enough.
    """
    filter, columns = _steps(path), np.arange(n_columns)
    if path.step_sum_cap == 0 or n_columns == 0:
        return np.zeros(n_columns)
    if reading == "global":
        counts = _lowest(filter, filter.iteration(clock_grid(path, ratio)), columns, criterion, tolerance)
    else:
        counts = _first_rise(path, filter, columns, criterion, scan, tolerance)
    return filter.step_sum(np.maximum(counts - 1, 0) if reading == "literal" else counts)


def _lowest(filter: SteppedFilter, grid: Array, columns: Index, criterion: Table, tolerance: float) -> Array:
    """The iteration of the smallest value over a grid, then over every iteration beside it."""
    values = criterion(columns, filter.step_sum(grid))
    best = np.argmin(np.where(np.isfinite(values), values, np.inf), axis=0)
    inner = (best > 0) & (best < grid.size - 1)
    return _refined(filter, grid, best, inner, columns, criterion, tolerance)


def _refined(
    filter: SteppedFilter, grid: Array, at: Index, inner: Mask, columns: Index, criterion: Table, tolerance: float
) -> Array:
    """grid[at], but the best iteration between the neighbours on the grid for columns that are `inner`."""
    out = grid[at]
    for index in np.unique(at[inner]):
        members = np.flatnonzero(inner & (at == index))
        bracket = float(grid[max(index - 1, 0)]), float(grid[index + 1])
        out[members] = _narrow(filter, bracket, columns[members], criterion, tolerance)
    return cast(Array, out)


def _narrow(
    filter: SteppedFilter, bracket: tuple[float, float], columns: Index, criterion: Table, tolerance: float
) -> Array:
    """The best iteration of each column between two counts, 17 points at a time."""
    out = np.empty(columns.size)
    open_brackets = [(*bracket, np.arange(columns.size))]
    while open_brackets:
        first, last, members = open_brackets.pop()
        whole = last - first < _POINTS
        counts = np.arange(first, last + 1) if whole else np.unique(np.floor(np.linspace(first, last, _POINTS)))
        best = np.argmin(criterion(columns[members], filter.step_sum(counts)), axis=0)
        for at in np.unique(best):
            ends = float(counts[max(at - 1, 0)]), float(counts[min(at + 1, counts.size - 1)])
            # Beyond 2^53 floats are further apart than steps, and a bracket may not get any narrower.
            if whole or last - first <= tolerance * first or ends == (first, last):
                out[members[best == at]] = counts[at]
            else:
                open_brackets.append((*ends, members[best == at]))
    return out


def _rises(values: Array) -> Mask:
    """Where the next value is larger (no differences: two infinities have none)."""
    return np.asarray(values[1:] > values[:-1])


def _first_rise(
    path: Path, filter: SteppedFilter, columns: Index, criterion: Table, scan: int, tolerance: float
) -> Array:
    """The first t with criterion(t + 1) > criterion(t); the last reachable one where it never rises."""
    out = np.full(columns.size, -1.0)
    last, first, size = min(float(filter.iteration(path.step_sum_cap)), float(scan)), 0.0, 32.0
    active = columns
    while first < last and active.size:
        counts = np.arange(first, min(first + size, last) + 1)
        rises = _rises(criterion(active, filter.step_sum(counts)))
        hit = rises.any(axis=0)
        out[active[hit]] = counts[np.argmax(rises[:, hit], axis=0)]
        active, first = active[~hit], float(counts[-1])
        size = min(size * 2, max(32.0, _ENTRIES // max(active.size, 1)))
    if active.size:
        grid = filter.iteration(clock_grid(path))
        grid = np.append(last, grid[grid > last])
        never = np.ones((1, active.size), dtype=bool)
        rises = np.concatenate([_rises(criterion(active, filter.step_sum(grid))), never])
        at = np.argmax(rises, axis=0)
        out[active] = _refined(filter, grid, at, at < grid.size - 1, active, criterion, tolerance)
    return out


def first_true_each(path: Path, n_columns: int, condition: Table, after: Array | None = None) -> Array:
    """The first iteration past `after` at which each column's condition holds; NaN where it never does.

    Sought on the grid and narrowed by halves, so it is the first for a condition that holds once it starts to hold on
    the scale of the grid.
    """
    filter, past = _steps(path), np.zeros(n_columns) if after is None else after
    grid = filter.iteration(clock_grid(path))
    grid = grid[grid > past.min(initial=np.inf)]
    if not grid.size:
        return np.full(n_columns, np.nan)
    holds = np.asarray(condition(np.arange(n_columns), filter.step_sum(grid)), dtype=bool) & (grid[:, None] > past)
    hit, at = holds.any(axis=0), np.argmax(holds, axis=0)
    low, high = np.where(at > 0, np.maximum(grid[np.maximum(at - 1, 0)], past), past), grid[at].copy()
    while True:
        middle = np.floor((low + high) / 2)
        undecided = hit & (low < middle) & (middle < high)
        if not undecided.any():
            return cast(Array, np.where(hit, high, np.nan))
        for count in np.unique(middle[undecided]):
            members = np.flatnonzero(undecided & (middle == count))
            true = np.asarray(condition(members, filter.step_sum(np.array([count])))[0], dtype=bool)
            high[members[true]], low[members[~true]] = count, count


def first_true(path: Path, condition: Criterion, after: float = 0.0) -> float | None:
    """The first reachable reading past `after` where a condition holds, or None; sought as `first_true_each` does."""
    if isinstance(path.filter, SteppedFilter):
        past = np.atleast_1d(path.filter.iteration(after))
        count = first_true_each(path, 1, lambda columns, readings: condition(readings)[:, None], past)[0]
        return None if np.isnan(count) else float(path.filter.step_sum(count))
    grid = clock_grid(path)
    grid = grid[grid > after]
    hits = np.flatnonzero(condition(grid)) if grid.size else np.empty(0)
    if not hits.size:
        return None
    low, high = float(grid[hits[0] - 1]) if hits[0] else after, float(grid[hits[0]])
    if isinstance(path.filter, CutOff):
        return high
    for _ in range(60):
        middle = np.sqrt(low) * np.sqrt(high) if low > 0 else high / 2
        low, high = (low, middle) if bool(condition(np.asarray([middle]))[0]) else (middle, high)
    return high
