"""A fitted model as curves along its clock: what figures and the report draw, in the units of y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.complexity import local_complexity_of
from stopwise.estimators.fitted import fitted_of
from stopwise.estimators.loss_fit import LossFitted
from stopwise.estimators.prediction.host import WHOLE_ROWS, CrossKernel
from stopwise.estimators.prediction.response_groups import groups_of, parts_of
from stopwise.filters import Filter, GradientDescent, NuMethod, Ridge
from stopwise.path import Path
from stopwise.rules import GCV, SURE, Critical, Discrepancy, LeaveOneOut, Minimax, Prudent, Rule, Stop
from stopwise.rules.critical import SELF_CONSTANT
from stopwise.rules.explanation import stops_of
from stopwise.rules.prudent import LeftOut
from stopwise.schedules import Constant
from stopwise.views.facts import Model

_ENTRIES = 2_000_000_000
"""Rows x eigenpairs x readings up to which leave-one-out errors are drawn: a second or two of products."""


@dataclass(frozen=True)
class Chosen:
    """One response of a fitted model: its path, its stop, noise level and Hilbert radius (problem units)."""

    model: Model
    """The model, or one that holds the fit of this response where responses have kernels of their own."""
    column: int
    """The response's number there."""
    path: Path
    stop: Stop
    sigma: float
    radius: float

    @property
    def rule(self) -> str:
        """The name of the rule that decided."""
        return self.stop.evidence.rule or fitted_of(self.model).rule.name


def chosen(model: Model, response: int = 0) -> Chosen:
    """The response of a fitted model that a figure is about."""
    held = getattr(model, "_fitted", None)
    if isinstance(held, LossFitted):
        raise ValueError(
            f"this figure is of a path of squares, and this model has the loss {held.loss.name}: sw.report(model, "
            '"report.html", X=X, y=y) draws its left-out rows and effects'
        )
    if not hasattr(model, "path_"):
        raise ValueError("this estimator is not fitted yet: call fit before drawing it")
    stops = stops_of(model)
    if not 0 <= response < len(stops):
        raise ValueError(f"response must be from 0 to {len(stops) - 1}, got {response!r}")
    if (groups := groups_of(model)) is not None:
        group = next(at for at, columns in enumerate(groups.columns) if response in columns)
        return chosen(parts_of(model, groups)[group], groups.columns[group].index(response))
    path = model.path_.column(response)
    scale = float(path.scale)
    noise, radius = (float(np.atleast_1d(value)[response]) for value in (model.noise_std_, model.hilbert_radius_))
    return Chosen(model, response, path, stops[response], noise / scale, radius / scale)


def readings(of: Chosen, count: int = 160) -> Array:
    """Reachable clock readings around the stop, evenly spaced on a log scale, the stop among them; none is zero."""
    path, at = of.path, of.stop.step_sum
    cap, largest = path.step_sum_cap, path.spectrum.largest_bound
    if cap == 0 or largest == 0:
        return np.zeros(0)
    low = min(0.05 / largest, at / 10) if at > 0 else 0.05 / largest
    farthest = min(cap, max(1e4 * at, 1e3 / largest))
    coarse = np.geomspace(low, farthest, 60)
    if isinstance(path.filter, NuMethod):
        coarse = coarse[coarse <= max(float(path.filter.step_sum(3000.0)), 2 * at)]
    full = np.flatnonzero(path.density.total(np.minimum(1, coarse[:, None] * path.density.values)) > 0.9 * _rank(path))
    top = float(coarse[full[0]]) if full.size else float(coarse[-1])
    grid = path.filter.snap(np.geomspace(low, max(top, min(30 * at, float(coarse[-1])), 2 * low), count))
    grid = np.unique(np.append(grid, at))
    return grid[(grid > 0) & np.isfinite(grid)]


def _rank(path: Path) -> float:
    return min(path.n_samples, float(path.density.multiplicities[path.density.values > 0].sum()))


# ---- the crossing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crossing:
    """Local complexity and its threshold along the clock; `decided` tells whether this is what stopped the fit.

    Where another rule decided, the threshold is the one with the estimate's own norm as radius, for comparison, and
    `crosses` is where it would have stopped.
    """

    step_sums: Array
    complexity: Array
    threshold: Array
    decided: bool
    crosses: float | None


def crossing(of: Chosen, step_sums: Array) -> Crossing:
    """RWY14's stopping inequality, both sides at every reading."""
    path, seen, rule = of.path, of.stop.evidence, fitted_of(of.model).rule
    decided = seen.constant is not None and seen.noise_std is not None
    fixed = decided and isinstance(rule, Critical) and rule.hilbert_radius != "self"
    constant = SELF_CONSTANT if seen.constant is None else float(seen.constant)
    given = fixed and not isinstance(cast(Critical, rule).hilbert_radius, str)
    radius: float | Array = (seen.hilbert_radius or 0.0) / float(path.scale)
    if not fixed:
        radius = np.sqrt(path.squared_hilbert_norm(step_sums))
    with np.errstate(divide="ignore", invalid="ignore"):
        threshold = radius / (constant * of.sigma * step_sums)
    crosses = of.stop.step_sum if decided else None
    if not decided and of.sigma > 0 and not isinstance(path.filter, NuMethod):
        crosses = Critical(hilbert_radius="self").select(path, of.sigma).step_sum
    complexity = local_complexity_of(path.spectrum.bound if given else path.density, 1 / np.sqrt(step_sums))
    return Crossing(step_sums, complexity, threshold, decided, crosses)


