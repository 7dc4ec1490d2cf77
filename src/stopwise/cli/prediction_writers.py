"""Where predictions go, a batch at a time: a file of the kind its name says, a stream, or arrays in a JSON object."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import json
import lzma
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import click
import numpy as np
import numpy.typing as npt

from stopwise._support.arrays import Array
from stopwise._support.optional import arrow, openpyxl
from stopwise.cli.streams import opened_stream
from stopwise.io import atomic_path
from stopwise.tables.names import shown

Cells: TypeAlias = Array | npt.NDArray[np.object_]
_SHEET_ROWS = 1_048_576
"""The most rows that a spreadsheet can have."""
_SEPARATORS = {"": ",", ".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PACKERS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    # No time of writing inside: the same predictions are the same bytes.
    ".gz": lambda handle: cast("IO[bytes]", gzip.GzipFile("", "wb", fileobj=handle, mtime=0)),
    ".bz2": lambda handle: cast("IO[bytes]", bz2.BZ2File(handle, "wb")),
    ".xz": lambda handle: cast("IO[bytes]", lzma.LZMAFile(handle, "wb")),  # noqa: SIM115 (the writer closes it)
}
WRITTEN = ".csv or .tsv (plain, .gz, .bz2 or .xz), .parquet or .xlsx"


class _TextWriter:
    def __init__(self, handle: IO[bytes], separator: str) -> None:
        self.handle, self.separator, self.started = handle, separator, False

    def write(self, columns: Mapping[str, Cells]) -> None:
        text = io.StringIO()
        rows = csv.writer(text, delimiter=self.separator, lineterminator="\n")
        if not self.started:
            rows.writerow(columns)
            self.started = True
        rows.writerows(zip(*(_listed(values, "") for values in columns.values()), strict=True))
        self.handle.write(text.getvalue().encode())

    def close(self) -> None:
        """Hand everything on; the stream below stays open."""
        self.handle.flush()


class _ParquetWriter:
    def __init__(self, handle: IO[bytes]) -> None:
        self.arrow, self.parquet = arrow("writing Parquet"), arrow("writing Parquet", "pyarrow.parquet")
        self.handle = handle
        self.writer: Any = None

    def write(self, columns: Mapping[str, Cells]) -> None:
        pa = self.arrow
        kinds = {name: pa.float64() if values.dtype.kind == "f" else pa.string() for name, values in columns.items()}
        table = pa.table({name: pa.array(_listed(values), kinds[name]) for name, values in columns.items()})
        self.writer = self.writer or self.parquet.ParquetWriter(self.handle, table.schema)
        self.writer.write_table(table)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


class _SheetWriter:
    def __init__(self, handle: IO[bytes]) -> None:
        library = openpyxl("writing spreadsheets")
        self.handle, self.book, self.cell = handle, library.Workbook(write_only=True), library.cell
        self.sheet, self.rows = self.book.create_sheet("predictions"), 0

    def write(self, columns: Mapping[str, Cells]) -> None:
        if not self.rows:
            self.sheet.append([self._cell(name) for name in columns])
            self.rows = 1
        for row in zip(*(_listed(values) for values in columns.values()), strict=True):
            self.sheet.append([self._cell(value) for value in row])
            self.rows += 1
            if self.rows > _SHEET_ROWS:
                raise click.ClickException(
                    f"a spreadsheet has at most {_SHEET_ROWS:,} rows: write predictions to a .csv or .parquet file"
                )

    def _cell(self, value: Any) -> Any:
        """Text as a cell of text: openpyxl would make a formula of =A1 and an error of #N/A."""
        if not isinstance(value, str):
            return value
        cell = self.cell.WriteOnlyCell(self.sheet, value)
        cell.data_type = "s"
        return cell

    def close(self) -> None:
        self.book.save(self.handle)


def _listed(values: Cells, nothing: str | None = None) -> list[Any]:
    """A column as Python values; NaN and None as nothing."""
    return [nothing if value is None or value != value else value for value in values.tolist()]


def kind_of(out: Path) -> tuple[str, str]:
    """The kind and the packing that a file's name says, such as (".csv", ".gz"); an error for what is not written."""
    suffixes = [suffix.lower() for suffix in out.suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in _PACKERS else ""
    kind = suffixes[-1] if suffixes else ""
    known = {*_SEPARATORS} | (set() if packing else {".parquet", ".pq", ".xlsx"})
    if kind not in known or (packing and not kind):
        said = kind + packing or "no ending"
        raise click.UsageError(f"predictions are written as {WRITTEN}, and '{shown(out.name)}' ends in {said}")
    return kind, packing


def check_writable(out: Path) -> None:
    """Say before the work what could not be written after it: a kind of file, or a library that it needs."""
    kind, _ = kind_of(out)
    if kind in (".parquet", ".pq"):
        arrow("writing Parquet")
    if kind == ".xlsx":
        openpyxl("writing spreadsheets")


@contextlib.contextmanager
def file_writer(out: Path | None) -> Iterator[Writer]:
    """A writer for a file, which appears whole at the end, or for a stream."""
    stream = opened_stream(out)
    if stream is not None:
        with stream as handle:
            writer = _TextWriter(handle, ",")
            yield writer
            writer.close()
        return
    kind, packing = kind_of(cast(Path, out))
    with atomic_path(cast(Path, out)) as temporary, contextlib.ExitStack() as files:
        handle = files.enter_context(open(temporary, "wb"))
        if packing:
            handle = cast(Any, files.enter_context(_PACKERS[packing](handle)))
        made: Any = {".parquet": _ParquetWriter, ".pq": _ParquetWriter, ".xlsx": _SheetWriter}.get(kind)
        writer = _TextWriter(handle, _SEPARATORS[kind]) if made is None else made(handle)
        yield writer
        writer.close()


class JsonWriter:
    """Arrays spooled to temporary files, so that memory does not grow, then put into one object."""

    def __init__(self, files: contextlib.ExitStack) -> None:
        self.files = files
        self.arrays: dict[str, IO[str]] = {}

    def write(self, columns: Mapping[str, Cells]) -> None:
        for name, values in columns.items():
            if name not in self.arrays:
                spool = tempfile.TemporaryFile("w+", encoding="ascii")  # noqa: SIM115 (the stack closes it)
                self.arrays[name] = self.files.enter_context(spool)
            cells = [json.dumps(value) for value in _listed(values)]
            if cells:
                self.arrays[name].write((", " if self.arrays[name].tell() else "") + ", ".join(cells))

    def emit(self, result: dict[str, Any]) -> None:
        """Print the object, each key of an array replaced by the array."""
        out = sys.stdout
        out.write("{")
        for position, (key, value) in enumerate(result.items()):
            out.write((", " if position else "") + json.dumps(key) + ": ")
            if key in self.arrays:
                out.write("[")
                self.arrays[key].seek(0)
                shutil.copyfileobj(self.arrays[key], out)
                out.write("]")
            else:
                out.write(json.dumps(value, allow_nan=False))
        out.write("}\n")


Writer: TypeAlias = _TextWriter | _ParquetWriter | _SheetWriter | JsonWriter
"""Takes columns of equal length, batch by batch: numbers (NaN: no prediction) or text (None: no name)."""
