"""Rows of fields out of text: what lies between separators, quotes taken off."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO, TypeAlias

from stopwise.tables.table import TableError

_CELL_LIMIT = 1 << 30
"""Characters of a cell: as many as fit in memory."""
Row: TypeAlias = list[str]


@dataclass(frozen=True)
class Layout:
    """How rows are divided. The separator " " means any run of blanks."""

    separator: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    escape: str | None = None


def records(text: TextIO, layout: Layout) -> Iterator[tuple[int, Row]]:
    """Each row with the number of its last line; a blank line is an empty list."""
    # The csv module's limit of 128 kB a cell is one for the whole process; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _CELL_LIMIT))
    if layout.separator == " ":
        yield from _by_blanks(text, layout.quote)
        return
    reader = csv.reader(
        text,
        delimiter=layout.separator,
        quotechar=layout.quote or None,
        quoting=csv.QUOTE_MINIMAL if layout.quote else csv.QUOTE_NONE,
        escapechar=layout.escape,
        skipinitialspace=True,
    )
    try:
        for row in reader:
            yield reader.line_num, [] if len(row) == 1 and not row[0].strip() else row
    except csv.Error as problem:
        raise TableError(f"line {reader.line_num + 1:,} cannot be read: {problem}") from problem


def _by_blanks(text: TextIO, quote: str) -> Iterator[tuple[int, Row]]:
    """Rows divided by runs of blanks; a field in quotes may hold blanks, and ends with its line."""
    mark = re.escape(quote or "\0")
    field = re.compile(rf"{mark}((?:[^{mark}]|{mark}{mark})*){mark}(?=\s|$)|(\S+)")
    for number, line in enumerate(text, start=1):
        found = field.finditer(line)
        yield number, [one[2] if one[1] is None else one[1].replace(2 * quote, quote) for one in found]
