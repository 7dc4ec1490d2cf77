"""How one column becomes features: numbers as they are, categories as 0/1, dates as a trend and cycles."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from stopwise._support.checks import calling_level
from stopwise.tables import dates
from stopwise.tables.names import shown
from stopwise.tables.reading.cells import as_number
from stopwise.tables.table import Column, Kind, Mask, TableError, empty_column, text_column

Floats: TypeAlias = npt.NDArray[np.float64]
OTHER, MISSING = "(other)", "(missing)"
MOST_CLASSES = 100
"""Text with more different values is no target: it names rows."""


@dataclass(frozen=True)
class Numbers:
    """A column of numbers or booleans: one feature, gaps filled by `fill`, and where `flag` a 0/1 feature for gaps."""

    name: str
    fill: float
    flag: bool = False
    boolean: bool = False
    unit: str = ""
    """What the numbers of the fit counted, where the table said so."""

    @property
    def kind(self) -> Kind:
        """What the column must hold."""
        return Kind.BOOLEAN if self.boolean else Kind.NUMBER

    @property
    def groups(self) -> list[list[str]]:
        """Names of the features, by groups that share a length scale."""
        return [[self.name]] + [[f"{self.name} {MISSING}"]] * self.flag

    def encode(self, column: Column) -> tuple[Floats, Mask]:
        """Features, and rows with a value never seen in training (none here)."""
        values = numbers_of(column, self.name)
        self._check_unit(column)
        missing = np.isnan(values)
        made = [np.where(missing, self.fill, values)] + ([missing.astype(np.float64)] if self.flag else [])
        return np.stack(made, axis=1), np.zeros(len(values), dtype=bool)

    def _check_unit(self, column: Column) -> None:
        """Another unit is an error; a unit on one side only is said, as whoever left it out may have meant the same."""
        if column.unit == self.unit or column.missing.all():
            return
        here, fit = (f"in '{shown(unit)}'" if unit else "without a unit" for unit in (column.unit, self.unit))
        if column.unit and self.unit:
            raise TableError(f"the column '{shown(self.name)}' is {here}, and the fit's was {fit}: convert it")
        said = f"the column '{shown(self.name)}' is {here}, and the fit's was {fit}: its numbers are taken as they are"
        warnings.warn(said, UserWarning, stacklevel=calling_level())


@dataclass(frozen=True)
class Dates:
    """A column of dates: days and cycles; gaps at day `fill` and in the middle of every circle, with a `flag`."""

    name: str
    parts: tuple[str, ...]
    fill: float
    flag: bool = False

    kind: ClassVar[Kind] = Kind.DATE

    @property
    def groups(self) -> list[list[str]]:
        """Names of the features, by groups that share a length scale: sine and cosine of a cycle."""
        return dates.feature_groups(self.name, self.parts) + [[f"{self.name} {MISSING}"]] * self.flag

    def encode(self, column: Column) -> tuple[Floats, Mask]:
        """Features, and rows with a value never seen in training (none here)."""
        if column.kind not in (Kind.DATE, Kind.EMPTY):
            raise TableError(f"the column '{shown(self.name)}' must hold dates, but it holds {column.kind.value}")
        missing = column.missing
        moments = empty_column(Kind.DATE, len(column)) if column.kind is Kind.EMPTY else column
        made = dates.features(cast(dates.Moments, moments.values), self.parts)
        groups = dates.feature_groups(self.name, self.parts)
        made[missing] = [self.fill if len(group) == 1 else 0.0 for group in groups for _ in group]
        if self.flag:
            made = np.column_stack([made, missing])
        return cast(Floats, made), np.zeros(len(column), dtype=bool)


@dataclass(frozen=True)
class Categories:
    """A column of text: one 0/1 feature per level; `pooled` rare levels and gaps (`flag`) have levels of their own."""

    name: str
    levels: tuple[str, ...]
    pooled: bool = False
    flag: bool = False

    kind: ClassVar[Kind] = Kind.TEXT

    @property
    def labels(self) -> tuple[str, ...]:
        """All levels, those for rare ones and gaps included."""
        return (*self.levels, *[OTHER] * self.pooled, *[MISSING] * self.flag)

    @property
    def groups(self) -> list[list[str]]:
        """Names of the features, in one group: any two levels are equally far apart."""
        return [[f"{self.name}={level}" for level in self.labels]]

    def encode(self, column: Column) -> tuple[Floats, Mask]:
        """Features, and rows with a level never seen in training: all 0, or pooled where rare levels are."""
        column = as_text(column)
        other = len(self.levels) if self.pooled else -1
        gap = len(self.levels) + self.pooled if self.flag else -2
        index: dict[str | None, int] = {level: at for at, level in enumerate(self.levels)}
        index[None] = gap
        cells = cast("npt.NDArray[np.object_]", column.values)
        codes = np.fromiter((index.get(cell, -1) for cell in cells), dtype=np.int64, count=len(cells))
        unseen = codes == -1
        codes[unseen] = other
        return cast(Floats, (codes[:, None] == np.arange(len(self.labels))).astype(np.float64)), unseen


Encoding: TypeAlias = Numbers | Dates | Categories


def numbers_of(column: Column, name: str) -> Floats:
    """The numbers of a column, gaps as NaN; infinity is an error."""
    if column.kind not in (Kind.NUMBER, Kind.BOOLEAN, Kind.EMPTY):
        raise TableError(
            f"the column '{shown(name)}' must hold numbers, but it holds {column.kind.value}{stray_number(column)}"
            + (": give it as days since some day" if column.kind is Kind.DATE else "")
        )
    values = column.as_numbers
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        raise TableError(
            f"the column '{shown(name)}' holds infinity in {infinite.size:,} rows (row {infinite[0] + 1:,} first): a "
            "value must be finite; make it a gap or leave the row out"
        )
    return values


def labels_of(column: Column, name: str) -> npt.NDArray[np.object_]:
    """The labels of a text column, gaps as None; text that hardly repeats is no label."""
    held = column.values[~column.missing]
    counts = Counter(held.tolist())
    distinct, rare = len(counts), min(counts.values(), default=0) < 2
    if rare or distinct > MOST_CLASSES or 2 * distinct > held.size:
        raise TableError(
            f"the column '{shown(name)}' must hold numbers, but it holds text{stray_number(column)}: mend that, or "
            f"make it a gap; as classes it has {distinct:,} values in {held.size:,} rows, and classes are at most "
            f"{MOST_CLASSES}, of 2 rows or more each"
        )
    return cast("npt.NDArray[np.object_]", column.values)


def as_text(column: Column) -> Column:
    """A column as text: numbers as they are written shortest, dates as ISO 8601 without idle zeros."""
    if column.kind is Kind.TEXT:
        return column
    if column.kind is Kind.DATE:
        texts = np.datetime_as_string(cast(dates.Moments, column.values)).tolist()
        return text_column(
            None if text == "NaT" else text.removesuffix(".000000").removesuffix("T00:00:00") for text in texts
        )
    shortest = (int(value) if value.is_integer() else value for value in column.as_numbers.tolist())
    return text_column(None if value != value else repr(value) for value in shortest)


def is_number(text: str) -> bool:
    """Whether text spells a number, with a decimal point or comma."""
    return any(as_number(text, mark) is not None for mark in ".,")


def stray_number(column: Column) -> str:
    """The first cell of text that is no number, or the first of numbers that were read as text."""
    if column.kind is not Kind.TEXT or column.missing.all():
        return ""
    cells = cast("npt.NDArray[np.object_]", column.values)
    present = np.flatnonzero(~column.missing)
    at = next((row for row in present if not is_number(cells[row])), present[0])
    unlike = "" if not is_number(cells[at]) else ", with another decimal mark or as text"
    return f" (row {at + 1:,}: '{shown(cells[at])}'{unlike})"
