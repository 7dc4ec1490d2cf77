"""A table made ready for a fit: which columns, which rows, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.checks import did_you_mean
from stopwise.tables.encodings import labels_of, numbers_of
from stopwise.tables.names import quoted, shown
from stopwise.tables.table import Kind, Mask, Table, TableError

MISSING = ("impute", "drop", "refuse")
"""What to do with rows that have a gap: fill it, leave the row out, or stop."""
_LONG_NUMBER = 1e15
"""Whole numbers from here on are no measurements: near 2^53 neighbours cannot be told apart."""


@dataclass(frozen=True)
class Roles:
    """Which column is what. No features named: all that are left."""

    target: str
    features: Sequence[str] = ()
    exclude: Sequence[str] = ()
    id: str | None = None
    row_names: str | None = None
    """A column that only numbers the rows; it is left out unless it is asked for."""

    def chosen(self, names: Sequence[str]) -> list[str]:
        """The columns to use, or an error that says which wishes contradict each other or the table."""
        named = [*self.features, *self.exclude, *([self.id] if self.id is not None else [])]
        absent = [name for name in (self.target, *named) if name not in names]
        if absent:
            near = did_you_mean(absent[0], names)
            if list(names) == [f"column_{at + 1}" for at in range(len(names))]:
                near += ", numbered since the table has no header"
            raise TableError(f"no column named {quoted(absent)}; the columns are {quoted(names, 10)}{near}")
        self._agree()
        idle = {self.target, self.id, *self.exclude, *(() if self.features else (self.row_names,))}
        chosen = [name for name in (self.features or names) if name not in idle]
        if not chosen:
            raise TableError("no feature is left: the table needs at least one column beside the target")
        return list(dict.fromkeys(chosen))

    def _agree(self) -> None:
        if self.target in self.features:
            raise TableError(f"the target '{shown(self.target)}' cannot be a feature too")
        if self.target in self.exclude:
            raise TableError(f"the target '{shown(self.target)}' cannot be left out: it is what is to be predicted")
        if self.id == self.target:
            raise TableError(f"'{shown(self.target)}' cannot be both the target and the name of rows")
        both = [name for name in self.features if name in self.exclude or name == self.id]
        if both:
            raise TableError(f"{quoted(both)} cannot be a feature and left out at once")


@dataclass(frozen=True)
class Training:
    """The features' columns and the target, row by row, and what a reader should know."""

    table: Table
    target: Array
    roles: Roles
    rows: Array
    """Which rows of the table read these are, counted from 0."""
    notes: tuple[str, ...] = field(default=())

    @property
    def of_classes(self) -> bool:
        """Whether the target is text."""
        return self.target.dtype == object


def prepare(table: Table, roles: Roles, chosen: Sequence[str], missing: str = "impute") -> Training:
    """The chosen columns and the rows of a fit. A row without a target is left out whatever `missing` says."""
    if len(table) < 2:
        raise TableError(f"a fit needs at least 2 rows; the table has {len(table)}")
    summary = _last_sums_up(table, [*chosen, roles.target])
    table = table.take(slice(-1)) if summary else table
    answer = table.columns[roles.target]
    classes = answer.kind is Kind.TEXT
    response = labels_of(answer, roles.target) if classes else numbers_of(answer, roles.target)
    unknown = answer.missing.copy() if classes else np.isnan(response)
    holes = {name: table.columns[name].missing for name in chosen}
    gaps = np.any([np.zeros_like(unknown), *(mask for mask in holes.values() if not mask.all())], axis=0)
    if missing == "refuse" and (gaps | unknown).any():
        _refuse(holes, unknown, roles.target)
    leave = gaps | unknown if missing == "drop" else unknown
    left = len(table) - int(leave.sum())
    notes = _notes(unknown, gaps, missing, roles.target)
    if left < 2:
        raise TableError(f"a fit needs at least 2 rows; {left} of {len(table)} can be used ({'; '.join(notes)})")
    if classes:
        count = len(set(response[~leave].tolist()))
        notes = (f"'{shown(roles.target)}' holds text: a classifier of its {count} values is fitted", *notes)
    if not classes and set(response[~leave].tolist()) == {0.0, 1.0}:
        held = "true or false" if answer.kind is Kind.BOOLEAN else "0 or 1"
        said = f"'{shown(roles.target)}' is {held}: it is fitted as the numbers 1 and 0"
        notes = (f"{said}; for a classifier with probabilities say --as '{shown(roles.target)}=text'", *notes)
    notes += _codes(table.select([*chosen, roles.target]))
    notes += _naming(table, [] if roles.features or len(chosen) < 2 else chosen)
    notes += ("the last row is left out: it holds the sums of the others",) if summary else ()
    return Training(table.select(chosen).take(~leave), response[~leave], roles, np.flatnonzero(~leave), notes)


