"""Cells of text as numbers, dates or booleans, and which cells are gaps."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
import numpy.typing as npt

MISSING_MARKS = frozenset(
    ["", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "NaT"]
    + ["1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]
)
"""Cells that are gaps in every column (the marks that pandas, R, polars and Arrow write or read)."""
DOUBTFUL_MARKS = frozenset(
    ["?", ".", "-", "--", "---", "*", "None", "none", "NONE", "missing", "Missing", "unknown", "na", "Na", "#DIV/0!"]
    + ["#VALUE!", "#REF!", "#NUM!", "#NAME?"]
)
"""Cells that are gaps among numbers, dates and booleans, and words of their own among text."""
GAPS = MISSING_MARKS | DOUBTFUL_MARKS
_GROUP_MARKS = " \u00a0\u202f'\u2019"
_BOOLEANS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_SAID_BOOLEANS = _BOOLEANS | {
    word: value
    for words, value in [
        (("1", "t", "y", "on", "ja", "wahr", "waar", "oui", "vrai", "si", "sí", "vero", "verdadero", "sim"), 1.0),
        (("0", "f", "n", "off", "nein", "falsch", "nee", "onwaar", "non", "faux", "falso", "não"), 0.0),
    ]
    for word in words
}
"""What is read as true or false where somebody says that a column is that: most are words, letters or numbers else."""


@cache
def number_pattern(decimal: str) -> re.Pattern[str]:
    """A number with this decimal mark, thousands perhaps in groups of three, and a currency or percent sign."""
    mark = re.escape(decimal)
    groups = re.escape(_GROUP_MARKS + ("." if decimal == "," else ","))
    grouped = rf"[1-9]\d{{0,2}}(?P<group>[{groups}])\d{{3}}(?:(?P=group)\d{{3}})*(?:{mark}\d*)?"
    plain = rf"(?:\d+(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?"
    before, after = r"(?P<first>[$€£¥]?)\s?(?P<sign>[+-]?)\s?(?P<second>[$€£¥]?)\s?", r"\s?(?P<behind>[%$€£¥]?)"
    return re.compile(rf"{before}(?P<digits>{grouped}|{plain}){after}", re.ASCII)


def as_amount(cell: str, decimal: str = ".") -> tuple[float, str] | None:
    """The number that a cell spells and its currency or percent sign, or None; bookkeepers write -5 as (5) or 5-."""
    cell = cell.replace("\u2212", "-")
    if len(cell) > 2 and (cell[0], cell[-1]) == ("(", ")"):
        cell = f"-{cell[1:-1]}"
    elif cell[:1].isdigit() and cell[-1] == "-":
        cell = f"-{cell[:-1]}"
    found = number_pattern(decimal).fullmatch(cell)
    if found is None:
        return (float(cell), "") if cell.strip("+-").lower() in ("inf", "infinity") else None
    digits = re.sub(rf"[^0-9eE+\-{re.escape(decimal)}]", "", found["digits"])
    return float(found["sign"] + digits.replace(decimal, ".")), found["first"] + found["second"] + found["behind"]


def as_number(cell: str, decimal: str = ".") -> float | None:
    """The number that a cell spells, or None; one of a currency or of percent is not that number by itself."""
    found = as_amount(cell, decimal)
    return None if found is None or found[1] else found[0]


def parse_cells(cells: Sequence[str], turn: Callable[[str], float | None]) -> npt.NDArray[np.float64] | None:
    """Stripped cells as float64, gaps as NaN; None where `turn` makes nothing of some cell."""
    out = np.empty(len(cells))
    for row, cell in enumerate(cells):
        value = np.nan if cell in GAPS else turn(cell)
        if value is None:
            return None
        out[row] = value
    return out


def parse_numbers(cells: Sequence[str], decimal: str) -> npt.NDArray[np.float64] | None:
    """Stripped cells as float64, gaps as NaN; None where some cell is no number."""
    if decimal == ".":
        try:
            return np.fromiter(map(_plain_float, cells), dtype=np.float64, count=len(cells))
        except ValueError:
            pass
    return parse_cells(cells, lambda cell: _quick_number(cell, decimal))


def _quick_number(cell: str, decimal: str) -> float | None:
    """`as_number`, by Python's own float where that reads the same."""
    if decimal == "." or "." not in cell:
        try:
            return _plain_float(cell.replace(decimal, "."))
        except ValueError:
            pass
    return as_number(cell, decimal)


