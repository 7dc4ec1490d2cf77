"""Ridge on a line at one or many penalties: residuals, leverages, likelihood and predictions, all exact in O(n).

G is the kernel's matrix between distinct places, W their weights, a the penalty of the unscaled matrix (n / step_sum),
C = G + a W^-1. With an intercept C^-1 becomes P = C^-1 - C^-1 1 1'C^-1 / (1'C^-1 1). Everything follows from the mean
and variance at each place given all others: e_i = y_i - mean_i, 1 / P_ii = variance_i + a / w_i, P y = e P_ii.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.merged_rows import LineRows
from stopwise.engine.line.passes import Filtered, Record
from stopwise.engine.line.stretches import Layout, both_ways, lay_out
from stopwise.engine.line.transitions import StateSpace
from stopwise.engine.line.triangles import Triangle

DIFFUSE = 1e25
"""Prior variance of a free constant, in units of the noise of the least certain row: 1 / DIFFUSE is below rounding."""


@dataclass(frozen=True)
class LineFit:
    """Fits of all responses of some rows at g penalties; arrays are (places, g) or (places, g, responses)."""

    rows: LineRows
    space: StateSpace
    penalties: Array
    intercept: bool
    left_out_mean: Array
    """What all other places predict at each place."""
    left_out_variance: Array
    """The variance of that prediction; prior variance of the kernel = 1, penalty = variance of a row of weight 1."""
    log_determinant: Array
    """log det(I + W^1/2 G W^1/2 / a), on what an intercept leaves, (g,)."""
    energy: Array
    """y'P y, (g, responses)."""

    @cached_property
    def precision(self) -> Array:
        """w / a, (places, g)."""
        return self.rows.weights[:, None] / self.penalties

    @cached_property
    def leverage_left(self) -> Array:
        """1 - h for each place as one row: a P_ii / w_i."""
        return cast(Array, 1.0 / (1.0 + self.left_out_variance * self.precision))

    @cached_property
    def left_out_residuals(self) -> Array:
        """y_i less what all other places predict there."""
        return cast(Array, self.rows.responses[:, None, :] - self.left_out_mean)

    @cached_property
    def residuals(self) -> Array:
        """y - f."""
        return cast(Array, self.left_out_residuals * self.leverage_left[:, :, None])

    @property
    def fitted(self) -> Array:
        """f at each place."""
        return cast(Array, self.rows.responses[:, None, :] - self.residuals)

    @property
    def dual(self) -> Array:
        """P y: weights with f(x) = sum_i dual_i k(x, x_i) + intercept."""
        return cast(Array, self.residuals * self.precision[:, :, None])

    @cached_property
    def degrees_of_freedom(self) -> Array:
        """Trace of the smoother, without the intercept, (g,)."""
        taken = self.left_out_variance * self.precision * self.leverage_left
        return cast(Array, taken.sum(axis=0) - float(self.intercept))

    @property
    def squared_hilbert_norm(self) -> Array:
        """|f|_H^2 = dual' G dual, (g, responses)."""
        return cast(Array, (self.dual * self.fitted).sum(axis=0))

    def scaled_energy(self) -> Array:
        """a y'P y with each place's own spread: what the likelihood divides by the noise variance, (g, responses)."""
        return cast(Array, self.penalties[:, None] * self.energy + self.rows.within.sum(axis=0))


@dataclass(frozen=True)
class LinePrediction:
    """Means (m, responses) and variances (m,) at new places, one penalty; units as in `LineFit`."""

    mean: Array
    variance: Array


def fit_at(
    rows: LineRows, space: StateSpace, penalties: Array | float, *, intercept: bool, left_out: bool = True
) -> LineFit:
    """Ridge at each penalty (several share one pass). Without `left_out` only the likelihood is computed, in 3/4 of the
    time and without the rest."""
    a = np.atleast_1d(np.asarray(penalties))
    gaps = space.gaps(rows.covariate)
    omega = rows.weights[:, None] / a
    passed = _pass(space, gaps, omega, _columns(rows, space, intercept), intercept, left_out)
    q = rows.responses.shape[1]
    record, layout, means, variance = passed
    determinant, energy = _likelihood(record, omega, space, intercept, q)
    if not left_out:
        nothing = np.empty((0, a.size))
        return LineFit(rows, space, a, intercept, np.empty((0, a.size, q)), nothing, determinant, energy)
    mean = np.stack([layout.rows(m) for m in means[:q]], axis=-1)
    spread = layout.rows(variance)
    if intercept and not space.diffuse:
        mean, spread = _project(rows.responses, mean, spread, layout.rows(means[q]), omega)
    return LineFit(rows, space, a, intercept, mean, spread, determinant, energy)


