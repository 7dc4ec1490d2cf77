"""What "auto" tried, as a table people can read and programs can take apart; its sentence is made from the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stopwise._support.html_table import html_table, text_table
from stopwise.kernels import Kernel, Stationary
from stopwise.problem import Problem
from stopwise.sample import Features
from stopwise.selection.candidates import Candidate, judge

Row = dict[str, Any]
_SHOWN = (
    *("kernel", "per_feature", "length_scale", "rows", "evidence", "left_out_rmse", "left_out_loss", "excess", "score"),
    "chosen",
)
"""Columns that people see, where any row has them."""


def _cell(value: object) -> str:
    """A value for people: numbers to four digits, of a list the first three."""
    if isinstance(value, list | tuple):
        return ", ".join(_cell(part) for part in value[:3]) + (f", ... ({len(value)})" if len(value) > 3 else "")
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Selection(Sequence[Row]):
    """Every kernel and length scale that was tried, the chosen one first; a sequence of rows.

    Each row tells the `kernel`, whether it has one length scale `per_feature`, its `length_scale` in the features' own
    units (one number per feature used), on how many `rows` it was scored, the `evidence` (-2 log likelihood per row,
    response standardised), the `left_out_rmse` in the units of y (relative to its spread for several responses), by
    which share its squared error is larger than the chosen one's (`excess`, with its standard error `excess_error`,
    on the same rows), the `score` (lower is better; compared on the same rows) and whether it was `chosen`. `features`
    tells for each column of X its length scale, relevance (and power, where skewed ones are drawn in), or why it is
    left out; `reason` tells the choice in words.
    """

    tried: tuple[Row, ...]
    features: tuple[Row, ...]
    reason: str
    n_rows: int = 0
    """Distinct rows that candidates were scored on, of so many in all that stand for so many samples:"""
    n_distinct: int = 0
    n_samples: float = math.inf
    linear: bool = False
    """Whether a linear part is left unpenalised."""
    at_edge: str | None = None
    """The end of the length scales tried ("short" or "long") that the best one was learned from; None inside."""
    edge_fall: float = 0.0
    """How much lower the score is one doubling beyond the best, in that direction."""

    def __len__(self) -> int:
        return len(self.tried)

    def __getitem__(self, index: Any) -> Any:
        return self.tried[index]

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The names of the columns that people see, and the rows as text."""
        names = [name for name in _SHOWN if any(row.get(name) is not None for row in self.tried)]
        return names, [[_cell(row.get(name)) for name in names] for row in self.tried]

    def __str__(self) -> str:
        return f"{text_table(*self._cells())}\n{self.reason}"

    def _repr_html_(self) -> str:
        """How a notebook shows it: the choice in words, and every candidate."""
        names, rows = self._cells()
        chosen = next((i for i, row in enumerate(self.tried) if row.get("chosen")), None)
        return html_table(f"{self.reason}.", [name.replace("_", " ") for name in names], rows, chosen)

    @property
    def chosen(self) -> Row:
        """The row that was chosen."""
        return next(row for row in self.tried if row["chosen"])

    def below(self, rows: Sequence[Row], reason: str, **changes: Any) -> Selection:
        """The same table below the rows of another search, which chose instead, for this reason."""
        others = ({**row, "chosen": False} for row in self.tried)
        return replace(self, tried=(*chosen_first(rows), *others), reason=reason, **changes)

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.tried))


def chosen_first(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The row that was chosen, then the others in their order."""
    return tuple(sorted(rows, key=lambda row: not row["chosen"]))


def row_of(kernel: Kernel, n_rows: int, chosen: bool, scores: Row, **kind: Any) -> Row:
    """What a table tells of a kernel that was scored on so many rows."""
    lengths = kernel.core.scales.tolist() if isinstance(kernel.core, Stationary) else None
    return {"kernel": kernel.name, **kind, "length_scale": lengths, "rows": n_rows, **scores, "chosen": chosen}


def describe(problem: Problem, features: Features, best: Candidate, tried: Sequence[Candidate]) -> Selection:
    """The table of everything tried, in user units, the chosen one first."""
    sample = best.sample
    seen = replace(features, spread=features.spread * sample.spread_of_places)
    powers = None if sample.drawn_in is None else sample.drawn_in.power
    table = seen.table(best.first.scales * seen.spread, best.per_feature, powers)
    if not sample.means.shape[1]:
        return Selection((), table, "no response varies: the fit is constant")
    unit = problem.spread() if problem.responses.shape[1] == 1 else 1.0
    rows = [_row(c, best, features, unit) for c in [best, *(c for c in tried if c is not best)]]
    counts = sample.n_rows, sample.n_distinct, problem.n_samples
    return Selection(tuple(rows), table, sentence(rows), *counts, sample.linear, *_edge(best))


def _edge(best: Candidate) -> tuple[str | None, float]:
    """The end of the grid that the best was learned from, and how much lower the score is beyond the best.

    Learning leaves the grid: only what is beyond the length scales that it found was not looked at.
    """
    end = None if best.per_feature else best.first.edge
    if end is None:
        return None, 0.0
    further = 2.0 if end == "long" else 0.5
    beyond = judge(best.sample, *(replace(part, scales=further * part.scales) for part in best.parts))
    return end, best.score - beyond.score


def _row(candidate: Candidate, best: Candidate, features: Features, unit: float) -> Row:
    excess, excess_error, sample = None, None, candidate.sample
    if sample.n_rows == best.sample.n_rows:
        mean = max(float(best.errors.mean()), 1e-300)
        gap = (candidate.errors - best.errors).mean(axis=1) / mean
        excess, excess_error = float(gap.mean()), float(gap.std()) / math.sqrt(gap.size)
    spread = features.spread * sample.spread_of_places
    return {
        "kernel": candidate.name,
        "per_feature": candidate.per_feature,
        "linear": sample.linear,
        "warped": sample.warped,
        "average": len(candidate.parts) > 1,
        "length_scale": (candidate.first.scales * spread).tolist() if candidate.parts else None,
        "rows": sample.n_rows,
        "evidence": float(candidate.evidence.mean()),
        "left_out_rmse": unit * math.exp(candidate.log_error.mean() / 2),
        "excess": excess,
        "excess_error": excess_error,
        "score": candidate.score,
        "chosen": candidate is best,
    }


def sentence(rows: Sequence[Row]) -> str:
    """The choice in words, from the table alone."""
    chosen = rows[0]
    told = f"{chosen['kernel']} with {'one length scale per feature' if chosen['per_feature'] else 'one length scale'}"
    if len(rows) == 1:
        return f"{told}: nothing else to choose from"
    told += _beside(rows, "per_feature", "one for all features has", "one per feature has")
    if chosen["warped"]:
        told += "; skewed features are drawn in by powers"
        told += _beside(rows, "warped", "as they are they have", "")
    if chosen["average"]:
        told += "; a sum of kernels, each with its share by the evidence"
    return told


def _beside(rows: Sequence[Row], name: str, without: str, having: str) -> str:
    """How much more the best that differs from the chosen one in this errs on the same rows, if there is one."""
    others = [row for row in rows[1:] if row["excess"] is not None and row[name] != rows[0][name]]
    if not others:
        return ""
    other = min(others, key=lambda row: row["score"])
    more = f"{100 * abs(other['excess']):.1f}% {'more' if other['excess'] >= 0 else 'less'} squared error"
    error = f"on left-out rows (standard error {100 * other['excess_error']:.1f}%)"
    return f"; {having if other[name] else without} {more} {error}"
