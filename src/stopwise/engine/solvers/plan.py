"""What a solver is asked for, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from stopwise._support.arrays import Array
from stopwise.engine.landmarks.decomposition import Spread
from stopwise.engine.landmarks.features import Stream
from stopwise.engine.landmarks.sampling import Leverage, Uniform
from stopwise.engine.operators import Operator
from stopwise.engine.solves.penalty_search import OF_LARGEST, FoundPenalty
from stopwise.engine.solves.search_start import SearchStart
from stopwise.filters import Filter, Ridge
from stopwise.kernels import Kernel
from stopwise.noise import NoiseEstimator
from stopwise.path import Path
from stopwise.problem import Problem, Trend
from stopwise.rules import Certainty, Reason, Rule, Stop
from stopwise.rules.base import stop_at
from stopwise.rules.prudent import CEILING
from stopwise.spectrum import Basis, Density, Spectrum

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
    each_row: bool = False
    """True where a Krylov space is asked for a rule that reads every row, by the leverages that the space knows."""
    noise_given: float | None = None
    """A noise level settled earlier (by selection), in the units of y."""
    starts: tuple[SearchStart, ...] | None = None
    """For each response where its stop is looked for first, as selection read with this kernel on some of the rows."""

    @property
    def rule_by_solves(self) -> bool:
        """Whether solves alone answer the rule: the default, by rows left out, or a stop that was given."""
        return self.rule.left_out_allowance is not None or self.rule.reads_clock_only

    @property
    def noise_elsewhere(self) -> bool:
        """Whether the noise level is read off a path whose stop was given, and need not be where noise shows."""
        return self.rule.reads_clock_only and self.noise_given is None and self.noise.needs_path

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


def path_in_space(problem: Problem, spectrum: Spectrum, filter: Filter, coefficients: Array, responses: Array) -> Path:
    """The path of weighted responses (n, q) with known coordinates on the eigenvectors of a spectrum, or of a part."""
    return Path(
        spectrum=spectrum,
        filter=filter,
        coefficients=coefficients,
        energy=(responses**2).sum(axis=0),
        response=responses,
        **problem.path_fields,
    )


def bare_path(problem: Problem, filter: Filter, responses: Array, largest: float) -> Path:
    """A path that knows the responses and the largest eigenvalue."""
    values = np.array([largest])
    density = Density(values, np.ones(1), problem.n_samples)
    empty = Basis(np.zeros((problem.n_rows, 1)))
    spectrum = Spectrum(values, empty, largest, problem.n_samples, density, density, largest, complete=False)
    return path_in_space(problem, spectrum, filter, np.zeros((1, responses.shape[1])), responses)


def penalty_range(problem: Problem, plan: Plan, largest: float) -> tuple[float, float]:
    """The smallest and the largest penalty that are looked at, for the largest eigenvalue of K.

    Below, what float64 leaves of left-out errors tells nothing; above, nothing is fitted.
    """
    n = problem.n_samples
    return n * problem.kernel_scale(plan.kernel) / CEILING, OF_LARGEST * n * largest


def sure_stop(plan: Plan, path: Path, engine: str) -> Stop | None:
    """The stop of one response where none has to be looked for: it is given, or there is nothing to fit."""
    if plan.rule.reads_clock_only:
        stop = plan.rule.decide(path)
    elif float(path.energy) == 0 or path.spectrum.largest_bound == 0:
        stop = stop_at(path.filter, 0.0, Reason.ZERO, rule=plan.rule.name)
    else:
        return None
    return replace(stop, certainty=Certainty(engine, regret=0.0))


def with_left_out(path: Path, stops: list[Stop], searches: list[FoundPenalty | None], rows: Array) -> Path:
    """The path with residuals of `rows` left out, for each response; a later one may have left more rows out."""
    each = [_left_out(path.column(j), stops[j], found, rows) for j, found in enumerate(searches)]
    known = [residuals for residuals in each if residuals is not None]
    if not known or len(known) < len(each):
        return path
    count = min(map(len, known))
    return replace(path, left_out=np.column_stack([one[:count] for one in known]), left_out_rows=rows[:count])


def _left_out(path: Path, stop: Stop, found: FoundPenalty | None, rows: Array) -> Array | None:
    """Residuals of the rows left out under the filter itself, weighted.

    Those found are of a sum of ridges, which follows the filter to some percent of the largest responses: where these
    are long-tailed, that is more than most residuals. It is there with the rows in as well, where the filter is known.
    """
    if found is None or found.left_out is None or found.ridges is None:
        return None
    readings, weights = found.ridges
    of_ridges = weights @ path.along(Ridge()).residual_rows(readings)
    beyond = (path.residual_rows(np.asarray(stop.step_sum)) - of_ridges)[rows[: len(found.left_out)]]
    return cast(Array, found.left_out + np.sqrt(path.row_weights[rows[: len(beyond)]]) * beyond)


def with_weights(
    problem: Problem,
    path: Path,
    stops: list[Stop],
    weights: Array,
    sigmas: list[float],
    solver: str,
    mean_row: Array | None,
) -> Solution:
    """The solution with these weights (n, q), units of y: with its intercepts, and slopes where there is a trend."""
    intercept, slopes = _unpenalised(problem, weights, mean_row)
    return Solution(
        path=path,
        stops=stops,
        noise_std=np.asarray(sigmas) * problem.scale,
        fit_covariates=problem.covariates,
        dual_coef=weights,
        intercept=intercept,
        solver=solver,
        mean_row=mean_row,
        trend=problem.trend,
        slopes=slopes,
    )


def _unpenalised(problem: Problem, weights: Array, mean_row: Array | None) -> tuple[Array, Array | None]:
    """Intercepts (q,) and slopes (d, q), units of y: least squares of what the kernel's part leaves."""
    if mean_row is None:
        return np.zeros(weights.shape[1]), None
    if problem.trend is None or problem.level is None:
        return cast(Array, problem.offset - mean_row @ weights), None
    constant, slopes = problem.trend.slopes(problem.scale * problem.level - mean_row @ weights)
    return cast(Array, problem.offset + constant), slopes


def solved(
    problem: Problem,
    operator: Operator,
    path: Path,
    stops: list[Stop],
    dual: Array,
    error: float,
    sigmas: list[float],
    solver: str,
) -> Solution:
    """The solution from weights `dual` (n, q) of the weighted problem, by a filter that is off by `error`."""
    stops = [replace(s, certainty=replace(s.certainty, estimate_residual=error)) for s in stops if s.certainty]
    stopped = np.array([stop.step_sum for stop in stops]) > 0
    weights = np.where(stopped, operator.root_weights[:, None] * dual, 0.0) * problem.scale
    return with_weights(problem, path, stops, weights, sigmas, solver, operator.mean_row)


class Solver(Protocol):
    """A way from problem and plan to solution."""

    name: str

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        """Spectrum, path, noise, stop and weights."""
