"""Rows in batches, fits from several places put together, and new responses on the same rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_threads, limit_of
from stopwise._support.torch import on_host
from stopwise.engine.landmarks.features import FeatureRows, Landmarks, make_landmarks, moments_of
from stopwise.engine.landmarks.sampling import Choice, Uniform, as_points
from stopwise.engine.solvers.dense_solver import Plan, Solution, decide, problem_path
from stopwise.engine.solvers.landmark_solver import HeldRows, Stream, solve_stream
from stopwise.estimators.intake import check_weights, take_responses, take_rows
from stopwise.estimators.prediction.training_range import feature_range, widest
from stopwise.noise import as_noise
from stopwise.problem import Problem, make_problem
from stopwise.rules import as_rule
from stopwise.rules.holdout import HoldOut
from stopwise.selection.choice import Chosen, choose_kernel

FIRST_BATCH_LANDMARKS = 500
"""How many rows of a first batch become landmarks under n_landmarks="auto": growing would need rows again."""


class StreamingMixin:
    """`partial_fit`, `merge` and `refit`. Batches and parts are kept as sums over landmark features (`Moments`)."""

    _kept_rows: Array | None

    def partial_fit(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Add rows to the fit, by the Nystrom solver's mergeable sums.

        Landmarks, kernel and scaling are settled by the first batch, or given (`n_landmarks` as an array of points, a
        kernel without "auto"). From then on the fit depends on the rows alone, not on their order or batches. After
        `fit` with `solver="nystrom"` it continues that fit; a fit by another solver keeps no sums, and a new one
        starts.
        """
        self._validate_params()
        _check_solver(self)
        with blas_threads(limit_of(self.n_jobs)):
            before: Stream | None = getattr(self, "_stream", None)
            covariates, responses, weights, single = _batch(self, X, y, sample_weight, first=before is None)
            ranges = widest(None if before is None else self.feature_range_, feature_range(covariates))
            if before is None:
                chosen, stream = _begin(self, covariates, responses, weights)
                self._kept_rows = None
            else:
                chosen = Chosen(self.kernel_, cast(Problem, None), self._features, self.selection_)
                _check_responses(before, responses, single, self.dual_coef_.ndim == 1)
                covariates = covariates if chosen.features is None else covariates[:, chosen.features]
                stream = _extended(before, covariates, responses, weights)
            _resolve(self, stream, chosen, single)
            self.feature_range_: Any = ranges
        return self

    def merge(self: Any, other: Any) -> Any:
        """Add all rows that another estimator has seen (same landmarks, kernel and intercept) to this one."""
        with blas_threads(limit_of(self.n_jobs)):
            ours, theirs = _stream_of(self), _stream_of(other)
            if not ours.landmarks.same_as(theirs.landmarks):
                raise ValueError(
                    'only fits with the same kernel and landmarks merge: give both the same kernel without "auto" and '
                    "the same n_landmarks array"
                )
            if ours.intercept != theirs.intercept or len(ours.unit) != len(theirs.unit):
                raise ValueError("only fits with the same fit_intercept and number of responses merge")
            mapped = theirs.moments.mapped(theirs.unit / ours.unit, (theirs.shift - ours.shift) / ours.unit)
            stream = replace(ours, moments=ours.moments + mapped)
            chosen = Chosen(self.kernel_, cast(Problem, None), self._features, self.selection_)
            _resolve(self, stream, chosen, self.dual_coef_.ndim == 1)
            self.feature_range_ = widest(self.feature_range_, other.feature_range_)
        return self

    def refit(self: Any, y: Any) -> Any:
        """Fit a new response on the same rows: kernel and, for "dense" and "nystrom", the spectrum are kept."""
        check_is_fitted(self)
        self._validate_params()
        with blas_threads(limit_of(self.n_jobs)):
            responses, single = _new_responses(self, y)
            plan = self._plan(self.kernel_, as_rule(self.rule), as_noise(self.noise_std))
            chosen = Chosen(self.kernel_, cast(Problem, None), self._features, self.selection_)
            self._keep(_resolved_rows(self, responses, plan), plan, chosen, plan.rule, single)
        return self


def _check_solver(estimator: Any) -> None:
    if estimator.solver not in ("auto", "nystrom", "dask"):
        raise ValueError(
            f'rows in batches need sums that merge, which solver="nystrom" makes; got solver={estimator.solver!r}'
        )


def _batch(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, first: bool
) -> tuple[Array, Array, Array | None, bool]:
    """Checked covariates, responses (n, q), weights, and whether y was one column."""
    X, y = take_rows(estimator, X, y, reset=first, least=1)
    if estimator.precision in ("auto", "float64"):
        X = X.astype(np.float64, copy=False)
    single = y.ndim == 1
    responses = y[:, None] if single else y
    weights = check_weights(sample_weight, len(X), least_rows=1)
    if weights is None:
        return X, responses, None, single
    keep = np.flatnonzero(weights)
    return X[keep], responses[keep], weights[keep], single


def _begin(estimator: Any, covariates: Array, responses: Array, weights: Array | None) -> tuple[Chosen, Stream]:
    """Landmarks, kernel and scaling from the first batch, and its moments."""
    seed = estimator._random_seed()
    problem = make_problem(covariates, responses, weights, intercept=estimator.fit_intercept, seed=seed)
    chosen = choose_kernel(estimator, problem)
    held = HeldRows(chosen.problem)
    return chosen, held.stream(_first_landmarks(estimator, chosen, held, seed))


