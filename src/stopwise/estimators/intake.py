"""Rows from callers: scikit-learn's checks, and what those let through or say in words of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_array, validate_data

from stopwise._support.arrays import Array
from stopwise._support.checks import place_of_infinity, real_array
from stopwise.copies import find_observations
from stopwise.kernels import Kernel, Precomputed
from stopwise.problem import Problem, make_problem
from stopwise.tables.encoder import TableEncoder
from stopwise.tables.frames import as_table, check_unique, is_frame
from stopwise.tables.names import quoted
from stopwise.tables.recipe import EncodedFrame, Recipe, shared_by
from stopwise.tables.table import Table

_LARGEST_COVARIATE, _LARGEST_RESPONSE = 1e300, 1e305
"""Sums over rows of larger ones could overflow: a float ends at 1.8e308."""
_WEIGHTS = (1e-100, 1e100)
"""Between these, sums of weights times squares of scaled responses neither vanish nor overflow."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The features, and what the columns of X and y were called."""

    n_features: int
    feature_names: Array | None = None
    columns_in: tuple[str, ...] | None = None
    """The columns of the frame that X was, from which `recipe` makes features; None for an array."""
    recipe: Recipe | None = None
    response_names: tuple[str, ...] | None = None
    """What y's columns were called, where they had names."""

    @property
    def about_columns(self) -> dict[str, Any]:
        """These fields by name: what a fit keeps of its rows."""
        return {each.name: getattr(self, each.name) for each in fields(Columns)}

    @property
    def n_in(self) -> int:
        """How many columns X had."""
        return self.n_features if self.columns_in is None else len(self.columns_in)

    @property
    def names_in(self) -> Array | None:
        """The names of the columns that X had, where they had any."""
        return self.feature_names if self.columns_in is None else np.array(self.columns_in, dtype=object)


@contextmanager
def numbers_only(**values: object) -> Iterator[None]:
    """Around validation of X and y: an error about their values or shapes that also says what to do about it."""
    try:
        # scikit-learn adds all entries up to look for NaN; that this sum may overflow is no concern of the caller.
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except OverflowError as error:
        raise ValueError(f"a number is too large for a float ({error}): rescale it") from error
    except TypeError as error:
        if not str(error).startswith(("float() argument", "Cannot cast", "The DType")):
            raise
        raise TypeError(f"X and y must be arrays of plain numbers, a row per sample: {error}") from error
    except ValueError as error:
        words = next((words for said, words in _IN_OUR_WORDS.items() if said in str(error)), None)
        if words is None:
            raise
        places = {f"{name}_place": place_of_infinity(given) for name, given in values.items()}
        raise ValueError(words.format(error, **places)) from error


_IN_OUR_WORDS = {
    "could not convert string": "{}: an array must hold numbers; pass a frame, whose text is encoded, or encode it "
    "first (sw.tables.TableEncoder); text in y is for sw.KernelGradientClassifier",
    "Input X contains NaN": "Input X contains NaN. Fill those entries or leave the rows out, or fit a pandas or polars "
    "frame, whose gaps are filled in (sw.tables.TableEncoder)",
    "Input y contains NaN": "Input y contains NaN. Leave those rows out: a fit needs to know their response",
    "Input X contains infinity": "Input X contains infinity{X_place}: an entry must be finite. Leave that row out, or "
    "give the entry a number",
    "Input y contains infinity": "Input y contains infinity{y_place}: a response must be finite. Leave that row out",
    "setting an array element": "rows of X (or of y) must all have the same number of entries: {}",
}
"""What scikit-learn and numpy say of values, and what to say instead."""


def check_kind(values: Any, name: str, *, encoded: bool = False) -> None:
    """Refuse what would be read as something else than it is: hidden entries, dates, repeated names, streams.

    `encoded`: a frame whose columns will be encoded, so that dates in it are welcome.
    """
    if isinstance(values, Iterator):
        raise TypeError(f"{name} must be an array, got a {type(values).__name__}: pass list({name})")
    if name == "y" and issparse(values):
        raise TypeError("Sparse data was passed for y, but dense data is required: use y.toarray()")
    if np.ma.is_masked(values):
        hidden = int(np.count_nonzero(np.ma.getmaskarray(values)))
        raise ValueError(f"{name} has {hidden} masked entries, which count as missing: fill them or drop those rows")
    if getattr(values, "shape", None) == (0, 0):
        raise ValueError(f"{name} is empty: it has 0 sample(s) and 0 feature(s), and a minimum of 1 is required")
    check_unique(values, name)
    if encoded:
        return
    kinds = list(getattr(values, "dtypes", [])) if hasattr(values, "columns") else [getattr(values, "dtype", None)]
    if any(getattr(kind, "kind", "") in ("m", "M") for kind in kinds):
        raise TypeError(f"{name} holds dates or durations: turn them into numbers first, such as days since a start")


