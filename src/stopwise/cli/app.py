"""How every command ends: 0, or 2 with one line, or 130 after Ctrl-C; nothing half-written, no traceback."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from types import ModuleType
from typing import Any, NoReturn

import click

from stopwise.exceptions import CannotSave
from stopwise.tables import shown

BAD_INPUT, INTERRUPTED, TERMINATED = 2, 130, 143
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


def _terminated(number: int, frame: Any) -> NoReturn:
    raise SystemExit(TERMINATED)


def _mild_streams() -> None:
    """A name that the terminal's encoding lacks is spelled out rather than being an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


class Commands(click.Group):
    """The group of commands, `reproduce` among them wherever the experiments are installed."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, **{**extra, "standalone_mode": False})
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
            click.echo("stopwise: interrupted; nothing was written", err=True)
            return INTERRUPTED
        except _EXPECTED as problem:
            if os.environ.get("STOPWISE_DEBUG"):
                raise
            click.echo(f"stopwise: {one_line(problem)}", err=True)
            return BAD_INPUT

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "reproduce"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _reproduce() if cmd_name == "reproduce" else super().get_command(ctx, cmd_name)


def _reproduce() -> click.Command:
    """The command of the experiments, or one that says they are missing."""
    try:
        found: Any = importlib.import_module("stopwise.experiments.command")
    except ImportError:
        return _not_there()
    if isinstance(found, ModuleType):
        commands = [value for value in vars(found).values() if isinstance(value, click.Command)]
        named = [command for command in commands if command.name == "reproduce"]
        found = (named or commands or [_not_there()])[0]
    return found if isinstance(found, click.Command) else _not_there()


def _not_there() -> click.Command:
    def run() -> NoReturn:
        raise click.ClickException("the paper's experiments are not part of this installation of stopwise")

    return click.Command("reproduce", callback=run, help="Run the paper's experiments.")
