"""Figures of a fitted model on matplotlib axes: why it stopped there, and what the fit looks like.

Every function takes a fitted estimator and optionally the axes to draw on, and returns the axes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.optional import matplotlib
from stopwise.estimators.fitted import fitted_of
from stopwise.estimators.intake import names_of
from stopwise.estimators.prediction.host import predict_rows
from stopwise.estimators.prediction.response_groups import response_names
from stopwise.rules.base import in_steps
from stopwise.tables import shown
from stopwise.views.compared import Comparison
from stopwise.views.curves import Chosen, chosen, has_rows, observed, readings, risks
from stopwise.views.curves import crossing as crossing_of
from stopwise.views.facts import Model, describe, rmse_leave_one_out

matplotlib()
if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["compare", "crossing", "fit", "path", "residuals", "spectrum"]

BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
"""Okabe and Ito's palette, told apart by every kind of eye."""
_GREY = "#7F7F7F"
BAND = 0.9
"""The level of the band around a curve."""
_LINES = {
    "in sample": (_GREY, ":"),
    "SURE": (GREEN, "-"),
    "GCV": (PURPLE, "-"),
    "worst case": (SKY, "--"),
    "leave-one-out": (ORANGE, "-"),
    "leave-one-out of ridge": (BLUE, "-"),
}
_MARKERS = "osD^vP*X<>hd"
Compared: TypeAlias = Comparison | Mapping[str, Model] | Sequence[Model]
"""What can be compared: the rules of one fit, or several fitted models, with or without names."""


def _axes(ax: Axes | None, width: float = 5.6) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    made: Axes = pyplot.subplots(figsize=(width, 3.8), layout="constrained")[1]
    return made


def _finish(ax: Axes, title: str, legend: bool = True, **labels: str) -> Axes:
    ax.set(title=title, **labels)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25, linewidth=0.6)
    if legend:
        ax.legend(frameon=False, fontsize="small")
    return ax


def _ink() -> str:
    """The colour of text: a mark in it reads on any background that a style sheet may set."""
    return str(matplotlib().rcParams["text.color"])


def _target(model: Model, y: object, response: int) -> str:
    """What a response is called: by y, else by the data of the fit."""
    names = names_of(y) or response_names(model) or ()
    return shown(names[response], 40) if response < len(names) else "response"


def _mark(ax: Axes, of: Chosen) -> None:
    """A line at the stop, labelled."""
    if of.stop.step_sum > 0:
        steps = "" if of.stop.iteration is None else f" ({in_steps(of.stop.iteration)})"
        ax.axvline(of.stop.step_sum, color=_ink(), linewidth=1.0, label=f"stop{steps}")


def _clock(of: Chosen) -> Array:
    grid = readings(of)
    if not grid.size:
        raise ValueError("the kernel matrix of this fit is zero: there is no path to draw")
    return grid


def _freedom_axis(ax: Axes, of: Chosen, grid: Array) -> None:
    """Degrees of freedom as a second scale above a clock axis."""
    freedom = np.maximum.accumulate(of.path.degrees_of_freedom(grid))
    scale = ax.twiny()
    scale.set(xscale=ax.get_xscale(), xlim=ax.get_xlim(), xlabel="degrees of freedom")
    wanted = [v for v in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if freedom[0] < v < freedom[-1]]
    scale.set_xticks(np.interp(wanted, freedom, grid), [f"{v:,}" for v in wanted])
    scale.minorticks_off()
    scale.spines[["right", "bottom"]].set_visible(False)


def crossing(model: Model, ax: Axes | None = None, *, response: int = 0) -> Axes:
    """Local complexity against its threshold over step_sum, with the stop.

    Where another rule than `Critical` decided, the threshold is the one with the estimate's own norm as radius, drawn
    dashed for comparison.
    """
    of = chosen(model, response)
    curve, ax = crossing_of(of, _clock(of)), _axes(ax)
    ax.plot(curve.step_sums, curve.complexity, color=BLUE, label="local complexity")
    style = "-" if curve.decided else "--"
    name = "threshold" if curve.decided else "threshold, own norm (did not decide)"
    ax.plot(curve.step_sums, curve.threshold, color=ORANGE, linestyle=style, label=name)
    if curve.decided:
        inside = curve.complexity <= curve.threshold
        ax.fill_between(curve.step_sums, curve.complexity, curve.threshold, where=inside, color=BLUE, alpha=0.08)
    ax.set(xscale="log", yscale="log")
    _mark(ax, of)
    return _finish(ax, f"Why it stopped: rule {of.rule}", xlabel="step_sum", ylabel="complexity")


