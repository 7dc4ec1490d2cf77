"""What "auto" chooses: kernel and length scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stopwise._typing import Array
from stopwise.estimators.problem import Problem
from stopwise.kernels import Gaussian, Kernel
from stopwise.kernels.radial import Radial


@dataclass(frozen=True)
class Chosen:
    """A kernel with every "auto" filled in, the problem on the features it uses, and what was tried."""

    kernel: Kernel
    problem: Problem
    features: Array | None = None
    table: Any = None


def choose_kernel(estimator: Any, problem: Problem) -> Chosen:
    """The kernel of an estimator for a problem."""
    kernel = estimator._kernel_parameter() or Gaussian("auto")
    if isinstance(kernel, Radial) and kernel.length_scale == "auto":
        mean = np.average(problem.covariates, axis=0, weights=problem.weights)
        spread = np.sqrt(np.average((problem.covariates - mean) ** 2, axis=0, weights=problem.weights))
        spread = np.where(spread > 0, spread, 1.0)
        kernel = kernel.with_length_scale(spread * np.sqrt(problem.covariates.shape[1]))
    kernel = kernel.resolved(problem.covariates)
    kernel.check(problem.covariates) if hasattr(kernel, "check") else None
    return Chosen(kernel, problem)
