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

    def at(self, new: Array, coefficients: Array) -> Array:
        """sum_j k(x, x_j) a_j for new covariates x, coefficients (n, b) given in the original order of rows."""
        x = self.kernel.unit(new.astype(np.float64, copy=False))
        a = coefficients[self.order]
        below = np.searchsorted(self.places, x, side="right")
        return self._freed(self._anchored(x[:, None], below, a), x, a)

    def own(self, a: Array) -> Array:
        """The same at the places themselves, in their order: every place has its own row and those before it below."""
        if self.kernel.order == 2:
            out = self._anchored(self.places[:, None], slice(1, None), a)
        else:
            # Gram = C diag(increments) C', C the running sum: no cancellation, whatever the signs of the block.
            out = np.cumsum(self._increments * np.cumsum(a[::-1], axis=0)[::-1], axis=0)
        return self._freed(out, self.places, a)

    def _freed(self, out: Array, x: Array, a: Array) -> Array:
        """With the polynomials that a kernel without an anchor adds."""
        if not self.kernel.anchored:
            out += a.sum(axis=0)
            if self.kernel.order == 2:
                out += x[:, None] * (self.places @ a)
        return out

    def _anchored(self, x: Array, below: Array | slice, a: Array) -> Array:
        u = self.places[:, None]
        if self.kernel.order == 1:
            return cast(Array, _prefix(u * a)[below] + x * _suffix(a)[below])
        once, square = u * a, u * u
        low = 0.5 * x * _prefix(square * a)[below] - _prefix(square * once)[below] / 6
        high = 0.5 * _suffix(once)[below] - x * _suffix(a)[below] / 6
        return cast(Array, low + x * x * high)

    @cached_property
    def _increments(self) -> Array:
        """From each place to the next, the first from zero, (n, 1)."""
        return np.diff(self.places, prepend=0.0)[:, None]


def _prefix(values: Array) -> Array:
    """Sums of the first k rows, k = 0..n."""
    return np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])


def _suffix(values: Array) -> Array:
    """Sums of the rows from k on, k = 0..n."""
    return np.concatenate([np.cumsum(values[::-1], axis=0)[::-1], np.zeros((1, values.shape[1]))])


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