def path(model: Model, ax: Axes | None = None, *, response: int = 0) -> Axes:
    """The risk estimates of all rules along the path, with degrees of freedom as a second scale."""
    of = chosen(model, response)
    grid, ax = _clock(of), _axes(ax)
    for name, values in risks(of, grid).items():
        colour, style = _LINES[name]
        ax.plot(grid, values, color=colour, linestyle=style, label=name)
    ax.axhline(of.sigma * float(of.path.scale), color=_GREY, linewidth=0.8, linestyle="-.", label="noise level")
    spread = float(np.sqrt(of.path.energy / of.path.n_samples) * of.path.scale)
    ax.set(xscale="log", ylim=(0, 1.35 * spread) if spread > 0 else None)
    _mark(ax, of)
    _finish(ax, "Estimates of the error along the path", xlabel="step_sum", ylabel="root mean squared error")
    _freedom_axis(ax, of, grid)
    return ax


def spectrum(model: Model, ax: Axes | None = None, *, response: int = 0) -> Axes:
    """Eigenvalues of the normalised kernel matrix against the level that the stop sets, 1 / step_sum."""
    of, ax = chosen(model, response), _axes(ax)
    values = of.model.eigenvalues_[of.model.eigenvalues_ > 0]
    level = 1 / of.stop.step_sum if of.stop.step_sum > 0 else None
    index = np.arange(1, values.size + 1)
    fitted = values >= (np.inf if level is None else level)
    ax.plot(index[fitted], values[fitted], ".", color=BLUE, label=f"mostly fitted ({fitted.sum():,})")
    ax.plot(index[~fitted], values[~fitted], ".", color=_GREY, label=f"mostly left ({(~fitted).sum():,})")
    if level is not None:
        ax.axhline(level, color=_ink(), linewidth=1.0, label=f"1 / step_sum (radius {np.sqrt(level):.3g})")
        # Rounding's eigenvalues lie far below anything that matters: they would take most of the axis.
        ax.set_ylim(max(values[-1], 1e-6 * level) / 2, 2 * max(values[0], level))
    ax.set(xscale="log", yscale="log")
    return _finish(ax, "Spectrum and critical radius", xlabel="index", ylabel="eigenvalue")


def fit(
    model: Model, ax: Axes | None = None, *, X: ArrayLike | None = None, y: ArrayLike | None = None, response: int = 0
) -> Axes:
    """The fit: a curve with its band over the points (one covariate), or predicted against observed (several).

    The band is the interval of the curve at level 0.9 (`predict_interval(X, 0.9, of="mean")`).
    """
    of, ax = chosen(model, response), _axes(ax)
    target = observed(of) if y is None else np.asarray(y, dtype=np.float64).reshape(np.shape(y)[0], -1)[:, response]
    made = fitted_of(of.model)
    if made.n_features == 1 and (X is not None or len(model.X_fit_) == len(target)):
        rows = np.asarray(model.X_fit_ if X is None else X, dtype=np.float64)[:, 0]
        names = ["x"] if made.feature_names is None else made.feature_names
        at = np.linspace(rows.min(), rows.max(), 400)
        mean = predict_rows(made, at[:, None], None)[:, of.column]
        with warnings.catch_warnings():  # the one column is the model's own, under whatever name
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            ends = of.model.predict_interval(at[:, None], BAND, "mean").reshape(len(at), -1, 2)[:, of.column]
        ax.plot(rows, target, ".", color=_GREY, alpha=0.6, markersize=4, label="data")
        label = f"{BAND:.0%} interval of the curve"
        ax.fill_between(at, ends[:, 0], ends[:, 1], color=BLUE, alpha=0.2, linewidth=0, label=label)
        ax.plot(at, mean, color=BLUE, label="fit")
        return _finish(ax, "Fit", xlabel=shown(names[0], 40), ylabel=_target(model, y, response))
    fitted = of.path.fit() if X is None else model.predict(X).reshape(len(target), -1)[:, response]
    ends = [np.minimum(target, fitted).min(), np.maximum(target, fitted).max()]
    name = _target(model, y, response)
    ax.plot(ends, ends, color=_GREY, linewidth=0.8)
    ax.plot(fitted, target, ".", color=BLUE, alpha=0.6, markersize=4)
    return _finish(
        ax, "Predicted against observed", legend=False, xlabel=f"predicted {name}", ylabel=f"observed {name}"
    )


