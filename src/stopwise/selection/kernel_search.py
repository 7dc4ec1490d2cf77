"""The best of some kernels for a problem: candidates, learned on few rows, then the best of them on more.

One list of candidates: each kernel with one length scale for all features and with one per feature; each of these as
it is, with a linear part left unpenalised, and with skewed features drawn in. They are learned on a few hundred
distinct rows and ranked by one score; the best are learned further on more rows, and none of them may do worse than
another on rows that took no part, in its errors or in the likelihood of these rows, nor on rows left out. The sum of
the best few, each with the share that the evidence gives it, is one more candidate; in a small sample all share, by
their posterior odds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stopwise._support.array_library import HOST, ArrayLibrary, library_on
from stopwise._support.arrays import Array
from stopwise._support.torch import has_gpu, pick_device
from stopwise.engine.solves.costs import DEVICE_ROWS
from stopwise.kernels.gradients import median_distance
from stopwise.kernels.separable import Separable
from stopwise.kernels.stationary import Stationary
from stopwise.sample import Sample
from stopwise.selection.candidates import (
    BARELY,
    LEAST_ROWS,
    Candidate,
    best_first,
    best_unbeaten,
    judge,
    not_refuted,
    unseen_losses,
    worse,
)
from stopwise.selection.learning import Part, chosen_slopes, learn, learn_shares, part_at

MANY_ROWS = 100_000
"""A fit of so many takes minutes, so that more is looked at."""
SMALL_ROWS = 60
"""A smaller sample gets one length scale for all features, no linear part, and an average over kernels."""
ROWS_PER_SLOPE = 5
"""A linear part needs so many rows for each slope, and alone so many for each length scale that it stands for."""
SHARES = 64
"""Posterior shares of kernels are multiples of 1/64: smaller ones change nothing that a small sample could show."""
FOLDS = 3
"""Parts of a sample that speak against what the others taught, where fewer rows than in one of them are outside it."""
NEAR = 2.0
"""Log units beyond the shortest length scale within which the search on more rows starts for every feature."""
_GRID, _FINE_GRID, _FEW_FEATURES = (-2, 6), (-6, 4), 3
"""Powers of two times the median distance, every second one: with few features detail may be fine."""
_PRODUCT_FEATURES = 50
"""On a processor products of more have one length scale: a gradient takes a pass by feature."""


@dataclass(frozen=True)
class Round:
    """The best `kept` candidates and the best of each kind, or the best of each kernel (None), judged on so many rows.

    Two learn their length scales further there: the best two; in the first round the best with features as they are and
    the best with skewed ones drawn in. Of each kernel all do.
    """

    rows: int
    kept: int | None = 3


@dataclass(frozen=True)
class Budget:
    """How much is looked at: distinct rows, and steps of the gradient."""

    rows: int = 300
    """Every candidate is learned on so many."""
    rounds: tuple[Round, ...] = (Round(600),)
    unseen_rows: int = 2_000
    """So many others may speak against a candidate."""
    steps_together: int = 8
    first_steps: int = 5
    steps: int = 18
    summed_rows: int = 2500
    """Up to so many rows kernels may be summed: beyond, chance is small and a sum costs as many times more."""

    @property
    def first_rows(self) -> int:
        """On how many rows a first length scale is chosen."""
        return min(300, self.rows // 2)

    @property
    def judged_rows(self) -> int:
        """On how many rows the choice rests."""
        return max([self.rows, *(each.rows for each in self.rounds)])


def effort(n_rows: int) -> tuple[Budget, ArrayLibrary]:
    """How much to look at, and where: more of a large table, since a length scale that is off costs every row.

    A processor learns on up to 1,500 rows (about a minute on one core), a GPU on up to 5,000: seconds for each kernel,
    so that there, and of very many rows, the best of each kernel is learned: with more rows more length scales pay, and
    rougher kernels. Of very many rows it then learns the best two on 8,000.
    """
    many = n_rows >= MANY_ROWS
    if n_rows < DEVICE_ROWS or not has_gpu():
        more = min(max(n_rows // 10, 600), 1_500)
        return Budget(min(600, more // 2), (Round(more, None if many else 3),)), HOST
    more = min(max(n_rows // 5, 600), 5_000)
    last = (Round(8_000, kept=2),) if many else ()
    rounds = (Round(more, None if more == 5_000 else 3), *last)
    return Budget(min(max(n_rows // 10, 300), 1_200), rounds), library_on(pick_device())


@dataclass(frozen=True)
class Search:
    """How the best of some kernels is found.

    `relevance`: with one length scale for all features (False), only with one per feature (True), or ("auto") with
    either; a kernel asked for by name, so that it is alone, then keeps one. `linear`: whether slopes may be free;
    `warped`: whether skewed features may be drawn in.
    """

    kernels: Sequence[Stationary]
    relevance: bool | str = "auto"
    linear: bool = False
    warped: bool = False
    budget: Budget = Budget()
    library: ArrayLibrary = HOST

    def best(self, rows: Sample) -> tuple[Candidate, list[Candidate]]:
        """The best on rows of which the first are the sample, and everything tried."""
        rows = replace(rows, library=self.library, slopes=np.zeros_like(rows.slopes))
        if rows.n_rows < LEAST_ROWS or not rows.means.shape[1]:
            best = judge(rows, _typical(rows, self.kernels[:2][-1]))
            return best, [best]
        sample = rows.first(self.budget.judged_rows)
        if self.linear and sample.intercept and sample.n_rows >= SMALL_ROWS:
            sample = replace(sample, slopes=chosen_slopes(sample, sample.n_rows // ROWS_PER_SLOPE))
        tried = self._listed(sample.first(self.budget.rows))
        finalists = self._finalists(tried, sample)
        if sample.n_rows < SMALL_ROWS:
            return _by_odds(finalists), tried
        trusted = finalists
        if self.relevance is not True:
            enough = rows.n_rows - sample.n_rows >= sample.n_rows / FOLDS
            trusted = not_refuted(finalists, rows) if enough else self._held_up(finalists)
        every = [*tried, *(c for c in finalists if c not in tried)]
        if sample.slopes.any() and sample.n_rows >= ROWS_PER_SLOPE * sample.n_groups:
            line = judge(sample.with_linear())
            # Half of the prior odds: of as many kernels the best is flattered. A score is two likelihoods.
            kernels = sum(not c.sample.warped for c in tried)
            flattery = 4 * math.log(kernels + 1) / line.sample.n_samples
            every.insert(len(tried), line)
            rival = best_first(trusted)[0].fair_scores.mean() + flattery
            if line.log_error.mean() < 0 and line.fair_scores.mean() <= rival:
                # What slopes leave may still curve: the smoothest kernel, at a scale that slopes do not explain.
                return judge(line.sample, _typical(line.sample, self.kernels[0])), every
        return self._best_or_sum(trusted), every  # what unseen rows speak against has no share either

    def _listed(self, sample: Sample) -> list[Candidate]:
        """Every candidate, its length scales learned on the sample: from rough kernels to smooth ones.

        The rougher a kernel, the wider the slopes that lead to its best length scales; the next one starts there. From
        the third kernel on features are taken as they are, or drawn in, alone where rows left out speak against the
        other.
        """
        if sample.n_rows < ROWS_PER_SLOPE * sample.slopes.sum():
            sample = replace(sample, slopes=np.zeros_like(sample.slopes))
        views = [sample] if sample.warp is None else [sample, sample.with_warp()]
        rougher: dict[bool, list[Part]] = {False: [], True: []}
        found: list[Candidate] = []
        # On one feature a product is the same function as the kernel of the distance.
        alike = len(self.kernels) > 1 and sample.covariates.shape[1] == 1
        menu = [kernel for kernel in self.kernels if not (alike and isinstance(kernel, Separable))]
        for at, kernel in enumerate(reversed(menu)):
            listed: list[Candidate] = []
            for view in views:
                start = _first_scale(view.first(self.budget.first_rows), kernel)
                one, *each = self._learned(view, start, rougher[view.warped], view.n_rows >= SMALL_ROWS)
                rougher[view.warped] = each or rougher[view.warped]
                free = [view.with_linear()] if view.slopes.any() and not view.warped else []
                listed += [judge(rows, part) for part in (one, *each) for rows in (view, *free)]
            found = listed + found
            if len(views) > 1 and at > 0:
                ranked = _first_of_each(best_first(found), lambda c: c.sample.warped)
                if worse(ranked[1].errors.mean(axis=1), ranked[0].errors.mean(axis=1)):
                    views = [view for view in views if view.warped == ranked[0].sample.warped]
        return found

    def _learned(self, sample: Sample, start: Part, rougher: Sequence[Part], enough: bool) -> list[Part]:
        """A kernel with one length scale, and where that is asked for, or rows are `enough`, with one per feature."""
        kernel, d, budget = start.kernel, sample.covariates.shape[1], self.budget
        one = learn(sample, start, max_steps=budget.steps_together, per_feature=False)
        auto = self.relevance == "auto" and len(self.kernels) > 1 and enough
        slow = isinstance(kernel, Separable) and d > _PRODUCT_FEATURES and sample.library is HOST
        if d == 1 or slow or not (self.relevance is True or auto):
            return [one]
        # Where few features matter, one length scale for all may fit nothing, and its start leads nowhere.
        starts = [one, _typical(sample, kernel), *(replace(each, kernel=kernel) for each in rougher)]
        begun = [learn(sample, each, max_steps=budget.first_steps, per_feature=True) for each in starts]
        best = min(begun, key=lambda part: round(part.value, 9))
        return [one, learn(sample, best, max_steps=budget.steps, per_feature=True)]

    def _finalists(self, tried: Sequence[Candidate], sample: Sample) -> list[Candidate]:
        """The best on all rows of the sample, some of them learned further."""
        found = [c for c in tried if c.per_feature or self.relevance is not True] or list(tried)
        for at, each in enumerate(self.budget.rounds):
            rows, ranked = sample.first(each.rows), best_first(found)
            if rows.n_rows <= ranked[0].sample.n_rows:
                break
            if each.kept is None:
                by_evidence = sorted(ranked, key=lambda c: float(c.evidence.mean()))
                learned = _first_of_each(by_evidence, lambda c: c.first.kernel.name)
            else:
                leaders = [] if at else _first_of_each(ranked, lambda c: c.sample.warped)
                learned = list(dict.fromkeys([*leaders, *ranked]))[:2]
            # Of one way to see features: a kernel and its twin that sees them otherwise are one kernel in a sum.
            alike = [c for c in ranked if c.sample.warped == ranked[0].sample.warped]
            others = [*alike[: each.kept or 0], *_first_of_each(alike, lambda c: c.per_feature)]
            found = [self._again(c, rows, c in learned) for c in dict.fromkeys([*learned, *others])]
        return found

    def _held_up(self, finalists: list[Candidate]) -> list[Candidate]:
        """All, or those with one length scale, where rows that took no part say that this predicts them better.

        In squared error and in likelihood. Rows left out one by one flatter what was learned from them: of rare or
        skewed responses length scales per feature found a way to tell each large one apart. So the best kernel
        learns either anew from two thirds of the sample, and predicts the other third.
        """
        best, ones = best_first(finalists)[0], [c for c in finalists if not c.per_feature]
        if not (best.per_feature and ones):
            return finalists
        kernel, lost = best.first.kernel, np.zeros(2)
        for rows in best.sample.parted(FOLDS):
            taught = rows.first(rows.n_rows - rows.n_rows // FOLDS)
            start = _first_scale(taught.first(self.budget.first_rows), kernel)
            parts = self._learned(taught, start, [best.first], True)
            losses = [np.sum(unseen_losses(judge(taught, part), rows), axis=1) for part in parts]
            lost += losses[-1] - losses[0]
        return ones if np.all(lost > 0) else finalists

    def _again(self, candidate: Candidate, rows: Sample, learned: bool) -> Candidate:
        """The same on more rows, its length scales learned further there."""
        part, sample = candidate.first, rows.like(candidate.sample)
        if learned:
            # A feature that few rows found no use for is brought near again: from afar it has no slope to follow.
            logs = part.place[:-1]
            near = replace(part, place=np.append(np.maximum(logs, logs.max() - NEAR), part.place[-1]))
            part = learn(sample, near, max_steps=self.budget.steps, per_feature=part.per_feature)
        return judge(sample, part)

    def _best_or_sum(self, candidates: Sequence[Candidate]) -> Candidate:
        """The best, or where its score is lower a sum of the best few of its kind, each with its share by evidence."""
        best, ranked = best_unbeaten(candidates), best_first(candidates)
        alike = [c for c in ranked if c.kind == best.kind]
        some = list(dict.fromkeys([best, *alike[:3], *_first_of_each(alike, lambda c: c.per_feature)]))
        if len(some) == 1 or best.sample.n_distinct > self.budget.summed_rows:
            return best
        return best_unbeaten([best, _sum(some, learn_shares(best.sample, [c.first for c in some], best.row_ratio))])


def _typical(sample: Sample, kernel: Stationary) -> Part:
    """A kernel at the median distance."""
    return part_at(kernel, np.full(sample.covariates.shape[1], median_distance(sample.places)))


def _first_scale(sample: Sample, kernel: Stationary) -> Part:
    """A start from the grid, on the processor: few rows. The longest scale barely told from the best."""
    d, sample = sample.covariates.shape[1], replace(sample, library=HOST, slopes=np.zeros_like(sample.slopes))
    # A sum of d absolute differences is about sqrt(d) times the distance.
    unit = _typical(sample, kernel).scales * (math.sqrt(d) if isinstance(kernel, Separable) else 1.0)
    low, high = _FINE_GRID if d <= _FEW_FEATURES else _GRID
    tried = [judge(sample, part_at(kernel, unit * 2.0**power)) for power in range(low, high + 1, 2)]
    barely = min(each.score for each in tried) + BARELY / sample.n_samples
    at = max(i for i, each in enumerate(tried) if each.score <= barely)
    end = {0: "short", len(tried) - 1: "long"}.get(at)
    return replace(part_at(kernel, tried[at].first.scales, tried[at].row_ratio), edge=end)


def _by_odds(finalists: Sequence[Candidate]) -> Candidate:
    """For a small sample: all kernels of a kind, each with its posterior odds by the evidence; the best of these sums.

    The left-out errors of so few rows tell more of these rows than of kernels, and shares learned from them too. A
    process that has one of these kernels, by such odds, has the sum of the odds times variance times kernel as its
    covariance.
    """
    sums = []
    for kind in dict.fromkeys(c.kind for c in finalists):
        some = [c for c in finalists if c.kind == kind]
        evidence, signal = np.array([(c.evidence.mean(), c.signal) for c in some]).T
        sums.append(_sum(some, np.exp(-0.5 * some[0].sample.n_samples * (evidence - evidence.min())) * signal))
    return best_first(sums)[0]


def _sum(candidates: Sequence[Candidate], weights: Array) -> Candidate:
    """Candidates on the same rows as one kernel, in which each has a share, the largest first."""
    order = np.argsort(-weights, kind="stable")
    shares = np.round(SHARES * weights[order] / weights.sum()) / SHARES
    shares[0] += 1.0 - shares.sum()
    ranked = [candidates[i] for i in order]
    parts = [replace(c.first, share=float(s)) for s, c in zip(shares, ranked, strict=True) if s > 0]
    return judge(ranked[0].sample, *parts) if len(parts) > 1 else ranked[0]


def _first_of_each(ranked: Sequence[Candidate], kind: Callable[[Candidate], object]) -> list[Candidate]:
    """The first candidate of each kind."""
    found: dict[object, Candidate] = {}
    for candidate in ranked:
        found.setdefault(kind(candidate), candidate)
    return list(found.values())
