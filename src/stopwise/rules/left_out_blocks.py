"""Leaving out blocks of rows that hang together: neighbours in time, or one subject's measurements.

With S = I - H of ridge at a penalty and r = S y, the residuals of a block B when all of B is left out are
(S_BB)^-1 r_B, exactly at that penalty. Autocorrelated noise follows single rows into their neighbours' predictions;
it does not follow a block.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.checks import is_finite
from stopwise._support.memory import row_tiles
from stopwise.exceptions import StopwiseWarning
from stopwise.filters import Ridge
from stopwise.path import Path
from stopwise.rules.base import Data, Reason, Rule, Stop, check_allowance, clock_grid, stop_at

_ALONE = 0.5
"""Share of leave-one-out's degrees of freedom below which rows are said to hang together."""
_COARSE = 12
"""Every 12th reading of the clock's grid, a factor of three, is looked at where only the smallest error is wanted."""
_CLEARLY = 1.645
"""Standard errors by which single rows must then prefer more: chance alone does that once in twenty."""


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
    """Blocks of `size` rows that follow each other in `order`, a fifth of one apart, each scored in its middle fifth.

    So every row is scored once, with two fifths of a block between it and the rows that predict it: nearer the edge,
    noise that hangs together would still help (Racine 2000, hv-block cross-validation).
    """
    n, step = len(order), scored_at_once(size)
    margin = (size - step) // 2
    sets = []
    for first in range(0, n, step):
        last = min(first + step, n)
        low, high = max(first - margin, 0), min(last + (size - step - margin), n)
        sets.append(LeftOutSet(order[low:high], np.arange(first - low, last - low)))
    return sets


def sets_of(data: Data, block: int | None) -> list[LeftOutSet] | None:
    """Rows that share their noise: groups where they were given, else blocks of so many rows; None for neither."""
    if data.subjects is not None:
        return by_label(data.subjects)
    if block is None:
        return None
    return consecutive(np.arange(data.n_rows) if data.order is None else data.order, block)


