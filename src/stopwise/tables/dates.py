"""Dates as numbers: a trend in days, and the year, the week and the day as circles."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import numpy.typing as npt

from stopwise.tables.table import TableError

PARTS = ("trend", "year", "week", "day")
"""What may be kept of a date. A cycle is two features, its sine and cosine: the end of a year is next to its start."""
DAY = 86_400.0
"""Seconds."""
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}
"""Days."""

Moments = npt.NDArray[np.datetime64]
Floats = npt.NDArray[np.float64]


def days(moments: Moments) -> Floats:
    """Days since 1970, with the time of day as a fraction; NaN for NaT."""
    since = moments.astype("datetime64[us]").astype(np.int64).astype(np.float64) / (1e6 * DAY)
    return cast(Floats, np.where(np.isnat(moments), np.nan, since))


def phase(moments: Moments, cycle: str) -> Floats:
    """The position in a cycle, from 0 to 1: since 1 January, since Monday, or since midnight; NaN for NaT."""
    if cycle == "year":
        start = moments.astype("datetime64[Y]")
        return cast(Floats, (days(moments) - days(start)) / (days(start + 1) - days(start)))
    since = days(moments) - (4.0 if cycle == "week" else 0.0)  # 1970 began on a Thursday
    return cast(Floats, np.mod(since / CYCLES[cycle], 1.0))


def check_parts(asked: tuple[str, ...]) -> None:
    """Only what is known can be kept of dates."""
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        raise TableError(f"of dates one can keep {', '.join(PARTS)}; got {unknown[0]!r}")


def useful_parts(moments: Moments, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Which of these parts the dates can show.

    A cycle is kept where the dates span it whole and meet it at more than one point. Dates that all lie on the same
    day of their months are months, and their weekday is chance.
    """
    present = moments[~np.isnat(moments)]
    span = float(np.ptp(days(present))) if present.size else 0.0
    months = (present.astype("datetime64[D]") - present.astype("datetime64[M]")).astype(np.int64)
    monthly = present.size > 1 and np.ptp(months) == 0
    met = [cycle for cycle, length in CYCLES.items() if span >= length and np.ptp(phase(present, cycle)) > 1e-9]
    shown = {"trend", *met} - ({"week"} if monthly else set())
    return tuple(part for part in PARTS if part in asked and part in shown)


def features(moments: Moments, parts: tuple[str, ...]) -> Floats:
    """The parts side by side: days, then sine and cosine of each cycle."""
    columns = []
    for part in parts:
        if part == "trend":
            columns.append(days(moments))
        else:
            angle = 2 * math.pi * phase(moments, part)
            columns += [np.sin(angle), np.cos(angle)]
    return np.stack(columns, axis=1) if columns else np.empty((len(moments), 0))


def feature_groups(name: str, parts: tuple[str, ...]) -> list[list[str]]:
    """Names for `features`; sine and cosine of a cycle belong together."""
    return [[name] if part == "trend" else [f"{name} {part} sin", f"{name} {part} cos"] for part in parts]
