"""What rows of a fit are called in words: by their numbers in the table that they were taken from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from stopwise._support.arrays import Array


@dataclass(frozen=True)
class RowNumbers:
    """For each row its place in that table, None for the same, and the number that the first one there has."""

    places: Array | None = None
    first: int = 0

    def words(self, rows: Array, most: int = 8) -> str:
        """Rows in words: "rows 3, 7 (counted from 0)"."""
        places = rows if self.places is None else self.places[rows]
        listed = ", ".join(str(place + self.first) for place in places[:most])
        more = f" and {len(rows) - most} more" if len(rows) > most else ""
        return f"{'row' if len(rows) == 1 else 'rows'} {listed}{more} (counted from {self.first})"


_numbers: ContextVar[RowNumbers | None] = ContextVar("row_numbers", default=None)


def row_numbers() -> RowNumbers:
    """How rows are numbered here."""
    return _numbers.get() or RowNumbers()


@contextmanager
def rows_taken(places: Array, first: int | None = None) -> Iterator[None]:
    """Inside, rows are those at these places of the table so far, which is counted from `first` on."""
    outer = row_numbers()
    within = places if outer.places is None else outer.places[places]
    token = _numbers.set(RowNumbers(within, outer.first if first is None else first))
    try:
        yield
    finally:
        _numbers.reset(token)
