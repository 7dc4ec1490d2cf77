"""How a text table is written: encoding, separator, quotes, decimal mark and header, read off its first rows.

Each can be given instead; what was found is said by `Dialect.sentence`.
"""

from __future__ import annotations

import codecs
import io
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from stopwise.tables.names import shown
from stopwise.tables.reading.cells import DATE_FORMATS, GAPS, MISSING_MARKS, as_amount, iso_date
from stopwise.tables.reading.opening import BLOCK, opened
from stopwise.tables.reading.records import Layout, Row, records
from stopwise.tables.table import TableError

SEPARATORS = (",", ";", "\t", "|")
"""Tried in this order; runs of blanks are tried where none of these divides the rows evenly."""
_SAMPLE, _SAMPLE_MOST, _SAMPLE_ROWS = 1 << 16, 1 << 24, 200
"""Characters looked at to begin with, and at most where rows are long, and rows that are enough."""
_PREAMBLE = 50
"""The header is looked for among so many rows."""
_EVEN = 0.9
"""A separator must give so many rows the same number of fields; the rest may be notes above or below the table."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; those of UTF-32 begin with those of UTF-16 and stand first."""
_NAMES = {"\t": "tabs", " ": "blanks", ",": "commas", ";": "semicolons", "|": "bars"}


@dataclass(frozen=True)
class Given:
    """What the caller says of a text table; None: to be found out."""

    separator: str | None = None
    decimal: str | None = None
    quote: str | None = None
    encoding: str | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("decimal", (".", ",")), ("quote", ('"', "'", ""))):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                choices = " or ".join(repr(mark) for mark in allowed)
                raise TableError(f"the {name} mark must be {choices}, got {shown(repr(value))}")
        mark = self.separator
        if mark is not None and not (len(mark) == 1 and mark.isascii() and mark not in '"\r\n\0'):
            raise TableError(f"a separator must be one character, such as ';' or '\\t', got {shown(repr(mark))}")
        if self.encoding is not None:
            try:
                b"a".decode(self.encoding, errors="replace")
            except (LookupError, ValueError):  # such as zlib, which is no encoding of text
                told = shown(repr(self.encoding))
                raise TableError(f"no encoding is named {told}: try utf-8 or cp1252") from None


@dataclass(frozen=True)
class Dialect:
    """How a text table is written."""

    layout: Layout
    decimal: str
    header: bool
    skipped: int
    """Rows above the header (or above the first row, where there is no header)."""
    width: int
    row_names: bool = False
    """Whether rows have one field more than the header: names of rows, which R writes."""

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        fields = _NAMES.get(self.layout.separator, repr(self.layout.separator))
        said = [f"{fields} between fields" if self.width > 1 else "one column", f"decimal {self.decimal!r}"]
        said += [f"{self.layout.encoding} text"]
        if self.layout.quote == "'":
            said.append("single quotes")
        said.append("a header" if self.header else "no header")
        if self.skipped:
            said.append(f"{self.skipped} {'row' if self.skipped == 1 else 'rows'} above it passed over")
        if self.row_names:
            said.append("names of rows left out")
        return ", ".join(said)


def sniff(path: Path, given: Given, expected: Collection[str] = ()) -> Dialect:
    """How this file is written; a row that holds all `expected` names is its header."""
    encoding = given.encoding or find_encoding(path)
    sample, whole = _sample(path, encoding)
    layouts = _layouts(sample, encoding, given)
    tried = [_Trial.of(layout, sample, whole, expected, given) for layout in layouts]
    named = [trial for trial in tried if trial.named]
    pool = named or [trial for trial in tried if trial.even >= _EVEN and trial.dialect.width > 1]
    if not pool:
        return (tried[0] if given.separator is not None else _Trial.alone(sample, encoding, expected, given)).dialect
    best = max(pool, key=lambda trial: (trial.named, trial.dialect.width > 1, round(trial.even, 2), trial.typed))
    return best.dialect


def sniff_cells(rows: Sequence[Row], given: Given, expected: Collection[str] = ()) -> Dialect:
    """Where a table lies among rows of cells that are divided already."""
    filled = [[cell.strip() for cell in row] for row in rows if any(row)]
    return _Trial.of_rows(Layout(), filled, expected, given).dialect


