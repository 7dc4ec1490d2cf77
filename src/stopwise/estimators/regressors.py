"""The scikit-learn estimators: fit, predict, and the answer to "why did it stop there?"."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from stopwise._support.arrays import Array
from stopwise._support.checks import flag
from stopwise._support.dask import is_dask
from stopwise._support.threads import blas_threads, limit_of, thread_count
from stopwise._support.torch import is_tensor, on_host
from stopwise.engine.landmarks.sampling import Leverage, Uniform
from stopwise.engine.solvers.dense_solver import Plan, Solution
from stopwise.engine.solvers.solver_choice import choose_solver
from stopwise.estimators.batches import StreamingMixin
from stopwise.estimators.dask_collections import fit_collections, predict_lazily
from stopwise.estimators.doubts import warn_of_doubts
from stopwise.estimators.intake import check_weights, take_covariates, take_responses, take_rows
from stopwise.estimators.notebook import StopDisplay
from stopwise.estimators.prediction.device import predict_there, wants_device
from stopwise.estimators.prediction.host import predict_in_tiles, variance_in_tiles
from stopwise.estimators.prediction.training_range import feature_range, warn_outside
from stopwise.estimators.tensors import (
    at_home,
    choose_kernel_for,
    move,
    stays_on_device,
    tensor_problem,
    tensor_range,
)
from stopwise.filters import Filter, Ridge, as_filter
from stopwise.kernels import Kernel, Precomputed, as_kernel
from stopwise.kernels.radial import Radial
from stopwise.noise import NoiseEstimator, as_noise
from stopwise.problem import Problem, make_problem
from stopwise.rules import Critical, Rule, Stop, as_rule
from stopwise.rules.holdout import HoldOut

_SOLVERS = {"auto", "dense", "krylov", "line", "nystrom", "cuda", "dask"}


class _KernelRegressor(StopDisplay, StreamingMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What the two estimators share: the way from data to a stopped fit."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": "no_validation",
        "rule": "no_validation",
        "noise_std": "no_validation",
        "relevance": [StrOptions({"auto"}), "boolean"],
        "fit_intercept": ["boolean"],
        "solver": [StrOptions(_SOLVERS)],
        "n_landmarks": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            "array-like",
            Uniform,
            Leverage,
        ],
        "precision": [StrOptions({"auto", "float64", "float32", "fast"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def _filter(self) -> Filter:
        raise NotImplementedError

    # ---- fit ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit by early-stopped descent (or ridge at the same clock), stopping where the rule says.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates; for `kernel="precomputed"` the raw Gram matrix.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Responses; several get one stop each.
        sample_weight : array-like of shape (n_samples,), optional
            Frequencies: a weight of 2 is the row twice.
        """
        if self.solver == "dask" or is_dask(X):
            fit_collections(self, X, y, sample_weight)
            return self
        self._validate_params()
        with blas_threads(limit_of(self.n_jobs)):
            problem, single = self._problem(X, y, sample_weight)
            rule, noise = as_rule(self.rule), as_noise(self.noise_std)
            chosen = choose_kernel_for(self, problem, host=isinstance(rule, HoldOut) or noise.needs_rows)
            plan = self._plan(chosen.kernel, rule, noise)
            solution = choose_solver(self, chosen.problem, plan).solve(chosen.problem, plan)
            self._keep(solution, plan, chosen, rule, single)
            warn_of_doubts(chosen.table, solution)
            find_range: Any = tensor_range if is_tensor(problem.covariates) else feature_range
            self.feature_range_ = None if isinstance(plan.kernel, Precomputed) else find_range(problem.covariates)
        return self

    def _plan(self, kernel: Kernel, rule: Rule, noise: NoiseEstimator) -> Plan:
        """Everything the parameters ask for, with the kernel settled."""
        thread_count(self.n_jobs)  # refused here whichever solver comes to use it
        return Plan(
            kernel=kernel,
            filter=self._filter(),
            rule=rule,
            noise=noise,
            tol=float(self.tol),
            dtype=np.float64 if self.precision in ("auto", "float64") else np.float32,
            n_jobs=self.n_jobs,
            verbose=int(self.verbose),
        )

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> tuple[Problem, bool]:
        if stays_on_device(X, self.solver):
            return tensor_problem(self, X, y, check_weights(on_host(sample_weight), len(X)))
        X, y, sample_weight = on_host(X), on_host(y), on_host(sample_weight)
        X, y = take_rows(self, X, y)
        if isinstance(self._kernel_parameter(), Precomputed) and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"a precomputed kernel matrix must be square, got shape {X.shape}: pass the kernel between all "
                "pairs of training rows"
            )
        if self.precision in ("auto", "float64"):
            X = X.astype(np.float64, copy=False)
        single = y.ndim == 1
        responses = y[:, None] if single else y
        weights = check_weights(sample_weight, len(X))
        self._kept_rows = None
        if weights is not None and np.any(weights == 0):
            keep = np.flatnonzero(weights)
            X = X[np.ix_(keep, keep)] if isinstance(self._kernel_parameter(), Precomputed) else X[keep]
            responses, weights = responses[keep], weights[keep]
            self._kept_rows = keep
        weights = None if weights is None or np.all(weights == 1) else weights
        seed = self._random_seed()
        return make_problem(X, responses, weights, intercept=self.fit_intercept, seed=seed), single

    def _random_seed(self) -> int:
        return _seed(self.random_state)

    def _kernel_parameter(self) -> Kernel | None:
        """The kernel as given; None for "auto"."""
        if isinstance(self.kernel, str) and self.kernel == "auto":
            return None
        return as_kernel(self.kernel)

    def _keep(self, solution: Solution, plan: Plan, chosen: Any, rule: Rule, single: bool) -> None:
        """Learned attributes, all at the end: a fit that fails leaves the estimator as it was."""

        def pick(values: Any) -> Any:
            return values[0] if single else values

        _check_finite(solution)
        self.kernel_ = plan.kernel
        self.selection_ = chosen.table
        self.solver_ = solution.solver
        self.path_ = solution.path.column(0) if single else solution.path
        self.stop_ = pick(solution.stops)
        self.step_sum_ = pick([stop.step_sum for stop in solution.stops])
        self.noise_std_ = _plain(pick(list(solution.noise_std)))
        radii = [_radius_of(stop, solution.path.column(j)) for j, stop in enumerate(solution.stops)]
        self.hilbert_radius_ = pick(radii)
        self.critical_radius_ = pick([_critical_radius_of(stop) for stop in solution.stops])
        self.eigenvalues_ = solution.path.spectrum.eigenvalues
        self.trace_ = solution.path.spectrum.trace
        self.X_fit_ = solution.fit_covariates
        self.dual_coef_ = solution.dual_coef[:, 0] if single else solution.dual_coef
        self.intercept_ = float(solution.intercept[0]) if single else solution.intercept
        self._mean_row = solution.mean_row
        self._spread = solution.spread
        self._stream = solution.notes.get("stream")
        self._features = chosen.features
        self._rule = rule
        self._solution_notes = solution.notes
        if isinstance(plan.kernel, Precomputed) and "train_rows" in solution.notes:
            rows = solution.notes["train_rows"]
            self._kept_rows = rows if self._kept_rows is None else self._kept_rows[rows]
        self._device = solution.notes.get("device")
        self._finish_fit(solution, single)

    def _finish_fit(self, solution: Solution, single: bool) -> None:
        """What only one of the estimators learns."""

    # ---- predict --------------------------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False, interval: str | None = None) -> Any:
        """Predictions k(X, X_fit_) @ dual_coef_ + intercept_.

        With `return_std=True` also the standard deviation of the estimated mean (its noise part; bias is not in it);
        `interval="new"` adds the noise of a new observation to it.
        """
        check_is_fitted(self, "dual_coef_")
        flag(return_std, "return_std")
        if interval not in (None, "new"):
            raise ValueError(f'interval must be None or "new", got {interval!r}')
        if is_dask(X):
            return predict_lazily(self, X, return_std, interval)
        if is_tensor(X):
            return predict_there(self, X, return_std, interval == "new")
        X = take_covariates(self, X)
        if self.feature_range_ is not None:
            warn_outside(self.feature_range_, X, getattr(self, "feature_names_in_", None))
        if wants_device(self, X):
            return predict_there(self, X, return_std, interval == "new")
        return self._predict_rows(X, return_std, interval == "new")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination of the predictions, 1 - residual / total sum of squares."""
        if not (is_dask(X) or is_tensor(X)):
            y = take_responses(y)
            sample_weight = check_weights(sample_weight, len(y), least_rows=1, frequencies=False)
        return float(super().score(X, y, sample_weight))

    def _predict_rows(self, X: Array, return_std: bool, new: bool) -> Any:
        with blas_threads(limit_of(self.n_jobs)):
            X = self._to_features(X)
            values = predict_in_tiles(self.kernel_, X, self.X_fit_, self.dual_coef_, n_jobs=self.n_jobs)
            values = values + self.intercept_
            if not (return_std or new):
                return values
            return values, self._std(X, new)

    def _to_features(self, X: Array) -> Array:
        if isinstance(self.kernel_, Precomputed):
            return X if self._kept_rows is None else X[:, self._kept_rows]
        X = X.astype(self.X_fit_.dtype, copy=False)
        X = X if self._features is None else X[:, self._features]
        self.kernel_.check(X)
        return X

    def _std(self, X: Array, new: bool) -> Array:
        path, single = self.path_, self.dual_coef_.ndim == 1
        sums = np.atleast_1d(np.asarray(path.chosen))
        if self._spread is not None:
            variance = self._spread.variance(X)
        else:
            variance = variance_in_tiles(self.kernel_, X, self.X_fit_, path, self._mean_row, sums)
        variance = variance * np.atleast_1d(self.noise_std_) ** 2
        if new:
            variance = variance + np.atleast_1d(self.noise_std_) ** 2
        std = np.sqrt(variance)
        return cast(Array, std[:, 0] if single else std)

    # ---- devices ---------------------------------------------------------------------------------------------------

    def to(self, device: Any) -> Self:
        """Move a fitted model: "cuda" makes predictions on the GPU from now on, "cpu" in numpy without torch."""
        check_is_fitted(self, "dual_coef_")
        move(self, device)
        return self

    def __getstate__(self) -> Any:
        return at_home(super().__getstate__())

    # ---- scikit-learn's contract ------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


class KernelGradientRegressor(_KernelRegressor):
    """Kernel regression by gradient descent, stopped at a time read off the data.

    Parameters
    ----------
    kernel : kernel, name, callable or "auto"
        What is k(x, z). "auto" chooses kernel and length scale from the data.
    rule : rule or name
        When to stop. "auto": the earliest stop that predicts left-out rows as well as any (`sw.rules.Prudent`).
    noise_std : float, estimator, name or "auto"
        The standard deviation of the noise, or how to estimate it.
    schedule : schedule, float, sequence or "auto"
        Step sizes; "auto" is the largest valid constant step.
    filter : filter or name
        "descent", "flow", "cutoff" or "nu-method".
    relevance : "auto" or bool
        One length scale per feature ("auto": when it clearly pays). Only for `kernel="auto"`.
    fit_intercept : bool
        Centre y and kernel, so that the constant is free.
    solver : {"auto", "dense", "krylov", "line", "nystrom", "cuda", "dask"}
        How products with the kernel matrix are made; `solver_` says what "auto" picked.
    n_landmarks : int, array of rows or "auto"
        For `solver="nystrom"`.
    precision : {"auto", "float64", "float32", "fast"}
        Of kernel matrix and products. "auto": float64 on the CPU; on a GPU float32-accurate fused tiles with sums in
        float64 (the stop and a fit within 1e-4 of float64's). "fast" has about 3 digits. A matrix-free fit with
        `tol=0` is made in float64 whatever is said here.
    tol : float
        How wide the bracket on the stop may be under a matrix-free solver; 0 asks for one integer.
    n_jobs : int or None
        Threads for products, predictions and BLAS together; None: all cores. Small matrices take one whatever is said.
    random_state : int, RandomState or None
        For probes, subsamples and hold-out. None means seed 0: the same data give the same answer.
    verbose : int
        1 tells the choices and shows progress.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_KernelRegressor._parameter_constraints,
        "schedule": "no_validation",
        "filter": "no_validation",
    }

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        rule: Any = "auto",
        noise_std: Any = "auto",
        schedule: Any = "auto",
        filter: Any = "descent",
        relevance: Any = "auto",
        fit_intercept: bool = True,
        solver: str = "auto",
        n_landmarks: Any = "auto",
        precision: str = "auto",
        tol: float = 0.01,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.rule = rule
        self.noise_std = noise_std
        self.schedule = schedule
        self.filter = filter
        self.relevance = relevance
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_landmarks = n_landmarks
        self.precision = precision
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, kernel: Any, *, noise_std: Any = "auto", schedule: Any = 0.25, **settings: Any) -> Self:
        """The paper's own setting: Critical(2e, radius 1), no intercept, no rescaling.

        Nothing is estimated unless `noise_std="auto"`, which then is Hall and Marron's estimator.
        """
        given = as_kernel(kernel)
        if isinstance(given, Radial) and given.length_scale == "auto":
            given = given.with_length_scale(1.0)
        noise = as_noise("hall-marron") if isinstance(noise_std, str) and noise_std == "auto" else noise_std
        rule = Critical(constant=2 * math.e, hilbert_radius=1.0)
        options = {"rule": rule, "fit_intercept": False, "relevance": False, **settings}
        return cls(given, noise_std=noise, schedule=schedule, **options)

    def _filter(self) -> Filter:
        return as_filter(self.filter, self.schedule)

    def _finish_fit(self, solution: Solution, single: bool) -> None:
        counts = [stop.iteration for stop in solution.stops]
        if counts[0] is not None:
            self.n_iter_ = counts[0] if single else counts
        elif hasattr(self, "n_iter_"):
            del self.n_iter_


