"""How good is a kernel for a sample: evidence and leave-one-out, both for ridge, from one eigendecomposition.

On distinct rows with weights w, D = diag(sqrt w), n = sum w, the model is y ~ N(0, s^2 (I + nu K)), K = D Gram D / n,
centred where there is an intercept. Replicates add their own spread to s^2 and nothing to the determinant, so the
evidence is that of the table with every row written out. Leave-one-out leaves out one replicate (a row of responses) at
a time, with all its copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.linalg

from stopwise._support.arrays import Array
from stopwise.selection.sample import Sample

MAX_RATIO = 1e9
"""The largest signal-to-noise ratio nu that is looked at: what fits better beyond is rounding."""
_CURVE_POINTS = 56
_LEAST_LEFT = 1e-9


@dataclass(frozen=True)
class Score:
    """Evidence (-2 log likelihood / n) and log leave-one-out error, each at its own best ratio; lower is better.

    Both are averages over responses of unit variance, so 0 is the constant function's.
    """

    evidence: float
    leave_one_out: float
    ratio: float
    degrees_of_freedom: float

    @property
    def total(self) -> float:
        """What selection minimises: the sum of the two."""
        return self.evidence + self.leave_one_out


def normalized(sample: Sample, gram: Array) -> Array:
    """K = D Gram D / n, centred where the sample has an intercept."""
    root = sample.root_weights
    matrix = gram * root[:, None] * (root / sample.n_samples)
    if sample.intercept:
        q = root / np.sqrt(sample.n_samples)
        image = matrix @ q
        matrix -= np.outer(q, image)
        matrix -= np.outer(image - q * (q @ image), q)
    return cast(Array, matrix)


class Ridge:
    """Ridge on a sample at any ratio nu, from the eigenpairs of K."""

    def __init__(self, sample: Sample, gram: Array) -> None:
        matrix = normalized(sample, gram)
        values, vectors = scipy.linalg.eigh(matrix, driver="evd", overwrite_a=True, check_finite=False)
        self.sample, self.values, self.vectors = sample, np.maximum(values, 0.0), vectors
        self.coordinates = vectors.T @ sample.responses
        largest = max(float(self.values[-1]), 1e-300)
        top = max(min(1e12 / largest, MAX_RATIO), 1e2 / largest)
        self.ratios = np.geomspace(1e-2 / largest, top, _CURVE_POINTS)
        self.shrinkage = 1 / (1 + np.outer(self.values, self.ratios))

    def evidence(self) -> Array:
        """-2 log likelihood / n at each ratio, (g, q)."""
        n, free = self.sample.n_samples, self.sample.n_free
        variance = (self.shrinkage.T @ self.coordinates**2 + self.sample.spread_within) / free
        determinant = np.log1p(np.outer(self.ratios, self.values)).sum(axis=1)
        return cast(Array, (free * np.log(np.maximum(variance, 1e-300)) + determinant[:, None]) / n)

    def log_left_out(self) -> Array:
        """Log mean squared leave-one-out error at each ratio, (g, q)."""
        sample = self.sample
        left = self._leverage_left(self.shrinkage)
        inverse = np.where(left > _LEAST_LEFT, 1 / np.maximum(left, _LEAST_LEFT), np.inf) ** 2
        errors = np.empty((self.ratios.size, self.coordinates.shape[1]))
        for j in range(self.coordinates.shape[1]):
            residual = self.vectors @ (self.coordinates[:, j : j + 1] * self.shrinkage)
            with np.errstate(invalid="ignore"):
                errors[:, j] = ((residual**2 + sample.within[:, j : j + 1]) * inverse).sum(axis=0)
        errors /= sample.n_samples
        return cast(Array, np.log(np.maximum(np.where(np.isnan(errors), np.inf, errors), 1e-300)))

    def left_out_rows(self) -> Array:
        """Squared leave-one-out error of every distinct row, mean over responses, each at its best ratio."""
        shrinkage = self.shrinkage[:, np.argmin(self.log_left_out(), axis=0)]
        residual = self.vectors @ (self.coordinates * shrinkage)
        left = np.maximum(self._leverage_left(shrinkage), _LEAST_LEFT)
        return cast(Array, ((residual**2 + self.sample.within) / left**2).mean(axis=1))

    def _leverage_left(self, shrinkage: Array) -> Array:
        """1 - h_ii of one replicate of every distinct row, (m, g) for shrinkages (m, g); an intercept takes its own."""
        sample = self.sample
        fixed = sample.weights[:, None] / sample.n_samples if sample.intercept else 0.0
        return cast(Array, 1 - (1 - (self.vectors**2) @ shrinkage + fixed) / sample.replicates[:, None])

    def score(self) -> Score:
        """Both scores at their best."""
        evidence = self.evidence()
        best = [_lowest(column) for column in evidence.T]
        at = int(np.median([index for _, index in best]))
        return Score(
            evidence=float(np.mean([value for value, _ in best])),
            leave_one_out=float(np.mean([_lowest(column)[0] for column in self.log_left_out().T])),
            ratio=float(self.ratios[at]),
            degrees_of_freedom=float((1 - self.shrinkage[:, at]).sum()),
        )

    def predict(self, gram: Array, cross: Array) -> Array:
        """Predictions (t, q) of the centred means at new rows, each response at its best leave-one-out ratio."""
        sample = self.sample
        ratios = self.ratios[np.argmin(self.log_left_out(), axis=0)]
        weight = ratios / (1 + np.outer(self.values, ratios))
        dual = sample.root_weights[:, None] * (self.vectors @ (weight * self.coordinates)) / sample.n_samples
        if not sample.intercept:
            return cast(Array, cross @ dual)
        dual -= sample.weights[:, None] * (dual.sum(axis=0) / sample.n_samples)
        return cast(Array, cross @ dual - (sample.weights @ (gram @ dual)) / sample.n_samples)


def _lowest(curve: Array) -> tuple[float, int]:
    """The minimum of a curve on an even grid by the parabola through its lowest point, and that point's index."""
    at = int(np.argmin(curve))
    if not 0 < at < curve.size - 1:
        return float(curve[at]), at
    left, middle, right = (float(v) for v in curve[at - 1 : at + 2])
    bend = left - 2 * middle + right
    drop = (left - right) ** 2 / (8 * bend) if np.isfinite(bend) and bend > 0 else 0.0
    return middle - min(drop, max(left, right) - middle), at
