"""What a fit leaves of its rows: residuals, and 1 - h of the smoother, with the digits that few of the rows leave."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import on_host
from stopwise.engine.landmarks.features import FeatureRows
from stopwise.engine.operators import Dense
from stopwise.engine.solvers.line_solver import LineSolver
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.estimators.fitted import Fitted
from stopwise.estimators.prediction.posterior import LinePosterior, Posterior
from stopwise.filters import Ridge, sum_of_ridges
from stopwise.kernels import Precomputed
from stopwise.path import Path
from stopwise.spectrum import Basis


def basis_of(fitted: Fitted) -> Basis:
    """The eigenvectors of a fit that has rows."""
    basis = fitted.path.spectrum.basis
    assert basis is not None
    return basis


def counts_of(path: Path) -> Array:
    """How many observations each row stands for."""
    return np.ones(len(path.row_weights)) if path.counts is None else path.counts


def has_all_pairs(path: Path) -> bool:
    """Whether all eigenpairs are known."""
    basis = cast(Basis, path.spectrum.basis)
    return path.spectrum.complete and len(basis.rows) == basis.width


def with_all_pairs(fitted: Fitted, rows: Array, most: int) -> Fitted:
    """The same fit with all eigenpairs, where rows are at most so many: every solver then answers as the dense one."""
    path, kernel = fitted.path, fitted.kernel
    apart = fitted.solver == LineSolver.name or isinstance(basis_of(fitted).rows, FeatureRows)
    if apart or len(rows) > most or has_all_pairs(path):
        return fitted
    gram = (rows if isinstance(kernel, Precomputed) else kernel(on_host(rows))).astype(np.float64)
    operator = Dense(gram, weights=path.row_weights, centred=path.intercept, fixed=path.fixed)
    spectrum = dense_spectrum(operator)
    coefficients = cast(Basis, spectrum.basis).coordinates(cast(Array, path.response))
    return replace(fitted, path=replace(path, spectrum=spectrum, coefficients=coefficients))


def rows_left(
    path: Path,
    step_sums: Array,
    rows: Array,
    vectors: Array | None,
    posterior: Posterior | LinePosterior | None,
    covariates: Array,
) -> Array:
    """1 - h of some rows at readings, one per response.

    From all eigenpairs as a sum of what each leaves: where a fit nearly runs through its rows, 1 less a variance has
    lost its digits.
    """
    if vectors is not None:
        return _landmark_left(path, step_sums, rows, vectors)
    if has_all_pairs(path):
        return path_left(path, step_sums, rows)
    assert posterior is not None
    noise = counts_of(path)[rows, None] / path.row_weights[rows, None]
    return cast(Array, 1 - posterior.variance(covariates, step_sums) / noise)


def path_left(path: Path, step_sums: Array, rows: Array) -> Array:
    """1 - h of some rows at the stop of each response."""
    return np.column_stack([path.column(j).leverage_left(at)[rows] for j, at in enumerate(step_sums)])


def residuals_of(path: Path, step_sums: Array, rows: Array, vectors: Array | None) -> Array:
    """What a filter leaves of the responses at some rows at the stop of each, (rows, q), units of y."""
    if vectors is not None:
        gains = path.filter.gain(path.spectrum.eigenvalues, step_sums).T
        fit = vectors @ (gains * path.coefficients.reshape(len(gains), -1))
        left = np.asarray(path.response)[rows].reshape(len(rows), -1) - fit
        return cast(Array, left / np.sqrt(path.row_weights[rows, None]) * path.scale)
    each = [path.column(j).residual_rows(np.asarray(at))[rows] for j, at in enumerate(step_sums)]
    return cast(Array, np.column_stack(each) * path.scale)


SATURATED = 1e-12
"""Below this 1 - h is rounding."""
AROUND = np.append(0.0, np.linspace(-3.0, 3.0, 6))
"""Log readings of ridge, beside the stop, whose sum stands for another filter (`sum_of_ridges`)."""


def left_out_residuals(path: Path, step_sums: Array, rows: Array, vectors: Array | None) -> Array:
    """Residuals of some rows, each left out, at the stop of each response, (rows, q), units of y.

    Exact for ridge; of descent and flow by the sum of ridges that follows them.
    """
    columns = []
    for j, at in enumerate(step_sums):
        readings, ridge = float(at) * np.exp(AROUND), path.column(j).along(Ridge())
        if vectors is None:
            left, residuals = ridge.leverage_left(readings)[:, rows].T, ridge.residual_rows(readings)[:, rows].T
            residuals = residuals * ridge.scale
        else:
            left = _landmark_left(ridge, readings, rows, vectors)
            residuals = residuals_of(ridge, readings, rows, vectors)
        top = max(float(ridge.spectrum.largest_bound), np.finfo(float).tiny)
        columns.append(without_itself(residuals, left) @ sum_of_ridges(path.filter, readings, top))
    return np.column_stack(columns)


def without_itself(residuals: Array, left: Array) -> Array:
    """Left-out residuals r / (1 - h)."""
    return cast(Array, residuals / np.maximum(left, SATURATED))


def landmark_vectors(path: Path, rows: Array) -> Array | None:
    """Of landmarks, eigenvectors at some rows from the features of these alone: no pass over all rows."""
    basis = cast(Basis, path.spectrum.basis)
    return cast(Array, basis.rows[rows] @ basis.rotation) if isinstance(basis.rows, FeatureRows) else None


def _landmark_left(path: Path, step_sums: Array, rows: Array, vectors: Array) -> Array:
    """1 - h of some rows of a fit through landmarks at readings, one per response."""
    gains, weights = path.filter.gain(path.spectrum.eigenvalues, step_sums).T, path.row_weights[rows, None]
    leverage = vectors**2 @ gains + (weights / path.n_samples if path.intercept else 0.0)
    return cast(Array, 1 - leverage / counts_of(path)[rows, None])
