"""What "auto" chooses: kernel, length scales, one or one per feature, and whether a linear part is left free.

Candidates are learned on a few hundred distinct rows and ranked by one score; the best few are learned further on more
rows; length scales per feature must not do worse than one for all on rows that took no part. Candidates that left-out
rows cannot tell from the best (within one standard error) share its place. Everything happens in standard deviations
of the features and of y, so units do not matter; the kernel that comes out is in the features' own units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_threads
from stopwise.kernels import Kernel
from stopwise.kernels.stationary import Stationary
from stopwise.problem import Problem
from stopwise.selection.candidates import KERNELS, Candidate, Part, judge, learned_further, listed
from stopwise.selection.length_scales import Host, Place
from stopwise.selection.result import Selection, describe
from stopwise.selection.rows import Sample, look_at_features, make_sample, median_distance

LEAST_ROWS = 8
"""With fewer distinct rows nothing is searched: Matern 3/2 at the median distance."""


@dataclass(frozen=True)
class Budget:
    """How many distinct rows each stage looks at, and how many candidates reach the second."""

    first: int = 300
    second: int = 600
    finalists: int = 3
    unseen: int = 600
    sharing: int = 3
    averaged: int = 2500
    """Averages of kernels are taken up to so many rows: beyond, chance is small and a sum costs as many times more."""


@dataclass(frozen=True)
class Chosen:
    """A kernel with every "auto" filled in, the problem on the features it uses, and what was tried."""

    kernel: Kernel
    problem: Problem
    features: Array | None = None
    table: Any = None


def choose_kernel(problem: Problem, given: Kernel | None, relevance: bool | str) -> Chosen:
    """The kernel for a problem: the one given, which sees X as it is, or the best of all (None) or of its scales."""
    if given is not None and not (isinstance(given, Stationary) and given.length_scale == "auto"):
        kernel = given.resolved(problem.covariates)
        kernel.check(problem.covariates)
        return Chosen(kernel, problem)
    kernels = KERNELS if given is None else (given.with_length_scale(1.0),)
    # A kernel asked for by name keeps one length scale unless more are asked for.
    wanted = relevance is True or (relevance == "auto" and given is None)
    with blas_threads(1):  # samples are small
        return search(problem, kernels, per_feature=wanted, forced=relevance is True)


def search(problem: Problem, kernels: Sequence[Stationary], *, per_feature: bool, forced: bool = False) -> Chosen:
    """The best of some kernels for a problem."""
    features = look_at_features(problem.covariates, problem.weights)
    if not features.kept.size:
        nothing = Selection((), features.table(None, False), "no feature varies: the fit is constant")
        return Chosen(kernels[0].with_length_scale(1.0), problem, None, nothing)
    budget, place = Budget(), Host()
    rows = make_sample(problem, features, budget.second + budget.unseen)
    sample = rows.first(budget.second)
    if sample.n_rows < LEAST_ROWS or not sample.means.shape[1]:
        tried = [_unsearched(sample, kernels, place)]
        best = tried[0]
    else:
        tried = list(listed(sample.first(budget.first), kernels, place, per_feature=per_feature))
        allowed = [c for c in tried if c.per_feature] if forced and features.kept.size > 1 else tried
        finalists = _finalists(allowed, sample, budget, place)
        tried += [c for c in finalists if c not in tried]
        best = _ranked(finalists)[0]
        if not forced:
            best = _guarded(best, finalists, rows, place)
        best = _averaged(best, finalists, budget, place)
    table = describe(problem, features, best, tried)
    kernel = best.in_units(features.spread)
    if features.kept.size == problem.covariates.shape[1]:
        return Chosen(kernel, problem, None, table)
    kept = replace(problem, covariates=problem.covariates[:, features.kept])
    return Chosen(kernel, kept, features.kept, table)


def _ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best score first; the smoother kernel (earlier in the list) where two tie."""
    return sorted(candidates, key=lambda c: round(c.score, 9))


def _finalists(tried: Sequence[Candidate], sample: Sample, budget: Budget, place: Place) -> list[Candidate]:
    """The best few and the best with one length scale, learned further on all rows of the sample."""
    ranked = _ranked(tried)
    picked = ranked[: budget.finalists]
    picked += [c for c in ranked if not c.per_feature and c not in picked][:1]
    if sample.n_rows <= budget.first:
        return list(ranked)
    return [learned_further(c, sample, place) for c in picked]


def _guarded(best: Candidate, finalists: Sequence[Candidate], rows: Sample, place: Place) -> Candidate:
    """The best, unless its length scales per feature do worse than one for all on rows that took no part."""
    one = [c for c in _ranked(finalists) if not c.per_feature]
    unseen = np.arange(best.sample.n_rows, rows.n_rows)
    if not best.per_feature or not one or unseen.size < LEAST_ROWS:
        return best
    gap = _unseen_errors(best, rows, unseen, place) - _unseen_errors(one[0], rows, unseen, place)
    worse = float(gap.mean()) > float(gap.std()) / math.sqrt(gap.size)
    return one[0] if worse else best


def _unseen_errors(candidate: Candidate, rows: Sample, unseen: Array, place: Place) -> Array:
    """Squared errors on rows outside a candidate's sample, averaged over responses, in units of the sample's."""
    seen = slice(candidate.sample.n_rows)
    predicted = candidate.predict(rows.covariates[unseen], place)
    middle = np.average(rows.means[seen], axis=0, weights=rows.weights[seen]) if rows.intercept else 0.0
    unit = rows.means[seen].std(axis=0)
    return (((rows.means[unseen] - middle) / unit - predicted) ** 2).mean(axis=1)


def _averaged(best: Candidate, finalists: Sequence[Candidate], budget: Budget, place: Place) -> Candidate:
    """The best, or its average with others that left-out rows cannot tell from it."""
    if best.sample.n_distinct > budget.averaged:
        return best
    gaps = [(c, *c.gap(best)) for c in _ranked(finalists) if c is not best]
    others = [c for c, gap, error in gaps if gap <= error][: budget.sharing]
    if not others:
        return best
    share = 0.5 / len(others)
    parts = [Part(0.5, best.kernel, best.scales), *(Part(share, c.kernel, c.scales) for c in others)]
    return replace(judge(best.sample, parts, place, per_feature=best.per_feature), edge=best.edge, fall=best.fall)


def _unsearched(sample: Sample, kernels: Sequence[Stationary], place: Place) -> Candidate:
    kernel = kernels[min(1, len(kernels) - 1)]
    scales = np.full(sample.covariates.shape[1], median_distance(sample.covariates))
    return judge(sample, [Part(1.0, kernel, scales)], place, per_feature=False)
