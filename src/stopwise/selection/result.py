"""What "auto" tried, as a table people can read and programs can take apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

Row = dict[str, Any]
_COLUMNS = ("kernel", "per_feature", "length_scale", "rows", "evidence", "left_out_rmse", "score", "chosen")


@dataclass(frozen=True)
class Selection(Sequence[Row]):
    """Every kernel and length scale that was tried, best last stage first; a sequence of rows.

    Each row tells the `kernel`, whether it has one length scale `per_feature`, its `length_scale` in the features' own
    units (one number per feature used), on how many `rows` it was scored, the `evidence` (-2 log likelihood per row,
    response standardised), the `left_out_rmse` in the units of y (relative to its spread for several responses), the
    `score` (lower is better; compared within the same `stage`) and whether it was `chosen`. `features` tells for each
    column of X its length scale, relevance, or why it was left out; `reason` is the choice in a sentence.
    """

    tried: tuple[Row, ...]
    features: tuple[Row, ...]
    reason: str
    notes: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tried)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: Any) -> Any:
        return self.tried[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.tried)

    @property
    def chosen(self) -> Row:
        """The row that was chosen."""
        return next(row for row in self.tried if row["chosen"])

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.tried))

    def features_frame(self) -> Any:
        """Length scale, relevance or reason of every feature as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.features))

    def __str__(self) -> str:
        rows = [_COLUMNS, *(tuple(_text(row.get(name)) for name in _COLUMNS) for row in self.tried)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, self.reason])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        shown = ", ".join(f"{v:.3g}" for v in value[:3])
        return f"{shown}, ..." if len(value) > 3 else shown
    return "" if value is None else str(value)
