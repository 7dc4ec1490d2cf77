"""What the page computes with: eigenvalues, coefficients and basis rows, sub-sampled so that the file stays small.

The page moves along the clock by itself. Numbers are sums over all eigenvalues; curves and points use the leading
eigenpairs. Filters without a closed form, and spectra too long to embed, come as tables over the slider's positions.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise.estimators.fitted import fitted_of
from stopwise.filters import CutOff, GradientDescent, GradientFlow, Ridge, SteppedFilter
from stopwise.kernels import Precomputed
from stopwise.schedules import Constant
from stopwise.views.curves import Chosen, Crossing, crossing, directions, has_rows, observed, readings, risks
from stopwise.views.facts import plain, relevance, rmse_leave_one_out

MOST_POINTS, MOST_PAIRS, MOST_VALUES = 300, 256, 4096
"""Rows drawn, eigenpairs for curves, and eigenvalues for sums that are embedded: a page of about a megabyte."""
_CURVE, _PROFILE, _PROFILES = 200, 30, 6
"""Points of a curve over one covariate and of a profile over one of several, and how many profiles are drawn."""
_BACKGROUND, _BLOCK = 60, 40_000_000
"""Rows that a profile is averaged over, fewer where that would cost more kernel entries than this: a second."""


def packed(values: ArrayLike) -> dict[str, Any]:
    """An array as base64 of little-endian doubles: every digit kept, a third of the size of text."""
    array = np.ascontiguousarray(values, dtype="<f8")
    return {"shape": list(array.shape), "base64": base64.b64encode(array.tobytes()).decode("ascii")}


def as_script(value: dict[str, Any]) -> str:
    """JSON that is safe inside a script element, whatever the strings in it say."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def closed_form(of: Chosen) -> dict[str, Any] | None:
    """The filter as the page knows it, or None for those it has to look up."""
    filter = of.path.filter
    if isinstance(filter, GradientDescent) and isinstance(filter.schedule, Constant):
        return {"name": "descent", "step": filter.schedule.step}
    if isinstance(filter, GradientFlow | Ridge | CutOff):
        return {"name": filter.name}
    return None


