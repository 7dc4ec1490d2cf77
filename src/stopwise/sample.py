"""Some rows that stand for all: distinct, standardised, in an order that does not depend on how they came.

Rows with the same covariates are merged into one with their mean response, their weights summed and the spread of
their responses kept. So a row given twice and a row of weight two are the same sample, a shuffled table is the same
sample, and replicates speak for the noise level exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from stopwise._support.array_library import HOST, ArrayLibrary
from stopwise._support.arrays import Array
from stopwise.kernels.warped import Warp, find_warp
from stopwise.problem import NOTHING, Problem

LEAST_LEFT = 1e-9
"""A row that has no more of itself left (1 - leverage) is fitted whatever it says."""
_ROUNDING = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Features:
    """Which columns vary, with their centre and spread (weighted standard deviation)."""

    kept: Any
    dropped: dict[int, str]
    centre: Array
    spread: Array
    groups: Array
    """For each kept column the number of its group: columns of one group share spread and length scale."""
    low: Array
    """The smallest value of each kept column, in spreads from its centre, and"""
    high: Array
    """the largest."""

    @property
    def shared(self) -> tuple[tuple[int, ...], ...]:
        """Of the kept columns, those that share a length scale, counted from the first kept one."""
        sizes = np.bincount(self.groups)
        return tuple(tuple(np.flatnonzero(self.groups == at).tolist()) for at in np.flatnonzero(sizes > 1))

    def standardise(self, columns: Array) -> Array:
        """Kept columns (already picked), centred and divided by their spread."""
        return cast(Array, (columns.astype(np.float64) - self.centre) / self.spread)

    def table(self, lengths: Array, per_feature: bool, powers: Array | None = None) -> tuple[dict[str, Any], ...]:
        """For each column its spread, length scale (in its own units), relevance and power, or why it was left out."""
        rates = self.spread / lengths
        relevance = rates / rates.max(initial=0.0) if per_feature else np.ones(rates.size)
        rows: list[dict[str, Any]] = [{"feature": j, "used": False, "why": why} for j, why in self.dropped.items()]
        columns = {"spread": self.spread, "length_scale": lengths, "relevance": relevance}
        columns |= {} if powers is None else {"power": powers}
        for at, j in enumerate(self.kept):
            numbers = {name: float(column[at]) for name, column in columns.items()}
            rows.append({"feature": int(j), "used": True, **numbers})
        return tuple(sorted(rows, key=lambda row: cast(int, row["feature"])))


def look_at_features(covariates: Array, weights: Array | None, shared: tuple[tuple[int, ...], ...] = ()) -> Features:
    """Centre and spread of every column; a column that does not vary beyond rounding is dropped with its reason.

    A group of columns that share a length scale counts as one feature: its spread is the root of the sum of squares.
    """
    low, high = covariates.min(axis=0).astype(np.float64), covariates.max(axis=0).astype(np.float64)
    size = np.maximum(np.abs(low), np.abs(high))
    rounding = _ROUNDING if covariates.dtype == np.float64 else 16 * np.finfo(np.float32).eps
    varies = high / 2 - low / 2 > rounding * size / 2
    dropped = {int(j): f"constant: always {low[j]:g}" for j in np.flatnonzero(~varies)}
    kept = np.flatnonzero(varies)
    # Divided by half the range before squaring: no magnitude overflows.
    middle, reach = low[kept] / 2 + high[kept] / 2, high[kept] / 2 - low[kept] / 2
    inside = (covariates[:, kept].astype(np.float64) - middle) / reach
    share = np.full(len(inside), 1 / len(inside)) if weights is None else weights / weights.sum()
    mean = share @ inside
    spread = reach * np.sqrt(share @ (inside - mean) ** 2)
    first = np.arange(covariates.shape[1])
    for group in shared:
        first[list(group)] = group[0]
    groups = np.unique(first[kept], return_inverse=True)[1]
    if shared:
        largest = spread.max(initial=0.0) or 1.0
        spread = largest * np.sqrt(np.bincount(groups, (spread / largest) ** 2))[groups]
    ends = ((end - mean) * (reach / spread) for end in (-1.0, 1.0))
    return Features(kept, dropped, middle + reach * mean, spread, groups, *ends)


@dataclass(frozen=True)
class Sample:
    """Distinct rows: standardised covariates (m, d), weights (m,), mean responses (m, q), replicate spread (m, q).

    `means` are centred where there is an intercept, and of unit variance per response. `within` is the weighted sum of
    squares of replicates about their own mean, `replicates` how many observations there are. Weights add up to these.
    `n_distinct` counts the distinct rows that this sample was drawn from; `middle` and `unit` (q,) are what was taken
    off its responses, and what they were divided by, when it was drawn; `linear` tells whether a linear part is left
    unpenalised beside the intercept, and `warped` whether kernels see skewed features drawn in.
    """

    covariates: Array
    weights: Array
    means: Array
    within: Array
    replicates: Array
    intercept: bool
    n_distinct: int
    middle: Array
    unit: Array
    groups: Array
    """For each column the number, from 0, of the group with which it shares a length scale."""
    slopes: Array
    """Which columns a linear part has slopes for, or would have; none where there may be no linear part."""
    warp: Warp | None = None
    """What draws in skewed features; None where none is."""
    linear: bool = False
    warped: bool = False
    library: ArrayLibrary = HOST
    """Where products of its matrices are made."""

    @property
    def n_rows(self) -> int:
        """How many distinct rows."""
        return len(self.weights)

    @cached_property
    def n_samples(self) -> float:
        """How many samples they stand for."""
        return float(self.weights.sum())

    @property
    def n_groups(self) -> int:
        """How many groups of columns."""
        return int(self.groups.max()) + 1

    @property
    def drawn_in(self) -> Warp | None:
        """What kernels see the features through; None where they see them as they are."""
        return self.warp if self.warped else None

    @cached_property
    def places(self) -> Array:
        """Where kernels see the rows, (m, d)."""
        return self.seen_at(self.covariates)

    def seen_at(self, covariates: Array) -> Array:
        """Where kernels see some standardised covariates."""
        return covariates if self.drawn_in is None else self.drawn_in.places(covariates)

    @property
    def spread_of_places(self) -> Array:
        """In standard deviations of the features, (d,): one, unless they are drawn in."""
        return np.ones(self.covariates.shape[1]) if self.drawn_in is None else self.drawn_in.spread

    @property
    def n_free(self) -> float:
        """Samples less the degrees of freedom of what is not penalised."""
        return self.n_samples - float(self.fixed.shape[1])

    @cached_property
    def root_weights(self) -> Array:
        """sqrt of the weights."""
        return cast(Array, np.sqrt(self.weights))

    @cached_property
    def responses(self) -> Array:
        """sqrt(w) times the mean responses: the coordinates in which the normalized matrix is symmetric."""
        return cast(Array, self.root_weights[:, None] * self.means)

    @cached_property
    def fixed(self) -> Array:
        """An orthonormal basis (m, p) of what is not penalised, in the coordinates of `responses`."""
        return orthonormal(self.root_weights[:, None] * self.design(self.covariates))

    def design(self, covariates: Array) -> Array:
        """What is not penalised at some rows: nothing, the constant, or the constant and what has a slope."""
        ones = np.ones((len(covariates), int(self.intercept)))
        return np.hstack([ones, covariates[:, self.slopes]]) if self.linear else ones

    @cached_property
    def decisive(self) -> Array:
        """Which rows (m,) alone decide one of the slopes that may be free: the only row of a level, say.

        Once such a row is left out nothing tells of its slope, so that with a linear part no prediction is left of it.
        """
        free = self.with_linear() if self.slopes.any() and not self.linear else self
        return cast(Array, (free.fixed**2).sum(axis=1) >= (1 - 2 * LEAST_LEFT) * self.replicates)

    @cached_property
    def free_responses(self) -> Array:
        """`responses` less their part in the span of `fixed`."""
        return cast(Array, self.responses - self.fixed @ (self.fixed.T @ self.responses))

    def picking(self, count: int | None = None) -> float:
        """log C(D, k) for each response: in how many ways k of D groups of columns, or those sloped, may be picked."""
        sloped = np.unique(self.groups[self.slopes]).size if self.linear else 0
        ways = math.comb(self.n_groups, sloped if count is None else count)
        return math.log(ways) / float(max(1, self.means.shape[1]))

    @cached_property
    def spread_within(self) -> Array:
        """Sum of squares of all replicates about their means, per response."""
        return cast(Array, self.within.sum(axis=0))

    def first(self, count: int) -> Sample:
        """The first rows of the (already shuffled) sample, centred and scaled anew."""
        if count >= self.n_rows:
            return self
        return _settled(self._taken(slice(count)))

    def _taken(self, rows: Any) -> Sample:
        """Some rows, as they are."""
        names = ("covariates", "weights", "means", "within", "replicates")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def parted(self, parts: int) -> Iterator[Sample]:
        """The same rows in other orders: each of some equal parts of them last, in turn."""
        size = self.n_rows // parts
        for k in range(parts):
            yield self._taken(np.roll(np.arange(self.n_rows), -(k + 1) * size))

    def with_linear(self) -> Sample:
        """The same rows with the linear part left unpenalised."""
        return replace(self, linear=True)

    def with_warp(self) -> Sample:
        """The same rows with skewed features drawn in."""
        return replace(self, warped=True)

    def like(self, other: Sample) -> Sample:
        """The same rows with a linear part, or drawn in, where the other's are."""
        return replace(self, linear=other.linear, warped=other.warped)


