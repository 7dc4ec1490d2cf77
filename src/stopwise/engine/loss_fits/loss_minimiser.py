"""The minimiser of loss + |f|^2 / (2 step_sum) at one reading of the clock, by Newton's method on kernel features.

With features Phi (n, r) whose inner products are the kernel, f = Phi theta + b and |f| = |theta|. At the reading
step_sum the penalty is a = n / step_sum, and the minimiser of

    sum_i w_i phi(y_i, f_i) + (a / 2) |theta|^2

is ridge's for squares. At the minimiser the left-out prediction of row i is about

    f_i + (I - A_i W_i)^-1 A_i w_i phi'_i,   A_i = x_i' H^-1 x_i,   W_i = w_i phi''_i,

one Newton step towards the minimiser without the row, H the Hessian of the objective: exact for squares. With few rows
more steps follow, with the Hessian of the first: they add what the slopes of the other rows bend along the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from stopwise._support.arrays import Array
from stopwise.losses import Loss

DIRECT_SIZE = 600
"""Up to so many unknowns Newton's equations are solved by a Cholesky factor; beyond, by conjugate gradients."""
TOLERANCE = 1e-10
"""The gradient is driven below this share of the constant fit's."""
_LEAST_CURVATURE = 1e-9
"""Curvatures count as at least this share of the largest: rows on a straight part of the loss have none."""
MORE_STEPS_ROWS, _MORE_STEPS = 200, 10
"""Up to so many rows left-out predictions take up to so many more steps, of n^2 slopes each,"""
_CLOSE = 1e-3
"""until a step is shorter than this share of the first."""
_DROPPED = 1e-2
"""Directions whose share of the fit would be below this part of the tolerance are left out of Newton's equations."""
_STEPS, _HALVINGS, _PRODUCTS = 60, 40, 400
_LEAST_LEFT = 1e-8


