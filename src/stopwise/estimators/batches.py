"""Rows in batches, fits from several places put together, and new responses on the same rows."""

from __future__ import annotations

import threading
import warnings
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_threads, limit_of
from stopwise._support.torch import on_host
from stopwise.engine.landmarks.features import FeatureRows, Landmarks, Stream, moments_of
from stopwise.engine.landmarks.row_sample import sample_rows
from stopwise.engine.landmarks.sampling import Choice, as_points
from stopwise.engine.solvers.dense_solver import refit_dense
from stopwise.engine.solvers.landmark_solver import HeldRows, landmarks_among, solve_stream
from stopwise.engine.solvers.plan import Plan, Solution
from stopwise.engine.solvers.solver_choice import choose_solver
from stopwise.estimators.fitted import Fitted, Learner, fitted_of, make_fitted
from stopwise.estimators.intake import Columns, Intake, take_responses, take_rows
from stopwise.estimators.prediction.response_groups import ResponseGroups, groups_of, parts_of
from stopwise.estimators.prediction.training_range import feature_range, outside, widest
from stopwise.exceptions import StopwiseWarning
from stopwise.kernels import Precomputed
from stopwise.problem import Problem
from stopwise.selection.choice import Chosen, choose_kernel
from stopwise.spectrum import Basis

FIRST_BATCH_LANDMARKS = 500
"""How many of the first rows become landmarks under n_landmarks="auto": growing would need rows again."""
SETTLING_ROWS = 2 * FIRST_BATCH_LANDMARKS
"""So many rows are kept before kernel, scaling and landmarks are settled."""


L = TypeVar("L", bound=Learner)


class BatchesMixin:
    """`partial_fit`, `merge` and `refit`. Batches and parts are kept as sums over landmark features (`Moments`)."""

    def partial_fit(self: L, X: object, y: object, sample_weight: object = None) -> L:
        """Add rows to the fit, by the Nystrom solver's mergeable sums.

        Kernel, scaling and landmarks are settled once 1,000 rows are seen (or as many as there are landmarks); until
        then the rows are kept and the fit is made again with each batch. Given points as `n_landmarks` and a kernel
        without "auto" there is nothing to wait for. Once settled, the fit depends on the rows alone, not on their
        order or batches, and other parameters than the rule's no longer matter. So the first rows should come from
        the whole range of all: a warning says where most come from elsewhere. After `fit` with `solver="nystrom"` it
        continues that fit; a fit by another solver keeps no sums, and a new one starts.
        """
        self._validate_params()
        _check_solver(self)
        with lock_of(self), blas_threads(limit_of(self.n_jobs)):
            held = vars(self).get("_fitted")
            continues = isinstance(held, Fitted) and not (held.stream is None and held.waiting is None)
            before: Fitted | None = held if continues else None
            rows = take_rows(self, X, y, sample_weight, like=before, least=1, double=self.in_double)
            rows = replace(rows.without_idle_rows(), kept_rows=None)
            if before is not None:
                _check_responses(before, rows)
                rows = replace(rows, response_names=_same_responses(before, rows))
            ranges = widest(None if before is None else before.feature_range, feature_range(rows.covariates))
            if before is not None and before.stream is not None and before.waiting is None:
                _warn_unheard(self, before, rows)
                used = rows.covariates if before.features is None else rows.covariates[:, before.features]
                stream = _extended(before.stream, used, rows.responses, rows.weights)
                self._fitted = _resolved(self, _counted(rows, before, rows), stream, _as_before(before), ranges)
            else:
                rows = rows if before is None or before.waiting is None else _together(before.waiting, rows)
                chosen, stream = _begin(self, rows)
                fitted = _resolved(self, rows, stream, chosen, ranges)
                self._fitted = replace(fitted, waiting=rows if _waits(self, rows) else None)
        return self

    def merge(self: L, other: object) -> L:
        """Add all rows that another estimator has seen (same columns, landmarks, kernel and intercept) to this one."""
        with lock_of(self), blas_threads(limit_of(self.n_jobs)):
            (mine, ours), (others, theirs) = _with_stream(self), _with_stream(other)
            if not ours.landmarks.same_as(theirs.landmarks):
                raise ValueError(
                    'only fits with the same kernel and landmarks merge: give both the same kernel without "auto" and '
                    "the same n_landmarks array"
                )
            if ours.intercept != theirs.intercept or len(ours.unit) != len(theirs.unit):
                raise ValueError("only fits with the same fit_intercept and number of responses merge")
            if mine.columns != others.columns:
                raise ValueError(
                    f"only fits of the same columns in the same order merge: {mine.columns} and {others.columns}"
                )
            mapped = theirs.moments.mapped(theirs.unit / ours.unit, (theirs.shift - ours.shift) / ours.unit)
            stream = replace(ours, moments=ours.moments + mapped)
            ranges = widest(mine.feature_range, cast(Array, others.feature_range))
            named = _named(mine) | {"response_names": _same_responses(mine, others)}
            no_rows = Intake(np.empty((0, 1)), np.empty((0, 1)), None, mine.single, **named)
            rows = _counted(no_rows, mine, others)
            self._fitted = _resolved(self, rows, stream, _as_before(mine), ranges)
        return self

    def refit(self: L, y: object) -> L:
        """Fit a new response on the same rows: kernel and, for "dense" and "nystrom", the spectrum are kept."""
        fitted, groups = fitted_of(self), groups_of(self)
        self._validate_params()
        if groups is not None:
            self._fitted = _refitted(self, groups, y)
            return self
        if not isinstance(fitted, Fitted):
            raise ValueError(
                f'refit is for loss="squared", and this is a fit under the {fitted.loss.name} loss: use fit'
            )
        if fitted.subjects is not None:
            raise ValueError("refit does not know which rows hang together: use fit(X, y, groups=)")
        with blas_threads(limit_of(self.n_jobs)):
            rows = _new_responses(fitted, y)
            plan = self.plan(fitted.kernel)
            problem = rows.problem(intercept=fitted.path.intercept, seed=self.random_seed())
            problem = replace(problem, block=plan.rule.block)
            problem = problem if fitted.trend is None else problem.with_trend(fitted.trend.sloped)
            solution = _resolved_rows(fitted, problem, plan)
            self._fitted = make_fitted(rows, _as_before(fitted), plan, solution, fitted.feature_range)
        return self


