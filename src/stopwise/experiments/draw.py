"""Panels of the experiments, and the files they are saved to."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from stopwise._support.matplotlib import library
from stopwise.experiments.runner import Outcome, replace_file

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
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "svg.hashsalt": "stopwise",
    "svg.fonttype": "path",
}
"""matplotlib's settings for every panel; the salt makes SVG files the same at each run."""


def panel(width: float = 4.6, height: float = 3.4) -> tuple[Figure, Axes]:
    """An empty panel; no global state, no window."""
    library()
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


def save_figures(outcome: Outcome, folder: Path) -> tuple[list[Path], str | None]:
    """Every panel of the finished experiments as PNG and SVG; without matplotlib, a note in their place."""
    try:
        matplotlib = library()
    except ImportError as missing:
        return [], f"No figures: {missing}"
    from stopwise.experiments.paper_figures import FIGURES

    target, files = folder / "figures", list[Path]()
    if outcome.finished:
        target.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_STYLE):
        for name in outcome.finished:
            rows = [row for row in outcome.rows if row.experiment == name]
            for stem, figure in FIGURES[name](rows).items():
                files += [_save(figure, target / f"{stem}.{kind}") for kind in ("png", "svg")]
    return files, None


def _save(figure: Figure, target: Path) -> Path:
    content = io.BytesIO()
    dated = {"metadata": {"Date": None}} if target.suffix == ".svg" else {"dpi": 200}
    figure.savefig(content, format=target.suffix[1:], **dated)
    return replace_file(target, content.getvalue())
