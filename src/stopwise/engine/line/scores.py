"""How good is a kernel on a line: evidence and leave-one-out error of ridge, at many scales and penalties at once.

Both are those of the table with every row written out: rows at one place add their spread to the noise and nothing to
the determinant, and leaving out one of m of them divides its residual by 1 - h / m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.minimum import lowest_by_parabola, vertex
from stopwise.engine.line.fits import LineFit, fit_at
from stopwise.engine.line.merged_rows import LineRows, in_bins, merge_rows
from stopwise.engine.line.transitions import StateSpace, Stationary, WithSharedNoise
from stopwise.kernels import Kernel, Laplace, Matern
from stopwise.kernels.warped import Warped
from stopwise.noise import noise_share

MAX_RATIO = 1e10
"""The largest n / penalty that is looked at: what fits better beyond is rounding."""


def evidence(fit: LineFit) -> Array:
    """-2 log likelihood / n with the scale profiled out, up to a constant: (penalties, responses)."""
    n, free = fit.rows.n_samples, fit.rows.n_samples - float(fit.intercept)
    variance = np.maximum(fit.scaled_energy() / free, 1e-300)
    return cast(Array, (free * np.log(variance) + fit.log_determinant[:, None]) / n)


def left_out_errors(fit: LineFit) -> Array:
    """Weighted squared errors of each place, its rows left out one at a time, (places, penalties, responses)."""
    rows = fit.rows
    taken = (1.0 - fit.leverage_left) / rows.counts[:, None]
    together = (1.0 - taken)[:, :, None]
    return cast(Array, (rows.weights[:, None, None] * fit.residuals**2 + rows.within[:, None, :]) / together**2)


def left_out_row_errors(fit: LineFit, column: int) -> Array:
    """The same for one response row by row, one observation of a row left out at a time, (n, penalties)."""
    return cast(Array, fit.rows.row_weights[:, None] * left_out_rows(fit, column) ** 2)


def left_out_rows(fit: LineFit, column: int) -> Array:
    """Residuals of the rows as given, one observation of each left out at a time, (n, penalties)."""
    return cast(Array, residual_rows(fit, column) / row_leverage_left(fit))


def residual_rows(fit: LineFit, column: int) -> Array:
    """What a fit leaves of one response of the rows as given, (n, penalties)."""
    return cast(Array, fit.residuals[fit.rows.place_of, :, column] + fit.rows.deviations[:, column : column + 1])


def row_leverage_left(fit: LineFit) -> Array:
    """1 - h of an observation of each row as given, (n, penalties): it takes its share of its place's leverage."""
    rows, at = fit.rows, fit.rows.place_of
    share = rows.row_weights / (rows.weights[at] * rows.row_counts)
    return cast(Array, 1.0 - share[:, None] + share[:, None] * fit.leverage_left[at])


@dataclass(frozen=True)
class Surface:
    """Evidence and log left-out error over length scales x ratios n / penalty, mean over responses."""

    log_scales: Array
    log_ratios: Array
    evidence: Array
    log_left_out: Array
    freedom: Array

    @property
    def total(self) -> Array:
        """For each length scale, evidence and left-out error each at its own best ratio, added."""
        pairs = zip(self.evidence, self.log_left_out, strict=True)
        return np.array([lowest_by_parabola(e)[0] + lowest_by_parabola(loo)[0] for e, loo in pairs])


def surface(rows: LineRows, states: int, log_scales: Array, log_ratios: Array, *, intercept: bool) -> Surface:
    """The two scores of Matern (states - 1/2) at every pair."""
    scale, ratio = np.meshgrid(log_scales, log_ratios, indexing="ij")
    rates = math.sqrt(2 * states - 1) * np.exp(-scale.ravel())
    fit = fit_at(rows, Stationary(states, rates), rows.n_samples * np.exp(-ratio.ravel()), intercept=intercept)
    error = left_out_errors(fit).sum(axis=0) / rows.n_samples
    shape = scale.shape
    return Surface(
        log_scales,
        log_ratios,
        evidence(fit).mean(axis=1).reshape(shape),
        np.log(np.maximum(error, 1e-300)).mean(axis=1).reshape(shape),
        fit.degrees_of_freedom.reshape(shape),
    )


