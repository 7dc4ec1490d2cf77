"""Where each rule stops a classifier, and logistic regression beside them: left-out and held-out loss, at what cost."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stopwise._support.arrays import Array
from stopwise.estimators import KernelGradientClassifier
from stopwise.views.comparison import Comparison, check_holdout

LOGISTIC = "logistic regression, 5-fold"


@dataclass(frozen=True)
class ClassRow:
    """One method's answer: mean log loss over left-out and held-out rows, and the share of held-out rows it gets."""

    rule: str
    iteration: int | None
    step_sum: float | None
    reason: str | None
    left_out_loss: float | None
    log_loss_holdout: float | None
    accuracy_holdout: float | None
    seconds: float


def compare_classes(X: Array, y: Array, *, holdout: float = 0.0, seed: int = 0, **settings: Any) -> Comparison:
    """Fit by the default rule; then every other rule with the same kernel, and logistic regression.

    `holdout`: the share of every class kept aside to measure losses on. `settings`: of `KernelGradientClassifier`.
    """
    started = time.perf_counter()
    check_holdout(holdout)
    held: tuple[Array, Array] | None = None
    if holdout:
        X, held_X, y, held_y = train_test_split(X, y, test_size=holdout, random_state=seed, stratify=y)
        held = held_X, held_y
    model = KernelGradientClassifier(random_state=seed, **settings)
    rows = [_row("prudent", model, X, y, held)]
    same = clone(model).set_params(kernel=model.kernel_)
    rows.append(_row("loo", same.set_params(rule="loo"), X, y, held))
    if len(model.classes_) == 2:  # the theorem is for two classes
        rows.append(_row("critical", KernelGradientClassifier.as_published(model.kernel_), X, y, held))
    peer = make_pipeline(StandardScaler(), LogisticRegressionCV(scoring="neg_log_loss", max_iter=1000, cv=5))
    rows.append(_row(LOGISTIC, peer, X, y, held))
    seconds = time.perf_counter() - started
    return Comparison(tuple(rows), model, len(y), 0 if held is None else len(held[1]), seconds)


def _row(name: str, model: Any, X: Array, y: Array, held: tuple[Array, Array] | None) -> ClassRow:
    started = time.perf_counter()
    with warnings.catch_warnings():
        if name == LOGISTIC:  # what its own solver and next version say is no concern of a comparison
            warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.perf_counter() - started
    loss, hits = None, None
    if held is not None:
        p = model.predict_proba(held[0])
        loss = float(log_loss(held[1], p, labels=model.classes_))
        hits = float(accuracy_score(held[1], model.classes_[np.argmax(p, axis=1)]))
    stop = getattr(model, "stop_", None)
    if stop is None:
        return ClassRow(name, None, None, None, None, loss, hits, seconds)
    left_out = stop.evidence.criterion if stop.iteration is None else None
    return ClassRow(name, stop.iteration, stop.step_sum, stop.reason.name, left_out, loss, hits, seconds)
