"""Where each rule stops each of many trials.

A rule of this package has a line here that evaluates its own criterion for all trials at once. Any other rule needs
only `select` and is asked trial by trial, so that a new rule is a class and nothing more.
"""

from functools import singledispatch
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array, Index
from stopwise._support.memory import row_tiles
from stopwise.complexity import critical_target, step_sums_at
from stopwise.experiments.trials import Half, Trials, factor_by_trial, take
from stopwise.filters import Ridge, SteppedFilter
from stopwise.rules import (
    GCV,
    SURE,
    Critical,
    Discrepancy,
    HoldOut,
    LeaveOneOut,
    MarginalLikelihood,
    Minimax,
    Oracle,
    Prudent,
    Rule,
)
from stopwise.rules.base import Reading, clock_grid
from stopwise.rules.critical import RADIUS_CAP, RADIUS_ROUNDS, SELF_CONSTANT
from stopwise.rules.prudent import CEILING, constant_stands
from stopwise.rules.search import first_true_each, minimise_each

COSTLY: dict[str, Any] = {"ratio": 1.1, "scan": 128, "tolerance": 0.03}
"""Where each reading costs a product with the kernel matrix: a coarser grid, sooner, within a percent of the stop."""


@singledispatch
def stops(rule: Rule, trials: Trials) -> Array:
    """The clock reading at which a rule stops each trial; here, one trial after another."""
    chosen = [rule.select(trials.path.column(j), float(trials.told[j]), trials.data(j)) for j in range(trials.count)]
    return np.array([stop.step_sum for stop in chosen])


def errors(rule: Rule, trials: Trials) -> tuple[Array, Array]:
    """Clock reading and ||f - f*||_n^2 of each trial stopped by a rule."""
    chosen = stops(rule, trials)
    if not isinstance(rule, HoldOut) or rule.refit:
        return chosen, trials.errors(chosen)
    out = np.empty(trials.count)
    for columns, half in halves(rule, trials):
        out[columns] = ((half.fit(chosen[columns]).T - trials.setting.truth) ** 2).mean(axis=1)
    return chosen, out


def reads_no_response(rule: Rule, trials: Trials) -> bool:
    """True where a rule stops all trials alike, so that its mean error is exact."""
    fixed = isinstance(rule, Critical | Minimax) and not isinstance(rule.hilbert_radius, str)
    return fixed and bool(np.all(trials.told == trials.told[0]))


@stops.register
def _(rule: Critical, trials: Trials) -> Array:
    path = trials.path
    if rule.hilbert_radius == "self":
        return _self_radius(rule, trials)
    constant = rule.resolved_constant(path)
    return path.filter.snap(_critical(trials, _radii(rule, trials, constant), constant))


def _radii(rule: Critical | Minimax, trials: Trials, constant: float) -> Array:
    """The Hilbert radius that a rule takes for each trial: given, or estimated."""
    if isinstance(rule.hilbert_radius, str):
        return estimated_radii(trials, constant)
    return np.full(trials.count, float(rule.hilbert_radius))


def _critical(trials: Trials, radius: Array, constant: float) -> Array:
    """The critical clock reading of each trial, given its radius (RWY14, stopping rule)."""
    target = critical_target(trials.path.n_samples, 1.0, 1.0, constant)
    return step_sums_at(trials.path.density, target * (radius / trials.told) ** 2)


def estimated_radii(trials: Trials, constant: float) -> Array:
    """The Hilbert radius read off each path: `rules.critical.estimated_radius` for many trials."""
    path, values = trials.path, trials.path.spectrum.eigenvalues
    start = np.sqrt(path.energy / path.n_samples / path.density.trace)
    radius = start
    for _ in range(RADIUS_ROUNDS):
        at = path.filter.snap(np.minimum(_critical(trials, radius, constant), path.step_sum_cap))
        scaled = factor_by_trial(path.filter.weight, values, at) ** 2 * values[:, None]
        squared = (scaled * (path.coefficients**2 - trials.told**2)).sum(axis=0) / path.n_samples
        grown = np.minimum(np.maximum(radius, np.sqrt(np.maximum(squared, 0.0))), RADIUS_CAP * start)
        if np.all(grown <= radius * (1 + 1e-10)):
            break
        radius = np.where(grown <= radius * (1 + 1e-10), radius, grown)
    return cast(Array, radius)


def _self_radius(rule: Critical, trials: Trials) -> Array:
    """The last iterate before the rule, with the fit's own norm for a radius, first ceases to hold."""
    path, filter = trials.path, trials.path.filter
    assert isinstance(filter, SteppedFilter)
    constant = rule.resolved_constant(path)

    def holds(columns: Index, step_sum: Array) -> Array:
        budget = path.n_samples * take(path, columns).squared_hilbert_norm(step_sum)
        travel = path.beside_responses(step_sum * path.complexity_sum(step_sum))
        return np.asarray((step_sum > 0)[:, None] & (travel <= budget / (constant * trials.told[columns]) ** 2))

    start = first_true_each(path, trials.count, holds)
    never = np.isnan(start)
    after = np.where(never, 0.0, start)
    crossed = first_true_each(path, trials.count, lambda c, s: ~holds(c, s).astype(bool), after)
    last = float(filter.iteration(path.step_sum_cap))
    return filter.step_sum(np.where(never, 0.0, np.where(np.isnan(crossed), last, crossed - 1)))


