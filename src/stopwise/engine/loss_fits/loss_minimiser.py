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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.loss_fits.newton_equations import Equations
from stopwise.losses import Loss

TOLERANCE = 1e-8
"""Newton's last step lowers the objective by less than the square of this share of it."""
_LEAST_CURVATURE = 1e-9
"""Curvatures count as at least this share of the largest: rows on a straight part of the loss have none."""
MORE_STEPS_ROWS, _MORE_STEPS_SIZE, _MORE_STEPS, _CLOSE = 200, 600, 10, 1e-3
"""Up to so many rows and fitted values left-out predictions take up to so many more steps, of n slopes a row, until one
is shorter than this share of the first."""
_SMALL_SHARE = 1e-3
"""Columns of smaller share (or than the root of the tolerance) do not enter Newton's equations whole."""
_STEPS, _HALVINGS = 60, 40
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
    counts: Array | None = None
    """How many observations of equal weight each row stands for; None for one each."""
    unit: float = 1.0
    """What a loss of 1 is in the units of y."""

    @cached_property
    def n_samples(self) -> float:
        """How many samples the rows stand for."""
        return float(self.weights.sum())

    @property
    def has_evidence(self) -> bool:
        """Whether exp(-loss) is a probability and its determinant is cheap: not of several fitted values a row."""
        return self.loss.likelihood and self.loss.width == 1

    @cached_property
    def share(self) -> Array:
        """The part of its weight that a row loses when one of its observations is left out."""
        return np.ones(len(self.y)) if self.counts is None else 1 / self.counts

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

    def penalty(self, step_sum: float) -> Array:
        """The penalty on each column of the design, (p, 1): n / step_sum, and none on the constant."""
        out = np.full((self.design.shape[1], 1), self.n_samples / step_sum if step_sum > 0 else math.inf)
        out[: int(self.intercept)] = 0.0
        return out

    def equations(self, penalty: Array, curvature: Array, tolerance: float) -> Equations:
        """Newton's equations, whole in the columns whose share of the fit at the penalty is not very small."""
        share = min(_SMALL_SHARE, math.sqrt(tolerance))
        large = self.energies * self.bend > share * penalty[-1] if self.energies.size else ()
        whole = int(self.intercept) + int(np.count_nonzero(large))
        squares = self.energies[whole - int(self.intercept) :] / self.n_samples
        return Equations(self.design, whole, curvature, penalty, squares)

    @cached_property
    def constant(self) -> Minimiser:
        """The fit at reading 0: a constant (zero without an intercept)."""
        q, p = self.loss.width, self.design.shape[1]
        coefficients = np.zeros((p, q))
        if self.intercept:
            alone = LossProblem(np.empty((len(self.y), 0)), self.y, self.weights, self.loss)
            coefficients[:1] = minimise(alone, 1.0, Minimiser(0.0, np.zeros((1, q)), alone)).coefficients
        return Minimiser(0.0, coefficients, self)

    def parts(self, fitted: Array) -> tuple[float, Array, Array]:
        """sum w phi, w phi' (n, q) and w phi'' (n, q, q), with a floor under it."""
        with np.errstate(over="ignore", invalid="ignore"):
            value, slope, curvature = self.loss.parts(self.y, fitted)
        diagonal = np.einsum("ijj->ij", curvature)
        diagonal += _LEAST_CURVATURE * max(float(diagonal.max(initial=0.0)), 1e-300)
        return float(self.weights @ value), self.weights[:, None] * slope, self.weights[:, None, None] * curvature


