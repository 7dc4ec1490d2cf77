"""Leave-one-out on landmarks: what a second pass over rows needs, and a search that asks for few passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.memory import row_tiles
from stopwise._support.minimum import log_vertex
from stopwise.engine.landmarks.features import FeatureRows, Landmarks
from stopwise.filters import CutOff, SteppedFilter
from stopwise.path import SATURATED, Path
from stopwise.rules import Reason, Stop, clock_grid, stop_at
from stopwise.rules.base import coarse_pass

_AT_ONCE = 17
"""Readings of one pass after the first: each narrows the bracket eightfold."""


@dataclass(frozen=True)
class Smoother:
    """What a pass over rows needs to judge each by the others: gains and fits at several stops of one response.

    Rows rotate into eigenvectors; `gains` and `weighted` (gain times coordinate) are (k, g).
    """

    landmarks: Landmarks
    mean: Array
    rotation: Array
    gains: Array
    weighted: Array
    column: int
    offset: float
    n_samples: float
    intercept: bool
    weight_unit: float = 1.0
    """What weights are multiplied by to add up to the number of observations."""


def left_out_squares(
    smoother: Smoother, covariates: Array, responses: Array, weights: Array | None, counts: Array | None = None
) -> Array:
    """Weighted sum of squared leave-one-out residuals at each stop over these rows, by the leverage shortcut.

    A row of `counts` observations leaves out one of them.
    """
    total = np.zeros(smoother.gains.shape[1])
    features = FeatureRows(smoother.landmarks, covariates, None, smoother.mean)
    for rows in row_tiles(len(covariates), max(len(smoother.landmarks.points), total.size)):
        vectors = features[rows] @ smoother.rotation
        residual = (responses[rows, smoother.column] - smoother.offset)[:, None] - vectors @ smoother.weighted
        leverage = vectors**2 @ smoother.gains + (1 / smoother.n_samples if smoother.intercept else 0.0)
        if weights is not None:
            leverage *= (weights[rows] if counts is None else weights[rows] / counts[rows])[:, None]
        left = 1 - leverage
        with np.errstate(divide="ignore", invalid="ignore"):
            squared = np.where(left > SATURATED, residual / left, np.inf) ** 2
        total += squared.sum(axis=0) if weights is None else weights[rows] @ squared
    return total


def lowest_in_few_passes(path: Path, criterion: Callable[[Array], Array]) -> Stop:
    """Where a criterion is smallest along the clock, looked at in a handful of calls of many readings each.

    A part of the grid first, then ever closer around the best, and for filters without steps a parabola at the end.
    """
    grid = clock_grid(path)
    if path.step_sum_cap == 0 or grid.size < 2:
        return stop_at(path.filter, 0.0, Reason.ZERO)
    readings = coarse_pass(grid)
    values = _finite(criterion(readings))
    best = int(np.argmin(values))
    while True:
        at_end = readings[best] == grid[-1]
        low, high = readings[max(best - 1, 0)], readings[min(best + 1, readings.size - 1)]
        closer = _between(path, float(low), float(high))
        if closer.size <= 3 or (not isinstance(path.filter, SteppedFilter) and high <= low * 1.002):
            break
        readings, values = closer, _finite(criterion(closer))
        best = int(np.argmin(values))
    at = float(readings[best])
    if not isinstance(path.filter, SteppedFilter | CutOff) and 0 < best < readings.size - 1:
        at = log_vertex(readings[best - 1 : best + 2], values[best - 1 : best + 2])
    reason = Reason.CAP if at_end else Reason.MINIMUM
    return stop_at(path.filter, at, reason, criterion=float(criterion(np.array([at]))[0]))


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.inf)


def _between(path: Path, low: float, high: float) -> Array:
    """Reachable readings from one to another, both included."""
    if isinstance(path.filter, SteppedFilter):
        first, last = (float(path.filter.iteration(reading)) for reading in (low, high))
        counts = np.unique(np.floor(np.linspace(first, last, _AT_ONCE)))
        return path.filter.step_sum(counts)
    if isinstance(path.filter, CutOff):
        grid = clock_grid(path)
        inside = grid[(grid >= low) & (grid <= high)]
        return inside[:: max(1, inside.size // _AT_ONCE)] if inside.size > 3 else inside
    return np.geomspace(low, high, _AT_ONCE) if low > 0 else np.linspace(low, high, _AT_ONCE)
