"""How every command ends: 0, or 2 with one line, or 130 after Ctrl-C; nothing half-written, no traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

import click

from stopwise.cli.streams import abandon, occupy_standard_streams
from stopwise.exceptions import CannotSave
from stopwise.tables import shown

BAD_INPUT, INTERRUPTED, TERMINATED = 2, 130, 143
"""Exit codes, the last two as shells have them: after Ctrl-C, and after a polite kill."""
_EXPECTED = (ValueError, OSError, CannotSave, NotImplementedError, ImportError, MemoryError, click.ClickException)


def one_line(problem: BaseException) -> str:
    """An error as a single line for people."""
    if isinstance(problem, click.ClickException):
        text = problem.format_message()
    elif isinstance(problem, MemoryError):
        text = f"not enough memory: {problem}" if str(problem) else "not enough memory"
    elif isinstance(problem, OSError) and problem.strerror:
        text = f"{problem.filename}: {problem.strerror}" if problem.filename else problem.strerror
    else:
        text = str(problem) or type(problem).__name__
    return shown(" ".join(text.split()), 1000)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)


def _mild_streams() -> None:
    """A name that the terminal's encoding lacks is spelled out rather than being an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _complain(line: str) -> None:
    """A line on standard error, if anybody reads that."""
    try:
        click.echo(f"stopwise: {line}", err=True)
    except OSError:
        abandon(sys.stderr)


def _drop_what_cannot_be_written() -> None:
    """Text that a full disk refused stays in the buffer: Python would try again on its way out, and end with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        abandon(sys.stdout)


class ReaderLeft(Exception):
    """Whoever read standard output left early, and so has what it wanted; click would end with code 1."""


@contextlib.contextmanager
def _readers_may_leave() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as problem:
        raise ReaderLeft from problem


class Commands(click.Group):
    """The group of commands; `reproduce` is imported when it is asked for, since it brings joblib and more."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, **{**extra, "standalone_mode": False})
        occupy_standard_streams()
        _mild_streams()
        if threading.current_thread() is threading.main_thread():
            # A polite kill unwinds, so that temporary files are removed.
            signal.signal(signal.SIGTERM, _terminated)
        sys.exit(self._ended(*args, **extra))

    def _ended(self, *args: Any, **extra: Any) -> int:
        try:
            result = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
            return result if isinstance(result, int) else 0
        except (click.Abort, KeyboardInterrupt):
            _complain("interrupted; nothing was written")
            return INTERRUPTED
        except (BrokenPipeError, ReaderLeft):
            abandon(sys.__stdout__ or sys.stdout)
            return 0
        except _EXPECTED as problem:
            if os.environ.get("STOPWISE_DEBUG"):
                raise
            _complain(one_line(problem))
            _drop_what_cannot_be_written()
            return BAD_INPUT

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _readers_may_leave():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _readers_may_leave():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "reproduce"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "reproduce":
            return super().get_command(ctx, cmd_name)
        from stopwise.experiments.command import reproduce

        return reproduce
