"""From rows to a stopped fit under a loss: what the classifier and `loss=` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stopwise._support.arrays import Array
from stopwise.complexity import critical_radius
from stopwise.engine.solvers.functional_descent import published_fit, published_stop
from stopwise.engine.solvers.loss_minimiser import LossProblem, Minimiser, minimise
from stopwise.engine.solvers.loss_path import walk
from stopwise.engine.solvers.loss_rows import LossRows, make_features
from stopwise.kernels import Kernel, Precomputed
from stopwise.losses import Loss
from stopwise.rules import Critical, Fixed, LeaveOneOut, Prudent, Reason, Rule, Stop, as_rule
from stopwise.selection.left_out_loss import LossChoice


@dataclass(frozen=True)
class LossFit:
    """A stopped fit: f(x) = k(x, points) @ dual_coef + intercept, on the scale of the link."""

    loss: Loss
    choice: LossChoice
    stop: Stop
    points: Array
    landmarks: Array
    dual_coef: Array
    intercept: Array
    chosen: Minimiser


def fit_loss(rows: LossRows, loss: Loss, choice: LossChoice, rule: Rule, settings: dict[str, Any]) -> LossFit:
    """Features, path, stop and weights for a chosen kernel."""
    x = rows.covariates if choice.features is None else rows.covariates[:, choice.features]
    rows = replace(rows, covariates=x)
    found = make_features(choice.kernel, rows, settings["n_landmarks"], settings["seed"], settings["intercept"])
    problem = found.problem(rows, loss, settings["intercept"])
    chosen, stop = _stopped(problem, rule, choice.kernel, rows, settings)
    points = np.empty((len(found.landmarks), 0)) if isinstance(choice.kernel, Precomputed) else x[found.landmarks]
    dual, intercept = found.function(chosen.coefficients)
    return LossFit(loss, choice, stop, points, found.landmarks, dual, intercept, chosen)


def _stopped(
    problem: LossProblem, rule: Rule, kernel: Kernel, rows: LossRows, settings: dict[str, Any]
) -> tuple[Minimiser, Stop]:
    """The fit where a rule stops."""
    if isinstance(rule, Prudent | LeaveOneOut):
        path = walk(problem, allowance=rule.allowance if isinstance(rule, Prudent) else 0.0)
        return path.chosen, path.stop
    if isinstance(rule, Fixed) and rule.step_sum is not None:
        at = minimise(problem, float(rule.step_sum), problem.constant)
        return at, Stop(None, at.step_sum, Reason.FIXED)
    if isinstance(rule, Critical):
        return _published(problem, rule, kernel, rows, settings)
    raise ValueError(
        f"{type(rule).__name__} is a rule for squares: with another loss use \"auto\", Prudent(), LeaveOneOut(), "
        "Fixed(step_sum=...), or Critical() for the published path"
    )


def _published(
    problem: LossProblem, rule: Critical, kernel: Kernel, rows: LossRows, settings: dict[str, Any]
) -> tuple[Minimiser, Stop]:
    if not isinstance(rule.hilbert_radius, int | float):
        raise ValueError(f"the published path needs a number as hilbert_radius, got {rule.hilbert_radius!r}: 1 is the paper's")
    diagonal = np.einsum("ij,ij->i", problem.features, problem.features)
    reach = float(rule.hilbert_radius) * float(np.sqrt(diagonal.max(initial=0.0)))
    values = np.linalg.svd(np.sqrt(problem.weights)[:, None] * problem.features, compute_uv=False) ** 2
    stop = published_stop(problem.loss, values / problem.n_samples, reach, settings.get("noise_std"))
    return published_fit(replace(problem, intercept=False), stop)