@dataclass(frozen=True)
class Intake(Columns):
    """Checked rows: covariates (n, d), which may be a tensor, responses (n, q), weights, and the names of columns."""

    covariates: Array
    responses: Array
    weights: Array | None
    single: bool
    """Whether y was one column."""
    kept_rows: Array | None = None
    """Rows that count, of those given; None for all."""
    n_given: int = 0
    """How many rows were given, those of weight zero included."""
    shared_scales: tuple[tuple[int, ...], ...] = ()
    """Groups of columns that share a length scale."""
    counts: Array | None = None
    """How many observations each row stands for; None for one each."""
    row_of: Array | None = None
    """For every row given the row here that it became, -1 for none; None where they are the same."""
    weight_unit: float = 1.0
    """What given weights were multiplied by."""
    subjects: Array | None = None
    """For each row the number of its group; None where no groups were given."""

    def is_gram(self, kernel: Kernel | None) -> bool:
        """Whether the covariates are a kernel matrix, which must then be square."""
        rows, columns = self.covariates.shape
        if isinstance(kernel, Precomputed) and rows != columns:
            raise ValueError(
                f"a precomputed kernel matrix must be square, got shape {(rows, columns)}: pass the kernel between all "
                "pairs of training rows"
            )
        return isinstance(kernel, Precomputed)

    def problem(self, *, intercept: bool, seed: int) -> Problem:
        """The rows as the rooms behind want them."""
        made = make_problem(
            self.covariates, self.responses, self.weights, intercept=intercept, seed=seed, counts=self.counts
        )
        return replace(made, shared_scales=self.shared_scales, subjects=self.subjects)

    def of_responses(self, columns: Sequence[int]) -> Intake:
        """The same rows with some of the responses."""
        names = None if self.response_names is None else tuple(self.response_names[j] for j in columns)
        return replace(self, responses=self.responses[:, list(columns)], response_names=names)

    def with_groups(self, groups: object) -> Intake:
        """The same rows with the group that each of the rows given belongs to."""
        if groups is None:
            return self
        labels = np.asarray(groups)
        if labels.ndim != 1 or len(labels) != self.n_given:
            raise ValueError(
                f"groups must hold one label for each of the {self.n_given} rows, got shape {labels.shape}"
            )
        labels = labels if self.kept_rows is None else labels[self.kept_rows]
        missing = [row for row, label in enumerate(labels.tolist()) if label is None or label != label]
        if missing:
            raise ValueError(
                f"groups must name the group of every row, and row {missing[0]} (counted from 0 among the rows that "
                "count) has none: give a row that belongs to no other a label of its own"
            )
        # By first appearance: labels of several types have no order.
        found: dict[object, int] = {}
        numbers = np.array([found.setdefault(label, len(found)) for label in labels.tolist()])
        if numbers.max(initial=0) < 1:
            raise ValueError(
                "groups must name at least 2 groups, got 1: leave them out, or say which rows belong together"
            )
        return replace(self, subjects=numbers)

    def observations(self, *, square: bool = False) -> Intake:
        """One row for every different observation; `square`: covariates are a matrix between all pairs of rows."""
        found = find_observations(self.covariates, self.responses, self.weights, square=square)
        if found.is_table:
            return replace(self, weights=found.weights, counts=found.counts, weight_unit=found.unit)
        kept = found.first
        return replace(
            self,
            covariates=self.covariates[np.ix_(kept, kept)] if square else self.covariates[kept],
            responses=self.responses[kept],
            weights=found.weights,
            counts=found.counts,
            kept_rows=kept,
            row_of=found.row_of,
            weight_unit=found.unit,
        )

    def without_idle_rows(self) -> Intake:
        """The same without rows of weight zero."""
        if self.weights is None or np.all(self.weights > 0):
            return self
        keep = np.flatnonzero(self.weights)
        return replace(
            self,
            covariates=self.covariates[keep],
            responses=self.responses[keep],
            weights=self.weights[keep],
            kept_rows=keep,
        )


@lru_cache
def _blank(name: str) -> type[BaseEstimator]:
    """A class of estimators without parameters; making one takes longer than checking a thousand rows."""
    return type(name, (MultiOutputMixin, RegressorMixin, BaseEstimator), {})


def _checker(estimator: object, before: Columns | None) -> BaseEstimator:
    """An empty estimator of the same name: scikit-learn's checks write what they learn on it, not on the caller's."""
    blank = _blank(type(estimator).__name__)()
    if before is not None:
        blank.n_features_in_ = before.n_in
        if before.names_in is not None:
            blank.feature_names_in_ = before.names_in
    return blank


def _is_table(X: object) -> bool:
    return isinstance(X, EncodedFrame) or is_frame(X)


def from_frame(blank: BaseEstimator, frame: object, y: object, like: Columns | None) -> EncodedFrame:
    """The features of a frame: encoded as in an earlier fit, or by what a `TableEncoder` learns from it."""
    if isinstance(frame, EncodedFrame):
        return frame
    named = isinstance(frame, Table) or any(isinstance(name, str) for name in getattr(frame, "columns", ()))
    if named and not isinstance(frame, Table):
        validate_data(blank, frame, reset=like is None, skip_check_array=True)
    table = as_table(frame)
    if like is not None and like.recipe is not None:
        return EncodedFrame(like.recipe.encode(table).matrix, tuple(like.columns_in or ()), like.recipe)
    responses = np.asarray(y)
    encoder = TableEncoder().fit(table, responses if np.shape(responses)[:1] == (len(table),) else None)
    recipe = cast(Recipe, encoder.recipe_)
    return EncodedFrame(recipe.encode(table).matrix, tuple(table.names), recipe)