@dataclass(frozen=True)
class ScaleFound:
    """The best length scale of one kernel."""

    states: int
    length_scale: float
    score: float
    evidence: float
    log_left_out: float
    freedom: float
    """Degrees of freedom at the smallest left-out error."""
    n_places: int
    warp: Warped | None = None
    """How the covariate is drawn in, if it is."""

    @property
    def kernel(self) -> Kernel:
        """Matern (states - 1/2) there; of one state it is Laplace's."""
        core = (
            Laplace(self.length_scale) if self.states == 1 else Matern(self.length_scale, smoothness=self.states - 0.5)
        )
        return core if self.warp is None else self.warp.with_inner(core)


def best_scale(rows: LineRows, states: int, *, intercept: bool, most_places: int) -> ScaleFound:
    """The length scale of Matern (states - 1/2) with the lowest total, looked for on bins no wider than its detail.

    A wide grid on `most_places` bins, narrowed; where the fit found is too fine for the bins, narrowed further on more.
    """
    places = most_places
    binned = in_bins(rows, places)
    seen = _narrowed(binned, states, _wide(binned, states, intercept), intercept, _ROUNDS)
    while True:
        found = _found(binned, states, seen)
        if places >= rows.n_places or found.freedom <= places / BINS_PER_DEGREE:
            return found
        places *= 4
        binned = in_bins(rows, places)
        seen = _narrowed(binned, states, seen, intercept, 2)


BINS_PER_DEGREE = 8
"""Bins for each degree of freedom: a fit's detail is then about eight bins wide; what bins blur is below a percent."""
_COARSE_SCALE, _COARSE_RATIO = 0.8, 1.8
"""Steps of the first grid, in natural logarithms of length scale and ratio."""
_FINEST_RATIO = 0.4
_ROUNDS = 4
"""Each halves the steps: at the end a length scale is known to 5 percent, which no data can tell from the best."""


def _wide(rows: LineRows, states: int, intercept: bool) -> Surface:
    finest = max(float(np.median(np.diff(rows.covariate))), 1e-6 * rows.range)
    scales = np.arange(math.log(finest), math.log(30 * rows.range) + _COARSE_SCALE, _COARSE_SCALE)
    ratios = np.arange(math.log(1e-1), math.log(MAX_RATIO) + _COARSE_RATIO, _COARSE_RATIO)
    return surface(rows, states, scales, ratios, intercept=intercept)


def _narrowed(rows: LineRows, states: int, seen: Surface, intercept: bool, rounds: int) -> Surface:
    """The surface around its lowest length scale, at half the steps each round."""
    for _ in range(rounds):
        at = int(np.argmin(seen.total))
        step = (seen.log_scales[1] - seen.log_scales[0]) / 2
        ratio_step = max((seen.log_ratios[1] - seen.log_ratios[0]) / 2, _FINEST_RATIO)
        ends = [seen.log_ratios[int(np.argmin(curve[at]))] for curve in (seen.evidence, seen.log_left_out)]
        ratios = np.arange(min(ends) - 2 * ratio_step, max(ends) + 2.5 * ratio_step, ratio_step)
        scales = seen.log_scales[at] + step * np.array([-1.0, 0.0, 1.0])
        seen = surface(rows, states, scales, ratios, intercept=intercept)
    return seen


def _found(rows: LineRows, states: int, seen: Surface) -> ScaleFound:
    at = int(np.argmin(seen.total))
    best = int(np.argmin(seen.log_left_out[at]))
    return ScaleFound(
        states,
        float(np.exp(seen.log_scales[at])),
        float(seen.total[at]),
        float(lowest_by_parabola(seen.evidence[at])[0]),
        float(lowest_by_parabola(seen.log_left_out[at])[0]),
        float(seen.freedom[at, best]),
        rows.n_places,
    )


