"""Predictions on a line at m new places from n rows in O(n + m): values from any weights, posterior variances."""

from __future__ import annotations

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.fits import predict_at
from stopwise.engine.line.merged_rows import merge_rows
from stopwise.engine.line.repeated_solves import LineProduct
from stopwise.engine.line.systems import gathered
from stopwise.engine.line.transitions import StateSpace


def values_at(space: StateSpace, training: Array, dual_coef: Array, new: Array) -> Array:
    """sum_i k(x, x_i) a_i at new places, for weights (n, q)."""
    rows = merge_rows(training, np.zeros((len(training), 1)))
    return LineProduct(space, rows.covariate).at(new, gathered(rows, dual_coef))


def variance_at(
    space: StateSpace, training: Array, weights: Array | None, penalties: Array, new: Array, *, intercept: bool
) -> Array:
    """Posterior variance of f in units of the noise variance, (m, penalties): the prior's far from the data.

    (k(x, x) - k_x' C^-1 k_x) / a with C = G + a W^-1, and the intercept's part; an infinite penalty leaves that alone.
    """
    rows = merge_rows(training, np.zeros((len(training), 1)), weights)
    out = np.full((len(new), len(penalties)), 1.0 / rows.n_samples if intercept else 0.0)
    for j, penalty in enumerate(penalties):
        if np.isfinite(penalty):
            out[:, j] = predict_at(rows, space, float(penalty), new, intercept=intercept).variance / penalty
    return out