@dataclass(frozen=True)
class Minimiser:
    """The fit at one reading of the clock: coefficients (p, q) of the design, the first row the intercept's."""

    step_sum: float
    coefficients: Array
    problem: LossProblem
    tolerance: float = TOLERANCE
    """Of Newton's method."""

    @cached_property
    def fitted(self) -> Array:
        """f at the rows, (n, q)."""
        return cast(Array, self.problem.design @ self.coefficients)

    @cached_property
    def parts(self) -> tuple[float, Array, Array]:
        """sum w phi, w phi' and w phi'' here."""
        return self.problem.parts(self.fitted)

    @cached_property
    def penalty(self) -> Array:
        """On each column, (p, 1)."""
        return self.problem.penalty(self.step_sum)

    @cached_property
    def objective(self) -> float:
        """sum w phi + (a / 2) |theta|^2."""
        return self.parts[0] + 0.5 * float((self.penalty * self.coefficients**2).sum())

    @cached_property
    def gradient(self) -> Array:
        """Of the objective, (p, q)."""
        return cast(Array, self.problem.design.T @ self.parts[1] + self.penalty * self.coefficients)

    @cached_property
    def equations(self) -> Equations:
        """Newton's equations here."""
        return self.problem.equations(self.penalty, self.parts[2], self.tolerance)

    def moved(self, direction: Array, slope: float) -> Minimiser | None:
        """The longest of the steps 1, 1/2, 1/4, ... that lowers the objective as a convex function must."""
        value = self.objective
        slack = 1e-13 * abs(value) if -slope < 1e-10 * abs(value) else 0.0
        for step in 0.5 ** np.arange(_HALVINGS):
            trial = replace(self, coefficients=self.coefficients + step * direction)
            if trial.objective <= value + 1e-4 * step * slope + slack:
                return trial
        return None

    @cached_property
    def left_out(self) -> Array:
        """Predictions (n, q) of an observation of every row by the fit without it; NaN where it fits itself alone."""
        problem, a = self.problem, self.equations.leverages
        one = np.eye(problem.loss.width)
        share = problem.share[:, None, None]
        slopes = share * self.parts[1][:, :, None]
        left = one - share * (a @ self.equations.curvature)
        alone = np.linalg.det(left) < _LEAST_LEFT
        left[alone] = one
        shift = np.linalg.solve(left, a @ slopes)[:, :, 0]
        if len(shift) <= MORE_STEPS_ROWS and shift.size <= _MORE_STEPS_SIZE:
            shift = self._more_steps(shift, left)
        shift[alone] = np.nan
        return cast(Array, self.fitted + shift)

    @property
    def known_left_out(self) -> Array:
        """The same, and the fit itself where a row fits itself alone."""
        return np.where(np.isfinite(self.left_out), self.left_out, self.fitted)

    def _more_steps(self, shift: Array, left: Array) -> Array:
        """Left-out shifts (n, q) after more steps with the same Hessian, halved where one is longer than the last.

        Without row i the fit moves by m = X H_i^-1 X' (s - s_i(m) + W_i m): slopes s at the fit, s_i(m) after the move
        and curvatures W_i without the row. X H_i^-1 X' = B + B_i (I - W_i A_i)^-1 W_i B_i', with B = X H^-1 X'.
        """
        problem, (n, q), size = self.problem, shift.shape, np.linalg.norm(shift, axis=1)
        share, turned, weights = problem.share, left.transpose(0, 2, 1), problem.weights[:, None]
        curvature, between, slopes = self.equations.curvature, self.equations.joint(), self.parts[1]
        out, rows, at, last, damping = shift.copy(), np.arange(n), np.zeros((n, n, q)), np.full(n, np.inf), np.ones(n)
        for _ in range(1 + _MORE_STEPS):
            own, lost = (np.arange(len(rows)), rows), share[rows, None]
            with np.errstate(over="ignore", invalid="ignore"):
                slope = problem.loss.slope(np.tile(problem.y, len(rows)), (self.fitted + at).reshape(-1, q))
            bent = (curvature @ at[..., None])[..., 0] - weights * slope.reshape(at.shape)
            bent[own] *= 1 - lost
            answer = ((slopes + bent).reshape(len(rows), n * q) @ between).reshape(at.shape)
            pull = np.linalg.solve(turned[rows], lost[:, None] * curvature[rows] @ answer[own][:, :, None])
            change = answer + (pull.transpose(0, 2, 1) @ between.reshape(n, q, n * q)[rows]).reshape(at.shape) - at
            length = np.linalg.norm(change[own], axis=1)
            damping = np.where(length >= last, damping / 2, damping)
            at = at + damping[:, None, None] * change
            out[rows] = np.where((length <= size[rows])[:, None], at[own], shift[rows])
            going = ~(length <= _CLOSE * size[rows])
            rows, at, last, damping = (each[going] for each in (rows, at, length, damping))
            if not len(rows):
                break
        return out

    @cached_property
    def left_out_losses(self) -> Array:
        """phi of every row at its left-out prediction, (n,), `guarded`; infinite where a row fits itself alone."""
        problem = self.problem
        with np.errstate(over="ignore", invalid="ignore"):
            values = problem.loss.guarded(problem.y, self.left_out, problem.n_samples)
        return np.where(np.isnan(values), np.inf, values)

    @cached_property
    def left_out_mean(self) -> float:
        """Their mean over samples: half the left-out deviance per sample."""
        return float(self.problem.weights @ self.left_out_losses) / self.problem.n_samples

    @cached_property
    def evidence(self) -> float:
        """-log of the integral of exp(-loss) over Gaussian f of this penalty, per sample, to second order (Laplace);
        the constant, which has no prior, counts by its curvature."""
        problem, n = self.problem, self.problem.n_samples
        if self.step_sum == 0:
            return self.parts[0] / n
        prior = problem.loss.width * problem.energies.size * math.log(n / self.step_sum)
        return (self.objective + 0.5 * (self.equations.log_determinant() - prior)) / n

    @property
    def degrees_of_freedom(self) -> float:
        """The trace of sum_i A_i W_i."""
        return float(np.einsum("ijk,ikj->", self.equations.leverages, self.equations.curvature))


def minimise(problem: LossProblem, step_sum: float, start: Minimiser, tolerance: float = TOLERANCE) -> Minimiser:
    """Newton's method with halved steps from a start, until a step is as small as the tolerance."""
    if step_sum == 0 or problem.design.shape[1] == 0:
        return problem.constant
    here = Minimiser(step_sum, start.coefficients, problem, tolerance)
    near = start.equations.with_penalty(here.penalty) if start.step_sum > 0 else here.equations
    scale = float(np.linalg.norm(here.gradient)) or 1.0
    for _ in range(_STEPS):
        share = float(np.linalg.norm(here.gradient)) / scale
        direction = here.equations.direction(here.gradient, share, near)
        slope = float(np.vdot(here.gradient, direction))
        moved = here.moved(direction, slope)
        if moved is None:  # no decrease that rounding would show is left
            break
        here = moved
        if -slope <= tolerance**2 * here.objective:
            break
    return here