def evidence_noise(
    rows: LineRows, space: StateSpace, column: int, step_sum: float, mean_diagonal: float, *, intercept: bool
) -> float:
    """The noise level s at the penalty that `stopwise.noise.Evidence` takes, started from a reading of the clock.

    `mean_diagonal`: tr K / n.
    """
    n, free = rows.n_samples, rows.n_samples - float(intercept)
    at, steps = math.log(step_sum), list(_NOISE_STEPS)
    while True:
        logs = at + steps[0] * np.arange(-4, 5)
        fit = fit_at(rows, space, n * np.exp(-logs), intercept=intercept, left_out=False)
        curve = evidence(fit)[:, column] - 2 / n * np.log(noise_share(np.exp(logs), mean_diagonal))
        best = int(np.argmin(curve))
        at = float(logs[best])
        if 0 < best < 8 or not abs(at) < _FARTHEST:
            at += steps.pop(0) * vertex(curve, best)
        if not steps:
            return math.sqrt(max(float(np.interp(at, logs, fit.scaled_energy()[:, column])) / free, 0.0))


_NOISE_STEPS = (1.5, 0.375, 0.02, 1e-3)
"""In log penalty: a parabola places the minimum to about a step's square, so the noise is known to 1e-7 of itself."""
_FARTHEST = 60.0
"""|log step_sum| beyond which an evidence that keeps growing is followed no further."""


@dataclass(frozen=True)
class SharedNoise:
    """Noise of correlation exp(-gap / length) that maximises the likelihood of curve plus noise."""

    correlation: float
    """Between neighbours at the mean gap."""
    noise_std: float
    penalty: float
    """Var noise / Var curve, the kernel being the curve's covariance."""

    @property
    def inflation(self) -> float:
        """The variance of independent noise that blurs a smooth curve as much, over this noise's own."""
        return (1 + self.correlation) / (1 - self.correlation)


_NUGGET = 1e-6
"""Independent noise that every row has beside the shared one, over its variance: a pass divides by it."""
_LONGEST, _FAINTEST = 1 / 20, 1e8
"""Noise shared over more than this part of the range is a part of the curve; with a larger penalty there is none."""
_STRETCHES, _STRETCH = 40, 100
"""The first look is at so many stretches of so many neighbours: their gaps tell of the length, their places of f."""


def shared_noise(rows: LineRows, space: StateSpace, column: int, *, intercept: bool) -> SharedNoise:
    """The noise that neighbours share, by likelihood: a grid on stretches of rows, then narrowed on all of them."""
    gap = float(np.mean(space.gaps(rows.covariate)[1:]))
    free = rows.n_samples - float(intercept)

    def fit(part: LineRows, logits: Array, logs: Array) -> LineFit:
        rho, level = (grid.ravel() for grid in np.meshgrid(1 / (1 + np.exp(-logits)), np.exp(logs), indexing="ij"))
        combined = WithSharedNoise(space, -np.log(rho) / gap, level)
        return fit_at(part, combined, _NUGGET * level, intercept=intercept, left_out=False)

    # The logit of the correlation and the log penalty, each from its lowest to its highest.
    longest = _LONGEST * float(np.sum(space.gaps(rows.covariate)[1:]))
    high = np.array([-math.log(math.expm1(gap / longest)), math.log(_FAINTEST)])
    low, step = high - [12.0, 36.0], np.array([1.5, 2.0])
    logits, logs = (np.arange(a, b + 0.1, c) for a, b, c in zip(low, high, step, strict=True))
    found, centre = fit(_some(rows), logits, logs), low - 1
    while True:
        best = int(np.argmin(evidence(found)[:, column]))
        at = np.array([logits[best // len(logs)], logs[best % len(logs)]])
        if np.array_equal(at, centre):
            step = step / 2
        if step.max() < _SHARED_STEP:
            break
        centre = at
        around = at[:, None] + step[:, None] * np.arange(-1, 2)
        logits, logs = np.clip(around, low[:, None], high[:, None])
        found = fit(rows, logits, logs)
    rho, level = 1 / (1 + math.exp(-at[0])), math.exp(at[1])
    variance = float(found.energy[best, column]) / free
    return SharedNoise(rho, math.sqrt(max(variance * level, 0.0)), level)


_SHARED_STEP = 0.05
"""In logits of the correlation and log penalty: a twentieth of what data of any size can tell."""


def _some(rows: LineRows) -> LineRows:
    """Stretches of neighbours, evenly over all places."""
    n = rows.n_places
    if n <= _STRETCHES * _STRETCH:
        return rows
    starts = np.linspace(0, n - _STRETCH, _STRETCHES).astype(int)
    kept = (starts[:, None] + np.arange(_STRETCH)).ravel()
    return merge_rows(rows.covariate[kept], rows.responses[kept], rows.weights[kept])
