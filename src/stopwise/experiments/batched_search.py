"""Minima and first crossings for many responses at once.

The same searches as `stopwise.rules.search`, a column for each response: a criterion is asked for some columns at some
clock readings and answers a table, readings by columns. Columns that share a bracket are narrowed together, and those
that have stopped drop out of the scan.
"""

from collections.abc import Callable
from typing import cast

import numpy as np

from stopwise._support.arrays import Array, Index, Mask
from stopwise.filters import SteppedFilter
from stopwise.path import Path
from stopwise.rules.base import Reading, clock_grid

Criterion = Callable[[Index, Array], Array]
"""(columns, step_sums) -> values of shape (len(step_sums), len(columns))."""
_SCAN = 2**12
"""Iterations looked at one by one; sums of decaying powers have no feature finer than the grid beyond it."""
_BLOCK, _WHOLE = 512, 16
"""Iterations scanned at once, at most, and a bracket of iterations that is looked at whole."""


def _steps(path: Path) -> SteppedFilter:
    if not isinstance(path.filter, SteppedFilter):
        raise TypeError(f"these searches count iterations; the {path.filter.name} filter has none")
    return path.filter


def minimise_each(
    path: Path,
    n_columns: int,
    criterion: Criterion,
    reading: Reading = "global",
    *,
    ratio: float = 1.03,
    scan: int = _SCAN,
    tolerance: float = 0.0,
) -> Array:
    """Where each column's criterion is smallest, as a clock reading: `rules.minimise` for many responses (E12).

    `ratio` spaces the grid; `scan` iterations are looked at one by one for a first rise before the grid takes over;
    `tolerance` is the relative width of a bracket in which 17 points are enough.
    """
    filter, columns = _steps(path), np.arange(n_columns)
    if path.step_sum_cap == 0 or n_columns == 0:
        return np.zeros(n_columns)
    if reading == "global":
        counts = _lowest(filter, filter.iteration(clock_grid(path, ratio)), columns, criterion, tolerance)
    else:
        counts = _first_rise(path, filter, columns, criterion, scan, tolerance)
    if reading == "literal":
        counts = np.maximum(counts - 1, 0)
    return filter.step_sum(counts)


def _lowest(filter: SteppedFilter, grid: Array, columns: Index, criterion: Criterion, tolerance: float) -> Array:
    """The iteration of the smallest value over a grid, then over every iteration beside it."""
    values = criterion(columns, filter.step_sum(grid))
    best = np.argmin(np.where(np.isfinite(values), values, np.inf), axis=0)
    out = grid[best]
    inner = (best > 0) & (best < grid.size - 1)
    for at in np.unique(best[inner]):
        chosen = columns[inner & (best == at)]
        bracket = float(grid[at - 1]), float(grid[at + 1])
        out[np.searchsorted(columns, chosen)] = _narrow(filter, bracket, chosen, criterion, tolerance)
    return cast(Array, out)


def _narrow(
    filter: SteppedFilter, bracket: tuple[float, float], columns: Index, criterion: Criterion, tolerance: float
) -> Array:
    """The best iteration of each column between two counts, 17 points at a time."""
    out = np.empty(columns.size)
    open_brackets = [(*bracket, np.arange(columns.size))]
    while open_brackets:
        first, last, members = open_brackets.pop()
        whole = last - first <= _WHOLE
        counts = np.arange(first, last + 1) if whole else np.unique(np.floor(np.linspace(first, last, 17)))
        best = np.argmin(criterion(columns[members], filter.step_sum(counts)), axis=0)
        if whole or last - first <= tolerance * first:
            out[members] = counts[best]
            continue
        for at in np.unique(best):
            ends = float(counts[max(at - 1, 0)]), float(counts[min(at + 1, counts.size - 1)])
            open_brackets.append((*ends, members[best == at]))
    return out


def _rises(values: Array) -> Mask:
    """Where the next value is larger (no differences: two infinities have none)."""
    return np.asarray(values[1:] > values[:-1])


def _first_rise(
    path: Path, filter: SteppedFilter, columns: Index, criterion: Criterion, scan: int, tolerance: float
) -> Array:
    """The first t with criterion(t + 1) > criterion(t); the last reachable one where it never rises."""
    out = np.full(columns.size, -1.0)
    end = float(filter.iteration(path.step_sum_cap))
    last, first, size = min(end, float(scan)), 0.0, 32.0
    active = columns
    while first < last and active.size:
        counts = np.arange(first, min(first + size, last) + 1)
        rises = _rises(criterion(active, filter.step_sum(counts)))
        hit = rises.any(axis=0)
        out[active[hit]] = counts[np.argmax(rises[:, hit], axis=0)]
        active, first, size = active[~hit], float(counts[-1]), min(size * 2, _BLOCK)
    if active.size:
        grid = filter.iteration(clock_grid(path))
        out[active] = _first_rise_on(filter, np.append(last, grid[grid > last]), active, criterion, tolerance)
    return out


def _first_rise_on(filter: SteppedFilter, grid: Array, active: Index, criterion: Criterion, tolerance: float) -> Array:
    """The first local minimum over a grid, refined; its end where there is none."""
    out = np.full(active.size, grid[-1])
    if grid.size < 2:
        return out
    rises = _rises(criterion(active, filter.step_sum(grid)))
    hit, at = rises.any(axis=0), np.argmax(rises, axis=0)
    for index in np.unique(at[hit]):
        members = np.flatnonzero(hit & (at == index))
        bracket = float(grid[max(index - 1, 0)]), float(grid[index + 1])
        out[members] = _narrow(filter, bracket, active[members], criterion, tolerance)
    return out


def first_true_each(path: Path, n_columns: int, condition: Criterion, after: Array | None = None) -> Array:
    """The first iteration past `after` at which each column's condition holds; NaN where it never does.

    Sought on the grid and narrowed by halves, as `rules.search.first_true`.
    """
    filter, columns = _steps(path), np.arange(n_columns)
    grid = filter.iteration(clock_grid(path))
    past = np.full(n_columns, 0.0) if after is None else after
    holds = np.asarray(condition(columns, filter.step_sum(grid)), dtype=np.bool_) & (grid[:, None] > past)
    hit, at = holds.any(axis=0), np.argmax(holds, axis=0)
    low, high = np.maximum(grid[np.maximum(at - 1, 0)], past), grid[at].copy()
    while np.any(open_ := hit & (high - low > 1)):
        middle = np.floor((low + high) / 2)
        for count in np.unique(middle[open_]):
            members = np.flatnonzero(open_ & (middle == count))
            true = np.asarray(condition(members, filter.step_sum(np.array([count])))[0], dtype=np.bool_)
            high[members[true]], low[members[~true]] = count, count
    return cast(Array, np.where(hit, high, np.nan))
