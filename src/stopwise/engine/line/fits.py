"""Ridge on a line at one or many penalties: residuals, leverages, likelihood and predictions, all exact in O(n).

G is the kernel's matrix between distinct places, W their weights, a the penalty of the unscaled matrix (n / step_sum),
C = G + a W^-1. With an intercept C^-1 becomes P = C^-1 - C^-1 1 1'C^-1 / (1'C^-1 1). Everything follows from P y and
the diagonal of P: residuals are a P y / w, what a place takes of itself is 1 - a P_ii / w, and y_i less what all other
places predict there is (P y)_i / P_ii.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.joins import Layout, lay_out, likelihood, posterior, solves
from stopwise.engine.line.merged_rows import LineRows
from stopwise.engine.line.pass_records import Filtered, Lanes, Likelihood, Means
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
    dual: Array
    """P y: weights with f(x) = sum_i dual_i k(x, x_i) + intercept."""
    inverse_diagonal: Array
    """P_ii; prior variance of the kernel = 1, penalty = variance of a row of weight 1."""
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
        return self.inverse_diagonal / self.precision

    @cached_property
    def residuals(self) -> Array:
        """y - f."""
        return cast(Array, self.dual / self.precision[:, :, None])

    @property
    def fitted(self) -> Array:
        """f at each place."""
        return cast(Array, self.rows.responses[:, None, :] - self.residuals)

    @cached_property
    def degrees_of_freedom(self) -> Array:
        """Trace of the smoother, without the intercept, (g,)."""
        return cast(Array, (1.0 - self.leverage_left).sum(axis=0) - float(self.intercept))

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
    """Ridge at each penalty (several share one pass). Without `left_out` only the likelihood is computed, and no
    row is passed back or kept."""
    a = np.atleast_1d(np.asarray(penalties))
    omega = rows.weights[:, None] / a
    lanes, layout, start = _laid(space, space.gaps(rows.covariate), omega, _columns(rows, space, intercept), intercept)
    q = rows.responses.shape[1]
    if not left_out:
        nothing = np.empty((0, a.size))
        known = _likelihood(likelihood(lanes, start), omega, space, intercept, q)
        return LineFit(rows, space, a, intercept, np.empty((0, a.size, q)), nothing, *known)
    sums, solved, inverse = solves(lanes, start)
    dual, diagonal = np.stack([layout.rows(u).T for u in solved[:q]], axis=-1), layout.rows(inverse).T
    if intercept and not space.diffuse:
        dual, diagonal = _project(dual, diagonal, layout.rows(solved[q]).T)
    return LineFit(rows, space, a, intercept, dual, diagonal, *_likelihood(sums, omega, space, intercept, q))


def predict_at(rows: LineRows, space: StateSpace, penalty: float, new: Array, *, intercept: bool) -> LinePrediction:
    """Posterior means and variances at new places: rows without an observation, passed with all the others."""
    places, at = np.unique(np.asarray(new, dtype=np.float64), return_inverse=True)
    together = np.concatenate([rows.covariate, places])
    order = np.argsort(together, kind="stable")
    is_new = order >= rows.n_places
    omega = np.concatenate([rows.weights / penalty, np.zeros(len(places))])[order][:, None]
    columns = [np.append(c[:, 0], np.zeros(len(places)))[order][:, None] for c in _columns(rows, space, intercept)]
    lanes, layout, start = _laid(space, space.gaps(together[order]), omega, columns, intercept)
    sums, means, variance = posterior(lanes, start)
    q = rows.responses.shape[1]
    mean = np.stack([layout.rows(m)[0, is_new] for m in means[:q]], axis=-1)
    spread = layout.rows(variance)[0, is_new]
    if intercept and not space.diffuse:
        ones = 1.0 - layout.rows(means[q])[0, is_new]
        total = float(sums.products[q][q].sum())
        slope = np.array([float(sums.products[j][q].sum()) / total for j in range(q)])
        mean, spread = mean + ones[:, None] * slope, spread + ones**2 / total
    return LinePrediction(mean[at], spread[at])


def _columns(rows: LineRows, space: StateSpace, intercept: bool) -> list[Array]:
    """The responses, and a column of ones where the constant is projected out."""
    columns = [rows.responses[:, j : j + 1] for j in range(rows.responses.shape[1])]
    return [*columns, np.ones((rows.n_places, 1))] if intercept and not space.diffuse else columns


def _laid(
    space: StateSpace, gaps: Array, omega: Array, columns: list[Array], intercept: bool
) -> tuple[Lanes, Layout, Filtered]:
    lanes, layout = lay_out(space, gaps, omega, columns)
    means: Means = [[0.0] * len(columns) for _ in range(space.size)]
    return lanes, layout, Filtered(free_start(space, omega, intercept), means)


def _diffuse(omega: Array) -> Array:
    magnitude = np.abs(omega)
    return cast(Array, DIFFUSE / np.where(magnitude > 0, magnitude, np.inf).min(axis=0))


def free_start(space: StateSpace, omega: Array, intercept: bool) -> Triangle:
    """Where the state starts; with an intercept, and where the constant is a state, its value may be anything."""
    start = space.start()
    if not (intercept and space.diffuse):
        return start
    return Triangle([_diffuse(omega)[:, None], *start.diagonal[1:]], start.off, True)


def _likelihood(sums: Likelihood, omega: Array, space: StateSpace, intercept: bool, q: int) -> tuple[Array, Array]:
    """log det and y'P y; a free constant is taken out of both (its likelihood is the restricted one)."""
    determinant = sums.log_determinant.sum(axis=-1)
    energy = np.stack([sums.products[j][j].sum(axis=-1) for j in range(q)], axis=-1)
    if intercept and space.diffuse:
        return determinant - np.log(_diffuse(omega)) - np.log(omega.sum(axis=0)), energy
    if intercept:
        ones = sums.products[q][q].sum(axis=-1)
        cross = np.stack([sums.products[j][q].sum(axis=-1) for j in range(q)], axis=-1)
        return determinant + np.log(ones / omega.sum(axis=0)), energy - cross**2 / ones[:, None]
    return determinant, energy


def _project(dual: Array, diagonal: Array, ones: Array) -> tuple[Array, Array]:
    """P y and the diagonal of P from C^-1 y, the diagonal of C^-1 and C^-1 1."""
    total = ones.sum(axis=0)
    return dual - ones[:, :, None] * (dual.sum(axis=0) / total[:, None]), diagonal - ones**2 / total
