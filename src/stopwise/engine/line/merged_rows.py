"""Rows of one covariate as the line wants them: sorted, with equal places merged into one weighted row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stopwise._support.arrays import Array


@dataclass(frozen=True)
class LineRows:
    """Distinct places in order. Rows at one place are one row of their summed weight and their mean response.

    The fit of the merged rows is the fit of all of them; what merging loses is each place's own spread, kept in
    `within` (weighted sums of squares about the mean, by place and response).
    """

    covariate: Array
    weights: Array
    responses: Array
    within: Array
    counts: Array
    """How many observations each place holds."""
    place_of: Array
    """For each row as given, the number of its place."""
    row_weights: Array
    """Weights as given, row by row."""
    deviations: Array
    """Responses less the mean of their place, row by row (n, q)."""
    row_counts: Array
    """How many observations each row as given stands for."""

    @property
    def n_places(self) -> int:
        return len(self.covariate)

    @cached_property
    def n_samples(self) -> float:
        """All weights together."""
        return float(self.weights.sum())

    @cached_property
    def range(self) -> float:
        """From the first place to the last."""
        return float(self.covariate[-1] - self.covariate[0])

    def by_row(self, values: Array) -> Array:
        """Values by place as values by row, in the order given."""
        return values[self.place_of]

    def sums(self, block: Array) -> Array:
        """Sums over the rows of each place, (n, q) -> (places, q)."""
        if self.n_places == len(block):
            out = np.empty_like(block)
            out[self.place_of] = block
            return out
        columns = [np.bincount(self.place_of, weights=column, minlength=self.n_places) for column in block.T]
        return np.stack(columns, axis=1)


def merge_rows(
    covariate: Array, responses: Array, weights: Array | None = None, counts: Array | None = None
) -> LineRows:
    """Sort once and merge ties; responses (n, q), `counts` observations behind each row (None: one each)."""
    x = np.asarray(covariate, dtype=np.float64)
    y = np.asarray(responses, dtype=np.float64)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    seen = np.ones(len(x)) if counts is None else np.asarray(counts, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    new = np.append(True, ordered[1:] != ordered[:-1])
    place_of = np.empty(len(x), dtype=np.int64)
    place_of[order] = np.arange(len(x))
    nothing = np.zeros_like(y)
    each = LineRows(ordered, w[order], y[order], nothing, seen[order], place_of, w, nothing, seen)
    starts = np.flatnonzero(new)
    return each if new.all() else replace(_together(each, starts), covariate=ordered[starts])


def _together(rows: LineRows, starts: Array) -> LineRows:
    """Places from each start to the next as one, at their weighted mean."""
    weights = np.add.reduceat(rows.weights, starts)
    covariate = np.add.reduceat(rows.weights * rows.covariate, starts) / weights
    mean = np.add.reduceat(rows.weights[:, None] * rows.responses, starts, axis=0) / weights[:, None]
    new_place = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, rows.n_places)))
    apart = rows.responses - mean[new_place]
    return LineRows(
        covariate,
        weights,
        mean,
        within=np.add.reduceat(rows.weights[:, None] * apart**2 + rows.within, starts, axis=0),
        counts=np.add.reduceat(rows.counts, starts),
        place_of=new_place[rows.place_of],
        row_weights=rows.row_weights,
        deviations=rows.deviations + apart[rows.place_of],
        row_counts=rows.row_counts,
    )


def in_bins(rows: LineRows, count: int) -> LineRows:
    """Neighbouring places merged into at most `count` weighted ones, as many in each: what a fit whose detail is
    wider than a bin sees. The spread inside a bin stays in `within`."""
    n = rows.n_places
    return rows if n <= count else _together(rows, np.arange(count) * n // count)


def block_means(rows: LineRows, size: int) -> LineRows:
    """The means of blocks of so many neighbouring places as observations of equal precision.

    Where neighbours share their noise, what differs inside a block says nothing of it.
    """
    means = in_bins(rows, max(2, rows.n_places // size))
    return merge_rows(means.covariate, means.responses, np.ones(means.n_places))
