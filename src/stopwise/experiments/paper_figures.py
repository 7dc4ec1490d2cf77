"""The paper's panels, drawn from the table alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stopwise._support.arrays import Array
from stopwise.experiments.draw import COLOURS, MARKERS, colour, label, log_log, panel, with_bars
from stopwise.experiments.published import FIG3
from stopwise.experiments.rules import ONE_EACH
from stopwise.experiments.tally import Row, by_size, column, pick

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KERNELS = {"sobolev1": "min(x, z)", "gaussian": "Gaussian"}


def draw_path(rows: Sequence[Row]) -> dict[str, Figure]:
    """Fig. 1: error against iterations for each kernel and step."""
    found = {}
    letters = {("sobolev1", 0.25): "fig1a", ("gaussian", 0.25): "fig1b"}
    for kernel, alpha in sorted({(row.kernel, row.alpha) for row in rows}, key=str):
        mine = pick(rows, kernel=kernel, alpha=alpha)
        name = letters.get((kernel, alpha or 0.0), f"fig1-{kernel}-step{alpha:g}")
        found[name] = _path_panel(mine, f"{_KERNELS[kernel]} kernel, step {alpha:g}, n = {mine[0].n}")
    return found


def _along(rows: Sequence[Row], **wanted: object) -> list[Row]:
    """The rows with these values in order of the clock."""
    return sorted(pick(rows, **wanted), key=lambda row: row.at or 0.0)


def _series(rows: Sequence[Row], quantity: str) -> tuple[Array, Array]:
    part = _along(rows, quantity=quantity)
    return column(part, "at"), column(part, "mean")


def _path_panel(rows: Sequence[Row], title: str) -> Figure:
    figure, axes = panel(4.6, 3.7)
    t, mean = _series(rows, "error")
    low, high = _series(rows, "error, 10%")[1], _series(rows, "error, 90%")[1]
    axes.fill_between(t, low, high, color=COLOURS["critical"], alpha=0.15, lw=0, label="middle 80% of trials")
    for j in range(1, 4):
        axes.plot(*_series(rows, f"error, trial {j}"), color="0.6", lw=0.8, label="single trials" if j == 1 else None)
    axes.plot(t, mean, color=COLOURS["critical"], lw=3.0, alpha=0.45, label="mean of trials")
    exact = column(_along(rows, quantity="error"), "exact")
    axes.plot(t, exact, color="black", lw=1.0, ls="--", label="exact risk")
    stop, best = (pick(rows, quantity=q)[0].mean for q in ("stop", "best iteration"))
    axes.axvline(stop, color=COLOURS["holdout"], lw=1.2, label=f"rule stops, t = {stop:.0f}")
    if best <= t[-1]:
        axes.axvline(best, color=COLOURS["sure"], lw=1.2, ls=":", label=f"lowest, t = {best:.0f}")
    axes.set(xlabel="iteration t", ylabel="squared error in $L^2(P_n)$", title=title, xlim=(0, t[-1]))
    axes.set_ylim(0, float(max(high.max(), mean.max())) * 1.1)
    figure.legend(loc="outside lower center", ncols=3)
    return figure


_ESTIMATORS = {
    "known": "known",
    "hall-marron": "Hall-Marron",
    "rice": "Rice",
    "gsjs": "Gasser et al.",
    "spectral-tail": "spectral tail",
    "nearest-neighbour": "nearest neighbour",
    "gcv": "GCV residual",
    "evidence": "evidence",
}


def draw_rates(rows: Sequence[Row]) -> dict[str, Figure]:
    """Fig. 2 (a), (b), and the limit beyond the paper's sizes."""
    fixed = pick(rows, quantity="mse", reading="fixed design")
    found: dict[str, Figure] = {}
    for name, power in (("fig2a", 1.0), ("fig2b", -1.5)):
        figure, axes = panel(5.0, 4.1)
        for i, noise in enumerate(n for n in _ESTIMATORS if pick(fixed, noise=n)):
            few = noise in ("nearest-neighbour", "gcv", "evidence")
            thin: dict[str, Any] = {"fmt": "x+1"[i % 3], "ms": 6, "lw": 0.8}
            style = thin if few else {"fmt": "-", "lw": 2.4 - 0.4 * i}
            shade = list(COLOURS.values())[i % 7]
            axes.errorbar(*with_bars(pick(fixed, noise=noise), power), color=shade, label=_ESTIMATORS[noise], **style)
        drawn = pick(rows, quantity="population mse", reading="random design", noise="known")
        axes.errorbar(*with_bars(drawn, power), fmt="o", mfc="none", color="0.3", label="random design")
        ylabel = "mean squared error" if power == 1 else r"mean squared error$^{-3/2}$"
        axes.set(xlabel="sample size n", ylabel=ylabel, title=f"the rule, step {fixed[0].alpha:g}")
        figure.legend(loc="outside lower center", ncols=3, title="noise level", title_fontsize=8)
        found[name] = figure
    return {**found, "fig2c": _limit_panel(pick(rows, reading="exact grid"))}


def _limit_panel(rows: Sequence[Row]) -> Figure:
    figure, axes = panel()
    quantities = ("squared critical radius", "worst case over the ball", "risk of this truth")
    for quantity, shade in zip(quantities, ("critical", "holdout", "sure"), strict=True):
        part = pick(rows, quantity=quantity)
        axes.loglog(column(part, "n"), column(part, "mean"), marker="o", color=COLOURS[shade], label=quantity)
    start = pick(rows, quantity=quantities[0])[-1]
    guide = np.array([1e4, 1e6])
    axes.loglog(guide, 1.6 * start.mean * (guide / start.n) ** (-2 / 3), color="0.4", ls="--", label="slope -2/3")
    axes.set(xlabel="sample size n", ylabel="squared error (exact)", title="min(x, z) kernel on x = i/n, no simulation")
    axes.legend(loc="lower left")
    return figure


