"""From rows to a stopped fit under a loss: what the classifier and the regressor's `loss=` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_for, blas_threads, limit_of
from stopwise._support.torch import on_host
from stopwise.engine.loss_fits.functional_descent import published_fit, published_stop
from stopwise.engine.loss_fits.loss_minimiser import LossProblem, Minimiser, minimise
from stopwise.engine.loss_fits.loss_path import walk
from stopwise.engine.loss_fits.loss_rows import LossRows, RowFeatures, make_features, merge_copies
from stopwise.estimators.calibration import Calibration, calibrate
from stopwise.estimators.fitted import LearnedFunction
from stopwise.estimators.intake import Intake, take_covariates
from stopwise.estimators.prediction.host import predict_in_tiles
from stopwise.estimators.prediction.training_range import feature_range, warn_outside
from stopwise.kernels import Kernel, Precomputed
from stopwise.losses import Loss, spread_of, weighted_quantile
from stopwise.rules import Critical, Fixed, LeaveOneOut, Prudent, Reason, Rule, Stop
from stopwise.selection.left_out_loss import LossChoice, choose_for_loss


@dataclass(frozen=True, kw_only=True)
class LossFitted(LearnedFunction):
    """What a fit under a loss has learned: f(x) = k(x, covariates) @ dual_coef + intercept, on the link's scale."""

    loss: Loss
    n_samples: float
    degrees_of_freedom: float | None
    classes: Array | None = None
    calibration: Calibration | None = None

    @property
    def one_stop(self) -> bool:
        """One stop serves all scores."""
        return True

    def at_home(self) -> LossFitted:
        """The same: everything is on the host."""
        return self

    def take_new(self, model: object, X: object) -> Array:
        """Checked new rows, with a word where they lie outside the range of the training rows."""
        rows = take_covariates(model, self, on_host(X))
        if self.feature_range is not None:
            warn_outside(self.feature_range, rows, self.feature_names)
        return rows

    def scores(self, X: Array, n_jobs: int | None) -> Array:
        """f at checked rows, (n, q)."""
        with blas_threads(limit_of(n_jobs)):
            X = self.to_features(X)
            if isinstance(self.kernel, Precomputed):
                return cast(Array, X @ self.dual_coef + self.intercept)
            return predict_in_tiles(self.kernel, X, self.covariates, self.dual_coef, n_jobs=n_jobs) + self.intercept

    def natural(self, X: Array, n_jobs: int | None) -> Array:
        """Predictions on the scale of y, or class probabilities."""
        return self.loss.natural(self.scores(X, n_jobs))


@dataclass(frozen=True)
class LossPlan:
    """What a fit under a loss was asked for."""

    loss: Loss
    rule: Rule
    kernel: Kernel | None
    relevance: bool | str
    intercept: bool
    seed: int
    landmarks: int | None = None
    noise_std: float | None = None

    def choose(self, rows: LossRows, targets: Array) -> LossChoice:
        """The kernel, for responses as squares should see them."""
        return choose_for_loss(rows, self.loss, targets, self.kernel, self.relevance, self.intercept, self.seed)


@dataclass(frozen=True)
class Stopped:
    """A stopped fit, the kernel it was made with, and the features of the rows."""

    choice: LossChoice
    chosen: Minimiser
    stop: Stop
    found: RowFeatures
    points: Array


def rows_of(intake: Intake, y: Array, kernel: Kernel | None) -> LossRows:
    """Checked rows, copies merged (a precomputed kernel knows no copies)."""
    weights = np.ones(len(y)) if intake.weights is None else intake.weights
    if isinstance(kernel, Precomputed):
        return LossRows(intake.covariates, y, weights)
    return merge_copies(intake.covariates, y, weights)


def stop_fit(rows: LossRows, plan: LossPlan, choice: LossChoice) -> Stopped:
    """Features, path, stop and weights for a chosen kernel."""
    if choice.features is not None:
        rows = replace(rows, covariates=rows.covariates[:, choice.features])
    with blas_threads(blas_for(len(rows.y))):
        count = choice.landmarks if plan.landmarks is None else plan.landmarks
        found = make_features(choice.kernel, rows, count, plan.seed, plan.intercept)
        chosen, stop = _stop(found.problem(rows, plan.loss, plan.intercept), plan)
    precomputed = isinstance(choice.kernel, Precomputed)
    points = np.zeros((len(found.landmarks), 1)) if precomputed else rows.covariates[found.landmarks]
    return Stopped(choice, chosen, stop, found, points)


