"""Files appear whole or not at all."""

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # a system without these locks: nothing is tidied up there
    fcntl = None

_NAME_LIMIT = 200
"""Bytes of the target's name in that of its temporary folder: inside every file system's limit."""


def _sync_folder(folder: Path) -> None:
    # Only after this does the new name survive a power cut; not every system can open a folder.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def checked_name(path: str | os.PathLike[str]) -> str:
    """A file's name as text, or an error that says what is wrong with it."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"a file's name must be text or a path, got {path!r}")
    name = os.fspath(path)
    if not isinstance(name, str) or "\0" in name or not name:
        raise ValueError(f"a file's name must be text without null characters, got {name!r}")
    return name


class _Room:
    """A hidden folder beside a target, held by a lock that goes when its process does, in whatever way it ends.

    Whoever writes may leave what it likes inside: all of it goes with the folder.
    """

    def __init__(self, target: Path) -> None:
        for attempt in range(5):
            self.path = target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}.tmp")
            os.mkdir(self.path, 0o700)
            self.handle = _locked(self.path)
            # Not held: there are no locks here, or somebody tidied up between the two lines and we try once more.
            if (self.handle is not None and self.path.is_dir()) or attempt == 4:
                return
            self.close()

    def close(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.handle is not None:
            os.close(self.handle)


def _prefix(target: Path) -> str:
    return f".{os.fsdecode(os.fsencode(target.name)[:_NAME_LIMIT])}."


def _locked(folder: str | Path) -> int | None:
    """A handle that holds the folder's lock; None where another process has it, or there are no such locks."""
    if fcntl is None:
        return None
    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if handle is not None:
            os.close(handle)
        return None
    return handle


def _tidy(target: Path) -> None:
    """Remove what processes that were killed while writing this target have left: folders that nobody holds."""
    pattern = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{12}\.tmp")
    with contextlib.suppress(OSError):
        for folder in [entry.path for entry in os.scandir(target.parent) if pattern.fullmatch(entry.name)]:
            handle = _locked(folder)
            if handle is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(handle)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside the target; on success its content takes the target's place in one step.

    Whatever goes wrong before that, the target is as it was and nothing is left beside it (after kill -9, nothing
    once the same target is written again). What a pipe or device is to hold is copied into it: it is never replaced.
    """
    name = checked_name(path)
    target = Path(os.path.realpath(name))
    if os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name):
        with tempfile.TemporaryDirectory(prefix="stopwise-") as folder:
            yield (made := Path(folder) / "written")
            with open(made, "rb") as content, open(name, "wb") as stream:
                shutil.copyfileobj(content, stream)
        return
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: name a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist: make it first")
    _tidy(target)
    room = _Room(target)
    try:
        temporary = room.path / target.name
        # Made here, so that a full disk is noticed early, and to learn the user's own permissions.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = stat.S_IMODE(temporary.stat().st_mode)
        yield temporary
        os.chmod(temporary, stat.S_IMODE(target.stat().st_mode) & 0o777 if target.exists() else mode)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    finally:
        room.close()
    _sync_folder(target.parent)
