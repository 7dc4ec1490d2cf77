"""What "auto" chooses: kernel, length scales, and whether a linear part is left free; for any rows, a line, or a loss.

Everything happens in standard deviations of the features and of y; the kernel that comes out is in the features' units.

On one covariate Matern 1/2, 3/2 and 5/2 are scored on all rows: they have a finite state, so that evidence and left-out
error of every row cost a few passes (a Gaussian has none). Bins are an eighth as wide as the fit's detail, which no
score can tell from single rows.

For another loss than squares, the search for squares proposes: its own choice, the best of each kernel with one length
scale, and longer ones, up to nearly linear; for classes as many more with skewed features drawn in. Each is then walked
along the clock with the loss itself on some hundred rows. As for squares the lowest sum of left-out loss and evidence
wins (`LossPath.score`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.memory import keep_freed_memory
from stopwise._support.threads import blas_threads
from stopwise.engine.line.merged_rows import LineRows, block_means, merge_rows
from stopwise.engine.line.scores import ScaleFound, best_scale
from stopwise.engine.loss_fits.loss_path import LossPath, walk
from stopwise.engine.loss_fits.loss_rows import LossRows, kernel_problem, landmark_count
from stopwise.engine.solves.search_start import SearchStart
from stopwise.kernels import Constant, Gaussian, Kernel, Laplace, Matern, ProductLaplace, ProductMatern
from stopwise.kernels.stationary import Stationary
from stopwise.kernels.warped import Warped, warp_of
from stopwise.losses import Loss
from stopwise.problem import Problem, make_problem
from stopwise.sample import look_at_features, make_sample, with_powers
from stopwise.selection.candidates import BARELY
from stopwise.selection.dependent_rows import hang_together, judge, longer
from stopwise.selection.kernel_search import Budget, Search, effort
from stopwise.selection.result import Selection, chosen_first, describe, row_of

KERNELS: tuple[Stationary, ...] = (Gaussian(), Matern(), ProductMatern(), Laplace(), ProductLaplace())
"""Smooth ones first: an earlier one wins a tie."""
OWN_KERNELS = 10
"""Up to so many responses may have a kernel each: the time grows with their number, and so does what sharing gains."""
LEAST_PLACES, _PLACES = 300, 2_048
"""On a line: with fewer distinct places the menu with the Gaussian is as quick, and no worse; bins of the first search.
"""
LOSS_KERNELS: tuple[Stationary, ...] = (Gaussian(), Laplace())
"""The smoothest and the roughest: an average of the two may be proposed as well."""
LOSS_BUDGET = Budget(rows=200, rounds=(), unseen_rows=300, steps_together=4, first_steps=3, steps=6)
"""The search that proposes for a loss; it is a quarter of what squares get, since the loss itself judges."""
JUDGED_CLASSES, JUDGED_NUMBERS = (400, 150), (800, 200)
"""Rows and landmarks that candidates are judged on: of counts and residuals a few rows carry most of the loss."""
LONGER, STRAIGHT = 4.0, 300.0
"""How much longer than its best the smoothest kernel's length scale is tried, and how many standard deviations (times
the root of their number) make a Gaussian linear: curves are then penalised 10^5 times as much as lines."""


@dataclass(frozen=True)
class Chosen:
    """A kernel with every "auto" filled in, the problem on the features it uses, and what was tried."""

    kernel: Kernel
    problem: Problem
    features: Array | None = None
    table: Any = None
    scores: Array | None = None
    """A score for each response (NaN: constant), whatever the number of its length scales; lower is better."""
    responses: tuple[int, ...] = (0,)
    """Which columns of y it is for."""
    starts: tuple[SearchStart, ...] | None = None
    """For each of them where a search for its stop starts: its left-out errors on some rows are known."""
    landmarks: int | None = None
    """How many rows are enough to stand for all, where that was judged."""

    def among(self, columns: Sequence[int]) -> Chosen:
        """The same choice for some of all responses."""
        starts = None if self.starts is None else tuple(self.starts[j] for j in columns)
        return replace(self, problem=self.problem.of_responses(columns), responses=tuple(columns), starts=starts)


def choose_kernels(
    problem: Problem, given: Kernel | None, relevance: bool | str, *, linear: bool, together: bool = False
) -> list[Chosen]:
    """One kernel for each response, shared by those that it is expected to predict better than a kernel of their own.

    All share one where that is asked for (`together`), and with more than `OWN_KERNELS` responses.
    """
    everyone = tuple(range(problem.responses.shape[1]))

    def own(j: int) -> Chosen:
        part = problem.of_responses([j])
        return replace(choose_kernel(part, given, relevance, linear=linear), responses=(j,))

    few = 1 < len(everyone) <= OWN_KERNELS and not together
    if few and states_on_line(problem, given):  # one length scale from hundreds of rows: sharing gains nothing
        return [own(j) for j in everyone]
    shared = replace(choose_kernel(problem, given, relevance, linear=linear), responses=everyone)
    if not few or shared.scores is None:
        return [shared]
    alone = zip((own(j) for j in everyone), shared.scores, strict=True)
    apart = [each for each, score in alone if each.scores is not None and each.scores[0] < score]
    rest = [j for j in everyone if all(j not in each.responses for each in apart)]
    return [shared.among(rest), *apart] if rest else apart


def choose_kernel(problem: Problem, given: Kernel | None, relevance: bool | str, *, linear: bool = False) -> Chosen:
    """The kernel for a problem: the one given, which sees X as it is, or the best of all (None) or of its scales.

    `linear`: whether a linear part may be left unpenalised, which the solver must be able to project out.
    """
    kernels = _asked(given, KERNELS)
    if given is not None and not kernels:
        kernel = given.resolved(problem.covariates)
        kernel.check(problem.covariates)
        return Chosen(kernel, problem)
    if states := states_on_line(problem, given):
        found = _on_line(problem, states, free=given is None)
        return found if problem.subjects is None else _judged_together(found, kernels)
    with blas_threads(1):  # samples are small
        free = given is None
        found = search_for(problem, Search(kernels, relevance, linear and free, free, *effort(problem.n_rows)))
        return _judged_together(found, kernels) if hang_together(problem) else found


def _judged_together(found: Chosen, kernels: Sequence[Stationary]) -> Chosen:
    """What a search found and others that it tried, at their scales and longer ones, judged on rows left out together.

    Other kernels than the one found have one length scale for all features.
    """
    table = cast(Selection, found.table)
    if not len(table):
        return found
    tried = _at_one_scale([*kernels, Matern(smoothness=2.5)], table)
    judged = judge(found.problem, list(dict.fromkeys(longer([*tried, found.kernel]))))
    unit = found.problem.spread() if found.problem.responses.shape[1] == 1 else 1.0
    return replace(found, kernel=judged.kernels[judged.best], table=judged.told(table, unit), starts=None)


def _at_one_scale(kernels: Sequence[Stationary], table: Selection) -> list[Stationary]:
    """Those kernels that a search tried with one length scale for all features, at that scale."""
    lengths = {row["kernel"]: row["length_scale"] for row in table if not row["per_feature"]}
    return [kernel.with_length_scale(lengths[kernel.name]) for kernel in kernels if kernel.name in lengths]


def _asked(given: Kernel | None, menu: tuple[Stationary, ...]) -> tuple[Stationary, ...]:
    """The kernels whose length scales are looked for: of none given the menu, of one with its scales none."""
    if given is None:
        return menu
    return (given.with_length_scale(1.0),) if isinstance(given, Stationary) and given.needs_scale else ()


def search_for(problem: Problem, search: Search) -> Chosen:
    """What a search finds best for a problem, in the features' own units, and the table of all that was tried."""
    keep_freed_memory()
    features = look_at_features(problem.covariates, problem.weights, problem.shared_scales)
    if not features.kept.size:
        nothing = Selection((), features.table(np.zeros(0), False), "no feature varies: the fit is constant")
        return Chosen(search.kernels[0].with_length_scale(1.0), problem, None, nothing)
    sample = make_sample(problem, features, search.budget.judged_rows + search.budget.unseen_rows)
    best, tried = search.best(with_powers(sample, features) if search.warped else sample)
    kept = features.kept if features.kept.size < problem.covariates.shape[1] else None
    if kept is not None:
        problem = replace(problem, covariates=problem.covariates[:, kept], shared_scales=features.shared)
    varies = np.ptp(problem.responses, axis=0) > 0
    scores = np.full(varies.size, np.nan)
    scores[varies] = best.fair_scores
    table, kernel = describe(problem, features, best, tried), best.in_units(features)
    problem = problem.with_trend(best.sample.slopes) if best.sample.linear else problem
    return Chosen(kernel, problem, kept, table, scores, starts=best.starts if np.all(varies) else None)


