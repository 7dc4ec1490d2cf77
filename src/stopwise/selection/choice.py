"""What "auto" chooses: kernel, length scale, and whether each feature gets its own.

On at most 600 distinct rows: the best length scale of each kernel by evidence plus leave-one-out (`bandwidth`), then
one length scale per feature by the gradient of the evidence (`relevance`), taken where rows that had no part in the
learning are predicted better (`crossfit`), and at last averages of kernels that the data cannot tell from the winner
(`hedge`). Everything happens in standard deviations of the features and of y, so
units do not matter; the kernel that comes out is in the features' own units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_threads
from stopwise.kernels import Gaussian, Kernel, Laplace, Matern
from stopwise.kernels.radial import Radial
from stopwise.problem import Problem
from stopwise.selection import one_covariate
from stopwise.selection.kernel_average import hedged
from stopwise.selection.length_scale import Candidate, isotropic
from stopwise.selection.relevance import Learned, half_distances, learn, learn_from
from stopwise.selection.result import Row, Selection
from stopwise.selection.sample import Features, Sample, look_at_features, make_sample, median_distance
from stopwise.selection.scores import Ridge, Score
from stopwise.selection.unseen_rows import Contender, contend, few, log_fold_error

KERNELS: tuple[Radial, ...] = (Gaussian(), Matern(smoothness=1.5), Laplace())
CLEAR, CLEAR_IF_FEW = 0.0, 0.04
"""By how much one length scale per feature must lower the log squared error on unseen rows to be taken."""
LEAST_ROWS = 8
"""With fewer distinct rows nothing is searched: Matern 3/2 at the median distance."""
_WORSE = 1.5
"""How many times as large the leave-one-out error of one length scale per feature may be."""
_FIRST_STEPS, _FOLD_STEPS, _POLISH_STEPS = 25, 15, 12
_DIGITS = 64
"""Learned log length scales are rounded to 1/64: finer differences are the optimiser's, not the data's."""


@dataclass(frozen=True)
class Chosen:
    """A kernel with every "auto" filled in, the problem on the features it uses, and what was tried."""

    kernel: Kernel
    problem: Problem
    features: Array | None = None
    table: Any = None


def choose_kernel(problem: Problem, given: Kernel | None, relevance: bool | str) -> Chosen:
    """The kernel for a problem: the one given, which sees X as it is, or the best of all (None) or of its scales."""
    if given is not None and not (isinstance(given, Radial) and given.length_scale == "auto"):
        kernel = given.resolved(problem.covariates)
        kernel.check(problem.covariates)
        return Chosen(kernel, problem)
    if one_covariate.takes(problem, given):
        kernel, table = one_covariate.choose(problem, given)
        return Chosen(kernel, problem, None, table)
    kernels = KERNELS if given is None else (given.with_length_scale(1.0),)
    # A kernel asked for by name keeps one length scale unless more are asked for.
    wanted = relevance is True or (relevance == "auto" and given is None)
    with blas_threads(1):  # samples are small
        return search(problem, kernels, per_feature=wanted, forced=relevance is True)


def search(problem: Problem, kernels: Sequence[Radial], *, per_feature: bool, forced: bool = False) -> Chosen:
    """The best of some kernels for a problem."""
    features = look_at_features(problem.covariates, problem.weights)
    if not features.kept.size:
        table = Selection((), _feature_rows(features, None, False), "no feature varies: the fit is constant")
        return Chosen(kernels[0].with_length_scale(1.0), problem, None, table)
    sample = make_sample(problem, features)
    if sample.n_rows < LEAST_ROWS or not sample.means.shape[1]:
        tried = [_unsearched(sample, kernels)]
        best, reason = tried[0], "too little to choose from: the median distance as the length scale"
    else:
        best, tried = isotropic(sample, kernels)
        reason = f"{best.kernel.name} with one length scale has the lowest score"
        if few(sample):
            best = _by_folds(sample, best, tried)
            reason = f"{best.kernel.name} with one length scale has the lowest score and error over five folds together"
        one = best
        if per_feature and features.kept.size > 1:
            best, more, reason = _per_feature(sample, best, kernels, forced)
            tried = [*tried, *more]
        alone, best = best, hedged(sample, best, tried)
        if best.per_feature and not forced and _predicts_worse(best, one):
            reason = f"{one.kernel.name} with one length scale; one per feature predicts left-out rows worse"
            alone, best = one, hedged(sample, one, tried)
        if best is not alone:
            tried = [alone, *tried]
            reason = f"{reason}; averaged with {_others(best)}, no worse on left-out rows as far as they can tell"
    kernel = best.in_units(features.spread)
    table = _table(problem, features, best, tried, reason, sample)
    everything = features.kept.size == problem.covariates.shape[1]
    if everything:
        return Chosen(kernel, problem, None, table)
    kept = replace(problem, covariates=problem.covariates[:, features.kept])
    return Chosen(kernel, kept, features.kept, table)


def _predicts_worse(one: Candidate, other: Candidate) -> bool:
    """Whether a candidate's leave-one-out error is larger by more than a bad draw of unseen rows would explain."""
    return one.score.leave_one_out > other.score.leave_one_out + math.log(_WORSE)