@dataclass(frozen=True)
class LossProblem:
    """Rows as features (n, r), responses or class codes (n,), weights (n,), the loss; is a constant free?"""

    features: Array
    """Principal ones: orthogonal over the weighted rows, the largest first."""
    y: Array
    weights: Array
    loss: Loss
    intercept: bool = True
    kernel_scale: float = 1.0
    """The kernel's mean diagonal, before any centring: what a penalty is small or large against."""

    @cached_property
    def n_samples(self) -> float:
        """How many samples the rows stand for."""
        return float(self.weights.sum())

    @cached_property
    def removed(self) -> Array:
        """How much of its weight a row loses when it is left out."""
        return np.minimum(self.weights, 1.0) if self.loss.discrete else self.weights

    @cached_property
    def design(self) -> Array:
        """A column of ones for the intercept, then the features."""
        if not self.intercept:
            return self.features
        return np.column_stack([np.ones(len(self.y)), self.features])

    @cached_property
    def energies(self) -> Array:
        """The weighted sum of squares of each feature, falling: their eigenvalues, since they are principal ones."""
        return np.asarray(np.einsum("ij,ij->j", self.features, self.weights[:, None] * self.features))

    @cached_property
    def bend(self) -> float:
        """The largest curvature of the loss at the constant fit."""
        curvature = self.loss.curvature(self.y, self.constant.fitted)
        return max(float(np.einsum("ijj->ij", curvature).max(initial=0.0)), 1e-300)

    def columns(self, step_sum: float, share: float) -> int:
        """How many columns of the design have at least this share of the fit at a reading."""
        if step_sum == 0:
            return int(self.intercept)
        least = share * self.n_samples / (step_sum * self.bend)
        return int(self.intercept) + int(np.count_nonzero(self.energies > least))

    def penalty(self, step_sum: float, columns: int) -> Array:
        """The penalty on the first columns of the design, (columns, 1): n / step_sum, and none on the constant."""
        out = np.full((columns, 1), self.n_samples / step_sum if step_sum > 0 else 0.0)
        if self.intercept:
            out[:1] = 0.0
        return out

    @cached_property
    def constant(self) -> Minimiser:
        """The fit at reading 0: a constant (zero without an intercept)."""
        q, p = self.loss.width, self.design.shape[1]
        coefficients = np.zeros((p, q))
        if self.intercept:
            alone = LossProblem(np.empty((len(self.y), 0)), self.y, self.weights, self.loss)
            coefficients[:1] = minimise(alone, 1.0, Minimiser(0.0, np.zeros((1, q)), alone)).coefficients
        return Minimiser(0.0, coefficients, self, columns=int(self.intercept))

    @cached_property
    def gradient_scale(self) -> float:
        """The norm of the gradient at the constant fit."""
        return float(np.linalg.norm(self.design.T @ self.slopes(self.constant.fitted)))

    def slopes(self, fitted: Array) -> Array:
        """w phi', (n, q)."""
        return cast(Array, self.weights[:, None] * self.loss.slope(self.y, fitted))

    def curvatures(self, fitted: Array) -> Array:
        """w phi'' (n, q, q), with a floor under it."""
        out = self.loss.curvature(self.y, fitted)
        diagonal = np.einsum("ijj->ij", out)
        diagonal += _LEAST_CURVATURE * max(float(diagonal.max(initial=0.0)), 1e-300)
        return cast(Array, self.weights[:, None, None] * out)

    def objective(self, coefficients: Array, fitted: Array, penalty: Array) -> float:
        """sum w phi + (a / 2) |theta|^2."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(self.weights @ self.loss.value(self.y, fitted))
        return total + 0.5 * float((penalty * coefficients**2).sum())


@dataclass(frozen=True)
class Minimiser:
    """The fit at one reading of the clock: coefficients (p, q) of the design, the first row the intercept's."""

    step_sum: float
    coefficients: Array
    problem: LossProblem
    gradient: float = 0.0
    """The norm of the gradient left, as a share of the constant fit's."""
    steps: int = 0
    columns: int | None = None
    """How many of the coefficients Newton's equations had."""

    @cached_property
    def fitted(self) -> Array:
        """f at the rows, (n, q)."""
        return cast(Array, self.problem.design @ self.coefficients)

    @property
    def _half_rows(self) -> Array:
        """L^-1 x_i for H = L L', (q, unknowns, n), so that x_i' H^-1 x_j are inner products of its columns.

        With many unknowns and several fitted values a row, every row's mean curvature stands for its matrix, and the
        one factor (1, columns, n) for all.
        """
        problem, q = self.problem, self.problem.loss.width
        rows = problem.design[:, : self.columns]
        penalty = problem.penalty(self.step_sum, rows.shape[1])
        curvature = problem.curvatures(self.fitted)
        if rows.shape[1] * q > DIRECT_SIZE and q > 1:
            curvature, q = np.trace(curvature, axis1=1, axis2=2)[:, None, None] / q, 1
        return _solve_rows(rows, _cholesky(rows, curvature, penalty), q)

    @cached_property
    def leverage(self) -> Array:
        """A_i = x_i' H^-1 x_i, (n, q, q): how far f_i moves when its slope changes by one."""
        half, q = self._half_rows, self.problem.loss.width
        if len(half) < q:
            return cast(Array, np.einsum("ki,ki->i", half[0], half[0])[:, None, None] * np.eye(q))
        return np.moveaxis(np.array([[np.einsum("ki,ki->i", c, d) for d in half] for c in half]), 2, 0)

    @cached_property
    def left_out(self) -> Array:
        """Predictions (n, q) of every row by the fit without it; NaN where a row fits itself alone.

        Of classes and counts one sample is left out, of other responses a row with all its weight.
        """
        problem, a = self.problem, self.leverage
        one = np.eye(problem.loss.width)
        share = problem.removed / problem.weights
        slopes = share[:, None, None] * problem.slopes(self.fitted)[:, :, None]
        left = one - share[:, None, None] * (a @ problem.curvatures(self.fitted))
        alone = np.linalg.det(left) < _LEAST_LEFT
        left[alone] = one
        shift = np.linalg.solve(left, a @ slopes)[:, :, 0]
        if len(problem.y) <= MORE_STEPS_ROWS:
            shift = self._more_steps(shift, np.linalg.solve(left.transpose(0, 2, 1), slopes)[:, :, 0], left)
        shift[alone] = np.nan
        return cast(Array, self.fitted + shift)

    def _more_steps(self, shift: Array, pull: Array, left: Array) -> Array:
        """Left-out shifts (n, q) after more steps with the same Hessian, halved where one is longer than the last.

        Without row i, f_j moves by m_ij = B_ji pull_i first, B_ij = x_i' H^-1 x_j. There the slope of row j has changed
        by rho_ij beyond its curvature, and the next step answers to that: with c_ij = sum over l of B_jl rho_il, by
        c_ij + B_ji (I - W_i A_i)^-1 W_i c_ii.
        """
        problem, half, q = self.problem, self._half_rows, self.problem.loss.width
        n, curvature = len(pull), problem.curvatures(self.fitted)
        if len(half) < q:
            return shift
        joint = [[c.T @ d for d in half] for c in half]  # B_ij between fitted values c and d at [c][d][i, j]
        share, slopes = problem.removed / problem.weights, problem.slopes(self.fitted)

        def moves(by: Array) -> Array:
            return np.stack([sum(joint[d][c] * by[:, d, None] for d in range(q)) for c in range(q)], axis=2)

        first = moves(pull)
        at, last, own, damping = first, np.linalg.norm(shift, axis=1), np.arange(n), np.ones(n)
        for _ in range(_MORE_STEPS):
            with np.errstate(over="ignore", invalid="ignore"):
                slope = problem.loss.slope(np.tile(problem.y, n), (self.fitted + at).reshape(n * n, q))
            rest = problem.weights[:, None] * slope.reshape(n, n, q) - slopes
            for c in range(q):
                rest[:, :, c] -= sum(curvature[:, c, d] * at[:, :, d] for d in range(q))
            rest[own, own] *= (1 - share)[:, None]
            answer = np.stack([sum(rest[:, :, d] @ joint[d][c] for d in range(q)) for c in range(q)], axis=2)
            bent = share[:, None] * np.einsum("icd,id->ic", curvature, answer[own, own])
            answer += moves(np.linalg.solve(left.transpose(0, 2, 1), bent[:, :, None])[:, :, 0])
            change = np.linalg.norm((first - answer - at)[own, own], axis=1)
            damping[change >= last] /= 2
            at, last = at + damping[:, None, None] * (first - answer - at), change
            if np.all(change <= _CLOSE * np.linalg.norm(shift, axis=1)):
                break
        return np.where((last <= np.linalg.norm(shift, axis=1))[:, None], at[own, own], shift)

    @cached_property
    def left_out_losses(self) -> Array:
        """phi of every row at its left-out prediction, (n,), its label doubted by one in n + 2 (rule of succession);
        infinite where a row fits itself alone."""
        problem = self.problem
        with np.errstate(over="ignore", invalid="ignore"):
            values = problem.loss.guarded(problem.y, self.left_out, 1 / (problem.n_samples + 2))
        return np.where(np.isnan(values), np.inf, values)

    @cached_property
    def left_out_mean(self) -> float:
        """Their mean over samples: half the left-out deviance per sample."""
        return float(self.problem.weights @ self.left_out_losses) / self.problem.n_samples

    @property
    def degrees_of_freedom(self) -> float:
        """The trace of sum_i A_i W_i."""
        return float(np.einsum("ijk,ikj->", self.leverage, self.problem.curvatures(self.fitted)))


