"""What commands say, and where: results on standard output, everything else on standard error."""

import contextlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from stopwise._support.arrays import Array
from stopwise._support.progress import Progress, console
from stopwise._support.row_numbers import rows_taken
from stopwise.tables import shown

PATIENCE = 2.0
"""Seconds of silence before progress is shown."""


def tell(result: dict[str, Any], show: Callable[[], None], *, as_json: bool, quiet: bool) -> None:
    """A result on standard output: one JSON object, the account that `show` prints, or nothing."""
    if as_json:
        click.echo(json.dumps(result, allow_nan=False))
    elif not quiet:
        show()


def print_facts(title: str, facts: Sequence[tuple[str, str]]) -> None:
    """A heading and aligned lines; every word is text, never markup."""
    out = console()
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


_OPTIONS = {
    "kernel= and its length_scale": "--kernel and --length-scale",
    "length_scale=": "--length-scale",
    "noise_std=": "--noise-std",
    "hilbert_radius= or another rule": "another --rule",
    "make all of it dates": "say --as COLUMN=date",
    "make all of it numbers": "mend those cells or name them with --gap",
    ": make them dates,": ": say --as COLUMN=date,",
    ", leave them out or give them less sample_weight": " or leave them out",
    ", leave it out or give it less sample_weight": " or leave it out",
}
"""What the library calls by its parameters, as options."""


def as_options(line: str) -> str:
    """A warning of the library in the words of the command line."""
    for word, option in _OPTIONS.items():
        line = line.replace(word, option)
    return line


@dataclass
class Tally:
    """What was met on the way."""

    rows: int = 0
    outside: int = 0
    missing: int = 0
    unseen: int = 0
    unfilled: int = 0
    """Rows without a prediction because they have a gap."""
    undefined: int = 0
    """Rows without a prediction because they lie where the kernel ends."""
    features: Counter[str] = field(default_factory=Counter)

    @property
    def unpredicted(self) -> int:
        """Rows without a prediction, whatever the reason."""
        return self.unfilled + self.undefined

    def sentences(self) -> list[str]:
        """What a reader should know, in words."""
        where = ", ".join(f"'{shown(name)}' ({count:,})" for name, count in self.features.most_common(5))
        found = {
            f"lie outside the range of the training data (extrapolation): {where}": self.outside,
            "have text never seen in training, which counts as none of the known levels": self.unseen,
            "have missing values, which are filled in": self.missing - self.unfilled,
            "have missing values and no prediction": self.unfilled,
            "lie where the kernel is not defined and have no prediction": self.undefined,
        }
        return [f"{count:,} of {self.rows:,} rows {words}" for words, count in found.items() if count]


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

    def progress(self, what: str) -> Progress:
        """What a command is at, on standard error once it takes long."""
        return Progress(not self.quiet, what, PATIENCE)

    @contextlib.contextmanager
    def listening(self, rows: Array | None = None) -> Iterator[None]:
        """Take in what libraries warn about; `rows` of a file are fitted, and called by their numbers from 1 on."""
        numbered = contextlib.nullcontext() if rows is None else rows_taken(rows, first=1)
        with numbered, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
        for warning in caught:
            if issubclass(warning.category, UserWarning):
                self.add(as_options(" ".join(str(warning.message).split())))
