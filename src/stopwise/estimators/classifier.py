"""Classes by early-stopped descent under the logistic loss: labels of any type, probabilities, a stop read off the data."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_threads, limit_of
from stopwise.estimators.intake import check_kind, check_weights, numbers_only, take_covariates
from stopwise.estimators.loss_fit import fit_loss
from stopwise.estimators.prediction.host import predict_in_tiles
from stopwise.engine.solvers.loss_rows import LossRows, merge_copies
from stopwise.kernels import Kernel, Precomputed, as_kernel
from stopwise.losses import Logistic, Loss, Softmax, as_loss
from stopwise.rules import as_rule
from stopwise.selection.left_out_loss import choose_for_loss


class KernelGradientClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel classification by early-stopped descent under a loss for classes."""

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        loss: Any = "logistic",
        rule: Any = "auto",
        relevance: Any = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_landmarks: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.rule = rule
        self.relevance = relevance
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X = validate_data(self, X, dtype=np.float64)
        classes, codes = np.unique(y, return_inverse=True)
        w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
        loss = Logistic() if len(classes) == 2 else Softmax(len(classes))
        rows = merge_copies(X, codes.astype(float), w)
        onehot = np.eye(len(classes))[rows.y.astype(int)]
        targets = onehot[:, 1:] if len(classes) == 2 else onehot
        given = None if self.kernel == "auto" else as_kernel(self.kernel)
        choice = choose_for_loss(rows, loss, targets, given, self.relevance, self.fit_intercept, 0)
        fit = fit_loss(rows, loss, choice, as_rule(self.rule), {"n_landmarks": None, "seed": 0, "intercept": self.fit_intercept})
        self.classes_, self.fit_, self.kernel_, self.stop_, self.selection_ = classes, fit, choice.kernel, fit.stop, choice.table
        return self

    def predict_proba(self, X: Any) -> Array:
        fit = self.fit_
        X = X if fit.choice.features is None else X[:, fit.choice.features]
        f = predict_in_tiles(self.kernel_, X, fit.points, fit.dual_coef) + fit.intercept
        return fit.loss.natural(f)
