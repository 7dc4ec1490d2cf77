"""Predictions in tiles: memory does not grow with n_train x n_test."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from stopwise._typing import Array
from stopwise.kernels import Kernel, Precomputed, Sobolev, take_rows
from stopwise.operators.line import SortedLine
from stopwise.path import Path

_TILE_ENTRIES = 4_000_000
_LINE_ROWS = 512
"""Beyond this many training rows, running sums beat tiles on a line."""


def _tiles(n_rows: int, n_columns: int) -> list[slice]:
    step = max(1, _TILE_ENTRIES // max(n_columns, 1))
    return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]


class CrossKernel:
    """k(new, training), a tile of new rows at a time."""

    def __init__(self, kernel: Kernel, new: Array, training: Array) -> None:
        self.kernel, self.new = kernel, new
        self.precomputed = isinstance(kernel, Precomputed)
        if self.precomputed:
            if new.shape[1] != len(training):
                raise ValueError(
                    f"a precomputed kernel matrix at predict needs one column per training row, {len(training)}; "
                    f"got {new.shape[1]}"
                )
        else:
            origin = training.mean(axis=0)
            self.left = kernel.prepare(new, origin)
            self.right = kernel.prepare(training, origin)
        self.shape = (len(new), len(training))

    def tile(self, rows: slice) -> Array:
        """k between some of the new rows and all training rows."""
        if self.precomputed:
            return cast(Array, self.new[rows])
        return self.kernel.block(take_rows(self.left, rows), self.right)


def predict_in_tiles(kernel: Kernel, new: Array, training: Array, dual_coef: Array, *, n_jobs: Any = None) -> Array:
    """k(new, training) @ dual_coef."""
    if isinstance(kernel, Sobolev) and len(training) > _LINE_ROWS:
        line = SortedLine(kernel, training[:, 0])
        return line.at(new[:, 0], dual_coef.reshape(len(dual_coef), -1)).reshape(len(new), *dual_coef.shape[1:])
    cross = CrossKernel(kernel, new, training)
    out = np.empty((len(new), *dual_coef.shape[1:]))
    for rows in _tiles(*cross.shape):
        out[rows] = cross.tile(rows) @ dual_coef
    return out


def variance_in_tiles(
    kernel: Kernel, new: Array, training: Array, path: Path, mean_row: Array | None, step_sums: Array
) -> Array:
    """Variance of the estimate at new points in units of the noise variance, one column per stop.

    f(x) is linear in y: its variance is sigma^2 |w(K) D (k_x - mean row)|^2 / n^2, and sigma^2 / n more for an
    intercept. Directions outside the known eigenvectors count with the largest weight there is, step_sum.
    """
    cross = CrossKernel(kernel, new, training)
    basis, n = path.spectrum.basis, path.n_samples
    assert basis is not None
    weights = np.atleast_2d(path.filter.weight(path.spectrum.eigenvalues, step_sums))
    root = np.ones(len(training)) if path.root_weights is None else path.root_weights
    out = np.empty((len(new), len(step_sums)))
    complete = path.spectrum.complete
    for rows in _tiles(*cross.shape):
        block = cross.tile(rows).astype(np.float64)
        if mean_row is not None:
            block = block - mean_row
        block = block * root
        if path.intercept:
            # The constant direction is the intercept's: it has its own term below, and eigenvalue zero here.
            constant = root / np.sqrt(n)
            block = block - np.outer(block @ constant, constant)
        inside = basis.coordinates(block.T) ** 2
        out[rows] = (weights**2 @ inside).T
        if not complete:
            outside = np.maximum(np.einsum("ij,ij->i", block, block) - inside.sum(axis=0), 0.0)
            out[rows] += outside[:, None] * step_sums**2
    return cast(Array, out / n**2 + (1 / n if path.intercept else 0.0))