def _first_landmarks(estimator: Any, chosen: Chosen, held: HeldRows, seed: int) -> Landmarks:
    given = estimator.n_landmarks
    points = as_points(given)
    if points is None:
        count = FIRST_BATCH_LANDMARKS if isinstance(given, str) else given
        choice: Choice = count if isinstance(count, Choice) else Uniform(int(count))
        points = choice.points(chosen.kernel, held.n_rows, held.take, seed)
    elif chosen.features is not None:
        points = points[:, chosen.features]
    dtype = np.float64 if estimator.precision in ("auto", "float64") else np.float32
    return make_landmarks(chosen.kernel, points.astype(dtype, copy=False))


def _check_responses(stream: Stream, responses: Array, single: bool, was_single: bool) -> None:
    if responses.shape[1] != len(stream.unit) or single != was_single:
        raise ValueError(f"y must have as many columns as before, {len(stream.unit)}; got {responses.shape[1]}")


def _extended(stream: Stream, covariates: Array, responses: Array, weights: Array | None) -> Stream:
    stream.landmarks.kernel.check(covariates)
    more = moments_of(stream.landmarks, covariates, (responses - stream.shift) / stream.unit, weights)
    return replace(stream, moments=stream.moments + more)


def _resolve(estimator: Any, stream: Stream, chosen: Chosen, single: bool) -> None:
    plan = estimator._plan(stream.landmarks.kernel, as_rule(estimator.rule), as_noise(estimator.noise_std))
    estimator._keep(solve_stream(stream, plan, "nystrom"), plan, chosen, plan.rule, single)


def _stream_of(estimator: Any) -> Stream:
    stream = getattr(estimator, "_stream", None)
    if stream is None:
        raise ValueError(
            f'{type(estimator).__name__} holds no sums to merge: fit it by partial_fit, or with solver="nystrom"'
        )
    return cast(Stream, stream)


# ---- a new response -------------------------------------------------------------------------------------------


def _new_responses(estimator: Any, y: Any) -> tuple[Array, bool]:
    basis = estimator.path_.spectrum.basis
    if basis is None:
        raise ValueError("refit needs the rows of the fit, and a fit in batches or on a cluster keeps none: fit again")
    values = take_responses(on_host(y))
    kept, n_rows = estimator._kept_rows, len(basis.rows)
    if kept is not None and len(values) > int(kept.max()):
        values = values[kept]
    if values.ndim not in (1, 2) or len(values) != n_rows:
        raise ValueError(f"y must have one entry for each of the {n_rows} rows of the fit, got shape {values.shape}")
    return cast(Array, values[:, None] if values.ndim == 1 else values), values.ndim == 1


def _resolved_rows(estimator: Any, responses: Array, plan: Plan) -> Solution:
    path, rows = estimator.path_, estimator.path_.spectrum.basis.rows
    covariates = rows.covariates if isinstance(rows, FeatureRows) else estimator.X_fit_
    weights = None if path.root_weights is None else path.root_weights**2
    seed = estimator._random_seed()
    problem = make_problem(covariates, responses, weights, intercept=path.intercept, seed=seed)
    if isinstance(rows, FeatureRows):
        return _refit_landmarks(estimator, problem, plan, rows)
    if estimator.solver_ == "dense" and not isinstance(plan.rule, HoldOut):
        return _refit_dense(estimator, problem, plan)
    from stopwise.engine.solvers.solver_choice import choose_solver

    return choose_solver(estimator, problem, plan).solve(problem, plan)


def _refit_landmarks(estimator: Any, problem: Problem, plan: Plan, rows: FeatureRows) -> Solution:
    """A pass for Phi'y alone: Phi'Phi stays."""
    stream: Stream = estimator._stream
    y, root = problem.responses, problem.root_weights
    weighted = y if root is None else y * root[:, None]
    total = weighted.sum(axis=0) if root is None else root @ weighted
    cross = rows.T @ weighted + np.outer(rows.mean, total)
    moments = replace(stream.moments, cross=cross, response_sum=total, response_square=(weighted**2).sum(axis=0))
    stream = replace(stream, moments=moments, shift=problem.offset, unit=problem.scale)
    return solve_stream(stream, plan, estimator.solver_, HeldRows(problem))


def _refit_dense(estimator: Any, problem: Problem, plan: Plan) -> Solution:
    """The same eigenvectors for the new response."""
    path = problem_path(problem, plan, estimator.path_.spectrum)
    decided = [decide(problem, plan, path, j) for j in range(problem.responses.shape[1])]
    stopped = path.stopped_at(tuple(stop.step_sum for stop, _ in decided))
    dual = stopped.dual_coef()
    mean_row = estimator._mean_row
    return Solution(
        path=stopped,
        stops=[stop for stop, _ in decided],
        noise_std=np.asarray([sigma for _, sigma in decided]) * problem.scale,
        fit_covariates=problem.covariates,
        dual_coef=dual,
        intercept=np.zeros(dual.shape[1]) if mean_row is None else problem.offset - mean_row @ dual,
        solver=estimator.solver_,
        mean_row=mean_row,
    )
