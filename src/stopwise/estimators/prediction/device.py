"""Predictions where a model's rows, or the new rows, are: on a GPU, or as tensors on the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from stopwise._support.arrays import Array
from stopwise._support.torch import is_tensor, on_host, pick_device, torch
from stopwise.engine.gpu.device_operator import Precision, as_tensor, predict_on_device
from stopwise.engine.solvers import gpu_solver
from stopwise.engine.solvers.gpu_solver import mode_of
from stopwise.estimators.fitted import Fitted, LearnedFunction
from stopwise.estimators.prediction.host import predict_features, predict_rows
from stopwise.estimators.tensors import checked_rows
from stopwise.kernels.forms import has_form


class OnDevice:
    """A fitted model's arrays on one device."""

    def __init__(self, fitted: Fitted, device: Any, precision: str) -> None:
        double = torch().float64
        self.fitted, self.device, self.kernel = fitted, device, fitted.kernel
        self.rows = as_tensor(fitted.covariates, device, double)
        self.dual = as_tensor(fitted.dual_coef, device, double)
        self.intercept = as_tensor(fitted.intercept, device)
        default = mode_of(precision) if device.type == "cuda" else "float64"
        self.precision = cast(Precision, fitted.precision or default)

    def values(self, new: Any) -> Any:
        """Predictions at new rows (a tensor here), in float64."""
        out = predict_on_device(self.kernel, new, self.rows, self.dual, precision=self.precision, device=self.device)
        return out.double() + self.intercept


def placed(before: OnDevice | None, fitted: Fitted, X: Any, precision: str) -> OnDevice:
    """The model's arrays where its predictions are made: its own device, or that of the new rows."""
    device = torch().device(fitted.device) if fitted.device is not None else X.device
    if before is None or before.device != device or before.fitted is not fitted:
        return OnDevice(fitted, device, precision)
    return before


def predict_on(on_device: OnDevice, X: Any, n_jobs: int | None) -> Any:
    """Predictions (m, q): tensors for a tensor, on its device; arrays for an array."""
    fitted = on_device.fitted
    if _stays_on_host(fitted):
        return like(X, predict_rows(fitted, on_host(X), n_jobs))
    rows = as_tensor(X, on_device.device, torch().float64)
    rows = rows if fitted.features is None else rows[:, as_tensor(fitted.features, on_device.device)]
    fitted.kernel.check(rows)
    return like(X, on_device.values(rows))


def predict_where_rows_are(fitted: Fitted, X: Array) -> Array:
    """Predictions (m, q) at rows as the kernel takes them, by the arithmetic and on the device that `predict` uses."""
    if fitted.device is None or _stays_on_host(fitted):
        return predict_features(fitted, X, None)
    there = OnDevice(fitted, torch().device(fitted.device), "auto")
    return cast(Array, on_host(there.values(as_tensor(X, there.device, torch().float64))))


def _stays_on_host(fitted: Fitted) -> bool:
    held = fitted.spread is not None or fitted.path.spectrum.basis is None or fitted.trend is not None
    return held or not has_form(fitted.kernel)


def take_new_tensor(fitted: LearnedFunction, X: Any) -> Any:
    """New rows as a tensor, with the columns of the fit."""
    X = checked_rows(X)
    if X.shape[1] != fitted.n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the model was fitted with {fitted.n_features}")
    return X


def moved(fitted: Fitted, device: object) -> Fitted:
    """A fitted model on a device, where its predictions are then made; "cpu" makes it plain numpy."""
    if str(device) == "cpu":
        return fitted.at_home()
    wanted = gpu_solver.DEVICE
    place = pick_device(wanted or (None if str(device) == "cuda" else device))
    rows: Any = fitted.covariates
    return replace(fitted, covariates=rows.to(place) if is_tensor(rows) else rows, device=str(place))


def like(given: Any, out: Any) -> Any:
    """Results as tensors like the given one, or as numpy arrays for an array."""
    if not is_tensor(given):
        return on_host(out)
    dtype = given.dtype if given.is_floating_point() else torch().float64
    return as_tensor(out, given.device, dtype)
