"""Predictions in tiles: memory does not grow with n_train x n_test."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_threads, has_room, limit_of, thread_count, threads
from stopwise.engine.line.predictions import values_at, variance_at
from stopwise.engine.solvers.line_solver import LineSolver, on_the_line
from stopwise.estimators.fitted import Fitted
from stopwise.kernels import Kernel, Precomputed, take_rows
from stopwise.kernels.forms import has_form


@dataclass(frozen=True)
class Tile:
    """How much of a kernel matrix is made at once: training rows, and entries. The default stays in a core's cache."""

    columns: int = 500
    entries: int = 250_000

    def rows(self, n_rows: int, n_columns: int) -> list[slice]:
        """New rows in parts."""
        step = max(1, self.entries // max(min(n_columns, self.columns), 1))
        return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]

    def parts(self, n_columns: int) -> list[slice]:
        """Training rows in parts."""
        return [slice(first, first + self.columns) for first in range(0, n_columns, self.columns)]


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
            origin = training.mean(axis=0)
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
    cross = CrossKernel(kernel, new, training)
    out = np.zeros((len(new), *dual_coef.shape[1:]))
    tiles = tile.rows(*cross.shape)

    def fill(rows: slice) -> None:
        for columns in tile.parts(len(training)):
            out[rows] += cross.tile(rows, columns) @ dual_coef[columns]

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


def variance_in_tiles(fitted: Fitted, new: Array) -> Array:
    """Variance of the estimate at new points in units of the noise variance, one column per stop.

    f(x) is linear in y: its variance is sigma^2 |w(K) D (k_x - mean row)|^2 / n^2, and sigma^2 / n more for an
    intercept. Directions outside the known eigenvectors count with the largest weight there is, step_sum.
    """
    path, step_sums = fitted.path, fitted.step_sums
    cross = CrossKernel(fitted.kernel, new, fitted.covariates)
    basis, n = path.spectrum.basis, path.n_samples
    assert basis is not None
    weights = np.atleast_2d(path.filter.weight(path.spectrum.eigenvalues, step_sums))
    out = np.empty((len(new), len(step_sums)))
    complete = path.spectrum.complete
    for rows in WHOLE_ROWS.rows(*cross.shape):
        block = fitted.centred_block(new[rows], cross.tile(rows).astype(np.float64))
        inside = basis.coordinates(block.T) ** 2
        out[rows] = (weights**2 @ inside).T
        if not complete:
            outside = np.maximum(np.einsum("ij,ij->i", block, block) - inside.sum(axis=0), 0.0)
            out[rows] += outside[:, None] * step_sums**2
    return cast(Array, out / n**2 + fitted.fixed_variance(new))


def _variance_on_line(fitted: Fitted, X: Array) -> Array:
    """The posterior variance of the ridge whose clock reading is the stop's."""
    space, path = on_the_line(fitted.kernel, X.shape[1]), fitted.path
    assert space is not None
    with np.errstate(divide="ignore"):
        penalties = path.n_samples / fitted.step_sums
    weights = None if path.root_weights is None else path.root_weights**2
    return variance_at(space, fitted.covariates[:, 0], weights, penalties, X[:, 0], intercept=path.intercept)


def predict_rows(
    fitted: Fitted, X: Array, return_std: bool, new: bool, n_jobs: int | None
) -> Array | tuple[Array, Array]:
    """Predictions at checked rows, and standard deviations of the mean (`new`: of an observation) where asked for."""
    with blas_threads(limit_of(n_jobs)):
        X = fitted.to_features(X)
        values = predict_in_tiles(fitted.kernel, X, fitted.covariates, fitted.dual_coef, n_jobs=n_jobs)
        values = fitted.shaped(values + fitted.beside_kernel(X))
        if not (return_std or new):
            return values
        if fitted.spread is not None:
            variance = fitted.spread.variance(X)
        elif fitted.solver == LineSolver.name:
            variance = _variance_on_line(fitted, X)
        else:
            variance = variance_in_tiles(fitted, X)
        return values, fitted.shaped(np.sqrt((variance + float(new)) * fitted.noise_std**2))