def lock_of(estimator: object) -> AbstractContextManager[bool]:
    """One batch at a time: what a batch adds to must not change meanwhile."""
    lock: AbstractContextManager[bool] = vars(estimator).setdefault("_lock", threading.RLock())
    return lock


def _waits(estimator: Learner, rows: Intake) -> bool:
    """Whether these rows are too few to settle kernel, scaling and landmarks by."""
    given = estimator.n_landmarks
    points, kernel = as_points(given), estimator.kernel_parameter()
    if points is not None and kernel is not None and not kernel.needs_scale:
        return False
    wanted = given.count if isinstance(given, Choice) else given if isinstance(given, int) else 0
    return len(rows.covariates) < max(SETTLING_ROWS, wanted)


def _together(first: Intake, second: Intake) -> Intake:
    """The rows of two batches."""
    weights = None
    if first.weights is not None or second.weights is not None:
        each = [np.ones(len(part.covariates)) if part.weights is None else part.weights for part in (first, second)]
        weights = np.concatenate(each)
    return replace(
        first,
        covariates=np.concatenate([first.covariates, second.covariates]),
        responses=np.concatenate([first.responses, second.responses]),
        weights=weights,
        n_given=first.n_given + second.n_given,
    )


def _warn_unheard(estimator: Learner, before: Fitted, rows: Intake) -> None:
    """Say what came too late to be heard: a column that starts to vary, parameters that are settled."""
    ranges, used = before.feature_range, before.features
    if ranges is not None and used is not None:
        idle = np.setdiff1d(np.arange(before.n_features), used)
        late = idle[np.any(rows.covariates[:, idle] != ranges[0, idle], axis=0)]
        if late.size:
            warnings.warn(
                f"column {late[0]} did not vary in the rows that settled the kernel and is not used; fit all rows at "
                "once, or begin anew with a batch in which it varies",
                StopwiseWarning,
                stacklevel=3,
            )
    given, stream = estimator.kernel_parameter(), cast(Stream, before.stream)
    other_kernel = given is not None and not given.needs_scale and given != before.kernel
    if other_kernel or estimator.fit_intercept != stream.intercept:
        warnings.warn(
            "kernel and intercept were settled by the batches before, and other parameters come too late for them: "
            "call fit to begin anew",
            StopwiseWarning,
            stacklevel=3,
        )


def _as_before(fitted: Fitted) -> Chosen:
    """The choice of an earlier fit, kept."""
    return Chosen(fitted.kernel, cast(Problem, None), fitted.features, fitted.selection)


