"""What an experiment counts: tallies that merge over chunks of trials, and the tidy table they end in.

Chunks are cut by the configuration alone and merged in one fixed order, so the table's bytes do not depend on how many
processes did the work.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from stopwise._support.arrays import Array, Index

Kind = Literal["mean", "max", "value"]


@dataclass(frozen=True)
class Key:
    """What a number is about; `at` is an iteration, a clock reading or a level, where there is one."""

    experiment: str
    quantity: str
    n: int
    rule: str = ""
    reading: str = ""
    noise: str = ""
    alpha: float | None = None
    kernel: str = "sobolev1"
    at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row(Key):
    """One line of the table. `exact` is the counterpart computed without simulation, where there is one."""

    mean: float
    standard_error: float | None
    exact: float | None
    trials: int
    seed: int


@dataclass(frozen=True)
class Tally:
    """Sufficient statistics of one number over some trials.

    Every mean is the ratio of the means of x and y, y = 1 unless a rival's error is what x is measured in; `scatter`
    are the centred sums of xx, xy and yy. `units` are independent draws, `trials` the trials behind them (a hold-out
    split or a random design may be shared by several).
    """

    key: Key
    kind: Kind
    units: int
    trials: int
    means: tuple[float, ...] = (0.0, 1.0)
    scatter: tuple[float, ...] = (0.0, 0.0, 0.0)
    exact: float | None = None

    def merge(self, other: Tally) -> Tally:
        """Both together (Chan, Golub & LeVeque 1983)."""
        if self.kind == "max":
            best = self if self.means[0] >= other.means[0] else other
            return replace(best, units=self.units + other.units, trials=self.trials + other.trials)
        if self.kind == "value":
            raise ValueError(f"a value is computed once, but {self.key} came twice")
        a, b, total = self.units, other.units, self.units + other.units
        x, y = gap = np.subtract(other.means, self.means)
        means = self.means + gap * b / total
        scatter = np.add(self.scatter, other.scatter) + np.array([x * x, x * y, y * y]) * a * b / total
        both = self.trials + other.trials
        return replace(self, units=total, trials=both, means=tuple(means.tolist()), scatter=tuple(scatter.tolist()))

    @property
    def value(self) -> float:
        """The mean, the ratio of means, or the largest."""
        return self.means[0] / self.means[1]

    @property
    def standard_error(self) -> float | None:
        """Of a mean, or of a ratio of means by the delta method; None where one draw cannot tell."""
        if self.kind != "mean":
            return 0.0 if self.trials == 0 else None
        if self.units < 2:
            return None
        xx, xy, yy = self.scatter
        spread = max(xx - 2 * self.value * xy + self.value**2 * yy, 0.0)
        return math.sqrt(spread / (self.units - 1) / self.units) / abs(self.means[1])

    def row(self, seed: int) -> Row:
        error, exact, trials = self.standard_error, self.exact, self.trials
        return Row(**vars(self.key), mean=self.value, standard_error=error, exact=exact, trials=trials, seed=seed)


def tally(key: Key, values: Array, *, exact: float | None = None, groups: Index | None = None) -> Tally:
    """The mean of per-trial values; `groups` labels trials that share a random split or design."""
    units = values if groups is None else np.bincount(groups, weights=values) / np.bincount(groups)
    mean = float(units.mean())
    return Tally(key, "mean", len(units), len(values), (mean, 1.0), (float(((units - mean) ** 2).sum()), 0, 0), exact)


def tally_ratio(key: Key, values: Array, rival: Array) -> Tally:
    """The mean of per-trial values in units of a rival's mean on the same trials."""
    x, y = float(values.mean()), float(rival.mean())
    dx, dy = values - x, rival - y
    return Tally(key, "mean", len(values), len(values), (x, y), (float(dx @ dx), float(dx @ dy), float(dy @ dy)))


def tally_max(key: Key, values: Array) -> Tally:
    """The largest of per-trial values."""
    return Tally(key, "max", len(values), len(values), (float(values.max()), 1.0))


def computed(key: Key, value: float, *, trials: int = 0) -> Tally:
    """A number that no averaging is behind: exact with no trials, else a quantile or a single draw."""
    return Tally(key, "value", 1, trials, (float(value), 1.0))


def merged(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each key, in the order in which keys first came."""
    found: dict[Key, Tally] = {}
    for one in tallies:
        found[one.key] = found[one.key].merge(one) if one.key in found else one
    return list(found.values())


def as_csv(rows: Sequence[Row]) -> str:
    """The table as text, ten digits a number."""
    names = ["experiment", "quantity", "kernel"]
    names += [f.name for f in fields(Row) if f.name not in names]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:  # what is missing is left empty
        cells = [getattr(row, name) for name in names]
        writer.writerow([format(cell, ".10g") if isinstance(cell, float) else cell for cell in cells])
    return out.getvalue()


def pick(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """The rows whose named columns have these values (a tuple: one of these)."""
    allowed = {name: value if isinstance(value, tuple) else (value,) for name, value in wanted.items()}
    return [row for row in rows if all(getattr(row, name) in values for name, values in allowed.items())]


def by_size(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """The rows with these values in order of n."""
    return sorted(pick(rows, **wanted), key=lambda row: row.n)


def column(rows: Iterable[Row], name: str) -> Array:
    """A column of numbers; 0 for what is missing."""
    return np.array([getattr(row, name) or 0.0 for row in rows], dtype=float)


def one(rows: Iterable[Row], **wanted: object) -> Row:
    """The single row with these values."""
    found = pick(rows, **wanted)
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows with {wanted}, expected one")
    return found[0]
