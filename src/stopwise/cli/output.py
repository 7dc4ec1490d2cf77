"""What commands say, and where: results on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stopwise.tables import shown

PATIENCE = 2.0
"""Seconds of silence before progress is shown."""


def console(*, err: bool = False) -> Console:
    """A console that colours on a terminal only, and wraps lines there only."""
    made = Console(stderr=err, highlight=False, markup=False, emoji=False, soft_wrap=True)
    return made if made.is_terminal else Console(stderr=err, highlight=False, markup=False, emoji=False, width=10_000)


def emit_json(result: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    click.echo(json.dumps(result, allow_nan=False))


def number(value: Any, digits: int = 4) -> str:
    """A number, or several, for reading."""
    if value is None:
        return "unknown"
    if isinstance(value, list):
        text = ", ".join(number(part, digits) for part in value[:6])
        return text if len(value) <= 6 else f"{text}, ... ({len(value)} in all)"
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"


def print_facts(title: str, facts: Sequence[tuple[str, str]], *, err: bool = False) -> None:
    """A heading and aligned lines; every word is text, never markup."""
    out = console(err=err)
    out.print(Text(title, style="bold"))
    width = max(len(label) for label, _ in facts)
    for label, text in facts:
        line = Text(f"  {label.ljust(width)}  ", style="cyan")
        out.print(line.append(text, style="default"))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table, its first column to the left and numbers to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="left" if position == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


@dataclass
class Notes:
    """Warnings gathered while a command runs: said once, on standard error, and listed in JSON."""

    quiet: bool
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Keep a line, and say it unless told to be quiet."""
        if line in self.lines:
            return
        self.lines.append(line)
        if not self.quiet:
            console(err=True).print(Text(f"note: {shown(line, 500)}", style="yellow"))

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take in what libraries warn about."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        for warning in caught:
            if issubclass(warning.category, UserWarning):
                self.add(" ".join(str(warning.message).split()))


class Progress:
    """Silence for two seconds; then, on a terminal, a live line, and elsewhere a single one."""

    def __init__(self, what: str, quiet: bool) -> None:
        self.what, self.quiet = what, quiet
        self._started = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Progress:
        if not self.quiet:
            with contextlib.suppress(RuntimeError):  # no thread is to be had: the work goes on without a word
                self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _line(self) -> str:
        return f"{self.what} ... {time.monotonic() - self._started:.0f} s"

    def _run(self) -> None:
        if self._done.wait(PATIENCE):
            return
        out = console(err=True)
        if not out.is_terminal:
            out.print(f"{self.what} ...")
            return
        with out.status(Text(self._line())) as status:
            while not self._done.wait(0.25):
                status.update(Text(self._line()))
