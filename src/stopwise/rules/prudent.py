"""The default: the earliest stop that predicts left-out rows as well as any, as far as the data can tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from scipy.sparse import csr_matrix

from stopwise._support.arrays import Array
from stopwise._support.checks import is_finite
from stopwise._support.minimum import lowest_on_log_scale
from stopwise.filters import Ridge
from stopwise.path import Path
from stopwise.rules.base import Data, Reason, Rule, Stop, clock_grid, stop_at
from stopwise.rules.critical import Critical

_COARSE = 8
"""Every so-manieth reading of the clock's grid is looked at first."""
_LEAST_LEFT = 1e-10
CEILING = 1e9
"""The largest inverse penalty looked at, times the kernel's mean diagonal: what fits better beyond is rounding."""
_ENTRIES = 4_000_000


@dataclass(frozen=True)
class LeftOut:
    """Squared errors at each distinct row when it is left out, by the leverage shortcut.

    Rows that share their covariates share their row of the smoother. Leaving out one of m replicates divides its
    residual by 1 - W h / m, h the leverage of one sample and W how many samples there are; leaving out all of them (no
    `replicates` told) divides their mean residual by 1 - W h, and their spread about it stays. Exact for a ridge path
    at each penalty (where replicates weigh the same).
    """

    path: Path
    groups: Array | None = None
    replicates: Array | None = None
    """How many replicates each group has. Copies that agree in the response too are one of them, however often they
    were written down: leaving out one copy would only ask the others."""

    @property
    def _weights(self) -> Array:
        rows = cast(Any, self.path.spectrum.basis).rows
        return np.ones(len(rows)) if self.path.root_weights is None else self.path.root_weights**2

    def __call__(self, step_sums: Array) -> Array:
        """(g, distinct rows)"""
        left = self.path.leverage_left(step_sums)
        residual = self.path._residual_rows(step_sums)
        weights = self._weights
        if self.groups is None:
            together, spread = 1 - weights * (1 - left), 0.0
        else:
            count = int(self.groups.max()) + 1
            gather = csr_matrix((weights, (self.groups, np.arange(weights.size))), shape=(count, weights.size))
            whole = gather @ np.ones(weights.size)
            together = 1 - (gather @ (1 - left).T).T
            mean = (gather @ residual.T).T / whole
            spread = (gather @ ((residual - mean[:, self.groups]) ** 2).T).T
            residual, weights = mean, whole
            if self.replicates is not None:
                together = 1 - (1 - together) / self.replicates
        with np.errstate(divide="ignore", invalid="ignore"):
            one_by_one = 1.0 if self.replicates is None else together
            errors = weights * (residual / together) ** 2 + spread / one_by_one**2
            return np.where(together > _LEAST_LEFT, errors, np.inf)

    def mean(self, step_sums: Array) -> Array:
        """The mean over samples at each clock reading, in tiles."""
        count = max(1, _ENTRIES // self._weights.size)
        parts = [self(step_sums[i : i + count]).sum(axis=1) for i in range(0, len(step_sums), count)]
        return cast(Array, np.concatenate(parts) / self.path.n_samples)

    def excess(self, step_sums: Array, best: Array) -> tuple[Array, Array]:
        """How much larger the mean is than that of the errors `best`, and the standard error of this difference."""
        n, count = self.path.n_samples, max(1, _ENTRIES // self._weights.size)
        above, spread = [], []
        for i in range(0, len(step_sums), count):
            gap = self(step_sums[i : i + count]) - best
            total = gap.sum(axis=1)
            above.append(total / n)
            spread.append(np.sqrt(((gap - total[:, None] / best.size) ** 2).sum(axis=1)) / n)
        return np.concatenate(above), np.concatenate(spread)


@dataclass(frozen=True)
class Prudent(Rule):
    """The earliest stop whose leave-one-out error is within `allowance` standard errors of the smallest.

    The error is ridge's on the same eigenvectors, where leaving a row out is exact at any penalty; another filter stops
    at the same reading of the clock they share (its own shortcut fails near interpolation). The standard error is that
    of the paired difference over distinct rows, so the rule is early only where the data cannot tell the two apart.
    Rows that agree in covariates and response are left out together. Where single rows are not at hand (sums over rows,
    streamed), the paper's inequality with the estimate's own norm decides: Critical(hilbert_radius="self").
    """

    allowance: float = 0.5
    name: ClassVar[str] = "prudent"
    needs_noise: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    divides_by_freedom: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (is_finite(self.allowance) and self.allowance >= 0):
            raise ValueError(f"allowance must be a number of at least 0 standard errors, got {self.allowance!r}")

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
        groups = None if data is None or data.groups is None else data.groups()
        replicates = None if data is None or data.replicates is None else data.replicates()
        errors = LeftOut(ridge, groups, replicates)
        grid = clock_grid(ridge)
        grid = _thinned(grid[grid <= CEILING / (1.0 if data is None else data.kernel_scale)])
        best, lowest = lowest_on_log_scale(grid, errors.mean(grid), lambda t: float(errors.mean(np.array([t]))[0]))
        at_best = errors(np.array([best]))[0]
        earliest = self._earliest(errors, grid, best, at_best)
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
        """The start of the stretch before the minimum in which the excess stays within the allowance."""

        def within(readings: Array) -> Any:
            above, spread = errors.excess(readings, at_best)
            return above <= self.allowance * spread

        before = grid[grid < best]
        if self.allowance == 0 or not before.size:
            return best
        fails = np.flatnonzero(~within(before))
        if not fails.size:
            return float(before[0])
        low = float(before[fails[-1]])
        high = float(before[fails[-1] + 1]) if fails[-1] + 1 < before.size else best
        for _ in range(30):
            middle = math.sqrt(low) * math.sqrt(high) if low > 0 else high / 2
            low, high = (low, middle) if within(np.array([middle]))[0] else (middle, high)
        return high


def _thinned(grid: Array) -> Array:
    """Part of a grid, with its ends."""
    return np.unique(np.concatenate([grid[:2], grid[2::_COARSE], grid[-1:]]))
