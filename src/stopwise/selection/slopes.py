"""Which features a linear part has slopes for: all, or where these are too many, those that earn their place.

Far from the data a kernel returns to its mean and a slope goes on, so a table with a category of a hundred levels
should still be able to follow its one column of delays. Columns that share a length scale enter together, one group
after the other, as long as the evidence of least squares grows.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.selection.rows import Sample

_NOTHING = 1e-7
"""The length of a column (of n entries of about unit size) below which only rounding is left of it."""


def cost_of_slopes(energy: Array, count: Array | int, variance: Array, picking: float) -> Array:
    """-2 log of what `count` slopes and the picking of them are worth beforehand, up to what all models share.

    They count as draws from a Gaussian whose variance fits them, never below the noise's; every number of groups is as
    likely as any other, and every choice of so many (Chen and Chen 2008).
    """
    each = energy / np.maximum(count, 1)
    return cast(Array, count * np.log(np.maximum(each, variance)) + 2 * picking)


def chosen_slopes(sample: Sample, most: int) -> Array:
    """Which columns (d,) have a slope: all where these are at most so many, else as many as raise the evidence."""
    groups, number = np.unique(sample.groups, return_inverse=True)
    if len(sample.groups) <= most:
        return np.ones(len(sample.groups), dtype=bool)
    columns, rest = sample.root_weights[:, None] * sample.covariates, sample.free_responses
    columns = columns - sample.fixed @ (sample.fixed.T @ columns)
    entered: list[int] = []
    count, best = 0, float(_evidence(sample, np.zeros((1, rest.shape[1])), np.zeros(1), 0.0)[0])
    while len(entered) < groups.size:
        picking = math.log(math.comb(groups.size, len(entered) + 1)) / max(1, rest.shape[1])
        gains, widths = _gains(columns, rest, number)
        taken = (sample.free_responses**2).sum(axis=0) - (rest**2).sum(axis=0)
        scores = _evidence(sample, taken + gains, count + widths, picking)
        scores[entered] = scores[count + widths > most] = np.inf
        at = int(np.argmin(scores))
        if scores[at] >= best:
            break
        basis = _span(columns[:, number == at])
        best, count = float(scores[at]), count + basis.shape[1]
        rest, columns = rest - basis @ (basis.T @ rest), columns - basis @ (basis.T @ columns)
        entered.append(at)
    return np.isin(number, entered)


def _gains(columns: Array, rest: Array, number: Array) -> tuple[Array, Array]:
    """The energy (D, q) that each group of columns takes out of the rest, and its dimension (D,)."""
    squares = np.einsum("ij,ij->j", columns, columns)
    there = squares > _NOTHING**2
    sizes = np.bincount(number)
    gains, widths = np.zeros((sizes.size, rest.shape[1])), np.zeros(sizes.size)
    alone = there & (sizes[number] == 1)
    gains[number[alone]] = (columns[:, alone].T @ rest) ** 2 / squares[alone, None]
    widths[number[alone]] = 1
    for group in np.flatnonzero(sizes > 1):
        basis = _span(columns[:, number == group])
        gains[group], widths[group] = ((basis.T @ rest) ** 2).sum(axis=0), basis.shape[1]
    return gains, widths


def _span(columns: Array) -> Array:
    """An orthonormal basis of columns of about unit variance, less what was taken out of them."""
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return cast(Array, vectors[:, values > _NOTHING])


def _evidence(sample: Sample, energy: Array, counts: Array, picking: float) -> Array:
    """-2 log likelihood of least squares, mean over responses, for slopes that explain this energy (D, q)."""
    free = np.maximum(sample.n_free - counts[:, None], 1.0)
    left = (sample.free_responses**2).sum(axis=0) - energy + sample.spread_within
    variance = np.maximum(left / free, 1e-300)
    cost = cost_of_slopes(energy, counts[:, None], variance, picking)
    return cast(Array, (free * np.log(variance) + cost).mean(axis=1))
