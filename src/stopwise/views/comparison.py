"""Every rule on one path, and cross-validated ridge beside them: where each stops, how well, at what cost."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_consistent_length

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.row_numbers import rows_taken
from stopwise.estimators import KernelGradientRegressor, KernelRidgeRegressor
from stopwise.estimators.classifier import take_labels
from stopwise.estimators.doubts import TrustWarning
from stopwise.estimators.fitted import fitted_of
from stopwise.estimators.intake import take_responses
from stopwise.estimators.prediction.host import predict_in_tiles
from stopwise.filters import Ridge
from stopwise.kernels import Precomputed
from stopwise.path import Path
from stopwise.rules import Critical, Fixed, HoldOut, Reason, Stop, as_rule, clock_grid, stop_at
from stopwise.rules.base import Data
from stopwise.views.compared import Comparison, as_numbers
from stopwise.views.facts import Model, rmse_leave_one_out

RULES: dict[str, Any] = {
    "prudent": "prudent",
    "critical": "critical",
    "critical, self": Critical(hilbert_radius="self"),
    **{name: name for name in ("minimax", "sure", "gcv", "loo", "discrepancy", "holdout")},
}
RIDGE = "ridge, 5-fold"
_FOLDS = 5
"""Folds of the cross-validated ridge that rules are compared with: the usual number."""


@dataclass(frozen=True)
class Row:
    """One rule's answer; `seconds` and `fits` are what the choice cost beyond the shared path."""

    rule: str
    filter: str
    iteration: int | None
    step_sum: float
    reason: str
    degrees_of_freedom: float
    rmse_loo: float | None
    rmse_holdout: float | None
    seconds: float
    fits: int


def predict_at(model: Model, X: Array, step_sums: ArrayLike, path: Path | None = None) -> Array:
    """Predictions of a fitted single-response model had it stopped elsewhere: (m,) or (m, g) for g clock readings.

    `path` may be another filter on the same spectrum, `model.path_.along(...)`.
    """
    path = model.path_ if path is None else path
    dual = path.dual_coef(step_sums).T
    if len(dual) != len(model.X_fit_):
        raise ValueError(
            f'predictions at other stops need weights on every row; fit with solver="dense", not {model.solver_}'
        )
    fitted = fitted_of(model)
    new = fitted.to_features(X)
    values = predict_in_tiles(fitted.kernel, new, fitted.covariates, dual, n_jobs=model.n_jobs)
    beside = path.offset - (0.0 if fitted.mean_row is None else fitted.mean_row @ dual)
    if fitted.trend is not None and path.level is not None and fitted.mean_row is not None:
        level = (path.scale * path.level - (fitted.mean_row @ dual).T).T
        beside = path.offset + fitted.trend.at(new) @ level
    return cast(Array, values + beside)


def _rmse(predicted: Array, target: Array) -> Array:
    return cast(Array, np.sqrt(np.mean((predicted.T - target) ** 2, axis=-1)))


@dataclass(frozen=True)
class _Held:
    """A fit to some rows, whose path is read by its error on the others."""

    model: Model
    X: Array
    y: Array

    @property
    def path(self) -> Path:
        return cast(Path, self.model.path_)

    def error(self, step_sums: ArrayLike) -> Array:
        return _rmse(predict_at(self.model, self.X, step_sums), self.y) ** 2


def _held(estimator: Model, model: Model, X: Array, y: Array, train: Array, test: Array) -> _Held:
    """Fit training rows with the kernel and the solver of a model; a path that solves made is one around its stop."""
    near = Fixed(step_sum=model.stop_.step_sum or 1.0)
    estimator.set_params(kernel=model.kernel_, rule=near, fit_intercept=model.fit_intercept, solver=model.solver)
    return _Held(estimator.fit(X[train], y[train]), X[test], y[test])


def _held_out_stop(model: Model, X: Array, y: Array, seed: int) -> Stop:
    """Hold-out needs rows, not a path: a fit to its training part. Copies of a row are on one side."""
    became = fitted_of(model).row_of
    became = np.arange(len(y)) if became is None else became

    def split(train: Array, test: Array) -> _Held:
        part = KernelGradientRegressor(filter=model.filter, schedule=model.schedule, random_state=seed)
        return _held(part, model, X, y, np.isin(became, train), np.isin(became, test))

    return HoldOut().select(model.path_, data=Data(int(became.max()) + 1, seed=seed, split=split))


def cross_validated_ridge(model: Model, X: Array, y: Array, seed: int) -> float:
    """The inverse penalty with the smallest error over 5 folds, on the kernel that a model uses."""
    grid = clock_grid(model.path_.along(Ridge()), ratio=1.25)
    errors = np.zeros_like(grid)
    for train, test in KFold(_FOLDS, shuffle=True, random_state=seed).split(X):
        errors += len(test) * _held(KernelRidgeRegressor(), model, X, y, train, test).error(grid)
    return float(grid[int(np.argmin(errors))])