class Payload:
    """Everything that is embedded for one response of a model, made once."""

    def __init__(self, of: Chosen, X: ArrayLike | None, y: ArrayLike | None, target: str, names: list[str]) -> None:
        self.of, self.target, self.names = of, target, names
        self.clocks = np.append(0.0, readings(of, 240 if closed_form(of) else 120))
        self.at = int(np.argmin(np.abs(self.clocks - of.stop.step_sum)))
        values = of.path.spectrum.eigenvalues
        self.kept = np.flatnonzero(values > 1e-300)[:MOST_PAIRS]
        self.rows = self._rows(X)
        self.y = self._responses(y)
        self.n_rows = 0 if self.y is None else len(self.y)
        self.points = np.unique(np.linspace(0, self.n_rows - 1, min(self.n_rows, MOST_POINTS)).round().astype(int))

    def _rows(self, X: ArrayLike | None) -> Array | None:
        model = self.of.model
        if isinstance(model.kernel_, Precomputed):
            return None
        if X is not None:
            return np.asarray(X, dtype=np.float64)
        fitted = fitted_of(model)
        whole = fitted.features is None and fitted.spread is None
        return np.asarray(model.X_fit_, dtype=np.float64) if whole else None

    def _responses(self, y: ArrayLike | None) -> Array | None:
        if y is not None:
            return np.asarray(y, dtype=np.float64).reshape(np.shape(y)[0], -1)[:, 0]
        return None if self.of.path.response is None else observed(self.of)

    # ---- parts ----------------------------------------------------------------------------------------------------

    def data(self) -> dict[str, Any]:
        """The whole payload, ready for JSON."""
        of, path = self.of, self.of.path
        iterations = path.filter.iteration(self.clocks) if isinstance(path.filter, SteppedFilter) else None
        grid = self.clocks[1:]
        curve = crossing(of, grid) if grid.size else None
        return {
            "target": self.target,
            "chosen": self.at,
            "clocks": packed(self.clocks),
            "iterations": None if iterations is None else packed(iterations),
            "filter": closed_form(of),
            "n": path.n_samples,
            "scale": float(path.scale),
            "offset": float(path.offset),
            "intercept": bool(path.intercept),
            "noise": float(of.sigma * path.scale),
            "critical": float(np.atleast_1d(of.model.critical_radius_)[0]) if of.stop.step_sum > 0 else None,
            "crossing": None if curve is None else _crossing(curve),
            "risks": {} if curve is None else {name: _finite(v) for name, v in risks(of, grid).items()},
            "freedom": _finite(path.degrees_of_freedom(grid)),
            "left_out": self._left_out(),
            **self._numbers(),
            **self._pairs(),
        }

    def _left_out(self) -> list[float | None] | None:
        path = self.of.path
        if not has_rows(path, self.clocks.size):
            return None
        return _finite([rmse_leave_one_out(path, float(at)) for at in self.clocks])

    def _numbers(self) -> dict[str, Any]:
        """Eigenvalues for sums over all of them, or the sums themselves at every position."""
        path = self.of.path
        values, density = path.spectrum.eigenvalues, path.density
        shown = values[: 4 * MOST_PAIRS]
        common = {"eigenvalues": packed(shown), "n_eigenvalues": int(values.size)}
        if closed_form(self.of) and max(values.size, density.values.size) <= MOST_VALUES:
            whole = {
                "values": packed(values),
                "squares": packed(path.coefficients**2),
                "density": packed(density.values),
                "multiplicities": packed(density.multiplicities),
                "unseen": float(path.unseen_energy),
            }
            return common | {"sums": whole, "table": None}
        table = {
            "degrees_of_freedom": _finite(path.degrees_of_freedom(self.clocks)),
            "rmse_fit": _finite(path.residual_norm(self.clocks)),
            "hilbert_norm": _finite(path.hilbert_norm(self.clocks)),
        }
        return common | {"sums": None, "table": table}

    def _pairs(self) -> dict[str, Any]:
        """Leading pairs, points, and either the curve or the profiles."""
        path, kept = self.of.path, self.kept
        values = path.spectrum.eigenvalues
        one = self.rows is not None and self.rows.shape[1] == 1
        return {
            "pairs": packed(values[kept]),
            "coefficients": packed(path.coefficients[kept]),
            "gains": None if closed_form(self.of) else packed(path.filter.gain(values[kept], self.clocks)),
            "omitted": self.omitted(),
            "points": self._points(),
            "curve": self._curve() if one else None,
            "profiles": None if one or self.rows is None else self._profiles(),
        }

    def omitted(self) -> float:
        """The root mean square, in units of y, of what the leading pairs leave out of the fit at the chosen stop."""
        path = self.of.path
        rest = np.setdiff1d(np.arange(path.coefficients.size), self.kept)
        gain = path.filter.gain(path.spectrum.eigenvalues[rest], self.of.stop.step_sum)
        return float(path.scale * np.sqrt((gain**2 @ path.coefficients[rest] ** 2) / path.n_samples))

    def _points(self) -> dict[str, Any] | None:
        if self.y is None or not self.points.size:
            return None
        of, path = self.of, self.of.path
        basis: Any = path.spectrum.basis
        out: dict[str, Any] = {"y": packed(self.y[self.points])}
        held = basis is not None and isinstance(basis.rows, np.ndarray) and len(basis.rows) == self.n_rows
        if held:
            rows = basis.rows[self.points].astype(np.float64)
            rows = rows if basis.rotation is None else rows @ basis.rotation
            root = np.ones(self.n_rows) if path.root_weights is None else path.root_weights
            out |= {"by": "gain", "rows": packed((rows / root[self.points, None])[:, self.kept])}
        elif self.rows is not None and len(self.rows) == self.n_rows:
            out |= {"by": "weight", "rows": packed(directions(of.model, self.rows[self.points])[0][:, self.kept])}
        else:
            return None
        if self.rows is not None and self.rows.shape[1] == 1:
            out["x"] = packed(self.rows[self.points, 0])
        return out

    def _curve(self) -> dict[str, Any]:
        assert self.rows is not None
        at = np.linspace(self.rows.min(), self.rows.max(), _CURVE)
        psi, outside = directions(self.of.model, at[:, None])
        return {"x": packed(at), "rows": packed(psi[:, self.kept]), "outside": packed(outside), "name": self.names[0]}

    def _profiles(self) -> list[dict[str, Any]]:
        """Partial dependence: the fit along one feature, averaged over the others' values in some rows."""
        assert self.rows is not None
        model, rows = self.of.model, self.rows
        weights = relevance(model)
        spread = np.array([1.0] * rows.shape[1] if weights is None else weights) * (np.ptp(rows, axis=0) > 0)
        used = [int(j) for j in np.argsort(-spread, kind="stable")[:_PROFILES] if spread[j] > 0]
        budget = _BLOCK // max(len(model.X_fit_) * _PROFILE * max(len(used), 1), 1)
        some = np.linspace(0, len(rows) - 1, min(len(rows), max(3, min(_BACKGROUND, budget)))).round().astype(int)
        out = []
        for j in used:
            low, high = np.quantile(rows[:, j], [0.01, 0.99])
            at = np.linspace(low, high, _PROFILE)
            means = []
            for value in at:
                changed = rows[some].copy()
                changed[:, j] = value
                means.append(directions(model, changed)[0][:, self.kept].mean(axis=0))
            out.append({"name": self.names[j], "x": packed(at), "rows": packed(np.array(means))})
        return out


def _crossing(curve: Crossing) -> dict[str, Any]:
    both = {"complexity": _finite(curve.complexity), "threshold": _finite(curve.threshold)}
    return both | {"decided": curve.decided, "crosses": curve.crosses}


def _finite(values: ArrayLike | Sequence[Array | None]) -> list[float | None]:
    found: list[float | None] = plain(np.asarray(values, dtype=np.float64))
    return found
