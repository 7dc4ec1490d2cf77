"""Classes by early-stopped descent: labels of any type, probabilities, and a stop read off the data."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from stopwise._support.arrays import Array
from stopwise._support.threads import thread_count
from stopwise._support.torch import on_host
from stopwise.engine.solvers.plan import Landmarked
from stopwise.estimators.fitted import fitted_of
from stopwise.estimators.intake import Intake, check_kind, names_of, take_rows
from stopwise.estimators.learned import LearnedState, learned, published_kernel
from stopwise.estimators.loss_fit import LossFitted, LossPlan, finish, rows_of, stop_fit
from stopwise.losses import Loss, Softmax, as_loss
from stopwise.rules import Critical, as_rule


@dataclass(eq=False, repr=False)
class KernelGradientClassifier(LearnedState, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel classification, stopped at a time read off the data.

    The fit minimises the loss plus |f|^2 / (2 step_sum) along the clock; it stops at the earliest reading whose
    left-out deviance is within half a standard error of the smallest.

    Parameters
    ----------
    kernel : kernel, name, callable or "auto"
        What is k(x, z). "auto" chooses kernel and length scales by the left-out deviance.
    loss : "logistic", "exponential" or a `sw.losses` instance
        Of two classes; of more the logistic loss is the softmax.
    rule : rule or name
        "auto" (`sw.rules.Prudent`), "loo", `Fixed(step_sum=...)`, or `Critical` for the published path.
    relevance : "auto" or bool
        One length scale per feature ("auto": when it clearly pays).
    fit_intercept : bool
        Leave the constant free.
    class_weight : dict, "balanced" or None
        What each class counts for, times `sample_weight`.
    n_landmarks : int or "auto"
        How many rows stand for all; "auto": every one of up to 400, of more ten for each effective dimension.
    n_jobs : int or None
        Threads for predictions and BLAS; None: all cores.
    random_state : int, RandomState or None
        For subsamples and landmarks. None means seed 0.
    verbose : int
        1 tells the choices.

    Attributes
    ----------
    classes_ : the labels, sorted. stop_ : where it stopped and why. kernel_, selection_ : what was chosen, from what.
    calibration_ : slope and reliability of left-out predictions, and the temperature where one was needed.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": "no_validation",
        "loss": "no_validation",
        "rule": "no_validation",
        "relevance": [StrOptions({"auto"}), "boolean"],
        "fit_intercept": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_landmarks": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    kernel: object = "auto"
    _: KW_ONLY
    loss: str | Loss = "logistic"
    rule: object = "auto"
    relevance: bool | str = "auto"
    fit_intercept: bool = True
    class_weight: dict[Any, float] | str | None = None
    n_landmarks: Landmarked = "auto"
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    @classmethod
    def as_published(cls, kernel: object, *, loss: str | Loss = "logistic", **settings: Any) -> Self:
        """Kernel boosting as in Wei, Yang & Wainwright: functional descent from zero, unit ball, their stop."""
        options = {"rule": Critical(hilbert_radius=1.0), "fit_intercept": False, "relevance": False, **settings}
        return cls(published_kernel(kernel), loss=loss, **options)

    # ---- fit ------------------------------------------------------------------------------------------------------

    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Fit to labels of any type; `sample_weight` are frequencies: a weight of 2 is the row twice."""
        self._validate_params()
        thread_count(self.n_jobs)
        classes, codes, intake = self._take(X, y, sample_weight)
        plan = self.loss_plan(len(classes))
        rows = rows_of(intake, codes, plan.kernel)
        members = np.eye(len(classes))[rows.y.astype(int)]
        choice = plan.choose(rows, members[:, 1:] if len(classes) == 2 else members)
        self._fitted = finish(intake, plan, stop_fit(rows, plan, choice), classes)
        return self

    def _take(self, X: object, y: object, sample_weight: object) -> tuple[Array, Array, Intake]:
        labels = take_labels(y)
        classes, codes = np.unique(labels, return_inverse=True)
        intake = take_rows(self, on_host(X), codes.astype(np.float64), on_host(sample_weight))
        intake = intake.without_idle_rows(square=intake.is_gram(self.kernel_parameter()))
        intake = replace(intake, response_names=names_of(y))
        codes = intake.responses[:, 0].astype(int)
        check_classes(classes, codes, intake.weights)
        counted, codes = np.unique(codes, return_inverse=True)
        classes = classes[counted]
        if self.class_weight is not None:
            each = compute_class_weight(self.class_weight, classes=classes, y=classes[codes])
            weights = each[codes] * (1.0 if intake.weights is None else intake.weights)
            intake = replace(intake, weights=weights)
        return classes, codes.astype(np.float64), intake

    def loss_plan(self, n_classes: int) -> LossPlan:
        """Everything the parameters ask for."""
        loss = as_loss(self.loss, classes=True)
        if n_classes > 2:
            if loss.name not in ("logistic", "softmax"):
                raise ValueError(f'the {loss.name} loss is for two classes, got {n_classes}: use loss="logistic"')
            loss = Softmax(n_classes)
        count = None if isinstance(self.n_landmarks, str) else int(cast(int, self.n_landmarks))
        return LossPlan(
            loss,
            as_rule(self.rule),
            self.kernel_parameter(),
            self.relevance,
            self.fit_intercept,
            self.random_seed(),
            count,
        )

    # ---- predict --------------------------------------------------------------------------------------------------

    def _rows(self, X: object) -> Array:
        return _loss_fit(fitted_of(self)).take_new(self, X)

    def decision_function(self, X: object) -> Array:
        """Log odds of the second class, (n,); of more classes one score each, (n, classes), that sum to zero."""
        rows = self._rows(X)
        f = self._fitted.scores(rows, self.n_jobs)
        loss = self._fitted.loss
        return cast(Array, loss.scores(f) if isinstance(loss, Softmax) else f[:, 0])

    def predict_proba(self, X: object) -> Array:
        """Class probabilities, (n, classes), in the order of `classes_`."""
        rows = self._rows(X)
        return self._fitted.natural(rows, self.n_jobs)

    def predict_log_proba(self, X: object) -> Array:
        """Their logarithms."""
        return cast(Array, np.log(self.predict_proba(X)))

    def predict(self, X: object) -> Array:
        """The likeliest class of each row."""
        return cast(Array, self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """The share of rows whose class is predicted; labels that the fit has not seen are refused."""
        labels = take_labels(y)
        unseen = sorted({str(label) for label in np.unique(labels)} - {str(label) for label in self.classes_})
        if unseen:
            known = ", ".join(str(label) for label in self.classes_[:5])
            raise ValueError(f"y has the label {unseen[0]!r}, which the fit has not seen: its classes are {known}")
        return float(super().score(X, labels, sample_weight))

    # ---- what was learned -------------------------------------------------------------------------------------------

    classes_ = learned(lambda f: _loss_fit(f).classes, "The labels, sorted.")
    solver_ = learned(lambda f: f.solver, '"exact", or "landmarks" where some rows stand for all.')
    stop_ = learned(lambda f: f.stops[0], "Where it stopped and why.")
    step_sum_ = learned(lambda f: f.stops[0].step_sum, "The clock reading of the stop.")
    loss_ = learned(lambda f: _loss_fit(f).loss, "The loss.")
    dual_coef_ = learned(lambda f: f.dual_coef, "Their weights.")
    intercept_ = learned(lambda f: f.intercept, "The constant of the scores.")
    calibration_ = learned(lambda f: _loss_fit(f).calibration, "Calibration of left-out predictions.")


def _loss_fit(fitted: object) -> LossFitted:
    return cast(LossFitted, fitted)


def take_labels(y: object) -> Array:
    """Labels (n,) of any type, none missing."""
    check_kind(y, "y")
    if y is None:
        raise ValueError("a classifier requires y to be passed, but the target y is None")
    labels = column_or_1d(on_host(y), warn=True)
    missing = np.array([label is None or label != label for label in labels], dtype=bool)
    if missing.any():
        raise ValueError(
            f"y has {int(missing.sum())} missing labels (NaN or None), the first in row {int(np.argmax(missing))}: "
            "leave such rows out"
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains infinity, which is no label: leave such rows out")
    kinds = sorted({type(label).__name__ for label in labels}) if labels.dtype.kind == "O" else []
    if len(kinds) > 1:
        raise TypeError(f"labels must be of one type, got {' and '.join(kinds)}: make them all text")
    check_classification_targets(labels)
    return cast(Array, labels)


def check_classes(classes: Array, codes: Array, weights: Array | None) -> None:
    """Two classes at least, and two rows of each."""
    counts = np.bincount(codes, minlength=len(classes))
    held = np.flatnonzero(counts)
    if held.size < 2:
        raise ValueError(f"a classifier needs at least 2 classes, got one class, {classes[held[0]]!r}: look at y")
    alone = held[counts[held] == 1]
    if alone.size and (weights is None or weights[codes == alone[0]].sum() < 2):
        raise ValueError(
            f"the class {classes[alone[0]]!r} has 1 row: give every class at least 2, or leave it out (a row left out "
            "cannot be predicted by a fit that has not seen its class)"
        )