def predict_at(rows: LineRows, space: StateSpace, penalty: float, new: Array, *, intercept: bool) -> LinePrediction:
    """Posterior means and variances at new places: rows without an observation, passed with all the others."""
    places, at = np.unique(np.asarray(new, dtype=np.float64), return_inverse=True)
    together = np.concatenate([rows.covariate, places])
    order = np.argsort(together, kind="stable")
    is_new = order >= rows.n_places
    omega = np.concatenate([rows.weights / penalty, np.zeros(len(places))])[order][:, None]
    columns = [np.append(c[:, 0], np.zeros(len(places)))[order][:, None] for c in _columns(rows, space, intercept)]
    record, layout, means, variance = _pass(space, space.gaps(together[order]), omega, columns, intercept, True)
    q = rows.responses.shape[1]
    mean = np.stack([layout.rows(m)[is_new, 0] for m in means[:q]], axis=-1)
    spread = layout.rows(variance)[is_new, 0]
    if intercept and not space.diffuse:
        ones = 1.0 - layout.rows(means[q])[is_new, 0]
        total = float(record.products[q][q].sum())
        slope = np.array([float(record.products[j][q].sum()) / total for j in range(q)])
        mean, spread = mean + ones[:, None] * slope, spread + ones**2 / total
    return LinePrediction(mean[at], spread[at])


def _columns(rows: LineRows, space: StateSpace, intercept: bool) -> list[Array]:
    """The responses, and a column of ones where the constant is projected out."""
    columns = [rows.responses[:, j : j + 1] for j in range(rows.responses.shape[1])]
    return [*columns, np.ones((rows.n_places, 1))] if intercept and not space.diffuse else columns


def _pass(
    space: StateSpace, gaps: Array, omega: Array, columns: list[Array], intercept: bool, left_out: bool
) -> tuple[Record, Layout, list[Array], Array]:
    lanes, layout = lay_out(space, gaps, omega, columns)
    means: list[list[Array | float | complex]] = [[0.0] * len(columns) for _ in range(space.size)]
    start = Filtered(free_start(space, omega, intercept), means)
    record, left, variance = both_ways(lanes, start, left_out=left_out)
    return record, layout, left, variance


def _diffuse(omega: Array) -> Array:
    magnitude = np.abs(omega)
    return cast(Array, DIFFUSE / np.where(magnitude > 0, magnitude, np.inf).min(axis=0))


def free_start(space: StateSpace, omega: Array, intercept: bool) -> Triangle:
    """Where the state starts; with an intercept, and where the constant is a state, its value may be anything."""
    start = space.start()
    if not (intercept and space.diffuse):
        return start
    free = _diffuse(omega)
    return Triangle([free.item() if free.size == 1 else free, *start.diagonal[1:]], start.off, True)


def _likelihood(record: Record, omega: Array, space: StateSpace, intercept: bool, q: int) -> tuple[Array, Array]:
    """log det and y'P y; a free constant is taken out of both (its likelihood is the restricted one)."""
    determinant = record.log_determinant.sum(axis=0)
    energy = np.stack([record.products[j][j].sum(axis=0) for j in range(q)], axis=-1)
    if intercept and space.diffuse:
        return determinant - np.log(_diffuse(omega)) - np.log(omega.sum(axis=0)), energy
    if intercept:
        ones = record.products[q][q].sum(axis=0)
        cross = np.stack([record.products[j][q].sum(axis=0) for j in range(q)], axis=-1)
        return determinant + np.log(ones / omega.sum(axis=0)), energy - cross**2 / ones[:, None]
    return determinant, energy


def _project(y: Array, mean: Array, variance: Array, ones_mean: Array, omega: Array) -> tuple[Array, Array]:
    """Left-out means and variances with a constant fitted to the other rows as well: from C^-1 to P."""
    inverse = omega / (1.0 + variance * omega)
    ones = (1.0 - ones_mean) * inverse
    total = ones.sum(axis=0)
    dual = (y[:, None, :] - mean) * inverse[:, :, None]
    dual = dual - ones[:, :, None] * (dual.sum(axis=0) / total[:, None])
    diagonal = inverse - ones**2 / total
    return y[:, None, :] - dual / diagonal[:, :, None], np.maximum(1.0 / diagonal - 1.0 / omega, 0.0)
