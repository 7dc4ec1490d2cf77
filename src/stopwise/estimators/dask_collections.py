"""Fits and predictions over chunks of rows on a cluster: a map over chunks, a tree of sums, the rest on the client."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.dask import connected, dask, is_dask, is_frame
from stopwise.engine.cluster.chunks import Chunks, PartitionError, Rows, chunks_of_collections
from stopwise.engine.landmarks.decomposition import Decomposition
from stopwise.engine.landmarks.features import Landmarks, Moments, Stream, moments_of
from stopwise.engine.landmarks.landmark_left_out import Smoother, left_out_squares
from stopwise.engine.landmarks.sampling import MOST, Index, draw_rows
from stopwise.engine.solvers.cluster_solver import ClusterKrylov
from stopwise.engine.solvers.landmark_solver import solve_source
from stopwise.estimators.fitted import Fitted, Learner, fitted_of, make_fitted
from stopwise.estimators.intake import take_rows
from stopwise.estimators.prediction.response_groups import common_of, groups_of
from stopwise.estimators.prediction.training_range import feature_range, widest
from stopwise.problem import Problem
from stopwise.selection.choice import choose_kernel

SAMPLE_ROWS = MOST // 2
"""Rows brought to the client to settle kernel, scaling and landmarks."""
_FAN_IN = 8
"""Results that one task adds up."""
_LOCAL_ROWS = 65_536
"""Rows of a chunk, where an array is cut into chunks here."""

Watch = Callable[[Any], Any]
"""Called with the futures of each pass: a progress bar."""


# ---- what workers run -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What a pass brings home of some chunks: their moments and the range of every feature."""

    moments: Moments
    ranges: Array

    def __add__(self, other: Seen) -> Seen:
        return Seen(self.moments + other.moments, widest(self.ranges, other.ranges))


def chunk_moments(
    rows: Rows, landmarks: Landmarks, features: Array | None, shift: Array, unit: Array, label: str
) -> Seen:
    """The sums of one chunk."""
    covariates = rows.covariates if features is None else rows.covariates[:, features]
    try:
        landmarks.kernel.check(covariates)
    except ValueError as error:
        raise PartitionError(f"{label}: {error}") from error
    moments = moments_of(landmarks, covariates, (rows.responses - shift) / unit, rows.weights)
    return Seen(moments, feature_range(rows.covariates))


def chunk_left_out(rows: Rows, smoother: Smoother, features: Array | None, shift: Array, unit: Array) -> Array:
    """The sum of squared leave-one-out residuals of one chunk."""
    covariates = rows.covariates if features is None else rows.covariates[:, features]
    weights = None if rows.weights is None else rows.weights * smoother.weight_unit
    return left_out_squares(smoother, covariates, (rows.responses - shift) / unit, weights)


def chunk_take(rows: Rows, index: Index) -> Rows:
    """Some rows of one chunk."""
    weights = None if rows.weights is None else rows.weights[index]
    return Rows(rows.covariates[index], rows.responses[index], weights)