def minimise(problem: LossProblem, step_sum: float, start: Minimiser, tolerance: float = TOLERANCE) -> Minimiser:
    """Newton's method with halved steps from a start, until the gradient is below `tolerance` of the constant fit's."""
    if step_sum == 0 or problem.design.shape[1] == 0:
        return problem.constant
    alone = not problem.features.size
    columns = 1 if alone else problem.columns(step_sum, _DROPPED * tolerance)
    design, penalty = problem.design[:, :columns], problem.penalty(step_sum, columns)
    at = start.coefficients[:columns]
    fitted = design @ at
    value = problem.objective(at, fitted, penalty)
    scale, norm, steps = 0.0 if alone else problem.gradient_scale, math.inf, 0
    while steps < _STEPS:
        gradient = design.T @ problem.slopes(fitted) + penalty * at
        norm = float(np.linalg.norm(gradient))
        scale = scale or norm
        if norm <= tolerance * scale:
            break
        direction = _newton_direction(design, problem.curvatures(fitted), gradient, penalty, norm / scale)
        moved = _descend(problem, design, at, direction, penalty, value, float((gradient * direction).sum()))
        if moved is None:  # no decrease that rounding would show is left
            break
        at, fitted, value = moved
        steps += 1
    coefficients = np.zeros((problem.design.shape[1], at.shape[1]))
    coefficients[:columns] = at
    return Minimiser(step_sum, coefficients, problem, norm / scale if scale else 0.0, steps, columns)


