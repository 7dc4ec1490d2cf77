"""Every figure of the experiments, and the files they are saved to."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stopwise._support.optional import matplotlib
from stopwise.experiments.more_figures import draw_boosting, draw_bounds, draw_classes, draw_robustness
from stopwise.experiments.paper_figures import draw_path, draw_rates, draw_ridge, draw_rules
from stopwise.experiments.runner import Outcome, replace_file
from stopwise.experiments.tally import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

FIGURES: dict[str, Callable[[Sequence[Row]], dict[str, Figure]]] = {
    "path": draw_path,
    "rates": draw_rates,
    "rules": draw_rules,
    "ridge": draw_ridge,
    "classes": draw_classes,
    "bounds": draw_bounds,
    "robustness": draw_robustness,
    "boosting": draw_boosting,
}


def save_figures(outcome: Outcome, folder: Path) -> tuple[list[Path], str | None]:
    """Every panel of the finished experiments as PNG and SVG; without matplotlib, a note in their place."""
    try:
        library = matplotlib()
    except ImportError as missing:
        return [], f"No figures: {missing}"
    target, files = folder / "figures", list[Path]()
    if outcome.finished:
        target.mkdir(parents=True, exist_ok=True)
    with library.rc_context(_STYLE):
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
