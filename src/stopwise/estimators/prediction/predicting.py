"""What a fitted regressor answers: predictions, intervals and scores, on the host or on a device."""

from __future__ import annotations

from functools import partial
from typing import Any, Self, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.checks import flag
from stopwise._support.dask import is_dask
from stopwise._support.threads import blas_threads, limit_of
from stopwise._support.torch import is_tensor, on_host, torch
from stopwise.engine.solvers.plan import Precision
from stopwise.estimators.dask_collections import predict_lazily
from stopwise.estimators.fitted import Fitted, Learner, fitted_of, tell_of_extrapolation
from stopwise.estimators.intake import check_weights, take_covariates, take_responses
from stopwise.estimators.loss_fit import LossFitted
from stopwise.estimators.prediction.device import like, moved, placed, predict_on, take_new_tensor
from stopwise.estimators.prediction.host import predict_rows
from stopwise.estimators.prediction.interval_calibration import has_intervals, training_rows, uncertainty_of
from stopwise.estimators.prediction.intervals import (
    Uncertainty,
    check_level,
    check_of,
    predict_with_variance,
    standard_deviations,
)
from stopwise.estimators.prediction.response_groups import ResponseGroups, groups_of, parts_of

_NOT_KEPT = ("_on_device", "_lock", "_told", "_calibrated", "_of_groups")
"""What a copy or a pickle of an estimator makes anew."""
_FOR_SQUARES = 'for loss="squared": for an interval fit two quantiles, loss="quantile" with quantile=.05 and .95'


