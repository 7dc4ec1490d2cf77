"""Which encoding each column of a training table gets, and which columns are no help."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import cast

import numpy as np
import numpy.typing as npt

from stopwise._support.checks import calling_level
from stopwise.tables import dates
from stopwise.tables.encodings import Categories, Dates, Encoding, Floats, Numbers, is_number, numbers_of
from stopwise.tables.names import quoted, shown
from stopwise.tables.reading.cells import GAPS, measure, parse_dates
from stopwise.tables.table import Column, Kind, Mask, Table, TableError

_WELCH = 1.96
"""A gap speaks of y where the means with and without it differ by so many standard errors (level 5 percent)."""


@dataclass(frozen=True)
class Choices:
    """What to keep of dates, how many levels of text to tell apart, and what to do with more."""

    dates: tuple[str, ...]
    max_levels: int
    many: str


def describe(
    table: Table, responses: Floats | None, choices: Choices
) -> tuple[list[Encoding], dict[str, str], dict[str, int]]:
    """Encodings in the order of columns, columns left out with the reason, and numbers of pooled levels."""
    encodings: list[Encoding] = []
    left_out: dict[str, str] = {}
    pooled: dict[str, int] = {}
    for name, column in table.columns.items():
        found = _one(name, column, responses, choices)
        if isinstance(found, str):
            left_out[name] = found
            continue
        encoding, rest = found
        encodings.append(encoding)
        if rest:
            pooled[name] = rest
    return encodings, left_out, pooled


def _one(name: str, column: Column, responses: Floats | None, choices: Choices) -> tuple[Encoding, int] | str:
    """An encoding and how many levels it pools, or the reason to leave the column out."""
    missing = column.missing
    if missing.all():
        return "it is empty"
    flag = gap_speaks(missing, responses)
    if column.kind is Kind.TEXT:
        return _categories(name, column, choices)
    if column.kind is Kind.DATE:
        moments = cast(dates.Moments, column.values)
        parts = dates.useful_parts(moments, choices.dates)
        return (Dates(name, parts, float(np.nanmedian(dates.days(moments))), flag), 0) if parts else "it holds dates"
    values = numbers_of(column, name)
    middle = float(np.median(values[~missing]))
    return Numbers(name, middle, flag, boolean=column.kind is Kind.BOOLEAN, unit=column.unit), 0


def gap_speaks(missing: Mask, responses: Floats | None) -> bool:
    """Whether rows with a gap have another mean response than those without (Welch's statistic, any response).

    Without responses every gap may speak; a single row never does.
    """
    count = int(missing.sum())
    if min(count, len(missing) - count) < 2:
        return False
    return responses is None or any(abs(_welch(column[missing], column[~missing])) > _WELCH for column in responses.T)


def _welch(first: Floats, second: Floats) -> float:
    """The difference of means over its standard error (Welch 1947); infinite where there is no spread at all."""
    difference = float(first.mean() - second.mean())
    error = math.sqrt(float(first.var(ddof=1)) / len(first) + float(second.var(ddof=1)) / len(second))
    return difference / error if error > 0 else (0.0 if difference == 0 else math.inf)


def _categories(name: str, column: Column, choices: Choices) -> tuple[Encoding, int] | str:
    cells = cast("npt.NDArray[np.object_]", column.values)
    counts = Counter(cell for cell in cells if cell is not None)
    present, gaps = counts.total(), len(cells) - counts.total()
    if not column.said:
        _check_slips(name, cells, counts, "dates")
    if len(counts) <= choices.max_levels and not _names_rows(counts, present):
        if len(counts) == 1 and not gaps:
            return f"it is always '{shown(next(iter(counts)))}'"
        if not column.said:
            _doubt(name, cells, counts)
        return Categories(name, tuple(sorted(counts)), flag=gaps > 0), 0
    if not column.said:
        _check_slips(name, cells, counts, "numbers")
    naming = _what_it_names(counts, present, column.said) if _names_rows(counts, present) else ""
    if choices.many == "error":
        many = f"has {len(counts):,} levels, more than {choices.max_levels}: pool the rare ones, raise the number or"
        raise TableError(f"the text column '{shown(name)}' {naming + ':' if naming else many} leave it out")
    if naming:
        return f"it {naming}"
    if choices.many == "drop":
        return f"it has {len(counts):,} levels"
    common = sorted(counts, key=lambda level: (-counts[level], level))[: choices.max_levels]
    kept = sorted(level for level in common if counts[level] > 1)
    return Categories(name, tuple(kept), pooled=True, flag=gaps > 0), len(counts) - len(kept)


_FEW_LEVELS, _LOOKED_AT = 20, 1_000
"""Levels that are never taken for names of rows, and levels that tell what text looks like."""


def _names_rows(counts: Counter[str], present: int) -> bool:
    """Whether text identifies rows rather than describing them: most rows hold a value of their own.

    A handful of levels is never that: a table of ten rows may well have ten groups.
    """
    alone = sum(1 for count in counts.values() if count == 1)
    return len(counts) > _FEW_LEVELS and 2 * alone > present


_COULD_BE: Mapping[str, Callable[[str], bool]] = {
    "numbers": lambda cell: is_number(cell) or any(measure(cell, mark) is not None for mark in ".,"),
    "dates": lambda cell: parse_dates([cell], "any") is not None,
}


def _what_it_names(counts: Counter[str], present: int, said: bool) -> str:
    """Of text that names rows: how much of it there is, or that most of it could be numbers or dates."""
    for what, reads in {} if said else _COULD_BE.items():
        found = [level for level in counts if reads(level)]
        if 2 * len(found) > len(counts):
            return f"holds {what} as text, such as {quoted(found[:2])}: make them {what}, or write them all alike"
    return f"names rows: {len(counts):,} values in {present:,} rows, such as '{shown(next(iter(counts)))}'"


def _slip(counts: Counter[str], what: str) -> tuple[bool, str | None]:
    """Whether most cells of a text column are numbers (or dates), words for gaps aside, and the first that is not."""
    reads = _COULD_BE["dates"] if what == "dates" else is_number
    first = [level for level in islice(counts, _LOOKED_AT) if level not in GAPS]
    most = 2 * sum(counts[level] for level in first if reads(level)) > sum(counts[level] for level in first)
    return most, next((level for level in counts if not reads(level)), None) if most else None


def _check_slips(name: str, cells: npt.NDArray[np.object_], counts: Counter[str], what: str) -> None:
    """Text of which most, but not all, is numbers (or dates) is that with a slip, and no text."""
    _, stray = _slip(counts, what)
    if stray is not None:
        raise TableError(
            f"the column '{shown(name)}' holds {what}, but not in all rows ({_place(cells, stray)}): mend those, make "
            "them gaps, or leave the column out"
        )


def _doubt(name: str, cells: npt.NDArray[np.object_], counts: Counter[str]) -> None:
    """Say of levels that they may be numbers or dates, written unlike or with a slip: as levels they lose their order.

    Two levels have no order to lose.
    """
    for what in ("dates", "numbers"):
        most, stray = _slip(counts, what)
        if most and len(counts) > 2:
            how = (
                f"such as {quoted(list(counts)[:2])}"
                if stray is None
                else f"but not in all rows ({_place(cells, stray)})"
            )
            used = f"and is used as text of {len(counts):,} levels: if it is {what}, make all of it {what}"
            warnings.warn(f"'{shown(name)}' holds {what}, {how}, {used}", UserWarning, stacklevel=calling_level())
            return


def _place(cells: npt.NDArray[np.object_], level: str) -> str:
    """Where a level is first met, and what it is."""
    return f"row {list(cells).index(level) + 1:,}: '{shown(level)}'"
