"""A table in memory: named columns of numbers, booleans, dates or text, gaps included; no library of frames needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from stopwise.tables.names import shown

Mask: TypeAlias = npt.NDArray[np.bool_]
Values: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.datetime64] | npt.NDArray[np.object_]


class TableError(ValueError):
    """A table that cannot be used, and why."""


class Kind(Enum):
    """What the cells of a column are."""

    NUMBER = "numbers"
    BOOLEAN = "true or false"
    DATE = "dates"
    TEXT = "text"
    EMPTY = "nothing"


@dataclass(frozen=True)
class Column:
    """Cells of one kind.

    NUMBER, BOOLEAN (0 and 1) and EMPTY hold float64 with NaN for a missing cell, DATE holds datetime64[us] (wall clock)
    with NaT, TEXT holds an object array of str with None.
    """

    kind: Kind
    values: Values
    unit: str = ""
    """What numbers count, such as "kg", "hours" or "days"; "" where nobody said."""
    said: bool = False
    """Whether somebody said that this is text: cells that look like numbers or dates are then no slips."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> Mask:
        """Where there is no value."""
        if self.kind is Kind.TEXT:
            return np.fromiter((cell is None for cell in self.values), dtype=bool, count=len(self.values))
        return cast(Mask, np.isnat(self.values) if self.kind is Kind.DATE else np.isnan(cast(Values, self.values)))

    def take(self, rows: Mask | slice) -> Column:
        return replace(self, values=self.values[rows])

    @property
    def as_numbers(self) -> npt.NDArray[np.float64]:
        """float64, for columns of numbers and booleans only."""
        if self.kind not in (Kind.NUMBER, Kind.BOOLEAN, Kind.EMPTY):
            raise TypeError(f"a column of {self.kind.value} has no numbers")
        return cast(npt.NDArray[np.float64], self.values)


def empty_column(kind: Kind, count: int) -> Column:
    """A column of gaps."""
    gap = {Kind.TEXT: (None, object), Kind.DATE: ("NaT", "datetime64[us]")}.get(kind, (np.nan, np.float64))
    return Column(kind, np.full(count, *gap))


def text_column(cells: Iterable[str | None]) -> Column:
    """A column of text; equal cells share one string."""
    known: dict[str, str] = {}
    listed = [None if cell is None else known.setdefault(cell, cell) for cell in cells]
    values = np.empty(len(listed), dtype=object)
    values[:] = listed
    return Column(Kind.TEXT, values)


@dataclass(frozen=True)
class Table:
    """Columns of equal length by name, in order."""

    columns: Mapping[str, Column]

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def select(self, names: Sequence[str]) -> Table:
        """Only these columns, in this order."""
        return Table({name: self.columns[name] for name in names})

    def take(self, rows: Mask | slice) -> Table:
        return Table({name: column.take(rows) for name, column in self.columns.items()})


def stacked(tables: Sequence[Table]) -> Table:
    """Tables with the same columns, one below the other."""
    first = tables[0]
    if len(tables) == 1:
        return first
    joined = {}
    for name, column in first.columns.items():
        parts = [table.columns[name] for table in tables]
        units = sorted({part.unit for part in parts} - {""})
        if len(units) > 1:
            raise TableError(
                f"the column '{shown(name)}' is in '{shown(units[0])}' here and in '{shown(units[1])}' there: convert "
                "one of them"
            )
        joined[name] = replace(column, values=np.concatenate([part.values for part in parts]), unit="".join(units))
    return Table(joined)