def draw_rules(rows: Sequence[Row]) -> dict[str, Figure]:
    """Fig. 3 (a), (b) beside the published values, all rules, and every reading at one size."""
    alphas = sorted({row.alpha for row in pick(rows, quantity="mse") if row.alpha is not None})
    found: dict[str, Figure] = {}
    for alpha in alphas:
        mine = [r for r in pick(rows, quantity="mse", alpha=alpha) if r.noise in ("", "known")]
        tail = "" if alpha == alphas[-1] else f"-step{alpha:g}"
        curves = [r for r in mine if ONE_EACH.get(r.rule, "as given") == r.reading]
        for name, log in (("fig3a", False), ("fig3b", True)):
            found[name + tail] = _rules_panel(curves, ("critical", "holdout", "sure", "oracle"), log, True)
        names = tuple(dict.fromkeys(row.rule for row in curves))
        found["fig3c" + tail] = _rules_panel(curves, names, True, False)
    sizes = sorted({row.n for row in rows})
    at = 100 if 100 in sizes else sizes[-1]
    found["fig3d"] = _readings_panel(pick(rows, quantity="mse", n=at, alpha=alphas[-1]), at)
    return found


def _rules_panel(rows: Sequence[Row], names: Sequence[str], log: bool, published: bool) -> Figure:
    figure, axes = panel(4.9, 3.6)
    others = [name for name in names if name not in COLOURS]
    for name in names:
        shade, marker = colour(name, others), MARKERS.get(name, "*")
        axes.errorbar(*with_bars(by_size(rows, rule=name)), color=shade, marker=marker, label=label(name))
        if published and name in FIG3:
            read = FIG3[name]
            axes.plot(list(read), list(read.values()), color=shade, marker=marker, mfc="white", ls=":", lw=1.0)
    if published:
        axes.errorbar([], [], color="0.4", marker="o", mfc="white", ls=":", lw=1.0, label="published")
    if log:
        log_log(axes)
    else:
        axes.set_ylim(0, None)
    title = f"min(x, z) kernel, step {rows[0].alpha:g}, {max(row.trials for row in rows):,} trials"
    axes.set(xlabel="sample size n", ylabel="mean squared error", title=title)
    axes.legend(loc="lower left" if log else "upper right", ncols=1 if len(names) < 6 else 2)
    return figure


def _readings_panel(rows: Sequence[Row], n: int) -> Figure:
    ordered = sorted(rows, key=lambda row: (list(COLOURS).index(row.rule) if row.rule in COLOURS else 99, row.mean))
    figure, axes = panel(6.4, 0.17 * len(ordered) + 1.0)
    others = [row.rule for row in ordered if row.rule not in COLOURS]
    for i, row in enumerate(ordered):
        shade = colour(row.rule, others)
        axes.errorbar(row.mean, i, xerr=2 * (row.standard_error or 0.0), fmt=MARKERS.get(row.rule, "*"), color=shade)
    words = [f"{label(r.rule)}: {r.reading}" + (f", noise {r.noise}" if r.noise else "") for r in ordered]
    axes.set_yticks(range(len(ordered)), words, fontsize=6.5)
    title = f"every reading, n = {n}, step {ordered[0].alpha:g}"
    axes.set(ylim=(len(ordered) - 0.5, -0.5), xlabel="mean squared error (bars: 2 standard errors)", title=title)
    return figure


def draw_ridge(rows: Sequence[Row]) -> dict[str, Figure]:
    """Fig. 4 (a), (b): both paths on one clock, with both chosen points."""
    found = {}
    for name, noise in (("fig4a", "variance 1"), ("fig4b", "variance 2")):
        figure, axes = panel()
        for reading, shade, ls in (("descent", "critical", "-"), ("ridge", "holdout", "--")):
            part = _along(rows, quantity="error", noise=noise, reading=reading)
            x, (_, y, spread) = column(part, "at"), with_bars(part)
            axes.fill_between(x, y - spread, y + spread, color=COLOURS[shade], alpha=0.25, lw=0)
            step = f", step {part[0].alpha:g}" if part[0].alpha else ""
            axes.plot(x, y, color=COLOURS[shade], ls=ls, label=f"{reading}{step}")
            at = pick(rows, quantity="stop", noise=noise, reading=reading)[0].mean
            height = pick(rows, quantity="error at the stop", noise=noise, reading=reading)[0].mean
            axes.plot(at, height, color=COLOURS[shade], marker="o", ms=7, mfc="white", mew=1.6, ls="none")
            axes.annotate(f"{at:.3g}", (at, height), textcoords="offset points", xytext=(7, 3), color=COLOURS[shade])
        axes.plot([], [], color="0.4", marker="o", ms=7, mfc="white", mew=1.6, ls="none", label="chosen by the rule")
        axes.set(xlabel=r"clock: $\eta_t$ of descent, $\nu$ of ridge", ylabel="mean squared error", ylim=(0, None))
        axes.set_title(f"min(x, z) kernel, n = {part[0].n}, noise {noise}")
        axes.legend(loc="lower right")
        found[name] = figure
    return found
