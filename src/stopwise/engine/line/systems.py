"""What a line offers to solvers and predictors: products in O(n), and predictions at m new places in O(n + m)."""

from __future__ import annotations

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.fits import predict_at
from stopwise.engine.line.merged_rows import LineRows, merge_rows
from stopwise.engine.line.repeated_solves import LineProduct
from stopwise.engine.line.transitions import StateSpace
from stopwise.engine.operators import Operator
from stopwise.kernels import Kernel


class LineOperator(Operator):
    """K on a line for any kernel with a finite state: two passes a product."""

    def __init__(self, kernel: Kernel, space: StateSpace, covariates: Array, rows: LineRows, *, centred: bool) -> None:
        super().__init__(len(covariates), weights=rows.row_weights, centred=centred)
        self.kernel, self.covariates, self.rows = kernel, covariates, rows
        self.line = LineProduct(space, rows.covariate)

    def _gram_product(self, block: Array) -> Array:
        return self.rows.by_row(self.line.own(self.rows.sums(np.asarray(block, dtype=np.float64))))

    def _gram_diagonal(self) -> Array:
        return self.kernel.diagonal(self.covariates)


def values_at(space: StateSpace, training: Array, dual_coef: Array, new: Array) -> Array:
    """sum_i k(x, x_i) a_i at new places, for weights (n, q)."""
    rows = merge_rows(training, np.zeros((len(training), 1)))
    return LineProduct(space, rows.covariate).at(new, rows.sums(dual_coef))


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