def take_rows(
    estimator: object,
    X: object,
    y: object,
    sample_weight: object = None,
    *,
    like: Columns | None = None,
    least: int = 2,
    double: bool = True,
    copy: bool = True,
) -> Intake:
    """Rows for a fit, checked; with the columns of `like`, an earlier fit, where that is given.

    `least`: how few rows will do. `double`: covariates in float64 even where they came in float32.
    `copy`: covariates are the fit's own, whatever the caller does with X later.
    """
    framed = _is_table(X) and (like is None or like.recipe is not None)
    check_kind(X, "X", encoded=framed)
    check_kind(y, "y")
    blank, given = _checker(estimator, like), X
    made = from_frame(blank, X, y, like) if framed else None
    if made is not None:
        X, blank = made.matrix, _checker(estimator, None)
    with numbers_only(X=X, y=y):
        covariates, responses = validate_data(
            blank,
            X,
            y,
            dtype=[np.float64, np.float32],
            y_numeric=True,
            multi_output=True,
            ensure_min_samples=least,
            accept_sparse=False,
            reset=like is None or made is not None,
        )
    if np.iscomplexobj(responses):
        raise ValueError("Complex data not supported: y must be real")
    responses = take_responses(responses)
    covariates = covariates.astype(np.float64, copy=False) if double else covariates
    if copy and (covariates is X or covariates.base is not None):
        covariates = covariates.copy(order="C")
    _check_size(covariates, _LARGEST_COVARIATE, "X")
    single = responses.ndim == 1
    return Intake(
        covariates,
        responses[:, None] if single else responses,
        check_weights(sample_weight, len(covariates), least_rows=least),
        single,
        n_given=len(covariates),
        shared_scales=shared_by(given) if made is None else made.recipe.shared_scales,
        n_features=int(blank.n_features_in_),
        feature_names=getattr(blank, "feature_names_in_", None) if made is None else made.feature_names,
        columns_in=None if made is None else made.columns,
        recipe=None if made is None else made.recipe,
        response_names=names_of(y),
    )


def names_of(y: object) -> tuple[str, ...] | None:
    """What the columns of y are called: a frame's columns or a series' name; None where there are none."""
    columns = getattr(y, "columns", None)
    names = [getattr(y, "name", None)] if columns is None else list(columns)
    return tuple(map(str, names)) if names and all(isinstance(name, str) and name for name in names) else None


def take_responses(y: Any) -> Array:
    """Responses (n,) or (n, q) in float64, finite and not too large."""
    check_kind(y, "y")
    with numbers_only(y=y):
        values = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    _check_size(values, _LARGEST_RESPONSE, "y")
    return cast(Array, values)


def take_covariates(estimator: object, fitted: Columns, X: object) -> Array:
    """Covariates for a prediction, with the columns of the fit."""
    framed = fitted.recipe is not None and _is_table(X)
    check_kind(X, "X", encoded=framed)
    blank = _checker(estimator, fitted)
    if fitted.recipe is not None:
        if framed:
            return from_frame(blank, X, None, fitted).matrix
        if not fitted.recipe.plain:
            raise TypeError(
                f"this model was fitted to a frame with columns that are not all numbers: predict from a frame with "
                f"{quoted(fitted.columns_in or ())}, not from {type(X).__name__}"
            )
    with numbers_only(X=X):
        return cast(Array, validate_data(blank, X, dtype=[np.float64, np.float32], reset=False, accept_sparse=False))


def _check_size(values: Array, limit: float, name: str) -> None:
    largest = float(np.abs(values).max(initial=0.0))
    if largest > limit:
        raise ValueError(f"{name} must lie between -{limit:g} and {limit:g}, got {largest:g} in magnitude: rescale it")


def check_weights(weights: Any, n_rows: int, *, least_rows: int = 2) -> Array | None:
    """Sample weights: non-negative, finite, some positive; None where all are one."""
    if weights is None:
        return None
    check_kind(weights, "sample_weight")
    values = real_array(weights, "sample_weight")
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise ValueError(f"sample_weight must have one entry per row, {n_rows}; got shape {values.shape}")
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        raise ValueError(
            f"sample_weight must be finite and at least 0, got {float(values[wrong][0])!r}: weights are relative "
            "precisions; leave out rows that should not count"
        )
    counted = values[values > 0]
    if counted.size < least_rows:
        rows = "1 row that does" if least_rows == 1 else f"{least_rows} rows that do"
        raise ValueError(f"sample_weight must leave at least {rows} not have zero weight, got {counted.size}")
    low, high = _WEIGHTS
    for extreme in (float(counted.min()), float(counted.max())):
        if not low <= extreme <= high:
            raise ValueError(
                f"sample_weight must be 0 or lie between {low:g} and {high:g}, got {extreme:g}: rescale it"
            )
    return None if np.all(values == 1) else values
