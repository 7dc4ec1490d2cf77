"""Tables of cells in text: typed in one pass over all rows and read in another, so that memory does not grow."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stopwise.tables.column_types import ColumnType, Reading, settle
from stopwise.tables.names import shown
from stopwise.tables.reading.opening import opened, plain_errors
from stopwise.tables.reading.records import Layout, Row, records
from stopwise.tables.reading.sniffing import Dialect
from stopwise.tables.reading.spreadsheet import Sheet
from stopwise.tables.table import Column, Table, TableError

BATCH = 16_384
"""Rows read at a time."""


@dataclass(frozen=True)
class TextFile:
    """The rows of a text file."""

    path: Path
    layout: Layout

    @contextlib.contextmanager
    def rows(self) -> Iterator[Iterator[tuple[int, Row]]]:
        """Each row with the number of its last line; a blank one is an empty list."""
        with opened(self.path) as handle, io.TextIOWrapper(handle, self.layout.encoding, newline="") as text:
            yield records(text, self.layout)


@dataclass(frozen=True)
class TextSource:
    """Rows of cells, and how the table lies among them."""

    feed: TextFile | Sheet
    label: str
    dialect: Dialect
    found: str
    """How the table is written, in words."""

    @contextlib.contextmanager
    def _rows(self) -> Iterator[Iterator[tuple[int, Row]]]:
        with plain_errors(self.label), self.feed.rows() as rows:
            yield self._from_header(rows)

    def _from_header(self, rows: Iterator[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
        """Rows from the header on (or from the first one); blank lines count in a table of one column only."""
        above, started, alone = self.dialect.skipped, False, self.dialect.width == 1
        for line, row in rows:
            if not row and not (alone and started):
                continue
            if above:
                above -= 1
                continue
            started = True
            yield line, row or [""]

    def _header(self) -> Row:
        with self._rows() as rows:
            _, first = next(rows, (0, []))
        cells = ([""] if self.dialect.row_names else []) + first
        return [cell.strip().removeprefix("\ufeff") for cell in cells]

    def names(self) -> list[str]:
        """The columns' names: from the header, or by number; two of the same name are an error."""
        if not self.dialect.header:
            return [f"column_{at + 1}" for at in range(self.dialect.width)]
        names = [cell or f"column_{at + 1}" for at, cell in enumerate(self._header())]
        check_names(names, self.label)
        return names

    def row_names(self) -> str | None:
        """The first column where it has no name: numbers or names of rows, as pandas and R write them."""
        if not self.dialect.header or self.dialect.width == 1:
            return None
        return None if self._header()[0] else "column_1"

    def types(self, reading: Reading, wanted: list[str] | None = None) -> dict[str, ColumnType]:
        """How each column is read, decided by all its cells."""
        names = self.names()
        guesses = {name: reading.guess(name, self.dialect.decimal) for name in wanted or names}
        seen = 0
        for columns in self._batches(names, BATCH):
            for name, guess in guesses.items():
                guess.see(columns[name], seen)
            seen += len(next(iter(columns.values()), []))
        return {name: settle(name, guess, reading) for name, guess in guesses.items()}

    def batches(self, types: Mapping[str, ColumnType], rows: int = BATCH) -> Iterator[Table]:
        """The columns of these types, so many rows at a time."""
        for columns in self._batches(self.names(), rows):
            yield Table({name: _read(kind, columns[name], name) for name, kind in types.items()})

    def _batches(self, names: list[str], size: int) -> Iterator[dict[str, Row]]:
        """Stripped cells by column, so many rows at a time."""
        with self._rows() as rows:
            if self.dialect.header:
                next(rows, None)
            batch: list[Row] = []
            for line, row in rows:
                if row[0].startswith("#") and len(row) != len(names):
                    continue  # a comment
                batch.append(self._even(row, line, len(names)))
                if len(batch) == size:
                    yield _columns(batch, names)
                    batch = []
            if batch:
                yield _columns(batch, names)

    def _even(self, row: Row, line: int, width: int) -> Row:
        """The row, if it has as many cells as the header; separators at the end of a line are no cells."""
        if len(row) == width:
            return row
        if len(row) > width and not any(cell.strip() for cell in row[width:]):
            return row[:width]
        fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
        raise TableError(
            f"{self.label}, line {line:,}: {fields} where the header has {width} (read as: {self.found}); mend the "
            "line, or say how the table is written"
        )


def _columns(rows: list[Row], names: list[str]) -> dict[str, Row]:
    return {name: [cell.strip() for cell in cells] for name, cells in zip(names, zip(*rows, strict=True), strict=True)}


def _read(kind: ColumnType, cells: Row, name: str) -> Column:
    column = kind.read(cells)
    if column is None:
        raise TableError(f"the column '{shown(name)}' changed while it was read: read it from a file that stays")
    return column


def check_names(names: list[str], label: str) -> None:
    """Two columns of one name are an error: one of them would be taken for the other."""
    seen: dict[str, int] = {}
    for at, name in enumerate(names, start=1):
        if name in seen:
            raise TableError(
                f"{label} has two columns named '{shown(name)}', the {_th(seen[name])} and the {_th(at)}: rename one"
            )
        seen[name] = at


def _th(number: int) -> str:
    end = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{end}"
