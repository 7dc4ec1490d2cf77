"""The smallest value of a function: of a positive number, on a log scale; of a curve on an even grid."""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from stopwise._support.arrays import Array

_WIDTH = 1e-9
"""How closely a minimum is placed, relative to where it is: its value is then good to rounding."""


def lowest_on_log_scale(grid: Array, values: Array, function: Callable[[float], float]) -> tuple[float, float]:
    """Where a function is smallest, and its value there.

    The best point of an ascending `grid` with its `values` (one that is not finite is never the best), then a bounded
    search between its neighbours; at the ends of the grid, and beside zero, the grid decides.
    """
    best = int(np.argmin(np.where(np.isfinite(values), values, np.inf)))
    at, value = float(grid[best]), float(values[best])
    if not 0 < best < len(grid) - 1 or grid[best - 1] == 0:
        return at, value
    with np.errstate(invalid="ignore"):  # no parabola goes through an infinite value: the search then halves
        found = minimize_scalar(
            lambda u: function(math.exp(u)),
            bounds=(math.log(grid[best - 1]), math.log(grid[best + 1])),
            method="bounded",
            options={"xatol": _WIDTH},
        )
    return (math.exp(found.x), float(found.fun)) if found.fun <= value else (at, value)


def lowest_by_parabola(curve: Array) -> tuple[float, int]:
    """The minimum of a curve on an even grid by the parabola through its lowest point, and that point's index."""
    at = int(np.argmin(curve))
    if not 0 < at < curve.size - 1:
        return float(curve[at]), at
    left, middle, right = (float(v) for v in curve[at - 1 : at + 2])
    drop = (left - right) * vertex(curve, at) / 4
    return middle - min(drop, max(left, right) - middle), at


def vertex(curve: Array, at: int) -> float:
    """Where the parabola through an inner lowest point and its neighbours is lowest, in steps from there; 0 at ends."""
    if not 0 < at < curve.size - 1:
        return 0.0
    left, middle, right = (float(v) for v in curve[at - 1 : at + 2])
    bend = left - 2 * middle + right
    return (left - right) / (2 * bend) if np.isfinite(bend) and bend > 0 else 0.0


def log_vertex(places: Array, values: Array) -> float:
    """Where the parabola through three points is lowest, on a log scale of their places; the middle where it is not."""
    logs = np.log(places)
    first, second = np.diff(values) / np.diff(logs)
    bend = (second - first) / (logs[2] - logs[0])
    if not (np.isfinite(bend) and bend > 0):
        return float(places[1])
    return float(np.exp(np.clip((logs[0] + logs[1]) / 2 - first / (2 * bend), logs[0], logs[2])))
