"""The default: the earliest stop that predicts left-out rows as well as any, as far as the data can tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.memory import row_tiles
from stopwise._support.minimum import lowest_on_log_scale
from stopwise.copies import left_out_weights
from stopwise.filters import Ridge
from stopwise.path import SATURATED, Path
from stopwise.rules.base import Data, Reason, Rule, Stop, check_allowance, clock_grid, coarse_pass, stop_at
from stopwise.rules.critical import Critical

CEILING = 1e12
"""The largest inverse penalty looked at, times the kernel's mean diagonal: a thousand times float64's rounding of the
matrix, so that left-out errors there are good to a thousandth. Data free of noise are predicted better up to here."""

OVER_CONSTANT = 2.0
"""Standard errors by which a fit must predict better than the constant one where the first steps predict worse. A path
is long, and somewhere on it chance makes a dip of half a standard error often enough (docs/benchmarks.md)."""
_RISE = 1e-4
"""A rise by less than this share of the error may be arithmetic: so well do solves know it."""
TIE = 1e-10
"""Errors that differ by less than this share are the same, up to arithmetic: of such stops the earliest is taken."""
SIGMAS = 2.5
"""Standard errors of a sampled difference that a bound on what sampling may lose allows for: one in a hundred is
beyond (tests/engine/solvers/test_solves_solver.py)."""


@dataclass(frozen=True)
class LeftOut:
    """Squared errors at each row when one observation of it is left out, by the leverage shortcut.

    Exact for a ridge path at each penalty. Rows are observations: copies of a row are one of them already. The rows
    at hand may be a random sample of those that the path was fitted to. A row that the unpenalised part fits whatever
    it says, since no other has that feature, tells of no stop and has no error.
    """

    path: Path

    @property
    def _weights(self) -> Array:
        weights = self.path.row_weights
        return weights if self.path.root_weights is None else left_out_weights(weights, self.path.counts)

    @cached_property
    def _share(self) -> float:
        """Of all observations, those that the rows at hand stand for."""
        return min(float(self._weights.sum()) / self.path.n_samples, 1.0)

    def __call__(self, step_sums: Array) -> Array:
        """Squared errors times what they count for, (g, rows)."""
        left, residual = self.path.leverage_left(step_sums), self.path.residual_rows(step_sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.where(left > SATURATED, self._weights * (residual / left) ** 2, np.inf)
        if self.path.fixed is not None:
            errors[:, (self.path.fixed**2).sum(axis=1) >= (1 - SATURATED) * self.path.row_counts] = 0.0
        return cast(Array, errors)

    def mean(self, step_sums: Array) -> Array:
        """The mean over samples at each clock reading, in tiles."""
        parts = [self(step_sums[some]).sum(axis=1) for some in row_tiles(len(step_sums), self._weights.size)]
        return cast(Array, np.concatenate(parts) / (self._share * self.path.n_samples))

    def excess(self, step_sums: Array, best: Array) -> tuple[Array, Array]:
        """How much larger the mean is than that of the errors `best`, and the standard error of this difference.

        The standard error is that of all rows, of which those at hand may be a sample.
        """
        n, counts = self._share * self.path.n_samples, self.path.row_counts
        above, spread = [], []
        for some in row_tiles(len(step_sums), counts.size):
            gap = (self(step_sums[some]) - best) / counts
            mean = gap @ counts / n
            above.append(mean)
            spread.append(np.sqrt((gap - mean[:, None]) ** 2 @ counts * self._share) / n)
        return np.concatenate(above), np.concatenate(spread)

    def regret(self, step_sum: float, lowest: float) -> float:
        """What a sample of rows may lose at a stop, as a share of the error there; zero where all rows are at hand.

        Any other stop may be better on all rows by more than it is on these: by `SIGMAS` standard errors of the
        difference. What the rule allowed itself between the stop and the `lowest` error is no loss.
        """
        if self._share >= 1 - 1e-12:
            return 0.0
        here = self(np.array([step_sum]))[0]
        grid = coarse_pass(clock_grid(self.path))
        above, spread = self.excess(np.append(grid, lowest), here)
        gain = -above + SIGMAS * spread * math.sqrt(1 / self._share - 1)
        return max(float(gain[np.isfinite(gain)].max()) + float(above[-1]), 0.0) / float(
            self.mean(np.array([step_sum]))[0]
        )


def constant_stands(means: Array, over_constant: Callable[[], tuple[Array, Array] | Array]) -> bool:
    """Whether the error rises from the constant fit on and is nowhere later clearly below the constant fit's.

    `means`: errors along the clock, that of the constant fit first. `over_constant`: how much larger each is than that,
    and the standard error of the difference; asked for only where the error rises at first.
    """
    moved = np.flatnonzero(np.abs(means - means[0]) > _RISE * np.abs(means[0]))
    if not moved.size or means[moved[0]] < means[0]:
        return False
    with np.errstate(invalid="ignore"):  # an infinite error has no spread, and is not below
        above, spread = over_constant()
    return not np.any(-above[1:] > OVER_CONSTANT * spread[1:])


@dataclass(frozen=True)
class Prudent(Rule):
    """The earliest stop whose leave-one-out error is within `allowance` standard errors of the smallest.

    Where the error rises from the constant fit on, another fit must be clearly better than that one: see
    `OVER_CONSTANT`. Without an allowance the smallest error decides in any case.

    The error is ridge's on the same eigenvectors, where leaving a row out is exact at any penalty; another filter stops
    at the same reading of the clock they share (its own shortcut fails near interpolation). The standard error is that
    of the paired difference over observations, so the rule is early only where the data cannot tell the two apart.
    Where rows are many, a random sample of them stands for all. Where there are none (eigenvalues alone), the paper's
    inequality with the estimate's own norm decides: Critical(hilbert_radius="self").
    """

    allowance: float = 0.5
    name: ClassVar[str] = "prudent"
    needs_noise: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    divides_by_freedom: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_allowance(self.allowance)

    @property
    def left_out_allowance(self) -> float | None:
        return self.allowance

    def without_rows(self) -> Rule:
        return Critical(hilbert_radius="self")

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        if path.step_sum_cap == 0 or float(path.energy) == 0:
            return stop_at(path.filter, 0.0, Reason.ZERO)
        if path.spectrum.basis is None or path.response is None:
            return self.without_rows().decide(path, noise_std, data)
        ridge = path.along(Ridge())
        errors = LeftOut(ridge)
        grid, ceiling = clock_grid(ridge), CEILING / (1.0 if data is None else data.kernel_scale)
        grid = coarse_pass(np.append(grid[grid < ceiling], min(ceiling, grid[-1])))  # every solver ends at the same one
        means = errors.mean(grid)
        best, lowest = lowest_on_log_scale(grid, means, lambda t: float(errors.mean(np.array([t]))[0]))
        at_best = errors(np.array([best]))[0]
        stands = self.allowance > 0 and constant_stands(means, lambda: errors.excess(grid, errors(grid[:1])[0]))
        earliest = float(grid[0]) if stands else self._earliest(errors, grid, best, at_best)
        above, spread = errors.excess(np.array([earliest]), at_best)
        return stop_at(
            path.filter,
            earliest,
            Reason.CAP if earliest >= grid[-1] > 0 else Reason.MINIMUM,
            criterion=lowest + float(above[0]),
            lowest=lowest,
            standard_error=float(spread[0]),
            allowance=self.allowance,
            lowest_step_sum=best,
        )

    def _earliest(self, errors: LeftOut, grid: Array, best: float, at_best: Array) -> float:
        """The first reading whose excess is within the allowance, between the grid's first such and the one before."""

        def within(readings: Array) -> Any:
            above, spread = errors.excess(readings, at_best)
            return above <= self.allowance * spread + TIE * float(at_best.mean())

        before = grid[grid < best]
        if self.allowance == 0 or not before.size:
            return best
        first = int(np.argmax(np.append(within(before), True)))
        if first == 0:
            return float(before[0])
        low, high = float(before[first - 1]), float(before[first]) if first < before.size else best
        for _ in range(30):
            middle = math.sqrt(low) * math.sqrt(high) if low > 0 else high / 2
            low, high = (low, middle) if within(np.array([middle]))[0] else (middle, high)
        return high
