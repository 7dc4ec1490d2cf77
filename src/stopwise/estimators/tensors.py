"""Torch tensors as rows of a fit.

Rows that are on a GPU stay there from `fit` to `predict`; what comes to the host are the responses, the weights of the
fit, and a sample of rows for kernel="auto" to choose by.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from stopwise._support.torch import is_tensor, on_host, torch
from stopwise.engine.gpu.device_operator import as_tensor
from stopwise.engine.solvers import gpu_solver
from stopwise.estimators.intake import Intake, check_weights
from stopwise.kernels import Kernel
from stopwise.problem import Problem
from stopwise.selection.choice import Chosen, choose_kernels

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


def take_tensors(X: Any, y: object, sample_weight: object, *, copy: bool = True) -> Intake:
    """Rows of tensors; covariates stay where they are (float64), the responses' centring needs those on the host."""
    X = checked_rows(X)
    if len(X) < 2:
        raise ValueError(f"Found array with {len(X)} sample(s) while a minimum of 2 is required")
    responses = on_host(_checked(y, "y").double()) if is_tensor(y) else np.asarray(y, dtype=np.float64)
    if responses.ndim not in (1, 2) or len(responses) != len(X):
        raise ValueError(f"y must have one entry (or row) for each of the {len(X)} rows, got shape {responses.shape}")
    if not np.isfinite(responses).all():
        raise ValueError("Input y contains NaN or infinity: leave those rows out or fill them in")
    rows = X.to(gpu_solver.device_for(X), torch().float64)
    rows = rows.clone() if copy and rows.data_ptr() == X.data_ptr() else rows
    weights, (n_given, n_features) = check_weights(sample_weight, len(X)), X.shape
    single = responses.ndim == 1
    columns = responses[:, None] if single else responses
    return Intake(rows, columns, weights, single, n_given=n_given, n_features=n_features)


def choose_kernels_for(
    problem: Problem, given: Kernel | None, relevance: bool | str, *, linear: bool, host: bool, together: bool
) -> list[Chosen]:
    """`choose_kernels`, on a sample of the rows where these are on a device; `host` brings all rows home after."""
    if not is_tensor(problem.covariates):
        return choose_kernels(problem, given, relevance, linear=linear, together=together)
    rows, n = cast(Any, problem.covariates), problem.n_rows
    picked = np.random.default_rng(problem.seed).permutation(n)[:SAMPLE] if n > SAMPLE else np.arange(n)
    part = replace(
        problem,
        covariates=on_host(rows[as_tensor(picked, rows.device)]),
        responses=problem.responses[picked],
        weights=None if problem.weights is None else problem.weights[picked],
        counts=None if problem.counts is None else problem.counts[picked],
        subjects=None if problem.subjects is None else problem.subjects[picked],
    )
    chosen = choose_kernels(part, given, relevance, linear=False, together=together)
    if chosen[0].features is not None:
        rows = rows[:, as_tensor(chosen[0].features, rows.device)]
    whole = replace(problem, covariates=on_host(rows) if host else rows)
    return [replace(each, problem=whole.of_responses(each.responses)) for each in chosen]
