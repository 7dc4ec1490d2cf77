"""What "auto" chooses on one covariate: Matern 1/2, 3/2 or 5/2 and its length scale, from all rows.

These kernels have a finite state, so evidence and leave-one-out error of every row cost a few passes (a Gaussian has
none). They are scored on bins that are an eighth as wide as the fit's detail, which no score can tell from single rows.
The score is the one of `scores`: evidence plus log left-out error, each at its own best penalty; of kernels that it can
barely tell apart the roughest is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stopwise.engine.line.merged_rows import LineRows, in_bins, merge_rows
from stopwise.engine.line.scores import ScaleFound, best_scale
from stopwise.kernels import Kernel, Laplace, Matern
from stopwise.problem import Problem
from stopwise.selection.result import Row, Selection
from stopwise.selection.rows import look_at_features

LEAST_PLACES = 300
"""With fewer distinct places the menu with the Gaussian is as quick, and no worse."""
_PLACES = 2_048
"""Bins of the first search."""
_BARELY = 4.0
"""Scores, times the number of values, that differ by less tell nothing: a score is two log likelihoods, each times -2,
and twice the log of a Bayes factor up to 2 is "not worth more than a bare mention" (Kass & Raftery 1995)."""
_SMOOTHNESS = {1: 0.5, 2: 1.5, 3: 2.5}


def _kernel(states: int, length_scale: float) -> Kernel:
    return Laplace(length_scale) if states == 1 else Matern(length_scale, smoothness=_SMOOTHNESS[states])


def states_of(given: Kernel | None) -> tuple[int, ...]:
    """Which kernels to try: all, or the one that was given without its length scale; none where it has no state."""
    if given is None:
        return (3, 2, 1)
    if isinstance(given, Laplace):
        return (1,)
    return (int(given.smoothness + 0.5),) if isinstance(given, Matern) else ()


def takes_line(problem: Problem, given: Kernel | None) -> bool:
    """Whether the choice is made here: one covariate with places enough."""
    x = problem.covariates
    if not isinstance(x, np.ndarray) or x.shape[1] != 1 or len(x) < LEAST_PLACES or not states_of(given):
        return False
    varies = bool(np.any(problem.responses != problem.responses[0]))
    return varies and np.unique(x[:, 0]).size >= LEAST_PLACES


def choose_on_line(problem: Problem, given: Kernel | None, block: int | None = None) -> tuple[Kernel, Selection]:
    """The kernel in the covariate's own units, and the table of what was tried.

    `block`: neighbouring rows that share their noise; they then count as one observation, their mean.
    """
    centred = problem.responses - problem.mean_response()
    spread = np.sqrt(np.average(centred**2, axis=0, weights=problem.weights))
    used = spread > 0
    rows = merge_rows(problem.covariates[:, 0], centred[:, used] / spread[used], problem.weights, problem.counts)
    if block is not None:
        rows = _means(rows, block)
    found = [best_scale(rows, p, intercept=problem.intercept, most_places=_PLACES) for p in states_of(given)]
    # Where neighbours share their noise, a rougher kernel would follow it: there no tie is broken towards it.
    n_values = math.inf if block is not None else rows.n_samples * rows.responses.shape[1]
    best = roughest_of_the_best(found, n_values)
    unit = float(spread[0] * problem.scale[0]) if len(spread) == 1 else 1.0
    table = [_row(each, unit, each is best) for each in sorted(found, key=lambda each: each is not best)]
    kernel = _kernel(best.states, best.length_scale)
    tie = "" if best.score == min(each.score for each in found) else ", up to what the rows can tell,"
    told = f"{kernel.name} has the lowest score{tie} on {rows.n_places:,} places of one covariate"
    column = look_at_features(problem.covariates, problem.weights)
    features = column.table(np.array([best.length_scale]), False)
    return kernel, Selection(tuple(table), features, told, best.n_places, rows.n_places, problem.n_samples)


def roughest_of_the_best(found: Sequence[ScaleFound], n_values: float) -> ScaleFound:
    """The kernel with the lowest score, or the roughest of those that `n_values` responses barely tell from it.

    A penalty mends a kernel that is too rough, and none that is too smooth.
    """
    barely = min(each.score for each in found) + _BARELY / n_values
    return min((each for each in found if each.score <= barely), key=lambda each: each.states)


def _means(rows: LineRows, block: int) -> LineRows:
    """The means of blocks as observations of equal precision: what differs inside a block says nothing of the noise."""
    means = in_bins(rows, max(2, rows.n_places // block))
    ones = np.ones(means.n_places)
    return merge_rows(means.covariate, means.responses, ones)


def _row(found: ScaleFound, unit: float, chosen: bool) -> Row:
    return {
        "kernel": _kernel(found.states, found.length_scale).name,
        "per_feature": False,
        "length_scale": [found.length_scale],
        "rows": found.n_places,
        "evidence": found.evidence,
        "left_out_rmse": unit * math.exp(found.log_left_out / 2),
        "score": found.score,
        "chosen": chosen,
    }
