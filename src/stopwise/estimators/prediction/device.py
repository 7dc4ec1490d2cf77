"""Predictions where a model's rows, or the new rows, are: on a GPU, or as tensors on the CPU."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import is_tensor, on_host, torch
from stopwise.engine.gpu.device_operator import Precision, as_tensor, predict_on_device
from stopwise.engine.gpu.device_store import DeviceBasis, device_coordinates
from stopwise.engine.gpu.plain_tiles import TorchTiles
from stopwise.engine.solvers.gpu_solver import mode_of
from stopwise.estimators.prediction.training_range import warn_beyond
from stopwise.estimators.tensors import checked_rows
from stopwise.kernels.forms import form_of, has_form


class There:
    """A fitted model's arrays on one device."""

    def __init__(self, model: Any, device: Any) -> None:
        double = torch().float64
        self.device, self.kernel, self.path = device, model.kernel_, model.path_
        self.rows = as_tensor(model.X_fit_, device, double)
        self.dual = as_tensor(model.dual_coef_, device, double)
        self.intercept = as_tensor(np.asarray(model.intercept_, dtype=np.float64), device)
        notes = model._solution_notes
        default = mode_of(model.precision) if device.type == "cuda" else "float64"
        self.precision: Precision = notes.get("precision", default)
        self.mean_row = None if model._mean_row is None else as_tensor(model._mean_row, device)
        self._vectors: Any = None

    def values(self, new: Any) -> Any:
        """Predictions at new rows (a tensor here), in float64."""
        out = predict_on_device(self.kernel, new, self.rows, self.dual, precision=self.precision, device=self.device)
        return out.double() + self.intercept

    def _coordinates(self, block: Any) -> Any:
        """Coordinates (k, t) of columns (n, t) in the eigenvectors."""
        basis = self.path.spectrum.basis
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


def wants_device(model: Any, X: Any) -> bool:
    """Whether predictions are made with torch: for tensors, and for models that are on a device."""
    return is_tensor(X) or getattr(model, "_device", None) is not None


def predict_there(model: Any, X: Any, return_std: bool, new_observation: bool) -> Any:
    """Predictions (and their standard deviations): tensors for a tensor, on its device; arrays for an array."""
    given = X if is_tensor(X) else None
    if given is not None:
        X = checked_rows(X)
        if X.shape[1] != model.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but the model was fitted with {model.n_features_in_}")
        _warn_outside(model, X)
    if not has_form(model.kernel_) or model._spread is not None or model.path_.spectrum.basis is None:
        out = model._predict_rows(on_host(X), return_std, new_observation)
        return _like(given, out)
    there = _there(model, X)
    rows = as_tensor(X, there.device, torch().float64)
    rows = rows if model._features is None else rows[:, as_tensor(model._features, there.device)]
    model.kernel_.check(rows)
    values = there.values(rows)
    if not (return_std or new_observation):
        return _like(given, values)
    noise = np.atleast_1d(model.noise_std_) ** 2
    variance = there.variance(rows, np.atleast_1d(np.asarray(model.path_.chosen)))
    variance = (variance + float(new_observation)) * as_tensor(noise, there.device)
    std = variance.sqrt()
    return _like(given, (values, std[:, 0] if values.ndim == 1 else std))


def _there(model: Any, X: Any) -> There:
    device = torch().device(model._device) if getattr(model, "_device", None) is not None else X.device
    there = model.__dict__.get("_there")
    if there is None or there.device != device or there.path is not model.path_:
        there = There(model, device)
        model.__dict__["_there"] = there
    return cast(There, there)


def _warn_outside(model: Any, X: Any) -> None:
    if model.feature_range_ is None or not len(X):
        return
    low, high = as_tensor(model.feature_range_, X.device, X.dtype)
    beyond = (low > X) | (high < X)
    names = getattr(model, "feature_names_in_", None)
    warn_beyond(int(beyond.any(1).sum()), len(X), on_host(beyond.any(0)), names, stacklevel=5)


def _like(given: Any, out: Any) -> Any:
    """Results as tensors like the given one, or as numpy arrays."""
    if isinstance(out, tuple):
        return tuple(_like(given, each) for each in out)
    if given is None:
        return on_host(out)
    dtype = given.dtype if given.is_floating_point() else torch().float64
    return as_tensor(out, given.device, dtype)