def _plain_float(cell: str) -> float:
    """Python's own float, which is fast, less what only Python reads as a number."""
    if "_" in cell:
        raise ValueError(cell)
    return float(cell) if cell else np.nan


_MEASURE = re.compile(
    r"(?:(?P<before>[A-Z]{3}(?=\s)|[A-Z]{1,2}\$|[~\u2248])\s?)?(?P<number>.*?\d[.,)]?)(?:\s?(?P<unit>[^\d\s,;:()+-][^\d,;:()+-]{0,11}))?"
)


def measure(cell: str, decimal: str) -> tuple[float, str] | None:
    """A number and what stands about it, such as 5 and "kg", "USD", "$" or "%"; None where nothing does."""
    found, whole = _MEASURE.fullmatch(cell), as_amount(cell, decimal)
    if whole is not None or found is None:
        return whole if whole is not None and whole[1] else None
    amount = as_amount(found["number"], decimal)
    if amount is None:
        return None
    around = [part for part in (found["before"], amount[1], found["unit"]) if part]
    return (amount[0], " ".join(around)) if around else None


def in_unit(cell: str, decimal: str, unit: str) -> float | None:
    """The number of a cell that is of this unit, or None."""
    found = measure(cell, decimal)
    return found[0] if found is not None and found[1] == unit else None


def as_boolean(cell: str, *, said: bool = False) -> float | None:
    """1 for true, 0 for false, or None; more words are that in a column that is `said` to be true or false."""
    return (_SAID_BOOLEANS if said else _BOOLEANS).get(cell.lower())


# ---- dates ----------------------------------------------------------------------------------------------------------

_MONTHS = {
    name: f"{number:02d}"
    for number, names in enumerate(
        ["jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august"]
        + ["sep sept september", "oct october", "nov november", "dec december"],
        start=1,
    )
    for name in names.split()
}
_CLOCK = r"[T ,]\s*(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2}(?:[.,]\d{1,9})?))?\s?(?P<half>[AaPp]\.?[Mm]\.?)?"
_ZONE = r"\s?(?P<zone>[+-]\d{2}:?(?:\d{2})?|[A-Z]{3,4})"
_TIME = rf"(?:{_CLOCK}(?:{_ZONE})?)?\s?(?:Z|UTC)?"
"""A zone in hours or by name follows a time only: behind a month it would be a day."""
_YEAR, _SHORT = r"(?P<y>\d{4})", r"(?P<y>\d{4}|\d{2})"
_MONTH, _DAY, _WORD = r"(?P<m>\d{1,2})", r"(?P<d>\d{1,2})", r"(?P<m>[A-Za-z]{3,9})\.?"


def iso_date(form: re.Pattern[str], cell: str) -> str | None:
    """A date written in this form as ISO 8601 text (wall clock; a zone is left aside); None for any other cell."""
    found = form.fullmatch(cell)
    if found is None:
        return None
    part = found.groupdict()
    if part.get("week") is not None:
        return _week(part)
    month = part.get("m") or str(3 * int(part.get("quarter") or 1) - 2)
    number = month if month.isdigit() else _MONTHS.get(month.lower())
    if number is None:
        return None
    year, day = _full_year(part["y"]), int(part.get("d") or 1)
    try:
        return f"{dt.date(int(year), int(number), day).isoformat()}{_clock(part)}"
    except ValueError:  # such as 31 February
        return None


def _week(part: dict[str, str | None]) -> str | None:
    """A week as ISO 8601 counts them, which is its Monday where no day is named."""
    try:
        day = dt.date.fromisocalendar(int(part["y"] or 0), int(part["week"] or 0), int(part["weekday"] or 1))
    except ValueError:  # such as week 60
        return None
    return f"{day.isoformat()}{_clock(part)}"


def zone_of(cell: str) -> str:
    """The zone behind a time, "UTC" for all names of that; "" where there is none."""
    found = _ZONED.search(cell)
    zone = "" if found is None else found["zone"] or "Z"
    return "UTC" if zone in ("Z", "GMT") or zone.strip("+-0:") == "" != zone else zone


def _full_year(text: str) -> str:
    """Two digits mean 1969 to 2068, as in POSIX."""
    return text if len(text) == 4 else f"{2000 + int(text) if int(text) < 69 else 1900 + int(text)}"


