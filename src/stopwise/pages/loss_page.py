"""The report of a fit under another loss than squares: classes, counts, quantiles, outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from stopwise.estimators.fitted import fitted_of
from stopwise.estimators.loss_fit import LossFitted
from stopwise.pages import summary
from stopwise.pages.packing import effect_spec, finite, heat_spec, packed
from stopwise.pages.payload import MOST_POINTS
from stopwise.rules.explanation import explain
from stopwise.tables import shown
from stopwise.views.effects import MOST_EFFECTS, effect, strongest_pair
from stopwise.views.facts import Model
from stopwise.views.importance import LeftOutRows, Ranking, ranking
from stopwise.views.left_out_classes import LeftOutClasses, classes_along_clock, left_out_classes
from stopwise.views.shown_rows import ShownRows
from stopwise.views.source_columns import SourceColumn, columns_of

_MOST_CLASSES = 20
"""Classes in the confusion table and on the menu."""


def loss_parts(model: Model, rows: ShownRows | None, targets: list[str]) -> dict[str, Any]:
    """What the template of a fit under a loss fills in."""
    fitted = cast(LossFitted, fitted_of(model))
    columns = columns_of(model)
    ranked = ranking(model, rows, columns)
    classes = None if fitted.classes is None else [shown(str(label), 40) for label in fitted.classes]
    told = left_out_classes(model, ranked.left) if ranked.left is not None and classes is not None else None
    block = {
        "target": targets[0],
        "fitted": summary.fitted_to(model, targets[0], columns, fitted.n_samples),
        "why": explain(model),
        "headline": _headline(fitted, ranked.left, told),
        "features": summary.importance_rows(ranked.found, columns, model),
        "left_out": None if ranked.left is None else len(ranked.left.rows),
        "facts": summary.facts(model),
        "calibration": None if fitted.calibration is None else str(fitted.calibration),
        "confusion": None if told is None or classes is None else _confusion(told, classes),
    }
    clock = _clock(model, rows, fitted)
    block["clock"] = clock is not None
    data = {
        "target": targets[0],
        "classes": None if classes is None else classes[:_MOST_CLASSES],
        "loss": fitted.loss.name,
        "stop": float(fitted.stops[0].step_sum),
        "left_out": None if ranked.left is None else _left_out(ranked.left, told, fitted),
        "reliability": None if told is None else [finite(part) for part in told.reliability],
        "clock": clock,
        **_effects(model, rows, columns, ranked),
    }
    return {"data": data, "block": block, "classes": classes}


def _headline(fitted: LossFitted, left: LeftOutRows | None, told: LeftOutClasses | None) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if left is None:
        return out
    each = f"a fifth of {len(left.rows):,} rows left out at a time"
    if told is not None:
        note = f"{told.commonest:.1%} is the commonest class"
        out.append({"key": "accuracy", "name": "right on left-out rows", "value": f"{told.accuracy:.1%}", "note": note})
    out.append(
        {"key": "loss", "name": f"{fitted.loss.name} loss of a left-out row", "value": left.error(), "note": each}
    )
    calibration = fitted.calibration
    if told is not None and calibration is not None:
        note = "1: probabilities mean what they say; below 1: too sure"
        out.append({"key": "slope", "name": "calibration slope", "value": calibration.slope, "note": note})
    if told is None:
        gaps = left.rows.responses[:, 0] - fitted.loss.natural(left.values)
        error = float(np.average(np.abs(gaps), weights=left.rows.weights))
        out.append({"key": "absolute", "name": "error on left-out rows", "value": error, "note": "mean absolute"})
        below = float(np.average(gaps <= 0, weights=left.rows.weights))
        out.append({"key": "below", "name": "left-out rows below the fit", "value": f"{below:.1%}", "note": each})
    return out


def _confusion(told: LeftOutClasses, classes: Sequence[str]) -> dict[str, Any]:
    table = told.confusion[:_MOST_CLASSES, :_MOST_CLASSES]
    return {
        "classes": classes[:_MOST_CLASSES],
        "rows": [[float(value) for value in row] for row in table],
        "more": max(len(classes) - _MOST_CLASSES, 0),
    }


def _left_out(left: LeftOutRows, told: LeftOutClasses | None, fitted: LossFitted) -> dict[str, Any] | None:
    """What the page computes with: probabilities of the second of two classes, or predictions beside observations."""
    if told is not None:
        if told.probability.shape[1] != 2:
            return None
        return {"p": packed(told.probability[:, 1]), "code": packed(told.codes), "weight": packed(told.weights)}
    some = np.linspace(0, len(left.rows) - 1, min(len(left.rows), MOST_POINTS)).round().astype(int)
    return {"predicted": packed(fitted.loss.natural(left.values)[some]), "y": packed(left.rows.responses[some, 0])}


def _clock(model: Model, rows: ShownRows | None, fitted: LossFitted) -> dict[str, Any] | None:
    """What the slider shows at readings of the clock, for classes stopped by the loss of left-out rows."""
    seen = fitted.stops[0].evidence
    if rows is None or fitted.classes is None or seen.lowest is None or len(rows) < 2:
        return None
    found = [each for each in classes_along_clock(model, rows) if np.isfinite(each.loss)]
    at = np.array([each.step_sum for each in found])
    return {
        "at": finite(at),
        "loss": finite(np.array([each.loss for each in found])),
        "accuracy": [each.told.accuracy for each in found],
        "certainty": [each.told.certainty for each in found],
        "reliability": [[finite(part) for part in each.told.reliability] for each in found],
        "home": int(np.argmin(np.abs(at - fitted.stops[0].step_sum))),
        "lowest": seen.lowest,
        "lowest_step_sum": seen.lowest_step_sum,
    }


def _effects(model: Model, rows: ShownRows | None, columns: Sequence[SourceColumn], ranked: Ranking) -> dict[str, Any]:
    if rows is None:
        return {"effects": [], "heat": None}
    effects = [effect_spec(effect(model, rows, columns[j])) for j in ranked.leading(MOST_EFFECTS)]
    found = strongest_pair(model, rows, columns, ranked.strong)
    heat = [] if found is None else [heat_spec(found, j) for j in range(min(found.means.shape[2], _MOST_CLASSES))]
    return {"effects": effects, "heat": heat or None}