# ---- one covariate ----------------------------------------------------------------------------------------------


def states_on_line(problem: Problem, given: Kernel | None) -> tuple[int, ...]:
    """The states of the kernels to try on one covariate with places enough, and none elsewhere."""
    states: tuple[int, ...] = (3, 2, 1) if given is None else (1,) if isinstance(given, Laplace) else ()
    if isinstance(given, Matern):
        states = (int(given.smoothness + 0.5),)
    x = problem.covariates
    if not states or not isinstance(x, np.ndarray) or x.shape[1] != 1 or len(x) < LEAST_PLACES:
        return ()
    varies = bool(np.any(problem.responses != problem.responses[0]))
    return states if varies and np.unique(x[:, 0]).size >= LEAST_PLACES else ()


def _on_line(problem: Problem, states: Sequence[int], *, free: bool) -> Chosen:
    """The best of some kernels, of any where they are `free`: then also of a skewed covariate drawn in by a power.

    Neighbours that share their noise count as one observation, their mean.
    """
    x, centred = problem.covariates.astype(np.float64, copy=False), problem.responses - problem.mean_response()
    spread = np.sqrt(np.average(centred**2, axis=0, weights=problem.weights))
    used = spread > 0

    def merged(seen: Array) -> LineRows:
        return merge_rows(seen[:, 0], centred[:, used] / spread[used], problem.weights, problem.counts)

    def scales(seen: LineRows, warp: Warped | None = None) -> list[ScaleFound]:
        best = (best_scale(seen, p, intercept=problem.intercept, most_places=_PLACES) for p in states)
        return [replace(each, warp=warp) for each in best]

    rows, warp = merged(x), None
    n_values = rows.n_samples * rows.responses.shape[1]
    if problem.block is not None:
        # A rougher kernel would follow the noise that neighbours share: no tie is broken towards it.
        rows, n_values = block_means(rows, problem.block), math.inf
    elif free:
        some = np.linspace(0, rows.n_places - 1, min(rows.n_places, _PLACES)).round().astype(int)
        warp = warp_of(rows.covariate[some, None], Constant(1.0))
    found = scales(rows)
    best = roughest_of_the_best(found, n_values)
    if warp is not None:
        drawn_in = scales(merged(warp.places(x)), warp)
        if min(each.score for each in drawn_in) + BARELY / n_values < min(each.score for each in found):
            best = roughest_of_the_best(drawn_in, n_values)
        found += drawn_in
    unit = problem.spread() if len(spread) == 1 else 1.0
    table = []
    for each in found:
        error = unit * math.exp(each.log_left_out / 2)
        scores = {"evidence": each.evidence, "left_out_rmse": error, "score": each.score}
        kind = {"per_feature": False, "warped": each.warp is not None}
        table.append(row_of(each.kernel, each.n_places, each is best, scores, **kind))
    tie = "" if best.score == min(each.score for each in found) else ", up to what the rows can tell,"
    told = f"{best.kernel.name} has the lowest score{tie} on {rows.n_places:,} places of one covariate"
    told += "" if best.warp is None else "; it is skewed, and drawn in by a power"
    power = None if best.warp is None else np.array(best.warp.power)
    features = look_at_features(x, problem.weights).table(np.array([best.length_scale]), False, power)
    counts = best.n_places, rows.n_places, problem.n_samples
    return Chosen(best.kernel, problem, None, Selection(chosen_first(table), features, told, *counts))


