"""Where predictions go, a batch at a time: CSV, Parquet, or arrays inside a JSON object."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import click
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stopwise._support.arrays import Array
from stopwise.io import atomic_path


class Sink(Protocol):
    """Takes columns of equal length, batch by batch; NaN means that there is no prediction."""

    def write(self, columns: dict[str, Array]) -> None:
        """Add a batch."""


class _CsvSink:
    def __init__(self, handle: IO[bytes]) -> None:
        self.handle, self.started = handle, False

    def write(self, columns: dict[str, Array]) -> None:
        table = _as_table(columns)
        if not self.started:
            self.handle.write((",".join(columns) + "\n").encode())
            self.started = True
        buffer = pa.BufferOutputStream()
        pa.csv.write_csv(table, buffer, pa.csv.WriteOptions(include_header=False))
        self.handle.write(buffer.getvalue())


class _ParquetSink:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer: Any = None

    def write(self, columns: dict[str, Array]) -> None:
        table = _as_table(columns)
        if self.writer is None:
            self.writer = pa.parquet.ParquetWriter(self.path, table.schema)
        self.writer.write_table(table)

    def close(self) -> None:
        """Finish the file."""
        if self.writer is not None:
            self.writer.close()


def _as_table(columns: dict[str, Array]) -> Any:
    return pa.table({name: pa.array(values, pa.float64(), mask=np.isnan(values)) for name, values in columns.items()})


@contextlib.contextmanager
def file_sink(out: Path | None) -> Iterator[Sink]:
    """A sink for a file, which appears whole at the end, or for standard output."""
    if out is None or str(out) == "-":
        try:
            yield _CsvSink(sys.stdout.buffer)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever was reading has heard enough; keep Python from complaining about it on its way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None
        return
    with atomic_path(out) as temporary:
        if out.suffix.lower() in (".parquet", ".pq"):
            parquet = _ParquetSink(temporary)
            try:
                yield parquet
            finally:
                parquet.close()
        else:
            with open(temporary, "wb") as handle:
                yield _CsvSink(handle)


class JsonSink:
    """Arrays spooled to temporary files, so that memory does not grow, then put into one object."""

    def __init__(self, files: contextlib.ExitStack) -> None:
        self.files = files
        self.arrays: dict[str, IO[str]] = {}

    def write(self, columns: dict[str, Array]) -> None:
        """Add a batch."""
        for name, values in columns.items():
            if name not in self.arrays:
                spool = tempfile.TemporaryFile("w+", encoding="ascii")  # noqa: SIM115 (the stack closes it)
                self.arrays[name] = self.files.enter_context(spool)
            numbers = ["null" if np.isnan(value) else repr(float(value)) for value in values]
            if numbers:
                self.arrays[name].write((", " if self.arrays[name].tell() else "") + ", ".join(numbers))

    def emit(self, result: dict[str, Any], out: IO[str]) -> None:
        """Print the object, each key of an array replaced by the array."""
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