def _stop(problem: LossProblem, plan: LossPlan) -> tuple[Minimiser, Stop]:
    rule = plan.rule
    if isinstance(rule, Prudent | LeaveOneOut):
        path = walk(problem, allowance=rule.allowance if isinstance(rule, Prudent) else 0.0)
        return path.chosen, path.stop
    if isinstance(rule, Fixed) and rule.step_sum is not None:
        at = minimise(problem, float(rule.step_sum), problem.constant)
        return at, Stop(None, at.step_sum, Reason.FIXED)
    if isinstance(rule, Critical):
        return _published(problem, rule, plan.noise_std)
    raise ValueError(
        f'{type(rule).__name__} is a rule for loss="squared": with another loss use "auto", Prudent(), LeaveOneOut(), '
        "Fixed(step_sum=...), or Critical() for the published path"
    )


def _published(problem: LossProblem, rule: Critical, noise_std: float | None) -> tuple[Minimiser, Stop]:
    radius = rule.hilbert_radius
    if not isinstance(radius, int | float) or problem.intercept:
        raise ValueError(
            f"the published path has no intercept and a given radius, got hilbert_radius={radius!r} and "
            f"fit_intercept={problem.intercept}: use as_published"
        )
    diagonal = np.einsum("ij,ij->i", problem.features, problem.features)
    reach = float(radius) * float(np.sqrt(diagonal.max(initial=0.0)))
    stop = published_stop(problem.loss, problem.energies / problem.n_samples, reach, noise_std)
    return published_fit(problem, stop)


def finish(intake: Intake, plan: LossPlan, stopped: Stopped, classes: Array | None = None) -> LossFitted:
    """The learned state, calibrated on left-out predictions."""
    left_out = stopped.stop.iteration is None
    calibration = calibrate(stopped.chosen) if left_out else None
    factor = 1.0 if calibration is None else 1 / calibration.temperature
    shift = 0.0 if calibration is None else calibration.shift
    dual, intercept = stopped.found.function(stopped.chosen.coefficients)
    if not (np.isfinite(dual).all() and np.isfinite(intercept).all()):
        raise ValueError("the fit overflows: its weights are not finite; rescale y or the covariates")
    columns = stopped.found.landmarks if intake.kept_rows is None else intake.kept_rows[stopped.found.landmarks]
    precomputed = isinstance(stopped.choice.kernel, Precomputed)
    return LossFitted(
        kernel=stopped.choice.kernel,
        selection=stopped.choice.table,
        solver="exact" if stopped.found.exact else "landmarks",
        stops=(stopped.stop,),
        rule=plan.rule,
        loss=stopped.chosen.problem.loss,
        covariates=stopped.points,
        dual_coef=factor * dual,
        intercept=factor * intercept + shift,
        single=plan.loss.width == 1,
        n_features=intake.n_features,
        n_samples=stopped.chosen.problem.n_samples,
        degrees_of_freedom=stopped.chosen.degrees_of_freedom if left_out else None,
        classes=classes,
        calibration=calibration,
        feature_names=intake.feature_names,
        features=stopped.choice.features,
        kept_rows=columns if precomputed else None,
        feature_range=None if precomputed else feature_range(intake.covariates),
        columns_in=intake.columns_in,
        response_names=intake.response_names,
        recipe=intake.recipe,
    )


def fit_responses(intake: Intake, plan: LossPlan) -> LossFitted:
    """A regression under a loss. Scales that are "auto" are read off left-out residuals, in two rounds.

    Location and scale of y are taken out first where the loss has units of its own; the kernel is chosen for responses
    drawn in to what the loss lets them count for.
    """
    if intake.responses.shape[1] != 1:
        raise ValueError(f"a loss other than squared takes one response, got {intake.responses.shape[1]} columns of y")
    y, weights = intake.responses[:, 0], np.ones(len(intake.responses)) if intake.weights is None else intake.weights
    plan.loss.check(y)
    middle, scale = 0.0, 1.0
    if plan.loss.has_units:
        middle, scale = weighted_quantile(y, weights, 0.5), spread_of(y, weights)
    rows = rows_of(intake, (y - middle) / scale, plan.kernel)
    asked = plan.loss.rescaled(scale)
    plan = replace(plan, loss=asked.resolved(rows.y, rows.weights))
    choice = plan.choose(rows, plan.loss.robust(rows.y, np.zeros(len(rows.y)))[:, None])
    stopped = stop_fit(rows, plan, choice)
    if plan.loss != asked:
        for again in (True, False):
            left_out = _known(stopped.chosen)
            plan = replace(plan, loss=asked.resolved(rows.y - left_out, rows.weights))
            choice = plan.choose(rows, plan.loss.robust(rows.y, left_out)[:, None]) if again else choice
            stopped = stop_fit(rows, plan, choice)
    fitted = finish(intake, plan, stopped)
    loss = fitted.loss.rescaled(1 / scale)
    return replace(fitted, loss=loss, dual_coef=scale * fitted.dual_coef, intercept=scale * fitted.intercept + middle)


def _known(fit: Minimiser) -> Array:
    """Left-out predictions (n,), and the fit itself where a row fits itself alone."""
    return np.where(np.isfinite(fit.left_out), fit.left_out, fit.fitted)[:, 0]
