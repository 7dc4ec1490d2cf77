"""Tables on disk: CSV, TSV and Parquet, compressed or not, one file or a folder of them, whole or in batches."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stopwise.tables.names import quoted, shown, told_apart

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PARQUET = {".parquet", ".pq"}
_BLOCK = 1 << 20
"""Bytes of text turned into columns at a time: small enough that many of them in a row leave no trace in memory."""


_UNPACKED, _RATIO = 1 << 28, 500
"""A compressed table may unpack to so many bytes, or to so many times its size."""


_UNREADABLE = (
    *(pa.ArrowException, lzma.LZMAError, zipfile.BadZipFile, zlib.error, EOFError, gzip.BadGzipFile, UnicodeError),
    RuntimeError,  # a zip archive with a password, or packed in a way that Python cannot unpack
)


class TableError(ValueError):
    """A table that cannot be used, and why."""


def _unzip(path: Path) -> Any:
    archive = zipfile.ZipFile(path)
    members = [name for name in archive.namelist() if not name.endswith("/")]
    if len(members) != 1:
        raise TableError(f"{path} holds {len(members)} files: a zip archive must hold one table")
    return archive.open(members[0])


_OPENERS: dict[str, Callable[[Path], Any]] = {
    "": lambda path: path.open("rb"),
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": _unzip,
    ".zst": lambda path: pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"),
}
FORMATS = "CSV (.csv), TSV (.tsv), both also as .gz, .bz2, .xz, .zip or .zst, Parquet (.parquet), or a folder of them"


class _Guarded:
    """A stream that unpacks a file, up to a size that an honest table does not reach."""

    def __init__(self, handle: Any, path: Path) -> None:
        self.handle, self.path, self.taken = handle, path, 0
        self.most = max(_UNPACKED, _RATIO * path.stat().st_size)

    def read(self, size: int = -1) -> Any:
        """The next bytes."""
        part = self.handle.read(size if size >= 0 else _BLOCK)
        self.taken += len(part)
        if self.taken > self.most:
            raise TableError(
                f"{self.path} unpacks to more than {_RATIO} times its size, which no table does: if it is one, "
                "unpack it first"
            )
        return part

    def close(self) -> None:
        self.handle.close()

    @property
    def closed(self) -> bool:
        return bool(self.handle.closed)


@dataclass(frozen=True)
class Source:
    """One file of a table. `separator` is None for Parquet."""

    path: Path
    separator: str | None
    compression: str | None = None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        opener = _OPENERS[self.compression or ""]
        with opener(self.path) as handle:
            yield handle if self.compression is None else cast(IO[bytes], _Guarded(handle, self.path))

    def names(self) -> list[str]:
        """Column names in order, repeats told apart."""
        with plain_errors(self.path):
            if self.separator is None:
                return told_apart(pa.parquet.ParquetFile(self.path).schema_arrow.names)
            with self._opened() as handle, self._reader(handle, None, {}) as reader:
                return told_apart(reader.schema.names)

    def _reader(self, handle: IO[bytes], names: list[str] | None, types: dict[str, Any]) -> Any:
        read = pa.csv.ReadOptions(block_size=_BLOCK, use_threads=False)
        if names is not None:
            # The header is skipped as a row of its own, so that names with line breaks or repeats do no harm.
            read.column_names, read.skip_rows_after_names = names, 1
        return pa.csv.open_csv(handle, read, self._parsing(), _conversion(list(types) or None, types))

    def _parsing(self) -> Any:
        return pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)

    def batches(self, types: dict[str, Any], rows: int) -> Iterator[pa.Table]:
        """The named columns, so many rows at a time, as the given types (a type of None: as they come)."""
        names = self.names()
        with plain_errors(self.path):
            if self.separator is None:
                yield from self._parquet_batches(names, list(types), rows)
                return
            with self._opened() as handle:
                for batch in self._reader(handle, names, types):
                    yield pa.Table.from_batches([batch])

    def _parquet_batches(self, names: list[str], wanted: list[str], rows: int) -> Iterator[pa.Table]:
        file = pa.parquet.ParquetFile(self.path)
        repeated = len(set(file.schema_arrow.names)) < len(names)
        for batch in file.iter_batches(rows, columns=None if repeated else wanted, use_threads=False):
            table = pa.Table.from_batches([batch])
            yield (table.rename_columns(names) if repeated else table).select(wanted)

    def whole(self) -> pa.Table:
        """All rows and columns, types read off the values."""
        names = self.names()
        with plain_errors(self.path):
            if self.separator is None:
                return pa.parquet.ParquetFile(self.path).read().rename_columns(names)
            read = pa.csv.ReadOptions(column_names=names, skip_rows_after_names=1, block_size=_BLOCK)
            with self._opened() as handle:
                return pa.csv.read_csv(handle, read, self._parsing(), _conversion(None, {}))


def _conversion(columns: list[str] | None, types: dict[str, Any]) -> Any:
    known = {name: kind for name, kind in types.items() if kind is not None}
    return pa.csv.ConvertOptions(
        include_columns=columns, column_types=known, strings_can_be_null=True, quoted_strings_can_be_null=True
    )


@contextlib.contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """The reader's many errors as one, on one line."""
    try:
        yield
    except TableError:
        raise
    except pa.ArrowMemoryError as problem:
        raise MemoryError(f"{path} does not fit: {shown(problem, 300)}") from problem
    except _UNREADABLE as problem:
        if "launch worker thread" in str(problem):
            raise MemoryError(f"{path} could not be read: no thread could be started") from problem
        raise TableError(
            f"{path} cannot be read as a table: {shown(str(problem).strip() or 'it is cut off', 300)}"
        ) from problem
    except OSError as problem:
        if problem.errno is not None:
            raise
        raise TableError(f"{path} cannot be read as a table: {shown(problem, 300)}") from problem


