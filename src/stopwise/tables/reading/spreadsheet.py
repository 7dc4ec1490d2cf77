"""Spreadsheets (.xlsx), through openpyxl: the extra `excel`."""

from __future__ import annotations

import contextlib
import datetime as dt
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwise._support.optional import openpyxl
from stopwise.tables.dates import DAY
from stopwise.tables.names import quoted, shown
from stopwise.tables.reading.opening import check_size, plain_errors
from stopwise.tables.reading.records import Row
from stopwise.tables.table import TableError

SUFFIXES = (".xlsx", ".xlsm")


@dataclass(frozen=True)
class Sheet:
    """The rows of one sheet, as text that reads back as the same values."""

    cells: tuple[Row, ...]
    name: str
    others: int

    @contextlib.contextmanager
    def rows(self) -> Iterator[Iterator[tuple[int, Row]]]:
        """Each row with its number; a blank one is an empty list."""
        yield ((at, row if any(row) else []) for at, row in enumerate(self.cells, start=1))

    @property
    def found(self) -> str:
        """Which sheet this is, in words."""
        more = f" (one of {self.others + 1})" if self.others else ""
        return f"the sheet '{shown(self.name)}'{more}"


def read_sheet(path: Path, label: str, name: str | None = None) -> Sheet:
    """A sheet of a workbook: the first that is not empty, or the one named."""
    library = openpyxl("reading spreadsheets")
    with plain_errors(label), zipfile.ZipFile(path) as archive:
        check_size(path, sum(part.file_size for part in archive.infolist()))
    with plain_errors(label), _book(library, path, label) as book:
        sheets = book.worksheets
        if name is not None and name not in book.sheetnames:
            raise TableError(f"{label} has no sheet named '{shown(name)}': it has {quoted(book.sheetnames)}")
        for sheet in [book[name]] if name is not None else sheets:
            rows = [[_text(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
            if any(any(row) for row in rows):
                return Sheet(tuple(_even(rows)), sheet.title, len(sheets) - 1)
    raise TableError(f"{label} holds no cells")


@contextlib.contextmanager
def _book(library: Any, path: Path, label: str) -> Iterator[Any]:
    try:
        book = library.load_workbook(path, read_only=True, data_only=True)
    except (KeyError, ValueError, TypeError, library.utils.exceptions.InvalidFileException) as problem:
        raise TableError(f"{label} cannot be read as a spreadsheet: {shown(problem, 300)}") from problem
    try:
        yield book
    finally:
        book.close()


def _even(rows: list[Row]) -> list[Row]:
    """Rows of one length, without the empty columns at the right."""
    width = max((at + 1 for row in rows for at, cell in enumerate(row) if cell), default=0)
    return [row[:width] + [""] * (width - len(row)) for row in rows]


def _text(cell: object) -> str:
    """A cell as text that reads back as the same value."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, dt.datetime):
        return cell.isoformat().removesuffix("T00:00:00")
    if isinstance(cell, dt.timedelta):
        return repr(cell.total_seconds() / DAY)
    return repr(cell) if isinstance(cell, int | float) else str(cell).strip()