def add_all(parts: Sequence[Any]) -> Any:
    """The sum of a few results."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


# ---- the source of rows ---------------------------------------------------------------------------------------------


@dataclass
class ChunkedRows:
    """Rows in chunks on a cluster; a `RowSource` once `settle` has fixed the units and features."""

    client: Any
    chunks: Chunks
    seed: int
    intercept: bool
    watch: Watch | None = None

    def __post_init__(self) -> None:
        self._drawn = draw_rows(self.n_rows, min(self.n_rows, SAMPLE_ROWS), self.seed)
        self.sample = self._fetch(self._drawn)
        self.features: Array | None = None
        self.ranges = feature_range(self.sample.covariates)
        q = self.sample.responses.shape[1]
        self.shift: Array = np.zeros(q)
        self.unit: Array = np.ones(q)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.chunks.n_rows

    def settle(self, problem: Problem, features: Array | None) -> None:
        """Fix the units of y and the features used, as read off the sample."""
        self.shift, self.unit, self.features = problem.offset, problem.scale, features

    def _run(self, task: Any) -> Any:
        future = self.client.compute(task)
        if self.watch is not None:
            self.watch(future)
        return self.client.gather(future)

    def _sum(self, function: Any, extra: Sequence[Any], each: Sequence[Sequence[Any]] | None = None) -> Any:
        """function(rows, *extra) of every chunk, added up in a tree whose shape the chunks alone decide."""
        delayed = dask().delayed
        shared = [delayed(value, traverse=False, pure=False) for value in extra]
        call, add = delayed(function, pure=False), delayed(add_all, pure=False)
        own = each or [()] * len(self.chunks.parts)
        layer = [call(part, *shared, *more) for part, more in zip(self.chunks.parts, own, strict=True)]
        while len(layer) > 1:
            layer = [add(layer[i : i + _FAN_IN]) for i in range(0, len(layer), _FAN_IN)]
        return self._run(layer[0])

    def _fetch(self, rows: Index) -> Rows:
        """Rows by their number in the whole table, in the order asked for."""
        starts = np.append(0, np.cumsum(self.chunks.lengths))
        owner = np.searchsorted(starts, rows, side="right") - 1
        take, order, tasks = dask().delayed(chunk_take, pure=False), [], []
        for chunk in np.unique(owner):
            places = np.flatnonzero(owner == chunk)
            order.append(places)
            tasks.append(take(self.chunks.parts[chunk], rows[places] - starts[chunk]))
        parts = self.client.gather(self.client.compute(tasks))
        back = np.argsort(np.concatenate(order))
        weights = None if parts[0].weights is None else np.concatenate([part.weights for part in parts])[back]
        covariates = np.concatenate([part.covariates for part in parts])[back]
        return Rows(covariates, np.concatenate([part.responses for part in parts])[back], weights)

    def take(self, rows: Index) -> Array:
        known = len(rows) <= len(self._drawn) and np.array_equal(rows, self._drawn[: len(rows)])
        found = self.sample.covariates[: len(rows)] if known else self._fetch(rows).covariates
        return found if self.features is None else found[:, self.features]

    def stream(self, landmarks: Landmarks) -> Stream:
        labels = [(label,) for label in self.chunks.labels]
        seen: Seen = self._sum(chunk_moments, [landmarks, self.features, self.shift, self.unit], labels)
        self.ranges = seen.ranges
        return Stream(landmarks, seen.moments, self.shift, self.unit, self.intercept, self.seed)

    def left_out(self, smoother: Smoother) -> Array:
        return cast(Array, self._sum(chunk_left_out, [smoother, self.features, self.shift, self.unit]))

    def attach(self, landmarks: Landmarks, parts: Decomposition) -> tuple[Decomposition, dict[str, Any]]:
        return parts, {}


# ---- fit and predict ------------------------------------------------------------------------------------------------


def fit_collections(estimator: Learner, X: object, y: object, sample_weight: object) -> Fitted:
    """The fit of an estimator to dask collections (or numpy arrays cut into chunks)."""
    _check_solver(estimator)
    if not is_dask(X):
        array = dask("dask.array")
        X = array.from_array(np.asarray(X), chunks=(_LOCAL_ROWS, -1))
    with connected(estimator.n_jobs) as client:
        precision = "float64" if estimator.in_double else "float32"
        return fit_chunks(estimator, chunks_of_collections(X, y, sample_weight, precision, client), client)[0]


def _check_solver(estimator: Learner) -> None:
    if estimator.solver not in ("auto", "dask", "nystrom", "krylov"):
        raise ValueError(
            'rows in dask chunks take solver="dask" (landmarks; also "auto" and "nystrom") or solver="krylov" (exact, '
            f"products on the cluster); got {estimator.solver!r}"
        )


def fit_chunks(estimator: Learner, chunks: Chunks, client: Any, watch: Watch | None = None) -> tuple[Fitted, Rows]:
    """The fit of an estimator to chunks of rows on a client, and the sample that settled its units."""
    seed = estimator.random_seed()
    source = ChunkedRows(client, chunks, seed, estimator.fit_intercept, watch)
    sample = source.sample
    rows = take_rows(estimator, _named(sample.covariates, chunks.layout.features), sample.responses, sample.weights)
    problem = rows.observations().problem(intercept=estimator.fit_intercept, seed=seed)
    chosen = choose_kernel(problem, estimator.kernel_parameter(), estimator.relevance)
    source.settle(problem, chosen.features)
    plan = estimator.plan(chosen.kernel)
    if estimator.solver == "krylov":
        exact = ClusterKrylov(client, chunks, chosen.features)
        solution = exact.solve(exact.whole(intercept=estimator.fit_intercept, seed=seed), plan)
    else:
        solution = solve_source(source, plan, estimator.n_landmarks, seed, "dask")
    rows = replace(rows, single=chunks.single, kept_rows=None, n_given=chunks.n_rows)
    return make_fitted(rows, chosen, plan, solution, source.ranges), sample


def _named(block: Array, names: Sequence[str] | Array | None) -> Any:
    """A block with its column names, if it has any: as a table, which is where scikit-learn looks for them."""
    if names is None:
        return block
    import pandas as pd

    return pd.DataFrame(block, columns=list(names))


def predict_block(block: Array, model: Any, what: str) -> Array:
    """Predictions ("mean") or standard deviations ("std", "new") for one block of rows."""
    rows = _named(block, getattr(model, "feature_names_in_", None))
    if what == "mean":
        return cast(Array, model.predict(rows))
    return cast(Array, model.predict(rows, return_std=True, interval="new" if what == "new" else None)[1])


def predict_lazily(estimator: Learner, X: Any, return_std: bool, interval: str | None) -> Any:
    """Predictions for a dask collection, as dask arrays that are computed when asked for."""
    groups = groups_of(estimator)
    if is_frame(X):
        names = common_of(estimator).feature_names
        X = (X if names is None else X[list(names)]).to_dask_array()
    whole = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
    model = copy.copy(estimator)
    model._fitted = replace(fitted_of(estimator), stream=None) if groups is None else groups
    model.n_jobs = 1  # workers are as many as the cores already
    shipped = dask().delayed(model, traverse=False, pure=False)
    stops = cast(Any, estimator).stop_
    responses = len(stops) if isinstance(stops, list) else None
    mean = _map(whole, shipped, "mean", responses)
    if not (return_std or interval == "new"):
        return mean
    return mean, _map(whole, shipped, "new" if interval == "new" else "std", responses)


def _map(X: Any, model: Any, what: str, responses: int | None) -> Any:
    if responses is None:
        return X.map_blocks(predict_block, model=model, what=what, dtype=np.float64, drop_axis=1, meta=np.empty(0))
    chunks = (X.chunks[0], (responses,))
    return X.map_blocks(predict_block, model=model, what=what, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0)))
