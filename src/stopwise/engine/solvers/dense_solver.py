"""From a problem and a kernel to a stop and weights: the middle of `fit`, one solver at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_for, blas_threads
from stopwise.engine.operators import Dense, Operator
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.filters import Filter
from stopwise.kernels import Kernel, Precomputed
from stopwise.noise import NoiseEstimator
from stopwise.path import Path, make_path
from stopwise.problem import Problem
from stopwise.rules import Data, Rule, Stop
from stopwise.rules.holdout import HoldOut
from stopwise.spectrum import Spectrum


@dataclass(frozen=True)
class Plan:
    """Everything a fit was asked for, with every "auto" resolved but the spectrum's."""

    kernel: Kernel
    filter: Filter
    rule: Rule
    noise: NoiseEstimator
    tol: float = 0.01
    dtype: Any = np.float64
    n_jobs: int | None = None
    verbose: int = 0
    scouting: bool = False
    """True while a cheaper rule grows the space: its own sampling error does not matter."""
    noise_given: float | None = None
    """A noise level settled earlier (by selection), in the units of y."""


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
    spread: Any = None
    """Variances of predictions where they do not come from rows (landmarks): has `variance(X)`."""
    notes: dict[str, Any] = field(default_factory=dict)


class Solver(Protocol):
    """A way from problem and plan to solution."""

    name: str

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        """Spectrum, path, noise, stop and weights."""


@dataclass(frozen=True)
class _HeldOut:
    """A path on training rows and its error on held-out rows, in the problem's units."""

    path: Path
    cross: Array
    target: Array
    weights: Array
    mean: float
    operator: Operator

    def error(self, step_sum: Array) -> Array:
        dual = np.atleast_2d(self.path.dual_coef(step_sum))
        predicted = dual @ self.cross.T + self.mean
        if self.path.intercept:
            predicted = predicted - self.operator.mean_prediction(dual.T)[:, None]
        return cast(Array, ((predicted - self.target) ** 2 @ self.weights) / self.weights.sum())


def held_out(problem: Problem, plan: Plan, column: int, train: Array, test: Array) -> _HeldOut:
    """Fit the training rows (dense) and be ready to predict the held-out ones."""
    part = problem.subset(train, plan.kernel)
    operator = Dense(part.gram(plan.kernel), weights=part.weights, centred=part.intercept)
    path = make_path(
        dense_spectrum(operator),
        plan.filter,
        part.responses[:, column],
        intercept=part.intercept,
        root_weights=part.root_weights,
    )
    weights = np.ones(len(test)) if problem.weights is None else problem.weights[test]
    cross = problem.gram(plan.kernel, test, train)
    return _HeldOut(path, cross, problem.responses[test, column], weights, float(part.offset[column]), operator)


def noise_of(problem: Problem, plan: Plan, path: Path, column: int) -> float:
    """The noise level of one response in problem units."""
    scale = float(problem.scale[column])
    if plan.noise_given is not None:
        return plan.noise_given / scale
    x = problem.covariates if plan.noise.needs_rows else None
    y = problem.in_y_units(column) if plan.noise.needs_rows else None
    return plan.noise.estimate(x, y, path=path.column(column), weights=problem.weights) / scale


def decide(problem: Problem, plan: Plan, path: Path, column: int) -> tuple[Stop, float]:
    """The stop of one response on its path, and the noise level it was decided with (problem units)."""
    sigma = noise_of(problem, plan, path, column)
    data = Data(
        problem.n_rows,
        split=lambda train, test: held_out(problem, plan, column, train, test),
        seed=problem.seed,
        groups=None if isinstance(plan.kernel, Precomputed) else lambda: problem.groups,
        replicates=None if isinstance(plan.kernel, Precomputed) else lambda: problem.replicates(column),
        kernel_scale=problem.kernel_scale(plan.kernel),
    )
    return plan.rule.select(path.column(column), sigma, data), sigma


def finish(
    problem: Problem, operator: Operator, path: Path, stops: list[Stop], sigmas: list[float], solver: str, **notes: Any
) -> Solution:
    """Weights and intercepts at the chosen stops."""
    stopped = path.stopped_at(tuple(stop.step_sum for stop in stops))
    dual = stopped.dual_coef()
    dual = dual[:, None] if dual.ndim == 1 else dual
    intercept = np.zeros(dual.shape[1])
    mean_row = None
    if problem.intercept:
        intercept = problem.offset - operator.mean_prediction(dual)
        mean_row = operator.mean_image * np.sqrt(operator.n_samples) / operator.root_weights
    return Solution(
        path=stopped,
        stops=stops,
        noise_std=np.asarray(sigmas) * problem.scale,
        fit_covariates=problem.covariates,
        dual_coef=dual,
        intercept=intercept,
        solver=solver,
        mean_row=mean_row,
        notes=notes,
    )


def problem_path(problem: Problem, plan: Plan, spectrum: Spectrum) -> Path:
    """The path of all responses of a problem on a spectrum."""
    return make_path(
        spectrum,
        plan.filter,
        problem.responses,
        intercept=problem.intercept,
        root_weights=problem.root_weights,
        scale=problem.scale,
        offset=problem.offset,
    )


class DenseSolver:
    """The whole matrix and all its eigenpairs: the reference."""

    name = "dense"

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        with blas_threads(blas_for(problem.n_rows)):
            return self._solve(problem, plan)

    def _solve(self, problem: Problem, plan: Plan) -> Solution:
        gram = problem.gram(plan.kernel).astype(plan.dtype, copy=False)
        operator = Dense(gram, weights=problem.weights, centred=problem.intercept)
        path = problem_path(problem, plan, dense_spectrum(operator))
        decided = [decide(problem, plan, path, j) for j in range(problem.responses.shape[1])]
        if isinstance(plan.rule, HoldOut) and not plan.rule.refit:
            return self._without_refit(problem, plan, decided)
        return finish(problem, operator, path, [stop for stop, _ in decided], [s for _, s in decided], self.name)

    def _without_refit(self, problem: Problem, plan: Plan, decided: list[tuple[Stop, float]]) -> Solution:
        """Hold-out as printed in the paper: the estimate stays the one from the training rows."""
        train = decided[0][0].details["train_rows"]
        part = problem.subset(train, plan.kernel)
        operator = Dense(part.gram(plan.kernel), weights=part.weights, centred=part.intercept)
        path = problem_path(part, plan, dense_spectrum(operator))
        solution = finish(part, operator, path, [stop for stop, _ in decided], [s for _, s in decided], self.name)
        whole = replace(
            solution.path, scale=problem.scale, offset=problem.offset + problem.scale * solution.path.offset
        )
        return replace(
            solution,
            path=whole,
            noise_std=solution.noise_std * problem.scale,
            dual_coef=solution.dual_coef * problem.scale,
            intercept=problem.offset + solution.intercept * problem.scale,
            notes={"train_rows": train},
        )
