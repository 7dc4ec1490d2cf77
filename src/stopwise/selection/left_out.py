"""How good is a kernel for a sample: evidence and left-out errors of ridge, from one eigendecomposition.

On distinct rows with weights w, D = diag(sqrt w), n = sum w, the model is y ~ N(F b, s^2 (I + nu K)), K = D Gram D / n.
The fixed part F b (an intercept, or an intercept and a linear part) is projected out of both sides: its directions
cost degrees of freedom and no penalty. Replicates add their own spread to s^2 and nothing to the determinant, so the
evidence is that of the table with every row written out. One replicate (a row of responses) is left out at a time,
with all its copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.selection.length_scales import Place
from stopwise.selection.rows import Sample

MAX_RATIO = 1e9
"""The largest signal-to-noise ratio nu that is looked at: what fits better beyond is rounding."""
_CURVE_POINTS = 56
_LEAST_LEFT = 1e-9


@dataclass(frozen=True)
class LeftOut:
    """Ridge on a sample at a grid of ratios nu, each response judged at its own best one.

    `ratios` is the grid (g,), `shrinkage` = 1 / (1 + nu lambda) (m, g), `errors` the squared left-out error of
    every row by its weight, (m, g, q), in units of each response's variance.
    """

    sample: Sample
    values: Array
    vectors: Array
    coordinates: Array
    ratios: Array
    shrinkage: Array
    errors: Array

    def evidence_curve(self) -> Array:
        """-2 log likelihood / n at each ratio, (g, q)."""
        n, free = self.sample.n_samples, self.sample.n_free
        variance = (self.shrinkage.T @ self.coordinates**2 + self.sample.spread_within) / free
        determinant = np.log1p(np.outer(self.ratios, self.values)).sum(axis=1)
        return cast(Array, (free * np.log(np.maximum(variance, 1e-300)) + determinant[:, None]) / n)

    @property
    def best(self) -> Array:
        """For each response the index of the ratio with the smallest left-out error."""
        return cast(Array, np.argmin(self.errors.sum(axis=0), axis=0))

    @property
    def rows(self) -> Array:
        """Squared left-out errors of every row by its weight, (m, q), each response at its best ratio."""
        return cast(Array, self.errors[:, self.best, np.arange(self.errors.shape[2])])

    @property
    def log_error(self) -> float:
        """Log mean squared left-out error, averaged over responses."""
        return float(np.log(np.maximum(self.rows.sum(axis=0) / self.sample.n_samples, 1e-300)).mean())

    @property
    def evidence(self) -> float:
        """The evidence at its own best ratio, averaged over responses."""
        return float(np.mean([_lowest(column)[0] for column in self.evidence_curve().T]))

    @property
    def ratio(self) -> float:
        """The ratio of the highest evidence (the median over responses)."""
        return float(self.ratios[int(np.median([_lowest(column)[1] for column in self.evidence_curve().T]))])

    def predict(self, gram: Array, cross: Array, design: Array, new_design: Array) -> Array:
        """Predictions (t, q) at new rows, in units of the sample's responses, each at its best ratio.

        `gram` is K before weights (m, m), `cross` the kernel between new rows and the sample's; the designs hold what
        is not penalised.
        """
        sample = self.sample
        weight = self.ratios[self.best] * self.shrinkage[:, self.best]
        dual = self.vectors @ (weight * self.coordinates)
        dual = sample.root_weights[:, None] * (dual - sample.fixed @ (sample.fixed.T @ dual)) / sample.n_samples
        rest = sample.root_weights[:, None] * (sample.means - gram @ dual)
        fixed = np.linalg.lstsq(sample.root_weights[:, None] * design, rest, rcond=1e-10)[0]
        return cast(Array, cross @ dual + new_design @ fixed)


def left_out(sample: Sample, gram: Array, place: Place) -> LeftOut:
    """Ridge with a kernel on a sample, every row left out in turn."""
    matrix = projected(gram * np.outer(sample.root_weights, sample.root_weights / sample.n_samples), sample.fixed)
    values, vectors = place.eigh(matrix)
    values = np.maximum(values, 0.0)
    largest = max(float(values[-1]), 1e-300)
    ratios = np.geomspace(1e-2 / largest, max(min(1e12 / largest, MAX_RATIO), 1e2 / largest), _CURVE_POINTS)
    shrinkage = 1 / (1 + np.outer(values, ratios))
    coordinates = vectors.T @ sample.free_responses
    leverage = 1 - (vectors**2) @ shrinkage + (sample.fixed**2).sum(axis=1)[:, None]
    left = 1 - leverage / sample.replicates[:, None]
    inverse = np.where(left > _LEAST_LEFT, 1 / np.maximum(left, _LEAST_LEFT), np.inf) ** 2
    errors = np.empty((*shrinkage.shape, coordinates.shape[1]))
    for j in range(coordinates.shape[1]):
        residual = vectors @ (coordinates[:, j : j + 1] * shrinkage)
        with np.errstate(invalid="ignore"):
            errors[:, :, j] = (residual**2 + sample.within[:, j : j + 1]) * inverse
    errors = np.where(np.isnan(errors), np.inf, errors)
    return LeftOut(sample, values, vectors, coordinates, ratios, shrinkage, errors)


def projected(matrix: Array, fixed: Array) -> Array:
    """(I - Q Q') M (I - Q Q') for orthonormal columns Q; M is overwritten."""
    image = matrix @ fixed
    matrix -= fixed @ image.T
    matrix -= (image - fixed @ (fixed.T @ image)) @ fixed.T
    return matrix


def _lowest(curve: Array) -> tuple[float, int]:
    """The minimum of a curve on an even grid by the parabola through its lowest point, and that point's index."""
    at = int(np.argmin(curve))
    if not 0 < at < curve.size - 1:
        return float(curve[at]), at
    left, middle, right = (float(v) for v in curve[at - 1 : at + 2])
    bend = left - 2 * middle + right
    drop = (left - right) ** 2 / (8 * bend) if np.isfinite(bend) and bend > 0 else 0.0
    return middle - min(drop, max(left, right) - middle), at
