"""From a fitted model to the page: facts as text, numbers for the slider, and the template around them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from typing import Any

import jinja2
import numpy as np

from stopwise.estimators.fitted import fitted_of
from stopwise.estimators.intake import names_of
from stopwise.estimators.loss_fit import LossFitted
from stopwise.estimators.prediction.response_groups import groups_of, parts_of, response_names
from stopwise.io.model import versions
from stopwise.pages import summary
from stopwise.pages.loss_page import loss_parts
from stopwise.pages.packing import LONGEST_NAME, as_script
from stopwise.pages.payload import ResponsePayload, SharedPayload
from stopwise.rules.explanation import last_step, stops_of
from stopwise.tables import TableEncoder, shown
from stopwise.views.curves import chosen
from stopwise.views.effects import MOST_EFFECTS, effect, level_for, strongest_pair
from stopwise.views.facts import Model, number
from stopwise.views.importance import Ranking, ranking
from stopwise.views.shown_rows import ShownRows, rows_of
from stopwise.views.source_columns import SourceColumn, columns_of

MOST_RESPONSES = 12
"""Responses that are on the menu: each adds up to a few hundred kilobytes."""


def render(
    model: Model,
    *,
    X: object = None,
    y: object = None,
    target: str | Sequence[str] | None = None,
    command: str | None = None,
    warnings: Sequence[str] = (),
) -> str:
    """The report of a fitted model, or of the last step of a pipeline, as HTML."""
    if hasattr(model, "steps"):
        model, X = _last_step_of(model, X)
    targets = target_names(target, y, response_names(model), len(stops_of(model)))
    under_loss = groups_of(model) is None and isinstance(fitted_of(model), LossFitted)
    parts = loss_parts(model, rows_of(model, X, y), targets) if under_loss else _all_parts(model, X, y, targets)
    scripts = [_asset("chart.js"), _asset("classes.js" if under_loss else "report.js")]
    digests = [hashlib.sha256(text.encode()).digest() for text in scripts]
    page = _environment().get_template("classes.html" if under_loss else "page.html")
    return page.render(
        style=_asset("style.css"),
        scripts=scripts,
        policy=" ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests),
        targets=targets,
        selections=_selections(model),
        warnings=[shown(line, summary.LINE) for line in list(warnings)[: summary.MOST_LINES]],
        more_warnings=max(len(warnings) - summary.MOST_LINES, 0),
        versions=versions(),
        command=None if command is None else shown(command, 4000),
        **(parts | {"data": as_script(parts["data"])}),
    )


def _last_step_of(pipeline: Any, X: object) -> tuple[Any, object]:
    """The estimator of a pipeline, and X as it sees it.

    After nothing but a `TableEncoder` it is the fit to the frame itself, and is shown as that.
    """
    model, before = last_step(pipeline), pipeline[:-1]
    stops_of(model)  # an unfitted one says so
    encoder = before.steps[0][1] if len(before.steps) == 1 else None
    if not isinstance(encoder, TableEncoder) or encoder.recipe_ is None or groups_of(model) is not None:
        return model, None if X is None else before.transform(X)
    framed = copy(model)
    framed._fitted = replace(
        fitted_of(model),
        columns_in=tuple(encoder.feature_names_in_),
        feature_names=encoder.get_feature_names_out(),
        recipe=encoder.recipe_,
    )
    return framed, X


def target_names(target: str | Sequence[str] | None, y: object, known: Sequence[str] | None, count: int) -> list[str]:
    """What the responses are called: as given, as y is, as it was at the fit, or by number."""
    named = (names_of(y) or known) if target is None else target
    names = [named] if isinstance(named, str) else list(named or ())
    if len(names) != count:
        first = names[0] if names else "response"
        names = [names[0] if names else "the response"] if count == 1 else [f"{first} {j + 1}" for j in range(count)]
    return [shown(name, LONGEST_NAME) for name in names]


@cache
def _asset(name: str) -> str:
    return (resources.files("stopwise.pages") / "assets" / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = partial(number, missing="-")
    return made


def _selections(model: Model) -> list[tuple[int | None, dict[str, Any] | None]]:
    """What was tried, with the response that it is for (None: all)."""
    groups = groups_of(model)
    if groups is None:
        return [(None, summary.selection_rows(model))]
    tables = groups.for_columns([summary.selection_rows(part) for part in parts_of(model, groups)])
    return list(enumerate(tables[:MOST_RESPONSES]))


def _all_parts(model: Model, X: object, y: object, targets: list[str]) -> dict[str, Any]:
    """What the template of fits with paths fills in: one fit, or one for each group of responses.

    Responses of another group than the first bring their own shared part of the data.
    """
    groups, shown_ones = groups_of(model), range(min(len(targets), MOST_RESPONSES))
    if groups is None:
        found = _parts(model, rows_of(model, X, y), [targets[j] for j in shown_ones])
        return found | {"more_responses": len(targets) - len(shown_ones)}
    kept = [[j for j in columns if j in shown_ones] for columns in groups.columns]
    made = [
        _parts(part, rows_of(part, X, None), [targets[j] for j in columns])
        for part, columns in zip(parts_of(model, groups), kept, strict=True)
        if columns
    ]
    order = np.argsort([j for columns in kept for j in columns])
    blocks = [block for part in made for block in part["blocks"]]
    responses = [
        response | ({} if part is made[0] else {"shared": {k: v for k, v in part["data"].items() if k != "responses"}})
        for part in made
        for response in part["data"]["responses"]
    ]
    return {
        "data": made[0]["data"] | {"responses": [responses[at] for at in order]},
        "blocks": [blocks[at] for at in order],
        "effects": max(part["effects"] for part in made),
        "heat": any(part["heat"] for part in made),
        "level": made[0]["level"],
        "more_responses": len(targets) - len(shown_ones),
    }


def _parts(model: Model, rows: ShownRows | None, names: list[str]) -> dict[str, Any]:
    """The parts of one fit, for its first responses."""
    columns = columns_of(model)
    of = [chosen(model, j) for j in range(len(names))]
    rankings = [ranking(model, rows, columns, j) for j in range(len(names))]
    leading = [ranked.leading(MOST_EFFECTS) if rows is not None and len(columns) > 1 else [] for ranked in rankings]
    wanted = sorted({column for each in leading for column in each})
    effects = [] if rows is None else [effect(model, rows, columns[j]) for j in wanted]
    shared = SharedPayload(model, rows, effects)
    payloads = [ResponsePayload(shared, each, j, name) for j, (each, name) in enumerate(zip(of, names, strict=True))]
    responses = [
        payload.data(
            [wanted.index(column) for column in shown_ones], strongest_pair(model, rows, columns, ranked.strong)
        )
        | {"decided": summary.decision(payload.of)}
        for payload, shown_ones, ranked in zip(payloads, leading, rankings, strict=True)
    ]
    axis = shown(columns[0].axis, LONGEST_NAME) if columns else "x"
    return {
        "data": shared.data(axis) | {"responses": responses},
        "blocks": [_block(payload, ranked, columns) for payload, ranked in zip(payloads, rankings, strict=True)],
        "effects": max((len(each["effects"]) for each in responses), default=0),
        "heat": any(each["heat"] for each in responses),
        "level": level_for(model),
    }


def _block(payload: ResponsePayload, ranked: Ranking, columns: Sequence[SourceColumn]) -> dict[str, Any]:
    """The text and tables of one response."""
    of, column, rows = payload.of, payload.column, payload.shared.rows
    return summary.common(of.model, payload.target, columns, ranked, column) | {
        "headline": summary.headline(of, column, rows, ranked.left),
        "decided": summary.decision(of)["words"],
        "notes": summary.notes(of, payload),
        "rules": summary.rule_rows(of),
    }
