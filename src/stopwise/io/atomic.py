"""Files appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

_NAME_LIMIT = 200
"""Temporary names stay inside every file system's limit, however long the target's name is."""


def _sync_folder(folder: Path) -> None:
    # Only after this does the new name survive a power cut; not every system can open a folder.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _temporary_beside(target: Path) -> Path:
    name = f".{target.name[:_NAME_LIMIT]}.{secrets.token_hex(6)}.tmp"
    return target.with_name(name)


def checked_name(path: str | os.PathLike[str]) -> str:
    """A file's name as text, or an error that says what is wrong with it."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"a file's name must be text or a path, got {path!r}")
    name = os.fspath(path)
    if not isinstance(name, str) or "\0" in name or not name:
        raise ValueError(f"a file's name must be text without null characters, got {name!r}")
    return name


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the target's folder; on success its content takes the target's place in one step.

    Whatever goes wrong before that, the target is as it was and the temporary file is removed. A pipe or device is
    written to as it stands: there is nothing to replace.
    """
    target = Path(os.path.realpath(checked_name(path)))
    if target.exists() and not target.is_file() and not target.is_dir():
        yield target
        return
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: name a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist: make it first")
    temporary = _temporary_beside(target)
    # Made here, with the user's own permissions, so that a folder that cannot be written to is noticed early.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o777)
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)
