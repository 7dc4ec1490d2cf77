"""The reference solver: the whole matrix and all its eigenpairs; and what every solver shares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from stopwise._support.arrays import Array
from stopwise._support.memory import free_bytes, gibibytes
from stopwise._support.threads import blas_for, blas_threads
from stopwise.engine.operators import Dense, Operator
from stopwise.engine.solvers.plan import Plan, Solution, with_weights
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.kernels import Precomputed
from stopwise.noise import sample_of
from stopwise.path import Path, make_path
from stopwise.problem import Problem
from stopwise.rules import Certainty, Stop
from stopwise.rules.left_out_blocks import sets_of, shared_noise_variance
from stopwise.spectrum import Spectrum


def dense_bytes(n_rows: int, dtype: npt.DTypeLike) -> float:
    """What the dense route needs at its peak: the matrix, its eigenvectors and LAPACK's workspace."""
    return float(4.0 * n_rows**2 * np.dtype(dtype).itemsize)


def check_dense_fits(who: str, n_rows: int, dtype: npt.DTypeLike, remedy: str) -> None:
    """Raise MemoryError where all eigenpairs of so many rows do not fit."""
    needed, free = dense_bytes(n_rows, dtype), free_bytes()
    if needed > free:
        raise MemoryError(
            f"{who} needs about {gibibytes(needed)} for {n_rows} rows and {gibibytes(free)} is free: {remedy}"
        )


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
        if self.operator.mean_row is not None:
            predicted = predicted - (dual @ self.operator.mean_row)[:, None]
        return cast(Array, ((predicted - self.target) ** 2 @ self.weights) / self.weights.sum())


def held_out(problem: Problem, plan: Plan, column: int, train: Array, test: Array) -> _HeldOut:
    """Fit the training rows (dense) and be ready to predict the held-out ones."""
    check_dense_fits("the training part of hold-out", len(train), np.float64, "use the default rule, or fit fewer rows")
    part = problem.subset(train, plan.kernel)
    operator = Dense(part.gram(plan.kernel), weights=part.weights, centred=part.intercept)
    path = make_path(
        dense_spectrum(operator),
        plan.filter,
        part.responses[:, column],
        intercept=part.intercept,
        root_weights=part.root_weights,
        counts=part.counts,
    )
    weights = np.ones(len(test)) if problem.weights is None else problem.weights[test]
    cross = problem.gram(plan.kernel, test, train)
    return _HeldOut(path, cross, problem.responses[test, column], weights, float(part.offset[column]), operator)


def noise_of(problem: Problem, plan: Plan, path: Path | None, column: int) -> float:
    """The noise level of one response in problem units, from its rows or along its own path."""
    scale = float(problem.scale[column])
    if plan.noise_given is not None:
        return plan.noise_given / scale
    if plan.noise.needs_sets and path is not None and path.spectrum.complete:
        sets = sets_of(problem.data, problem.block)
        if sets is not None:
            return math.sqrt(shared_noise_variance(path, sets))
    if not plan.noise.needs_rows:
        return plan.noise.estimate(path=path) / scale
    sample = sample_of(problem.covariates, problem.in_y_units(column), problem.weights, problem.counts)
    return plan.noise.estimate_from(sample, path) / scale


def decide(problem: Problem, plan: Plan, path: Path, column: int) -> tuple[Stop, float]:
    """The stop of one response on its own path, and the noise level it was decided with (problem units)."""
    sigma = noise_of(problem, plan, path, column)
    data = replace(
        problem.data,
        split=lambda train, test: held_out(problem, plan, column, train, test),
        seed=problem.seed,
        kernel_scale=problem.kernel_scale(plan.kernel),
    )
    return plan.rule.decide(path, sigma, data), sigma


def _decided(problem: Problem, plan: Plan, path: Path) -> tuple[list[Stop], list[float]]:
    """Stops and noise levels of all responses from all eigenpairs: arithmetic loses nothing."""
    decided = [decide(problem, plan, path.column(j), j) for j in range(path.n_responses)]
    exact = Certainty(DenseSolver.name, regret=0.0)
    return [replace(stop, certainty=exact) for stop, _ in decided], [sigma for _, sigma in decided]


def finish(
    problem: Problem, path: Path, stops: list[Stop], sigmas: list[float], solver: str, mean_row: Array | None
) -> Solution:
    """Weights and intercepts at the chosen stops."""
    stopped = path.stopped_at(tuple(stop.step_sum for stop in stops))
    dual = stopped.dual_coef()
    weights = dual[:, None] if dual.ndim == 1 else dual
    return with_weights(problem, stopped, stops, weights, sigmas, solver, mean_row)


class DenseSolver:
    """The whole matrix and all its eigenpairs: the reference."""

    name = "dense"

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        with blas_threads(blas_for(problem.n_rows)):
            gram = problem.gram(plan.kernel).astype(plan.dtype, copy=False)
            own = not isinstance(plan.kernel, Precomputed)
            operator = Dense(gram, weights=problem.weights, centred=problem.intercept, fixed=problem.fixed, own=own)
            path = problem.path(dense_spectrum(operator), plan.filter)
            decided = _decided(problem, plan, path)
            if plan.rule.keeps_training_part:
                return self._without_refit(problem, plan, *decided)
            return finish(problem, path, *decided, self.name, operator.mean_row)

    def _without_refit(self, problem: Problem, plan: Plan, stops: list[Stop], sigmas: list[float]) -> Solution:
        """Hold-out as printed in the paper: the estimate stays the one from the training rows."""
        train = stops[0].evidence.train_rows
        assert train is not None
        part = problem.subset(train, plan.kernel)
        operator = Dense(part.gram(plan.kernel), weights=part.weights, centred=part.intercept)
        path = part.path(dense_spectrum(operator), plan.filter)
        solution = finish(part, path, stops, sigmas, self.name, operator.mean_row)
        offset = problem.offset + problem.scale * solution.path.offset
        return replace(
            solution,
            path=replace(solution.path, scale=problem.scale, offset=offset),
            noise_std=solution.noise_std * problem.scale,
            dual_coef=solution.dual_coef * problem.scale,
            intercept=problem.offset + solution.intercept * problem.scale,
            train_rows=train,
        )


def refit_dense(problem: Problem, plan: Plan, spectrum: Spectrum, mean_row: Array | None) -> Solution:
    """New responses on eigenvectors that are known already."""
    path = problem.path(spectrum, plan.filter)
    return finish(problem, path, *_decided(problem, plan, path), DenseSolver.name, mean_row)
