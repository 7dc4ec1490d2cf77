"""Ridge on a line at one or many penalties: residuals, leverages, likelihood and posterior variances, exact in O(n).

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


def fit_at(
    rows: LineRows, space: StateSpace, penalties: Array | float, *, intercept: bool, left_out: bool = True
) -> LineFit:
    """Ridge at each penalty (several share one pass). Without `left_out` only the likelihood is computed, and no
    row is passed back or kept."""
    a = np.atleast_1d(np.asarray(penalties))
    omega = rows.weights[:, None] / a
    q = rows.responses.shape[1]
    columns = [rows.responses[:, j : j + 1] for j in range(q)]
    if intercept and not space.diffuse:
        columns.append(np.ones((rows.n_places, 1)))
    lanes, layout, start = _laid(space, space.gaps(rows.covariate), omega, columns, intercept)
    if not left_out:
        nothing = np.empty((0, a.size))
        known = _likelihood(likelihood(lanes, start), omega, space, intercept, q)
        return LineFit(rows, a, intercept, np.empty((0, a.size, q)), nothing, *known)
    sums, solved, inverse = solves(lanes, start)
    dual, diagonal = np.stack([layout.rows(u).T for u in solved[:q]], axis=-1), layout.rows(inverse).T
    if intercept and not space.diffuse:
        dual, diagonal = _project(dual, diagonal, layout.rows(solved[q]).T)
    return LineFit(rows, a, intercept, dual, diagonal, *_likelihood(sums, omega, space, intercept, q))


def posterior_variance(rows: LineRows, space: StateSpace, penalty: float, new: Array, *, intercept: bool) -> Array:
    """Posterior variances (m,) at new places: rows without an observation, passed with all the others.

    Where the constant is projected out, what the fit of a column of ones leaves there tells its share.
    """
    places, at = np.unique(np.asarray(new, dtype=np.float64), return_inverse=True)
    together = np.concatenate([rows.covariate, places])
    order = np.argsort(together, kind="stable")
    is_new = order >= rows.n_places
    omega = np.concatenate([rows.weights / penalty, np.zeros(len(places))])[order][:, None]
    ones = [np.where(is_new, 0.0, 1.0)[:, None]] if intercept and not space.diffuse else []
    lanes, layout, start = _laid(space, space.gaps(together[order]), omega, ones, intercept)
    sums, means, variance = posterior(lanes, start)
    spread = layout.rows(variance)[0, is_new]
    if ones:
        spread = spread + (1.0 - layout.rows(means[0])[0, is_new]) ** 2 / float(sums.products[0][0].sum())
    return cast(Array, spread[at])


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
