"""From a fitted model to the page: facts as text, numbers for the slider, and the template around them."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache, partial
from importlib import resources
from typing import Any

import jinja2

from stopwise._support.arrays import ArrayLike
from stopwise.estimators.doubts import outlier_lines
from stopwise.estimators.fitted import fitted_of
from stopwise.io.model import versions
from stopwise.pages.payload import MOST_PAIRS, MOST_POINTS, Payload, as_script
from stopwise.rules import Reason
from stopwise.rules.explanation import explain
from stopwise.tables import shown
from stopwise.views.curves import Chosen, chosen, has_rows, stops
from stopwise.views.facts import Model, describe, number, relevance, rmse_leave_one_out, stops_of

_MOST_LINES = 40
"""Lines of any list on the page; how many more there are is said in a number."""
_NAME, _LINE = 80, 600
"""Characters of a name, and of a sentence, that are shown: hostile tables have longer ones."""
_DESCRIBED = {
    "kernel": "kernel",
    "length_scale": "length scale",
    "noise_std": "noise level (standard deviation)",
    "hilbert_radius": "Hilbert radius",
    "rule": "rule",
    "solver": "solver",
}


def render(
    model: Model,
    *,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    target: str | None = None,
    command: str | None = None,
    warnings: Sequence[str] = (),
) -> str:
    """The report of a fitted model as HTML."""
    of, whole = chosen(model), model
    model = of.model
    names = [shown(name, _NAME) for name in _names(model)]
    payload = Payload(of, X, y, shown("the response" if target is None else target, _NAME), names)
    data = payload.data()
    scripts = [_asset("chart.js"), _asset("report.js")]
    return (
        _environment()
        .from_string(_asset("page.html"))
        .render(
            style=_asset("style.css"),
            scripts=scripts,
            policy=" ".join(f"'sha256-{_digest(text)}'" for text in scripts),
            data=as_script(data),
            profiles=len(data["profiles"] or ()),
            target=payload.target,
            why=explain(whole).splitlines(),
            crossed=of.stop.reason is Reason.CROSSING,
            decided_by=of.rule,
            facts=_facts(of, payload),
            notes=_notes(of, payload, len(stops_of(whole))),
            rules=_rules(of),
            features=_features(model, names),
            selection=_selection(model),
            warnings=[shown(line, _LINE) for line in list(warnings)[:_MOST_LINES]],
            more_warnings=max(len(warnings) - _MOST_LINES, 0),
            versions=versions(),
            command=None if command is None else shown(command, 4000),
        )
    )


@cache
def _asset(name: str) -> str:
    return (resources.files("stopwise.pages") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["number"] = partial(number, missing="-")
    return made


def _names(model: Model) -> list[str]:
    fitted = fitted_of(model)
    given = fitted.feature_names
    return [f"feature {j + 1}" for j in range(fitted.n_features)] if given is None else [str(v) for v in given]


def _facts(of: Chosen, payload: Payload) -> list[tuple[str, str]]:
    facts = describe(of.model)
    count = fitted_of(of.model).n_features
    out = [("data", f"{of.path.n_samples:,.10g} rows, {count:,} feature{'' if count == 1 else 's'}")]
    for key, label in _DESCRIBED.items():
        value = facts[key]
        several = isinstance(value, list) and key in ("noise_std", "hilbert_radius")
        out.append((label, shown(number(value[0] if several else value, missing="-"), 300)))
    return out


def _notes(of: Chosen, payload: Payload, responses: int) -> list[str]:
    """What the page leaves out, in words."""
    out = [f"The fit has {responses} responses; this page shows the first."] if responses > 1 else []
    if payload.n_rows > MOST_POINTS:
        count = payload.points.size
        out.append(f"{count:,} of {payload.n_rows:,} rows are drawn, evenly spaced; numbers are of all rows.")
    total = int((of.path.spectrum.eigenvalues > 1e-300).sum())
    if total > MOST_PAIRS:
        out.append(
            f"Curves use the {MOST_PAIRS} leading of {total:,} eigenpairs, which leaves out "
            f"{number(payload.omitted(), 2)} (root mean square) of the fit at the chosen stop, and more far beyond it."
        )
    return [*out, *outlier_lines(of.path, of.stop, fitted_of(of.model).kept_rows)] if has_rows(of.path) else out


def _rules(of: Chosen) -> list[dict[str, Any]]:
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
                "reason": stop.reason.value,
            }
        )
    return sorted(rows, key=lambda row: row["step_sum"])


def _features(model: Model, names: list[str]) -> dict[str, Any] | None:
    """Length scale and relevance of every feature, the most relevant first, and how many were left off."""
    weights = relevance(model)
    table = getattr(model.selection_, "features", None)
    rows: list[dict[str, Any]] = [{"name": name, "relevance": None, "scale": None, "why": None} for name in names]
    for row in table or ():
        rows[row["feature"]] |= {"scale": row.get("length_scale"), "why": row.get("why")}
    for j, weight in enumerate(weights or ()):
        rows[j]["relevance"] = weight
    if not table and weights is None:
        return None
    rows.sort(key=lambda row: -(row["relevance"] or 0.0))
    return {"rows": rows[:_MOST_LINES], "more": max(len(rows) - _MOST_LINES, 0), "ranked": weights is not None}


def _selection(model: Model) -> dict[str, Any] | None:
    table = model.selection_
    if table is None or not hasattr(table, "reason"):
        return None
    return {
        "reason": shown(table.reason, _LINE),
        "rows": list(table)[:_MOST_LINES],
        "more": max(len(table) - _MOST_LINES, 0),
    }
