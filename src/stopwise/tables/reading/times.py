"""Cells of text as times of day in hours, or as durations in days: what columns of such become in a frame."""

from __future__ import annotations

import re

_CLOCK = r"(?P<hours>\d{1,2}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?"
_HOUR = re.compile(rf"{_CLOCK}(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?", re.ASCII)
_UNITS = {
    "days": (24.0, "days?|d"),
    "hours": (1.0, "hours?|hrs?|h"),
    "minutes": (1 / 60, "minutes?|mins?|m"),
    "seconds": (1 / 3600, "seconds?|secs?|s"),
}
"""Each in hours, and how it is written."""


def _amounts(*names: str) -> str:
    return "".join(rf"(?:(?P<{name}>\d+(?:\.\d+)?)\s?(?:{_UNITS[name][1]}),?\s*)?" for name in names)


_SPANS = [
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in [
        rf"(?P<sign>-?)(?P<days>\d+) days?(?P<plus>,| \+)?\s?{_CLOCK}",
        rf"(?P<sign>-?)(?=.){_amounts(*_UNITS)}",
        rf"(?P<sign>-?)P(?=.){_amounts('days')}(?:T(?=.){_amounts('hours', 'minutes', 'seconds')})?",
    ]
]


def as_hours(cell: str) -> float | None:
    """The time of day that a cell spells, such as 08:30 or 8:30 pm, in hours, or None."""
    found = _HOUR.fullmatch(cell)
    hours = _total(found) if found is not None else 99.0
    if found is None or not found["half"]:
        return hours if hours < 25 else None
    return hours % 12 + 12 * (found["half"] in "pP") if 1 <= hours < 13 else None


def as_days(cell: str) -> float | None:
    """The duration that a cell spells, such as 2h 30m, 1 days 02:30:00 or PT2H30M, in days, or None."""
    found = next((made for pattern in _SPANS if (made := pattern.fullmatch(cell)) is not None), None)
    if found is None:
        return None
    days = _total(found) / 24
    if not found["sign"]:
        return days
    # Python and pandas write an hour less than nothing as -1 day, 23:00:00 and -1 days +23:00:00.
    return days - 2 * int(found["days"]) if found.groupdict().get("plus") else -days


def _total(found: re.Match[str]) -> float:
    """What hours, minutes and seconds (and days) add up to, in hours."""
    return sum(
        float(amount) * _UNITS[name][0] for name, amount in found.groupdict().items() if name in _UNITS and amount
    )
