"""The top of the page and its tables: what was fitted, how well it predicts, what decided, what was tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stopwise.estimators.doubts import outlier_lines
from stopwise.estimators.fitted import fitted_of
from stopwise.pages.packing import LONGEST_NAME
from stopwise.pages.payload import MOST_POINTS, ResponsePayload
from stopwise.rules import Reason
from stopwise.rules.explanation import explain
from stopwise.rules.prudent import OVER_CONSTANT
from stopwise.tables import shown
from stopwise.views.curves import Chosen, has_rows, stops
from stopwise.views.effects import level_for
from stopwise.views.facts import Model, describe, length_scale, number, rmse_leave_one_out, rmse_left_out
from stopwise.views.importance import Importance, LeftOutRows, Ranking
from stopwise.views.shown_rows import ShownRows
from stopwise.views.source_columns import SourceColumn

MOST_LINES = 40
"""Lines of any list on the page; how many more there are is said in a number."""
LINE = 600
"""Characters of a sentence that are shown."""
_DESCRIBED = {
    "kernel": "kernel",
    "length_scale": "length scale",
    "noise_std": "noise level (standard deviation)",
    "hilbert_radius": "Hilbert radius",
    "rule": "rule",
    "solver": "solver",
    "loss": "loss",
}
DECIDED_BY = {
    "prudent": "leave-one-out of ridge",
    "loo": "leave-one-out",
    "gcv": "GCV",
    "sure": "SURE",
    "minimax": "worst case",
    "discrepancy": "in sample",
}
"""The curve that each rule reads; others (a stop that was given, rows held out) read none of those drawn."""


_LINEAR = "no step is justified: the estimate is its linear part"


def fitted_to(model: Model, target: str, columns: Sequence[SourceColumn], n_rows: float) -> str:
    """What was fitted, in a sentence."""
    names = [shown(column.name, LONGEST_NAME) for column in columns]
    listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more columns" if len(names) > 6 else "")
    of = f" from {listed}" if names else " from a kernel matrix"
    fitted, rows = fitted_of(model), f"{n_rows:,.10g} row{'' if n_rows == 1 else 's'}"
    return f"{target}{of}: {rows}, {fitted.kernel.name} kernel{'' if fitted.slopes is None else ' and a linear part'}."


def entry(key: str, name: str, value: object, note: str) -> dict[str, Any]:
    """A number at the top of the page: its name, and what it means in small print."""
    return {"key": key, "name": name, "value": value, "note": note}


def common(model: Model, target: str, columns: Sequence[SourceColumn], ranked: Ranking, column: int) -> dict[str, Any]:
    """What is told of every fit: what was fitted, which columns matter, and the table of facts."""
    fitted: Any = fitted_of(model)
    n_rows = fitted.path.n_samples if hasattr(fitted, "path") else fitted.n_samples
    return {
        "target": target,
        "fitted": fitted_to(model, target, columns, n_rows),
        "why": explain(model).splitlines()[column].removeprefix(f"Response {column + 1}: "),
        "features": importance_rows(ranked.found, columns, model),
        "left_out": None if ranked.left is None else len(ranked.left.rows),
        "facts": facts(model, column),
    }


def headline(of: Chosen, column: int, rows: ShownRows | None, left: LeftOutRows | None) -> list[dict[str, Any]]:
    """The numbers at the top: how well left-out rows are predicted, beside the noise and the interval."""
    path = of.path
    error, together = None, fitted_of(of.model).rule.needs_all_pairs
    if has_rows(path):
        told = rmse_left_out(of.model)
        error = None if told is None else np.ravel(told)[of.column]
    each = f"each {'block or group' if together else 'row'} left out in turn"
    if (error is None or not np.isfinite(error)) and left is not None:
        error, each = np.asarray(left.error()), f"a fifth of {len(left.rows):,} rows left out at a time"
    out = []
    if error is not None and np.isfinite(error):
        spread = _spread(of, rows, column)
        if spread:
            out.append(entry("r2", "R² on left-out rows", 1 - float(error / spread) ** 2, each))
        out.append(entry("error", "error on left-out rows", float(error), "root mean square"))
    out.append(entry("noise", "noise level", float(of.sigma * path.scale), "what no fit could predict"))
    level = level_for(of.model)
    if level is not None and rows is not None:
        missed = of.model.uncertainty().calibrations[column].residuals.quantile(level)
        note = f"{level:.0%} of left-out rows lie so near their prediction; each row's own interval may differ"
        out.append(entry("interval", f"{level:.0%} within ±", missed, note))
    return out


def _spread(of: Chosen, rows: ShownRows | None, column: int) -> float:
    """The standard deviation of the response about its mean."""
    if rows is not None:
        y, w = rows.responses[:, column], rows.weights
        return float(np.sqrt(np.average((y - np.average(y, weights=w)) ** 2, weights=w)))
    return float(of.path.scale * np.sqrt(of.path.energy / of.path.n_samples))


def rule_rows(of: Chosen) -> list[dict[str, Any]]:
    """Where each rule would stop on this path, earliest first."""
    path, rows = of.path, []
    for name, stop in {"chosen": of.stop, **stops(of)}.items():
        left_out = rmse_leave_one_out(path, stop.step_sum) if has_rows(path) else None
        rows.append(
            {
                "rule": f"{of.rule} (chosen)" if name == "chosen" else name,
                "iteration": stop.iteration,
                "step_sum": float(stop.step_sum),
                "freedom": float(path.degrees_of_freedom(stop.step_sum)),
                "left_out": None if left_out is None else float(left_out),
                "reason": _LINEAR if stop.reason is Reason.ZERO and path.n_fixed > 1 else stop.reason.value,
            }
        )
    return sorted(rows, key=lambda row: row["step_sum"])


def decision(of: Chosen) -> dict[str, Any]:
    """What the figure of the rule that decided shows: the curve it reads, and the numbers it compared."""
    seen, scale = of.stop.evidence, float(of.path.scale)
    curve = "crossing" if of.stop.reason is Reason.CROSSING else DECIDED_BY.get(of.rule)
    lowest = None if seen.lowest is None or seen.lowest < 0 else scale * float(np.sqrt(seen.lowest))
    within = "" if seen.allowance is None else f": within {number(seen.allowance)} standard errors of the difference"
    told = {
        "crossing": "How much noise the fit can absorb against how much it may. To the right of where the two cross, "
        "steps add more noise than they remove bias.",
        "leave-one-out of ridge": "The error on left-out rows along the path. "
        + (
            "It rises from the constant fit on and is nowhere later clearly below that fit's: by "
            f"{OVER_CONSTANT:g} standard errors of the difference."
            if of.stop.constant_stood
            else f"The stop is the earliest point that the data cannot tell from the smallest{within}."
        ),
        "in sample": "The error in sample along the path. The stop is where it has come down to the noise level.",
        None: f"The rule {of.rule} reads no curve of this path; the error on left-out rows is drawn for comparison.",
    }
    return {
        "curve": curve,
        "lowest": lowest,
        "lowest_step_sum": seen.lowest_step_sum,
        "words": told.get(
            curve, f"The estimate that the rule {of.rule} makes of the error. The stop is where it is smallest."
        ),
    }


def notes(of: Chosen, payload: ResponsePayload) -> list[str]:
    """What the page leaves out, and rows that stand apart, in words."""
    out, shared = [], payload.shared
    if shared.n_rows > MOST_POINTS:
        count = shared.points.size
        out.append(f"{count:,} of {shared.n_rows:,} rows are drawn, evenly spaced; numbers are of all rows.")
    if not of.path.spectrum.complete:
        out.append("The solver knows the path around its stop: the slider ends where that knowledge does.")
    return [*out, *outlier_lines(of.path, of.stop, fitted_of(of.model).kept_rows)] if has_rows(of.path) else out


def facts(model: Model, column: int = 0) -> list[tuple[str, str]]:
    """The fit in a table."""
    known, out = describe(model), []
    for key, label in _DESCRIBED.items():
        value = known.get(key)
        if value is None and key in ("noise_std", "hilbert_radius", "loss"):
            continue
        if isinstance(value, list) and key in ("noise_std", "hilbert_radius"):
            value = value[column]
        out.append((label, shown(number(value, missing="-"), 300)))
    return [*out, ("estimator", shown(" ".join(repr(model).split()), LINE))]


def importance_rows(
    found: Sequence[Importance], columns: Sequence[SourceColumn], model: Model
) -> dict[str, Any] | None:
    """The table of columns: how much each matters, and the length scale of the kernel along it."""
    if not columns:
        return None
    table = getattr(model.selection_, "features", None) or _given_scales(model)
    scales = {row["feature"]: row for row in table}
    listed = found or [Importance(j, float("nan"), float("nan")) for j in range(len(columns))]
    largest = max((each.rise for each in listed if each.rise > 0), default=1.0)
    rows = []
    for each in listed[:MOST_LINES]:
        column = columns[each.column]
        seen = [scales[j] for j in column.features if j in scales]
        known = sorted({float(row["length_scale"]) for row in seen if row.get("length_scale") is not None})
        rows.append(
            {
                "name": shown(column.name, LONGEST_NAME),
                "rise": each.rise if found else None,
                "deviation": each.deviation if found else None,
                "share": max(each.rise, 0.0) / largest if found else 0.0,
                "scale": known or None,
                "why": seen[0].get("why") if seen and not known else None,
            }
        )
    return {"rows": rows, "more": max(len(listed) - MOST_LINES, 0), "ranked": bool(found)}


def _given_scales(model: Model) -> list[dict[str, Any]]:
    """The length scale along each feature of a kernel that was given."""
    scale, count = length_scale(model.kernel_), fitted_of(model).n_features
    each = scale if isinstance(scale, list) else [scale] * count
    whole = len(each) == count and all(isinstance(value, float) for value in each)
    return [{"feature": j, "length_scale": value} for j, value in enumerate(each)] if whole else []


def selection_rows(model: Model) -> dict[str, Any] | None:
    """What "auto" tried."""
    table = model.selection_
    if table is None or not hasattr(table, "reason"):
        return None
    return {
        "reason": shown(table.reason, LINE),
        "rows": list(table)[:MOST_LINES],
        "more": max(len(table) - MOST_LINES, 0),
    }
