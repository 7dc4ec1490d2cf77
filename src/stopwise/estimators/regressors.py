"""The scikit-learn estimators: fit, predict, and the answer to "why did it stop there?"."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from stopwise._support.dask import is_dask
from stopwise._support.progress import Progress
from stopwise._support.threads import blas_threads, limit_of, thread_count
from stopwise._support.torch import on_host
from stopwise.engine.landmarks.sampling import Leverage, Uniform
from stopwise.engine.solvers.plan import Plan, Precision
from stopwise.engine.solvers.solver_choice import DENSE_ROWS, choose_solver
from stopwise.estimators.batches import BatchesMixin
from stopwise.estimators.dask_collections import fit_collections
from stopwise.estimators.doubts import doubts, lost_digits, too_few_rows, warn_of_doubts
from stopwise.estimators.fitted import make_fitted
from stopwise.estimators.intake import Intake, take_rows
from stopwise.estimators.learned import LearnedState, learned, published_kernel
from stopwise.estimators.loss_fit import fit_under_loss
from stopwise.estimators.prediction.predicting import PredictMixin
from stopwise.estimators.prediction.response_groups import ResponseGroups, by_fit, by_row, numbers, one_each
from stopwise.estimators.prediction.training_range import feature_range
from stopwise.estimators.tensors import choose_kernels_for, stays_on_device, take_tensors
from stopwise.filters import Filter, Ridge, as_filter
from stopwise.kernels import Kernel
from stopwise.losses import Loss, Squared
from stopwise.noise import LeftOutTogether, NoiseEstimator, as_noise
from stopwise.rules import Critical, LeaveBlockOut, Rule, as_rule

SOLVERS = ("auto", "dense", "factor", "preconditioned", "krylov", "line", "nystrom", "cuda", "dask")


@dataclass(eq=False, repr=False)
class _KernelRegressor(LearnedState, PredictMixin, BatchesMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What the two estimators share: the way from data to a stopped fit."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LearnedState._parameter_constraints,
        "noise_std": "no_validation",
        "solver": [StrOptions(set(SOLVERS))],
        "n_landmarks": [*LearnedState._parameter_constraints["n_landmarks"], "array-like", Uniform, Leverage],
        "precision": [StrOptions({"auto", "float64", "float32", "fast"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "copy_X": ["boolean"],
    }

    _: KW_ONLY
    noise_std: object = "auto"
    solver: str = "auto"
    precision: Precision = "auto"
    tol: float = 0.01
    copy_X: bool = True

    def _filter(self) -> Filter:
        raise NotImplementedError

    # ---- fit ------------------------------------------------------------------------------------------------------

    def fit(self, X: object, y: object, sample_weight: object = None, groups: object = None) -> Self:
        """Fit by early-stopped descent (or ridge at the same clock), stopping where the rule says.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or a frame
            Covariates; for `kernel="precomputed"` the raw Gram matrix. A pandas, polars or Arrow frame may hold text,
            categories, booleans, dates and gaps: `sw.tables.TableEncoder` turns them into features. An array must
            hold finite numbers.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Responses; several get one stop each.
        sample_weight : array-like of shape (n_samples,), optional
            Relative precisions: only their ratios count. A weight of 2 is the row twice, 0 is absence; a row that
            was written down twice is one observation of twice the precision (see "Weights, copies and
            missing values" in the docs).
        groups : array-like of shape (n_samples,), optional
            Which rows hang together (one subject's measurements): `rule=sw.rules.LeaveBlockOut()` leaves out a whole
            group at a time, and is the default rule where groups are given. Intervals are then of rows of new groups,
            the kernel is judged on groups left out, and `noise_std_` holds what rows of a group share.
        """
        self._validate_params()
        if groups is not None and (self._under_loss or is_dask(X) or self.solver == "dask"):
            raise ValueError("groups are for squared loss on rows in memory: leave them out, or fit an array")
        if self._under_loss and (self.solver not in ("auto", "dense", "nystrom") or is_dask(X)):
            raise ValueError(
                'a loss other than squared is fitted to arrays with solver "auto", "dense" or "nystrom", got '
                f"{self.solver!r}"
            )
        if self.solver == "dask" or is_dask(X):
            self._fitted = fit_collections(self, X, y, sample_weight)
            return self
        if self._under_loss:
            thread_count(self.n_jobs)
            under_loss = fit_under_loss(self, self._take(on_host(X), y, sample_weight))
            warn_of_doubts(too_few_rows(under_loss.selection))
            self._fitted = under_loss
            return self
        with blas_threads(limit_of(self.n_jobs)), Progress(self.verbose, "taking rows") as progress:
            rows = self._take(X, y, sample_weight).with_groups(groups)
            problem = rows.problem(intercept=self.fit_intercept, seed=self.random_seed())
            rule = LeaveBlockOut() if groups is not None and self.rule == "auto" else as_rule(self.rule)
            noise = self._noise_under(rule, grouped=groups is not None)
            problem = replace(problem, block=rule.block)
            linear = self.solver in ("auto", "dense") and problem.n_rows <= DENSE_ROWS and not rule.splits_rows
            progress.show(f"choosing a kernel for {problem.n_rows:,} rows")
            groups_of_responses = choose_kernels_for(
                problem,
                noise.kernel_for(self.kernel_parameter()),
                self.relevance,
                linear=linear,
                host=rule.splits_rows or noise.needs_rows,
                together=self.solver == "nystrom",  # which keeps sums over features of one kernel
            )
            progress.show(f"fitting {problem.n_rows:,} rows")
            ranges = feature_range(problem.covariates)
            fits, reasons = [], lost_digits(rows.feature_names, X=ranges, y=feature_range(rows.responses))
            for chosen in groups_of_responses:
                plan = replace(self.plan(chosen.kernel), rule=rule, noise=noise, starts=chosen.starts)
                plan = plan.for_rows(rows.kept_rows)
                solution = choose_solver(chosen.problem, plan).solve(chosen.problem, plan)
                fits.append(make_fitted(rows.of_responses(chosen.responses), chosen, plan, solution, ranges))
                reasons += doubts(chosen.table, solution, rows.kept_rows)
            warn_of_doubts(reasons)
            apart = ResponseGroups(tuple(fits), tuple(chosen.responses for chosen in groups_of_responses))
            self._fitted = fits[0] if len(fits) == 1 else apart
        return self

    def plan(self, kernel: Kernel) -> Plan:
        """Everything the parameters ask for, with the kernel settled."""
        if self._under_loss:
            raise ValueError('batches, merging and devices are for loss="squared": fit all rows together')
        thread_count(self.n_jobs)  # refused here whichever solver comes to use it
        rule = as_rule(self.rule)
        return Plan(
            kernel=kernel,
            filter=self._filter(),
            rule=rule,
            noise=self._noise_under(rule),
            solver=self.solver,
            n_landmarks=self.n_landmarks,
            precision=self.precision,
            tol=float(self.tol),
            dtype=np.float64 if self.in_double else np.float32,
            n_jobs=self.n_jobs,
            verbose=int(self.verbose),
        )

    def _noise_under(self, rule: Rule, *, grouped: bool = False) -> NoiseEstimator:
        """How the noise is estimated: by default from what the rule leaves out together, where it does so."""
        by_default = isinstance(self.noise_std, str) and self.noise_std == "auto"
        together = rule.needs_all_pairs and (grouped or rule.block is not None)
        return LeftOutTogether() if by_default and together else as_noise(self.noise_std)

    @property
    def _under_loss(self) -> bool:
        """Whether another loss than squares is asked for."""
        loss = getattr(self, "loss", "squared")
        return not (isinstance(loss, Squared) or (isinstance(loss, str) and loss == "squared"))

    @property
    def in_double(self) -> bool:
        """Whether rows and products on the processor are in float64."""
        return self.precision in ("auto", "float64")

    def _take(self, X: object, y: object, sample_weight: object) -> Intake:
        if stays_on_device(X, self.solver):
            return take_tensors(X, y, on_host(sample_weight), copy=self.copy_X).observations()
        rows = take_rows(self, on_host(X), on_host(y), on_host(sample_weight), double=self.in_double, copy=self.copy_X)
        return rows.observations(square=rows.is_gram(self.kernel_parameter()))

    # ---- what was learned -------------------------------------------------------------------------------------------

    path_ = learned(
        lambda f: f.own_path, "Every estimate along the filter, without running it.", apart=lambda g, _: g.paths
    )
    noise_std_ = learned(
        lambda f: float(f.noise_std[0]) if f.single else f.noise_std, "The noise level used, units of y.", apart=numbers
    )
    hilbert_radius_ = learned(
        lambda f: f.pick(f.hilbert_radii), "The Hilbert radius, given, estimated or the fit's.", apart=one_each
    )
    critical_radius_ = learned(
        lambda f: f.pick(f.critical_radii), "1 / sqrt(step_sum) where the rule decided.", apart=one_each
    )
    eigenvalues_ = learned(
        lambda f: f.path.spectrum.eigenvalues, "Eigenvalues of Gram / n (centred), or Ritz values.", apart=by_fit
    )
    trace_ = learned(lambda f: f.path.spectrum.trace, "The trace of Gram / n (centred).", apart=by_fit)
    dual_coef_ = learned(lambda f: f.shaped(f.dual_coef), "Their weights.", apart=by_row)
    intercept_ = learned(
        lambda f: float(f.intercept[0]) if f.single else f.intercept, "The intercept, units of y.", apart=numbers
    )
    linear_coef_ = learned(
        lambda f: None if f.slopes is None else f.shaped(f.slopes),
        "Slopes of an unpenalised linear part (of the features that vary), or None.",
        apart=lambda g, _: g.slopes,
    )


@dataclass(eq=False, repr=False)
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
    loss : "squared", "huber", "quantile", "poisson" or a `sw.losses` instance
        How far a fitted value is from y. With another loss than squares the path is that of the minimisers of the loss
        plus |f|^2 / (2 step_sum), and `predict` is on the scale of y.
    quantile : float
        Which one, between 0 and 1, for `loss="quantile"`.
    schedule : schedule, float, sequence or "auto"
        Step sizes; "auto" is the largest valid constant step.
    filter : filter or name
        "descent", "flow", "cutoff" or "nu-method".
    relevance : "auto" or bool
        One length scale per feature ("auto": when it clearly pays). Only for `kernel="auto"`.
    fit_intercept : bool
        Centre y and kernel, so that the constant is free.
    solver : {"auto", "dense", "factor", "preconditioned", "krylov", "line", "nystrom", "cuda", "dask"}
        How products with the kernel matrix are made; `solver_` says what "auto" picked.
    n_landmarks : int, array of rows or "auto"
        For `solver="nystrom"`.
    precision : {"auto", "float64", "float32", "fast"}
        Of kernel matrix and products. "auto": float64 on the CPU, but for `solver="preconditioned"` of more than 5,000
        rows, whose factor is in float32 where that rounds off at most a hundredth of the residuals; on a GPU
        float32-accurate fused tiles with sums in float64 (the stop and a fit within 1e-4 of float64's). "fast" has
        about 3 digits. A matrix-free fit with `tol=0` is made in float64 whatever is said here.
    tol : float
        How wide the bracket on the stop may be under a matrix-free solver; 0 asks for one integer.
    n_jobs : int or None
        Threads for products, predictions and BLAS together; None: all cores. Small matrices take one whatever is said.
    random_state : int, RandomState or None
        For probes, subsamples and hold-out. None means seed 0: the same data give the same answer.
    verbose : int
        1 tells the choices and shows progress.
    copy_X : bool
        Keep a copy of X, so that the model does not change when the caller's array does. False saves the memory.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_KernelRegressor._parameter_constraints,
        "loss": "no_validation",
        "quantile": [Interval(Real, 0, 1, closed="neither")],
        "schedule": "no_validation",
        "filter": "no_validation",
    }

    _: KW_ONLY
    loss: str | Loss = "squared"
    quantile: float = 0.5
    schedule: object = "auto"
    filter: object = "descent"

    @classmethod
    def as_published(
        cls, kernel: object, *, noise_std: object = "auto", schedule: object = 0.25, **settings: Any
    ) -> Self:
        """The paper's own setting: Critical(2e, radius 1), no intercept, no rescaling.

        Nothing is estimated unless `noise_std="auto"`, which then is Hall and Marron's estimator.
        """
        noise = as_noise("hall-marron") if isinstance(noise_std, str) and noise_std == "auto" else noise_std
        rule = Critical(constant=2 * math.e, hilbert_radius=1.0)
        options = {"rule": rule, "fit_intercept": False, "relevance": False, **settings}
        return cls(published_kernel(kernel), noise_std=noise, schedule=schedule, **options)

    def _filter(self) -> Filter:
        return as_filter(self.filter, self.schedule)

    calibration_ = learned(
        lambda f: getattr(f, "calibration", None), "What was done to a quantile on left-out rows.", optional=True
    )
    n_iter_ = learned(
        lambda f: None if f.stops[0].iteration is None else f.pick([stop.iteration for stop in f.stops]),
        "How many steps were taken.",
        optional=True,
        apart=one_each,
    )


class KernelRidgeRegressor(_KernelRegressor):
    """Kernel ridge regression whose penalty is chosen by the same rules, on the same clock.

    `inverse_penalty_` plays the part of step_sum; scikit-learn's KernelRidge at alpha = `alpha_` = n / inverse_penalty
    is the same function (without an intercept). The paper's constant is 4 here (E13). Parameters as in
    `KernelGradientRegressor`, without `schedule` and `filter`.
    """

    def _filter(self) -> Filter:
        return Ridge()

    inverse_penalty_ = learned(lambda f: f.pick(f.step_sums.tolist()), "What plays step_sum's part.", apart=one_each)
    alpha_ = learned(
        lambda f: f.pick([f.path.n_samples / stop.step_sum if stop.step_sum > 0 else math.inf for stop in f.stops]),
        "scikit-learn's penalty: n / inverse_penalty_.",
        apart=one_each,
    )