def _source(path: Path, separator: str | None) -> Source | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PARQUET:
        return Source(path, None)
    compression = suffixes.pop() if suffixes and suffixes[-1] in _OPENERS else None
    kind = suffixes[-1] if suffixes else ""
    if kind not in _SEPARATORS and separator is None:
        return None
    return Source(path, separator or _SEPARATORS[kind], compression)


def find_sources(path: Path, separator: str | None = None) -> list[Source]:
    """The files that make up a table."""
    if not path.exists():
        raise TableError(f"{shown(path, 300)} does not exist")
    separator = "\t" if separator == "\\t" else separator
    if separator is not None and not (len(separator) == 1 and separator.isascii() and separator not in '"\r\n'):
        raise TableError(f"a separator must be one character, such as ';' or '\\t', got {shown(repr(separator))}")
    if not path.is_dir() and not path.is_file():
        raise TableError(
            f"{shown(path, 300)} is a pipe or a device, and tables are read twice: save it to a file first"
        )
    if not path.is_dir():
        source = _source(path, separator)
        if source is None:
            raise TableError(
                f"{shown(path, 300)} is not a kind of file stopwise reads: {FORMATS}; or name a --separator"
            )
        return [source]
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
    sources = [source for source in (_source(file, separator) for file in files) if source is not None]
    if not sources:
        raise TableError(f"the folder {shown(path, 300)} holds no table: {FORMATS}")
    return sources


def read_whole(path: Path, separator: str | None = None) -> pa.Table:
    """Every row of a file or folder; files must have the same columns."""
    tables = [(source, source.whole()) for source in find_sources(path, separator)]
    first = tables[0][1]
    for source, table in tables[1:]:
        differing = set(first.column_names) ^ set(table.column_names)
        if differing:
            raise TableError(
                f"{shown(source.path, 300)} has other columns than the first file: {quoted(sorted(differing))}"
            )
    try:
        return pa.concat_tables([table.select(first.column_names) for _, table in tables], promote_options="permissive")
    except pa.ArrowException as problem:
        raise TableError(f"files in {shown(path, 300)} do not fit together: {shown(problem, 300)}") from problem