def _unsearched(sample: Sample, kernels: Sequence[Radial]) -> Candidate:
    kernel = kernels[min(1, len(kernels) - 1)]
    scales = np.full(sample.covariates.shape[1], median_distance(sample.covariates))
    return Candidate(kernel, scales, False, Score(math.nan, math.nan, math.nan, math.nan), sample.n_rows)


def _others(best: Candidate) -> str:
    if best.per_feature:
        return f"{best.parts[1][1].name} with one length scale"
    names = [kernel.name for _, kernel, _ in best.parts[1:] if kernel != best.kernel]
    return "the best " + " and ".join(names)


def _by_folds(sample: Sample, best: Candidate, tried: list[Candidate]) -> Candidate:
    """Of the candidates that lead by evidence, by leave-one-out or by both, the best when five folds have a say.

    In a small sample leave-one-out and evidence can agree on a kernel that fails a little further away. So the log
    error over five folds counts as much as the mean of the two.
    """
    leaders: dict[int, Candidate] = {id(best): best}
    for kernel in {candidate.kernel: None for candidate in tried}:
        own = [candidate for candidate in tried if candidate.kernel == kernel]
        for key in ("total", "leave_one_out", "evidence"):
            leader = min(own, key=lambda c: round(getattr(c.score, key), 9))
            leaders.setdefault(id(leader), leader)
    return min(leaders.values(), key=lambda c: round(log_fold_error(sample, c.kernel, c.scales) + c.score.total / 2, 9))


def _per_feature(
    sample: Sample, one: Candidate, kernels: Sequence[Radial], forced: bool
) -> tuple[Candidate, list[Candidate], str]:
    """The better of one length scale and one per feature, what else was tried, and why."""
    before = contend(sample, one.kernel, lambda part: _as_learned(part, one))
    starts = _starts(sample, one)
    contenders = [_contender(sample, kernel, starts) for kernel in kernels]
    rows = [_as_candidate(sample, c) for c in contenders]
    one = replace(one, contest=before.score, unseen=before.unseen)
    margin = CLEAR_IF_FEW if few(sample) else CLEAR
    better = [c for c in contenders if forced or c.clearly_better(before, margin)]
    if not better:
        saved = 1 - math.exp(min(c.unseen for c in contenders) - before.unseen)
        told = f"{one.kernel.name} with one length scale; one per feature does not pay clearly on unseen rows"
        return one, rows, f"{told} ({100 * saved:.1f}% of the squared error saved)"
    winner = min(better, key=lambda c: round(c.score, 9))
    best = _polish(sample, winner)
    saved = 1 - math.exp(winner.unseen - before.unseen)
    told = f"{best.kernel.name} with one length scale per feature"
    return best, [*rows, best], f"{told} saves {100 * saved:.1f}% of the squared error on unseen rows"


def _contender(sample: Sample, kernel: Radial, starts: list[tuple[Array, float]]) -> Contender:
    return contend(
        sample,
        kernel,
        lambda part: learn_from(part, kernel, starts, _FIRST_STEPS),
        lambda part, whole: learn(part, kernel, *starts[whole.start], _FOLD_STEPS),
    )


