"""Panels of the experiments: colours, markers, labels and axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stopwise._support.arrays import Array
from stopwise._support.optional import matplotlib
from stopwise.experiments.tally import Row, column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "critical": "#0072B2",
    "holdout": "#D55E00",
    "sure": "#009E73",
    "oracle": "#000000",
    "minimax": "#56B4E9",
    "gcv": "#CC79A7",
    "discrepancy": "#E69F00",
}
"""Okabe and Ito's palette, told apart by every kind of eye."""
OTHERS = ("#7F7F7F", "#8C564B", "#17BECF", "#BCBD22")
MARKERS = {"critical": "o", "holdout": "s", "sure": "^", "oracle": "D", "minimax": "v", "gcv": "P", "discrepancy": "X"}
LABELS = {"critical": "the rule", "holdout": "hold-out", "sure": "SURE", "gcv": "GCV", "loo": "leave-one-out"}


def panel(width: float = 4.6, height: float = 3.4) -> tuple[Figure, Axes]:
    """An empty panel; no global state, no window."""
    matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def log_log(axes: Axes) -> None:
    """Logarithmic axes over a decade or two, ticks at 1, 2 and 5 written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def label(rule: str) -> str:
    """A rule's name in a legend."""
    return LABELS.get(rule, rule)


def colour(rule: str, others: list[str]) -> str:
    """A rule's colour; rules from outside take the greys and browns in turn."""
    return COLOURS.get(rule) or OTHERS[others.index(rule) % len(OTHERS)]


def with_bars(rows: Sequence[Row], power: float = 1.0) -> tuple[Array, Array, Array]:
    """Sizes, means to a power, and twice the standard error carried through it."""
    mean, spread = column(rows, "mean"), column(rows, "standard_error")
    return column(rows, "n"), mean**power, 2 * abs(power) * mean ** (power - 1) * spread
