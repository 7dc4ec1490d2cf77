"""Data to try things on, simulated here from a formula and a seed: the same everywhere, and nobody's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stopwise.tables.table import Column, Kind, Table, text_column

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Example:
    """A table and its target column."""

    columns: dict[str, npt.NDArray[np.float64] | npt.NDArray[np.str_]]
    target: str

    @property
    def frame(self) -> pd.DataFrame:
        """The table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.columns)

    @property
    def table(self) -> Table:
        """The table as the command line reads it."""
        return Table({name: _column(values) for name, values in self.columns.items()})


def _column(values: npt.NDArray[np.float64] | npt.NDArray[np.str_]) -> Column:
    if values.dtype.kind == "U":
        return text_column(values.tolist())
    return Column(Kind.NUMBER, values.astype(np.float64))


def _motorcycle() -> Example:
    """The head of a rider in a simulated crash: still, thrown back, swinging forward, coming to rest."""
    rng = np.random.default_rng(1985)
    time = np.sort(np.round(rng.gamma(4.0, 7.0, size=160).clip(2.0, 60.0), 1))
    since = np.maximum(time - 13.5, 0.0)
    swing = -135.0 * np.sin(since / 5.2) * np.exp(-since / 16.0)
    acceleration = np.round(swing + rng.normal(scale=14.0, size=time.size), 1)
    return Example({"milliseconds": time, "acceleration": acceleration}, "acceleration")


def _kiln() -> Example:
    """Strength of bricks from three kilns: two numbers and a text column."""
    rng = np.random.default_rng(1764)
    size = 240
    heat, hours = rng.uniform(880, 1120, size), rng.uniform(2, 12, size)
    kiln = rng.choice(["north", "river", "old"], size)
    peak = 40 * np.exp(-(((heat - 1020) / 70) ** 2)) * (1 - np.exp(-hours / 4))
    strength = peak + np.where(kiln == "old", -5.0, 0.0) + rng.normal(scale=2.0, size=size)
    columns = {"celsius": heat.round(), "hours": hours.round(1), "kiln": kiln, "strength": strength.round(2)}
    return Example(columns, "strength")


EXAMPLES: dict[str, Callable[[], Example]] = {"motorcycle": _motorcycle, "kiln": _kiln}


def load_example(name: str) -> Example:
    """An example by name."""
    if name not in EXAMPLES:
        raise ValueError(f"no example named {name!r}: there are {', '.join(sorted(EXAMPLES))}")
    return EXAMPLES[name]()
