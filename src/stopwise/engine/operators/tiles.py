"""K on the fly: tiles of the kernel made and multiplied on threads, nothing n-by-n ever held."""

import math
from typing import cast

import numpy as np
import numpy.typing as npt
import scipy.linalg

from stopwise._support.array_library import factor_lower_half
from stopwise._support.arrays import Array, Index
from stopwise._support.memory import row_tiles, spans
from stopwise._support.threads import blas_threads, thread_count, threads
from stopwise.engine.operators.operator import KernelOperator
from stopwise.kernels import Kernel, common_origin, take_rows

_TILE_ROWS = 500
"""Rows and columns of a tile: 2 MB of doubles stay in a core's cache while they are made and used."""
_SHIFT, _SLACK = 1e-8, 1e-6
"""What is added to a part of K before it is inverted, in units of its trace, and how much rounding can make of that, in
units of the largest eigenvalue."""


class Tiled(KernelOperator):
    """K V from k(X, X) in tiles; only the upper half is made, each tile serving its mirror image too.

    The block of results is summed tile by tile in a fixed order for each tile row, so the answer depends on threads
    and tile size by rounding alone.
    """

    def __init__(
        self,
        kernel: Kernel,
        covariates: Array,
        *,
        weights: Array | None = None,
        centred: bool = False,
        dtype: npt.DTypeLike = np.float64,
        n_jobs: int | None = None,
        tile_rows: int = _TILE_ROWS,
    ) -> None:
        super().__init__(kernel, covariates, weights=weights, centred=centred)
        self.dtype = np.dtype(dtype)
        self.covariates = covariates.astype(self.dtype, copy=False)
        self.prepared = kernel.prepare(self.covariates, common_origin(self.covariates))
        self.n_threads = thread_count(n_jobs)
        self.tile_rows = tile_rows
        self._square_total: float | None = None

    def _gram_product(self, block: Array) -> Array:
        block = np.ascontiguousarray(block, dtype=self.dtype)
        tiles = list(spans(self.n_rows, self.tile_rows))
        workers = min(self.n_threads, len(tiles))
        shares = [tiles[worker::workers] for worker in range(workers)]
        count_squares = self._square_total is None
        with blas_threads(1):
            if workers == 1:
                parts = [self._share(shares[0], tiles, block, count_squares)]
            else:
                with threads(workers) as pool:
                    jobs = [pool.submit(self._share, share, tiles, block, count_squares) for share in shares]
                    parts = [job.result() for job in jobs]
        total, squares = parts[0]
        for part, more in parts[1:]:
            total += part
            squares += more
        if count_squares:
            self._square_total = squares
        return total

    def _share(self, mine: list[slice], tiles: list[slice], block: Array, squares: bool) -> tuple[Array, float]:
        """The part of Gram @ block that comes from some tile rows of the upper half."""
        out = np.zeros(block.shape, dtype=np.float64)
        total = 0.0
        for rows in mine:
            left = take_rows(self.prepared, rows)
            for columns in tiles:
                if columns.start < rows.start:
                    continue
                tile = self.kernel.block(left, take_rows(self.prepared, columns))
                out[rows] += tile @ block[columns]
                if columns.start > rows.start:
                    out[columns] += tile.T @ block[rows]
                if squares:
                    total += self._weighted_squares(tile, rows, columns) * (1 + (columns.start > rows.start))
        return out, total

    def values_from_columns(self, rows: Array) -> Array:
        """Numbers that do not exceed the eigenvalues of K, largest first, from its columns at some rows alone.

        They are the eigenvalues of Nystrom's approximation C (A + delta)^-1 C', C = K[:, rows] and A = K[rows, rows],
        which K exceeds whatever delta > 0; what rounding may have added is taken off. No columns are held.
        """
        few, root, n = take_rows(self.prepared, rows), self.root_weights, self.n_samples
        q, image = self.constant_direction, self.mean_image if self.centred else np.zeros(0)
        lifted = image - q * float(q @ image) if self.centred else image

        def columns(part: slice | Index) -> Array:
            block = self.kernel.block(take_rows(self.prepared, part), few).astype(np.float64, copy=False)
            block *= (root[part] / n)[:, None]
            block *= root[rows]
            if self.centred:
                block -= np.outer(q[part], image[rows])
                block -= np.outer(lifted[part], q[rows])
            return block

        inner, squares = columns(rows), np.zeros((rows.size, rows.size))
        for part in row_tiles(self.n_rows, rows.size):
            block = columns(part)
            squares += block.T @ block
        inner = (inner + inner.T) / 2
        inner.flat[:: rows.size + 1] += _SHIFT * max(float(np.trace(inner)), np.finfo(float).tiny)
        half = np.asfortranarray(inner.T)
        if not factor_lower_half(half):
            return np.zeros(0)
        product = scipy.linalg.solve_triangular(half, squares, lower=True, check_finite=False)
        product = scipy.linalg.solve_triangular(half, product.T, lower=True, check_finite=False)
        values = scipy.linalg.eigvalsh((product + product.T) / 2, check_finite=False)[::-1]
        # Rounding is that of the matrix before the constant was taken out, which may have been most of it.
        whole = float((np.asarray(self.gram_diagonal(), dtype=np.float64) * root**2).sum()) / n
        slack = _SLACK * float(values[0]) * max(whole / self.trace, 1.0) if self.trace > 0 else math.inf
        return cast(Array, np.maximum(values - slack, 0.0))

    def _weighted_squares(self, tile: Array, rows: slice, columns: slice) -> float:
        if self.weights is None:
            return float(np.vdot(tile, tile))
        return float(self.weights[rows] @ (tile * tile) @ self.weights[columns])

    def _gram_square_sum(self) -> float | None:
        return self._square_total
