"""What each column of a text table holds: numbers, booleans, dates or text, decided by every one of its cells."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stopwise.tables.names import shown
from stopwise.tables.reading.cells import (
    DATE_FORMATS,
    DOUBTFUL_MARKS,
    MISSING_MARKS,
    parse_booleans,
    parse_dates,
    parse_hours,
    parse_numbers,
)
from stopwise.tables.table import Column, Kind, TableError, text_column

_GAPS = MISSING_MARKS | DOUBTFUL_MARKS
_EITHER = frozenset(["month/day/year", "day/month/year"])
_WORDS = {"number": Kind.NUMBER, "text": Kind.TEXT, "date": Kind.DATE, "boolean": Kind.BOOLEAN}


@dataclass(frozen=True)
class ColumnType:
    """How the cells of a column are read. `how`: a decimal mark, "hours", a date format, or ""."""

    kind: Kind
    how: str = ""
    lenient: bool = False
    """Whether cells that cannot be read so count as gaps."""
    marks: frozenset[str] = frozenset()
    """Further cells that are gaps."""

    def read(self, cells: Sequence[str]) -> Column | None:
        """The column, or None where some cell is not of this kind."""
        if self.marks:
            cells = ["" if cell in self.marks else cell for cell in cells]
        if self.kind is Kind.TEXT:
            return text_column(None if cell in MISSING_MARKS else cell for cell in cells)
        values = self._parse(cells)
        if values is None and self.lenient:
            values = self._parse([cell if self._parse([cell]) is not None else "" for cell in cells])
        return None if values is None else Column(self.kind, values)

    def _parse(self, cells: Sequence[str]) -> npt.NDArray[np.float64] | npt.NDArray[np.datetime64] | None:
        if self.kind is Kind.EMPTY:
            return np.full(len(cells), np.nan) if all(cell in _GAPS for cell in cells) else None
        if self.kind is Kind.BOOLEAN:
            return parse_booleans(cells)
        if self.kind is Kind.DATE:
            return parse_dates(cells, self.how)
        return parse_hours(cells) if self.how == "hours" else parse_numbers(cells, self.how)


def _candidates(decimal: str) -> list[ColumnType]:
    """What a column may be, in order of preference. Eight digits that are all dates are dates."""
    names = list(DATE_FORMATS)
    names.insert(0, names.pop(names.index("yearmonthday")))
    if decimal == ",":  # where people write 1,5 they also write the day first
        first, second = names.index("month/day/year"), names.index("day/month/year")
        names[first], names[second] = names[second], names[first]
    dates = [ColumnType(Kind.DATE, name) for name in names]
    numbers = [ColumnType(Kind.NUMBER, decimal), ColumnType(Kind.NUMBER, "hours")]
    return [ColumnType(Kind.EMPTY), ColumnType(Kind.BOOLEAN), dates[0], *numbers, *dates[1:], ColumnType(Kind.TEXT)]


@dataclass
class Guess:
    """The types that all cells of a column so far allow."""

    possible: list[ColumnType]
    stray: str = ""
    """The first cell that forbade what was wanted, and where."""

    def see(self, cells: Sequence[str], line: int) -> None:
        """Strike out what these cells, which begin at this row, are not."""
        while self.possible and not self._allows(self.possible[0], cells):
            if len(self.possible) == 1:
                self.stray = self.stray or _first_stray(self.possible[0], cells, line)
            self.possible = self.possible[1:]
        if self.possible and self.possible[0].how in _EITHER:
            first, *rest = self.possible
            self.possible = [first, *(made for made in rest if made.how not in _EITHER or self._allows(made, cells))]

    @staticmethod
    def _allows(kind: ColumnType, cells: Sequence[str]) -> bool:
        return kind.kind is Kind.TEXT or kind.read(cells) is not None


def _first_stray(kind: ColumnType, cells: Sequence[str], line: int) -> str:
    at = next((row for row, cell in enumerate(cells) if kind.read([cell]) is None), 0)
    return f"row {line + at + 1:,}: '{shown(cells[at])}'"


@dataclass(frozen=True)
class Reading:
    """What the caller says of columns: kinds by name (from a model), words by name (from options), marks of gaps."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()

    def guess(self, name: str, decimal: str) -> Guess:
        """What this column may be before any cell is seen."""
        types = _candidates(decimal)
        word, kind = self.words.get(name), self.kinds.get(name)
        if word is not None:
            types = _by_word(name, word, types)
        elif kind is not None:
            types = _by_kind(kind, types)
        return Guess([_marked(made, self.marks) for made in types])


def _marked(made: ColumnType, marks: frozenset[str]) -> ColumnType:
    return ColumnType(made.kind, made.how, made.lenient, marks) if marks else made


def _by_kind(kind: Kind, types: list[ColumnType]) -> list[ColumnType]:
    """As a model knows the column: whatever it is now, it is read as that."""
    if kind is Kind.EMPTY:
        return [ColumnType(Kind.TEXT)]
    allowed = {kind, Kind.EMPTY} | ({Kind.NUMBER} if kind is Kind.BOOLEAN else set())
    return [made for made in types if made.kind in allowed]


def _by_word(name: str, word: str, types: list[ColumnType]) -> list[ColumnType]:
    """As an option says: a kind, or a pattern of dates with a % in it. Cells that do not fit are gaps."""
    if "%" in word:
        return [ColumnType(Kind.DATE, word, lenient=True)]
    if word in DATE_FORMATS:
        return [ColumnType(Kind.DATE, word, lenient=True)]
    if word not in _WORDS:
        raise TableError(
            f"the column '{shown(name)}' cannot be read as {shown(repr(word))}: choose "
            f"{', '.join(_WORDS)}, a pattern such as %d/%m/%Y, or {', '.join(DATE_FORMATS)}"
        )
    chosen = [made for made in types if made.kind is _WORDS[word]]
    if len(chosen) == 1:
        return [ColumnType(chosen[0].kind, chosen[0].how, lenient=True)]
    how = "any" if chosen[0].kind is Kind.DATE else chosen[0].how
    return [*chosen, ColumnType(chosen[0].kind, how, lenient=True)]


def settle(name: str, guess: Guess, kind: Kind | None) -> ColumnType:
    """The type that every cell allowed, or an error that names the first cell that does not fit."""
    if guess.possible:
        found = guess.possible[0]
        others = {made.how for made in guess.possible[1:] if made.kind is Kind.DATE and not made.lenient}
        doubt = found.kind is Kind.DATE and found.how in _EITHER and others & (_EITHER - {found.how})
        if doubt:
            other = next(iter(doubt))
            warnings.warn(
                f"dates in '{shown(name)}' are read as {found.how}, and each could be {other}: if so, say "
                f"--as '{shown(name)}={other}'",
                UserWarning,
                stacklevel=2,
            )
        return found
    what = "numbers" if kind is None else kind.value
    raise TableError(f"the column '{shown(name)}' must hold {what}, but {guess.stray} is not")
