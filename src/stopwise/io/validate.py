"""Do the parts of a loaded model fit together? Types from their annotations, then finite numbers, then shapes."""

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Hashable
from functools import cache
from typing import Any, Literal, Union, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise.engine.landmarks.features import FeatureRows
from stopwise.engine.solvers.line_solver import LineSolver
from stopwise.estimators.calibration import Calibration
from stopwise.estimators.fitted import Fitted
from stopwise.estimators.loss_fit import LossFitted
from stopwise.estimators.prediction.host import predict_rows
from stopwise.estimators.prediction.response_groups import ResponseGroups
from stopwise.filters import SteppedFilter
from stopwise.path import Path
from stopwise.rules import Certainty, Evidence
from stopwise.selection.result import Selection
from stopwise.spectrum import Basis

_OPEN = {(Basis, "rows"): (np.ndarray, FeatureRows)}
"""Fields that hold more than their annotation says: rows that are made again at each use."""
_FREE = (Evidence, Certainty, Selection, Calibration)
"""Tables for people, in which a number may be missing or infinite."""
_LARGEST = 1e150
"""Noise levels, responses and factors of kernels above this overflow when squared."""
_MOST_STEPS = 1e16
"""A count of steps or samples beyond which a float no longer tells one from the next."""


def must(holds: bool, what: str) -> None:
    """Raise ValueError unless this holds."""
    if not holds:
        raise ValueError(what)


@cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cast(type[Any], cls))


def check_fields(cls: type[Any], fields: dict[str, Any]) -> None:
    """Raise ValueError, naming the field, unless every value is of the type that its field declares."""
    for name, value in fields.items():
        allowed = _OPEN.get((cls, name))
        fits = isinstance(value, allowed) if allowed else of_type(value, _hints(cast(Hashable, cls))[name])
        must(fits, f"{cls.__name__}.{name} cannot be a {type(value).__name__}")


def of_type(value: object, hint: Any) -> bool:
    """Whether a decoded value is what an annotation says; whole numbers serve as floats."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object:
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin in (Union, types.UnionType):
        return any(of_type(value, each) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray | np.generic)  # a number is an array of no dimension
    if origin in (tuple, list):
        parts = isinstance(value, origin) and list(value)
        if not isinstance(parts, list):
            return False
        if origin is list or (len(inner) == 2 and inner[1] is Ellipsis):
            return all(of_type(part, inner[0]) for part in parts)
        return len(parts) == len(inner) and all(of_type(part, each) for part, each in zip(parts, inner, strict=True))
    if origin is dict:
        return isinstance(value, dict)
    if hint is float:
        return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def check_finite(value: object, where: str) -> None:
    """Raise ValueError, naming the part, if any number in it is not finite (tables for people aside)."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        must(bool(np.isfinite(value).all()), f"{where} is not finite")
    elif isinstance(value, float) and not where.endswith((".horizon", ".step")):
        must(math.isfinite(value), f"{where} is not finite")
        if where.endswith(".factor"):
            must(0 < value < _LARGEST, f"{where} of a kernel is not positive, or overflows")
    elif isinstance(value, list | tuple):
        for part in value:
            check_finite(part, where)
    elif dataclasses.is_dataclass(value) and not isinstance(value, (type, enum.Enum, *_FREE)):
        for each in dataclasses.fields(value):
            check_finite(getattr(value, each.name), f"{where}.{each.name}")


def check_learned(learned: Fitted | LossFitted | ResponseGroups) -> None:
    """Raise ValueError unless what a model learned fits together and predicts finite numbers: before a file is written
    as when one is read, so that every file can be read."""
    if isinstance(learned, ResponseGroups):
        check_groups(learned)
    elif isinstance(learned, LossFitted):
        check_loss_fitted(learned)
    else:
        check_fitted(learned)


def check_fitted(fitted: Fitted) -> None:
    """Raise ValueError, naming the part, unless types, numbers and shapes agree with one another."""
    _check_function(fitted)
    outputs = fitted.dual_coef.shape[1]
    must(len(fitted.stops) == outputs, "there must be one stop per response")
    must(outputs == 1 or not fitted.single, "several responses cannot be one column")
    must(np.shape(fitted.noise_std) == (outputs,), "there must be one noise level per response")
    levels = (fitted.noise_std >= 0) & (fitted.noise_std < _LARGEST)
    must(bool(np.all(levels)), "a noise level is negative or overflows")
    _check_path(fitted.path, outputs)
    must(
        not fitted.shared_noise or fitted.solver == LineSolver.name,
        "noise that neighbours share is known on the line alone",
    )
    kept = fitted.path.response is not None or fitted.spread is not None
    must(kept, "a fit keeps its responses, or what sums over its rows say of them")
    _check_rows(fitted)
    _check_variances(fitted, outputs)
    reached = tuple(stop.step_sum for stop in fitted.stops)
    must(fitted.path.chosen == reached, "the path and its stops disagree about where it was stopped")
    for stop in fitted.stops:
        counted = stop.iteration is None or 0 <= stop.iteration <= _MOST_STEPS
        must(counted and stop.step_sum >= 0, "a stop cannot lie before the start, or beyond counting")


