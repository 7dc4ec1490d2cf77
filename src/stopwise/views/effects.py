"""What a column does to the fit: partial dependence, the mean fit with that column set and the others as in the data.

Intervals are those of the curve (`predict_interval(of="mean")`), averaged over the same rows: no narrower than the
interval of the average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.ndimage import convolve1d
from scipy.spatial.distance import cdist

from stopwise._support.arrays import Array, evenly
from stopwise._support.memory import row_tiles
from stopwise.estimators.fitted import Fitted, fitted_of
from stopwise.estimators.prediction.host import predict_rows
from stopwise.estimators.prediction.interval_calibration import has_intervals
from stopwise.views.facts import Model
from stopwise.views.shown_rows import ShownRows
from stopwise.views.source_columns import Positions, SourceColumn

POSITIONS, MOST_EFFECTS = 25, 6
"""Places along a column that is a line, and how many columns are shown."""
_BACKGROUND, _ENTRIES = 40, 20_000_000
"""Rows that an effect is averaged over: fewer where kernel entries would be more than this for one column."""
_CELLS = 14
"""Places along each side of a heat map."""
LEVEL = 0.9
"""Of the intervals that are drawn."""


@dataclass(frozen=True)
class Effect:
    """The mean fit (p, q) at positions of a column, and half-widths (p, q) of its interval where there are any."""

    column: SourceColumn
    positions: Positions
    rows: Array
    """Features of the rows that were averaged over, with the column at each position: (p, b, d)."""
    means: Array
    halves: Array | None


@dataclass(frozen=True)
class Interaction:
    """The mean fit over two columns together, (down, across, q), and which cells have no training row near."""

    across: SourceColumn
    down: SourceColumn
    x: Positions
    y: Positions
    means: Array
    empty: Array


def level_for(model: Model) -> float | None:
    """The level of the intervals on the page: 0.9, or the highest that few rows allow; None where there are none."""
    fitted = fitted_of(model)
    if not has_intervals(fitted):
        return None
    fewest = min(each.n_observations for each in model.uncertainty().calibrations)
    return min(LEVEL, fewest / (fewest + 1)) if fewest else None


def predictor(model: Model) -> Callable[[Array], Array]:
    """Predictions (m, q) at rows of features: the mean, or class probabilities."""
    fitted = fitted_of(model)
    return lambda X: fitted.natural(predict_rows(fitted, X, model.n_jobs))


def background(model: Model, rows: ShownRows, positions: int) -> Array:
    """Rows that effects are averaged over, evenly spaced."""
    budget = _ENTRIES // max(len(model.X_fit_) * positions, 1)
    count = max(5, min(_BACKGROUND, budget))
    return cast(Array, rows.features[evenly(len(rows), count)])


def effect(model: Model, rows: ShownRows, column: SourceColumn) -> Effect:
    """The effect of one column."""
    positions = column.positions(rows.features, POSITIONS)
    some = background(model, rows, len(positions.at))
    changed = np.stack([column.put(some, features) for features in positions.features])
    flat = changed.reshape(-1, changed.shape[-1])
    shape = (len(positions.at), len(some), -1)
    means = predictor(model)(flat).reshape(shape).mean(axis=1)
    level, halves = level_for(model), None
    if level is not None:
        used = cast(Fitted, fitted_of(model)).to_features(flat)
        halves = model.uncertainty().half_width(used, level, "mean").reshape(shape).mean(axis=1)
    return Effect(column, positions, changed, means, halves)


def interaction(model: Model, rows: ShownRows, across: SourceColumn, down: SourceColumn) -> Interaction:
    """The joint effect of two columns."""
    x, y = (column.positions(rows.features, _CELLS) for column in (across, down))
    some = background(model, rows, len(x.at) * len(y.at))
    cells = [across.put(down.put(some, below), beside) for below in y.features for beside in x.features]
    means = predictor(model)(np.concatenate(cells)).reshape(len(y.at), len(x.at), len(some), -1).mean(axis=2)
    counts = np.zeros((len(y.at), len(x.at)), dtype=np.int64)
    np.add.at(counts, (_nearest(down, y, rows.features), _nearest(across, x, rows.features)), 1)
    near = _with_neighbours(_with_neighbours(counts, y, 0), x, 1)
    return Interaction(across, down, x, y, means, near == 0)


def strongest_pair(
    model: Model, rows: ShownRows | None, columns: Sequence[SourceColumn], strong: Sequence[int]
) -> Interaction | None:
    """The two most important columns together, where left-out rows say that both matter: `strong`, in order."""
    both = [columns[j] for j in strong[:2]]
    return None if rows is None or len(both) < 2 else interaction(model, rows, *both)


def _with_neighbours(counts: Array, positions: Positions, axis: int) -> Array:
    """Counts that include the cells on both sides along a column that is a line; levels have no neighbours."""
    if positions.labels is not None:
        return counts
    return cast(Array, convolve1d(counts, np.ones(3, dtype=np.int64), axis=axis, mode="constant"))


def _nearest(column: SourceColumn, positions: Positions, rows: Array) -> Array:
    """The position nearest to each row, each feature in units of its spread over the positions."""
    spread = np.ptp(positions.features, axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    block, places = rows[:, list(column.features)], positions.features / unit
    parts = row_tiles(len(block), places.size)
    return np.concatenate([cdist(block[part] / unit, places, "sqeuclidean").argmin(axis=1) for part in parts])
