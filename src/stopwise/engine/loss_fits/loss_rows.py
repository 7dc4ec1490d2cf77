"""Rows for a loss: observations in a fixed order, and features whose inner products are (or stand for) the kernel.

Up to `EXACT_ROWS` rows the features reproduce the kernel matrix; beyond, they are those of landmarks (Nystrom), which
cost n m^2 a Newton step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import scipy.linalg

from stopwise._support.arrays import Array
from stopwise.engine.landmarks.features import gram_directions, make_landmarks
from stopwise.engine.loss_fits.loss_minimiser import LossProblem
from stopwise.engine.loss_fits.newton_equations import weighted_gram
from stopwise.kernels import Kernel, Precomputed
from stopwise.losses import Loss

EXACT_ROWS = 400
"""Up to so many rows every row is a landmark."""
MOST_LANDMARKS = 600
PER_DIMENSION, LEAST_LANDMARKS = 10.0, 150
"""Landmarks for every effective dimension (Rudi, Camoriano & Rosasco 2015 ask for as many, times a logarithm)."""


@dataclass(frozen=True)
class LossRows:
    """Covariates (n, d), responses or class codes (n,), and weights (n,) that add up to the number of observations."""

    covariates: Array
    y: Array
    weights: Array
    counts: Array | None = None
    """How many observations each row stands for; None for one each."""
    unit: float = 1.0
    """What a loss of 1 is in the units of y."""
    shared_scales: tuple[tuple[int, ...], ...] = ()
    """Groups of columns that share a length scale."""

    def take(self, rows: Array) -> LossRows:
        """Some of the rows, or all in another order."""
        counts = None if self.counts is None else self.counts[rows]
        return replace(
            self, covariates=self.covariates[rows], y=self.y[rows], weights=self.weights[rows], counts=counts
        )

    def in_order(self) -> LossRows:
        """The rows in the order of their values, so that the order given is nothing."""
        return self.take(np.lexsort([self.weights, self.y, *self.covariates.T[::-1]]))


@dataclass(frozen=True, kw_only=True)
class KernelProblem(LossProblem):
    """Rows with features of a kernel, and the way back: f(x) = k(x, points) @ projection @ theta and a constant."""

    projection: Array
    landmarks: Array
    """Which rows the points are."""
    mean: Array
    """What was taken from the features so that they have mean zero: zero without an intercept."""
    exact: bool
    """Whether the points are all distinct rows."""

    def function(self, coefficients: Array) -> tuple[Array, Array]:
        """Weights of the kernel at the points and the constant, from coefficients of the design."""
        theta = coefficients[int(self.intercept) :]
        constant = coefficients[0] if self.intercept else np.zeros(coefficients.shape[1])
        return cast(Array, self.projection @ theta), cast(Array, constant - self.mean @ theta)


def landmark_count(n_rows: int, dimension: float = math.inf) -> int:
    """How many landmarks are enough: all of few rows; of more some for each effective dimension, at most 6 sqrt(n),
    as the dimension grows for kernels as rough as a Laplace one in a line. Both within their limits."""
    if n_rows <= EXACT_ROWS:
        return n_rows
    most = max(EXACT_ROWS, min(MOST_LANDMARKS, round(6 * math.sqrt(n_rows))))
    return max(LEAST_LANDMARKS, math.ceil(min(PER_DIMENSION * dimension, most)))


def kernel_problem(
    kernel: Kernel, rows: LossRows, loss: Loss, count: int | None, seed: int, intercept: bool
) -> KernelProblem:
    """Rows with features by landmarks drawn at random (all of few rows): centred where a constant is free, orthogonal
    over the weighted rows, the largest first."""
    x, n, weights = rows.covariates, len(rows.y), rows.weights
    m = landmark_count(n) if count is None else min(count, n)
    picked = np.sort(np.random.default_rng(seed).permutation(n)[:m])
    if isinstance(kernel, Precomputed):
        vectors, root = gram_directions(x[np.ix_(picked, picked)], float(np.finfo(np.float64).eps))
        projection = vectors / root
        features = x[:, picked] @ projection
    else:
        picked = picked if m < n else np.sort(np.unique(x, axis=0, return_index=True)[1])
        found = make_landmarks(kernel, x[picked].astype(np.float64, copy=False))
        features, projection = found.features(x), found.projection
    mean = np.average(features, axis=0, weights=weights) if intercept else np.zeros(features.shape[1])
    scale = float(np.average(np.einsum("ij,ij->i", features, features), weights=weights))
    features = features - mean
    _, turn = scipy.linalg.eigh(weighted_gram(features, weights), driver="evd", check_finite=False)
    turn = turn[:, ::-1]
    back = {"projection": projection @ turn, "landmarks": picked, "mean": mean @ turn, "exact": m == n}
    return KernelProblem(
        features @ turn, rows.y, weights, loss, intercept, scale or 1.0, rows.counts, rows.unit, **back
    )
