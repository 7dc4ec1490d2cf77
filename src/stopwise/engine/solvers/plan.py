"""What a solver is asked for, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from stopwise._support.arrays import Array
from stopwise.engine.landmarks.decomposition import Spread
from stopwise.engine.landmarks.features import Stream
from stopwise.engine.landmarks.sampling import Leverage, Uniform
from stopwise.filters import Filter
from stopwise.kernels import Kernel
from stopwise.noise import NoiseEstimator
from stopwise.path import Path
from stopwise.problem import Problem, Trend
from stopwise.rules import Rule, Stop

Precision = Literal["auto", "float64", "float32", "fast"]
Landmarked = int | str | Uniform | Leverage | Array
"""How many landmarks, which way to draw them, the points themselves, or "auto"."""


@dataclass(frozen=True)
class Plan:
    """Everything a fit was asked for, with every "auto" resolved but the spectrum's."""

    kernel: Kernel
    filter: Filter
    rule: Rule
    noise: NoiseEstimator
    solver: str = "auto"
    n_landmarks: Landmarked = "auto"
    precision: Precision = "auto"
    tol: float = 0.01
    dtype: npt.DTypeLike = np.float64
    n_jobs: int | None = None
    verbose: int = 0
    scouting: bool = False
    """True while a cheaper rule grows the space: its own sampling error does not matter."""
    noise_given: float | None = None
    """A noise level settled earlier (by selection), in the units of y."""

    def for_rows(self, rows: Array | None) -> Plan:
        """The plan for some of the rows given (None: all), where the rule knows something of each row."""
        return self if rows is None else replace(self, rule=self.rule.for_rows(rows))


@dataclass(frozen=True)
class Solution:
    """What a solver hands back: the path, one stop and noise level per response, weights and intercepts."""

    path: Path
    stops: list[Stop]
    noise_std: Array
    fit_covariates: Array
    dual_coef: Array
    intercept: Array
    solver: str
    mean_row: Array | None = None
    trend: Trend | None = None
    """An unpenalised linear part; `mean_row` then holds t' Gram, a row (p, n) for each of its columns."""
    slopes: Array | None = None
    """The linear part's slopes (d, q), units of y; its constant is in `intercept`."""
    spread: Spread | None = None
    """Variances of predictions where they do not come from rows (landmarks)."""
    stream: Stream | None = None
    """Sums over landmark features that more rows can be added to (landmarks)."""
    train_rows: Array | None = None
    """The rows the estimate rests on, where a rule holds the others out."""
    device: str | None = None
    precision: str | None = None
    """Where products were made, and how accurately (GPU)."""


class Solver(Protocol):
    """A way from problem and plan to solution."""

    name: str

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        """Spectrum, path, noise, stop and weights."""
