"""One length scale for all (standardised) features: a grid, coarse on few rows, then fine on more.

The grid is the median distance times 2^k. Distances are shared by every kernel and length scale; each candidate costs
one eigendecomposition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.kernels import Kernel
from stopwise.kernels.radial import Radial
from stopwise.selection.relevance import half_distances
from stopwise.selection.sample import Sample, median_distance, squared_distances
from stopwise.selection.scores import Ridge, Score

COARSE_ROWS = 300
"""The grid is first walked on so many rows."""
FEW_FEATURES = 3
_WIDE, _FINE = (-3, 6), (-7, 4)
"""Exponents k of the grid: features that are many fill space thinly, few ones allow fine detail."""


@dataclass(frozen=True)
class Candidate:
    """A kernel with length scales in standard deviations of the features, and its score on so many rows."""

    kernel: Radial
    scales: Array
    per_feature: bool
    score: Score
    n_rows: int
    at_edge: str | None = None
    """Which end of the grid the length scale lies at, if any."""
    contest: float | None = None
    """The score in the comparison on unseen rows, and the log squared error there."""
    unseen: float | None = None
    parts: tuple[tuple[float, Radial, Array], ...] = ()
    """Shares, kernels and length scales of an average of kernels; empty for a single one."""
    edge_fall: float = 0.0
    """How much the score still fell in the last step to the end of the grid."""

    @property
    def name(self) -> str:
        """The kernel's, or of an average the kernels' with their shares."""
        if not self.parts:
            return self.kernel.name
        shares: dict[str, float] = {}
        for share, kernel, _ in self.parts:
            shares[kernel.name] = shares.get(kernel.name, 0.0) + share
        return " + ".join(f"{share:.2g} {name}" for name, share in shares.items())

    def gram(self, covariates: Array) -> Array:
        """The kernel matrix of standardised covariates."""
        parts = self.parts or ((1.0, self.kernel, self.scales),)
        grams = [share * kernel.profile(half_distances(covariates / scales)) for share, kernel, scales in parts]
        return cast(Array, sum(grams[1:], grams[0]))

    def in_units(self, spread: Array) -> Kernel:
        """The kernel on features in their own units, of which one standard deviation is `spread`."""
        if not self.parts:
            return self.kernel.with_length_scale(self.scales * spread)
        kernels = [share * kernel.with_length_scale(scales * spread) for share, kernel, scales in self.parts]
        return reduce(add, kernels)


class Bandwidths:
    """Scores of kernels at length scales on one sample, each computed once."""

    def __init__(self, sample: Sample, unit: float) -> None:
        self.sample, self.unit = sample, unit
        self.half = -0.5 * squared_distances(sample.covariates)
        self.known: dict[tuple[Radial, float], Score] = {}

    def at(self, kernel: Radial, exponent: float) -> Score:
        """The score at length scale unit x 2^exponent."""
        key = (kernel, exponent)
        if key not in self.known:
            scale = self.unit * 2.0**exponent
            self.known[key] = Ridge(self.sample, kernel.profile(self.half / scale**2)).score()
        return self.known[key]

    def best(self, kernel: Radial) -> float:
        """The exponent of the lowest score seen; the larger length scale where two tie."""
        seen = [(round(value.total, 9), -exponent) for (k, exponent), value in self.known.items() if k == kernel]
        return -min(seen)[1]


def exponents(n_features: int) -> tuple[int, int]:
    """The first and last k of the grid."""
    return _FINE if n_features <= FEW_FEATURES else _WIDE


def _walk(table: Bandwidths, kernels: Sequence[Radial], low: int, high: int) -> None:
    """Every second k, then the neighbours of each kernel's best."""
    for kernel in kernels:
        for k in range(low, high + 1, 2):
            table.at(kernel, k)
        table.at(kernel, high)
        centre = table.best(kernel)
        for beside in (centre - 1, centre + 1):
            if low <= beside <= high:
                table.at(kernel, beside)


def _refine(table: Bandwidths, kernel: Radial, low: int, high: int) -> None:
    """Half steps about the best k, and on in that direction while it pays."""
    centre = table.best(kernel)
    for sign in (-0.5, 0.5):
        k = centre + sign
        while low <= k <= high:
            table.at(kernel, k)
            if table.best(kernel) != k:
                break
            k += sign


def isotropic(sample: Sample, kernels: Sequence[Radial]) -> tuple[Candidate, list[Candidate]]:
    """The kernel and length scale with the lowest score, and everything that was tried."""
    unit = median_distance(sample.covariates)
    low, high = exponents(sample.covariates.shape[1])
    coarse = Bandwidths(sample.first(COARSE_ROWS), unit)
    _walk(coarse, kernels, low, high)
    order = sorted(kernels, key=lambda k: round(coarse.at(k, coarse.best(k)).total, 9))
    fine = coarse if coarse.sample is sample else Bandwidths(sample, unit)
    finalists = order if fine is coarse else order[:2]
    for kernel in finalists:
        fine.at(kernel, coarse.best(kernel))
        _refine(fine, kernel, low, high)
    tables = [coarse] if fine is coarse else [coarse, fine]
    tried = [
        _candidate(table, kernel, exponent, low, high)
        for table in tables
        for kernel, exponent in sorted(table.known, key=lambda key: (key[0].name, key[1]))
    ]
    finest = [c for c in tried if c.n_rows == sample.n_rows]
    return min(finest, key=lambda c: round(c.score.total, 9)), tried


def _candidate(table: Bandwidths, kernel: Radial, exponent: float, low: int, high: int) -> Candidate:
    d = table.sample.covariates.shape[1]
    edge = "short" if exponent <= low else "long" if exponent >= high else None
    scales = np.full(d, table.unit * 2.0**exponent)
    value = table.known[(kernel, exponent)]
    inner = [other.total for (k, e), other in table.known.items() if k == kernel and 0 < abs(e - exponent) <= 1]
    fall = max(inner) - value.total if edge and inner else 0.0
    rows = table.sample.n_rows
    return Candidate(kernel, scales, per_feature=False, score=value, n_rows=rows, at_edge=edge, edge_fall=fall)
