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
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stopwise._support.arrays import Array

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


@dataclass(frozen=True)
class Row:
    """One line of the table. `exact` is the counterpart computed without simulation, where there is one."""

    experiment: str
    quantity: str
    kernel: str
    n: int
    rule: str
    reading: str
    noise: str
    alpha: float | None
    at: float | None
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
    means: tuple[float, float] = (0.0, 1.0)
    scatter: tuple[float, float, float] = (0.0, 0.0, 0.0)
    exact: float | None = None

    def merge(self, other: Tally) -> Tally:
        """Both together (Chan, Golub & LeVeque 1983)."""
        if self.kind == "max":
            best = self if self.means[0] >= other.means[0] else other
            return replace(best, units=self.units + other.units, trials=self.trials + other.trials)
        if self.kind == "value":
            raise ValueError(f"a value is computed once, but {self.key} came twice")
        a, b, total = self.units, other.units, self.units + other.units
        gap = tuple(q - p for p, q in zip(self.means, other.means, strict=True))
        means = tuple(p + g * b / total for p, g in zip(self.means, gap, strict=True))
        products = (gap[0] * gap[0], gap[0] * gap[1], gap[1] * gap[1])
        scatter = tuple(
            p + q + g * a * b / total for p, q, g in zip(self.scatter, other.scatter, products, strict=True)
        )
        return replace(
            self,
            units=total,
            trials=self.trials + other.trials,
            means=(means[0], means[1]),
            scatter=(scatter[0], scatter[1], scatter[2]),
        )

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
        """The line of the table."""
        k = self.key
        return Row(
            experiment=k.experiment,
            quantity=k.quantity,
            kernel=k.kernel,
            n=k.n,
            rule=k.rule,
            reading=k.reading,
            noise=k.noise,
            alpha=k.alpha,
            at=k.at,
            mean=self.value,
            standard_error=self.standard_error,
            exact=self.exact,
            trials=self.trials,
            seed=seed,
        )


def tally(
    key: Key, values: Array, *, exact: float | None = None, groups: npt.NDArray[np.integer[Any]] | None = None
) -> Tally:
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


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return format(value, ".10g") if isinstance(value, float) else str(value)


def as_csv(rows: Sequence[Row]) -> str:
    """The table as text, ten digits a number."""
    names = [f.name for f in fields(Row)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(getattr(row, name)) for name in names] for row in rows)
    return out.getvalue()


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows whose named columns have these values (a tuple: one of these)."""

    def fits(row: Row) -> bool:
        return all(
            getattr(row, name) in value if isinstance(value, tuple) else getattr(row, name) == value
            for name, value in wanted.items()
        )

    return [row for row in rows if fits(row)]


def one(rows: Iterable[Row], **wanted: Any) -> Row:
    """The single row with these values."""
    found = pick(rows, **wanted)
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows with {wanted}, expected one")
    return found[0]