def scored_at_once(size: int) -> int:
    """Rows in the middle of a block that are scored: a fifth of it."""
    return max(1, size // 5)


def block_errors(path: Path, sets: list[LeftOutSet], step_sums: Array) -> Array:
    """Weighted squared errors of every set's scored rows when all of it is left out, (readings, sets)."""
    assert path.spectrum.basis is not None
    vectors, free, root = path.spectrum.basis.vectors, path.free, np.sqrt(path.row_weights)
    gains = path.filter.gain(path.spectrum.eigenvalues, step_sums)
    residuals = np.stack([root * path.residual_rows(np.asarray(step_sum)) for step_sum in step_sums])
    out = np.empty((len(step_sums), len(sets)))
    for i, each in enumerate(sets):
        part, fixed = vectors[each.rows], free[each.rows]
        apart = np.eye(len(each.rows)) - fixed @ fixed.T
        for some in row_tiles(len(step_sums), part.size):
            left = apart - (part * gains[some, None, :]) @ part.T
            out[some, i] = _squared_solutions(left, residuals[some][:, each.rows], each.scored)
    return out


def least_error(path: Path, sets: list[LeftOutSet]) -> tuple[float, Array]:
    """The clock reading at which sets left out whole err least in all, and the squared errors of each set there."""
    grid = clock_grid(path)[::_COARSE]
    table = block_errors(path, sets, grid)
    at = int(np.argmin(table.sum(axis=1)))
    return float(grid[at]), cast(Array, table[at])


def shared_noise_variance(path: Path, sets: list[LeftOutSet]) -> float:
    """The variance of noise that rows of a set share, from sets left out whole; problem units.

    Residuals without the set over the variance of a new observation there in units of the noise, (S_BB^-1)_ii: mean
    squares over the scored rows of each set, and over sets, along ridge where the sets' error is smallest. What rows
    of a set share follows none of them into a prediction from other sets, so that it counts as noise.
    """
    ridge = path.along(Ridge())
    at, _ = least_error(ridge, sets)
    assert ridge.spectrum.basis is not None
    vectors, free = ridge.spectrum.basis.vectors, ridge.free
    gain = ridge.filter.gain(ridge.spectrum.eigenvalues, at)
    residual, means = np.sqrt(ridge.row_weights) * ridge.residual_rows(np.asarray(at)), []
    for each in sets:
        part, fixed = vectors[each.rows], free[each.rows]
        inverse = np.linalg.inv(np.eye(len(each.rows)) - (part * gain) @ part.T - fixed @ fixed.T)
        squares = (inverse @ residual[each.rows]) ** 2 / np.diagonal(inverse)
        means.append(float(squares[each.scored].mean()))
    return float(np.mean(means))


def _squared_solutions(left: Array, residuals: Array, scored: Array) -> Array:
    """|S_BB^-1 r_B|^2 over the scored rows, one a reading; infinite where a set is all that its own fit rests on."""
    try:
        solved = np.linalg.solve(left, residuals[:, :, None])[:, scored, 0]
    except np.linalg.LinAlgError:
        if len(left) == 1:
            return np.full(1, np.inf)
        each = [_squared_solutions(left[k, None], residuals[k, None], scored) for k in range(len(left))]
        return np.concatenate(each)
    values = (solved**2).sum(axis=1)
    return cast(Array, np.where(np.isfinite(values), values, np.inf))


@dataclass(frozen=True)
class LeaveBlockOut(Rule):
    """The earliest stop whose error on left-out blocks is within `allowance` standard errors of the smallest.

    `size`: rows in a block that follow each other in the only covariate (rows with several covariates: in the order
    given); a block is scored in its middle fifth. Where `fit` was given `groups`, these are the blocks, and `size` may
    be left out. The error is ridge's, exact at each penalty. Another filter follows its data more closely at the same
    reading of the clock, so it stops there or earlier: where its own error by the same formula (exact for ridge alone)
    is smallest, up to ridge's best. A warning says when single rows clearly ask for more than twice the degrees of
    freedom that blocks ask for.
    """

    size: int | None = None
    allowance: float = 0.5
    name: ClassVar[str] = "leave-block-out"
    needs_rows: ClassVar[bool] = True
    needs_all_pairs: ClassVar[bool] = True
    divides_by_freedom: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.size is not None and not (is_finite(self.size) and self.size >= 1 and self.size == int(self.size)):
            raise ValueError(f"size must be a whole number of rows, at least 1; got {self.size!r}")
        check_allowance(self.allowance)

    @property
    def block(self) -> int | None:
        return None if self.size is None else int(self.size)

    def sets(self, data: Data) -> list[LeftOutSet]:
        """What is left out together."""
        if self.size is not None and self.size * 2 > data.n_rows and data.subjects is None:
            raise ValueError(
                f"size must be at most half of the {data.n_rows} rows, got {self.size}: two blocks at least"
            )
        found = sets_of(data, self.block)
        if found is None:
            raise ValueError("LeaveBlockOut needs size= (rows in a block) or fit(..., groups=)")
        return found

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        if path.step_sum_cap == 0 or float(path.energy) == 0:
            return stop_at(path.filter, 0.0, Reason.ZERO)
        basis = path.spectrum.basis
        if basis is None or path.response is None or not path.spectrum.complete:
            raise ValueError('LeaveBlockOut needs all eigenvectors: use solver="dense", or fewer rows')
        ridge = path.along(Ridge())
        data = Data(len(basis.rows)) if data is None else data
        sets, grid = self.sets(data), clock_grid(ridge)[1::4]
        table = block_errors(ridge, sets, grid)
        if data.subjects is None:
            table = by_block(table, int(self.size or 1))
        paired = Paired.of(table, ridge.n_samples)
        stop, best = paired.earliest(self.allowance), paired.best
        if not isinstance(path.filter, Ridge):
            stop = min(stop, int(np.argmin(block_errors(path, sets, grid[: best + 1]).sum(axis=1))))
        alone = int(np.nanargmin(ridge.leave_one_out_error(grid)))
        warn_of_dependence(ridge, float(grid[best]), float(grid[alone]), grouped=data.subjects is not None)
        lowest = float(table[best].sum()) / ridge.n_samples
        return stop_at(
            path.filter,
            float(grid[stop]),
            Reason.CAP if stop == len(grid) - 1 else Reason.MINIMUM,
            criterion=lowest + float(paired.excess[stop]),
            lowest=lowest,
            standard_error=float(paired.spread[stop]),
            allowance=self.allowance,
            lowest_step_sum=float(grid[best]),
        )


def by_block(table: Array, size: int) -> Array:
    """Errors (readings, sets) of consecutive sets added up by block: each scores a part of one.

    A standard error is made from what may be taken as independent, and that is blocks.
    """
    return np.add.reduceat(table, np.arange(0, table.shape[1], -(-size // scored_at_once(size))), axis=1)


@dataclass(frozen=True)
class Paired:
    """Mean errors at each reading less those at the best, block by block, with the standard error of that."""

    best: int
    excess: Array
    spread: Array

    @classmethod
    def of(cls, table: Array, n_samples: float) -> Paired:
        """From errors (readings, blocks)."""
        best = int(np.argmin(np.where(np.isfinite(table).all(axis=1), table.sum(axis=1), np.inf)))
        with np.errstate(invalid="ignore"):  # an infinite excess has no standard error, and is within none
            gap = table - table[best]
            spread = np.sqrt(((gap - gap.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)) / n_samples
        return cls(best, gap.sum(axis=1) / n_samples, spread)

    def within(self, reading: int, allowance: float) -> bool:
        """Whether the excess is within so many standard errors."""
        return bool(self.excess[reading] <= allowance * self.spread[reading])

    def earliest(self, allowance: float) -> int:
        """The first reading within the allowance, up to the best."""
        return next((reading for reading in range(self.best) if self.within(reading, allowance)), self.best)


def warn_of_dependence(ridge: Path, together: float, alone: float, *, grouped: bool) -> None:
    """Say when single rows clearly ask for more than twice the degrees of freedom that blocks or groups ask for."""
    few, many = (float(ridge.degrees_of_freedom(s)) for s in (together, alone))
    errors = ridge.row_weights * ridge.leave_one_out(np.array([together, alone])) ** 2
    if few < _ALONE * many and not Paired.of(errors, ridge.n_samples).within(0, _CLEARLY):
        sets, rows, detail = ("blocks", "neighbouring rows", "finer than a block: then make blocks smaller")
        if grouped:
            sets, rows, detail = ("groups", "rows of a group", "within a group that other groups do not tell")
        warnings.warn(
            f"left-out {sets} ask for {few:.3g} degrees of freedom and left-out rows for {many:.3g}: {rows} share "
            f"their noise, which a rule that leaves out single rows would follow (or the curve has detail {detail})",
            DependentRowsWarning,
            stacklevel=2,
        )