def compare(X: Any, y: ArrayLike, *, holdout: float = 0.0, seed: int = 0, **settings: Any) -> Comparison:
    """Fit once, then let every rule choose its stop on that path.

    Labels that are text have no such path: every rule is fitted, and logistic regression beside them.

    Parameters
    ----------
    X, y : arrays or frames
        Rows and one response.
    holdout : float
        The share of rows kept aside to measure every rule's error on; 0 for none.
    seed : int
        For the split, the folds and the hold-out rule.
    settings
        Parameters of `KernelGradientRegressor` (of labels: `KernelGradientClassifier`), such as `kernel`.
    """
    started = time.perf_counter()
    if not 0 <= holdout < 1:
        raise ValueError(f"holdout must be at least 0 and below 1, got {holdout!r}")
    given = _one_response(y)
    check_consistent_length(X, given)
    if given.dtype.kind in "US" or any(isinstance(value, str) for value in given if given.dtype.kind == "O"):
        # Imported here: it brings scikit-learn's linear models, which nothing else needs.
        from stopwise.views.class_comparison import compare_classes

        return compare_classes(X, take_labels(given), holdout=holdout, seed=seed, **settings)
    y = take_responses(given)
    order = np.random.default_rng(seed).permutation(len(y)) if holdout else np.arange(len(y))
    held, kept = np.split(order, [round(len(y) * holdout)])
    if len(kept) < 2 * _FOLDS:
        raise ValueError(f"a comparison needs at least {2 * _FOLDS} rows to fit to, got {len(kept)}")
    held, kept = np.sort(held), np.sort(kept)
    kernel = settings.get("kernel")
    if isinstance(kernel, Precomputed) or (isinstance(kernel, str) and kernel == "precomputed"):
        raise ValueError("a comparison splits rows, and a precomputed matrix is of all of them: give the kernel itself")
    X = as_numbers(X, y, kept)
    with rows_taken(kept):
        model = KernelGradientRegressor(random_state=seed, **settings).fit(X[kept], y[kept])
    _check_path(model)
    with warnings.catch_warnings():  # folds are fitted to some rows and thrown away: no doubt of theirs is of interest
        warnings.simplefilter("ignore", TrustWarning)
        rows = _rows(model, X[kept], y[kept], X[held], y[held], seed)
    return Comparison(tuple(rows), model, len(kept), len(held), time.perf_counter() - started)


def _check_path(model: Model) -> None:
    """Raise ValueError where a fit has no path that rules and folds can read at every row."""
    if not hasattr(model, "path_"):
        raise ValueError(
            f"a comparison is of rules on one path of squares, got loss={model.get_params()['loss']!r}: fit with one "
            "rule after the other instead"
        )
    if model.solver_ in ("nystrom", "dask"):
        raise ValueError(
            f'a comparison needs weights on every row, and solver="{model.solver_}" has them on landmarks: use "dense" '
            'or "krylov", or fewer rows'
        )


def _one_response(y: ArrayLike) -> Array:
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        return cast(Array, values[:, 0])
    if values.ndim != 1:
        raise ValueError(
            f"a comparison takes one response, y of shape (n,), got shape {values.shape}: compare one column at a time"
        )
    return values


def _rows(model: Model, X: Array, y: Array, held_X: Array, held_y: Array, seed: int) -> list[Row]:
    def judged(rule: str, path: Path, choose: Callable[[], Stop], fits: int = 0) -> Row:
        begun = time.perf_counter()
        stop = choose()
        seconds, at, loo = time.perf_counter() - begun, float(stop.step_sum), rmse_leave_one_out(path, stop.step_sum)
        held = float(_rmse(predict_at(model, held_X, at, path), held_y)) if len(held_y) else None
        freedom, left_out = float(path.degrees_of_freedom(at)), None if loo is None else float(loo)
        return Row(rule, path.filter.name, stop.iteration, at, stop.reason.name, freedom, left_out, held, seconds, fits)

    path, ridge, used = model.path_, model.path_.along(Ridge()), fitted_of(model).to_features(X)
    sigma = model.noise_std_ / path.scale
    rules = {name: as_rule(rule) for name, rule in RULES.items()}
    choices: dict[str, Callable[[], Stop]] = {name: partial(rule.select, path, sigma) for name, rule in rules.items()}
    choices["holdout"] = lambda: _held_out_stop(model, used, y, seed)  # reads rows, not a path
    # The model's own rule also saw which rows repeat, or share their noise.
    own = as_rule(model.rule)
    choices[next((name for name, rule in rules.items() if rule == own), f"{own.name}, given")] = lambda: model.stop_
    rows = [judged(name, path, choose, fits=int(name == "holdout")) for name, choose in choices.items()]

    def best_ridge() -> Stop:
        return stop_at(ridge.filter, cross_validated_ridge(model, used, y, seed), Reason.MINIMUM)

    return [*rows, judged(RIDGE, ridge, best_ridge, fits=_FOLDS)]
