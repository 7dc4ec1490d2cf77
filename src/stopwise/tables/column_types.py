"""What each column of a text table holds: numbers, booleans, dates or text, decided by every one of its cells."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from stopwise.tables.names import shown
from stopwise.tables.reading.cells import (
    DATE_FORMATS,
    GAPS,
    MISSING_MARKS,
    as_boolean,
    as_number,
    fault_of_pattern,
    in_unit,
    measure,
    parse_cells,
    parse_dates,
    parse_numbers,
    zone_of,
)
from stopwise.tables.reading.times import as_days, as_hours
from stopwise.tables.table import Column, Kind, TableError, text_column

_EITHER = frozenset(["month/day/year", "day/month/year"])
_TIMES = {"hours": as_hours, "days": as_days}
_WORDS = {"number": Kind.NUMBER, "text": Kind.TEXT, "date": Kind.DATE, "boolean": Kind.BOOLEAN}


@dataclass(frozen=True)
class ColumnType:
    """How the cells of a column are read. `how`: a decimal mark, "hours", "days", a date format, "said" (of
    booleans), or ""."""

    kind: Kind
    how: str = ""
    marks: frozenset[str] = frozenset()
    """Further cells that are gaps."""
    unit: str | None = None
    """What stands about every number; "" where that is not known yet."""
    said: bool = False
    """Whether an option says so."""

    def known(self, cells: Sequence[str]) -> ColumnType:
        """The same with its unit read off the first of these cells that has one."""
        if self.unit != "":
            return self
        found = next((made for cell in cells if (made := measure(cell, self.how)) is not None), None)
        return self if found is None else replace(self, unit=found[1])

    def read(self, cells: Sequence[str]) -> Column | None:
        """The column, or None where some cell is not of this kind."""
        if self.marks:
            cells = ["" if cell in self.marks else cell for cell in cells]
        if self.kind is Kind.TEXT:
            return replace(text_column(None if cell in MISSING_MARKS else cell for cell in cells), said=self.said)
        values = self._parse(cells)
        unit = self.how if self.how in _TIMES else self.unit or ""
        return None if values is None else self.with_gaps(Column(self.kind, values, unit))

    def with_gaps(self, column: Column) -> Column:
        """The column with gaps where an option says that a cell means none: -9999 is that as -9999.00, too."""
        if self.marks and column.kind is Kind.TEXT:
            cells = text_column(None if cell in self.marks else cell for cell in column.values)
            return replace(cells, said=column.said)
        if self.marks and column.kind is Kind.NUMBER:
            read = [as_number(mark, "," if self.how == "," else ".") for mark in self.marks]
            none = np.isin(column.as_numbers, [value for value in read if value is not None])
            return replace(column, values=np.where(none, np.nan, column.as_numbers))
        return column

    def _parse(self, cells: Sequence[str]) -> npt.NDArray[np.float64] | npt.NDArray[np.datetime64] | None:
        if self.kind is Kind.DATE:
            return parse_dates(cells, self.how)
        if self.kind is Kind.EMPTY:
            return parse_cells(cells, lambda cell: None)
        if self.kind is Kind.BOOLEAN:
            return parse_cells(cells, partial(as_boolean, said=self.how == "said"))
        if self.unit is not None:
            return parse_cells(cells, partial(in_unit, decimal=self.how, unit=self.unit))
        return parse_cells(cells, _TIMES[self.how]) if self.how in _TIMES else parse_numbers(cells, self.how)


def _candidates(decimal: str) -> list[ColumnType]:
    """What a column may be, in order of preference. Eight digits that are all dates are dates."""
    names = list(DATE_FORMATS)
    names.insert(0, names.pop(names.index("yearmonthday")))
    if decimal == ",":  # where people write 1,5 they also write the day first
        first, second = names.index("month/day/year"), names.index("day/month/year")
        names[first], names[second] = names[second], names[first]
    dates = [ColumnType(Kind.DATE, name) for name in names]
    numbers = [ColumnType(Kind.NUMBER, decimal), ColumnType(Kind.NUMBER, decimal, unit="")]
    numbers += [ColumnType(Kind.NUMBER, how) for how in ("hours", "days")]
    return [ColumnType(Kind.EMPTY), ColumnType(Kind.BOOLEAN), dates[0], *numbers, *dates[1:], ColumnType(Kind.TEXT)]


@dataclass
class Guess:
    """The types that all cells of a column so far allow."""

    possible: list[ColumnType]
    stray: str = ""
    """The first cell that forbade what was wanted, and where."""
    zones: set[str] = field(default_factory=set)
    """What stands behind the times of a column that may be dates."""

    def see(self, cells: Sequence[str], line: int) -> None:
        """Strike out what these cells, which begin at this row, are not."""
        different = list(dict.fromkeys(cells))
        before = [made.known(different) for made in self.possible]
        self.possible = [made for made in before if made.kind is Kind.TEXT or made.read(different) is not None]
        if self.possible and self.possible[0].kind is Kind.DATE:
            self.zones.update(zone_of(cell) for cell in different if cell not in GAPS)
        if before and not self.possible:
            at = max(_first_stray(made, cells) for made in before)
            self.stray = f"row {line + at + 1:,}: '{shown(cells[at])}'"


def _first_stray(kind: ColumnType, cells: Sequence[str]) -> int:
    """The row of the first cell that is not of this kind."""
    return next((row for row, cell in enumerate(cells) if kind.read([cell]) is None), 0)


@dataclass(frozen=True)
class Reading:
    """What the caller says of columns: kinds by name (from a model), words by name (from options), marks of gaps.

    `labels` by name: what stands in a row of sums where others have a value, which is a gap there.
    """

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)

    def guess(self, name: str, decimal: str) -> Guess:
        """What this column may be before any cell is seen."""
        types = _candidates(decimal)
        word, kind = self.words.get(name), self.kinds.get(name)
        if word is not None:
            types = _by_word(name, word, types)
        elif kind is not None:
            types = _by_kind(kind, types)
        marks = self.marks | ({self.labels[name]} if name in self.labels else set())
        return Guess([replace(made, marks=marks, said=word is not None) for made in types])


def _by_kind(kind: Kind, types: list[ColumnType]) -> list[ColumnType]:
    """As a model knows the column: whatever it is now, it is read as that."""
    if kind is Kind.EMPTY:
        return [ColumnType(Kind.TEXT)]
    allowed = {kind, Kind.EMPTY} | ({Kind.NUMBER} if kind is Kind.BOOLEAN else set())
    return [_as_said(made) for made in types if made.kind in allowed]


def _as_said(made: ColumnType) -> ColumnType:
    """A type that is not guessed but known."""
    return replace(made, how="said") if made.kind is Kind.BOOLEAN else made


def _by_word(name: str, word: str, types: list[ColumnType]) -> list[ColumnType]:
    """As an option says: a kind, or a pattern of dates with a % in it. Dates of one column may be written unlike."""
    if "%" in word and (fault := fault_of_pattern(word)):
        raise TableError(f"no date can be read by the pattern {shown(repr(word))}: {shown(fault, 300)}")
    if "%" in word or word in DATE_FORMATS:
        return [ColumnType(Kind.DATE, word)]
    if word not in _WORDS:
        raise TableError(
            f"the column '{shown(name)}' cannot be read as {shown(repr(word))}: choose "
            f"{', '.join(_WORDS)}, a pattern such as %d/%m/%Y, or {', '.join(DATE_FORMATS)}"
        )
    chosen = [_as_said(made) for made in types if made.kind is _WORDS[word]]
    return [*chosen, ColumnType(Kind.DATE, "any")] if word == "date" else chosen


def settle(name: str, guess: Guess, reading: Reading) -> ColumnType:
    """The type that every cell allowed, or an error that names the first cell that does not fit."""
    word, kind = reading.words.get(name), reading.kinds.get(name)
    if guess.possible:
        for doubt in _doubts(shown(name), kind is not None, guess.zones, *guess.possible):
            warnings.warn(doubt, UserWarning, stacklevel=2)
        return guess.possible[0]
    if word is not None:
        raise TableError(
            f"the column '{shown(name)}' cannot be read as {shown(word)} ({guess.stray}): mend that cell, name it with "
            "--gap if it means no value, or say another --as"
        )
    what = "numbers" if kind is None else kind.value
    raise TableError(f"the column '{shown(name)}' must hold {what}, but {guess.stray} is not")


def _doubts(name: str, known: bool, zones: set[str], found: ColumnType, *others: ColumnType) -> Iterator[str]:
    """What a reader should know of how a column is read, and how to say otherwise; `known`: a model says its kind."""
    dates = {made.how for made in others if made.kind is Kind.DATE}
    either = dates & (_EITHER - {found.how}) if found.how in _EITHER else ()
    for other in either:
        yield f"dates in '{name}' are read as {found.how}, and each could be {other}: if so, say --as '{name}={other}'"
    if found.kind is Kind.DATE and len(zones) > 1:
        several = ", ".join(shown(zone or "none") for zone in sorted(zones)[:4])
        yield f"times in '{name}' are of several zones ({several}), and are read as clocks there showed them"
    if not known and (found.unit or found.how == "days"):
        what = f"numbers of '{shown(found.unit)}'" if found.unit else "durations, in days"
        yield f"'{name}' is read as {what}: if it is text, say --as '{name}=text'"