def find_encoding(path: Path) -> str:
    """The encoding of a text file: by its first bytes, else UTF-8 where all of it is that, else Windows-1252."""
    with opened(path) as handle:
        start = handle.read(BLOCK)
        for mark, name in _MARKS.items():
            if start.startswith(mark):
                return name
        wide = _without_mark(start)
        if wide is not None:
            return wide
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while start:
                decoder.decode(start)
                start = handle.read(BLOCK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def is_wide(start: bytes) -> bool:
    """Whether text takes two or four bytes a character, so that zeros among them are no sign of other data."""
    return start.startswith(tuple(_MARKS)) or _without_mark(start) is not None


def _without_mark(start: bytes) -> str | None:
    """UTF-16 without a mark, where every second byte is zero; other zeros are no text."""
    if b"\0" not in start:
        return None
    even, odd = start[0::2].count(0), start[1::2].count(0)
    half = len(start) // 2
    if min(even, odd) < 0.05 * half and max(even, odd) > 0.6 * half:
        return "utf-16-le" if odd > even else "utf-16-be"
    return None


def _sample(path: Path, encoding: str) -> tuple[str, bool]:
    """The first rows as text, and whether that is all there is."""
    with opened(path) as handle, io.TextIOWrapper(handle, encoding, errors="replace", newline="") as text:
        sample, size = "", _SAMPLE
        while True:
            part = text.read(size)
            sample += part
            if not part or len(sample) >= _SAMPLE_MOST or sample.count("\n") + sample.count("\r") >= _SAMPLE_ROWS:
                return sample, not part
            size = len(sample)


def _layouts(sample: str, encoding: str, given: Given) -> list[Layout]:
    """The ways of dividing rows into fields that are worth trying."""
    first = sample.lstrip("\ufeff").split("\n", 1)[0].strip().strip('"')
    announced = first[4:5] if first.lower().startswith("sep=") and len(first) <= 5 else None
    separators: Sequence[str] = SEPARATORS
    if given.separator is not None or announced:
        separators = (given.separator or announced or ",",)
    separators = [mark for mark in separators if mark in sample] or [separators[0]]
    quotes = (given.quote,) if given.quote is not None else ('"', "'") if _has_quotes(sample) else ('"',)
    layouts = [Layout(mark, quote, encoding) for quote in quotes for mark in separators]
    if '\\"' in sample and given.quote in (None, '"'):
        layouts += [replace(layout, escape="\\") for layout in layouts if layout.quote == '"']
    if given.separator is None and not announced:
        layouts += [Layout(" ", quote, encoding) for quote in quotes]
    return layouts


def _has_quotes(sample: str) -> bool:
    """Whether fields may be in single quotes: apostrophes stand beside a separator or a line's end."""
    marks = "".join(SEPARATORS) + "\r\n "
    return any(f"{mark}'" in sample and f"'{mark}" in sample for mark in marks)


@dataclass(frozen=True)
class _Trial:
    """A sample divided in one way: how evenly, and how many cells then are numbers, dates or gaps."""

    dialect: Dialect
    even: float
    typed: float
    named: bool
    """Whether a row holds every expected name."""

    @classmethod
    def of(cls, layout: Layout, sample: str, whole: bool, expected: Collection[str], given: Given) -> _Trial:
        return cls.of_rows(layout, list(_sample_rows(layout, sample, whole)), expected, given)

    @classmethod
    def of_rows(cls, layout: Layout, rows: list[Row], expected: Collection[str], given: Given) -> _Trial:
        if not rows:
            raise TableError("the table is empty: it has no row with a cell")
        width = _width(rows, expected)
        top, named, short = _header_row(rows, width, expected)
        body = [row for row in rows[top:] if len(row) == width]
        even = len(body) / max(1, len(rows) - top - (1 if short else 0))
        # Blanks between words are no evidence: with them as separators, all fields must be words or numbers of a table.
        if layout.separator == " " and not named:
            even *= 0.99
        decimal = given.decimal or find_decimal(cell for row in body for cell in row)
        header = given.header if given.header is not None else named or short or _has_header(body, decimal)
        dialect = Dialect(layout, decimal, header, top, width, row_names=short)
        return cls(dialect, even, _typed_share(body, decimal), named)

    @classmethod
    def alone(cls, sample: str, encoding: str, expected: Collection[str], given: Given) -> _Trial:
        """A table of one column: no separator divides it."""
        quote = given.quote if given.quote is not None else '"'
        unused = next((mark for mark in SEPARATORS if mark not in sample), "\x1f")
        return cls.of(Layout(unused, quote, encoding), sample, True, expected, given)


def _sample_rows(layout: Layout, sample: str, whole: bool) -> Iterator[Row]:
    rows = [row for _, row in records(io.StringIO(sample, newline=""), layout) if row]
    if not whole and len(rows) > 1:
        rows = rows[:-1]  # the last one may be cut
    for row in rows[: 5 * _SAMPLE_ROWS]:
        yield [cell.strip() for cell in row]


def _width(rows: list[Row], expected: Collection[str]) -> int:
    """How many fields rows have: as many as the row that names what is expected, unless nearly all have one more."""
    counts = Counter(len(row) for row in rows[1:] or rows)
    common = max(counts, key=lambda count: (counts[count], count))
    wanted = set(expected)
    named = next((len(row) for row in rows[:_PREAMBLE] if wanted and wanted <= set(row)), None)
    if named is None or (common == named + 1 and counts[common] >= _EVEN * counts.total()):
        return common
    return named


def _header_row(rows: list[Row], width: int, expected: Collection[str]) -> tuple[int, bool, bool]:
    """The first row of the table, whether it names all that is expected, and whether R's names of rows follow it."""
    wanted, lengths = set(expected), [len(row) for row in rows]
    shorts = [width > 2 and pair == (width - 1, width) for pair in pairwise([*lengths, 0])]
    for at, (row, short) in enumerate(zip(rows[:_PREAMBLE], shorts, strict=False)):
        if wanted and wanted <= set(row) and (len(row) == width or short):
            return at, True, short
    for at, (row, short) in enumerate(zip(rows[:_PREAMBLE], shorts, strict=False)):
        if short and all(row) and len(set(row)) == len(row) and not any(_is_typed(cell, ".") for cell in row):
            return at, False, True
        if len(row) == width and not (row[0].startswith("#") and at + 1 < len(rows)):
            return at, False, False
    return 0, False, False


def find_decimal(cells: Iterator[str]) -> str:
    """The decimal mark: "," where more cells are numbers by it than by "."; 1,234 and 1.234 are weak evidence."""
    strong, weak = Counter[str](), Counter[str]()
    for cell in cells:
        if "," not in cell and "." not in cell:
            continue
        readings = {mark: as_amount(cell, mark) for mark in (".", ",")}
        possible = [mark for mark, value in readings.items() if value is not None]
        if len(possible) == 1:
            strong[possible[0]] += 1
        elif len(possible) == 2:
            weak["," if "," in cell else "."] += 1
    votes = strong if strong["."] != strong[","] else weak
    return "," if votes[","] > votes["."] else "."


def _is_typed(cell: str, decimal: str) -> bool:
    """Whether a cell is a number, of a currency or percent too, or a date."""
    return as_amount(cell, decimal) is not None or (
        cell[:1].isdigit() and any(iso_date(form, cell) is not None for form in DATE_FORMATS.values())
    )


def _typed_share(rows: list[Row], decimal: str) -> float:
    cells = [cell for row in rows[1:101] for cell in row]
    return sum(cell in GAPS or _is_typed(cell, decimal) for cell in cells) / max(1, len(cells))


def _has_header(rows: list[Row], decimal: str) -> bool:
    """Whether the first row names columns: no, where it holds numbers or dates in the columns that hold them below."""
    if not rows:
        return True
    first, below = rows[0], rows[1:]
    if len(set(first)) < len(first) or not below:
        return not any(_is_typed(cell, decimal) for cell in first)
    typed = [
        all(_is_typed(row[at], decimal) for row in below if row[at] not in MISSING_MARKS) for at in range(len(first))
    ]
    return not any(typed) or any(t and not _is_typed(cell, decimal) for t, cell in zip(typed, first, strict=True))