def _starts(sample: Sample, one: Candidate) -> list[tuple[Array, float]]:
    """The best single length scale with its ratio, and the median distance with a moderate one."""
    d, n = sample.covariates.shape[1], sample.n_samples
    ratio = math.log(max(one.score.ratio / n, 1e-2))
    return [(-np.log(one.scales), ratio), (np.full(d, -math.log(median_distance(sample.covariates))), math.log(30.0))]


def _as_learned(part: Sample, one: Candidate) -> Learned:
    """One length scale as if learned: its evidence on these rows."""
    evidence = Ridge(part, one.gram(part.covariates)).score().evidence
    return Learned(cast(Array, -np.log(one.scales)), 0.0, evidence, 0)


def _as_candidate(sample: Sample, contender: Contender) -> Candidate:
    empty = Score(contender.learned.value, math.nan, math.exp(contender.learned.log_ratio), math.nan)
    rows = min(sample.n_rows, 300)
    return Candidate(
        contender.kernel, contender.learned.scales, True, empty, rows, None, contender.score, contender.unseen
    )


def _polish(sample: Sample, winner: Contender) -> Candidate:
    """A few more steps on the whole sample, rounded."""
    found = winner.learned
    if sample.n_rows > 300:
        found = learn(sample, winner.kernel, found.logs, found.log_ratio, _POLISH_STEPS)
    scales = np.exp(-np.round(found.logs * _DIGITS) / _DIGITS)
    gram = winner.kernel.profile(half_distances(sample.covariates / scales))
    score = Ridge(sample, gram).score()
    return Candidate(winner.kernel, scales, True, score, sample.n_rows, None, winner.score, winner.unseen)


def _table(
    problem: Problem, features: Features, best: Candidate, tried: list[Candidate], reason: str, sample: Sample
) -> Selection:
    """Everything tried in user units, the chosen one first."""
    unit = 1.0
    if problem.responses.shape[1] == 1:
        middle = problem.mean_response()
        spread = np.average((problem.responses - middle) ** 2, axis=0, weights=problem.weights)
        unit = float(np.sqrt(spread[0]) * problem.scale[0])
    others = [
        c
        for c in tried
        if bool(best.parts)
        or not (c.kernel == best.kernel and np.array_equal(c.scales, best.scales) and c.n_rows == best.n_rows)
    ]
    rows = [_row(candidate, features, unit, candidate is best) for candidate in [best, *others]]
    notes = {
        "n_rows": sample.n_rows,
        "n_samples": problem.n_samples,
        "n_distinct": sample.n_distinct,
        "at_edge": best.at_edge,
        "edge_fall": best.edge_fall,
    }
    return Selection(tuple(rows), _feature_rows(features, best.scales, best.per_feature), reason, notes)


def _row(candidate: Candidate, features: Features, unit: float, chosen: bool) -> Row:
    score = candidate.score
    left_out = score.leave_one_out if math.isfinite(score.leave_one_out) else candidate.unseen
    return {
        "kernel": candidate.name,
        "per_feature": candidate.per_feature,
        "length_scale": [float(v) for v in candidate.scales * features.spread],
        "rows": candidate.n_rows,
        "evidence": score.evidence,
        "left_out_rmse": None if left_out is None else unit * math.exp(left_out / 2),
        "score": score.total if math.isfinite(score.total) else candidate.contest,
        "unseen_score": candidate.contest,
        "chosen": chosen,
    }


def _feature_rows(features: Features, scales: Array | None, per_feature: bool) -> tuple[Row, ...]:
    """For each column of X its spread, length scale and relevance (the largest is 1), or why it was left out."""
    rows: dict[int, Row] = {j: {"feature": j, "used": False, "why": why} for j, why in features.dropped.items()}
    rates = None if scales is None else 1 / scales
    for position, column in enumerate(features.kept):
        row: Row = {"feature": int(column), "used": True, "spread": float(features.spread[position])}
        if scales is not None and rates is not None:
            row["length_scale"] = float(scales[position] * features.spread[position])
            row["relevance"] = float(rates[position] / rates.max()) if per_feature else 1.0
        rows[int(column)] = row
    return tuple(rows[j] for j in sorted(rows))