# ---- risk estimates ---------------------------------------------------------------------------------------------


def has_rows(path: Path, count: int = 1) -> bool:
    """Whether single residuals and leverages are at hand, and cheap enough for so many readings."""
    basis = path.spectrum.basis
    if basis is None or path.response is None or not isinstance(basis.rows, np.ndarray):
        return False
    return len(basis.rows) * basis.width * count <= _ENTRIES


def risks(of: Chosen, step_sums: Array) -> dict[str, Array]:
    """Each rule's estimate of the error at new observations (root mean square, units of y), by its name.

    SURE and the worst case estimate the distance to the truth: the noise is added, so that all share a scale.
    """
    path, sigma = of.path, of.sigma
    squared = {
        "in sample": path.mean_squared_residual(step_sums),
        "SURE": SURE().criterion(path, sigma, step_sums) + sigma**2,
        "GCV": path.gcv(step_sums),
        "worst case": Minimax().criterion(path, sigma, of.radius, step_sums) + sigma**2,
    }
    if has_rows(path, step_sums.size):
        squared["leave-one-out"] = path.leave_one_out_error(step_sums)
        if of.rule == Prudent.name:
            squared["leave-one-out of ridge"] = LeftOut(path.along(Ridge())).mean(step_sums)
    with np.errstate(invalid="ignore"):
        return {name: cast(Array, float(path.scale) * np.sqrt(values)) for name, values in squared.items()}


def slow_clock(filter: Filter) -> bool:
    """Whether every reading costs steps or a search: the nu-method's, and descent's with steps that change."""
    changing = isinstance(filter, GradientDescent) and not isinstance(filter.schedule, Constant)
    return isinstance(filter, NuMethod) or changing


def stops(of: Chosen) -> dict[str, Stop]:
    """Where each rule would stop on this path; rules that need rows only where these are at hand.

    None for steps that change: every reading of such a clock is a search.
    """
    if of.path.step_sum_cap == 0 or of.sigma <= 0 or slow_clock(of.path.filter):
        return {}
    rules: list[Rule] = [Critical(), Critical(hilbert_radius="self"), Minimax(), SURE(), GCV(), Discrepancy()]
    rules += [LeaveOneOut()] if has_rows(of.path, 300) else []
    own_norm = rules[1]
    return {rule.name + ", self" * (rule is own_norm): rule.select(of.path, of.sigma) for rule in rules}


# ---- the estimate anywhere, at any stop -------------------------------------------------------------------------


def directions(model: Model, X: Array) -> Array:
    """psi (m, k) with f(x) = offset + scale (linear_part(x) + sum_j weight_j c_j psi_j(x)).

    Where all eigenpairs are known and there is no linear part, the variance of f(x) is
    sigma^2 (sum_j weight_j^2 psi_j^2 + 1/n for an intercept).
    """
    fitted, path, spread = fitted_of(model), model.path_, fitted_of(model).spread
    n, used = path.n_samples, fitted.to_features(np.asarray(X))
    if spread is not None:
        features = spread.landmarks.features(used).astype(np.float64) - spread.mean
        return cast(Array, features @ spread.rotation * np.sqrt(path.spectrum.eigenvalues / n))
    basis = path.spectrum.basis
    assert basis is not None
    cross, psi = CrossKernel(model.kernel_, used, model.X_fit_), np.empty((len(used), basis.width))
    for rows in WHOLE_ROWS.rows(*cross.shape):
        block = fitted.centred_block(used[rows], cross.tile(rows).astype(np.float64))
        psi[rows] = basis.coordinates(block.T).T / n
    return psi


def mean_directions(model: Model, parts: Array) -> Array:
    """psi averaged over the rows of each part, (p, k) from (p, b, d): kernels are averaged before they are turned."""
    fitted, path = fitted_of(model), model.path_
    if fitted.spread is not None or path.spectrum.basis is None:
        return np.stack([directions(model, part).mean(axis=0) for part in parts])
    means = []
    for part in parts:
        used = fitted.to_features(part)
        block = CrossKernel(model.kernel_, used, model.X_fit_).tile(slice(0, len(used)))
        means.append(fitted.centred_block(used, block.astype(np.float64)).mean(axis=0))
    return cast(Array, path.spectrum.basis.coordinates(np.stack(means).T).T / path.n_samples)


def linear_part(of: Chosen, X: Array) -> Array:
    """What an unpenalised linear part adds to `directions` at rows, (m,), problem units; zero without one."""
    fitted, level = fitted_of(of.model), of.path.level
    if fitted.trend is None or level is None:
        return np.zeros(len(X))
    return cast(Array, fitted.trend.at(fitted.to_features(np.asarray(X))) @ level)


def observed(of: Chosen) -> Array:
    """The responses by row in the units of y, from the path."""
    path = of.path
    if path.response is None:
        raise ValueError("this fit kept sums over rows, not the rows: give y")
    root = 1.0 if path.root_weights is None else path.root_weights
    return cast(Array, path.offset + path.scale * (path.response / root + path.fixed_part()))
