"""Predictions where a model's rows, or the new rows, are: on a GPU, or as tensors on the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import is_tensor, on_host, pick_device, torch
from stopwise.engine.gpu.device_operator import Precision, as_tensor, predict_on_device
from stopwise.engine.gpu.device_store import DeviceBasis, device_coordinates
from stopwise.engine.gpu.plain_tiles import TorchTiles
from stopwise.engine.solvers import gpu_solver
from stopwise.engine.solvers.gpu_solver import mode_of
from stopwise.estimators.fitted import Fitted
from stopwise.estimators.prediction.host import predict_rows
from stopwise.estimators.prediction.training_range import warn_beyond
from stopwise.estimators.tensors import checked_rows
from stopwise.kernels.forms import form_of, has_form


class OnDevice:
    """A fitted model's arrays on one device."""

    def __init__(self, fitted: Fitted, device: Any, precision: str) -> None:
        double = torch().float64
        self.fitted, self.device, self.kernel, self.path = fitted, device, fitted.kernel, fitted.path
        self.rows = as_tensor(fitted.covariates, device, double)
        self.dual = as_tensor(fitted.dual_coef, device, double)
        self.intercept = as_tensor(fitted.intercept, device)
        default = mode_of(precision) if device.type == "cuda" else "float64"
        self.precision = cast(Precision, fitted.precision or default)
        self.mean_row = None if fitted.mean_row is None else as_tensor(fitted.mean_row, device)
        self._vectors: Any = None

    def values(self, new: Any) -> Any:
        """Predictions at new rows (a tensor here), in float64."""
        out = predict_on_device(self.kernel, new, self.rows, self.dual, precision=self.precision, device=self.device)
        return out.double() + self.intercept

    def _coordinates(self, block: Any) -> Any:
        """Coordinates (k, t) of columns (n, t) in the eigenvectors."""
        basis = self.path.spectrum.basis
        assert basis is not None
        if isinstance(basis, DeviceBasis) and basis.store.device == self.device:
            rotation = as_tensor(basis.rotation, self.device, torch().float64)
            return rotation.T @ device_coordinates(basis.store, block, basis.width)
        if self._vectors is None:
            rows = as_tensor(np.asarray(basis.rows), self.device, torch().float64)
            self._vectors = rows if basis.rotation is None else rows @ as_tensor(basis.rotation, self.device)
        return self._vectors.T @ block

    def variance(self, new: Any, step_sums: Array) -> Any:
        """As `variance_in_tiles` on the host, in float64: what lies outside the known eigenvectors is a
        difference of large numbers, which float32 tiles would lose."""
        path, n = self.path, self.path.n_samples
        weights = np.atleast_2d(path.filter.weight(path.spectrum.eigenvalues, step_sums))
        squared = as_tensor(weights**2, self.device)
        sums = as_tensor(np.asarray(step_sums, dtype=np.float64), self.device)
        root = 1.0 if path.root_weights is None else as_tensor(path.root_weights, self.device)
        tiles = TorchTiles(form_of(self.kernel), new, self.rows, self.rows.mean(0), same=False, dtype=torch().float64)
        out = []
        for first in range(0, len(new), tiles.tile):
            block = tiles.rows(first, min(first + tiles.tile, len(new)))
            block = (block if self.mean_row is None else block - self.mean_row) * root
            if path.intercept:
                constant = block.new_ones(block.shape[1]) * root / n**0.5
                block = block - (block @ constant)[:, None] * constant
            inside = self._coordinates(block.T) ** 2
            part = (squared @ inside).T
            if not path.spectrum.complete:
                outside = ((block * block).sum(1) - inside.sum(0)).clamp(min=0)
                part = part + outside[:, None] * sums**2
            out.append(part)
        return torch().cat(out) / n**2 + (1 / n if path.intercept else 0.0)


def placed(before: OnDevice | None, fitted: Fitted, X: Any, precision: str) -> OnDevice:
    """The model's arrays where its predictions are made: its own device, or that of the new rows."""
    device = torch().device(fitted.device) if fitted.device is not None else X.device
    if before is None or before.device != device or before.fitted is not fitted:
        return OnDevice(fitted, device, precision)
    return before


def predict_on(there: OnDevice, X: Any, return_std: bool, new_observation: bool, n_jobs: int | None) -> Any:
    """Predictions (and their standard deviations): tensors for a tensor, on its device; arrays for an array."""
    given, fitted = X if is_tensor(X) else None, there.fitted
    if given is not None:
        X = checked_rows(X)
        if X.shape[1] != fitted.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the model was fitted with {fitted.n_features}")
        _warn_outside(fitted, X)
    held = fitted.spread is not None or fitted.path.spectrum.basis is None or fitted.trend is not None
    if held or not has_form(fitted.kernel):
        return _like(given, predict_rows(fitted, on_host(X), return_std, new_observation, n_jobs))
    rows = as_tensor(X, there.device, torch().float64)
    rows = rows if fitted.features is None else rows[:, as_tensor(fitted.features, there.device)]
    fitted.kernel.check(rows)
    values = fitted.shaped(there.values(rows))
    if not (return_std or new_observation):
        return _like(given, values)
    variance = there.variance(rows, fitted.step_sums)
    variance = (variance + float(new_observation)) * as_tensor(fitted.noise_std**2, there.device)
    return _like(given, (values, fitted.shaped(variance.sqrt())))


def moved(fitted: Fitted, device: object) -> Fitted:
    """A fitted model on a device, where its predictions are then made; "cpu" makes it plain numpy."""
    if str(device) == "cpu":
        return fitted.at_home()
    wanted = gpu_solver.DEVICE
    place = pick_device(wanted or (None if str(device) == "cuda" else device))
    rows: Any = fitted.covariates
    return replace(fitted, covariates=rows.to(place) if is_tensor(rows) else rows, device=str(place))


def _warn_outside(fitted: Fitted, X: Any) -> None:
    if fitted.feature_range is None or not len(X):
        return
    low, high = as_tensor(fitted.feature_range, X.device, X.dtype)
    beyond = (low > X) | (high < X)
    warn_beyond(int(beyond.any(1).sum()), len(X), on_host(beyond.any(0)), fitted.feature_names, stacklevel=5)


def _like(given: Any, out: Any) -> Any:
    """Results as tensors like the given one, or as numpy arrays."""
    if isinstance(out, tuple):
        return tuple(_like(given, each) for each in out)
    if given is None:
        return on_host(out)
    dtype = given.dtype if given.is_floating_point() else torch().float64
    return as_tensor(out, given.device, dtype)
