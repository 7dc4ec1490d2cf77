"""Predictions in tiles: memory does not grow with n_train x n_test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.memory import spans
from stopwise._support.threads import blas_threads, has_room, limit_of, thread_count, threads
from stopwise.engine.line.repeated_solves import values_at
from stopwise.engine.solvers.line_solver import on_the_line
from stopwise.estimators.fitted import LearnedFunction
from stopwise.kernels import Kernel, Precomputed, common_origin, take_rows
from stopwise.kernels.forms import has_form


@dataclass(frozen=True)
class Tile:
    """How much of a kernel matrix is made at once: training rows, and entries. The default stays in a core's cache."""

    columns: int = 500
    entries: int = 250_000

    def rows(self, n_rows: int, n_columns: int) -> list[slice]:
        """New rows in parts."""
        return list(spans(n_rows, max(1, self.entries // max(min(n_columns, self.columns), 1))))


CACHED = Tile()
WHOLE_ROWS = Tile(columns=sys.maxsize, entries=4_000_000)
"""All training rows at once, 32 MB at a time."""
_LINE_ROWS = 512
"""Beyond this many training rows, passes over sorted rows beat tiles on a line."""


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
            origin = common_origin(training)
            self.left = kernel.prepare(new, origin)
            self.right = kernel.prepare(training, origin)
        self.shape = (len(new), len(training))

    def tile(self, rows: slice, columns: slice | None = None) -> Array:
        """k between some of the new rows and some training rows, or all."""
        if self.precomputed:
            return cast(Array, self.new[rows] if columns is None else self.new[rows, columns])
        right = self.right if columns is None else take_rows(self.right, columns)
        return self.kernel.block(take_rows(self.left, rows), right)


def predict_in_tiles(
    kernel: Kernel, new: Array, training: Array, dual_coef: Array, *, n_jobs: Any = None, tile: Tile = CACHED
) -> Array:
    """k(new, training) @ dual_coef."""
    space = on_the_line(kernel, 0 if isinstance(kernel, Precomputed) else new.shape[1])
    if space is not None and len(training) > _LINE_ROWS:
        block = dual_coef.reshape(len(dual_coef), -1)
        return values_at(space, training[:, 0], block, new[:, 0]).reshape(len(new), *dual_coef.shape[1:])
    out = np.empty((len(new), *dual_coef.shape[1:]))
    return reduce_in_tiles(kernel, new, training, dual_coef, lambda _, product: product, out, n_jobs=n_jobs, tile=tile)


def reduce_in_tiles(
    kernel: Kernel,
    new: Array,
    training: Array,
    weights: Array,
    reduce: Callable[[slice, Array], Array],
    out: Array,
    *,
    n_jobs: Any = None,
    tile: Tile = CACHED,
) -> Array:
    """What `reduce` makes of some of the new rows and k(those, training) @ weights, put into the rows of `out`."""
    cross = CrossKernel(kernel, new, training)
    tiles = tile.rows(*cross.shape)

    def fill(rows: slice) -> None:
        product = np.zeros((rows.stop - rows.start, *weights.shape[1:]))
        for columns in spans(len(training), tile.columns):
            product += cross.tile(rows, columns) @ weights[columns]
        out[rows] = reduce(rows, product)

    # Somebody else's function may not be made for threads.
    workers = min(thread_count(n_jobs), len(tiles)) if has_form(kernel) else 1
    if workers <= 1 or not has_room(workers):
        for rows in tiles:
            fill(rows)
        return out
    with blas_threads(1), threads(workers) as pool:
        jobs = [pool.submit(fill, rows) for rows in tiles]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            for job in jobs:
                job.cancel()
            raise
    return out


def predict_rows(fitted: LearnedFunction, X: Array, n_jobs: int | None) -> Array:
    """Predictions at checked rows, (m, q)."""
    with blas_threads(limit_of(n_jobs)):
        return predict_features(fitted, fitted.to_features(X), n_jobs)


def predict_features(fitted: LearnedFunction, X: Array, n_jobs: int | None) -> Array:
    """Predictions at rows as the kernel takes them, (m, q)."""
    values = predict_in_tiles(fitted.kernel, X, fitted.covariates, fitted.dual_coef, n_jobs=n_jobs)
    return cast(Array, values + fitted.beside_kernel(X))