def _named(fitted: Fitted) -> dict[str, Any]:
    """The columns of a fit, as an intake has them; a new response has no name."""
    return fitted.about_columns | {"n_given": fitted.n_given, "response_names": None}


def _counted(rows: Intake, *given: Fitted | Intake) -> Intake:
    """Rows that stand for all that parts of a fit were given; an unknown number stays one."""
    numbers = [part.n_given for part in given]
    return replace(rows, n_given=sum(numbers) if all(numbers) else 0)


def _check_solver(estimator: Learner) -> None:
    if estimator.solver not in ("auto", "nystrom", "dask"):
        raise ValueError(
            f'rows in batches need sums that merge, which solver="nystrom" makes; got solver={estimator.solver!r}'
        )


def _begin(estimator: Learner, rows: Intake) -> tuple[Chosen, Stream]:
    """Landmarks, kernel and scaling from the first batch, copies of a row as one, and its moments."""
    intercept, seed = estimator.fit_intercept, estimator.random_seed()
    observed = rows.observations().problem(intercept=intercept, seed=seed)
    chosen = choose_kernel(observed, estimator.kernel_parameter(), estimator.relevance)
    used = rows if chosen.features is None else replace(rows, covariates=rows.covariates[:, chosen.features])
    held = HeldRows(used.problem(intercept=intercept, seed=seed))
    return chosen, held.stream(_first_landmarks(estimator, chosen, held, seed))


def _first_landmarks(estimator: Learner, chosen: Chosen, held: HeldRows, seed: int) -> Landmarks:
    given, points = estimator.n_landmarks, as_points(estimator.n_landmarks)
    if isinstance(given, str):
        given = FIRST_BATCH_LANDMARKS
    elif points is not None and chosen.features is not None:
        given = points[:, chosen.features]
    dtype = np.float64 if estimator.in_double else np.float32
    return landmarks_among(held, chosen.kernel, given, seed, dtype)


def _check_responses(before: Fitted, rows: Intake) -> None:
    count = len(before.stops)
    if rows.responses.shape[1] != count or rows.single != before.single:
        raise ValueError(f"y must have as many columns as before, {count}; got {rows.responses.shape[1]}")


def _same_responses(first: Fitted, second: Columns) -> tuple[str, ...] | None:
    """What the responses of two parts are called, as far as either knows; several must stand in one order."""
    ours, theirs = first.response_names, second.response_names
    if ours is not None and theirs is not None and ours != theirs and len(ours) > 1:
        raise ValueError(f"responses must be the same in the same order, {list(ours)}; got {list(theirs)}")
    return theirs if ours is None else ours


def _extended(stream: Stream, covariates: Array, responses: Array, weights: Array | None) -> Stream:
    stream.landmarks.kernel.check(covariates)
    more = moments_of(stream.landmarks, covariates, (responses - stream.shift) / stream.unit, weights)
    return replace(stream, moments=stream.moments + more)


def _resolved(estimator: Learner, rows: Intake, stream: Stream, chosen: Chosen, ranges: Array) -> Fitted:
    plan = estimator.plan(stream.landmarks.kernel)
    fitted = make_fitted(rows, chosen, plan, solve_stream(stream, plan, "nystrom"), ranges)
    _warn_of_rows_elsewhere(fitted, stream, plan.tol)
    return fitted


def _warn_of_rows_elsewhere(fitted: Fitted, stream: Stream, tol: float) -> None:
    """Say where most rows so far lie outside the range of the landmarks, as when batches come in the order of time."""
    sample, sure = stream.moments.sample, fitted.stops[0].certainty
    if sample is None or sure is None or sure.captured is None or sure.captured >= 1 - tol:
        return
    ranges = feature_range(stream.landmarks.points)
    elsewhere = np.flatnonzero(outside(ranges, sample.covariates).mean(axis=0) > 0.5)
    if elsewhere.size:
        column = elsewhere[0] if fitted.features is None else fitted.features[elsewhere[0]]
        name = column if fitted.feature_names is None else repr(str(fitted.feature_names[column]))
        warnings.warn(
            f"most rows so far lie outside the range of the landmarks in feature {name}, and landmarks tell nothing of "
            "a curve where there are none: begin with a batch of rows from the whole range, give such points as "
            "n_landmarks, or fit all rows at once",
            StopwiseWarning,
            stacklevel=4,
        )


