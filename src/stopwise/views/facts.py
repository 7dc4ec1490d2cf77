"""A fitted model in numbers: what the command line prints and the report opens with."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise.estimators import KernelGradientClassifier, KernelGradientRegressor, KernelRidgeRegressor
from stopwise.estimators.fitted import Fitted, fitted_of
from stopwise.estimators.loss_fit import LossFitted
from stopwise.estimators.prediction.response_groups import ResponseGroups, groups_of, parts_of
from stopwise.estimators.prediction.row_leverages import left_out_residuals, left_out_sets, residuals_of_sets
from stopwise.filters import Ridge
from stopwise.kernels import Kernel
from stopwise.kernels.base import parts
from stopwise.kernels.stationary import Stationary
from stopwise.path import Path
from stopwise.rules import Stop
from stopwise.rules.explanation import stops_of

MADE_ANEW = 20_000
"""Rows of the leave-one-out error where every row has to be made again."""
_OF_FITS = ("kernel", "length_scale", "relevance", "rule", "unpenalised", "loo_rows", "solver")
"""Facts of which a fit has one, however many responses it is for."""
Model: TypeAlias = KernelGradientRegressor | KernelRidgeRegressor | KernelGradientClassifier
"""A fitted estimator."""


def length_scale(kernel: Kernel) -> object:
    """The length scale(s) of the one radial kernel inside, a list of them for several, None for none."""
    found = [part.length_scale for part in parts(kernel) if isinstance(part, Stationary)]
    scales = [list(value) if isinstance(value, tuple) and len(value) > 1 else np.ravel(value)[0] for value in found]
    return None if not scales else scales[0] if len(scales) == 1 else scales


def relevance(model: Model) -> list[float] | None:
    """How strongly each feature bends the fit: its spread over its length scale, the largest as 1.

    None where the kernel has one length scale for all; 0 for a feature that selection left out. Of an average of
    kernels that selection made, the leading one's.
    """
    scales = [part.scales for part in parts(model.kernel_) if isinstance(part, Stationary) and part.scales.size > 1]
    if not scales or (len(scales) > 1 and getattr(model, "selection_", None) is None):
        return None
    rates = model.X_fit_.astype(np.float64).std(axis=0) / scales[0]
    largest = float(rates.max())
    out = np.zeros(fitted_of(model).n_features)
    chosen = fitted_of(model).features
    out[slice(None) if chosen is None else chosen] = rates / largest if largest > 0 else rates
    return [float(value) for value in out]


def plain(value: object) -> Any:
    """Numbers as JSON knows them: numpy's as Python's, lists of one per response, what is not finite as None."""
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(value: float | str | Sequence[float] | None, digits: int = 4, missing: str = "unknown") -> str:
    """A number, or the first six of several, for people."""
    if value is None or isinstance(value, str):
        return missing if value is None else value
    if isinstance(value, Sequence):
        some = ", ".join(number(part, digits, missing) for part in value[:6])
        return some if len(value) <= 6 else f"{some}, ... ({len(value)} in all)"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}g}" if math.isfinite(value) else missing


def rows_left_out(path: Path) -> Array | None:
    """The rows of the leave-one-out error: those that the solver left out, a draw where rows are made anew, or all.

    Features of landmarks are made anew for every look: a pass over a million rows takes minutes, and 20,000 of them
    tell a root mean square to 0.5 percent. None for all.
    """
    if path.left_out is not None:
        return path.left_out_rows
    basis = path.spectrum.basis
    if basis is None or isinstance(basis.rows, np.ndarray) or len(basis.rows) <= MADE_ANEW:
        return None
    return np.sort(np.random.default_rng(0).permutation(len(basis.rows))[:MADE_ANEW])


def rmse_leave_one_out(path: Path, step_sum: ArrayLike | None = None) -> Array | None:
    """Root mean squared leave-one-out residual of `rows_left_out`, by weight; None where leverages are unknown.

    Not by the filter's own leverages, which say little near interpolation, but by the sum of ridges that follows it.
    """
    rows = rows_left_out(path)
    if path.left_out is not None:
        at_stop = step_sum is None or tuple(np.ravel(step_sum)) == path.chosen
        squares = (path.left_out**2).sum(axis=0) / path.row_weights[rows].sum()
        return cast(Array, path.scale * np.sqrt(squares)) if at_stop else None
    path = path if rows is None else path.at_rows(rows)
    sums, ridge = np.broadcast_to(path.step_sums(step_sum), path.n_responses), path.along(Ridge())
    try:
        residuals = np.column_stack([ridge.column(j).leave_one_out(at) for j, at in enumerate(sums)])
    except ValueError:
        return None
    if not (path.spectrum.complete or np.isfinite(residuals).all()):
        return None
    if not isinstance(path.filter, Ridge) and np.isfinite(residuals).all():
        residuals = left_out_residuals(path, sums, np.arange(len(residuals)), None)
    return _root_mean_squares(path, residuals)


def rmse_left_out(model: Model) -> Array | None:
    """The root mean squared error on left-out rows at the stop: each alone, or with its block or group.

    With the others of its block or group where the rule left these out: a row that shares noise with rows that stay is
    predicted better than a new one will be.
    """
    fitted, path = fitted_of(model), model.path_
    sets = left_out_sets(fitted) if fitted.rule.needs_all_pairs else None
    if sets is None:
        return rmse_leave_one_out(path)
    return _root_mean_squares(path, residuals_of_sets(fitted.path, fitted.step_sums, sets))


def _root_mean_squares(path: Path, residuals: Array) -> Array:
    """Of the columns of residuals (n, q), by weight; one number for a path of one response.

    Squared in the path's own scale, a power of two, so that nothing overflows or is rounded.
    """
    errors = path.scale * np.sqrt(np.average((residuals / path.scale) ** 2, axis=0, weights=path.row_weights))
    return cast(Array, errors if path.coefficients.ndim == 2 else errors[0])


def describe(model: Model) -> dict[str, Any]:
    """The facts of a fit by the names of the public interface; several responses give lists, what is not there None."""
    if (groups := groups_of(model)) is not None:
        parts = [describe(part) for part in parts_of(model, groups)]
        return {name: _one_each(groups, name, [part[name] for part in parts]) for name in parts[0]}
    stops, fitted = stops_of(model), cast("Fitted | LossFitted", fitted_of(model))

    def pick(values: list[Any]) -> Any:
        return values[0] if isinstance(model.stop_, Stop) else values

    return {
        "kernel": model.kernel_.name,
        "length_scale": plain(length_scale(model.kernel_)),
        "relevance": plain(relevance(model)),
        **dict.fromkeys(("noise_std", "hilbert_radius")),
        "rule": ", ".join(dict.fromkeys(stop.evidence.rule or fitted.rule.name for stop in stops)),
        "constant": plain(pick([stop.evidence.constant for stop in stops])),
        "iteration": pick([stop.iteration for stop in stops]),
        "step_sum": plain(model.step_sum_),
        "reason": pick([stop.reason.name for stop in stops]),
        **dict.fromkeys(("degrees_of_freedom", "unpenalised", "rmse_fit", "rmse_loo", "loo_rows")),
        "solver": model.solver_,
        **(_of_loss(fitted) if isinstance(fitted, LossFitted) else _of_path(model)),
    }


def _of_path(model: Model) -> dict[str, Any]:
    path = model.path_
    rows = rows_left_out(path)
    return {
        "noise_std": plain(model.noise_std_),
        "hilbert_radius": plain(model.hilbert_radius_),
        "degrees_of_freedom": plain(path.degrees_of_freedom()),
        "unpenalised": path.n_fixed,
        "rmse_fit": plain(path.residual_norm()),
        "rmse_loo": plain(rmse_left_out(model)),
        "loo_rows": len(rows) if rows is not None and len(rows) < path.row_weights.size else None,
    }


def _of_loss(fitted: LossFitted) -> dict[str, Any]:
    told, classes = fitted.calibration, fitted.classes
    return {
        "degrees_of_freedom": plain(fitted.degrees_of_freedom),
        "loss": fitted.loss.name,
        "left_out_loss": plain(fitted.stops[0].evidence.criterion),
        "classes": None if classes is None else [str(label) for label in classes],
        "calibration_slope": None if told is None else plain(told.slope),
        "temperature": None if told is None else plain(told.temperature),
    }


def _one_each(groups: ResponseGroups, name: str, values: list[Any]) -> Any:
    """A fact of every response: the groups' own lists of these, or one word of each group; one word for all alike."""
    if name not in _OF_FITS:
        return groups.in_order(values)
    if all(value == values[0] for value in values):
        return values[0]
    return groups.for_columns(values)
