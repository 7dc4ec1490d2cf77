"""From columns to a matrix of numbers: what each column is, and how it is encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stopwise._support.arrays import Array
from stopwise.tables.names import quoted, shown, told_apart
from stopwise.tables.sources import TableError

Mask: TypeAlias = npt.NDArray[np.bool_]
MAX_LEVELS = 20


def _is_number(kind: Any) -> bool:
    t = pa.types
    return bool(
        t.is_floating(kind) or t.is_integer(kind) or t.is_decimal(kind) or t.is_boolean(kind) or t.is_null(kind)
    )


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _check_text(kind: Any, name: str) -> None:
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise TableError(f"the column '{shown(name)}' is not UTF-8 text: convert the file, for example with iconv")


def numbers(column: Any, name: str) -> Array:
    """A numeric column as float64, missing values as NaN; infinity is an error."""
    kind = column.type
    _check_text(kind, name)
    if not _is_number(kind):
        raise TableError(f"the column '{shown(name)}' must hold numbers, but it holds {kind}{_stray(column)}")
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    values = np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    if np.isinf(values).any():
        raise TableError(f"the column '{shown(name)}' holds infinity in {int(np.isinf(values).sum())} rows")
    return cast(Array, values)


def _strings(column: Any) -> Any:
    return pc.cast(column, pa.large_string())


def _stray(column: Any) -> str:
    """The first value that is no number, where most are."""
    if not _is_text(column.type):
        return ""
    for row, value in enumerate(_strings(column).to_pylist()):
        try:
            float(value or 0)
        except ValueError:
            return f" (row {row + 1}: '{shown(value)}')"
    return ""


@dataclass(frozen=True)
class Numeric:
    """A column of numbers, one feature; `median` fills gaps where that is asked for."""

    name: str
    median: float
    boolean: bool = False

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        return [self.name]

    @property
    def kind(self) -> Any:
        """The type to read it as."""
        return pa.bool_() if self.boolean else pa.float64()

    def encode(self, column: Any, fill: bool) -> tuple[Array, Mask, Mask]:
        """Features, rows with a missing value, rows with a level never seen (none here)."""
        values = numbers(column, self.name)
        missing = np.isnan(values)
        if fill:
            values = np.where(missing, self.median, values)
        return values[:, None], missing, np.zeros_like(missing)


@dataclass(frozen=True)
class Text:
    """A column of text, one 0/1 feature per level; `mode`, the commonest level, fills gaps where that is asked for."""

    name: str
    levels: tuple[str, ...]
    mode: str

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        return [f"{self.name}={level}" for level in self.levels]

    @property
    def kind(self) -> Any:
        """The type to read it as."""
        return pa.string()

    def encode(self, column: Any, fill: bool) -> tuple[Array, Mask, Mask]:
        """Features, rows with a missing value, rows with a level never seen in training (all zero)."""
        text = _strings(column)
        missing = np.asarray(pc.is_null(text).to_numpy(zero_copy_only=False), dtype=bool)
        found = pc.index_in(text.fill_null(self.mode), pa.array(self.levels, pa.large_string()))
        index = np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False))
        features = (index[:, None] == np.arange(len(self.levels))).astype(np.float64)
        if not fill:
            features[missing] = np.nan
        return features, missing, index < 0


@dataclass(frozen=True)
class Columns:
    """The columns a model was fitted to, in order, and the name of its target."""

    target: str | None
    parts: tuple[Numeric | Text, ...]

    @property
    def names(self) -> list[str]:
        """The columns a table must have for predictions."""
        return [part.name for part in self.parts]

    @property
    def features(self) -> list[str]:
        """One name per feature, told apart."""
        return told_apart([name for part in self.parts for name in part.features])

    @property
    def types(self) -> dict[str, Any]:
        """What to read each column as."""
        return {part.name: part.kind for part in self.parts}

    def encode(self, table: Any, fill: bool = False) -> tuple[Array, Mask, Mask]:
        """The feature matrix, rows with a missing value, and rows with a level never seen in training."""
        encoded = [part.encode(table.column(part.name), fill) for part in self.parts]
        missing = np.logical_or.reduce([mask for _, mask, _ in encoded])
        unseen = np.logical_or.reduce([mask for _, _, mask in encoded])
        return cast(Array, np.concatenate([features for features, _, _ in encoded], axis=1)), missing, unseen


def _numeric(name: str, column: Any) -> Numeric:
    values = numbers(column, name)
    present = values[~np.isnan(values)]
    if not present.size:
        raise TableError(f"the column '{shown(name)}' is empty: leave it out with --exclude")
    return Numeric(name, float(np.median(present)), bool(pa.types.is_boolean(column.type)))


def _text(name: str, column: Any) -> Text:
    counted = [(row["values"], row["counts"]) for row in pc.value_counts(_strings(column).drop_null()).to_pylist()]
    levels = sorted(level for level, _ in counted)
    mode = min(counted, key=lambda pair: (-pair[1], pair[0]))[0]
    return Text(name, tuple(levels), mode)


def _level_count(column: Any) -> int:
    return int(pc.count_distinct(_strings(column)).as_py())


def describe_columns(table: Any, target: str | None, names: Sequence[str], max_levels: int = MAX_LEVELS) -> Columns:
    """How to encode these columns; those that cannot be are named in the error."""
    kinds = {name: table.column(name).type for name in names}
    for name, kind in kinds.items():
        _check_text(kind, name)
    odd = [name for name in names if not _is_number(kinds[name]) and not _is_text(kinds[name])]
    if odd:
        what = ", ".join(sorted({str(kinds[name]) for name in odd}))
        raise TableError(
            f"columns that are neither numbers nor text ({what}): {quoted(odd)}; convert or --exclude them"
        )
    text = [name for name in names if _is_text(kinds[name])]
    crowded = [name for name in text if _level_count(table.column(name)) > max_levels]
    if crowded:
        count, stray = _level_count(table.column(crowded[0])), _stray(table.column(crowded[0]))
        raise TableError(
            f"text columns with more than {max_levels} levels: {quoted(crowded)} (the first has {count}{stray}); leave "
            f"them out with --exclude, choose --features, or raise --max-levels"
        )
    parts = [(_text if name in text else _numeric)(name, table.column(name)) for name in names]
    return Columns(target, tuple(parts))
