"""The training rows that pictures and left-out scores are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import on_host
from stopwise.estimators.fitted import Fitted, fitted_of
from stopwise.estimators.intake import take_covariates
from stopwise.estimators.prediction.interval_calibration import training_rows
from stopwise.kernels import Precomputed
from stopwise.views.curves import chosen, observed
from stopwise.views.facts import Model


@dataclass(frozen=True)
class ShownRows:
    """Features (n, d) as the estimator takes them, responses (n, q) or class codes (n, 1), and weights (n,)."""

    features: Array
    responses: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.responses)

    def take(self, rows: Array) -> ShownRows:
        return ShownRows(self.features[rows], self.responses[rows], self.weights[rows])


def rows_of(model: Model, X: object = None, y: object = None) -> ShownRows | None:
    """The rows that a model kept, else those given; None where there are neither, or only a precomputed kernel."""
    fitted = fitted_of(model)
    if isinstance(fitted.kernel, Precomputed):
        return None
    held = training_rows(fitted)
    if held is not None:
        responses = np.column_stack([observed(chosen(model, j)) for j in range(len(fitted.stops))])
        return ShownRows(_widened(fitted, on_host(held)), responses, fitted.path.row_weights)
    return None if X is None or y is None else _given(model, fitted, X, y)


def _given(model: Model, fitted: Any, X: object, y: object) -> ShownRows:
    features = np.asarray(take_covariates(model, fitted, on_host(X)), dtype=np.float64)
    classes = getattr(fitted, "classes", None)
    values = np.asarray(on_host(y))
    if classes is not None:
        codes = {str(label): code for code, label in enumerate(classes)}
        known = np.array([str(label) in codes for label in values])
        features, values = features[known], np.array([codes[str(label)] for label in values[known]])
    responses = values.astype(np.float64).reshape(len(values), -1)
    if len(responses) != len(features):
        raise ValueError(f"X has {len(features):,} rows and y {len(responses):,}: give the same rows to both")
    return ShownRows(features, responses, np.ones(len(responses)))


def _widened(fitted: Fitted, rows: Array) -> Array:
    """All columns: those that the kernel does not see are put in the middle of their range, which changes nothing."""
    rows = rows.astype(np.float64, copy=False)
    if fitted.features is None or fitted.feature_range is None:
        return rows
    whole = np.repeat(fitted.feature_range.mean(axis=0)[None], len(rows), axis=0)
    whole[:, fitted.features] = rows
    return cast(Array, whole)
