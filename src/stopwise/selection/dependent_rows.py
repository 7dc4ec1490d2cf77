"""Kernels for rows that share their noise: judged on rows left out together.

A search that takes rows for independent takes noise that they share for signal: its length scales are too short, and
no stop mends that. So its kernels, at their best scales and at longer ones, are judged as stops are: by the error of
ridge on blocks or groups left out whole, each at its own best penalty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.operators import Dense
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.filters import Ridge
from stopwise.kernels import Constant, Kernel
from stopwise.kernels.stationary import Stationary
from stopwise.path import Path
from stopwise.problem import Problem
from stopwise.rules.left_out_blocks import LeftOutSet, Paired, by_block, least_error, sets_of
from stopwise.selection.result import Row, Selection, row_of

LONGER_SCALES = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Times the best scale of single rows. Noise shared by a hundredth of the rows can make that a hundredth too short."""
JUDGED_ROWS = 400
"""Rows that kernels are judged on: eigenpairs of thirty kernels then take two seconds."""
_ALLOWANCE = 0.5
"""Standard errors by which a simpler fit may err more, as in `LeaveBlockOut`."""


@dataclass(frozen=True)
class Judged:
    """Kernels, the mean squared error of each on rows left out together, in units of the responses' variance, and the
    degrees of freedom it takes there; `best` is the simplest that errs as little as any."""

    kernels: tuple[Kernel, ...]
    errors: Array
    freedom: Array
    best: int
    n_rows: int

    def told(self, before: Selection, unit: float) -> Selection:
        """The table of a search with these kernels before all others; `unit` of y is a standard deviation."""
        rows = []
        for k, kernel in enumerate(self.kernels):
            error, freedom = float(self.errors[k]), float(self.freedom[k])
            scores = {"left_out_rmse": unit * math.sqrt(error), "degrees_of_freedom": freedom, "score": error}
            rows.append(row_of(kernel, self.n_rows, k == self.best, scores, per_feature=False))
        name, count = self.kernels[self.best].name, len(self.kernels)
        reason = f"{name} predicts rows that are left out together as well as any of {count} kernels, most simply"
        features = tuple(_with_scales(before.features, self.kernels[self.best].core))
        return before.below(rows, reason, features=features, at_edge=None)


def _with_scales(features: Sequence[Row], core: Kernel) -> Iterator[Row]:
    """What a table says of features, with the length scales of a kernel, and relevances by them."""
    used = [row for row in features if row["used"]]
    if not isinstance(core, Stationary) or not used:
        yield from features
        return
    lengths = np.broadcast_to(core.scales, len(used))
    rates = np.array([row["spread"] for row in used]) / lengths
    told = iter(zip(lengths.tolist(), (rates / rates.max()).tolist(), strict=True))
    for row in features:
        yield {**row, **dict(zip(("length_scale", "relevance"), next(told), strict=True))} if row["used"] else row


def hang_together(problem: Problem) -> bool:
    """Whether rows were said to share their noise."""
    return problem.subjects is not None or problem.block is not None


def longer(kernels: Sequence[Kernel]) -> Iterator[Kernel]:
    """Each kernel, and the same at longer length scales where it has one."""
    for kernel in kernels:
        core = kernel.core
        if not isinstance(core, Stationary):
            yield kernel
            continue
        for factor in LONGER_SCALES:
            yield kernel.with_inner(core.with_length_scale(factor * core.scales))


def judge(problem: Problem, kernels: Sequence[Kernel]) -> Judged:
    """Which of some kernels predicts rows that are left out together as well as any, with the least freedom."""
    part, sets = _part_in_sets(problem)
    each = [_errors(part, sets, kernel) for kernel in kernels]
    table, freedom = np.stack([errors for errors, _ in each]), np.array([free for _, free in each])
    if part.subjects is None:
        table = by_block(table, len(sets[len(sets) // 2].rows))
    paired = Paired.of(table, part.n_samples)
    as_good = [k for k in range(len(kernels)) if k == paired.best or paired.within(k, _ALLOWANCE)]
    best = min(as_good, key=lambda k: float(freedom[k]))
    return Judged(tuple(kernels), table.sum(axis=1) / part.n_samples, freedom, best, part.n_rows)


def _part_in_sets(problem: Problem) -> tuple[Problem, list[LeftOutSet]]:
    """Some rows, at random where they are many, and what of them is left out together."""
    share = min(1.0, JUDGED_ROWS / problem.n_rows)
    if share < 1:
        trend = problem.trend
        problem = problem.subset(problem.random_rows(JUDGED_ROWS), Constant())
        problem = problem if trend is None else problem.with_trend(trend.sloped)
    block = max(1, round(share * (problem.block or 1)))
    return problem, sets_of(problem.data, block) or []


def _errors(problem: Problem, sets: list[LeftOutSet], kernel: Kernel) -> tuple[Array, float]:
    """Squared errors of each set at the best penalty, over responses of variance one; and the freedom there."""
    operator = Dense(problem.gram(kernel), weights=problem.weights, centred=problem.intercept, fixed=problem.fixed)
    path = problem.path(dense_spectrum(operator), Ridge())
    found = [_least(path.column(j), sets) for j in range(path.n_responses) if float(path.column(j).energy) > 0]
    return np.sum([errors for errors, _ in found], axis=0), sum(freedom for _, freedom in found)


def _least(path: Path, sets: list[LeftOutSet]) -> tuple[Array, float]:
    """Of one response: errors of each set where they are least in all, over its variance; and degrees of freedom."""
    at, errors = least_error(path, sets)
    return errors * (path.n_samples / float(path.energy)), float(path.degrees_of_freedom(at))
