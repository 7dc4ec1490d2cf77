"""Torch tensors in and out of the estimators, and fitted models that move between devices.

Rows that are on a GPU stay there from `fit` to `predict`; what comes to the host are the responses, the weights of the
fit, and a sample of rows for kernel="auto" to choose by.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import is_tensor, on_host, pick_device, torch
from stopwise.engine.gpu.device_operator import as_tensor
from stopwise.engine.gpu.device_store import DeviceBasis
from stopwise.engine.solvers import gpu_solver as cuda
from stopwise.problem import Problem, make_problem
from stopwise.selection.choice import Chosen, choose_kernel
from stopwise.spectrum import Basis

SAMPLE = 20_000
"""Rows brought to the host for kernel="auto" to choose by."""


def stays_on_device(X: Any, solver: str) -> bool:
    """Whether the rows are kept as a tensor: always under "cuda", and under "auto" where they are on a GPU."""
    return is_tensor(X) and (solver == "cuda" or (solver == "auto" and X.device.type == "cuda"))


def _checked(values: Any, name: str) -> Any:
    """A real tensor with finite entries, or an error in the words numpy users know."""
    if values.is_complex():
        raise ValueError("Complex data not supported: X and y must be real")
    values = values.detach()
    if not values.is_floating_point():
        values = values.double()
    if values.dtype in (torch().float16, torch().bfloat16):
        values = values.float()
    if not bool(torch().isfinite(values).all()):
        raise ValueError(f"Input {name} contains NaN or infinity: leave those rows out or fill them in")
    return values


def checked_rows(X: Any) -> Any:
    """A matrix as a tensor, checked where it lies."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D tensor of shape {tuple(X.shape)}: one row per sample")
    return _checked(X, "X")


def tensor_problem(estimator: Any, X: Any, y: Any, weights: Array | None) -> tuple[Problem, bool]:
    """The problem of tensors; rows stay where they are (float64), the responses' centring needs them on the host."""
    X = checked_rows(X)
    if len(X) < 2:
        raise ValueError(f"Found array with {len(X)} sample(s) while a minimum of 2 is required")
    responses = on_host(_checked(y, "y").double()) if is_tensor(y) else np.asarray(y, dtype=np.float64)
    if responses.ndim not in (1, 2) or len(responses) != len(X):
        raise ValueError(f"y must have one entry (or row) for each of the {len(X)} rows, got shape {responses.shape}")
    if not np.isfinite(responses).all():
        raise ValueError("Input y contains NaN or infinity: leave those rows out or fill them in")
    rows = X.to(cuda.device_for(X), torch().float64)
    keep = None if weights is None or np.all(weights > 0) else np.flatnonzero(weights)
    if weights is not None and keep is not None:
        rows, responses, weights = rows[as_tensor(keep, rows.device)], responses[keep], weights[keep]
        weights = None if np.all(weights == 1) else weights
    estimator._kept_rows = keep
    estimator.n_features_in_ = int(X.shape[1])
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    single = responses.ndim == 1
    flat = responses[:, None] if single else responses
    seed = estimator._random_seed()
    return make_problem(rows, flat, weights, intercept=estimator.fit_intercept, seed=seed), single


def choose_kernel_for(estimator: Any, problem: Problem, *, host: bool) -> Chosen:
    """`choose_kernel`, on a sample of the rows where these are on a device; `host` brings all rows home after."""
    if not is_tensor(problem.covariates):
        return choose_kernel(estimator, problem)
    rows, n = problem.covariates, problem.n_rows
    picked = np.random.default_rng(problem.seed).permutation(n)[:SAMPLE] if n > SAMPLE else np.arange(n)
    part = replace(
        problem,
        covariates=on_host(rows[as_tensor(picked, rows.device)]),
        responses=problem.responses[picked],
        weights=None if problem.weights is None else problem.weights[picked],
    )
    chosen = choose_kernel(estimator, part)
    if chosen.features is not None:
        rows = rows[:, as_tensor(chosen.features, rows.device)]
    return replace(chosen, problem=replace(problem, covariates=on_host(rows) if host else rows))


def tensor_range(rows: Any) -> Array:
    """Smallest and largest value of each feature, (2, d), found where the rows are."""
    return cast(Array, on_host(torch().stack([rows.amin(0), rows.amax(0)])))


# ---- moving ---------------------------------------------------------------------------------------------------------


def move(model: Any, device: Any) -> None:
    """Put a fitted model on a device, where its predictions are then made; "cpu" makes it plain numpy."""
    model.__dict__.pop("_there", None)
    if str(device) == "cpu":
        model.__dict__.update(at_home(vars(model)))
        return
    place = pick_device(None if str(device) == "cuda" and cuda.DEVICE is None else cuda.DEVICE or device)
    if is_tensor(model.X_fit_):
        model.X_fit_ = model.X_fit_.to(place)
    model._device = str(place)


def at_home(state: dict[str, Any]) -> dict[str, Any]:
    """What a model has learned with everything on the host: to be pickled, saved, or used without a GPU."""
    out = {name: on_host(value) for name, value in state.items() if name != "_there"}
    path = out.get("path_")
    if path is not None and isinstance(path.spectrum.basis, DeviceBasis):
        held = path.spectrum.basis
        spectrum = replace(path.spectrum, basis=Basis(np.asarray(held.rows), held.rotation))
        out["path_"] = replace(path, spectrum=spectrum)
    if out.get("_device") is not None:
        out["_device"] = None
    return out
