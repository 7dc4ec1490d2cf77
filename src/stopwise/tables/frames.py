"""Frames of other libraries (pandas, polars, Arrow, ...) as a `Table`, through narwhals."""

from __future__ import annotations

import datetime as dt
import numbers
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeGuard, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt

from stopwise.tables.dates import DAY
from stopwise.tables.names import quoted, shown
from stopwise.tables.table import Column, Kind, Table, TableError, empty_column, text_column


def is_frame(values: object) -> bool:
    """Whether this is a table with named columns: one of ours, or an eager frame that narwhals knows."""
    return isinstance(values, Table) or _is_native(values)


def _is_native(values: object) -> TypeGuard[Any]:
    if isinstance(values, np.ndarray | list | tuple) or values is None:
        return False
    try:
        found = nw.from_native(cast(Any, values), pass_through=True)
    except (TypeError, ValueError, nw.exceptions.NarwhalsError):
        # Two columns of one name, say: a frame all the same, and `as_table` tells what is wrong with it.
        return hasattr(values, "columns")
    return isinstance(found, nw.DataFrame | nw.LazyFrame)


def as_table(frame: object) -> Table:
    """Every column by its name; a column that is neither numbers, booleans, dates nor text is an error."""
    if isinstance(frame, Table):
        return frame
    if hasattr(frame, "collect_schema") and not hasattr(frame, "to_numpy"):
        raise TypeError("a lazy frame has no rows yet: pass frame.collect()")
    check_unique(frame)
    found = nw.from_native(cast(Any, frame), eager_only=True)
    return Table({str(series.name): as_column(series, str(series.name)) for series in found.iter_columns()})


def check_unique(frame: object, table: str = "X") -> None:
    """Each column has a name of its own; what has no columns passes. (`columns` of an Arrow table are its cells.)"""
    names: Any = getattr(frame, "column_names", None) or getattr(frame, "columns", ())
    twice = sorted(name for name, count in Counter(map(str, names)).items() if count > 1)
    if twice:
        raise TableError(f"columns of {table} share the name {quoted(twice)}: give each its own name")


def as_column(series: nw.Series[Any], name: str) -> Column:
    """A column of a frame, by the kind of its cells."""
    kind = series.dtype
    if kind.is_numeric():
        return Column(Kind.NUMBER, _floats(series))
    if isinstance(kind, nw.Boolean):
        return Column(Kind.BOOLEAN, _floats(series))
    if isinstance(kind, nw.String | nw.Categorical | nw.Enum):
        text = text_column(None if _is_gap(cell) else str(cell) for cell in series.cast(nw.String).to_list())
        return replace(text, said=not isinstance(kind, nw.String))
    if isinstance(kind, nw.Datetime | nw.Date):
        return Column(Kind.DATE, _moments(series))
    if isinstance(kind, nw.Duration):
        spans = np.asarray(series.to_numpy(), dtype="timedelta64[us]")
        days = np.where(np.isnat(spans), np.nan, spans.astype(np.float64) / (1e6 * DAY))
        return Column(Kind.NUMBER, days, "days")
    return of_objects(series.to_list(), name, str(kind))


def _floats(series: nw.Series[Any]) -> npt.NDArray[np.float64]:
    values = np.asarray(series.to_numpy())
    if values.dtype.kind not in "iuf":  # numbers of pandas' or Python's own kinds; of integers Arrow refuses long ones
        values = series.cast(nw.Float64).to_numpy()
    return np.array(values, dtype=np.float64)


def _moments(series: nw.Series[Any]) -> npt.NDArray[np.datetime64]:
    """Wall clock: days and hours as people there read them."""
    if isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone is not None:
        series = series.dt.replace_time_zone(None)
    return np.array(series.cast(nw.Datetime("us")).to_numpy(), dtype="datetime64[us]")


def of_objects(cells: list[Any], name: str, kind: str = "object") -> Column:
    """Python objects as a column, where all of them are of one sort; None and NaN are gaps, a period is its start."""
    cells = [getattr(cell, "start_time", cell) for cell in cells]
    gaps = [_is_gap(cell) for cell in cells]
    present = [cell for cell, gap in zip(cells, gaps, strict=True) if not gap]
    if not present:
        return empty_column(Kind.EMPTY, len(cells))
    for made, sorts, turn in _SORTS:
        if all(isinstance(cell, sorts) for cell in present):
            turned = [None if gap else turn(cell) for cell, gap in zip(cells, gaps, strict=True)]
            if made is Kind.TEXT:
                return text_column(cast("list[str | None]", turned))
            if made is Kind.DATE:
                return Column(made, np.array(turned, dtype="datetime64[us]"))
            floats = np.array([np.nan if cell is None else cell for cell in turned], dtype=np.float64)
            return Column(made, floats, {_hours: "hours", _days: "days"}.get(turn, ""))
    met = Counter(type(cell).__name__ for cell in present)
    rarest = min(met, key=lambda sort: met[sort])
    at = next(row for row, cell in enumerate(cells) if type(cell).__name__ == rarest and not gaps[row])
    raise TableError(
        f"the column '{shown(name)}' holds {quoted(sorted(met))} ({kind}; row {at + 1:,}: {shown(repr(cells[at]))}), "
        "and a column must hold numbers, text, booleans or dates: convert it or leave it out"
    )


def _is_gap(cell: object) -> bool:
    """None, NaN, pandas' NA and NaT, numpy's NaT: they are not equal to themselves, or will not say."""
    if cell is None or isinstance(cell, str | int):
        return cell is None
    try:
        return bool(cell != cell)
    except (TypeError, ValueError):
        return type(cell).__name__ == "NAType"


def _wall(cell: dt.date) -> dt.datetime:
    if isinstance(cell, dt.datetime):
        return cell.replace(tzinfo=None)
    return dt.datetime(cell.year, cell.month, cell.day)


def _hours(cell: dt.time) -> float:
    return cell.hour + cell.minute / 60 + (cell.second + cell.microsecond / 1e6) / 3600


def _days(cell: dt.timedelta) -> float:
    return cell.total_seconds() / DAY


_SORTS: tuple[tuple[Kind, Any, Any], ...] = (
    (Kind.BOOLEAN, (bool, np.bool_), float),
    (Kind.NUMBER, (numbers.Real, np.number), float),
    (Kind.NUMBER, Decimal, float),
    (Kind.TEXT, str, str),
    (Kind.DATE, dt.date, _wall),
    (Kind.NUMBER, dt.time, _hours),
    (Kind.NUMBER, dt.timedelta, _days),
)
