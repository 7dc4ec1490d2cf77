"""The data as the rooms behind it want them: checked, centred, scaled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import on_host
from stopwise.kernels import Kernel, Precomputed


@dataclass(frozen=True)
class Problem:
    """Observations, responses in problem units, and how to get back.

    Rows differ in covariates or responses (`find_observations`). `weights` are relative precisions and `counts` how
    many observations each row stands for, None where all are one; both add up to `n_samples`.

    `responses` is (n, q), centred if there is an intercept and scaled by `scale` (q,), a power of two, so that no
    magnitude of y overflows a square. y = offset + scale * response.
    """

    covariates: Array
    responses: Array
    weights: Array | None
    scale: Array
    offset: Array
    intercept: bool
    seed: int = 0
    counts: Array | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are to multiply with."""
        return len(self.covariates)

    @property
    def n_samples(self) -> float:
        """How many observations they stand for."""
        return float(self.n_rows) if self.weights is None else float(self.weights.sum())

    @property
    def root_weights(self) -> Array | None:
        """sqrt of the weights, or None."""
        return None if self.weights is None else np.sqrt(self.weights)

    def in_y_units(self, column: int) -> Array:
        """One response as it was given."""
        return cast(Array, self.offset[column] + self.scale[column] * self.responses[:, column])

    def gram(self, kernel: Kernel, rows: Any = None, columns: Any = None) -> Array:
        """The raw kernel matrix between given rows (default: all)."""
        x = self.covariates
        if isinstance(kernel, Precomputed):
            return x if rows is None else cast(Array, x[np.ix_(rows, rows if columns is None else columns)])
        left = x if rows is None else x[rows]
        return kernel(left) if columns is None else kernel(left, x[columns])

    def kernel_scale(self, kernel: Kernel) -> float:
        """The kernel's mean diagonal over samples (1 where it vanishes); remembered, since every decision asks."""
        known: tuple[Kernel, float] | None = self.__dict__.get("_kernel_scale")
        if known is None or known[0] is not kernel:
            known = self.__dict__["_kernel_scale"] = kernel, self._mean_diagonal(kernel)
        return known[1] if known[1] > 0 else 1.0

    def _mean_diagonal(self, kernel: Kernel) -> float:
        x = on_host(self.covariates)
        diagonal = np.diagonal(x) if isinstance(kernel, Precomputed) else kernel.diagonal(x)
        return float(np.average(diagonal.astype(np.float64), weights=self.weights))

    def subset(self, rows: Array, kernel: Kernel) -> Problem:
        """The same problem on some of the rows, centred anew; still in this problem's units."""
        precomputed = isinstance(kernel, Precomputed)
        covariates = self.covariates[np.ix_(rows, rows)] if precomputed else self.covariates[rows]
        counts = None if self.counts is None else self.counts[rows]
        weights = None if self.weights is None else self.weights[rows]
        if weights is not None:  # they add up to the observations of this part
            weights = weights * ((len(rows) if counts is None else counts.sum()) / weights.sum())
        part = replace(self, covariates=covariates, responses=self.responses[rows], weights=weights, counts=counts)
        means = part.mean_response()
        return replace(part, responses=part.responses - means, offset=means, scale=np.ones_like(self.scale))

    def mean_response(self) -> Array:
        """The weighted mean that an intercept takes out (zero without one), problem units."""
        if not self.intercept:
            return np.zeros(self.responses.shape[1])
        return cast(Array, np.average(self.responses, axis=0, weights=self.weights))


def _power_of_two(values: Array) -> Array:
    """For each column the power of two just above its largest magnitude (1 for a zero column)."""
    largest = np.abs(values).max(axis=0, initial=0.0)
    exponents = np.where(largest > 0, np.frexp(largest)[1], 0)
    return cast(Array, np.ldexp(1.0, np.clip(exponents, -1021, 1023)))


def make_problem(
    covariates: Array, y: Array, weights: Array | None, *, intercept: bool, seed: int, counts: Array | None = None
) -> Problem:
    """Centre and scale responses (n, q) of observations (`find_observations`)."""
    responses = np.asarray(y, dtype=np.float64)
    first = _power_of_two(responses)
    responses = responses / first
    offset = np.zeros(responses.shape[1])
    if intercept:
        # From one of the responses first: such differences are exact, so that a large offset costs no digits.
        anchor = responses[0]
        responses = responses - anchor
        mean = np.average(responses, axis=0, weights=weights)
        offset, responses = anchor + mean, responses - mean
        # Differences of a few roundings of the offset are rounding: such a y is constant.
        rounding = 4 * np.finfo(np.float64).eps * np.abs(offset)
        responses[:, np.abs(responses).max(axis=0) <= rounding] = 0.0
    second = _power_of_two(responses)
    scale = first * second
    return Problem(covariates, responses / second, weights, scale, offset * first, intercept, seed, counts)
