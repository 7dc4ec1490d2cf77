"""What may be chosen: kernels with length scales learned on the sample, and their score there.

One list for every problem: each kernel with one length scale for all features, and with one per feature. The score is
the evidence plus the log of the left-out error, both on the whole sample; the error's rows are kept, so that the
difference of two candidates has a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.kernels import Gaussian, Kernel, Laplace, Matern, ProductLaplace, ProductMatern
from stopwise.kernels.gradients import gram_and_pullback
from stopwise.kernels.separable import Separable
from stopwise.kernels.stationary import Stationary
from stopwise.selection.left_out import LeftOut, left_out
from stopwise.selection.length_scales import Host, Learned, Place, learn
from stopwise.selection.rows import Sample, median_distance

KERNELS: tuple[Stationary, ...] = (Gaussian(), Matern(), ProductMatern(), Laplace(), ProductLaplace())
"""Smooth ones first."""
_GRID_ROWS = 150
"""Rows on which the first length scale is looked for."""
_GRID, _FINE_GRID, _FEW_FEATURES = (-2, 6), (-6, 4), 3
"""Powers of two times the median distance, every second one: with few features detail may be fine."""
_TOGETHER_STEPS, _STEPS, _MORE_STEPS = 8, 25, 12


@dataclass(frozen=True)
class Part:
    """A share of an average of kernels: its kernel, and length scales in standard deviations of the features."""

    share: float
    kernel: Stationary
    scales: Array

    def gram(self, sample: Sample, place: Place) -> Array:
        """The kernel matrix of a sample, times the share."""
        rows = place.put(sample.covariates / self.scales)
        return self.share * place.bring(gram_and_pullback(self.kernel, rows, place.xp)[0])


@dataclass(frozen=True, eq=False)
class Candidate:
    """Kernels with their shares (one, or an average of several), and how well they do on a sample."""

    parts: tuple[Part, ...]
    per_feature: bool
    sample: Sample
    result: LeftOut
    learned: Learned | None = None
    edge: str | None = None
    """Which end of the grid the first length scale lies at, if any."""
    fall: float = 0.0
    """How much the score still fell in the last step to that end."""

    @cached_property
    def evidence(self) -> float:
        """-2 log likelihood per sample."""
        return self.result.evidence

    @cached_property
    def log_error(self) -> float:
        """Log mean squared error on left-out rows; 0 is about the constant function's."""
        return self.result.log_error

    @cached_property
    def errors(self) -> Array:
        """Squared error on each left-out row by its weight, averaged over responses."""
        return cast(Array, self.result.rows.mean(axis=1))

    @property
    def score(self) -> float:
        """What is minimised."""
        return self.evidence + self.log_error

    @property
    def kernel(self) -> Stationary:
        """The kernel with the largest share."""
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
        """By how much the left-out error is larger than another's, and the standard error of that difference."""
        difference = self.errors - other.errors
        return float(difference.mean()), float(difference.std()) / math.sqrt(difference.size)

    def predict(self, covariates: Array, place: Place) -> Array:
        """Predictions (t, q) at standardised rows, in units of the sample's responses."""
        sample = self.sample
        gram = sum(part.gram(sample, place) for part in self.parts)
        cross = sum(
            part.share * part.kernel(covariates / part.scales, sample.covariates / part.scales) for part in self.parts
        )
        return self.result.predict(gram, cross, sample.design(sample.covariates), sample.design(covariates))

    def in_units(self, spread: Array) -> Kernel:
        """The kernel on features in their own units, of which one standard deviation is `spread`."""
        kernels: list[Kernel] = [
            kernel if part.share == 1 else part.share * kernel
            for part in self.parts
            for kernel in [part.kernel.with_length_scale(part.scales * spread)]
        ]
        return reduce(add, kernels)


def judge(sample: Sample, parts: Sequence[Part], place: Place, *, per_feature: bool) -> Candidate:
    """The score of kernels with given length scales on a sample."""
    gram = sum(part.gram(sample, place) for part in parts)
    return Candidate(tuple(parts), per_feature, sample, left_out(sample, cast(Array, gram), place))


def _judge_learned(sample: Sample, kernel: Stationary, found: Learned, place: Place, per_feature: bool) -> Candidate:
    candidate = judge(sample, [Part(1.0, kernel, found.scales)], place, per_feature=per_feature)
    return replace(candidate, learned=found)


def _first_scale(sample: Sample, kernel: Stationary) -> tuple[Learned, str | None, float]:
    """A start from the grid, which end of it that is (if any), and how much the score fell in the last step there."""
    rows, host = sample.first(_GRID_ROWS), Host()
    d = rows.covariates.shape[1]
    # A sum of d absolute differences is about sqrt(d) times the distance.
    unit = median_distance(rows.covariates) * (math.sqrt(d) if isinstance(kernel, Separable) else 1.0)
    low, high = _FINE_GRID if d <= _FEW_FEATURES else _GRID
    tried = [
        judge(rows, [Part(1.0, kernel, np.full(d, unit * 2.0**power))], host, per_feature=False)
        for power in range(low, high + 1, 2)
    ]
    at = min(range(len(tried)), key=lambda i: (round(tried[i].score, 9), -i))
    edge = {0: "short", len(tried) - 1: "long"}.get(at)
    fall = tried[1 if at == 0 else at - 1].score - tried[at].score if edge else 0.0
    log_ratio = math.log(max(tried[at].result.ratio / rows.n_samples, 1e-3))
    return Learned(cast(Array, -np.log(tried[at].scales)), log_ratio, tried[at].score), edge, fall


def listed(sample: Sample, kernels: Sequence[Stationary], place: Place, *, per_feature: bool) -> Iterator[Candidate]:
    """Every candidate, its length scales learned on the sample."""
    for kernel in kernels:
        if isinstance(kernel, Separable) and sample.covariates.shape[1] == 1 and len(kernels) > 1:
            continue  # the same function as the kernel of the distance
        first, edge, fall = _first_scale(sample, kernel)
        one = learn(sample, kernel, first.logs, first.log_ratio, max_steps=_TOGETHER_STEPS, together=True)
        yield replace(_judge_learned(sample, kernel, one, place, False), edge=edge, fall=fall)
        if per_feature and sample.covariates.shape[1] > 1:
            each = learn(sample, kernel, one.logs, one.log_ratio, max_steps=_STEPS, place=place)
            yield _judge_learned(sample, kernel, each, place, True)


def learned_further(candidate: Candidate, sample: Sample, place: Place) -> Candidate:
    """The same kernel with length scales learned further on (other) rows, and its score there."""
    assert candidate.learned is not None
    found = candidate.learned
    together = not candidate.per_feature
    found = learn(
        sample, candidate.kernel, found.logs, found.log_ratio, max_steps=_MORE_STEPS, together=together, place=place
    )
    return _judge_learned(sample, candidate.kernel, found, place, candidate.per_feature)