class PredictMixin:
    """The methods of a regressor that ask what it has learned."""

    n_jobs: int | None
    precision: Precision
    _fitted: Fitted | LossFitted | ResponseGroups

    def predict(self, X: object, return_std: bool = False, interval: str | None = None) -> Any:
        """Predictions k(X, X_fit_) @ dual_coef_ + intercept_, and + X @ linear_coef_ where a linear part was chosen.

        With `return_std=True` also the standard deviation of the curve: noise and bias of the estimate, as left-out
        rows show them; away from the data it tends to the prior's, and further where the kernel was chosen from the
        data. `interval="new"` adds the noise of a new observation of weight one. Both are half-widths of
        `predict_interval` at level 0.9 over 1.645; that method is the way to ask for intervals.
        """
        fitted = fitted_of(self)
        flag(return_std, "return_std")
        if interval not in (None, "new"):
            raise ValueError(f'interval must be None or "new", got {interval!r}')
        if isinstance(fitted, LossFitted):
            if return_std or interval is not None:
                raise ValueError(f"standard deviations and intervals are {_FOR_SQUARES}")
            values = predict_rows(fitted, self._checked(fitted, on_host(X)), self.n_jobs)
            return fitted.shaped(fitted.natural(values))
        if is_dask(X):
            return predict_lazily(cast(Learner, self), X, return_std, interval)
        if (groups := groups_of(self)) is not None:
            parts = [part.predict(X, return_std, interval) for part in parts_of(self, groups)]
            several = isinstance(parts[0], tuple)
            return tuple(map(groups.joined, zip(*parts, strict=True))) if several else groups.joined(parts)
        if not (return_std or interval == "new"):
            return fitted.shaped(self._predicted(fitted, X)[1])
        uncertainty = None if training_rows(fitted) is None else self.uncertainty()
        rows, values, variance = self._predicted_with(fitted, X, uncertainty)
        with blas_threads(limit_of(self.n_jobs)):
            used = fitted.to_features(on_host(rows))
            std = standard_deviations(fitted, uncertainty, used, "new" if interval == "new" else "mean", variance)
        return fitted.shaped(values), fitted.shaped(like(rows, std))

    def predict_interval(self, X: object, level: float = 0.9, of: str = "new", sample_weight: object = None) -> Any:
        """Lower and upper ends, (m, 2), or (m, q, 2) for several responses, around the predictions.

        Parameters
        ----------
        X : array-like of shape (m, n_features)
            New rows.
        level : float
            The share of new observations to be covered; at most n / (n + 1) with n training rows.
        of : {"new", "mean"}
            "new": where an observation at x will fall. "mean": where the curve is.
        sample_weight : array-like of shape (m,), optional
            Precisions of the new observations, relative to a training row of mean weight. For "new" alone.

        A normalised jackknife: the half-width is the quantile of left-out residuals over their own scales, times the
        scale at x, which holds noise, estimate and prior and so grows where there are no data; outside their box it
        grows as all kernels that the data allow do, where the kernel was chosen from them. The residuals are
        ridge's at the fit's clock reading, exact for ridge, close to them for the other filters. Coverage is measured
        on real data in the docs; there is no finite-sample guarantee.
        """
        fitted, level, what = fitted_of(self), check_level(level), check_of(of)
        if isinstance(fitted, LossFitted):
            raise ValueError(f"intervals are {_FOR_SQUARES}")
        if (groups := groups_of(self)) is not None:
            parts = parts_of(self, groups)
            return groups.joined([part.predict_interval(X, level, of, sample_weight) for part in parts])
        uncertainty = self.uncertainty()
        if is_dask(X):
            raise TypeError("predict_interval takes arrays and tensors: map it over the blocks of a dask collection")
        rows, values, variance = self._predicted_with(fitted, X, uncertainty)
        weights = check_weights(on_host(sample_weight), len(rows), least_rows=1)
        if weights is not None and np.any(weights == 0):
            raise ValueError("sample_weight of a new observation must be above 0: at 0 it could be anywhere")
        with blas_threads(limit_of(self.n_jobs)):
            used = fitted.to_features(on_host(rows))
            half = like(rows, uncertainty.half_width(used, level, what, weights, variance))
        lower, upper = fitted.shaped(values - half), fitted.shaped(values + half)
        return torch().stack([lower, upper], -1) if is_tensor(lower) else np.stack([lower, upper], axis=-1)

    def noise_variation(self) -> list[float | None]:
        """For each response the largest noise over the smallest, as left-out residuals show it; None where even."""
        fitted = fitted_of(self)
        if (groups := groups_of(self)) is not None:
            return groups.in_order([part.noise_variation() for part in parts_of(self, groups)])
        if not has_intervals(fitted):
            return [None] * len(fitted.stops)
        varying = [each.varying for each in self.uncertainty().calibrations]
        return [None if each is None else each.ratio for each in varying]

    def _predicted(self, fitted: Fitted, X: object) -> tuple[Any, Any]:
        """Checked new rows and predictions (m, q) for them: arrays for an array, tensors for a tensor."""
        rows = self._checked(fitted, X)
        if fitted.device is None and not is_tensor(rows):
            return rows, predict_rows(fitted, rows, self.n_jobs)
        self._on_device = placed(self.__dict__.get("_on_device"), fitted, rows, self.precision)
        return rows, predict_on(self._on_device, rows, self.n_jobs)

    def _predicted_with(self, fitted: Fitted, X: object, known: Uncertainty | None) -> tuple[Any, Any, Array | None]:
        """The same and, where one pass over the kernel gives both, the estimate's variance."""
        if fitted.device is not None or is_tensor(X):
            return *self._predicted(fitted, X), None
        rows = self._checked(fitted, X)
        with blas_threads(limit_of(self.n_jobs)):
            return rows, *predict_with_variance(fitted, known, fitted.to_features(rows), self.n_jobs)

    def _checked(self, fitted: Fitted | LossFitted, X: object) -> Any:
        """Checked new rows, an array or a tensor, with a word where they are far from the training rows."""
        rows = take_new_tensor(fitted, X) if is_tensor(X) else take_covariates(self, fitted, X)
        tell_of_extrapolation(self, fitted, rows)
        return rows

    def uncertainty(self) -> Uncertainty:
        """What intervals are made from: calibrated at the first use and kept as long as the fit."""
        fitted = fitted_of(self)
        if isinstance(fitted, Fitted) and fitted.shared_noise:
            raise ValueError(
                "standard deviations and intervals take the noise of rows as independent, and noise_std=AR1() says it "
                "is not: predict without them"
            )
        held: tuple[Fitted, Uncertainty] | None = self.__dict__.get("_calibrated")
        if held is None or held[0] is not fitted:
            with blas_threads(limit_of(self.n_jobs)):
                held = self._calibrated = fitted, uncertainty_of(fitted)
        return held[1]

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """The coefficient of determination of the predictions, 1 - residual / total sum of squares."""
        if not (is_dask(X) or is_tensor(X)):
            y = take_responses(y)
            sample_weight = check_weights(sample_weight, len(y), least_rows=1)
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]

    # ---- devices ---------------------------------------------------------------------------------------------------

    def to(self, device: object) -> Self:
        """Move a fitted model: "cuda" makes predictions on the GPU from now on, "cpu" in numpy without torch."""
        groups, place = groups_of(self), partial(moved, device=device)
        self._fitted = place(fitted_of(self)) if groups is None else groups.map(place)
        self.__dict__.pop("_on_device", None)
        return self

    def __getstate__(self) -> dict[str, Any]:
        held = cast(dict[str, Any], super().__getstate__())
        state = {name: value for name, value in held.items() if name not in _NOT_KEPT}
        return state | ({"_fitted": state["_fitted"].at_home()} if "_fitted" in state else {})
