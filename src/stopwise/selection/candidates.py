"""What may be chosen, and how good it is: kernels with length scales, judged by ridge on a sample.

On distinct rows with weights w, D = diag(sqrt w), n = sum w, the model is y ~ N(F b, s^2 (I + nu K)), K = D Gram D / n.
The fixed part F b (an intercept, or an intercept and a linear part) is projected out of both sides: its directions
cost degrees of freedom and no penalty. Replicates add their own spread to s^2 and nothing to the determinant, so the
evidence is that of the table with every row written out. One replicate (a row of responses) is left out at a time,
with all its copies. The score is the evidence plus the log of the left-out error; the error's rows are kept, so that
the difference of two candidates has a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import cast

import numpy as np

from stopwise._support.array_library import HOST, ArrayLibrary
from stopwise._support.arrays import Array
from stopwise._support.minimum import lowest_by_parabola
from stopwise.engine.solves.search_start import SearchStart, start_from
from stopwise.kernels import Kernel
from stopwise.kernels.gradients import Values, gram_and_pullback
from stopwise.kernels.stationary import Stationary
from stopwise.selection.learning import Learned, cost_of_slopes
from stopwise.selection.rows import Sample

MAX_RATIO = 1e9
"""The largest signal-to-noise ratio nu at which kernels are compared: beyond, the evidence has lost too many digits."""
_CURVE_POINTS = 56
_LEAST_LEFT = 1e-9


@dataclass(frozen=True)
class LeftOut:
    """Ridge on a sample at a grid of ratios nu, each response judged at its own best one.

    `ratios` is the grid (g,), `shrinkage` = 1 / (1 + nu lambda) (m, g), `errors` the squared left-out error of
    every row by its weight, (m, g, q), in units of each response's variance. Only `vectors` stay where they were made.
    """

    sample: Sample
    values: Array
    vectors: Values
    coordinates: Array
    ratios: Array
    shrinkage: Array
    errors: Array

    def evidence_curve(self) -> Array:
        """-2 log likelihood / n at each ratio, (g, q)."""
        n, free = self.sample.n_samples, self.sample.n_free
        variance = (self.shrinkage.T @ self.coordinates**2 + self.sample.spread_within) / free
        variance = np.maximum(variance, 1e-300)
        determinant = np.log1p(np.outer(self.ratios, self.values)).sum(axis=1)
        d = self.sample.fixed.shape[1] - int(self.sample.intercept)
        slopes = cost_of_slopes(self.sample.fixed_energy, d, variance, self.sample.picking) if d else 0.0
        return cast(Array, (free * np.log(variance) + determinant[:, None] + slopes) / n)

    @property
    def best(self) -> Array:
        """For each response the index of the ratio with the smallest left-out error."""
        return cast(Array, np.argmin(self.errors.sum(axis=0), axis=0))

    @property
    def rows(self) -> Array:
        """Squared left-out errors of every row by its weight, (m, q), each response at its best ratio."""
        return cast(Array, self.errors[:, self.best, np.arange(self.errors.shape[2])])

    @property
    def log_errors(self) -> Array:
        """Log mean squared left-out error of each response."""
        return cast(Array, np.log(np.maximum(self.rows.sum(axis=0) / self.sample.n_samples, 1e-300)))

    @property
    def evidences(self) -> Array:
        """The evidence of each response at its own best ratio."""
        return np.array([lowest_by_parabola(column)[0] for column in self.evidence_curve().T])

    @property
    def ratio(self) -> float:
        """The ratio of the highest evidence (the median over responses)."""
        return float(self.ratios[int(np.median([lowest_by_parabola(column)[1] for column in self.evidence_curve().T]))])

    @property
    def starts(self) -> tuple[SearchStart, ...] | None:
        """For each response where a search for its stop on all rows starts.

        None where the largest ratio is the best, since a stop may be far beyond, and where rows have no error.
        """
        if np.any(self.best == self.ratios.size - 1) or not np.isfinite(self.rows).all():
            return None
        n, errors = self.sample.n_samples, self.errors[:, ::-1]
        places = np.log(n / self.ratios[::-1])
        return tuple(start_from(places, errors[:, :, j].T, n) for j in range(errors.shape[2]))


def left_out(sample: Sample, gram: Values, library: ArrayLibrary) -> LeftOut:
    """Ridge with a kernel matrix, which is where `library` works and is overwritten, every row left out in turn."""
    root = library.take(sample.root_weights)
    gram *= root[:, None]
    gram *= root[None, :] / sample.n_samples
    where, vectors = library.eigh(projected(gram, library.take(sample.fixed)))
    values = np.maximum(library.host(where), 0.0)
    largest = max(float(values[-1]), 1e-300)
    ratios = np.geomspace(1e-2 / largest, max(min(1e12 / largest, MAX_RATIO), 1e2 / largest), _CURVE_POINTS)
    shrinkage = 1 / (1 + np.outer(values, ratios))
    coordinates = library.host(vectors.T @ library.take(sample.free_responses))
    leverage = 1 - library.host((vectors**2) @ library.take(shrinkage)) + (sample.fixed**2).sum(axis=1)[:, None]
    left = 1 - leverage / sample.replicates[:, None]
    inverse = np.where(left > _LEAST_LEFT, 1 / np.maximum(left, _LEAST_LEFT), np.inf) ** 2
    errors = np.empty((*shrinkage.shape, coordinates.shape[1]))
    for j in range(coordinates.shape[1]):
        residual = library.host(vectors @ library.take(coordinates[:, j : j + 1] * shrinkage))
        with np.errstate(invalid="ignore"):
            errors[:, :, j] = (residual**2 + sample.within[:, j : j + 1]) * inverse
    errors = np.where(np.isnan(errors), np.inf, errors)
    return LeftOut(sample, values, vectors, coordinates, ratios, shrinkage, errors)


def projected(matrix: Values, fixed: Values) -> Values:
    """(I - Q Q') M (I - Q Q') for orthonormal columns Q; M is overwritten."""
    image = matrix @ fixed
    matrix -= fixed @ image.T
    matrix -= (image - fixed @ (fixed.T @ image)) @ fixed.T
    return matrix


@dataclass(frozen=True)
class Part:
    """A share of an average of kernels: its kernel, and length scales in standard deviations of the features."""

    share: float
    kernel: Stationary
    scales: Array

    def gram(self, sample: Sample, library: ArrayLibrary) -> Values:
        """The kernel matrix of a sample, times the share, there."""
        rows = library.take(sample.covariates / self.scales)
        return self.share * gram_and_pullback(self.kernel, rows, library.module)[0]

    def between(self, new: Array, sample: Sample, library: ArrayLibrary) -> Values:
        """The kernel between new rows and a sample's, times the share, there."""
        new, rows = new / self.scales, sample.covariates / self.scales
        if library is HOST:
            return self.share * self.kernel(new, rows)
        both = library.take(np.concatenate([new, rows]))
        return self.share * gram_and_pullback(self.kernel, both, library.module)[0][: len(new), len(new) :]


