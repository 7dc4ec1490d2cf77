"""Which features a linear part has slopes for: all, or where these are too many, those that earn their place.

Far from the data a kernel returns to its mean and a slope goes on, so a table with a category of a hundred levels
should still be able to follow its one column of delays. Columns that share a length scale enter together, one group
after the other, as long as the evidence of least squares grows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.selection.rows import Sample


def cost_of_slopes(energy: Array, count: int, variance: Array, picking: float) -> Array | float:
    """-2 log of what `count` slopes and the picking of them are worth beforehand, up to what all models share.

    They count as draws from a Gaussian whose variance fits them, never below the noise's; every number of groups is as
    likely as any other, and every choice of so many (Chen and Chen 2008).
    """
    drawn = count * np.log(np.maximum(energy / count, variance)) if count else 0.0
    return cast(Array, drawn + 2 * picking)


def with_slopes(rows: Sample, learned_from: Sample, rows_per_slope: int) -> Sample:
    """The same rows; their linear part, if any, has the slopes that a part of them can bear."""
    return replace(rows, slopes=chosen_slopes(learned_from, learned_from.n_rows // rows_per_slope))


def chosen_slopes(sample: Sample, most: int) -> Array:
    """Which columns (d,) have a slope: all where these are at most so many, else as many as raise the evidence."""
    groups = sample.groups
    chosen = np.full(len(groups), len(groups) <= most)
    columns, rest = sample.root_weights[:, None] * sample.covariates, sample.free_responses
    columns = columns - sample.fixed @ (sample.fixed.T @ columns)
    best, bases = _evidence(sample, rest, 0, chosen), np.empty((sample.n_rows, 0))
    while not chosen.all():
        tried = []
        for group in np.unique(groups[~chosen]):
            basis, among = _span(columns[:, groups == group], sample), chosen | (groups == group)
            left = rest - basis @ (basis.T @ rest)
            tried.append((_evidence(sample, left, bases.shape[1] + basis.shape[1], among), among, basis))
        lowest, among, basis = min(tried, key=lambda each: each[0])
        if lowest >= best or bases.shape[1] + basis.shape[1] > most:
            break
        best, chosen, bases = lowest, among, np.hstack([bases, basis])
        rest, columns = rest - basis @ (basis.T @ rest), columns - basis @ (basis.T @ columns)
    return chosen


def _span(columns: Array, sample: Sample) -> Array:
    """An orthonormal basis of what columns of about unit variance add to those that were taken out of them."""
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return cast(Array, vectors[:, values > 1e-8 * math.sqrt(sample.n_samples)])


def _evidence(sample: Sample, rest: Array, count: int, chosen: Array) -> float:
    """-2 log likelihood of least squares that leave `rest` of the responses, mean over these."""
    free = sample.n_free - count
    left, whole = (rest**2).sum(axis=0), (sample.free_responses**2).sum(axis=0)
    variance = np.maximum((left + sample.spread_within) / free, 1e-300)
    cost = cost_of_slopes(whole - left, count, variance, replace(sample, slopes=chosen).picking)
    return float((free * np.log(variance) + cost).mean())
