"""Leaving out blocks of rows that hang together: neighbours in time, or one subject's measurements.

With S = I - H of ridge at a penalty and r = S y, the residuals of a block B when all of B is left out are
(S_BB)^-1 r_B, exactly at that penalty. Autocorrelated noise follows single rows into their neighbours' predictions;
it does not follow a block.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.checks import is_finite
from stopwise.exceptions import StopwiseWarning
from stopwise.filters import Ridge
from stopwise.path import Path
from stopwise.rules.base import Data, Reason, Rule, Stop, clock_grid, stop_at
from stopwise.rules.critical import Critical

_ALONE = 0.5
"""Share of leave-one-out's degrees of freedom below which rows are said to hang together."""


class DependentRowsWarning(StopwiseWarning):
    """Left-out blocks ask for a much smoother fit than left-out rows: the noise of neighbouring rows hangs together."""


@dataclass(frozen=True)
class LeftOutSet:
    """Rows that are left out together, and which of them are then predicted and scored."""

    rows: Array
    scored: Array
    """Positions in `rows`."""


def by_label(labels: Array) -> list[LeftOutSet]:
    """One set for each label, scored whole."""
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [LeftOutSet(rows, np.arange(len(rows))) for rows in parts]


def consecutive(order: Array, size: int) -> list[LeftOutSet]:
    """Blocks of `size` rows that follow each other in `order`, half a block apart, each scored in its middle half.

    So every row is scored once, with at least a quarter of a block between it and the rows that predict it: next to
    the edge, noise that hangs together would still help.
    """
    n, step = len(order), max(1, size // 2)
    margin = (size - step) // 2
    sets = []
    for first in range(0, n, step):
        last = min(first + step, n)
        low, high = max(first - margin, 0), min(last + (size - step - margin), n)
        sets.append(LeftOutSet(order[low:high], np.arange(first - low, last - low)))
    return sets


@dataclass(frozen=True)
class Blocks:
    """Left-out errors of ridge along a path, set by set."""

    path: Path
    sets: list[LeftOutSet]

    def errors(self, step_sum: float) -> Array:
        """Weighted squared errors of every set's scored rows when all of it is left out, at one clock reading."""
        path, basis = self.path, self.path.spectrum.basis
        assert basis is not None
        assert path.response is not None
        vectors, n_rows = basis.vectors, len(path.response)
        root = np.ones(n_rows) if path.root_weights is None else path.root_weights
        gain = path.filter.gain(path.spectrum.eigenvalues, np.asarray(step_sum))
        residual = root * path.residual_rows(np.asarray(step_sum))
        free = path.fixed
        if free is None:
            free = (root / np.sqrt(path.n_samples))[:, None] if path.intercept else np.zeros((n_rows, 0))
        out = []
        for each in self.sets:
            part, fixed = vectors[each.rows], free[each.rows]
            left = np.eye(len(each.rows)) - (part * gain) @ part.T - fixed @ fixed.T
            out.append(_squared_solution(left, residual[each.rows], each.scored))
        return np.array(out)


def _squared_solution(left: Array, residual: Array, scored: Array) -> float:
    """|S_BB^-1 r_B|^2 over the scored rows; infinite where the set is all there is to know of its own fit."""
    try:
        solved = np.linalg.solve(left, residual)
    except np.linalg.LinAlgError:
        return float("inf")
    value = float(solved[scored] @ solved[scored])
    return value if np.isfinite(value) else float("inf")


@dataclass(frozen=True)
class LeaveBlockOut(Rule):
    """The earliest stop whose error on left-out blocks is within `allowance` standard errors of the smallest.

    `size`: rows in a block that follow each other in the only covariate (rows with several covariates: in the order
    given); a block is scored in its middle half. Where `fit` was given `groups`, these are the blocks, and `size` may
    be left out. The error is ridge's, exact at each penalty; another filter stops at the same reading of the clock. A
    warning says when they clearly ask for less than half of the degrees of freedom that single rows ask for.
    """

    size: int | None = None
    allowance: float = 0.5
    name: ClassVar[str] = "leave-block-out"
    needs_rows: ClassVar[bool] = True
    divides_by_freedom: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.size is not None and not (is_finite(self.size) and self.size >= 1 and self.size == int(self.size)):
            raise ValueError(f"size must be a whole number of rows, at least 1; got {self.size!r}")
        if not (is_finite(self.allowance) and self.allowance >= 0):
            raise ValueError(f"allowance must be a number of at least 0 standard errors, got {self.allowance!r}")

    @property
    def block(self) -> int | None:
        return None if self.size is None else int(self.size)

    def without_rows(self) -> Rule:
        return Critical(hilbert_radius="self")

    def sets(self, n_rows: int, data: Data | None) -> list[LeftOutSet]:
        """What is left out together."""
        if data is not None and data.subjects is not None:
            return by_label(data.subjects)
        if self.size is None:
            raise ValueError("LeaveBlockOut needs size= (rows in a block) or fit(..., groups=)")
        if self.size * 2 > n_rows:
            raise ValueError(f"size must be at most half of the {n_rows} rows, got {self.size}: two blocks at least")
        order = np.arange(n_rows) if data is None or data.order is None else data.order
        return consecutive(order, int(self.size))

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        if path.step_sum_cap == 0 or float(path.energy) == 0:
            return stop_at(path.filter, 0.0, Reason.ZERO)
        basis = path.spectrum.basis
        if basis is None or path.response is None or not path.spectrum.complete:
            raise ValueError(
                'LeaveBlockOut needs all eigenvectors: use solver="dense" (or "line" for one covariate), or fewer rows'
            )
        ridge = path.along(Ridge())
        blocks = Blocks(ridge, self.sets(len(basis.rows), data))
        grid = clock_grid(ridge)[1::4]
        table = np.stack([blocks.errors(float(s)) for s in grid])
        if data is None or data.subjects is None:
            table = _by_block(table, int(self.size or 1))
        stop, best, excess, spread = earliest_within(table, ridge.n_samples, self.allowance)
        alone = int(np.nanargmin(ridge.leave_one_out_error(grid)))
        if _tell_apart(table, best, alone):
            warn_of_dependence(ridge, float(grid[best]), float(grid[alone]))
        lowest = float(table[best].sum()) / ridge.n_samples
        return stop_at(
            path.filter,
            float(grid[stop]),
            Reason.CAP if stop == len(grid) - 1 else Reason.MINIMUM,
            criterion=lowest + excess,
            lowest=lowest,
            standard_error=spread,
            allowance=self.allowance,
            lowest_step_sum=float(grid[best]),
        )


def _by_block(table: Array, size: int) -> Array:
    """Errors (readings, sets) of consecutive sets added up by block: each scores half of one, as noisy as the other.

    A standard error is made from what may be taken as independent, and that is blocks.
    """
    return np.add.reduceat(table, np.arange(0, table.shape[1], size // max(1, size // 2)), axis=1)


def earliest_within(table: Array, n_samples: float, allowance: float) -> tuple[int, int, float, float]:
    """From errors (readings, blocks): the earliest reading of the stretch before the best whose paired excess stays
    within the allowance; the best; and the excess at the first with its standard error."""
    totals = np.where(np.isfinite(table).all(axis=1), table.sum(axis=1), np.inf)
    best = int(np.argmin(totals))
    gap = np.where(np.isfinite(table), table, 1e300) - table[best]
    excess = gap.sum(axis=1) / n_samples
    with np.errstate(over="ignore"):
        spread = np.sqrt(((gap - gap.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)) / n_samples
    stop = best
    while stop > 0 and excess[stop - 1] <= allowance * spread[stop - 1]:
        stop -= 1
    return stop, best, float(excess[stop]), float(spread[stop])


def _tell_apart(table: Array, best: int, alone: int) -> bool:
    """Whether the error on left-out blocks is more than a standard error larger at leave-one-out's stop."""
    gap = table[alone] - table[best]
    if not np.isfinite(gap).all():
        return True
    return float(gap.sum()) > float(np.sqrt(((gap - gap.mean()) ** 2).sum()))


def warn_of_dependence(ridge: Path, by_blocks: float, alone: float) -> None:
    """Say when blocks ask for less than half the degrees of freedom that single rows ask for."""
    few, many = (float(ridge.degrees_of_freedom(s)) for s in (by_blocks, alone))
    if few < _ALONE * many:
        warnings.warn(
            f"left-out blocks ask for {few:.3g} degrees of freedom and left-out rows for {many:.3g}: neighbouring rows "
            "share their noise, and a rule that leaves out single rows would follow it",
            DependentRowsWarning,
            stacklevel=2,
        )