@dataclass(frozen=True, eq=False)
class Candidate:
    """Kernels with their shares (one, or an average of several), and how well they do on a sample."""

    parts: tuple[Part, ...]
    per_feature: bool
    sample: Sample
    result: LeftOut
    learned: Learned | None = None

    @cached_property
    def evidence(self) -> float:
        """-2 log likelihood per sample, averaged over responses."""
        return float(self.result.evidences.mean())

    @cached_property
    def log_error(self) -> float:
        """Log mean squared error on left-out rows, averaged over responses; 0 is about the constant function's."""
        return float(self.result.log_errors.mean())

    @cached_property
    def errors(self) -> Array:
        """Squared error on each left-out row by its weight, averaged over responses."""
        return cast(Array, self.result.rows.mean(axis=1))

    @property
    def score(self) -> float:
        """What is minimised."""
        return self.evidence + self.log_error

    @property
    def fair_scores(self) -> Array:
        """The score of each response, less what learning p length scales from the same rows flatters it by.

        Each of its two terms is minus two log likelihoods over n, lowered by p / n (Wilks); by 1 / q of that for each
        of q responses that share the length scales. The left-out error is also flattered by slopes that were picked.
        """
        scales = len(np.unique(self.sample.groups)) if self.per_feature else 1
        picking = self.sample.picking if self.linear else 0.0
        flattery = 2 * (scales / max(1, self.sample.means.shape[1]) + picking) / self.sample.n_samples
        return cast(Array, self.result.evidences + self.result.log_errors + flattery)

    @property
    def kernel(self) -> Stationary:
        """The kernel with the largest share; least squares alone has none."""
        return self.parts[0].kernel

    @property
    def linear(self) -> bool:
        """Whether a linear part is left unpenalised."""
        return self.sample.linear

    @property
    def scales(self) -> Array:
        """Its length scales."""
        return self.parts[0].scales

    @property
    def name(self) -> str:
        """The kernel's, or of an average the kernels' with their shares; and the linear part."""
        names = [part.kernel.name if part.share == 1 else f"{part.share:.2g} {part.kernel.name}" for part in self.parts]
        return " + ".join(["linear", *names] if self.linear else names)

    def gap(self, other: Candidate) -> tuple[float, float]:
        """By how much the left-out error is larger than another's, and the standard error of that difference.

        A row that alone decides a slope of the linear part has no prediction when left out: its error is infinite.
        """
        difference = self.errors - other.errors
        if not np.isfinite(difference).all():
            return math.inf, math.inf
        return float(difference.mean()), float(difference.std()) / math.sqrt(difference.size)

    def in_units(self, spread: Array) -> Kernel:
        """The kernel on features in their own units, of which one standard deviation is `spread`."""
        kernels: list[Kernel] = [
            kernel if part.share == 1 else part.share * kernel
            for part in self.parts
            for kernel in [part.kernel.with_length_scale(part.scales * spread)]
        ]
        return reduce(add, kernels)


def judge(
    sample: Sample,
    parts: Sequence[Part],
    library: ArrayLibrary,
    *,
    per_feature: bool,
    learned: Learned | None = None,
) -> Candidate:
    """The score of kernels with given length scales on a sample."""
    gram = sum((part.gram(sample, library) for part in parts), library.zeros(sample.n_rows, sample.n_rows))
    return Candidate(tuple(parts), per_feature, sample, left_out(sample, gram, library), learned)


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best score first; the one listed first (smoother, fewer length scales) where two tie."""
    return sorted(candidates, key=lambda c: round(c.score, 9))
