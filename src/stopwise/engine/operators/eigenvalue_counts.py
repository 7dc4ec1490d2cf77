"""How many eigenvalues lie above a threshold, exactly: where the inverse of K is tridiagonal.

Sylvester's law: as many eigenvalues of A lie below x as A - x has negative pivots. One sweep over the rows counts for
a whole grid of thresholds. Counts on a grid of edges place every eigenvalue in a cell of known width, so each sum over
the spectrum is known with a deterministic bracket; finer edges where the stop needs them make it as narrow as asked.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stopwise._support.arrays import Array
from stopwise.spectrum import Density

_CHUNK = 256
"""Rows swept before their pivots are counted: they stay in cache."""
_COARSE = 320
"""Edges over the whole range of eigenvalues, to begin with: 14 decades, a tenth apart."""
_FINE = 0.008
"""Ratio of neighbouring edges, less one, just below the threshold at the stop; half of it when asked again."""
GROUPS = 8
"""Replicas of a sum over the spectrum, each with a group of probes left out: a standard error to 25 percent."""
_REACH = 120.0
"""How far below the threshold edges are refined: beyond, cells widen again, as eigenvalues there count for less."""


def count_below(pivots: Array, couplings: Array, thresholds: Array) -> Array:
    """How many eigenvalues of U diag(pivots) U' are below each threshold, U unit upper bidiagonal.

    `couplings[i]` is pivots[i] times the square of the entry of U beside row i (the first is not used). The pivots of
    the shifted matrix come from those of the matrix itself, without a subtraction that could cancel, so even the
    smallest eigenvalue is counted on the right side of a threshold to nearly full relative accuracy.
    """
    shift = np.asarray(thresholds, dtype=np.float64)
    state, below = -shift, np.zeros(shift.shape, dtype=np.int64)
    rows = np.empty((_CHUNK, shift.size))
    views = list(rows)
    for last in range(len(pivots), 0, -_CHUNK):
        first = max(0, last - _CHUNK)
        d, c = pivots[first:last][::-1].tolist(), couplings[first:last][::-1].tolist()
        before = state.copy()
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            _sweep(d, c, shift, state, views)
        if np.isnan(state).any():  # a pivot was exactly zero: again, with the least there is in its place
            state = before
            _sweep(d, c, shift, state, views, tiny=True)
        below += np.count_nonzero(rows[: last - first] < 0, axis=0)
    return below


def _sweep(
    pivots: list[float], couplings: list[float], shift: Array, state: Array, rows: list[Array], tiny: bool = False
) -> None:
    """One chunk of rows, from the last; pivots of the shifted matrix go to `rows`, `state` is carried on."""
    add, divide, multiply, subtract = np.add, np.divide, np.multiply, np.subtract
    for pivot, coupling, row in zip(pivots, couplings, rows, strict=False):
        add(pivot, state, out=row)
        if tiny:
            row[row == 0] = np.finfo(np.float64).tiny
        divide(state, row, out=state)
        multiply(state, coupling, out=state)
        subtract(state, shift, out=state)


@dataclass(frozen=True)
class Cells:
    """The eigenvalues of K in cells: `edges` (descending) and how many lie `above` each, of `dimension` in all."""

    edges: Array
    above: Array
    dimension: int
    n_samples: float

    def largest(self, ritz: float, residual: float) -> float:
        """Never below the largest eigenvalue: the top of its cell, or what a Ritz pair says where it is alone there."""
        first = int(np.argmax(self.above > 0))
        alone = self.above[first] == 1 and ritz - residual > self.edges[first]
        return min(float(self.edges[max(first - 1, 0)]), ritz + residual if alone else math.inf)

    @cached_property
    def density(self) -> Density:
        """Every eigenvalue in the middle of its cell."""
        return self._middle(np.zeros(self.edges.size - 1))

    @cached_property
    def replicas(self) -> tuple[Density, ...]:
        """Eigenvalues anywhere in their cells: how far these differ tells what cells of finite width cost.

        Moved by less than the whole cell, so that they spread as leave-one-out replicas of as many groups would.
        """
        rng = np.random.default_rng(0)
        share = math.sqrt(GROUPS) / (GROUPS - 1)
        return tuple(self._middle(share * (rng.random(self.edges.size - 1) - 0.5)) for _ in range(GROUPS))

    @cached_property
    def upper(self) -> Density:
        """Every eigenvalue at the upper end of its cell: no sum is below the truth."""
        counts = np.append(np.diff(self.above), self.dimension - self.above[-1])
        return self._density(self.edges, counts)

    @cached_property
    def lower(self) -> Density:
        """Every eigenvalue at the lower end of its cell: no sum is above the truth."""
        return self._density(self.edges[1:], np.diff(self.above))

    def _middle(self, moved: Array) -> Density:
        """Each cell's eigenvalues at its middle, moved by a share of its width over the root of their number."""
        top, bottom, above = self.edges[:-1], self.edges[1:], self.above
        counts = np.diff(above)
        inside = np.sqrt(top * bottom) * (top / bottom) ** (moved / np.sqrt(np.maximum(counts, 1)))
        # Below the last edge: as much as eigenvalues like 1/j^2 would have there, far too little to matter.
        rest = self.dimension - above[-1]
        return self._density(
            np.append(inside, bottom[-1] * min(0.5, above[-1] / max(rest, 1))), np.append(counts, rest)
        )

    def _density(self, values: Array, counts: Array) -> Density:
        held = counts > 0
        return Density(values[held], counts[held].astype(np.float64), self.n_samples)


class Counting:
    """Counts that are made finer where they are asked to be: `cells` as they are now."""

    def __init__(self, pivots: Array, couplings: Array, *, n_samples: float, trace: float, null: int) -> None:
        self._pivots, self._couplings = pivots, couplings
        self._n_samples, self._null = n_samples, null
        dimension = len(pivots) - null  # how many eigenvalues are not zero
        edges = trace * np.geomspace(1.0 + 1e-9, 0.05 / dimension**2, _COARSE)
        self.cells = Cells(edges, self._count(edges), dimension, n_samples)
        self._asked: list[tuple[float, float]] = []

    def _count(self, edges: Array) -> Array:
        """Eigenvalues of K above each edge; they are 1 / (n mu) for mu of the inverse, whose null space is left out."""
        return count_below(self._pivots, self._couplings, 1.0 / (self._n_samples * edges)) - self._null

    def refine(self, threshold: float, *, again: bool = False) -> bool:
        """Narrow cells at and below a threshold; True where anything was done.

        Near a place where that was done before nothing is, unless `again`: then their width is halved, three times at
        most.
        """
        near = [width for place, width in self._asked if abs(math.log(place / threshold)) < 0.15]
        known = self.cells
        if not known.edges[-1] < threshold <= known.edges[0] or len(near) > (3 if again else 0):
            return False
        width = min(near, default=2 * _FINE) / 2
        steps = math.log(_REACH) / width
        # A cell of relative width w at lambda moves the sum by w lambda: wider ones are as good further down.
        depth = np.linspace(0.0, 1.0, int(0.6 * steps)) ** 1.5 * math.log(_REACH)
        added = threshold * np.exp(-depth)
        # Just above it filters are not flat yet; further up every eigenvalue counts as one, wherever it is.
        added = np.concatenate([threshold * np.exp(np.arange(1, 1.8 / (2 * width)) * 2 * width), added])
        edges, above = np.concatenate([known.edges, added]), np.concatenate([known.above, self._count(added)])
        order = np.argsort(-edges, kind="stable")
        self.cells = replace(known, edges=edges[order], above=above[order])
        self._asked.append((threshold, width))
        return True
