"""What a noise estimator is, what it may look at, and a noise level that is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import is_finite
from stopwise.kernels import Kernel
from stopwise.path import Path

Given: TypeAlias = ArrayLike | None


class NoiseEstimator(ABC):
    """An estimate of the noise's standard deviation."""

    name: ClassVar[str]
    needs_path: ClassVar[bool] = False
    needs_pairs: ClassVar[bool] = False
    """Reads single eigenpairs, where others read sums over them."""
    needs_rows: ClassVar[bool] = False
    needs_sets: ClassVar[bool] = False
    """Reads rows that share noise, left out together (`stopwise.rules.left_out_blocks`)."""
    correlated: ClassVar[bool] = False
    """Whether neighbouring rows share noise, so that left-out rows say nothing of when to stop."""

    def kernel_for(self, given: Kernel | None) -> Kernel | None:
        """The kernel to use where one was given (None: "auto")."""
        return given

    def estimate(
        self, X: Given = None, y: Given = None, *, path: Path | None = None, weights: Array | None = None
    ) -> float:
        """The standard deviation of the noise, in the units of y."""
        return self.estimate_from(self._sample(X, y, weights), path)

    def _sample(self, X: Given, y: Given, weights: Array | None) -> Sample | None:
        """The observations in rows, for an estimator that looks at them."""
        return None

    @abstractmethod
    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        """The same from observations (one response), or from their path, as a solver has them."""


@dataclass(frozen=True)
class Known(NoiseEstimator):
    """A given standard deviation."""

    noise_std: float
    name: ClassVar[str] = "known"

    def __post_init__(self) -> None:
        if not (is_finite(self.noise_std) and self.noise_std > 0):
            raise ValueError(
                f"noise_std must be a positive, finite standard deviation, got {self.noise_std!r}: "
                'leave it "auto" to have it estimated'
            )

    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        return float(self.noise_std)


@dataclass(frozen=True)
class Sample:
    """Observations: covariates (n, d), a response (n,) or several (n, q), weights and how many each row stands for.

    Weights are relative precisions that add up to `n_observations`: the noise level is that of a row of weight one.
    """

    covariates: Array
    response: Array
    weights: Array
    counts: Array

    @property
    def n_observations(self) -> float:
        return float(self.counts.sum())


def sample_of(covariates: Array, response: Array, weights: Array | None = None, counts: Array | None = None) -> Sample:
    """Observations with weights and counts of one where none are given."""
    ones = np.ones(len(response))
    return Sample(covariates, response, ones if weights is None else weights, ones if counts is None else counts)
