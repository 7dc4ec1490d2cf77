"""Which rows of a table are observations of their own, and which are copies of another.

A table with copies looks less noisy than it is: a copy is predicted without error by its twin. So rows that agree in X
and y become one row here. Whether that row then is one observation or several depends on why they agree: a response
with few values repeats by chance, and each repeat is an observation; a continuous one repeats only where a row was
written down again. The two are told apart by how often rows that are merely near each other agree.

Weights are relative precisions, and whole numbers say how often a row was seen, as copies do. Weights over all rows add
up to the number of observations, whatever they were multiplied by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

from stopwise._support.arrays import Array, Rows, Tensor
from stopwise._support.memory import row_tiles
from stopwise._support.torch import distinct_tensor_rows, is_tensor, on_host, row_keys

COPIES = 0.5
"""Rows of equal X that agree in y beyond chance more often than this are copies (p1 - p0 > COPIES (1 - p0))."""
_QUERIES, _NEIGHBOURS = 1_000, 20_000
"""Groups of equal X whose nearest other rows are looked up, and among how many distinct rows."""
_DRAWN, _LEAST_DRAWN = 1_000_000, 5_000
"""Rows that are drawn anew, to see whether they meet: so many at most, and several times as many as there are until
they are so many. Of 300 rows on 4,096 places 11 pairs meet, three more or less."""
_UNKNOWN = 0.1
"""What left-out rows do not know of the function over the noise, as a ratio of variances, in the mean over rows:
df / (n - df), here one degree of freedom in eleven observations. Where it is more, a row of great weight still counts
for too much; where it is less, for too little, which costs a percent of the error."""
_SAME_POINT = 4096 * np.finfo(np.float64).eps
"""Of k(x, x) + k(z, z): points nearer than a millionth of a length scale are one."""
_CHANCE = 1e-3
"""A common factor of all counts that chance explains with less than this probability is how often all was repeated."""


@dataclass(frozen=True)
class Observations:
    """The rows to fit, one for each different (X, y), and how they stand for the table that was given.

    `first` numbers, in the given table, the first row of each; `row_of` says for every given row which of them it
    became (-1: weight zero). `weights` are relative precisions and `counts` the number of observations of each row,
    None where all are one; both add up to `n_observations`. A given weight times `unit` is a relative precision.
    """

    first: Array
    row_of: Array
    weights: Array | None
    counts: Array | None
    unit: float = 1.0

    @property
    def n_observations(self) -> float:
        """How many observations the table holds."""
        return float(len(self.first)) if self.counts is None else float(self.counts.sum())

    @property
    def is_table(self) -> bool:
        """Whether the rows are those of the given table, in their order."""
        return len(self.first) == len(self.row_of)


def left_out_weights(weights: Array, counts: Array | None = None) -> Array:
    """What each row's squared left-out error counts for where stops are compared, adding up as the weights do.

    The error of a row of weight w has variance sigma^2 / w + tau^2, tau what the other rows do not know of the function
    there, and its inverse is the best weight: w / (1 + r w), r = tau^2 / sigma^2. So a row given a thousand times, or
    known without noise, does not decide alone. r is the same for all stops: else their errors could not be compared. Of
    a row of several observations one is left out at a time, and w is that one's.
    """
    weighed = weights / (1 + _UNKNOWN * (weights if counts is None else weights / counts))
    return cast(Array, weighed * (weights.sum() / weighed.sum()))


def find_observations(
    covariates: Rows, responses: Array, weights: Array | None = None, *, square: bool = False
) -> Observations:
    """The observations in rows (n, d) with responses (n, q) and weights (n,), which may be zero.

    `square`: covariates are a kernel matrix, whose rows are points.
    """
    given = np.ones(len(responses)) if weights is None else np.asarray(weights, dtype=np.float64)
    kept, n_given = np.flatnonzero(given > 0), len(given)
    if len(kept) < n_given:
        covariates, responses, given = covariates[_index(covariates, kept)], responses[kept], given[kept]
    groups = equal_points(cast(Array, covariates), kept) if square else equal_rows(covariates)
    if groups is None and weights is None:
        return Observations(first=kept, row_of=kept, weights=None, counts=None)
    same_x = np.arange(len(given)) if groups is None else groups
    same_y = np.zeros(len(given), dtype=np.int64) if groups is None else _numbered(responses)
    same = _paired(same_x, same_y)
    times = given if np.all(given == np.floor(given)) else np.ones(len(given))
    seen = _without_repeats(np.bincount(same, weights=times))
    agreement = _agreement(covariates, same_x, same_y, same, seen)
    if agreement is None or (agreement > COPIES and (square or not _meet_by_chance(covariates, responses, same, seen))):
        return _assemble(kept, n_given, same, given, np.ones(int(same.max()) + 1))
    if times is not given:  # rows that differ in precision are left out one by one
        same = _paired(same, _numbered(given[:, None]))
    return _assemble(kept, n_given, same, given, _without_repeats(np.bincount(same, weights=times)))


def _assemble(kept: Array, n_given: int, same: Array, given: Array, counts: Array) -> Observations:
    """Rows in the order in which they first appear, weights adding up to the number of observations."""
    _, first, number = np.unique(same, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    total = np.bincount(same, weights=given)[order]
    counts = counts[order]
    unit = float(counts.sum() / total.sum())
    total = _rounded(total * unit)
    row_of = np.full(n_given, -1)
    row_of[kept] = rank[number]
    even = np.all(np.abs(total - 1) <= 1e-11)
    return Observations(
        first=kept[first[order]],
        row_of=row_of,
        weights=None if even else total,
        counts=None if np.all(counts == 1) else counts,
        unit=unit,
    )


def _rounded(weights: Array) -> Array:
    """Weights to 40 binary digits: the same whatever they were multiplied by, where searches would amplify rounding."""
    fraction, exponent = np.frexp(weights)
    return cast(Array, np.ldexp(np.round(np.ldexp(fraction, 40)), exponent - 40))


# ---- equal rows -------------------------------------------------------------------------------------------------


def equal_rows(rows: Rows) -> Array | None:
    """For each row a number that rows of equal entries share; None where all rows differ."""
    if is_tensor(rows):
        return cast("Array | None", distinct_tensor_rows(rows))
    # Mostly one column tells, and if not, one sort of hashes.
    if any(_all_differ(column) for column in rows.T[:1]) or _all_differ(row_hashes(rows)):
        return None
    return _numbered(rows)


def equal_points(gram: Array, columns: Array) -> Array | None:
    """For each row of a kernel matrix a number that rows of one point share; None where all points differ.

    `columns` are those of the rows. Two points are one where k(x, x) + k(z, z) - 2 k(x, z) is rounding: a product of
    matrices does not give equal points equal rows to the last digit.
    """
    own = gram[np.arange(len(gram)), columns]
    first = np.arange(len(gram))
    for some in row_tiles(len(gram), len(gram)):
        sums = own[some, None] + own
        first[some] = np.argmax(np.abs(sums - 2 * gram[some][:, columns]) <= _SAME_POINT * np.abs(sums), axis=1)
    return None if np.all(first == np.arange(len(gram))) else np.unique(first, return_inverse=True)[1]


def _all_differ(values: Array) -> bool:
    ordered = np.sort(values)
    return bool((ordered[1:] != ordered[:-1]).all())


def _numbered(rows: Array) -> Array:
    """Rows of equal entries get equal numbers, from 0 on, in an order that depends on their entries alone."""
    rows = np.asarray(rows)
    _, first, number = np.unique(row_hashes(rows), return_index=True, return_inverse=True)
    if np.all(rows == rows[first[number]]):
        return number
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)  # two different rows with one hash


def row_hashes(rows: Array) -> Array:
    """One number for each row, of its entries alone: equal rows have equal ones."""
    # Zero has two signs and one value.
    columns = (np.ascontiguousarray(column + 0.0, dtype=np.float64).view(np.int64) for column in rows.T)
    return cast(Array, row_keys(columns, np.zeros(len(rows), dtype=np.int64)))


def _paired(first: Array, second: Array) -> Array:
    """Numbers from 0 on of the pairs that occur."""
    return np.unique(first * (int(second.max(initial=0)) + 1) + second, return_inverse=True)[1].reshape(-1)


def _index(rows: Rows, index: Array) -> Any:
    """An index that a tensor takes as well as an array does."""
    return cast(Tensor, rows).new_tensor(index).long() if is_tensor(rows) else index


# ---- copies or chance -------------------------------------------------------------------------------------------


def _without_repeats(seen: Array) -> Array:
    """Counts over their greatest common divisor: how often the whole table was repeated, unless chance explains it."""
    if seen.min() < 2 or seen.max() > 2**53:
        return seen
    factor = int(np.gcd.reduce(seen.astype(np.int64)))
    by_chance = math.exp(-(len(seen) - 1) * math.log(factor)) >= _CHANCE
    return seen if by_chance else seen / factor


def _agreement(covariates: Rows, same_x: Array, same_y: Array, same: Array, seen: Array) -> float | None:
    """(p1 - p0) / (1 - p0): p1 how often rows of equal X agree in y, p0 how often the nearest of different X do.

    Means over the rows that share their X with another one; None where none does. `seen` counts each different (X, y).
    """
    _, at = np.unique(same, return_index=True)
    table = csr_matrix((seen, (same_x[at], same_y[at])))
    size = np.asarray(table.sum(axis=1)).ravel()
    shared = np.flatnonzero(size > 1)
    if not shared.size:
        return None
    squares = np.asarray(table[shared].multiply(table[shared]).sum(axis=1)).ravel()
    inside = float(((squares - size[shared]) / (size[shared] - 1)).sum() / size[shared].sum())
    if inside >= 1 or size.size == 1:
        return inside
    shared = _evenly(shared, _QUERIES)
    nearest = _nearest_other(covariates, same_x, shared)
    common = np.asarray(table[shared].multiply(table[nearest]).sum(axis=1)).ravel()
    near = float((common / size[nearest]).sum() / size[shared].sum())
    return (inside - near) / (1 - near) if near < 1 else 0.0


def _meet_by_chance(covariates: Rows, responses: Array, same: Array, times: Array) -> bool:
    """Whether rows would agree in X and in y about as often if nothing had been copied.

    `same` numbers different (X, y), and `times` counts each, but for repeats of the whole table, which say nothing.
    Where a response of few values is nearly certain rows of equal X agree whether copied or not, and only X can tell.
    Its columns are shuffled, each by itself among the rows of one response; a single column is drawn evenly from the
    steps that its values lie on. Copies have twins that rows drawn anew have not.
    """
    total = float(times.sum())
    if _meeting_on_steps(responses, total) <= 1 - COPIES:
        return False
    seen = np.searchsorted(np.cumsum(times), (np.arange(size := int(min(total, _DRAWN))) + 0.5) * (total / size))
    seen = np.unique(same, return_index=True)[1][seen]
    rows, classes = on_host(covariates)[seen], _numbered(responses[seen])
    rows = rows[:, np.ptp(rows, axis=0) > 0]
    found = _meeting(_numbered(rows)) if rows.shape[1] else 1.0
    if rows.shape[1] < 2:
        return _meeting_on_steps(rows, total) > (1 - COPIES) * found
    rng, own = np.random.default_rng(0), np.argsort(classes, kind="stable")
    anew, by_chance = np.empty_like(rows), []
    for _ in range(-(-_LEAST_DRAWN // size)):
        for old, new in zip(rows.T, anew.T, strict=True):
            new[own] = old[np.lexsort((rng.random(size), classes))]
        by_chance.append(_meeting(_numbered(anew)))
    return float(np.mean(by_chance)) > (1 - COPIES) * found


def _meeting(numbers: Array) -> float:
    """The share of rows whose number another one has."""
    return float(np.mean(np.bincount(numbers)[numbers] > 1))


def _meeting_on_steps(rows: Array, n_rows: float) -> float:
    """The share of so many rows that would meet another one, every column drawn evenly from the steps between its
    smallest and its largest value; a step is the smallest gap."""
    places = 1.0
    for column in rows.T:
        values = np.unique(column)
        if values.size > 1:
            places *= 1 + float((values[-1] / 2 - values[0] / 2) / (np.diff(values / 2).min() or np.inf))
    return -math.expm1((n_rows - 1) * math.log1p(-1 / places)) if places > 1 else 1.0


def _nearest_other(covariates: Rows, same_x: Array, asked: Array) -> Array:
    """For each of some groups of equal X the nearest other group, columns in standard deviations."""
    _, first = np.unique(same_x, return_index=True)
    looked_at = np.union1d(asked, _evenly(np.arange(len(first)), _NEIGHBOURS))
    rows = standardised(on_host(covariates[_index(covariates, first[looked_at])]).astype(np.float64))
    own = np.searchsorted(looked_at, asked)
    nearest = np.empty(len(asked), dtype=np.int64)
    for some in row_tiles(len(asked), len(rows)):
        part = own[some]
        far = cdist(rows[part], rows)
        far[np.arange(len(part)), part] = np.inf
        nearest[some] = looked_at[np.argmin(far, axis=1)]
    return nearest


def _evenly(numbers: Array, count: int) -> Array:
    """At most so many of these numbers, evenly spaced."""
    if len(numbers) <= count:
        return numbers
    return cast(Array, numbers[np.linspace(0, len(numbers) - 1, count).astype(np.int64)])


def within_range(rows: Array) -> tuple[Array, Array]:
    """Each column mapped to [-1, 1], and half its range (1 where it does not vary): nothing overflows."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    reach = high / 2 - low / 2
    reach = np.where(reach > 0, reach, 1.0)
    return cast(Array, (rows - (low / 2 + high / 2)) / reach), reach


def standardised(rows: Array, weights: Array | None = None) -> Array:
    """Each column centred and divided by its standard deviation (left at 0 where it does not vary), at any size."""
    inside = within_range(rows)[0]
    inside = inside - np.average(inside, axis=0, weights=weights)
    spread = np.sqrt(np.average(inside**2, axis=0, weights=weights))
    return cast(Array, inside / np.where(spread > 0, spread, 1.0))