def _settled(sample: Sample) -> Sample:
    """Weights that add up to these rows' observations; responses centred (with an intercept) and of unit variance."""
    by = float(sample.replicates.sum() / sample.weights.sum())
    means, weights, within = sample.means, by * sample.weights, by * sample.within
    middle = np.average(means, axis=0, weights=weights) if sample.intercept else np.zeros(means.shape[1])
    means = means - middle
    energy = np.average(means**2, axis=0, weights=weights) + within.sum(axis=0) / weights.sum()
    unit = np.where(energy > 0, np.sqrt(energy), 1.0)
    return replace(sample, weights=weights, means=means / unit, within=within / unit**2, middle=middle, unit=unit)


def orthonormal(columns: Array) -> Array:
    """An orthonormal basis of the span of columns of about unit variance; directions within rounding are left out."""
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return cast(Array, vectors[:, values > NOTHING])


def make_sample(problem: Problem, features: Features, limit: int) -> Sample:
    """At most `limit` distinct rows of a problem, drawn with the problem's seed."""
    raw = problem.covariates[:, features.kept]
    columns, given = features.standardise(raw), np.ones(len(raw))
    # Lexicographic, each column oriented by its skewness: the same order for any shift, scale or order of rows.
    order = np.lexsort(np.where((columns**3).mean(axis=0) < -1e-12, -columns, columns).T[::-1])
    ordered, responses = raw[order], problem.responses[order]
    weights = (given if problem.weights is None else problem.weights)[order]
    counts = (given if problem.counts is None else problem.counts)[order]
    starts = np.flatnonzero(np.append(True, np.any(ordered[1:] != ordered[:-1], axis=1)))
    totals = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights[:, None] * responses, starts, axis=0) / totals[:, None]
    group = np.cumsum(np.bincount(starts, minlength=len(raw))) - 1
    within = np.add.reduceat(weights[:, None] * (responses - means[group]) ** 2, starts, axis=0)
    # What is below rounding of the responses themselves is rounding, not replicate variance.
    within = np.where(within > (_ROUNDING * np.abs(means)) ** 2 * totals[:, None], within, 0.0)
    picked = np.random.default_rng(problem.seed).permutation(starts.size)[:limit]
    varying = np.flatnonzero(np.ptp(responses, axis=0) > 0)
    return _settled(
        Sample(
            covariates=features.standardise(ordered[starts[picked]]),
            weights=totals[picked],
            means=means[np.ix_(picked, varying)],
            within=within[np.ix_(picked, varying)],
            replicates=np.add.reduceat(counts, starts)[picked],
            intercept=problem.intercept,
            n_distinct=int(starts.size),
            middle=np.zeros(varying.size),
            unit=np.ones(varying.size),
            groups=features.groups,
            slopes=np.ones(features.kept.size, dtype=bool),
        )
    )


def with_powers(sample: Sample, features: Features) -> Sample:
    """A sample that knows how its skewed features may be drawn in; columns that share a length scale stay apart."""
    shared = np.bincount(features.groups)[features.groups] > 1
    return replace(
        sample, warp=find_warp(sample.covariates, sample.weights, features.low, features.high, left_alone=shared)
    )