class KernelRidgeRegressor(_KernelRegressor):
    """Kernel ridge regression whose penalty is chosen by the same rules, on the same clock.

    `inverse_penalty_` plays the part of step_sum; scikit-learn's KernelRidge at alpha = `alpha_` = n / inverse_penalty
    is the same function (without an intercept). The paper's constant is 4 here (E13). Parameters as in
    `KernelGradientRegressor`, without `schedule` and `filter`.
    """

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        rule: Any = "auto",
        noise_std: Any = "auto",
        relevance: Any = "auto",
        fit_intercept: bool = True,
        solver: str = "auto",
        n_landmarks: Any = "auto",
        precision: str = "auto",
        tol: float = 0.01,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.rule = rule
        self.noise_std = noise_std
        self.relevance = relevance
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.n_landmarks = n_landmarks
        self.precision = precision
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _filter(self) -> Filter:
        return Ridge()

    def _finish_fit(self, solution: Solution, single: bool) -> None:
        sums = [stop.step_sum for stop in solution.stops]
        n = solution.path.n_samples
        penalties = [n / s if s > 0 else math.inf for s in sums]
        self.inverse_penalty_ = sums[0] if single else sums
        self.alpha_ = penalties[0] if single else penalties


def _seed(random_state: Any) -> int:
    if random_state is None:
        return 0
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(random_state.randint(2**31 - 1))


def _check_finite(solution: Solution) -> None:
    """The last door before a result is kept: numbers that overflowed never pass for an answer."""
    for values in (solution.dual_coef, solution.intercept, solution.noise_std):
        if isinstance(values, np.ndarray) and not np.all(np.isfinite(values)):
            raise ValueError("the fit overflows: its weights are not finite; rescale y (and a given noise_std)")


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


def _radius_of(stop: Stop, path: Any) -> float:
    if "hilbert_radius" in stop.details:
        return float(stop.details["hilbert_radius"])
    return float(path.scale * math.sqrt(float(path.squared_hilbert_norm(np.asarray(stop.step_sum)))))


def _critical_radius_of(stop: Stop) -> float:
    step_sum = stop.details.get("critical_step_sum", stop.step_sum)
    return 1 / math.sqrt(step_sum) if step_sum > 0 else math.inf