def residuals(model: Model, ax: Axes | None = None, *, response: int = 0) -> Axes:
    """Residuals against fitted values, with the noise level."""
    of, ax = chosen(model, response), _axes(ax)
    fitted = of.path.fit()
    ax.plot(fitted, observed(of) - fitted, ".", color=BLUE, alpha=0.6, markersize=4)
    ax.axhline(0, color=_GREY, linewidth=0.8)
    noise = float(of.sigma * of.path.scale)
    ax.axhspan(-2 * noise, 2 * noise, color=_GREY, alpha=0.12, linewidth=0, label="± 2 noise_std")
    name = _target(model, None, response)
    return _finish(ax, "Residuals", xlabel=f"fitted {name}", ylabel="observed - fitted")


def compare(what: Compared, ax: Axes | None = None) -> Axes:
    """Where each rule or model stops and its leave-one-out error (filled) and held-out error (hollow).

    `what`: a `Comparison` (`stopwise compare`), several fitted models, or models by name.
    """
    of = chosen(what.model) if isinstance(what, Comparison) else None
    entries, ax = _entries(what), _axes(ax, width=7.2)
    if not entries:
        raise ValueError("nothing to compare: give at least one fitted model")
    starts = [at for _, at, _, _ in entries if at > 0]
    if of is not None:
        grid = _clock(of)
        starts.append(float(grid[0]))
        if has_rows(of.path, grid.size):
            curve = np.array([rmse_leave_one_out(of.path, at) for at in grid], dtype=np.float64)
            ax.plot(grid, curve, color=_GREY, linewidth=1.0, label="leave-one-out along the path")
    least = min(starts, default=2.0) / 2
    colours = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, _ink(), _GREY)
    for i, (name, at, left_out, held) in enumerate(entries):
        style: dict[str, Any] = {"color": colours[i % len(colours)], "marker": _MARKERS[i % len(_MARKERS)]}
        style["linestyle"] = "none"
        where = at if at > 0 else least
        text = f"{shown(name, 30)}{'' if at > 0 else ' (no step)'}"
        ax.plot([where], [np.nan if left_out is None else left_out], label=text, **style)
        if held is not None:
            ax.plot([where], [held], markerfacecolor="none", **style)
    if any(held is not None for *_, held in entries):
        ax.plot([], [], "o", color=_GREY, markerfacecolor="none", label="hollow: rows held out")
    ax.set_xscale("log")
    seen = [value for *_, a, b in entries for value in (a, b) if value is not None and np.isfinite(value)]
    if seen:
        room = 0.25 * (max(seen) - min(seen)) or 0.05 * max(seen)
        ax.set_ylim(min(seen) - room, max(seen) + room)
    _finish(ax, "Where each stops", legend=False, xlabel="step_sum", ylabel="root mean squared error")
    ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def _entries(what: Compared) -> list[tuple[str, float, float | None, float | None]]:
    """Name, clock reading, leave-one-out and held-out error of everything to compare."""
    if isinstance(what, Comparison):
        return [(row.rule, row.step_sum, row.rmse_loo, row.rmse_holdout) for row in what.rows]
    named = what.items() if isinstance(what, Mapping) else [(None, model) for model in what]
    out: list[tuple[str, float, float | None, float | None]] = []
    for i, (name, model) in enumerate(named, start=1):
        of, left_out = chosen(model), describe(model)["rmse_loo"]
        text = f"{i}: {of.model.kernel_.name}, {of.rule}" if name is None else str(name)
        out.append((text, of.stop.step_sum, left_out[0] if isinstance(left_out, list) else left_out, None))
    return out