def _with_stream(estimator: object) -> tuple[Fitted, Stream]:
    fitted = getattr(estimator, "__dict__", {}).get("_fitted")
    if not isinstance(fitted, Fitted) or fitted.stream is None:
        raise ValueError(
            f'{type(estimator).__name__} holds no sums to merge: fit it by partial_fit, or with solver="nystrom"'
        )
    return fitted, fitted.stream


# ---- a new response -------------------------------------------------------------------------------------------


def _new_responses(fitted: Fitted, y: object) -> Intake:
    """The rows of a fit with new responses; those that were copies and have responses of their own now are apart."""
    path, basis = fitted.path, fitted.path.spectrum.basis
    if basis is None:
        raise ValueError("refit needs the rows of the fit, and a fit in batches or on a cluster keeps none: fit again")
    values = take_responses(on_host(y))
    covariates = basis.rows.covariates if isinstance(basis.rows, FeatureRows) else fitted.covariates
    weights = None if path.root_weights is None else path.root_weights**2
    counts, kept = path.counts, fitted.kept_rows
    if fitted.row_of is not None and len(values) == len(fitted.row_of):
        became = fitted.row_of[fitted.row_of >= 0]
        given = values[fitted.row_of >= 0]
        values = values[kept]
        if not np.array_equal(values[became], given) and not isinstance(fitted.kernel, Precomputed):
            shares = np.bincount(became)[became]
            weights = None if weights is None else weights[became] / shares
            rows = _as_intake(fitted, covariates[became], given, weights)
            return replace(rows.observations(), kept_rows=None, row_of=None)
    elif kept is not None and fitted.row_of is None and len(values) == fitted.n_given:
        values = values[kept]
    if values.ndim not in (1, 2) or len(values) != len(basis.rows):
        raise ValueError(
            f"y must have one entry for each of the {len(basis.rows)} rows of the fit, got shape {values.shape}"
        )
    rows = _as_intake(fitted, covariates, values, weights)
    return replace(rows, counts=counts, kept_rows=kept, row_of=fitted.row_of)


def _refitted(estimator: Learner, groups: ResponseGroups, y: object) -> ResponseGroups:
    """New responses in the place of those that have kernels of their own."""
    values, count = take_responses(on_host(y)), len(groups.order)
    if values.ndim != 2 or values.shape[1] != count:
        raise ValueError(
            f"y must have as many columns as before, {count}, since they have kernels of their own; got shape "
            f"{values.shape}: fit again"
        )
    parts = [copy(part) for part in parts_of(estimator, groups)]
    for part, columns in zip(parts, groups.columns, strict=True):
        cast(Any, part).refit(values[:, list(columns)])
    return ResponseGroups(tuple(fitted_of(part) for part in parts), groups.columns)


def _as_intake(fitted: Fitted, covariates: Array, values: Array, weights: Array | None) -> Intake:
    single = values.ndim == 1
    responses = values[:, None] if single else values
    return Intake(covariates, responses, weights, single, **_named(fitted))


def _resolved_rows(fitted: Fitted, problem: Problem, plan: Plan) -> Solution:
    rows = cast(Basis, fitted.path.spectrum.basis).rows
    if isinstance(rows, FeatureRows) and len(rows) == problem.n_rows:
        return _refit_landmarks(fitted, problem, plan, rows)
    if fitted.solver == "dense" and len(rows) == problem.n_rows and not plan.rule.splits_rows:
        return refit_dense(problem, plan, fitted.path.spectrum, fitted.mean_row)
    return choose_solver(problem, plan).solve(problem, plan)


def _refit_landmarks(fitted: Fitted, problem: Problem, plan: Plan, rows: FeatureRows) -> Solution:
    """A pass for Phi'y alone: Phi'Phi stays."""
    stream = cast(Stream, fitted.stream)
    y, root, weighted = problem.responses, problem.root_weights, problem.weighted_responses
    total = weighted.sum(axis=0) if root is None else root @ weighted
    cross = rows.T @ weighted + np.outer(rows.mean, total)
    moments = stream.moments.of_mean_weight_one()
    given = stream.moments.weight / moments.weight
    sample = sample_rows(problem.covariates, y, problem.weights, problem.counts)
    squares = (weighted**2).sum(axis=0)
    moments = replace(moments, cross=cross, response_sum=total, response_square=squares, sample=sample)
    stream = replace(stream, moments=moments.reweighted(given), shift=problem.offset, unit=problem.scale)
    return solve_stream(stream, plan, fitted.solver, HeldRows(problem))