def _naming(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    """Notes on columns that only tell rows apart, which new rows cannot use: by counting them, or by long numbers."""
    found = {name: _how_it_names(values) for name, values in _numbers(table, names).items()}
    return tuple(
        f"'{shown(name)}' {how} and is used as a feature: if it only names them, say --id '{shown(name)}'"
        for name, how in found.items()
        if how
    )


def _how_it_names(values: Array) -> str:
    if values[0] in (0, 1) and np.array_equal(values - values[0], np.arange(len(values))):
        return "counts the rows"
    known = values[~np.isnan(values)]
    long = known.size > 0 and (known == np.round(known)).all() and np.abs(known).min() >= _LONG_NUMBER
    return "has whole numbers of 16 digits and more for its rows" if long else ""


def _codes(table: Table) -> tuple[str, ...]:
    """Notes on numbers that may be codes for no value, such as -9999."""
    found = {name: _code(column.as_numbers) for name, column in table.columns.items() if column.kind is Kind.NUMBER}
    far = "further from its other values than these are from one another: if it means no value, say --gap"
    return tuple(
        f"'{shown(name)}' holds {code[0]:.15g} in {code[1]:,} rows, {far} {code[0]:.15g}"
        for name, code in found.items()
        if code
    )


def _code(values: Array) -> tuple[float, int] | None:
    """A value at an end that stands in several rows, further from all others than these spread, and in how many."""
    different, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if len(different) < 4:  # two others spread as far as they happen to lie
        return None
    halves = different / 2  # so that differences are no larger than the largest number
    for end, others in ((-1, halves[:-1]), (0, halves[1:])):
        if counts[end] > 1 and np.abs(others - halves[end]).min() > np.ptp(others):
            return float(different[end]), int(counts[end])
    return None


def _last_sums_up(table: Table, names: Sequence[str]) -> bool:
    """Whether the last row holds the sums of all others in every column of numbers: in two at least, of three rows."""
    columns = [values for values in _numbers(table, names).values() if not np.isnan(values[-1]) and values.any()]
    if len(columns) < 2 or len(table) < 4 or any(np.nanmax(np.abs(values)) >= _LONG_NUMBER for values in columns):
        return False
    return all(abs(values[-1] - np.nansum(values[:-1])) <= _rounding_of_sum(values) for values in columns)


def labels_of_sums(table: Table, names: Sequence[str]) -> dict[str, str]:
    """What a row of sums has in columns that look like text, and no other row there: Total among dates, say."""
    text = [name for name in names if table.columns[name].kind is Kind.TEXT] if len(table) else []
    if not text or not _last_sums_up(table, names):
        return {}
    cells = {name: table.columns[name].values.tolist() for name in text}
    return {name: held[-1] for name, held in cells.items() if held[-1] is not None and held.count(held[-1]) == 1}


def _rounding_of_sum(values: Array) -> float:
    """How far the sum of numbers as they are written may be from that of the numbers before they were rounded."""
    known = np.abs(values[~np.isnan(values)])
    places = (k for k in range(7) if np.allclose(known * 10**k, np.round(known * 10**k), rtol=1e-9, atol=1e-9))
    last = 10.0 ** -next(places, 12)
    return float(math.sqrt(known.size) * last + 1e-9 * known.sum())


def _numbers(table: Table, names: Sequence[str]) -> dict[str, Array]:
    """The columns of numbers among these."""
    return {name: table.columns[name].as_numbers for name in names if table.columns[name].kind is Kind.NUMBER}


def _refuse(holes: dict[str, Mask], unknown: Mask, target: str) -> None:
    named = [name for name, mask in holes.items() if mask.any()] + ([target] if unknown.any() else [])
    rows = np.any([unknown, *holes.values()], axis=0)
    raise TableError(
        f"{int(rows.sum()):,} of {len(rows):,} rows have missing values ({_which(rows)}), in {quoted(named)}: choose "
        "--missing impute or --missing drop"
    )


def _notes(unknown: Mask, gaps: Mask, missing: str, target: str) -> tuple[str, ...]:
    notes, rows = [], len(unknown)
    if unknown.any():
        notes.append(f"{unknown.sum():,} of {rows:,} rows left out: no '{shown(target)}' ({_which(unknown)})")
    others = gaps & ~unknown
    if others.any():
        done = "left out for missing values" if missing == "drop" else "have missing values, which are filled in"
        notes.append(f"{others.sum():,} of {rows:,} rows {done} ({_which(others)})")
    return tuple(notes)


def _which(rows: Mask) -> str:
    """The numbers of the first five of these rows, counted from 1."""
    numbers = [f"{at + 1:,}" for at in np.flatnonzero(rows)[:6]]
    return f"{'row' if len(numbers) == 1 else 'rows'} {', '.join(numbers[:5])}" + ", ..." * (len(numbers) > 5)
