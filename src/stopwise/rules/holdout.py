"""Hold-out: fit on part of the rows, watch the error on the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.checks import flag, is_number
from stopwise.path import Path
from stopwise.rules.base import Data, Reading, Rule, Stop, stop_at
from stopwise.rules.search import check_reading, minimise


@dataclass(frozen=True)
class HoldOut(Rule):
    """Stop where the error on held-out rows is smallest (RWY14, hold-out; E11, E12).

    `fraction` is the share held out; `split` how rows are dealt: "random" (seeded), "odd-even" or "halves" in the
    order given. `refit=True` takes the stop to a path on all rows; `refit=False` keeps the fit on the training part,
    as in the paper.
    """

    fraction: float = 0.5
    refit: bool = True
    reading: Reading = "global"
    split: Literal["random", "odd-even", "halves"] = "random"
    name: ClassVar[str] = "holdout"
    splits_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_reading(self.reading)
        flag(self.refit, "refit")
        if not (is_number(self.fraction) and 0 < self.fraction < 1):
            raise ValueError(f"fraction must lie strictly between 0 and 1, got {self.fraction!r}")
        if self.split not in ("random", "odd-even", "halves"):
            raise ValueError(f'split must be "random", "odd-even" or "halves", got {self.split!r}')

    @property
    def keeps_training_part(self) -> bool:
        return not self.refit

    def rows(self, n_rows: int, seed: int) -> tuple[Array, Array]:
        """Training and held-out rows."""
        held = min(max(1, math.floor(n_rows * self.fraction)), n_rows - 1)
        if n_rows < 2:
            raise ValueError(f"hold-out needs at least 2 rows, got {n_rows}")
        if self.split == "random":
            order = np.random.default_rng(seed).permutation(n_rows)
        elif self.split == "halves":
            order = np.arange(n_rows)
        else:
            # Every (1/fraction)-th row is held out, starting with the second.
            marks = np.floor(np.arange(1, n_rows + 1) * held / n_rows) > np.floor(np.arange(n_rows) * held / n_rows)
            order = np.concatenate([np.flatnonzero(~marks), np.flatnonzero(marks)])
        return np.sort(order[: n_rows - held]), np.sort(order[n_rows - held :])

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        if data is None or data.split is None:
            raise ValueError("the rule HoldOut needs rows to hold out: it works on row data, not on a bare spectrum")
        train, test = self.rows(data.n_rows, data.seed)
        held = data.split(train, test)
        stop = minimise(held.path, held.error, self.reading)
        on_full = stop_at(path.filter, stop.step_sum, stop.reason) if self.refit else stop
        return replace(on_full, evidence=stop.evidence).with_evidence(held_out=len(test), train_rows=train)
