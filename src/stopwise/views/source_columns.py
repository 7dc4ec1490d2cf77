"""The columns of a table as its reader knows them: which features each became, and where to look along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array, evenly
from stopwise.estimators.fitted import Fitted, fitted_of
from stopwise.estimators.loss_fit import LossFitted
from stopwise.kernels import Precomputed
from stopwise.tables.dates import CYCLES
from stopwise.tables.encodings import Categories, Dates, Encoding, Numbers
from stopwise.views.facts import Model

_DOTS = 5
"""A column with at most so many different numbers is shown as dots: there is nothing between them."""


@dataclass(frozen=True)
class Positions:
    """Where a column is looked at: features of the column (p, width), and each one's place on an axis or label."""

    features: Array
    at: Array
    labels: tuple[str, ...] | None = None
    """Levels, in order; None for a column that is a line."""


@dataclass(frozen=True)
class SourceColumn:
    """A column of the table, and the features made from it."""

    name: str
    features: tuple[int, ...]
    encoding: Encoding | None = None
    """How they were made; None for a feature that is the column itself."""

    @property
    def axis(self) -> str:
        """What an axis along it is called."""
        years = isinstance(self.encoding, Dates) and "trend" in self.encoding.parts
        return f"{self.name} (year)" if years else self.name

    def positions(self, rows: Array, count: int) -> Positions:
        """Levels for a column that has a few; else `count` places between its 1% and 99% quantiles."""
        block = rows[:, list(self.features)].astype(np.float64)
        if isinstance(self.encoding, Categories):
            labels = self.encoding.labels
            return Positions(np.eye(len(labels)), np.arange(len(labels), dtype=np.float64), labels)
        if isinstance(self.encoding, Dates):
            return self._moments(self.encoding, block, count)
        values = block[:, 0] if block.shape[1] == 1 else block[block[:, 1] == 0, 0]
        different = np.unique(values)
        gap = np.zeros((1, block.shape[1] - 1))
        if different.size <= _DOTS:
            boolean = isinstance(self.encoding, Numbers) and self.encoding.boolean
            labels = tuple(("true" if value else "false") if boolean else f"{value:g}" for value in different)
            return Positions(_beside(different, gap), np.arange(different.size, dtype=np.float64), labels)
        low, high = np.quantile(values, [0.01, 0.99])
        at = np.linspace(low, high, count)
        return Positions(_beside(at, gap), at)

    def _moments(self, encoding: Dates, block: Array, count: int) -> Positions:
        """Dates of the table itself, evenly spread: a cycle belongs to its moment."""
        if "trend" in encoding.parts:
            place = block[:, 0] / CYCLES["year"] + 1970
        else:
            place = np.arctan2(block[:, 0], block[:, 1]) / (2 * np.pi) % 1.0
        order = np.argsort(place, kind="stable")
        picked = order[evenly(len(order), count)]
        return Positions(cast(Array, block[picked]), cast(Array, place[picked]))

    def put(self, rows: Array, features: Array) -> Array:
        """Some rows with this column at one position."""
        changed = rows.copy()
        changed[:, list(self.features)] = features
        return changed


def _beside(values: Array, gap: Array) -> Array:
    return np.column_stack([values, np.repeat(gap, len(values), axis=0)])


def columns_of(model: Model) -> list[SourceColumn]:
    """Every column that the fit was given, in order; none for a precomputed kernel."""
    fitted: Fitted | LossFitted = fitted_of(model)
    if isinstance(fitted.kernel, Precomputed):
        return []
    if fitted.recipe is not None:
        out, start = [], 0
        for encoding in fitted.recipe.encodings:
            width = sum(len(group) for group in encoding.groups)
            out.append(SourceColumn(encoding.name, tuple(range(start, start + width)), encoding))
            start += width
        return out
    given = fitted.feature_names
    names = [f"feature {j + 1}" for j in range(fitted.n_features)] if given is None else [str(name) for name in given]
    return [SourceColumn(name, (j,)) for j, name in enumerate(names)]
