"""Standard streams, pipes and devices: what may be closed, what has no name to replace, who left early."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

_BY_NUMBER = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_NAMED = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def occupy_standard_streams() -> None:
    """Put the null device where a standard stream was closed, so that no file of ours is mistaken for it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open as long as the process)


def abandon(stream: IO[str]) -> None:
    """Whoever was reading has heard enough: keep Python from complaining about it on its way out."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def number_of(path: Path) -> int | None:
    """The file descriptor that a path such as /dev/stdout or /dev/fd/63 stands for."""
    found = _BY_NUMBER.fullmatch(str(path))
    return int(found[1]) if found else _NAMED.get(str(path))


def is_stream(path: Path | None) -> bool:
    """Whether writing there is writing to a pipe, a device or a stream rather than making a file."""
    if path is None or str(path) == "-" or number_of(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def opened_stream(path: Path | None) -> AbstractContextManager[IO[bytes]] | None:
    """A pipe, device or stream opened for writing; None for the path of a file. It may be closed without harm."""
    if not is_stream(path):
        return None
    if path is None or str(path) == "-":
        sys.stdout.flush()
        return contextlib.nullcontext(sys.stdout.buffer)
    number = number_of(path)
    if number is None:
        return open(path, "wb")
    sys.stdout.flush()
    return os.fdopen(os.dup(number), "wb")
