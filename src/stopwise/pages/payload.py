"""What the page computes with: eigenvalues, coefficients and basis rows, sub-sampled so that the file stays small.

The page moves along the clock by itself. Numbers are sums over all eigenvalues; curves and points use the leading
eigenpairs. Filters without a closed form, and spectra too long to embed, come as tables over the slider's positions.
What all responses share (pairs, basis rows) is embedded once.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from stopwise._support.arrays import Array
from stopwise.estimators.doubts import outliers
from stopwise.estimators.fitted import fitted_of
from stopwise.filters import CutOff, GradientDescent, GradientFlow, Ridge, SteppedFilter
from stopwise.pages.packing import effect_spec, finite, heat_spec, packed
from stopwise.schedules import Constant
from stopwise.views.curves import (
    Chosen,
    chosen,
    crossing,
    directions,
    has_rows,
    linear_part,
    mean_directions,
    observed,
    readings,
    risks,
)
from stopwise.views.effects import Effect, Interaction, level_for
from stopwise.views.facts import Model
from stopwise.views.shown_rows import ShownRows

MOST_POINTS, MOST_PAIRS, MOST_VALUES = 300, 256, 4096
"""Rows drawn, eigenpairs for curves, and eigenvalues for sums that are embedded: a page of about a megabyte."""
_CURVE, _BEYOND = 200, 0.06
"""Points of a curve over one covariate, and how far it is drawn beyond the data, as a share of their range."""
_OUTLIER_ROWS = 20
"""Fewer rows have no outliers: there is nothing to tell them by."""


def closed_form(of: Chosen) -> dict[str, Any] | None:
    """The filter as the page knows it, or None for those it has to look up."""
    filter = of.path.filter
    if isinstance(filter, GradientDescent) and isinstance(filter.schedule, Constant):
        return {"name": "descent", "step": filter.schedule.step}
    if isinstance(filter, GradientFlow | Ridge | CutOff):
        return {"name": filter.name}
    return None


class SharedPayload:
    """What all responses of a model share: leading pairs and basis rows, of points, a curve and effects."""

    def __init__(self, model: Model, of: Chosen, rows: ShownRows | None, effects: Sequence[Effect]) -> None:
        self.model, self.rows, self.effects = model, rows, effects
        values = of.path.spectrum.eigenvalues
        self.of, self.values = of, values
        self.kept = np.flatnonzero(values > 1e-300)[:MOST_PAIRS]
        self.one = rows is not None and rows.features.shape[1] == 1
        self.n_rows = self._row_count()

    def _row_count(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        basis: Any = self.of.path.spectrum.basis
        held = basis is not None and isinstance(basis.rows, np.ndarray) and self.of.path.response is not None
        return len(basis.rows) if held else 0

    @cached_property
    def outlying(self) -> dict[int, Array]:
        """For each response the rows that are outliers."""
        out = {}
        for j in range(len(fitted_of(self.model).stops)):
            of = chosen(self.model, j)
            few = of.path.n_samples < _OUTLIER_ROWS or float(of.path.energy) == 0 or not has_rows(of.path)
            out[j] = np.zeros(0, dtype=int) if few else outliers(of.path, of.stop.step_sum)
        return out

    @cached_property
    def points(self) -> Array:
        """Rows that are drawn: evenly spaced, and every outlier."""
        even = np.linspace(0, self.n_rows - 1, min(self.n_rows, MOST_POINTS)).round().astype(int)
        some = [each[:MOST_POINTS] for each in self.outlying.values()]
        return np.unique(np.concatenate([even, *some]).astype(int))

    @cached_property
    def curve_at(self) -> Array:
        """Where the curve over one covariate is drawn: a little beyond the data on both sides."""
        assert self.rows is not None
        low, high = self.rows.features.min(), self.rows.features.max()
        room = _BEYOND * (high - low)
        fitted = fitted_of(self.model)
        try:
            at = np.linspace(low - room, high + room, _CURVE)
            fitted.kernel.check(at[:, None])
        except ValueError:  # a kernel of an interval ends where the interval does
            at = np.linspace(low, high, _CURVE)
        return np.unique(np.append(at, [low, high]))

    def _points(self) -> dict[str, Any] | None:
        if not self.points.size:
            return None
        path, basis = self.of.path, self.of.path.spectrum.basis
        held = basis is not None and isinstance(basis.rows, np.ndarray) and len(basis.rows) == self.n_rows
        if held and basis is not None:
            rows = basis.rows[self.points].astype(np.float64)
            rows = rows if basis.rotation is None else rows @ basis.rotation
            root = np.ones(self.n_rows) if path.root_weights is None else path.root_weights
            out: dict[str, Any] = {"by": "gain", "rows": packed((rows / root[self.points, None])[:, self.kept])}
        elif self.rows is not None:
            psi = directions(self.model, self.rows.features[self.points])[0]
            out = {"by": "weight", "rows": packed(psi[:, self.kept])}
        else:
            return None
        return out | ({"x": packed(self.rows.features[self.points, 0])} if self.one and self.rows is not None else {})

    def _curve(self, name: str) -> dict[str, Any] | None:
        if not self.one or self.rows is None:
            return None
        psi, _ = directions(self.model, self.curve_at[:, None])
        ends = [float(self.rows.features.min()), float(self.rows.features.max())]
        return {"x": packed(self.curve_at), "rows": packed(psi[:, self.kept]), "inside": ends, "name": name}

    def _effect(self, effect: Effect) -> dict[str, Any]:
        return {"rows": packed(mean_directions(self.model, effect.rows)[:, self.kept])}

    def data(self, name: str) -> dict[str, Any]:
        """The shared part, ready for JSON."""
        return {
            "filter": closed_form(self.of),
            "n": self.of.path.n_samples,
            "intercept": bool(self.of.path.intercept),
            "eigenvalues": packed(self.values[: 4 * MOST_PAIRS]),
            "n_eigenvalues": int(self.values.size),
            "pairs": packed(self.values[self.kept]),
            "points": self._points(),
            "curve": self._curve(name),
            "effects": [self._effect(effect) for effect in self.effects],
            "level": level_for(self.model),
        }


class ResponsePayload:
    """What is embedded for one response of a model."""

    def __init__(self, shared: SharedPayload, of: Chosen, column: int, target: str) -> None:
        self.shared, self.of, self.column, self.target = shared, of, column, target
        self.clocks = np.append(0.0, readings(of, 240 if closed_form(of) else 120))
        self.at = int(np.argmin(np.abs(self.clocks - of.stop.step_sum)))

    def data(self, effects: Sequence[int], heat: Interaction | None) -> dict[str, Any]:
        """Ready for JSON; `effects` are the places of this response's columns among the shared ones, in order."""
        of, path, kept = self.of, self.of.path, self.shared.kept
        iterations = path.filter.iteration(self.clocks) if isinstance(path.filter, SteppedFilter) else None
        grid = self.clocks[1:]
        gains = None if closed_form(of) else path.filter.gain(self.shared.values[kept], self.clocks)
        return {
            "target": self.target,
            "chosen": self.at,
            "clocks": packed(self.clocks),
            "iterations": None if iterations is None else packed(iterations),
            "scale": float(path.scale),
            "offset": float(path.offset),
            "noise": float(of.sigma * path.scale),
            "critical": float(1 / np.sqrt(of.stop.crossing)) if of.stop.crossing > 0 else None,
            "crossing": self._crossing(grid),
            "risks": {name: finite(v) for name, v in risks(of, grid).items()} if grid.size else {},
            "freedom": finite(path.degrees_of_freedom(grid)),
            "left_out": self._left_out(),
            "coefficients": packed(path.coefficients[kept]),
            "gains": None if gains is None else packed(gains),
            "omitted": self.omitted(),
            **self._numbers(),
            "points": self._points(),
            "curve": self._curve(),
            "effects": [self._effect(at) for at in effects],
            "heat": None if heat is None else heat_spec(heat, self.column),
        }

    def omitted(self) -> float:
        """The root mean square, in units of y, of what the leading pairs leave out of the fit at the chosen stop."""
        path = self.of.path
        rest = np.setdiff1d(np.arange(path.coefficients.size), self.shared.kept)
        gain = path.filter.gain(path.spectrum.eigenvalues[rest], self.of.stop.step_sum)
        return float(path.scale * np.sqrt((gain**2 @ path.coefficients[rest] ** 2) / path.n_samples))

    def _crossing(self, grid: Array) -> dict[str, Any] | None:
        if not grid.size:
            return None
        curve = crossing(self.of, grid)
        both = {"complexity": finite(curve.complexity), "threshold": finite(curve.threshold)}
        return both | {"decided": curve.decided, "crosses": curve.crosses}

    def _left_out(self) -> list[float | None] | None:
        path = self.of.path
        if not has_rows(path, self.clocks.size):
            return None
        return finite(path.scale * np.sqrt(path.leave_one_out_error(self.clocks)))

    def _numbers(self) -> dict[str, Any]:
        """Coefficients for sums over all eigenvalues, or the sums themselves at every position."""
        path = self.of.path
        values, density = path.spectrum.eigenvalues, path.density
        if closed_form(self.of) and max(values.size, density.values.size) <= MOST_VALUES:
            whole = {
                "values": packed(values),
                "squares": packed(path.coefficients**2),
                "density": packed(density.values),
                "multiplicities": packed(density.multiplicities),
                "unseen": float(path.unseen_energy),
            }
            return {"sums": whole, "table": None}
        table = {
            "degrees_of_freedom": finite(path.degrees_of_freedom(self.clocks)),
            "rmse_fit": finite(path.residual_norm(self.clocks)),
            "hilbert_norm": finite(path.hilbert_norm(self.clocks)),
        }
        return {"sums": None, "table": table}

    def _points(self) -> dict[str, Any] | None:
        at = self.shared.points
        if not at.size:
            return None
        y, rows = self._responses(), self.shared.rows
        if y is None:
            return None
        base = np.zeros(len(at)) if rows is None else linear_part(self.of, rows.features[at])
        marked = np.isin(at, self.shared.outlying[self.column])
        return {"y": packed(y[at]), "base": packed(base), "outlying": marked.tolist()}

    def _responses(self) -> Array | None:
        if self.shared.rows is not None:
            return self.shared.rows.responses[:, self.column]
        return None if self.of.path.response is None else observed(self.of)

    def _curve(self) -> dict[str, Any] | None:
        if not self.shared.one:
            return None
        at, level = self.shared.curve_at[:, None], level_for(self.of.model)
        out: dict[str, Any] = {"base": packed(linear_part(self.of, at)), "new": None, "mean": None}
        if level is not None:
            uncertainty, used = self.of.model.uncertainty(), fitted_of(self.of.model).to_features(at)
            for of in ("new", "mean"):
                out[of] = packed(uncertainty.half_width(used, level, of)[:, self.column])
        return out

    def _effect(self, at: int) -> dict[str, Any]:
        effect = self.shared.effects[at]
        base = [float(linear_part(self.of, part).mean()) for part in effect.rows]
        return effect_spec(effect, self.column) | {"of": at, "base": finite(base)}
