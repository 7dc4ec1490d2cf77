"""What comparisons of numbers and of classes share: the table that comes out, and the rows that go in."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.html_table import html_table, text_table
from stopwise.tables.encoder import TableEncoder
from stopwise.tables.frames import as_table, is_frame
from stopwise.tables.recipe import FeatureMatrix
from stopwise.views.facts import Model, number


@dataclass(frozen=True)
class Comparison:
    """All rows, the model whose path (or kernel) they share, and how many rows were fitted and held out."""

    rows: tuple[Any, ...]
    model: Model
    n_rows: int
    n_holdout: int
    seconds: float

    def table(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in self.rows]

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Names of the columns that some row fills, and every cell as text."""
        table = self.table()
        names = [name for name in table[0] if any(row[name] is not None for row in table)]
        cells = [[number(row[name], missing="") for name in names] for row in table]
        return [name.replace("_", " ") for name in names], cells

    def __str__(self) -> str:
        return text_table(*self._cells())

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        held = f", {self.n_holdout:,} held out" if self.n_holdout else ""
        return html_table(f"Where each rule stops: {self.n_rows:,} rows{held}.", *self._cells())


def as_numbers(X: Any, y: Array, kept: Array) -> Array:
    """Rows of numbers: of a frame by an encoder that saw the kept rows alone; columns that belong together stay so."""
    if not is_frame(X):
        return X if isinstance(X, FeatureMatrix) else np.asarray(X)
    table = as_table(X)
    seen = np.bincount(kept, minlength=len(y)).astype(bool)
    return TableEncoder().fit(table.take(seen), y[seen]).transform(table)
