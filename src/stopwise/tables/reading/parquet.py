"""Parquet tables, through Arrow: the extra `parquet`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stopwise._support.optional import arrow
from stopwise.tables.column_types import ColumnType, Reading, settle
from stopwise.tables.encodings import as_text
from stopwise.tables.frames import as_table
from stopwise.tables.names import shown
from stopwise.tables.reading.opening import RATIO, UNPACKED, plain_errors
from stopwise.tables.reading.text_source import BATCH, check_names
from stopwise.tables.table import Column, Kind, Table, TableError, empty_column

MAGIC = b"PAR1"


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file."""

    path: Path
    label: str

    @property
    def found(self) -> str:
        return "a Parquet file"

    def _file(self) -> Any:
        parquet = arrow("reading Parquet", "pyarrow.parquet")
        with arrow_errors(self.label):
            file = parquet.ParquetFile(self.path)
            _check_rows(self.path, self.label, file.metadata)
            return file

    def names(self) -> list[str]:
        """The columns' names; two of the same name are an error."""
        names = [str(name) for name in self._file().schema_arrow.names]
        check_names(names, self.label)
        return names

    def row_names(self) -> str | None:
        """pandas' index, where it was kept as a column."""
        return next((name for name in self.names() if name.startswith("__index_level_")), None)

    def types(self, reading: Reading, wanted: list[str] | None = None) -> dict[str, ColumnType]:
        """How each column is read: by the file's own schema, unless a model or an option says otherwise."""
        file = self._file()
        chosen = wanted or self.names()
        with arrow_errors(self.label):
            empty = as_table(file.schema_arrow.empty_table().select(chosen))
        own = {name: column.kind for name, column in empty.columns.items()}
        said = {name: reading.guess(name, ".").possible[-1].kind for name in chosen if name in reading.words}
        kinds = {**own, **reading.kinds, **said}
        types = {name: ColumnType(kinds[name], marks=reading.marks, said=name in said) for name in chosen}
        spelled = [name for name in chosen if own[name] is Kind.TEXT and kinds[name] not in (Kind.TEXT, Kind.EMPTY)]
        return types | self._spelled(reading, spelled)

    def _spelled(self, reading: Reading, names: list[str]) -> dict[str, ColumnType]:
        """How text is read that a model or an option says to be something else, decided by all its cells."""
        guesses, seen = {name: reading.guess(name, ".") for name in names}, 0
        for table in self.batches(dict.fromkeys(names, ColumnType(Kind.TEXT))) if names else ():
            for name, guess in guesses.items():
                guess.see(_cells(table.columns[name]), seen)
            seen += len(table)
        return {name: settle(name, guess, reading) for name, guess in guesses.items()}

    def batches(self, types: Mapping[str, ColumnType], rows: int = BATCH) -> Iterator[Table]:
        """The columns of these types, so many rows at a time."""
        with arrow_errors(self.label):
            for batch in self._file().iter_batches(rows, columns=list(types), use_threads=False):
                table = as_table(_exact(batch, types))
                yield Table(
                    {name: made.with_gaps(_fitting(table.columns[name], made, name)) for name, made in types.items()}
                )


def _exact(batch: Any, types: Mapping[str, ColumnType]) -> Any:
    """Rows as an Arrow table, whole numbers that are wanted as text written out: as floats they would lose digits."""
    pa = arrow("reading Parquet")
    table = pa.Table.from_batches([batch])
    for at, field in enumerate(table.schema):
        if types[field.name].kind is Kind.TEXT and pa.types.is_integer(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.string()))
    return table


def _cells(column: Column) -> list[str]:
    """Text as the cells of a file of text, gaps as empty ones."""
    return ["" if cell is None else str(cell).strip() for cell in column.values]


def _fitting(column: Column, made: ColumnType, name: str) -> Column:
    """The column as a kind that it can be read as."""
    kind, column = made.kind, replace(column, said=column.said or made.said)
    if column.kind is kind or kind is Kind.EMPTY or {column.kind, kind} == {Kind.NUMBER, Kind.BOOLEAN}:
        return column
    if column.missing.all():
        return empty_column(kind, len(column))
    if kind is Kind.TEXT:
        return replace(as_text(column), said=made.said)
    spelled = made.read(_cells(column)) if column.kind is Kind.TEXT else None
    if spelled is not None:
        return spelled
    raise TableError(f"the column '{shown(name)}' must hold {kind.value}, but it holds {column.kind.value}")


def _check_rows(path: Path, label: str, metadata: Any) -> None:
    """Refuse a small file that says it holds rows without end: eight bytes a cell is what they take here."""
    unpacked = 8 * metadata.num_rows * metadata.num_columns
    if unpacked > max(UNPACKED, RATIO * path.stat().st_size):
        raise TableError(
            f"{label} holds {metadata.num_rows:,} rows of {metadata.num_columns} columns in "
            f"{path.stat().st_size:,} bytes, more than {RATIO} times what they take unpacked: if it is a table, write "
            "its distinct rows"
        )


@contextlib.contextmanager
def arrow_errors(label: str) -> Iterator[None]:
    """Arrow's many errors as one, on one line."""
    pa = arrow("reading Parquet")
    try:
        with plain_errors(label):
            yield
    except pa.ArrowMemoryError as problem:
        raise MemoryError(f"{label} does not fit: {shown(problem, 300)}") from problem
    except pa.ArrowException as problem:
        raise TableError(f"{label} cannot be read as a table: {shown(problem, 300)}") from problem