@stops.register
def _(rule: Minimax, trials: Trials) -> Array:
    path, radius = trials.path, _radii(rule, trials, SELF_CONSTANT)
    if reads_no_response(rule, trials):
        return np.full(trials.count, rule.select(path.column(0), float(trials.told[0])).step_sum)

    def criterion(columns: Index, step_sum: Array) -> Array:
        return rule.criterion(take(path, columns), trials.told[columns], radius[columns], step_sum)

    return minimise_each(path, trials.count, criterion, rule.reading)


@stops.register
def _(rule: SURE, trials: Trials) -> Array:
    path, told = trials.path, trials.told
    return minimise_each(path, trials.count, lambda c, s: rule.criterion(take(path, c), told[c], s), rule.reading)


@stops.register(GCV)
@stops.register(Oracle)
@stops.register(MarginalLikelihood)
def _(rule: GCV | Oracle | MarginalLikelihood, trials: Trials) -> Array:
    path, reading = trials.path, "global" if isinstance(rule, MarginalLikelihood) else rule.reading
    return minimise_each(path, trials.count, lambda c, s: rule.criterion(take(path, c), s), reading)


@stops.register
def _(rule: LeaveOneOut, trials: Trials) -> Array:
    path = trials.path

    def criterion(columns: Index, step_sum: Array) -> Array:
        part = take(path, columns)
        return np.concatenate([rule.criterion(part, step_sum[i : i + 1]) for i in range(len(step_sum))])

    return minimise_each(path, trials.count, criterion, rule.reading, **COSTLY)


@stops.register
def _(rule: Prudent, trials: Trials) -> Array:
    """On the grid of the clock alone, a tenth of its reading apart: `select` goes on between two of its points."""
    ridge = trials.path.along(Ridge())
    grid = clock_grid(ridge)
    grid = grid[grid <= CEILING]
    left = ridge.leverage_left(grid)
    out = np.empty(trials.count)
    for some in row_tiles(trials.count, left.size):
        columns = np.arange(some.start, some.stop)
        squares = (take(ridge, columns).residual_rows(grid) / left[:, :, None]) ** 2
        out[columns] = grid[_earliest(squares, rule.allowance)]
    return trials.path.filter.snap(out)


def _earliest(squares: Array, allowance: float) -> Index:
    """For squared errors (readings, rows, columns): the first reading within the allowance of the least.

    The first of all where the constant fit stands.
    """
    means = squares.mean(axis=1)
    above, spread = _excess(squares, np.argmin(means, axis=0))
    out = np.argmax(above <= allowance * spread, axis=0)
    for column in np.flatnonzero(out) if allowance > 0 else ():
        own = squares[:, :, column : column + 1]

        def over_constant(squares: Array = own) -> tuple[Array, Array]:
            above, spread = _excess(squares, np.zeros(1, dtype=int))
            return above[:, 0], spread[:, 0]

        if constant_stands(means[:, column], over_constant):
            out[column] = 0
    return cast(Index, out)


def _excess(squares: Array, best: Index) -> tuple[Array, Array]:
    """How much larger means over rows are than at one reading for each column, and the standard error of that."""
    gap = squares - np.take_along_axis(squares, best[None, None, :], axis=0)
    above = gap.mean(axis=1)
    return above, np.sqrt(((gap - above[:, None, :]) ** 2).sum(axis=1)) / squares.shape[1]


@stops.register
def _(rule: Discrepancy, trials: Trials) -> Array:
    path, filter = trials.path, trials.path.filter
    assert isinstance(filter, SteppedFilter)

    def down(columns: Index, step_sum: Array) -> Array:
        return np.asarray(take(path, columns).mean_squared_residual(step_sum) <= trials.told[columns] ** 2)

    reached = first_true_each(path, trials.count, down, after=np.full(trials.count, -1.0))
    last = float(filter.iteration(path.step_sum_cap))
    return filter.step_sum(np.where(np.isnan(reached), last, reached))


def halves(rule: HoldOut, trials: Trials) -> list[tuple[Index, Half]]:
    """The trials by hold-out split, each group with its half of the rows."""

    def make() -> list[tuple[Index, Half]]:
        labels = trials.groups if rule.split == "random" else np.zeros(trials.count, dtype=int)
        out: list[tuple[Index, Half]] = []
        for label in np.unique(labels):
            columns = np.flatnonzero(labels == label)
            train, test = rule.rows(trials.setting.n, trials.seeds[label])
            out.append((columns, trials.half(train, test, columns)))
        return out

    return trials.remember(("halves", rule.split, rule.fraction), make)


@stops.register
def _(rule: HoldOut, trials: Trials) -> Array:
    # "literal" is one step before "local", and refitting does not move the stop: one search serves them all.
    reading: Reading = "local" if rule.reading == "literal" else rule.reading

    def search() -> Array:
        out = np.empty(trials.count)
        for columns, half in halves(rule, trials):
            out[columns] = minimise_each(half.path, columns.size, half.error, reading, **COSTLY)
        return out

    chosen = trials.remember(("hold-out", rule.split, rule.fraction, reading), search)
    filter = trials.path.filter
    assert isinstance(filter, SteppedFilter)
    if rule.reading == "literal":
        return filter.step_sum(np.maximum(filter.iteration(chosen) - 1, 0))
    return filter.snap(chosen)
