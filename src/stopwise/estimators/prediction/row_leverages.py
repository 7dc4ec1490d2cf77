"""What a fit leaves of its rows: residuals, and 1 - h of the smoother, with the digits that few of the rows leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import on_host
from stopwise.engine.landmarks.features import FeatureRows
from stopwise.engine.line.fits import LineFit, fit_at
from stopwise.engine.line.merged_rows import merge_rows
from stopwise.engine.line.scores import left_out_rows, residual_rows, row_leverage_left
from stopwise.engine.operators import Dense
from stopwise.engine.solvers.line_solver import LineSolver
from stopwise.engine.spectrum.complex_ridges import ComplexRidges, as_complex_ridges
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.estimators.fitted import Fitted
from stopwise.estimators.prediction.posterior import LinePosterior, Posterior
from stopwise.filters import Ridge
from stopwise.kernels import Precomputed
from stopwise.path import Path
from stopwise.problem import row_order
from stopwise.rules.base import Data
from stopwise.rules.left_out_blocks import LeftOutSet, sets_of
from stopwise.spectrum import Basis


def basis_of(fitted: Fitted) -> Basis:
    """The eigenvectors of a fit that has rows."""
    basis = fitted.path.spectrum.basis
    assert basis is not None
    return basis


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
    if isinstance(posterior, LinePosterior):
        fits = [_line_fit(path.column(j), posterior, complex(at)) for j, at in enumerate(step_sums)]
        return np.hstack([row_leverage_left(fit)[rows] for fit in fits])
    assert posterior is not None
    noise = path.row_counts[rows, None] / path.row_weights[rows, None]
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
_NO_STEP = 1e-12
"""Of step_sum times the largest eigenvalue: what no row can tell from no step."""


def left_out_residuals(path: Path, step_sums: Array, rows: Array, vectors: Array | None) -> Array:
    """Residuals of some rows, each left out, at the stop of each response, (rows, q), units of y.

    Of the filter's own fits without the row, as closely as a sum of ridges follows it: of cut-off roughly.
    """
    return np.column_stack([_left_out(path.column(j), float(at), rows, vectors) for j, at in enumerate(step_sums)])


def _left_out(path: Path, step_sum: float, rows: Array, vectors: Array | None) -> Array:
    """Of one response: the sum over ridges of r / (1 - h), both from what a ridge leaves of each direction."""
    ridges = _ridges(path, step_sum)
    shrinkage = ridges.shrinkage(path.spectrum.eigenvalues)
    basis, at = (path.spectrum.basis, rows) if vectors is None else (Basis(vectors), np.arange(len(rows)))
    assert basis is not None
    counts, free = path.row_counts[rows, None], path.free
    left = _by_parts(basis.squared, shrinkage)[at] + (counts - 1 - (free[rows] ** 2).sum(axis=1, keepdims=True))
    residuals = _by_parts(basis.combine, path.coefficients[:, None] * shrinkage)
    if vectors is not None or not has_all_pairs(path):  # what no direction sees of a row and its response is left whole
        unseen = 1 - basis.squared(np.ones(len(shrinkage)))[at]
        left = left + unseen[:, None] - _told_by_traces(path, ridges, shrinkage, rows)
        residuals = residuals[at] + (np.asarray(path.response)[rows] - basis.combine(path.coefficients)[at])[:, None]
    else:  # rounding of the responses along the columns that are free, which no ridge shrinks, is not in them
        residuals = (residuals - free @ (free.T @ residuals))[at]
    found = ridges.sum(residuals * counts / np.where(np.abs(left) > SATURATED * counts, left, SATURATED * counts))
    return cast(Array, found / np.sqrt(path.row_weights[rows]) * path.scale)


def left_out_sets(fitted: Fitted) -> list[LeftOutSet] | None:
    """Rows that share their noise, by the groups that were given or by the rule's blocks, to be left out together.

    None where all rows are on their own, or not all eigenpairs are at hand.
    """
    path = fitted.path
    if not has_all_pairs(path) or path.counts is not None:
        return None
    rows = len(path.row_weights)
    return sets_of(Data(rows, subjects=fitted.subjects, order=row_order(fitted.covariates)), fitted.rule.block)


def residuals_of_sets(path: Path, step_sums: Array, sets: list[LeftOutSet]) -> Array:
    """Residuals of all rows at the stop of each response, each with its whole set left out, (rows, q), units of y.

    From all eigenpairs: with S = I - H of a ridge and B the rows of a set, the residuals without it are (S_BB)^-1 r_B.
    """
    return np.column_stack([_residuals_of_sets(path.column(j), at, sets) for j, at in enumerate(step_sums.tolist())])


def _residuals_of_sets(path: Path, step_sum: float, sets: list[LeftOutSet]) -> Array:
    basis, free = cast(Basis, path.spectrum.basis), path.free
    ridges, out = _ridges(path, step_sum), np.empty(len(free))
    shrinkage = ridges.shrinkage(path.spectrum.eigenvalues)
    residuals = _by_parts(basis.combine, path.coefficients[:, None] * shrinkage)
    residuals = residuals - free @ (free.T @ residuals)
    for rows, scored in ((each.rows, each.scored) for each in sets):
        left = [_left_of(path, rows, column) for column in shrinkage.T]
        solved = [np.linalg.solve(matrix, residuals[rows, k])[scored] for k, matrix in enumerate(left)]
        out[rows[scored]] = ridges.sum(np.column_stack(solved))
    return cast(Array, out / np.sqrt(path.row_weights) * path.scale)


def scales_of_sets(path: Path, clock: Array, sets: list[LeftOutSet]) -> Array:
    """The standard deviation of each row's observation given all others but its set, (rows, q), in units of the noise.

    The covariance of the observations of a set is (S_BB)^-1 of ridge at `clock`.
    """
    out, root = np.empty((len(path.row_weights), len(clock))), np.sqrt(path.row_weights)
    for column, at in enumerate(clock.tolist()):
        shrinkage = Ridge().shrinkage(path.spectrum.eigenvalues, at)
        for rows, scored in ((each.rows, each.scored) for each in sets):
            covariance = np.linalg.inv(_left_of(path, rows, shrinkage))
            out[rows[scored], column] = np.sqrt(np.diagonal(covariance)[scored]) / root[rows[scored]]
    return out


def _left_of(path: Path, rows: Array, shrinkage: Array) -> Array:
    """S_BB of a ridge that leaves so much of each direction."""
    vectors = np.asarray(cast(Basis, path.spectrum.basis).vectors, dtype=np.float64)[rows]
    free = path.free[rows]
    return cast(Array, (vectors * shrinkage) @ vectors.T - free @ free.T + SATURATED * np.eye(len(rows)))


def shares_of_sets(sets: list[LeftOutSet]) -> Array:
    """What each row counts where a set's scored rows tell as much as one row would."""
    shares = np.empty(sum(len(each.scored) for each in sets))
    for each in sets:
        shares[each.rows[each.scored]] = 1 / len(each.scored)
    return shares


