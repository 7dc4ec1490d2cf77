"""The default rule on a line: searched to rounding where a reading takes milliseconds, as on all eigenpairs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stopwise._support.arrays import Array
from stopwise.copies import left_out_weights
from stopwise.engine.line.fits import fit_at
from stopwise.engine.line.merged_rows import LineRows
from stopwise.engine.line.scores import left_out_errors, left_out_row_errors
from stopwise.engine.line.transitions import StateSpace
from stopwise.engine.solves.penalty_search import FoundPenalty
from stopwise.rules.prudent import constant_stands

_STRIDE = math.log(2.0)
"""Spacing of the first readings, in log penalty."""
_CROWDED = 4
"""Rows to a place beyond which the errors of a place are summed."""
_FEW_PLACES = 3_000
"""Up to here a stop is known to rounding; beyond, to a thousandth, which moves its error by less than a millionth."""


@dataclass(frozen=True)
class ExactStop:
    """One response of rows on a line; errors are squared and left out, by place, and count as `left_out_weights`."""

    rows: LineRows
    space: StateSpace
    column: int
    intercept: bool
    allowance: float

    @cached_property
    def _by_row(self) -> bool:
        """Whether errors are kept row by row; of bins and of crowded places only their sums are."""
        return self.rows.n_places < len(self.rows.place_of) <= _CROWDED * self.rows.n_places

    def errors(self, log_penalties: Array) -> Array:
        """By row or by place, (units, penalties)."""
        fit = fit_at(self.rows, self.space, np.exp(log_penalties), intercept=self.intercept)
        weighted = left_out_row_errors(fit, self.column) if self._by_row else left_out_errors(fit)[:, :, self.column]
        return weighted * self._shares[:, None]

    @cached_property
    def _shares(self) -> Array:
        """What errors by weight are multiplied by."""
        rows = self.rows
        weights, counts = (rows.row_weights, rows.row_counts) if self._by_row else (rows.weights, rows.counts)
        return left_out_weights(weights, counts) / weights

    def excess(self, errors: Array, best: Array) -> tuple[Array, Array]:
        """How much larger mean errors are than the best's, and the standard error of the paired difference."""
        gap, n = errors - best[:, None], self.rows.n_samples
        if self.rows.n_places < len(self.rows.place_of) and not self._by_row:
            total = gap.sum(axis=0)
            return total / n, np.sqrt(((gap - total / len(best)) ** 2).sum(axis=0)) / n
        counts = self.rows.row_counts if self._by_row else self.rows.counts
        mean = gap.sum(axis=0) / n
        return mean, np.sqrt(counts @ (gap / counts[:, None] - mean) ** 2) / n

    def run(self, smallest: float, largest: float) -> FoundPenalty:
        """The largest penalty before the best whose error is within the allowance of the smallest."""
        low, high = math.log(smallest), math.log(max(largest, smallest))
        grid = np.linspace(low, high, max(2, math.ceil((high - low) / _STRIDE)))
        errors = self.errors(grid)
        best = self._lowest(grid, errors.sum(axis=0))
        at_best = self.errors(np.array([best]))[:, 0]
        stop = high if self._constant_stands(errors) else self._earliest(grid, errors, best, at_best)
        lowest, above, spread = self._compared(stop, at_best)
        return FoundPenalty(
            penalty=math.exp(stop),
            criterion=lowest + above,
            lowest=lowest,
            lowest_penalty=math.exp(best),
            standard_error=spread,
            regret=0.0,
            at_start=stop >= high,
            at_end=stop <= low,
        )

    def _compared(self, stop: float, at_best: Array) -> tuple[float, float, float]:
        """The mean error at the best, how much larger it is at a log penalty, and that difference's standard error."""
        above, spread = self.excess(self.errors(np.array([stop])), at_best)
        return float(at_best.sum()) / self.rows.n_samples, float(above[0]), float(spread[0])

    def confirmed(self, found: FoundPenalty) -> FoundPenalty:
        """A stop found on bins, with the errors that these rows have there; the regret is what bins got wrong."""
        at_best = self.errors(np.log([found.lowest_penalty]))[:, 0]
        lowest, above, spread = self._compared(math.log(found.penalty), at_best)
        off = abs(above - (found.criterion - found.lowest)) / max(lowest + above, np.finfo(float).tiny)
        return replace(found, criterion=lowest + above, lowest=lowest, standard_error=spread, regret=off)

    def _constant_stands(self, errors: Array) -> bool:
        """Whether no fit is to be preferred to that of the largest penalty; errors by ascending penalties."""
        along = errors[:, ::-1]
        return self.allowance > 0 and constant_stands(along.sum(axis=0), lambda: self.excess(along, along[:, 0]))

    def _lowest(self, grid: Array, totals: Array) -> float:
        """The log penalty of the smallest mean error: rounds of readings around the lowest, an eighth as far apart."""
        at = int(np.argmin(totals))
        if at in (0, len(grid) - 1):
            return float(grid[at])
        best, lowest, step = float(grid[at]), float(totals[at]), float(grid[1] - grid[0])
        for _ in range(5 if self._few else 2):
            step /= 8
            some = best + step * np.arange(-8, 9)
            values = self.errors(some).sum(axis=0)
            if values.min() <= lowest:
                best, lowest = float(some[int(np.argmin(values))]), float(values.min())
        return best

    def _earliest(self, grid: Array, errors: Array, best: float, at_best: Array) -> float:
        """The largest log penalty whose excess is within the allowance, between the grid's last such and the next."""

        def last(some: Array) -> int:
            above, spread = self.excess(some, at_best)
            return int(np.flatnonzero(np.append(True, above <= self.allowance * spread))[-1])

        after = grid > best
        if self.allowance == 0 or not after.any():
            return best
        places, found = np.append(best, grid[after]), last(errors[:, after])
        for _ in range(8 if self._few else 3):
            if found == len(places) - 1:
                break
            places = np.linspace(places[found], places[found + 1], 14)
            found = last(self.errors(places[1:-1]))
        return float(places[found])

    @property
    def _few(self) -> bool:
        return self.rows.n_places <= _FEW_PLACES
