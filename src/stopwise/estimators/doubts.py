"""When not to trust a fit: what is doubtful about it, in words."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.row_numbers import row_numbers
from stopwise.engine.landmarks.features import FeatureRows
from stopwise.engine.solvers.plan import Solution
from stopwise.exceptions import StopwiseWarning
from stopwise.filters import Ridge
from stopwise.path import Path
from stopwise.rules import Stop
from stopwise.selection.result import Selection
from stopwise.tables.names import shown

LEAST_ROWS = 8
"""With fewer rows there is nothing to choose a kernel by."""
_INTERPOLATING_NOISE, _INTERPOLATING_FREEDOM, _INTERPOLATING_ROWS = 1e-3, 0.95, 60
"""Noise below this share of y's spread, with more than this share of all degrees of freedom spent, is interpolation;
of fewer rows than this, interpolation says nothing."""
_FALL = {"short": 0.05, "long": 0.25}
"""How much the score may still fall beyond; at the long end a straight truth makes it fall for ever."""
_TAIL, _TAIL_SHARE, _TAIL_ROWS = 0.01, 0.5, 100
"""Tails are heavy where the largest 1% of the residuals hold more than half of their squares, of 100 rows or more."""
_MOST_WORK = 2e10
"""Multiplications: a second or two."""
_VISIBLE = 0.05
"""An error below this share of the responses' own spread is not seen beside them: a fit that leaves so little of rows
left out is right to interpolate, and rows that are further off are counted where outliers are looked for."""
_OUTLYING, _OUTLIER_SHARE, _OUTLIER_ROWS = 8.0, 0.05, 20
"""Standard deviations from which on a row is an outlier, the share of rows that may be, and of how many at least."""
_STEPS = 1.5
"""Steps between the values of a response (0/1, ratings, counts) within which a rare value is no outlier."""
_MEDIAN = 0.6745
"""The median of a standard normal number's magnitude."""
_ROUNDING = 1e-9
"""A gap between two responses below this share of their range is rounding."""
_LEAST_LEVELS = 512
"""A column that varies over fewer steps of its own rounding than this has lost digits that a fit would miss."""


class TrustWarning(StopwiseWarning):
    """A fit that its own numbers cast doubt on."""


def lost_digits(names: Sequence[object] | Array | None = None, **ranges: Array) -> list[str]:
    """Columns in which an offset so large was added that few different values are left.

    For each table by its name the smallest and the largest value of its columns, (2, d); X's may have names.
    """
    reasons: list[str] = []
    for name, (low, high) in ranges.items():
        step = np.spacing(np.maximum(np.abs(low), np.abs(high)))
        levels = (high - low) / step
        reasons += [
            f"{_column(column, name, names)} has lost its digits: beside {high[column]:.3g} only about "
            f"{levels[column]:.0f} values can be told apart; subtract the offset first"
            for column in np.flatnonzero((levels > 0) & (levels < _LEAST_LEVELS))[:3]
        ]
    return reasons


def _column(at: int, table: str, names: Sequence[object] | Array | None) -> str:
    return f"column {at} of {table}" if names is None or table != "X" else f"'{shown(str(names[at]))}'"


def warn_of_doubts(reasons: Sequence[str]) -> None:
    """One warning with every reason to doubt a fit, if there are any."""
    if reasons:
        warnings.warn("; ".join(dict.fromkeys(reasons)), TrustWarning, stacklevel=3)


def doubts(selection: Selection | None, solution: Solution, kept_rows: Array | None = None) -> list[str]:
    """Every reason not to trust a fit: of the choice first, then of each response.

    `kept_rows` number rows as they were given.
    """
    reasons = too_few_rows(selection) + ([] if selection is None else _of_edge(selection))
    for column, stop in enumerate(solution.stops):
        path = solution.path.column(column)
        sigma = float(solution.noise_std[column]) / float(path.scale)
        reasons += _of_stop(path, stop, sigma, kept_rows)
    return list(dict.fromkeys(reasons))


def too_few_rows(selection: Selection | None) -> list[str]:
    """A sentence on a kernel that was chosen by hardly any rows."""
    if selection is None or selection.n_samples >= LEAST_ROWS:
        return []
    return [
        f"{selection.n_samples:g} rows are too few to choose a kernel by (at least {LEAST_ROWS}): give kernel= and its "
        "length_scale"
    ]


def _of_edge(selection: Selection) -> list[str]:
    if selection.at_edge is None or selection.edge_fall <= _FALL[selection.at_edge]:
        return []
    return [
        f"the score was still falling at the {selection.at_edge} end of the length scales tried: give "
        "length_scale= to look beyond, or rescale features that hold a few far-off values"
    ]


def _of_stop(path: Path, stop: Stop, sigma: float, kept_rows: Array | None = None) -> list[str]:
    reasons: list[str] = []
    n = path.n_samples
    spread = float(np.sqrt(float(path.energy) / n))
    if spread == 0:
        return reasons
    freedom = float(path.degrees_of_freedom(stop.step_sum)) / n
    if sigma < _INTERPOLATING_NOISE * spread and freedom > _INTERPOLATING_FREEDOM and n >= _INTERPOLATING_ROWS:
        if _left_out_error(stop) < _VISIBLE * spread:
            return reasons  # rows left out are predicted as well: there is next to no noise
        reasons.append(
            f"the fit interpolates: the noise level is {sigma / spread:.1g} of y's spread and "
            f"{100 * freedom:.0f}% of all degrees of freedom are spent; give noise_std= if the noise is larger"
        )
    elif freedom <= _INTERPOLATING_FREEDOM and path.response is not None and _rows_at_hand(path):
        reasons += outlier_lines(path, stop, kept_rows) or _of_tails(path, stop)
    if stop.evidence.radius_capped:
        reasons.append("the estimated Hilbert radius hit its cap: give hilbert_radius= or another rule")
    return reasons


