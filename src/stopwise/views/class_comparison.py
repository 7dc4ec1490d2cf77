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
from stopwise.rules import as_rule
from stopwise.views.compared import Comparison, as_numbers

LOGISTIC = "logistic regression, 5-fold"


@dataclass(frozen=True)
class ClassRow:
    """One method's answer: mean log loss over left-out and held-out rows, and the share of held-out rows it gets."""

    rule: str
    iteration: int | None = None
    step_sum: float | None = None
    reason: str | None = None
    left_out_loss: float | None = None
    log_loss_holdout: float | None = None
    accuracy_holdout: float | None = None
    seconds: float = 0.0


def compare_classes(X: Any, y: Array, *, holdout: float = 0.0, seed: int = 0, **settings: Any) -> Comparison:
    """Fit by the default rule; then every other rule with the same kernel, and logistic regression.

    `holdout`: the share of every class kept aside to measure losses on. `settings`: of `KernelGradientClassifier`.
    """
    started = time.perf_counter()
    kept, held = np.arange(len(y)), np.arange(0)
    if holdout:
        kept, held = train_test_split(kept, test_size=holdout, random_state=seed, stratify=y)
    X = as_numbers(X, y, kept)
    X, held_X, y, held_y = X[kept], X[held], y[kept], y[held]

    def judge(name: str, model: Any) -> ClassRow:
        begun = time.perf_counter()
        with warnings.catch_warnings():
            if name == LOGISTIC:  # what its own solver and next version say is no concern of a comparison
                warnings.simplefilter("ignore")
            model.fit(X, y)
        found: dict[str, Any] = {"seconds": time.perf_counter() - begun}
        if len(held_y):
            p, labels = model.predict_proba(held_X), model.classes_
            found["log_loss_holdout"] = float(log_loss(held_y, p, labels=labels))
            found["accuracy_holdout"] = float(accuracy_score(held_y, labels[np.argmax(p, axis=1)]))
        if (stop := getattr(model, "stop_", None)) is not None:
            found |= {"iteration": stop.iteration, "step_sum": float(stop.step_sum), "reason": stop.reason.name}
            found["left_out_loss"] = stop.evidence.criterion
        return ClassRow(name, **found)

    model = KernelGradientClassifier(random_state=seed, **settings)
    rules, own = {name: as_rule(name) for name in ("prudent", "loo")}, as_rule(model.rule)
    given = next((name for name, rule in rules.items() if rule == own), f"{own.name}, given")
    rows = [judge(given, model)]
    rows += [judge(n, clone(model).set_params(kernel=model.kernel_, rule=r)) for n, r in rules.items() if n != given]
    if len(model.classes_) == 2:  # the theorem is for two classes
        rows.append(judge("critical", KernelGradientClassifier.as_published(model.kernel_)))
    peer = LogisticRegressionCV(scoring="neg_log_loss", max_iter=1000, cv=5)
    rows.append(judge(LOGISTIC, make_pipeline(StandardScaler(), peer)))
    return Comparison(tuple(rows), model, len(y), len(held_y), time.perf_counter() - started)
