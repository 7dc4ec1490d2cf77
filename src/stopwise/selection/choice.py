"""What "auto" chooses: kernel, length scales, one or one per feature, and whether a linear part is left free.

Everything happens in standard deviations of the features and of y, so units do not matter; the kernel that comes out is
in the features' own units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.memory import keep_freed_memory
from stopwise._support.threads import blas_threads
from stopwise.engine.solves.search_start import SearchStart
from stopwise.kernels import Gaussian, Kernel, Laplace, Matern, ProductLaplace, ProductMatern
from stopwise.kernels.stationary import Stationary
from stopwise.problem import Problem
from stopwise.selection.kernel_search import Search, effort
from stopwise.selection.one_covariate import choose_on_line, takes_line
from stopwise.selection.result import Selection, describe
from stopwise.selection.rows import look_at_features, make_sample

KERNELS: tuple[Stationary, ...] = (Gaussian(), Matern(), ProductMatern(), Laplace(), ProductLaplace())
"""Smooth ones first: an earlier one wins a tie."""
OWN_KERNELS = 10
"""Up to so many responses may have a kernel each: the time grows with their number, and so does what sharing gains."""


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
    if few and takes_line(problem, given):  # one length scale from hundreds of rows: sharing gains nothing
        return [own(j) for j in everyone]
    shared = replace(choose_kernel(problem, given, relevance, linear=linear), responses=everyone)
    if not few or shared.scores is None:
        return [shared]
    known = [(own(j), score) for j, score in zip(everyone, shared.scores, strict=True)]
    apart = [each for each, score in known if each.scores is not None and each.scores[0] < score]
    rest = [j for j in everyone if all(j not in each.responses for each in apart)]
    return [shared.among(rest), *apart] if rest else apart


def choose_kernel(problem: Problem, given: Kernel | None, relevance: bool | str, *, linear: bool = False) -> Chosen:
    """The kernel for a problem: the one given, which sees X as it is, or the best of all (None) or of its scales.

    `linear`: whether a linear part may be left unpenalised, which the solver must be able to project out.
    """
    if given is not None and not (isinstance(given, Stationary) and given.length_scale == "auto"):
        kernel = given.resolved(problem.covariates)
        kernel.check(problem.covariates)
        return Chosen(kernel, problem)
    if takes_line(problem, given):
        kernel, table = choose_on_line(problem, given, problem.block)
        return Chosen(kernel, problem, None, table)
    kernels = KERNELS if given is None else (given.with_length_scale(1.0),)
    # A kernel asked for by name keeps one length scale unless more are asked for.
    wanted = relevance is True or (relevance == "auto" and given is None)
    with blas_threads(1):  # samples are small
        budget, library = effort(problem.n_rows)
        linear = linear and given is None
        search = Search(kernels, wanted, forced=relevance is True, linear=linear, budget=budget, library=library)
        return search_for(problem, search)


def search_for(problem: Problem, search: Search) -> Chosen:
    """What a search finds best for a problem, in the features' own units, and the table of all that was tried."""
    keep_freed_memory()
    features = look_at_features(problem.covariates, problem.weights, problem.shared_scales)
    if not features.kept.size:
        nothing = Selection((), features.table(np.zeros(0), False), "no feature varies: the fit is constant")
        return Chosen(search.kernels[0].with_length_scale(1.0), problem, None, nothing)
    best, tried = search.best(make_sample(problem, features, search.budget.more_rows + search.budget.unseen_rows))
    if features.kept.size < problem.covariates.shape[1]:
        problem = replace(problem, covariates=problem.covariates[:, features.kept])
    table = describe(problem, features, best, tried)
    kept = None if problem.covariates.shape[1] == len(table.features) else features.kept
    varies = np.ptp(problem.responses, axis=0) > 0
    scores = np.full(varies.size, np.nan)
    scores[varies] = best.fair_scores
    problem = problem.with_trend(best.sample.slopes) if best.linear else problem
    kernel, starts = best.in_units(features.spread), best.starts if np.all(varies) else None
    return Chosen(kernel, problem, kept, table, scores, starts=starts)