def check_groups(groups: ResponseGroups) -> None:
    """The same for fits of several responses: every response has one, on the same features."""
    must(len(groups.fits) == len(groups.columns) > 1, "there must be a list of responses for each of several fits")
    named = sorted(column for columns in groups.columns for column in columns)
    must(named == list(range(len(named))), "every response must have one fit")
    for fitted, columns in zip(groups.fits, groups.columns, strict=True):
        check_fitted(fitted)
        must(len(fitted.stops) == len(columns), "there must be one stop per response")
        must(fitted.device is None and not fitted.single, "several responses cannot be one column, or on a device")
        must(fitted.n_features == groups.fits[0].n_features, "fits disagree in their features")


def check_loss_fitted(fitted: LossFitted) -> None:
    """The same for a fit under a loss: classes and widths agree, and one prediction is made."""
    _check_function(fitted)
    width, classes = fitted.loss.width, fitted.classes
    must(fitted.dual_coef.shape[1] == width, "the loss and its weights disagree in width")
    must(fitted.loss.for_classes == (classes is not None), "classes and a loss for them go together")
    must(classes is None or len(classes) == max(width + 1, 2), "there must be one weight per class but one")
    must(len(fitted.stops) == 1 and fitted.stops[0].step_sum >= 0, "there must be one stop, not before the start")
    values = predict_rows(fitted, _first_row(fitted), 1)
    must(bool(np.isfinite(fitted.natural(values)).all()), "its predictions are not finite")


def _check_function(fitted: Fitted | LossFitted) -> None:
    """What every learned state must hold: types, finite numbers, weights and columns that agree."""
    named = {each.name: getattr(fitted, each.name) for each in dataclasses.fields(fitted)}
    check_fields(type(fitted), named)
    for name, value in named.items():
        check_finite(value, name)
    _check_weights(fitted)
    _check_columns(fitted)
    _check_recipe(fitted)


def _first_row(fitted: Fitted | LossFitted) -> Array:
    """The first of the rows that predictions weigh, (1, d), as new rows are given."""
    given = np.zeros((1, fitted.n_features), fitted.covariates.dtype)
    given[:, slice(None) if fitted.features is None else fitted.features] = fitted.covariates[:1]
    return given


def _check_recipe(fitted: Fitted | LossFitted) -> None:
    """Features are made from columns that are there, one name each."""
    recipe, columns = fitted.recipe, fitted.columns_in
    must((recipe is None) == (columns is None), "columns and what becomes of them go together")
    if recipe is not None and columns is not None:
        must(set(recipe.names) <= set(columns), "features are made from a column that is not there")
        must(len(recipe.features) == fitted.n_features, "columns and features disagree in number")


