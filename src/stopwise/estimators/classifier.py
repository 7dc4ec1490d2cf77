"""Classes by early-stopped descent: labels of any type, probabilities, and a stop read off the data."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from stopwise._support.arrays import Array
from stopwise._support.threads import thread_count
from stopwise._support.torch import on_host
from stopwise.estimators.doubts import too_few_rows, warn_of_doubts
from stopwise.estimators.fitted import fitted_of, tell_of_extrapolation
from stopwise.estimators.intake import Intake, check_kind, names_of, take_covariates, take_rows
from stopwise.estimators.learned import LearnedState, learned, published_kernel
from stopwise.estimators.loss_fit import fit_under_loss
from stopwise.estimators.prediction.host import predict_rows
from stopwise.losses import Loss
from stopwise.rules import Critical


@dataclass(eq=False, repr=False)
class KernelGradientClassifier(LearnedState, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel classification, stopped at a time read off the data.

    The fit minimises the loss plus |f|^2 / (2 step_sum) along the clock; it stops at the earliest reading whose
    left-out deviance is within half a standard error of the smallest.

    Parameters
    ----------
    loss : "logistic", "exponential" or a `sw.losses` instance
        Of two classes; of more the logistic loss is the softmax.
    rule : rule or name
        "auto" (`sw.rules.Prudent`), "loo", `Fixed(step_sum=...)`, or `Critical` for the published path.
    class_weight : dict, "balanced" or None
        What an observation of each class counts for, times `sample_weight`; only ratios count.
    n_landmarks : int or "auto"
        How many rows stand for all; "auto": every one of up to 400, of more ten for each effective dimension.
    kernel, relevance, fit_intercept, n_jobs, random_state, verbose
        As in `KernelGradientRegressor`; "auto" chooses kernel and length scales by the left-out deviance.

    Attributes
    ----------
    classes_ : the labels, sorted. stop_ : where it stopped and why. kernel_, selection_ : what was chosen, from what.
    calibration_ : slope and reliability of left-out predictions, and the temperature where one was needed.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LearnedState._parameter_constraints,
        "loss": "no_validation",
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _: KW_ONLY
    loss: str | Loss = "logistic"
    class_weight: dict[Any, float] | str | None = None

    @classmethod
    def as_published(cls, kernel: object, *, loss: str | Loss = "logistic", **settings: Any) -> Self:
        """Kernel boosting as in Wei, Yang & Wainwright: functional descent from zero, unit ball, their stop."""
        options = {"rule": Critical(hilbert_radius=1.0), "fit_intercept": False, "relevance": False, **settings}
        return cls(published_kernel(kernel), loss=loss, **options)

    def fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Fit to labels of any type.

        Of `sample_weight` only ratios count: a weight of 2 is the row twice, 0 is absence, and a row that was written
        down twice is one observation of twice the weight (see "Weights, copies and missing values" in the docs).
        """
        self._validate_params()
        thread_count(self.n_jobs)
        classes, intake = self._take(X, y, sample_weight)
        fitted = fit_under_loss(self, intake, classes)
        warn_of_doubts(too_few_rows(fitted.selection))
        self._fitted = fitted
        return self

    def _take(self, X: object, y: object, sample_weight: object) -> tuple[Array, Intake]:
        """The classes that count, and the rows with their codes as responses."""
        classes, codes = np.unique(take_labels(y), return_inverse=True)
        intake = take_rows(self, on_host(X), codes.astype(np.float64), on_host(sample_weight))
        totals = np.bincount(codes, intake.weights)
        intake = intake.observations(square=intake.is_gram(self.kernel_parameter()))
        counted, codes = np.unique(intake.responses[:, 0].astype(int), return_inverse=True)
        classes, weights = classes[counted], intake.weights
        check_classes(classes, np.bincount(codes, intake.counts), totals[counted])
        if self.class_weight is not None:
            weights = np.ones(len(codes)) if weights is None else weights
            weights = weights * self._each_class(classes, np.bincount(codes, weights))[codes]
        responses = codes.astype(np.float64)[:, None]
        return classes, replace(intake, responses=responses, weights=weights, response_names=names_of(y))

    def _each_class(self, classes: Array, totals: Array) -> Array:
        """What `class_weight` makes an observation of each class count for, given the classes' total weights: the sum
        over all observations stays as it is."""
        each = 1 / totals
        if self.class_weight != "balanced":
            each = compute_class_weight(self.class_weight, classes=classes, y=classes)
        if not np.all((each > 0) & np.isfinite(each)):
            raise ValueError(
                f"class_weight must be finite and above 0 for every class, got {self.class_weight}: leave out the rows "
                "of a class that should not count"
            )
        return cast(Array, each * (totals.sum() / (each @ totals)))

    def _values(self, X: object) -> Array:
        """f at new rows, (n, q)."""
        fitted = fitted_of(self)
        rows = take_covariates(self, fitted, on_host(X))
        tell_of_extrapolation(self, fitted, rows)
        return predict_rows(fitted, rows, self.n_jobs)

    def decision_function(self, X: object) -> Array:
        """Log odds of the second class, (n,); of more classes one score each, (n, classes), that sum to zero."""
        return cast(Array, self.loss_.scores(self._values(X)))

    def predict_proba(self, X: object) -> Array:
        """Class probabilities, (n, classes), in the order of `classes_`."""
        return fitted_of(self).natural(self._values(X))

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

    classes_ = learned(lambda f: f.classes, "The labels, sorted.")
    dual_coef_ = learned(lambda f: f.dual_coef, "The weights of the rows that predictions weigh.")
    intercept_ = learned(lambda f: f.intercept, "The constant of the scores.")
    calibration_ = learned(lambda f: f.calibration, "Calibration of left-out predictions.")


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


def check_classes(classes: Array, counts: Array, totals: Array) -> None:
    """Two classes at least, and two observations of each (or one that was given twice)."""
    if len(classes) < 2:
        raise ValueError(f"a classifier needs at least 2 classes, got one class, {classes.tolist()[0]!r}: look at y")
    alone = np.flatnonzero((counts < 2) & (totals < 2))
    if alone.size:
        raise ValueError(
            f"the class {classes[alone[0]]!r} has 1 row: give every class at least 2, or leave it out (a row left out "
            "cannot be predicted by a fit that has not seen its class)"
        )
