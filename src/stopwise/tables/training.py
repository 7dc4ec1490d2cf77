"""A table made ready for a fit: which columns, which rows, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stopwise._support.arrays import Array
from stopwise.tables.columns import MAX_LEVELS, Columns, Mask, describe_columns, numbers
from stopwise.tables.names import quoted, shown
from stopwise.tables.sources import TableError, read_whole

MISSING = ("refuse", "drop", "median")


@dataclass(frozen=True)
class Training:
    """Features by name, the target, how columns were encoded, and what a reader should know."""

    features: pd.DataFrame
    target: Array
    columns: Columns
    notes: tuple[str, ...] = ()


def _chosen(names: list[str], target: str, features: Sequence[str], exclude: Sequence[str]) -> list[str]:
    absent = [name for name in (target, *features, *exclude) if name not in names]
    if absent:
        raise TableError(f"no column named {quoted(absent)}; the columns are {quoted(names, 10)}")
    if target in features:
        raise TableError(f"the target '{shown(target)}' cannot be a feature too")
    chosen = [name for name in (features or names) if name != target and name not in exclude]
    if not chosen:
        raise TableError("no feature is left: the table needs at least one column beside the target")
    return list(dict.fromkeys(chosen))


def prepare(
    table: Any,
    target: str,
    *,
    features: Sequence[str] = (),
    exclude: Sequence[str] = (),
    missing: str = "refuse",
    max_levels: int = MAX_LEVELS,
) -> Training:
    """Encode a table for a fit. `missing`: "refuse", "drop" rows, or fill features by their "median"."""
    chosen = _chosen(table.column_names, target, features, exclude)
    if table.num_rows < 2:
        raise TableError(f"a fit needs at least 2 rows; the table has {table.num_rows}")
    response = numbers(table.column(target), target)
    columns = describe_columns(table, target, chosen, max_levels)
    matrix, gaps, _ = columns.encode(table, fill=missing == "median")
    unknown = np.isnan(response)
    if missing == "refuse" and (gaps | unknown).any():
        _refuse(table, columns, gaps, unknown)
    leave = gaps | unknown if missing == "drop" else unknown
    left = len(response) - int(leave.sum())
    if left < 2:
        raise TableError(f"a fit needs at least 2 rows; {left} of {len(response)} can be used")
    frame = pd.DataFrame(matrix[~leave], columns=pd.Index(columns.features, dtype=object))
    notes = _notes(int(leave.sum()), int((gaps & ~leave).sum()), len(response))
    return Training(frame, response[~leave], columns, notes)


def _refuse(table: Any, columns: Columns, gaps: Mask, unknown: Mask) -> None:
    holes = [part.name for part in columns.parts if part.encode(table.column(part.name), False)[1].any()]
    holes += [str(columns.target)] if unknown.any() else []
    raise TableError(
        f"{int((gaps | unknown).sum())} of {len(gaps)} rows have missing values, in {quoted(holes)}: choose --missing "
        "drop or --missing median"
    )


def _notes(left_out: int, filled: int, rows: int) -> tuple[str, ...]:
    notes = []
    if left_out:
        notes.append(f"{left_out} of {rows} rows left out for missing values")
    if filled:
        notes.append(f"gaps in {filled} rows filled by medians (text: by the commonest level)")
    return tuple(notes)


def read_training(path: Path, target: str, *, separator: str | None = None, **options: Any) -> Training:
    """Read a file or folder and encode it for a fit."""
    table = read_whole(path, separator)
    if target not in table.column_names and len(table.column_names) == 1:
        hint = next((s for s in ";\t|" if s in table.column_names[0]), None)
        if hint:
            raise TableError(
                f"the table has one column only: are its fields separated by {hint!r}? say --separator {hint!r}"
            )
    return prepare(table, target, **options)
