"""What the page shows at every position of its slider: numbers, and fits at points, along a curve and of effects.

All come from the library, from every eigenpair it has. Fits are embedded in problem units (centred and scaled), so that
single precision keeps seven digits of what varies.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array, evenly
from stopwise.estimators.doubts import outliers
from stopwise.estimators.fitted import fitted_of
from stopwise.filters import SteppedFilter
from stopwise.pages.packing import effect_spec, finite, heat_spec, packed
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
    slow_clock,
)
from stopwise.views.effects import Effect, Interaction, level_for
from stopwise.views.facts import Model, rmse_leave_one_out
from stopwise.views.shown_rows import ShownRows

MOST_POINTS = 300
"""Rows that are drawn."""
_POSITIONS, _FEWER_POSITIONS = 240, 120
"""Positions of the slider: fewer where a reading of the clock is slow, or responses share the page."""
_DISAGREEMENT = 0.01
"""An unfinished spectrum contradicts itself far from the stop: the slider ends where by this share of y's spread."""
_CURVE, _BEYOND = 200, 0.06
"""Points of a curve over one covariate, and how far it is drawn beyond the data, as a share of their range."""
_VALUES = 1024
"""Eigenvalues that are drawn."""


class SharedPayload:
    """What all responses of a model share: rows that are drawn, places along a curve, directions at both."""

    def __init__(self, model: Model, rows: ShownRows | None, effects: Sequence[Effect]) -> None:
        self.model, self.rows, self.effects = model, rows, effects
        self.one = rows is not None and rows.features.shape[1] == 1

    @cached_property
    def n_rows(self) -> int:
        """Rows that could be drawn: those given, else those of the path."""
        if self.rows is not None:
            return len(self.rows)
        basis: Any = fitted_of(self.model).path.spectrum.basis
        held = basis is not None and isinstance(basis.rows, np.ndarray)
        return len(basis.rows) if held and fitted_of(self.model).path.response is not None else 0

    @cached_property
    def outlying(self) -> dict[int, Array]:
        """For each response the rows that are outliers."""
        each = [chosen(self.model, j) for j in range(len(fitted_of(self.model).stops))]
        none = np.zeros(0, dtype=int)
        return {j: outliers(of.path, of.stop.step_sum) if has_rows(of.path) else none for j, of in enumerate(each)}

    @cached_property
    def points(self) -> Array:
        """Rows that are drawn: evenly spaced, and every outlier."""
        some = [each[:MOST_POINTS] for each in self.outlying.values()]
        return np.unique(np.concatenate([evenly(self.n_rows, MOST_POINTS), *some]).astype(int))

    @cached_property
    def held(self) -> Array | None:
        """The basis at the drawn rows, for fits by gains; None where the path keeps no rows."""
        path, basis = fitted_of(self.model).path, fitted_of(self.model).path.spectrum.basis
        if basis is None or not isinstance(basis.rows, np.ndarray) or len(basis.rows) != self.n_rows:
            return None
        rows = basis.rows[self.points].astype(np.float64)
        rows = rows if basis.rotation is None else rows @ basis.rotation
        return rows if path.root_weights is None else cast(Array, rows / path.root_weights[self.points, None])

    @cached_property
    def at_points(self) -> Array | None:
        """Directions at the drawn rows, for fits by weights; None where the rows are not known."""
        return None if self.rows is None else directions(self.model, self.rows.features[self.points])

    @cached_property
    def curve_at(self) -> Array:
        """Where the curve over one covariate is drawn: a little beyond the data on both sides."""
        assert self.rows is not None
        low, high = self.rows.features.min(), self.rows.features.max()
        room = _BEYOND * (high - low)
        try:
            at = np.linspace(low - room, high + room, _CURVE)
            fitted_of(self.model).kernel.check(at[:, None])
        except ValueError:  # a kernel of an interval ends where the interval does
            at = np.linspace(low, high, _CURVE)
        return np.unique(np.append(at, [low, high]))

    @cached_property
    def along_curve(self) -> Array:
        """Directions along the curve."""
        return directions(self.model, self.curve_at[:, None])

    @cached_property
    def of_effects(self) -> list[Array]:
        """Directions of each effect, averaged over its rows."""
        return [mean_directions(self.model, effect.rows) for effect in self.effects]

    def data(self, name: str) -> dict[str, Any]:
        """The shared part, ready for JSON."""
        values, curve = fitted_of(self.model).path.spectrum.eigenvalues, None
        if self.one and self.rows is not None:
            ends = [float(self.rows.features.min()), float(self.rows.features.max())]
            curve = {"x": packed(self.curve_at), "inside": ends, "name": name}
        x = packed(self.rows.features[self.points, 0]) if self.one and self.rows is not None else None
        return {
            "eigenvalues": packed(values[:_VALUES]),
            "points": None if not self.points.size else {"x": x},
            "curve": curve,
            "level": level_for(self.model),
        }