def _left_out_error(stop: Stop) -> float:
    """Root mean squared error on rows left out, where a rule read it."""
    read = stop.evidence.criterion is not None and stop.evidence.allowance is not None
    return math.sqrt(max(stop.evidence.criterion or 0.0, 0.0)) if read else math.inf


def _rows_at_hand(path: Path) -> bool:
    """Whether residuals by row take no more work than a warning is worth: no passes over all rows (landmarks)."""
    basis, columns = path.spectrum.basis, path.spectrum.eigenvalues.size
    if basis is None or isinstance(basis.rows, FeatureRows):
        return False
    return len(basis.rows) * columns * (1 if basis.rotation is None else columns) <= _MOST_WORK


def outliers(path: Path, step_sum: float) -> Array:
    """Rows whose left-out residual no normal noise of the others' level explains; none where those are many.

    Residuals are ridge's over their own scale, their level the median's: eight of those are met once in 10^15 rows.
    Outliers stand apart: where more rows lie in the octave before, the noise has a long tail, and they belong to it.
    A space of fewer columns than the fit has degrees of freedom (solves) knows no leverages: there the residuals
    of the rows that were left out stand for themselves.
    """
    rows = np.arange(len(path.row_weights))
    if path.n_samples < _OUTLIER_ROWS or float(path.energy) == 0:
        return rows[:0]
    if path.left_out is not None and path.left_out_rows is not None:
        return _standing_apart(path, path.left_out_rows, np.abs(path.left_out))
    if path.spectrum.eigenvalues.size < float(path.degrees_of_freedom(step_sum)):
        return rows[:0]
    ridge, at = path.along(Ridge()), np.asarray(step_sum)
    left = np.maximum(ridge.leverage_left(at), 1e-12)
    return _standing_apart(path, rows, np.abs(ridge.residual_rows(at)) * np.sqrt(ridge.row_weights / left))


def _standing_apart(path: Path, rows: Array, residuals: Array) -> Array:
    """Those of some rows, the furthest first, whose residual is beyond noise of the others' level, after a gap.

    They are off by more than the responses' own spread: a constant would predict them better. And by more than a step
    where responses lie on steps: the few ones of a response that is mostly 0 are no faults of it.
    """
    ratios = residuals if path.counts is None else residuals / np.sqrt(path.counts[rows])
    level = float(np.median(ratios)) / _MEDIAN
    spread = math.sqrt(float(path.energy) / path.n_samples) * np.sqrt(path.row_weights[rows])
    bound = np.maximum(_OUTLYING * level, _VISIBLE * spread)
    bound = np.maximum(bound, _STEPS * _step_of(path) * np.sqrt(path.row_weights[rows]))
    beyond = ratios > bound
    few = level > 0 and beyond.sum() <= _OUTLIER_SHARE * ratios.size
    apart = np.count_nonzero(ratios > bound / 2) < 2 * beyond.sum()
    found = np.flatnonzero(beyond & (ratios > spread))
    return rows[found[np.argsort(-ratios[found])]] if few and apart else rows[:0]


def _step_of(path: Path) -> float:
    """The smallest gap between two values of the responses, problem units, but for rounding."""
    weighted = np.asarray(path.response, dtype=np.float64)
    values = (weighted if path.root_weights is None else weighted / path.root_weights) + path.fixed_part()
    gaps = np.diff(np.sort(values))
    seen = gaps[gaps > _ROUNDING * np.ptp(values)]
    return float(seen.min()) if seen.size else 0.0


def outlier_lines(path: Path, stop: Stop, kept_rows: Array | None) -> list[str]:
    """A sentence that names the outliers of a fit, as rows of the table given; nothing where there are none."""
    found = outliers(path, stop.step_sum)
    if not found.size:
        return []
    given = row_numbers().words(found if kept_rows is None else kept_rows[found])
    lie, them = ("lies", "it") if found.size == 1 else ("lie", "them")
    return [
        f"{given} {lie} further from what the other rows predict than noise of this level explains: correct {them}, "
        f"leave {them} out or give {them} less sample_weight"
    ]


def _of_tails(path: Path, stop: Stop) -> list[str]:
    """A sentence on few rows that hold most of the residuals' squares.

    Rows left out judge any noise by its own errors: what they stopped is doubted only where those rows stand apart.
    """
    if path.n_samples < _TAIL_ROWS:
        return []
    residuals, rows = np.abs(path.residual_rows(np.asarray(stop.step_sum))), np.arange(len(path.row_weights))
    apart = _standing_apart(path, rows, residuals * np.sqrt(path.row_weights))
    if stop.evidence.allowance is not None and not apart.size:
        return []
    squared = np.sort(residuals**2)
    few = max(1, round(_TAIL * squared.size))
    share = float(squared[-few:].sum() / max(float(squared.sum()), 1e-300))
    if share <= _TAIL_SHARE:
        return []
    return [
        f"residuals are heavy-tailed: {few} of {squared.size} rows carry {100 * share:.0f}% of their sum of squares; "
        "look at those rows, or transform y"
    ]