def _descend(
    problem: LossProblem, design: Array, at: Array, direction: Array, penalty: Array, value: float, slope: float
) -> tuple[Array, Array, float] | None:
    """The longest of the steps 1, 1/2, 1/4, ... that lowers the objective as a convex function must."""
    step = 1.0
    slack = 1e-13 * abs(value) if -slope < 1e-10 * abs(value) else 0.0
    for _ in range(_HALVINGS):
        trial = at + step * direction
        fitted = design @ trial
        reached = problem.objective(trial, fitted, penalty)
        if reached <= value + 1e-4 * step * slope + slack:
            return trial, fitted, reached
        step /= 2
    return None


def _newton_direction(design: Array, curvature: Array, gradient: Array, penalty: Array, share: float) -> Array:
    """-H^-1 gradient, (p, q); to a tolerance that shrinks with the gradient where it comes by conjugate gradients."""
    p, q = gradient.shape
    if p * q <= DIRECT_SIZE or q == 1:
        factor = _cholesky(design, curvature, penalty)
        solved = scipy.linalg.cho_solve((factor, True), gradient.T.ravel(), check_finite=False)
        return cast(Array, -solved.reshape(q, p).T)
    return -_conjugate_gradients(design, curvature, penalty, gradient, min(0.1, math.sqrt(share)))


def _cholesky(design: Array, curvature: Array, penalty: Array) -> Array:
    """The lower factor of H, unknowns ordered by fitted value, then by column: (q p, q p)."""
    p, q = design.shape[1], curvature.shape[1]
    hessian = np.zeros((q * p, q * p))
    if p == 0:
        return hessian
    for c in range(q):
        for d in range(c + 1):
            rows, columns = slice(c * p, (c + 1) * p), slice(d * p, (d + 1) * p)
            if c == d:
                root = design * np.sqrt(curvature[:, c, c])[:, None]
                hessian[rows, columns] = scipy.linalg.blas.dsyrk(1.0, root.T, lower=1)
                hessian[rows, columns][np.diag_indices(p)] += penalty[:, 0]
            else:
                hessian[rows, columns] = design.T @ (curvature[:, c, d, None] * design)
    jitter = 0.0
    for _ in range(10):
        factor, failed = scipy.linalg.lapack.dpotrf(hessian, lower=1)
        if not failed:
            return cast(Array, factor)
        jitter = max(10 * jitter, 1e-14 * float(np.diagonal(hessian).max()))
        hessian[np.diag_indices_from(hessian)] += jitter
    raise ValueError("Newton's equations overflow: rescale y or the covariates")


def _solve_rows(design: Array, factor: Array, q: int) -> Array:
    """L^-1 x_i for each of the q fitted values of a row, (q, q p, n)."""
    n, p = design.shape
    out = np.zeros((q, q * p, n))
    for c in range(q):
        out[c, c * p : (c + 1) * p] = design.T
        if p:
            out[c] = scipy.linalg.solve_triangular(factor, out[c], lower=True, check_finite=False)
    return out


def _conjugate_gradients(design: Array, curvature: Array, penalty: Array, right: Array, tolerance: float) -> Array:
    """H^-1 right, preconditioned by the Hessian with every row's mean curvature in place of its matrix."""
    shape = right.shape
    factor = _cholesky(design, np.trace(curvature, axis1=1, axis2=2)[:, None, None] / shape[1], penalty)

    def product(flat: Array) -> Array:
        block = flat.reshape(shape)
        bent = np.einsum("icd,id->ic", curvature, design @ block)
        return cast(Array, design.T @ bent + penalty * block).ravel()

    def nearly(flat: Array) -> Array:
        return cast(Array, scipy.linalg.cho_solve((factor, True), flat.reshape(shape), check_finite=False)).ravel()

    whole, close = (LinearOperator((right.size, right.size), matvec=f) for f in (product, nearly))
    return cast(Array, cg(whole, right.ravel(), rtol=tolerance, maxiter=_PRODUCTS, M=close)[0]).reshape(shape)
