"""Options that say what a table is and how it is written, and the table that they mean."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import click

from stopwise.cli.options import names_among, stacked
from stopwise.cli.output import Notes
from stopwise.examples import load_example
from stopwise.tables import (
    MAX_LEVELS,
    MISSING,
    Asked,
    Given,
    Reading,
    Roles,
    TableEncoder,
    Training,
    labels_of_sums,
    open_tables,
    prepare,
    quoted,
)
from stopwise.tables.dates import PARTS

_MISSING_HELP = "Rows with a gap: fill it in, leave the row out, or stop.  [default: impute]"

writing_options = stacked(
    [
        click.option("--separator", help="What separates fields, such as ';' or '\\t'.  [default: found]"),
        click.option("--decimal", type=click.Choice([".", ","]), help="The decimal mark.  [default: found]"),
        click.option("--encoding", help="Of text, such as utf-8 or cp1252.  [default: found]"),
        click.option("--quote", type=click.Choice(['"', "'", "none"]), help="Around fields.  [default: found]"),
        click.option(
            "--header/--no-header", default=None, help="Whether the first row names columns.  [default: found]"
        ),
        click.option("--sheet", help="Of a spreadsheet.  [default: the first that is not empty]"),
        click.option(
            "--as",
            "kinds",
            multiple=True,
            metavar="COLUMN=KIND",
            help="Read a column as number, text, date, boolean or a pattern such as %d/%m/%Y; may be repeated.",
        ),
        click.option("--gap", "gaps", multiple=True, help="A further cell that means no value, such as -9999."),
        click.option("--missing", type=click.Choice(MISSING), help=_MISSING_HELP),
    ]
)
table_options = stacked(
    [
        click.option("--target", help="The column to predict."),
        click.option("--features", multiple=True, help="A column to use, or several with commas; may be repeated."),
        click.option("--exclude", multiple=True, help="A column to leave out; may be repeated."),
        click.option("--id", "id_column", help="A column that names rows: no feature, carried through by predict."),
        click.option(
            "--max-levels",
            type=click.IntRange(1),
            default=MAX_LEVELS,
            help="Values of a text column that are told apart.",
        ),
        click.option(
            "--many",
            type=click.Choice(["pool", "drop", "error"]),
            default="pool",
            help="Text of more values: make one of the rare ones, leave the column out, or stop.",
        ),
        click.option("--dates", default=",".join(PARTS), help="What to keep of dates; none leaves them out."),
        writing_options,
    ]
)


@dataclass(frozen=True)
class Writing:
    """How a table is written, as far as options say."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quote: str | None = None
    header: bool | None = None
    sheet: str | None = None
    kinds: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    missing: str | None = None

    @classmethod
    def taken(cls, given: dict[str, Any]) -> Self:
        """These options out of all that a command was given."""
        made = cls(**{name: given.pop(name) for name in cls.__dataclass_fields__})
        if made.separator is not None and made.separator == made.decimal:
            raise click.UsageError(f"--separator and --decimal are both {made.separator!r}: they must differ")
        return made

    def asked(self, expected: Collection[str] = ()) -> Asked:
        """What to tell the reader, with names that the header must hold."""
        separator = "\t" if self.separator == "\\t" else self.separator
        quote = "" if self.quote == "none" else self.quote
        return Asked(Given(separator, self.decimal, quote, self.encoding, self.header), self.sheet, expected)

    def reading(self, names: Collection[str]) -> Reading:
        """What to tell the reader of columns."""
        words = {}
        for text in self.kinds:
            name, mark, kind = text.rpartition("=")
            if not mark or not kind:
                raise click.UsageError(f"--as wants COLUMN=KIND, such as --as code=text; got {text!r}")
            if name not in names:
                raise click.UsageError(f"--as: no column named {name!r}; the columns are {quoted(names, 10)}")
            words[name] = kind
        return Reading(words=words, marks=frozenset(self.gaps))

    @property
    def gaps_are(self) -> str:
        return self.missing or "impute"


@dataclass(frozen=True)
class Columns:
    """Which column is what, and how columns become features, as far as options say."""

    target: str | None
    features: tuple[str, ...]
    exclude: tuple[str, ...]
    id_column: str | None
    max_levels: int
    many: str
    dates: str

    @classmethod
    def taken(cls, given: dict[str, Any]) -> Self:
        """These options out of all that a command was given."""
        return cls(**{name: given.pop(name) for name in cls.__dataclass_fields__})

    def roles(self, names: list[str], row_names: str | None = None) -> Roles:
        """Which column is what, among these names."""
        if self.target is None:
            raise click.UsageError(f"name the column to predict with --target; the columns are {quoted(names, 10)}")
        features, exclude = names_among(self.features, names), names_among(self.exclude, names)
        return Roles(self.target, features, exclude, self.id_column, row_names)

    def encoder(self) -> TableEncoder:
        parts = () if self.dates == "none" else tuple(part.strip() for part in self.dates.split(","))
        return TableEncoder(dates=parts, max_levels=self.max_levels, many=self.many)


def read_table(
    data: Path | None, example: str | None, columns: Columns, writing: Writing, notes: Notes
) -> tuple[Training, str | None]:
    """The table of a fit, from a file, standard input or an example, and how it was written."""
    with notes.progress("reading"), notes.listening():
        training, found = _read(data, example, columns, writing)
    for note in training.notes:
        notes.add(note)
    return training, found


def _read(data: Path | None, example: str | None, columns: Columns, writing: Writing) -> tuple[Training, str | None]:
    if example is not None:
        simulated = load_example(example)
        table = simulated.table
        roles = replace(columns, target=columns.target or simulated.target).roles(table.names)
        return prepare(table, roles, roles.chosen(table.names), writing.gaps_are), None
    if data is None:
        raise click.UsageError("give a table to fit, DATA, or --example motorcycle")
    expected = {columns.target} if columns.target is not None else set()
    with open_tables(data, writing.asked(expected)) as tables:
        names = tables.names()
        roles = columns.roles(names, tables.row_names())
        chosen = roles.chosen(names)
        reading, wanted = writing.reading(names), [roles.target, *chosen]
        table = tables.whole(reading, wanted)
        if labels := labels_of_sums(table, wanted):
            table = tables.whole(replace(reading, labels=labels), wanted)
        return prepare(table, roles, chosen, writing.gaps_are), tables.found