def _clock(part: dict[str, str | None]) -> str:
    if part.get("H") is None:
        return "T00:00:00"
    hour, half = int(part["H"] or 0), (part.get("half") or "").lower()[:1]
    if half:
        hour = hour % 12 + 12 * (half == "p")
    return f"T{hour:02d}:{part['M']}:{(part.get('S') or '00').replace(',', '.')}"


DATE_FORMATS = {
    name: re.compile(day + _TIME, re.ASCII)
    for name, day in {
        "year-month-day": rf"{_YEAR}(?P<sep>[-/.]){_MONTH}(?P=sep){_DAY}",
        "month/day/year": rf"{_MONTH}(?P<sep>[-/]){_DAY}(?P=sep){_SHORT}",
        "day/month/year": rf"{_DAY}(?P<sep>[-/.]){_MONTH}(?P=sep){_SHORT}",
        "day month-name year": rf"(?:[A-Za-z]{{3,9}},?\s)?{_DAY}[-/. ]?\s?{_WORD}[-/. ,]?\s?{_SHORT}",
        "month-name day, year": rf"{_WORD}\s{_DAY},?\s{_SHORT}",
        "yearmonthday": r"(?P<y>(?:19|20)\d{2})(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01])",
        "year-month": rf"{_YEAR}[-/]{_MONTH}",
        "year quarter": rf"{_YEAR}[-/ ]?[Qq](?P<quarter>[1-4])",
        "quarter year": rf"[Qq](?P<quarter>[1-4])[-/ ]?{_YEAR}",
        "year week": rf"{_YEAR}-?[Ww](?P<week>\d{{2}})(?:-?(?P<weekday>[1-7]))?",
    }.items()
}
"""By name, in order of preference; where month and day could be either, the file's other habits decide."""


_ZONED = re.compile(rf"{_CLOCK}(?:{_ZONE}|\s?Z)$", re.ASCII)


def parse_dates(cells: Sequence[str], how: str) -> npt.NDArray[np.datetime64] | None:
    """Stripped cells as datetime64[us], gaps as NaT; None where some cell is no such date.

    `how` is a name in DATE_FORMATS, "any" of them, or a pattern for `datetime.strptime`, which has a % in it. Of any,
    the month stands first in all cells or the day in all, if that can be.
    """
    if how == "any":
        for without in ("day/month/year", "month/day/year", ""):
            forms = [form for name, form in DATE_FORMATS.items() if name != without]
            found = _parsed_dates(cells, partial(_first_iso, forms))
            if found is not None:
                return found
        return None
    known = how in DATE_FORMATS
    return _parsed_dates(cells, partial(iso_date, DATE_FORMATS[how]) if known else partial(_by_pattern, how))


def _parsed_dates(cells: Sequence[str], iso: Callable[[str], str | None]) -> npt.NDArray[np.datetime64] | None:
    known: dict[str, str | None] = {}
    out = []
    for cell in cells:
        if cell in GAPS:
            out.append("NaT")
            continue
        if cell not in known:
            known[cell] = iso(cell)
        text = known[cell]
        if text is None:
            return None
        out.append(text)
    try:
        return np.array(out, dtype="datetime64[us]")
    except ValueError:  # such as 25 o'clock
        return None


def _first_iso(forms: Sequence[re.Pattern[str]], cell: str) -> str | None:
    """By the first of some formats that a cell is written in."""
    return next((iso for form in forms if (iso := iso_date(form, cell)) is not None), None)


def _by_pattern(pattern: str, cell: str) -> str | None:
    try:
        return _moment(cell, pattern).isoformat()
    except ValueError:
        return None


def _moment(cell: str, pattern: str) -> dt.datetime:
    """What a cell spells by a pattern; a week without its day is its Monday, where Python would leave the week out."""
    asked = set(re.findall(r"%(.)", pattern))
    if asked & set("UVW") and not asked & set("aAuw"):
        cell, pattern = f"{cell} 1", f"{pattern} %u"
    return dt.datetime.strptime(cell, pattern).replace(tzinfo=None)


def fault_of_pattern(pattern: str) -> str:
    """Why no date can be read by this pattern, or ""."""
    example = dt.datetime(2020, 1, 6, 11, 30, 15, tzinfo=dt.UTC)
    try:
        _moment(example.strftime(pattern), pattern)
    except ValueError as problem:
        return str(problem)
    return ""