def _matrix(values: object, kinds: str, shape: tuple[int | None, ...]) -> bool:
    """Whether a value is an array of one of these kinds of numbers and this shape (None: any length)."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in kinds or values.ndim != len(shape):
        return False
    return all(wanted is None or wanted == got for wanted, got in zip(shape, values.shape, strict=True))


def _squarable(values: ArrayLike) -> bool:
    """Whether sums of squares of these numbers do not overflow."""
    return float(np.max(np.abs(values), initial=0.0)) < _LARGEST


def _check_weights(fitted: Fitted | LossFitted) -> None:
    rows, dual = fitted.covariates, fitted.dual_coef
    must(_matrix(rows, "f", (None, None)) and rows.size > 0, "covariates are not a matrix")
    must(_matrix(dual, "f", (None, None)) and dual.shape[1] > 0, "dual_coef is not an array of 2 dimensions")
    must(len(dual) == len(rows), f"dual_coef has {len(dual)} rows for {len(rows)} rows of covariates")
    must(_matrix(fitted.intercept, "f", dual.shape[1:]), "intercept and dual_coef disagree in shape")
    mean = getattr(fitted, "mean_row", None)
    must(mean is None or mean.shape[-1] == len(rows), "mean_row must have one entry per row of covariates")


def _check_columns(fitted: Fitted | LossFitted) -> None:
    """The number of columns is bounded by arrays that the file holds, not by what it claims."""
    width, names, ranges = fitted.n_features, fitted.feature_names, fitted.feature_range
    must(_matrix(ranges, "f", (2, width)), f"feature_range must be (2, {width}) for {width} features")
    must(names is None or _matrix(names, "OU", (width,)), "there must be one name per feature")
    features, used = fitted.features, width
    if features is not None:
        ordered = _matrix(features, "iu", (None,)) and bool(np.all(np.diff(features) > 0)) and len(features) > 0
        must(ordered and features[0] >= 0 and features[-1] < width, "features must be column numbers in order")
        used = len(features)
    columns = fitted.covariates.shape[1]
    must(columns == used, f"covariates have {columns} columns for {used} features")
    if ranges is not None:
        low, high = ranges if features is None else ranges[:, features]
        must(bool(np.all(low <= high)), "feature_range must be ordered")
        landmarks = isinstance(fitted, Fitted) and fitted.spread is not None  # may lie beside the rows of a batch
        if not landmarks:
            seen = (fitted.covariates.max(axis=0) >= low) & (fitted.covariates.min(axis=0) <= high)
            must(bool(np.all(seen)), "no row lies in feature_range")
    must(0 <= fitted.n_given <= _MOST_STEPS, "there cannot be so many rows")
    kept = fitted.kept_rows
    must(kept is None or _matrix(kept, "iu", (None,)), "kept_rows must be row numbers")
    fitted.kernel.check(fitted.covariates)
    must(bool(np.isfinite(fitted.kernel(fitted.covariates[:1])).all()), "the kernel does not fit the covariates")


def _check_rows(fitted: Fitted) -> None:
    """The training rows, where they are kept, are those of the landmarks and vary where a kernel was chosen by them."""
    groups = fitted.subjects
    if groups is not None:
        must(_matrix(groups, "iu", (len(fitted.path.row_weights),)), "subjects must be a group's number for each row")
    basis = fitted.path.spectrum.basis
    rows = fitted.covariates if fitted.spread is None else None
    if basis is not None and isinstance(basis.rows, FeatureRows):
        rows, landmarks = basis.rows.covariates, basis.rows.landmarks
        must(landmarks.kernel == fitted.kernel, "landmarks must have the kernel of the fit")
        must(_matrix(rows, "f", (None, landmarks.points.shape[-1])), "landmarks and the rows they stand for disagree")
    if rows is not None and fitted.selection is not None and len(fitted.selection) > 0:
        must(bool((rows != rows[:1]).any()), "a kernel was chosen by rows that do not vary")


def _check_path(path: Path, outputs: int) -> None:
    values = path.spectrum.eigenvalues
    must(_matrix(values, "f", (None,)), "eigenvalues must be a list of numbers")
    shape = path.coefficients.shape
    fits = shape == (len(values), outputs) or (outputs == 1 and shape == values.shape)
    must(fits, "coefficients and eigenvalues disagree")
    must(bool(np.all(values >= 0)) and 0 < path.n_samples <= _MOST_STEPS, "there cannot be so many samples")
    must(math.isfinite(path.spectrum.largest_bound), "the largest eigenvalue is not finite")
    path.filter.bind(path.spectrum.largest_bound)  # refuses steps that are too long for it
    basis = path.spectrum.basis
    if basis is not None:
        width = basis.rows.shape[1] if basis.rotation is None else basis.rotation.shape[1]
        must(basis.rotation is None or len(basis.rotation) == basis.rows.shape[1], "eigenvectors have no such rotation")
        parts = [part for part in (basis.rows, basis.rotation) if isinstance(part, np.ndarray)]
        must(all(map(_squarable, parts)), "eigenvectors overflow")
        must(width == len(values), "eigenvectors and eigenvalues disagree in number")
        shape = (len(basis.rows), *path.coefficients.shape[1:])
        must(path.response is None or path.response.shape == shape, "responses and eigenvectors disagree")
        rows, shape = path.left_out_rows, path.coefficients.shape[1:]
        must((rows is None) == (path.left_out is None), "rows left out have no residuals")
        if rows is not None and path.left_out is not None:
            inside = _matrix(rows, "iu", (None,)) and bool(np.all((rows >= 0) & (rows < len(basis.rows))))
            must(inside and path.left_out.shape == (len(rows), *shape), "rows left out disagree with their residuals")
            must(len(np.unique(rows)) == len(rows), "a row is left out twice")
            with np.errstate(over="ignore"):
                must(_squarable(path.left_out * path.scale), "residuals of rows left out overflow")
        root = path.root_weights
        must(root is None or (root.shape == (len(basis.rows),) and bool(np.all(root > 0))), "weights must be positive")
    for what in (path.coefficients, path.energy, path.response, path.level, path.scale, path.left_out):
        must(what is None or _squarable(what), "responses overflow")
    must(path.chosen is not None and len(path.chosen) == outputs, "there must be one chosen stop per response")
    for what in (path.scale, path.offset, path.energy):
        must(np.shape(what) in ((), (outputs,)), "there must be one scale, offset and energy per response")
    steps = path.filter.iteration(max(path.chosen or (0.0,))) if isinstance(path.filter, SteppedFilter) else 0.0
    must(0 <= float(steps) <= _MOST_STEPS, "the stop is beyond counting")


def _check_variances(fitted: Fitted, outputs: int) -> None:
    """One prediction with its deviation is made: what cannot be computed is no model."""
    basis, spread = fitted.path.spectrum.basis, fitted.spread
    if spread is None:
        must(basis is not None and len(basis.rows) == len(fitted.covariates), "eigenvectors and covariates disagree")
    given = _first_row(fitted)
    with np.errstate(all="ignore"):
        values = predict_rows(fitted, given, 1)
        if spread is not None:
            values = np.stack([values, spread.variance(fitted.to_features(given))])
    must(bool(np.isfinite(values).all()) and values.shape[-1] == outputs, "its predictions are not finite")