class ResponsePayload:
    """What is embedded for one response of a model."""

    def __init__(self, shared: SharedPayload, of: Chosen, column: int, target: str) -> None:
        self.shared, self.of, self.column, self.target = shared, of, column, target
        few = slow_clock(of.path.filter) or len(fitted_of(of.model).stops) > 1
        self.clocks = np.append(0.0, readings(of, _FEWER_POSITIONS if few else _POSITIONS))
        self.clocks = self.clocks[self._settled()]
        self.at = int(np.argmin(np.abs(self.clocks - of.stop.step_sum)))

    def _settled(self) -> slice:
        """Positions around the stop at which the path's two ways to a fit agree; all where every eigenpair is known."""
        held, psi = self.shared.held, self.shared.at_points
        if self.of.path.spectrum.complete or held is None or psi is None:
            return slice(None)
        gap = np.sqrt(np.mean((self._by_gains(held) - self._by_weights(psi)) ** 2, axis=1))
        off = np.flatnonzero(gap > _DISAGREEMENT * np.sqrt(float(self.of.path.energy) / self.of.path.n_samples))
        late = off[self.clocks[off] > self.of.stop.step_sum]
        return slice(None, int(late[0])) if late.size else slice(None)

    def data(self, effects: Sequence[int], heat: Interaction | None) -> dict[str, Any]:
        """Ready for JSON; `effects` are the places of this response's columns among the shared ones, in order."""
        of, path = self.of, self.of.path
        iterations = path.filter.iteration(self.clocks) if isinstance(path.filter, SteppedFilter) else None
        grid = self.clocks[1:]
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
            "numbers": self._numbers(),
            "points": self._points(),
            "curve": self._curve(),
            "effects": [self._effect(at) for at in effects],
            "heat": None if heat is None else heat_spec(heat, self.column),
        }

    def _numbers(self) -> dict[str, Any]:
        """What is told at every position."""
        path = self.of.path
        left_out = None
        if has_rows(path, self.clocks.size):
            left_out = finite([rmse_leave_one_out(path, at) for at in self.clocks])
        return {
            "degrees_of_freedom": finite(path.degrees_of_freedom(self.clocks)),
            "rmse_fit": finite(path.residual_norm(self.clocks)),
            "hilbert_norm": finite(path.hilbert_norm(self.clocks)),
            "rmse_loo": left_out,
        }

    def _crossing(self, grid: Array) -> dict[str, Any] | None:
        if not grid.size:
            return None
        curve = crossing(self.of, grid)
        both = {"complexity": finite(curve.complexity), "threshold": finite(curve.threshold)}
        return both | {"decided": curve.decided, "crosses": curve.crosses}

    # ---- fits at every position, (positions, rows), problem units -------------------------------------------------

    def _by_gains(self, rows: Array) -> Array:
        """At training rows: the basis times gains."""
        path = self.of.path
        return cast(Array, (path.filter.gain(path.spectrum.eigenvalues, self.clocks) * path.coefficients) @ rows.T)

    def _by_weights(self, psi: Array) -> Array:
        """Anywhere: directions times weights."""
        path = self.of.path
        return cast(Array, (path.filter.weight(path.spectrum.eigenvalues, self.clocks) * path.coefficients) @ psi.T)

    def _points(self) -> dict[str, Any] | None:
        at, y, rows = self.shared.points, self._responses(), self.shared.rows
        held, psi = self.shared.held, self.shared.at_points
        if not at.size or y is None or (held is None and psi is None):
            return None
        fits = self._by_gains(held) if held is not None else self._by_weights(cast(Array, psi))
        base = np.zeros(len(at)) if rows is None else linear_part(self.of, rows.features[at])
        marked = np.isin(at, self.shared.outlying[self.column])
        return {"y": packed(y[at]), "fits": packed(fits + base, "f4"), "outlying": marked.tolist()}

    def _responses(self) -> Array | None:
        if self.shared.rows is not None:
            return self.shared.rows.responses[:, self.column]
        return None if self.of.path.response is None else observed(self.of)

    def _curve(self) -> dict[str, Any] | None:
        if not self.shared.one:
            return None
        at, level = self.shared.curve_at[:, None], level_for(self.of.model)
        fits = self._by_weights(self.shared.along_curve) + linear_part(self.of, at)
        out: dict[str, Any] = {"fits": packed(fits, "f4"), "new": None, "mean": None}
        if level is not None:
            uncertainty, used = self.of.model.uncertainty(), fitted_of(self.of.model).to_features(at)
            for of in ("new", "mean"):
                out[of] = packed(uncertainty.half_width(used, level, of)[:, self.column])
        return out

    def _effect(self, at: int) -> dict[str, Any]:
        effect = self.shared.effects[at]
        base = np.array([linear_part(self.of, part).mean() for part in effect.rows])
        fits = self._by_weights(self.shared.of_effects[at]) + base
        return effect_spec(effect, self.column) | {"fits": packed(fits, "f4")}
