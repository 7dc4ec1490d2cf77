"""Where a table lies and who reads it: one file or a folder of them, by what is inside rather than by the name."""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from stopwise.tables.column_types import ColumnType, Reading
from stopwise.tables.names import quoted, shown
from stopwise.tables.reading.opening import (
    OPENERS,
    compression_of,
    opened,
    opened_pipe,
    plain_errors,
    spooled,
    standard_input,
)
from stopwise.tables.reading.parquet import MAGIC, ParquetSource
from stopwise.tables.reading.sniffing import Given, is_wide, sniff, sniff_cells
from stopwise.tables.reading.spreadsheet import SUFFIXES, read_sheet
from stopwise.tables.reading.text_source import BATCH, TextFile, TextSource
from stopwise.tables.table import Kind, Table, TableError, stacked

FORMATS = (
    "text with separators (.csv, .tsv, ...), plain or packed (.gz, .bz2, .xz, .zip, .zst), Parquet (.parquet), a "
    "spreadsheet (.xlsx), or a folder of them; - is standard input"
)
_IN_FOLDERS = {".csv", ".tsv", ".tab", ".parquet", ".pq", *SUFFIXES}
_OTHERS = {b"\xd0\xcf\x11\xe0": "an old .xls spreadsheet: save it as .xlsx", b"%PDF": "a PDF", b"\x89PNG": "a picture"}
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:\[\s*)?\{\s*[\"}]|\[\s*\[)")
"""How objects begin, one or a list of them, and lists of lists; a header may begin with a bracket, too."""

Source: TypeAlias = TextSource | ParquetSource
"""One file of a table."""


@dataclass(frozen=True)
class Asked:
    """What the caller says of a table: how text is written, which sheet, and names that its header must hold."""

    given: Given = field(default_factory=Given)
    sheet: str | None = None
    expected: Collection[str] = ()


@dataclass(frozen=True)
class Tables:
    """The files that make up a table."""

    sources: tuple[Source, ...]

    @property
    def found(self) -> str:
        """How the first file is written, in words."""
        return self.sources[0].found

    def names(self) -> list[str]:
        """The columns of the first file; every other file must have the same."""
        first = self.sources[0].names()
        for source in self.sources[1:]:
            differing = sorted(set(first) ^ set(source.names()))
            if differing:
                raise TableError(f"{source.label} has other columns than the first file: {quoted(differing)}")
        return first

    def row_names(self) -> str | None:
        """The column that only numbers or names the rows, if there is one."""
        return self.sources[0].row_names()

    def types(self, reading: Reading, wanted: list[str] | None = None) -> list[dict[str, ColumnType]]:
        """How each file's columns are read: of one kind in all of them."""
        found = [source.types(reading, wanted) for source in self.sources]
        kinds = {name: _common({made[name].kind for made in found}) for name in found[0]}
        kinds = {name: kind for name, kind in kinds.items() if name not in reading.words}
        if all(made[name].kind is kind for made in found for name, kind in kinds.items()):
            return found
        agreed = replace(reading, kinds={**kinds, **reading.kinds})
        return [source.types(agreed, wanted) for source in self.sources]

    def batches(self, types: Sequence[Mapping[str, ColumnType]], rows: int = BATCH) -> Iterator[Table]:
        """All rows, so many at a time."""
        for source, made in zip(self.sources, types, strict=True):
            yield from source.batches(made, rows)

    def whole(self, reading: Reading | None = None, wanted: list[str] | None = None) -> Table:
        types = self.types(reading or Reading(), wanted or self.names())
        tables = list(self.batches(types))
        if not tables:
            raise TableError("a fit needs at least 2 rows; the table has 0")
        return stacked(tables)


def _common(kinds: set[Kind]) -> Kind:
    """One kind for a column that files hold differently."""
    kinds = kinds - {Kind.EMPTY} or kinds
    if len(kinds) == 1:
        return next(iter(kinds))
    return Kind.NUMBER if kinds == {Kind.NUMBER, Kind.BOOLEAN} else Kind.TEXT


@contextlib.contextmanager
def open_tables(path: str | Path, asked: Asked | None = None) -> Iterator[Tables]:
    """The table at a path: a file, a folder, a pipe, or "-" for standard input."""
    asked = asked or Asked()
    place = Path(path)
    if str(path) == "-":
        with spooled(standard_input()) as copy:
            yield Tables((_source(copy, "standard input", asked),))
    elif files := input_files(place):
        yield Tables(tuple(_source(file, shown(file, 300), asked) for file in files))
    else:
        with opened_pipe(place) as pipe, spooled(pipe, shown(place, 300)) as copy:
            yield Tables((_source(copy, shown(place, 300), asked),))


def input_files(path: str | Path) -> list[Path]:
    """The files that a table is read from, for whoever must not write to them; none for pipes."""
    place = Path(path)
    if str(path) == "-":
        return []
    if not place.exists():
        raise TableError(f"{shown(place, 300)} does not exist")
    return _files(place) if place.is_dir() else [place] if place.is_file() else []


def _files(folder: Path) -> list[Path]:
    """The tables of a folder, by name; hidden files and other kinds are passed over."""
    found = sorted(
        file
        for file in folder.iterdir()
        if file.is_file() and not file.name.startswith((".", "_")) and _suffix(file) in _IN_FOLDERS
    )
    if not found:
        raise TableError(f"the folder {shown(folder, 300)} holds no table: {FORMATS}")
    return found


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in OPENERS else "".join(suffixes[-1:])


def _source(path: Path, label: str, asked: Asked) -> Source:
    """The reader for what is inside a file."""
    with plain_errors(label):
        workbook = compression_of(path) == ".zip" and _is_workbook(path)
        start = b"" if workbook else _start(path)
    for mark, what in _OTHERS.items():
        if start.startswith(mark):
            raise TableError(f"{label} is {what}; stopwise reads {FORMATS}")
    if _JSON.match(start):
        raise TableError(f"{label} is JSON, which is not read: write it as .csv or .parquet; stopwise reads {FORMATS}")
    if asked.sheet is not None and not workbook:
        raise TableError(f"--sheet is for spreadsheets, and {label} is none: leave it out")
    if start.startswith(MAGIC):
        return ParquetSource(path, label)
    if asked.given.encoding is None and b"\0" in start and not is_wide(start):
        line = start[: start.index(b"\0")].count(b"\n") + 1
        raise TableError(f"{label} is not a kind of file stopwise reads (a zero byte in line {line:,}): {FORMATS}")
    if workbook:
        sheet = read_sheet(path, label, asked.sheet)
        dialect = sniff_cells(sheet.cells, asked.given, asked.expected)
        return TextSource(sheet, label, dialect, f"{sheet.found}, {'a' if dialect.header else 'no'} header")
    with plain_errors(label):
        dialect = sniff(path, asked.given, asked.expected)
    return TextSource(TextFile(path, dialect.layout), label, dialect, dialect.sentence)


def _start(path: Path) -> bytes:
    """The first bytes of a file, unpacked."""
    with opened(path) as handle:
        start = handle.read(4096)
    if not start:
        raise TableError(f"{shown(path, 300)} is empty")
    return start


def _is_workbook(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return "[Content_Types].xml" in archive.namelist()
    except zipfile.BadZipFile:
        return False
