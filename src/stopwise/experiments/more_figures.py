"""Panels for the corollaries, the theorems and robustness, which the paper states without a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stopwise.experiments.draw import COLOURS, label, log_log, panel, with_bars
from stopwise.experiments.rates import slope
from stopwise.experiments.tally import Row, by_size, column, pick

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CLASSES = {"polynomial2": "critical", "polynomial3": "holdout", "sobolev1": "sure", "sobolev2": "gcv"}


def draw_classes(rows: Sequence[Row]) -> dict[str, Figure]:
    """Corollaries: the critical radius against n for each class, and simulated errors at sizes at hand."""
    figure, axes = panel()
    for kernel, shade in _CLASSES.items():
        far = by_size(rows, kernel=kernel, quantity="squared critical radius")
        x, y = column(far, "n"), column(far, "mean")
        axes.loglog(x, y, color=COLOURS[shade], marker="o", label=f"{kernel}, slope {slope(x[-3:], y[-3:]):.3f}")
    axes.set(xlabel="sample size n", ylabel=r"squared critical radius $\hat\varepsilon_n^2$ (exact)")
    axes.set_title("population eigenvalues, constant 2e")
    axes.legend(loc="lower left")
    near, plot = panel()
    for kernel, shade in _CLASSES.items():
        part = by_size(rows, kernel=kernel, quantity="mse")
        plot.errorbar(*with_bars(part), fmt="o", color=COLOURS[shade], label=kernel)
        plot.plot(column(part, "n"), column(part, "exact"), color=COLOURS[shade], lw=1.0)
    plot.plot([], [], color="0.4", lw=1.0, label="exact")
    log_log(plot)
    plot.set(xlabel="sample size n", ylabel="mean squared error at the stop")
    plot.set_title("truths of Hilbert norm 1; bars: 2 standard errors")
    plot.legend()
    return {"classes-limit": figure, "classes-simulated": near}


def draw_bounds(rows: Sequence[Row]) -> dict[str, Figure]:
    """Theorem 1: the largest value seen beside what the bound allows."""
    figure, axes = panel()
    clock, radius = "clock x error, largest", "error / squared radius, largest"
    shown = (
        (clock, "descent", "critical", r"(a) $\eta_t \times$ error", 4 / np.e, "bound (a), 4/e"),
        (radius, "descent", "holdout", r"(b) error / $\hat\varepsilon_n^2$", 12.0, "bound (b), 12"),
        (clock, "ridge", "sure", r"ridge (a) $\nu \times$ error", 2.0, "ridge (a), 2"),
    )
    for quantity, reading, shade, word, _, _ in shown:
        best: dict[int, float] = {}
        for row in pick(rows, quantity=quantity, reading=reading):
            best[row.n] = max(best.get(row.n, 0.0), row.mean)
        axes.plot(sorted(best), [best[n] for n in sorted(best)], marker="o", color=COLOURS[shade], label=word)
    for _, _, shade, _, height, word in shown:
        axes.axhline(height, color=COLOURS[shade], ls="--", lw=1.0, label=word)
    axes.set(yscale="log", ylim=(None, 90), xlabel="sample size n", ylabel="largest of all trials")
    axes.set_title("Theorem 1: room in the bounds")
    axes.legend(ncols=2, loc="upper center")
    return {"bounds": figure}


def draw_robustness(rows: Sequence[Row]) -> dict[str, Figure]:
    """MSE over the oracle's, a cell for each rule and scenario."""
    n = max(row.n for row in rows)
    cells = pick(rows, quantity="mse / oracle", n=n)
    scenarios = list(dict.fromkeys(row.noise for row in cells))
    rules = list(dict.fromkeys((row.rule, row.reading) for row in cells))
    means = {(row.rule, row.reading, row.noise): row.mean for row in cells}
    table = np.array([[means[*rule, scenario] for scenario in scenarios] for rule in rules])
    figure, axes = panel(7.2, 0.34 * len(rules) + 1.5)
    axes.grid(False)
    image = axes.imshow(np.log10(np.maximum(table, 1.0)), cmap="YlOrRd", aspect="auto", vmin=0, vmax=2)
    for (i, j), value in np.ndenumerate(table):
        text, shade = f"{value:.2f}" if value < 10 else f"{value:.0f}", "white" if value > 18 else "black"
        axes.text(j, i, text, ha="center", va="center", fontsize=7.5, color=shade)
    words = [scenario.replace("autoc", "auto-\nc").replace(" ", "\n") for scenario in scenarios]
    axes.set_xticks(range(len(scenarios)), words, fontsize=7.5)
    axes.set_yticks(range(len(rules)), [f"{label(rule)}: {reading}" for rule, reading in rules], fontsize=7.5)
    axes.set_title(f"mean squared error over the oracle's, n = {n}, step {cells[0].alpha:g}")
    bar = figure.colorbar(image, ax=axes, ticks=[0, 1, 2], shrink=0.85)
    bar.ax.set_yticklabels(["1", "10", "100+"])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return {"robustness": figure}


def draw_boosting(rows: Sequence[Row]) -> dict[str, Figure]:
    """Kernel boosting: error against n for each stop (7n)^kappa, a panel for each loss."""
    out = {}
    for name in dict.fromkeys(row.reading for row in rows):
        figure, axes = panel()
        stops = sorted({row.at for row in pick(rows, reading=name) if row.at is not None})
        for at, shade in zip(stops, COLOURS.values(), strict=False):
            part = by_size(rows, reading=name, at=at)
            axes.errorbar(*with_bars(part), marker="o", color=shade, label=f"{at:.2f}")
        log_log(axes)
        axes.set(xlabel="sample size n", ylabel="mean squared error")
        axes.set_title(f"{name} loss, stopped after (7n)^kappa steps\nbars: 2 standard errors")
        axes.legend(title="kappa")
        out[f"boosting-{name}"] = figure
    return out