def roughest_of_the_best(found: Sequence[ScaleFound], n_values: float) -> ScaleFound:
    """The kernel with the lowest score, or the roughest of those that `n_values` responses barely tell from it.

    A penalty mends a kernel that is too rough, and none that is too smooth.
    """
    barely = min(each.score for each in found) + BARELY / n_values
    return min((each for each in found if each.score <= barely), key=lambda each: each.states)


# ---- another loss -----------------------------------------------------------------------------------------------


def choose_for_loss(
    rows: LossRows, loss: Loss, targets: Array, given: Kernel | None, relevance: bool | str, intercept: bool, seed: int
) -> Chosen:
    """The kernel for a loss; `targets` (n, q) stand for the responses where squares propose."""
    seen = rows.counts if loss.for_classes else rows.weights  # the weight of a label says nothing of its noise
    problem = make_problem(rows.covariates, targets, seen, intercept=True, seed=seed)
    problem = replace(problem, shared_scales=rows.shared_scales)
    kernels = _asked(given, LOSS_KERNELS)
    if not kernels:
        return choose_kernel(problem, given, relevance)
    with blas_threads(1):
        search = Search(kernels, relevance, budget=LOSS_BUDGET)
        proposed = search_for(problem, search)
        table = cast(Selection, proposed.table)
        n_judged, n_landmarks = JUDGED_CLASSES if loss.for_classes else JUDGED_NUMBERS
        picked = np.sort(np.random.default_rng(seed).permutation(len(rows.y))[:n_judged])
        sample = replace(rows, covariates=proposed.problem.covariates).take(picked)
        if len(table) == 0 or len(np.unique(sample.y)) < 2:
            return proposed
        menu = _proposals(proposed, search)
        if given is None and loss.for_classes:
            # Not of counts, where it raised the deviance (docs/benchmarks.md); other losses of numbers were not tried.
            menu += _warped_proposals(proposed, search)
        settings = sample, loss, n_landmarks, seed, intercept
        judged = {each: walk(kernel_problem(each, *settings), final=False) for each in menu}
    best = min(judged, key=lambda each: round(judged[each].score / sample.unit, 9))
    table = _told(table, judged, best, sample)
    if isinstance(best.core, Stationary):  # a sum keeps the table of what was proposed
        table = replace(table, features=_scales_told(best, rows, proposed.features))
    freedom = judged[best].chosen.degrees_of_freedom / loss.width
    enough = landmark_count(len(rows.y), freedom * math.sqrt(len(rows.y) / len(sample.y)))
    return replace(proposed, kernel=best, table=table, landmarks=enough)


