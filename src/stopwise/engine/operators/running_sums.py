"""One covariate and a Sobolev kernel: products by running sums on sorted data, O(n) each.

Order 1: min(u, v) is a double running sum over increments. Order 2: m^2 (3M - m)/6 splits into four running sums of
powers. Free polynomial parts add one inner product each. Ties need nothing special.
"""

from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.operators import tridiagonal
from stopwise.engine.operators.eigenvalue_counts import Counting
from stopwise.engine.operators.operator import KernelOperator
from stopwise.kernels.base import one_feature
from stopwise.kernels.sobolev import Sobolev

COUNTED_ROWS = 500
"""Distinct places from which on eigenvalues are counted instead of estimated."""


class SortedLine:
    """Sorted places on [0, 1] and the sums over them that a Sobolev kernel needs."""

    def __init__(self, kernel: Sobolev, covariate: Array) -> None:
        self.kernel = kernel
        u = kernel.unit(covariate.astype(np.float64, copy=False))
        self.order = np.argsort(u, kind="stable")
        self.places = u[self.order]

    def own(self, a: Array) -> Array:
        """sum_j k(x, x_j) a_j at every place x, for coefficients (n, b); both in the order of the places."""
        x = self.places[:, None]
        if self.kernel.order == 1:
            # Gram = C diag(increments) C', C the running sum: no cancellation, whatever the signs of the block.
            out = np.cumsum(np.diff(x, axis=0, prepend=0.0) * np.cumsum(a[::-1], axis=0)[::-1], axis=0)
        else:
            once, square = x * a, x * x
            low = 0.5 * x * np.cumsum(square * a, axis=0) - np.cumsum(square * once, axis=0) / 6
            out = low + square * (0.5 * _after(once) - x * _after(a) / 6)
        if not self.kernel.anchored:
            out += a.sum(axis=0)
            if self.kernel.order == 2:
                out += x * (self.places @ a)
        return cast(Array, out)


def _after(values: Array) -> Array:
    """For every row the sum of those after it."""
    return np.concatenate([np.cumsum(values[:0:-1], axis=0)[::-1], np.zeros((1, values.shape[1]))])


class Line(KernelOperator):
    """K on a line for Sobolev kernels of order 1 and 2, anchored or free."""

    kernel: Sobolev

    def __init__(
        self, kernel: Sobolev, covariates: Array, *, weights: Array | None = None, centred: bool = False
    ) -> None:
        super().__init__(kernel, covariates, weights=weights, centred=centred)
        self.line = SortedLine(kernel, one_feature(covariates, kernel.name))
        self.rational = kernel.order == 1
        if self.rational:
            self._group()

    def _gram_product(self, block: Array) -> Array:
        sums = self.line.own(np.asarray(block, dtype=np.float64)[self.line.order])
        out = np.empty_like(sums)
        out[self.line.order] = sums
        return out

    def _gram_square_sum(self) -> float | None:
        """For order 1: each pair counts through its smaller place."""
        if self.kernel.order == 2:
            return None
        w = self._sorted_weights
        value = self.line.places + (0.0 if self.kernel.anchored else 1.0)
        after = np.cumsum(w[::-1])[::-1] - w
        return float((value**2 * w * (w + 2 * after)).sum())

    @property
    def _sorted_weights(self) -> Array:
        return np.ones(self.n_rows) if self.weights is None else self.weights[self.line.order]

    # ---- a better way to grow a Krylov space than K itself

    def _group(self) -> None:
        """Distinct places with their weights, and the springs between them: the inverse of their Gram matrix."""
        places, index, _ = np.unique(self.line.places, return_index=True, return_counts=True)
        self._starts = index
        self._group_weights = np.add.reduceat(self._sorted_weights, index)
        # Centring frees the constant, whatever the kernel does at the left end; else the first step starts at zero.
        start = 0.0 if self.centred else 1.0 / max(places[0] + (0.0 if self.kernel.anchored else 1.0), 1e-12)
        self._inverse = np.concatenate([[start], 1.0 / np.diff(places)])

    @cached_property
    def counting(self) -> Counting | None:
        """Exact counts of eigenvalues, where there are rows enough for them to pay."""
        if not self.rational or self._starts.size < COUNTED_ROWS:
            return None
        inverse, weights = self._inverse, self._group_weights
        couplings = np.append(0.0, inverse[1:] / weights[:-1])
        return Counting(
            inverse / weights, couplings, n_samples=self.n_samples, trace=self.trace, null=int(self.centred)
        )

    def expand(self, block: Array, pole: float) -> Array:
        """K (K + pole)^-1 block: smoothing at the scale of the pole, one tridiagonal solve.

        Used only to choose directions (K itself is projected on them), so its rounding does no harm.
        """
        root = self.root_weights[self.line.order, None]
        sums = np.add.reduceat(root * block[self.line.order], self._starts, axis=0)
        smooth = tridiagonal.solve(self._group_weights, self.n_samples * pole * self._inverse, sums)
        counts = np.diff(np.append(self._starts, self.n_rows))
        out = np.empty_like(block)
        out[self.line.order] = root * np.repeat(smooth, counts, axis=0)
        return self.centre(out)
