"""Numbers as the page embeds them: arrays packed, lists as JSON knows them, effects and maps as they are drawn."""

import base64
import json
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise.tables import shown
from stopwise.views.effects import Effect, Interaction
from stopwise.views.facts import plain
from stopwise.views.source_columns import Positions, SourceColumn

LONGEST_NAME = 80
"""Characters of a name that are shown: hostile tables have longer ones."""


def packed(values: ArrayLike, kind: str = "f8") -> dict[str, Any]:
    """An array as base64 of little-endian doubles (or "f4": singles): a third of the size of text, no digit lost."""
    array = np.ascontiguousarray(values, dtype=f"<{kind}")
    return {"shape": list(array.shape), "kind": kind, "base64": base64.b64encode(array.tobytes()).decode("ascii")}


def as_script(value: dict[str, Any]) -> str:
    """JSON that is safe inside a script element, whatever the strings in it say."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def finite(values: ArrayLike | Sequence[Array | None]) -> list[float | None]:
    """Numbers as JSON knows them."""
    return cast("list[float | None]", plain(np.asarray(values, dtype=np.float64)))


def _axis(column: SourceColumn, positions: Positions, at: str) -> dict[str, Any]:
    """A column's name, the places along it under the key `at`, and what its levels are called."""
    labels = None if positions.labels is None else [shown(label, 30) for label in positions.labels]
    return {"name": shown(column.axis, LONGEST_NAME), at: finite(positions.at), "labels": labels}


def effect_spec(effect: Effect, response: int | None = None) -> dict[str, Any]:
    """An effect as the page draws it; of one response, or of every class."""
    halves = effect.halves
    values = effect.means if response is None else effect.means[:, response : response + 1]
    return {
        **_axis(effect.column, effect.positions, "x"),
        "means": finite(values.T),
        "half": None if halves is None or response is None else finite(halves[:, response]),
    }


def heat_spec(found: Interaction, response: int) -> dict[str, Any]:
    """A heat map as the page draws it."""
    return {
        "x": _axis(found.across, found.x, "at"),
        "y": _axis(found.down, found.y, "at"),
        "means": finite(found.means[:, :, response]),
        "empty": found.empty.tolist(),
    }
