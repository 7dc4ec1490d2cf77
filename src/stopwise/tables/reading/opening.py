"""Bytes of a table, wherever they lie: files, compressed files, pipes and standard input; unpacked with a bound."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from stopwise._support.optional import arrow
from stopwise.tables.names import shown
from stopwise.tables.table import TableError

BLOCK = 1 << 20
"""Bytes read at a time."""
UNPACKED, RATIO = 1 << 28, 500
"""A compressed table may unpack to so many bytes (256 MiB), or to so many times its size: deflate reaches about 1,000
on a file of one repeated byte, and text of numbers stays below 20."""

_UNREADABLE = (
    *(lzma.LZMAError, zipfile.BadZipFile, zlib.error, EOFError, gzip.BadGzipFile, UnicodeError),
    RuntimeError,  # a zip archive with a password, or packed in a way that Python cannot unpack
)


def _unzip(path: Path) -> IO[bytes]:
    archive = zipfile.ZipFile(path)
    members = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if len(members) != 1:
        raise TableError(f"{shown(path, 300)} holds {len(members)} files: a zip archive must hold one table")
    return archive.open(members[0])


def _zstandard(path: Path) -> IO[bytes]:
    pa = arrow("reading .zst files")
    return cast("IO[bytes]", pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))


OPENERS: dict[str, Callable[[Path], IO[bytes]]] = {
    "": lambda path: path.open("rb"),
    ".gz": lambda path: cast("IO[bytes]", gzip.GzipFile(path)),
    ".bz2": lambda path: cast("IO[bytes]", bz2.BZ2File(path)),
    ".xz": lambda path: cast("IO[bytes]", lzma.LZMAFile(path)),  # noqa: SIM115 (whoever asks closes it)
    ".zip": _unzip,
    ".zst": _zstandard,
}
_SIGNATURES = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PK\x03\x04": ".zip",
}


def compression_of(path: Path) -> str:
    """How a file is packed, by its first bytes: "" or a key of OPENERS."""
    with path.open("rb") as handle:
        start = handle.read(8)
    return next((kind for mark, kind in _SIGNATURES.items() if start.startswith(mark)), "")


def check_size(path: Path, unpacked: int) -> None:
    """Refuse what unpacks to a size that an honest table does not reach."""
    if unpacked > max(UNPACKED, RATIO * path.stat().st_size):
        raise TableError(
            f"{shown(path, 300)} unpacks to more than {RATIO} times its size, which no table does: if it is one, "
            "unpack it first"
        )


class _Guarded(io.RawIOBase):
    """A stream that unpacks a file, up to the bound of `check_size`."""

    def __init__(self, handle: IO[bytes], path: Path) -> None:
        super().__init__()
        self.handle, self.path, self.taken = handle, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        part = self.handle.read(min(len(buffer), BLOCK))
        self.taken += len(part)
        check_size(self.path, self.taken)
        buffer[: len(part)] = part
        return len(part)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """A file's bytes, unpacked."""
    kind = compression_of(path)
    with OPENERS[kind](path) as handle:
        if kind == "":
            yield cast(io.BufferedReader, handle)
        else:
            yield io.BufferedReader(_Guarded(handle, path), BLOCK)


@contextlib.contextmanager
def spooled(stream: IO[bytes], name: str = "standard input") -> Iterator[Path]:
    """A stream as a file, because tables are read more than once; removed at the end."""
    with tempfile.NamedTemporaryFile(prefix="stopwise-", suffix=".table") as copy:
        shutil.copyfileobj(stream, copy, BLOCK)
        if not copy.tell():
            raise TableError(f"{name} is empty: pipe a table into it")
        copy.flush()
        yield Path(copy.name)


def opened_pipe(path: Path) -> IO[bytes]:
    """A pipe or device opened for reading; a pipe that nobody writes to is an error rather than a wait without end."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    pipe = os.fdopen(number, "rb")
    try:
        silent = not pipe.peek(1)
    except BlockingIOError:  # a writer that has not begun
        silent = False
    if silent:
        pipe.close()
        raise TableError(f"nobody writes to the pipe {shown(path, 300)}: start the writer first, or name a file")
    os.set_blocking(number, True)
    return pipe


def standard_input() -> IO[bytes]:
    if sys.stdin is None or sys.stdin.closed:
        raise TableError("standard input is closed: pipe a table into it, or name a file")
    return sys.stdin.buffer


@contextlib.contextmanager
def plain_errors(label: str) -> Iterator[None]:
    """The many errors of readers as one, on one line."""
    try:
        yield
    except TableError:
        raise
    except _UNREADABLE as problem:
        why = shown(str(problem).strip() or "it is cut off", 300)
        if isinstance(problem, UnicodeError):
            why += "; its text is in another encoding: say which, such as --encoding cp1251 or shift_jis"
        raise TableError(f"{label} cannot be read as a table: {why}") from problem
    except OSError as problem:
        if problem.errno is not None:
            raise
        raise TableError(f"{label} cannot be read as a table: {shown(problem, 300)}") from problem
