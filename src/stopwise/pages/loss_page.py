"""The report of a fit under another loss than squares: classes, counts, quantiles, outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import evenly
from stopwise.copies import find_observations
from stopwise.engine.loss_fits.loss_minimiser import Minimiser, minimise
from stopwise.engine.loss_fits.loss_path import walk
from stopwise.engine.loss_fits.loss_rows import LossRows, kernel_problem
from stopwise.estimators.calibration import LeftOutClasses
from stopwise.estimators.fitted import fitted_of
from stopwise.estimators.loss_fit import LossFitted
from stopwise.pages.packing import effect_spec, finite, heat_spec, packed
from stopwise.pages.payload import MOST_POINTS
from stopwise.pages.summary import common, entry
from stopwise.tables import shown
from stopwise.views.effects import MOST_EFFECTS, effect, strongest_pair
from stopwise.views.facts import Model
from stopwise.views.importance import LeftOutRows, Ranking, ranking
from stopwise.views.shown_rows import ShownRows
from stopwise.views.source_columns import SourceColumn, columns_of

_MOST_CLASSES = 20
"""Classes in the confusion table and on the menu."""
_CLOCK_ROWS = 1_000
"""Rows from which the loss along the clock is drawn."""


def loss_parts(model: Model, rows: ShownRows | None, targets: list[str]) -> dict[str, Any]:
    """What the template of a fit under a loss fills in."""
    fitted, columns = cast(LossFitted, fitted_of(model)), columns_of(model)
    ranked = ranking(model, rows, columns)
    left, clock, told = ranked.left, _clock(model, rows, fitted), None
    classes = None if fitted.classes is None else [shown(str(label), 40) for label in fitted.classes]
    listed, confusion = None if classes is None else classes[:_MOST_CLASSES], None
    if left is not None and classes is not None:
        told = LeftOutClasses(left.rows.responses[:, 0].astype(int), left.rows.weights, fitted.natural(left.values))
        table = told.confusion[:_MOST_CLASSES, :_MOST_CLASSES].tolist()
        confusion = {"classes": listed, "rows": table, "more": max(len(classes) - _MOST_CLASSES, 0)}
    block = common(model, targets[0], columns, ranked, 0) | {
        "headline": [] if left is None else _headline(fitted, left, told),
        "calibration": None if fitted.calibration is None else str(fitted.calibration),
        "confusion": confusion,
        "clock": clock is not None,
    }
    data = {
        "target": targets[0],
        "classes": listed,
        "loss": fitted.loss.name,
        "stop": float(fitted.stops[0].step_sum),
        "left_out": None if left is None else _left_out(left, told, fitted),
        "reliability": None if told is None else [finite(part) for part in told.reliability],
        "clock": clock,
        **_effects(model, rows, columns, ranked),
    }
    return {"data": data, "block": block, "classes": classes, "heat": data["heat"] is not None}


def _headline(fitted: LossFitted, left: LeftOutRows, told: LeftOutClasses | None) -> list[dict[str, Any]]:
    each = f"a fifth of {len(left.rows):,} rows left out at a time"
    loss = entry("loss", f"{fitted.loss.name} loss of a left-out row", left.error(), each)
    if told is None:
        gaps, weights = left.rows.responses[:, 0] - fitted.loss.natural(left.values), left.rows.weights
        error, below = (float(np.average(part, weights=weights)) for part in (np.abs(gaps), gaps <= 0))
        absolute = entry("absolute", "error on left-out rows", error, "mean absolute")
        return [loss, absolute, entry("below", "left-out rows below the fit", f"{below:.1%}", each)]
    commonest = f"{told.commonest:.1%} is the commonest class"
    out = [entry("accuracy", "right on left-out rows", f"{told.accuracy:.1%}", commonest), loss]
    if fitted.calibration is not None:
        note = "1: probabilities mean what they say; below 1: too sure"
        out.append(entry("slope", "calibration slope", fitted.calibration.slope, note))
    return out


def _left_out(left: LeftOutRows, told: LeftOutClasses | None, fitted: LossFitted) -> dict[str, Any] | None:
    """What the page computes with: probabilities of the second of two classes, or predictions beside observations."""
    if told is not None:
        if told.probability.shape[1] != 2:
            return None
        return {"p": packed(told.probability[:, 1]), "code": packed(told.codes), "weight": packed(told.weights)}
    some = evenly(len(left.rows), MOST_POINTS)
    return {"predicted": packed(fitted.loss.natural(left.values)[some]), "y": packed(left.rows.responses[some, 0])}


def _clock(model: Model, rows: ShownRows | None, fitted: LossFitted) -> dict[str, Any] | None:
    """What the slider shows at readings of the clock, for classes stopped by the loss of left-out rows."""
    stop = fitted.stops[0]
    if rows is None or fitted.classes is None or stop.evidence.lowest is None or len(rows) < 2:
        return None
    found = [(at, told) for at, told in _along_clock(model, rows, fitted) if np.isfinite(at.left_out_mean)]
    return {
        "at": finite([at.step_sum for at, _ in found]),
        "loss": finite([at.left_out_mean for at, _ in found]),
        "accuracy": [told.accuracy for _, told in found],
        "certainty": [told.certainty for _, told in found],
        "reliability": [[finite(part) for part in told.reliability] for _, told in found],
        "home": int(np.argmin([abs(at.step_sum - stop.step_sum) for at, _ in found])),
        "lowest": stop.evidence.lowest,
        "lowest_step_sum": stop.evidence.lowest_step_sum,
    }


def _along_clock(model: Model, rows: ShownRows, fitted: LossFitted) -> list[tuple[Minimiser, LeftOutClasses]]:
    """Fits with the model's kernel at readings in order, its own stop among them, each row left out by formula."""
    some = rows.take(np.sort(np.random.default_rng(0).permutation(len(rows))[:_CLOCK_ROWS]))
    used = fitted.to_features(some.features)
    found = find_observations(used, some.responses, some.weights)
    weights = np.ones(len(found.first)) if found.weights is None else found.weights
    merged = LossRows(used[found.first], some.responses[found.first, 0], weights, found.counts).in_order()
    count = model.n_landmarks if isinstance(model.n_landmarks, int) else None
    path = walk(kernel_problem(fitted.kernel, merged, fitted.loss, count, 0, model.fit_intercept))
    stop = minimise(path.chosen.problem, float(fitted.stops[0].step_sum), path.chosen)
    others = [each for each in path.readings if each.step_sum > 0 and each.step_sum != stop.step_sum]
    codes = merged.y.astype(int)
    return [
        (at, LeftOutClasses(codes, merged.weights, fitted.loss.natural(at.known_left_out)))
        for at in sorted([*others, stop], key=lambda each: each.step_sum)
    ]


def _effects(model: Model, rows: ShownRows | None, columns: Sequence[SourceColumn], ranked: Ranking) -> dict[str, Any]:
    if rows is None:
        return {"effects": [], "heat": None}
    effects = [effect_spec(effect(model, rows, columns[j])) for j in ranked.leading(MOST_EFFECTS)]
    found = strongest_pair(model, rows, columns, ranked.strong)
    heat = [] if found is None else [heat_spec(found, j) for j in range(min(found.means.shape[2], _MOST_CLASSES))]
    return {"effects": effects, "heat": heat or None}