def left_out_on_line(path: Path, line: LinePosterior, step_sums: Array, rows: Array) -> tuple[Array, Array]:
    """The same of a fit on a line, from passes over all rows, one for each ridge; and residuals with the row in."""
    columns = []
    for column, at in enumerate(step_sums):
        one = path.column(column)
        ridges = _ridges(one, float(at))
        fits = [_line_fit(one, line, reading) for reading in ridges.readings.tolist()]
        passed = ridges.sum(np.column_stack([left_out_rows(fit, 0)[rows, 0] for fit in fits]))
        within = ridges.sum(np.column_stack([residual_rows(fit, 0)[rows, 0] for fit in fits]))
        columns.append(np.stack([passed, within]) * one.scale)
    left_out, within = np.stack(columns, axis=-1)
    return left_out, within


def _line_fit(path: Path, line: LinePosterior, reading: complex) -> LineFit:
    """Ridge of one response on a line, in problem units, at a reading that may be complex."""
    weights, response = path.row_weights, np.asarray(path.response)[:, None]
    merged = merge_rows(line.rows[:, 0], response / np.sqrt(weights)[:, None], weights, path.counts)
    at = reading if reading.imag else max(reading.real, _NO_STEP / _top(path))
    return fit_at(merged, line.space, np.array([path.n_samples / at]), intercept=line.intercept)


def _ridges(path: Path, step_sum: float) -> ComplexRidges:
    return as_complex_ridges(path.filter.bind(_top(path)), step_sum, _top(path))


def _top(path: Path) -> float:
    return max(float(path.spectrum.largest_bound), np.finfo(float).tiny)


def _by_parts(linear: Callable[[Array], Array], block: Array) -> Array:
    """A real linear map of complex columns (k, g), both parts at once; of ridge itself the imaginary one is zero."""
    if not block.imag.any():
        return linear(block.real)
    both = linear(np.hstack([block.real, block.imag]))
    return cast(Array, both[:, : block.shape[1]] + 1j * both[:, block.shape[1] :])


def _told_by_traces(path: Path, ridges: ComplexRidges, shrinkage: Array, rows: Array) -> Array:
    """Degrees of freedom outside the known directions, shared out like the kernel's own diagonal there, (rows, g)."""
    diagonal, density = path.spectrum.diagonal_left, path.density
    if diagonal is None or not diagonal.sum() > 0:
        return np.zeros((len(rows), len(ridges.readings)))
    every = density.multiplicities @ (1 - ridges.shrinkage(density.values))
    return np.outer(diagonal[rows] / diagonal.sum(), every - (1 - shrinkage).sum(axis=0))


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
    return cast(Array, 1 - leverage / path.row_counts[rows, None])