def _proposals(found: Chosen, search: Search) -> list[Kernel]:
    """What a search proposes: its own choice last.

    Before it, unless length scales are to be one per feature, the smoothest kernel nearly linear and at a longer length
    scale than its best, then each kernel at its best.
    """
    best = _at_one_scale(search.kernels, found.table)
    smooth = best[0]
    spread = look_at_features(found.problem.covariates, found.problem.weights, found.problem.shared_scales).spread
    straight = STRAIGHT * math.sqrt(spread.size) * spread
    stretched = [smooth.with_length_scale(each) for each in (straight, LONGER * smooth.scales)]
    return [*([] if search.relevance is True else [*stretched, *best]), found.kernel]


def _warped_proposals(found: Chosen, search: Search) -> list[Kernel]:
    """What the same search proposes once skewed features are drawn in; nothing where none is skewed."""
    rows = found.problem.covariates.astype(np.float64)
    warp = warp_of(rows, found.kernel, [column for group in found.problem.shared_scales for column in group])
    if warp is None:
        return []
    again = search_for(replace(found.problem, covariates=warp.places(rows)), search)
    return [warp.with_inner(each) for each in _proposals(again, search)]


def _scales_told(kernel: Kernel, rows: LossRows, kept: Array | None) -> tuple[dict[str, Any], ...]:
    """For each feature its length scale and relevance where the kernel sees it, and its power."""
    used, seen = slice(None) if kept is None else kept, rows.covariates.astype(np.float64)
    seen[:, used] = kernel.places(seen[:, used])
    features = look_at_features(seen, rows.weights, rows.shared_scales)
    scales = np.asarray(cast(Stationary, kernel.core).length_scale, dtype=np.float64)
    told = features.table(np.broadcast_to(scales, features.spread.size), True)
    if not isinstance(kernel, Warped):
        return told
    powers = iter(kernel.power)
    return tuple({**row, "power": next(powers)} if row["used"] else row for row in told)


def _told(table: Selection, judged: dict[Kernel, LossPath], best: Kernel, sample: LossRows) -> Selection:
    rows = [
        row_of(kernel, len(sample.y), kernel is best, {"left_out_loss": path.lowest, "score": path.score})
        for kernel, path in judged.items()
    ]
    score, lowest = judged[best].score, judged[best].lowest
    told = "left-out loss" if score == lowest else "sum of left-out loss and evidence"
    reason = f"{best.name} has the lowest {told}, {score:.4g} a row, of {len(judged)} kernels"
    reason += "; skewed features are drawn in by powers" if isinstance(best, Warped) else ""
    return table.below(rows, reason)
