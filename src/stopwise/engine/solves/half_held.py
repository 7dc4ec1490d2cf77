"""One square array for two matrices: the Gram matrix in its upper half, a Cholesky factor in its lower half.

Products read the upper half (BLAS symv, symm), solves the lower half (trsm): n^2 numbers in all, where a matrix and its
factor side by side take twice that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.linalg import get_blas_funcs

from stopwise._support.array_library import factor_lower_half
from stopwise._support.arrays import Array
from stopwise._support.memory import spans
from stopwise._support.threads import blas_threads, thread_count, threads
from stopwise.engine.operators import Operator
from stopwise.engine.operators.held_matrix import refuse_asymmetry
from stopwise.engine.solves.factor import Factor, with_least_shift

TILE = 500
"""Rows or columns of a held matrix that are made at once: a kernel takes several copies of them."""
_ROUNDED = 0.01
"""How much of a residual may be rounding: then the error it leads to is larger by 1e-4 of itself."""


class HalfHeld(Operator):
    """K from `entries(rows, columns)` of the Gram matrix and its `diagonal`, with its rows held in another `order`.

    There is one factor at a time: making another one overwrites it.
    """

    def __init__(
        self,
        entries: Callable[[Array, Array], Array],
        diagonal: Array,
        order: Array,
        *,
        weights: Array | None = None,
        centred: bool = False,
        dtype: npt.DTypeLike = np.float64,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(len(order), weights=weights, centred=centred)
        self.order, self.dtype = order, np.dtype(dtype)
        self._entries, self._plain, self._n_jobs = entries, np.asarray(diagonal, dtype=np.float64), n_jobs
        self.square = self._made()

    def _made(self) -> Array:
        """The Gram matrix in the upper half, and its mean row in float64: dual weights may be large, and an intercept
        is their product with it."""
        square = np.empty((self.n_rows, self.n_rows), dtype=self.dtype, order="F")
        weights, sums = self.root_weights[self.order] ** 2, np.zeros(self.n_rows)

        def fill(part: slice) -> Array:
            first, last = part.start, part.stop
            tile = self._entries(self.order[:last], self.order[first:last])
            scale = max(float(tile.max()), -float(tile.min()))
            if not np.isfinite(scale):
                raise ValueError("the Gram matrix holds NaN or infinity: rescale the covariates or the kernel")
            refuse_asymmetry(float(np.abs(tile[first:] - tile[first:].T).max()), scale, self.dtype)
            square[:last, first:last] = tile
            along = tile @ weights[first:last]
            along[first:] += weights[:first] @ tile[:first]
            return cast(Array, along)

        parts = list(spans(self.n_rows, TILE))[::-1]  # the longest first
        count = min(thread_count(self._n_jobs), len(parts))
        with blas_threads(1 if count > 1 else None), threads(count) if count > 1 else nullcontext() as pool:
            for along in map(fill, parts) if pool is None else pool.map(fill, parts):
                sums[: len(along)] += along
        image = np.empty(self.n_rows)
        image[self.order] = sums
        self.mean_image = self.root_weights * image / self.n_samples**1.5
        return square

    def in_float64(self) -> None:
        """Make the matrix anew in float64; the factor is lost."""
        if self.dtype != np.float64:
            self.dtype = np.dtype(np.float64)
            del self.square  # room for the next
            self.square = self._made()

    @property
    def finest(self) -> float:
        """The smallest penalty that rounding leaves alone.

        Entries are off by about half of epsilon, independently, so that a residual, penalty times x, is off by
        sqrt(n) / 2 times epsilon times x.
        """
        if self.dtype == np.float64:
            return 0.0
        largest = float((self._plain * self.root_weights**2).max(initial=0.0))
        return float(np.sqrt(self.n_rows) * np.finfo(self.dtype).eps / 2 * largest / _ROUNDED)

    def _gram_product(self, block: Array) -> Array:
        flat = np.asfortranarray(block[self.order], dtype=self.dtype)
        symv, symm = get_blas_funcs(("symv", "symm"), (self.square, flat))
        found = symv(1.0, self.square, flat[:, 0])[:, None] if flat.shape[1] == 1 else symm(1.0, self.square, flat)
        off = self._plain[self.order] - self.square.diagonal()  # a factor has its diagonal there
        out = np.empty(block.shape)
        out[self.order] = found + off[:, None] * flat
        return out

    def gram_diagonal(self) -> Array:
        return self._plain

    def factor(self, penalty: float) -> Factor:
        """The factor of A + penalty I, A weighted, centred and unscaled."""
        roots, trace = self.root_weights[self.order], self.trace * self.n_samples
        scale = max(trace / max(self.n_rows, 1), 1e-300)
        constant = self.constant_direction[self.order] if self.centred else None

        def attempt(shift: float) -> tuple[Array | None, float]:
            self._lower_half(roots, constant, scale, penalty + shift)
            found = factor_lower_half(self.square)
            if not found and self.dtype != np.float64:
                self.in_float64()
                return attempt(shift)
            return self.square if found else None, trace

        lower, shift = with_least_shift(attempt, penalty)
        return Factor(lower, penalty, constant, scale, shift, self.order)

    def _lower_half(self, roots: Array, constant: Array | None, scale: float, added: float) -> None:
        """A + scale q q' + added I, from the upper half."""
        if constant is not None:
            image = self.mean_image[self.order] * self.n_samples
            lifted = image - constant * (constant @ image + scale)
        for part in spans(self.n_rows, TILE):
            first, last = part.start, part.stop
            tile = self.square[first:last, first:].T * (roots[first:, None] * roots[first:last])
            if constant is not None:
                tile -= constant[first:, None] * image[first:last]
                tile -= lifted[first:, None] * constant[first:last]
            corner = tile[: last - first]
            corner.flat[:: last - first + 1] = self._plain[self.order[first:last]] * roots[first:last] ** 2 + added
            if constant is not None:
                both = constant[first:last] * (image[first:last] + lifted[first:last])
                corner.flat[:: last - first + 1] -= both
            self.square[last:, first:last] = tile[last - first :]
            at = np.tril_indices(last - first)
            self.square[first + at[0], first + at[1]] = corner[at]
