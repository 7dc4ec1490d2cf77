"""What a line offers to solvers and predictors, in O(n): products, ridge systems with every row left out exactly, and
predictions at m new places in O(n + m)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.fits import LineFit, fit_at, predict_at
from stopwise.engine.line.merged_rows import LineRows, merge_rows
from stopwise.engine.line.repeated_solves import LineFactor, LineProduct
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
        return self.rows.by_row(self.line.own(gathered(self.rows, np.asarray(block, dtype=np.float64))))

    def _gram_diagonal(self) -> Array:
        return self.kernel.diagonal(self.covariates)


def gathered(rows: LineRows, block: Array) -> Array:
    """Sums over the rows of each place, (n, q) -> (places, q)."""
    if rows.n_places == len(block):
        out = np.empty_like(block)
        out[rows.place_of] = block
        return out
    columns = [np.bincount(rows.place_of, weights=column, minlength=rows.n_places) for column in block.T]
    return np.stack(columns, axis=1)


@dataclass(frozen=True)
class RowSolves:
    """Solves at one penalty in the weighted coordinates of rows; rows at one place differ by what no kernel sees."""

    factor: LineFactor
    penalty: float

    def residual(self, block: Array, rough: int = 0) -> Array:
        """a (A + a I)^-1 block, A = D Gram D centred; none of its columns is `rough`."""
        rows = self.factor.rows
        root = np.sqrt(rows.row_weights)[:, None]
        mean = gathered(rows, root * block) / rows.weights[:, None]
        left = self.penalty * self.factor.solve(mean) / rows.weights[:, None]
        if rows.n_places == len(block):
            return cast(Array, root * rows.by_row(left))
        return cast(Array, block + root * rows.by_row(left - mean))

    def inverse(self, block: Array) -> Array:
        """(A + a I)^-1 block."""
        return self.residual(block) / self.penalty


def left_out_by_row(fit: LineFit) -> Array:
    """Residuals of single rows when each is left out alone, weighted coordinates, at the first penalty, (n, q).

    A row takes its share w_i / W of its place's leverage.
    """
    rows = fit.rows
    share = (1.0 - fit.leverage_left[:, 0])[rows.place_of] * rows.row_weights / rows.weights[rows.place_of]
    own = rows.by_row(fit.residuals[:, 0]) + rows.deviations
    return cast(Array, np.sqrt(rows.row_weights)[:, None] * own / np.maximum(1.0 - share, 1e-300)[:, None])


@dataclass(frozen=True)
class LineSystem:
    """Rows and a kernel's states; penalties come later."""

    rows: LineRows
    space: StateSpace
    intercept: bool

    def at(self, penalty: float) -> RowSolves:
        """Solves at a penalty."""
        return RowSolves(LineFactor(self.rows, self.space, penalty, intercept=self.intercept), penalty)

    def left_out(self, penalty: float) -> Array:
        """Left-out residuals of every row."""
        return left_out_by_row(fit_at(self.rows, self.space, penalty, intercept=self.intercept))

    @cached_property
    def n_samples(self) -> float:
        """All weights together."""
        return self.rows.n_samples


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
