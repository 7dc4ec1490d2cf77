"""The best of some kernels for a problem: candidates, learned on few rows, then the best of them on more.

One list of candidates: each kernel with one length scale for all features and with one per feature, and each of these
with a linear part left unpenalised. They are learned on a few hundred distinct rows and ranked by one score; the best
are learned further on more rows, and none of them may do worse than another on rows that took no part, in its errors
or in the likelihood of these rows. The sum of the best few, each with the share that the evidence gives it, is one more
candidate and is taken where its score is lower; in a small sample all have a share, by their posterior odds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from stopwise._support.array_library import HOST, ArrayLibrary, library_on
from stopwise._support.arrays import Array
from stopwise._support.torch import has_gpu, pick_device
from stopwise.kernels.gradients import median_distance
from stopwise.kernels.separable import Separable
from stopwise.kernels.stationary import Stationary
from stopwise.sample import Sample
from stopwise.selection.candidates import LEAST_ROWS, Candidate, Part, best_first, judge, not_refuted
from stopwise.selection.learning import Learned, chosen_slopes, learn, learn_shares

DEVICE_ROWS = 3_000
"""From here on a GPU that is there pays: loading torch takes seconds."""
SMALL_ROWS = 60
"""A smaller sample gets one length scale for all features, no linear part, and an average over kernels."""
ROWS_PER_SLOPE = 5
"""A linear part needs so many rows for each slope, and alone so many for each length scale that it stands for."""
SHARES = 64
"""Posterior shares of kernels are multiples of 1/64: smaller ones change nothing that a small sample could show."""
NEAR = 2.0
"""Log units beyond the shortest length scale within which the search on more rows starts for every feature."""
_GRID, _FINE_GRID, _FEW_FEATURES = (-2, 6), (-6, 4), 3
"""Powers of two times the median distance, every second one: with few features detail may be fine."""
_DEVICE_MOST, _DEVICE_MOST_OF_MANY, _MANY_ROWS = 5_000, 8_000, 100_000
"""Rows that a GPU learns on at most, and of very many rows: there a fit takes minutes, and detail is worth seconds."""


@dataclass(frozen=True)
class Budget:
    """How much is looked at: distinct rows, and steps of the gradient."""

    rows: int = 300
    """Every candidate is learned on so many; half of them, at most 300, choose its first length scale."""
    more_rows: int = 600
    """The best few are learned further or at least judged again on so many."""
    learned_further: int = 2
    """So many of the best learn their length scales further there;"""
    every_kernel: bool = False
    """or the best of each kernel by its evidence: with more rows more length scales pay, and rougher kernels."""
    most_for_each: int = _DEVICE_MOST
    """Of more rows, these many are for each kernel, and all of them for the best few: each takes seconds there."""
    unseen_rows: int = 2_000
    """So many others may speak against a candidate."""
    steps_together: int = 8
    first_steps: int = 5
    steps: int = 18
    more_steps: int = 16
    sharing: int = 2
    """With so many others the best may share its place, and with the best that has one length scale,"""
    summed_rows: int = 2500
    """up to so many rows: beyond, chance is small and a sum of kernels costs as many times more."""
    product_features: float = 50
    """With more features, products of kernels have one length scale: a gradient takes a pass by feature."""


def effort(n_rows: int) -> tuple[Budget, ArrayLibrary]:
    """How much to look at, and where: more of a large table, since a length scale that is off costs every row.

    A processor learns on up to 1,500 rows (about a minute on one core), a GPU on up to 5,000: seconds for each kernel,
    so that there (and of very many rows) as many are learned as there are kernels: which is best is seen late.
    """
    if n_rows >= DEVICE_ROWS and has_gpu():
        rows, more = np.clip([n_rows // 10, n_rows // 5], [300, 600], [1_200, _DEVICE_MOST])
        budget = Budget(
            rows=int(rows),
            more_rows=_DEVICE_MOST_OF_MANY if n_rows >= _MANY_ROWS else int(more),
            more_steps=15,
            product_features=math.inf,
            every_kernel=bool(more == _DEVICE_MOST),
        )
        return budget, library_on(pick_device())
    more = int(np.clip(n_rows // 10, 600, 1_500))
    return Budget(rows=min(600, more // 2), more_rows=more, every_kernel=n_rows >= _MANY_ROWS), HOST


@dataclass(frozen=True)
class Search:
    """How the best of some kernels is found.

    `relevance`: with one length scale for all features (False), only with one per feature (True), or ("auto") with
    either; a kernel asked for by name, so that it is alone, then keeps one. `linear`: whether slopes may be free.
    """

    kernels: Sequence[Stationary]
    relevance: bool | str = "auto"
    linear: bool = False
    budget: Budget = Budget()
    library: ArrayLibrary = HOST

    def best(self, rows: Sample) -> tuple[Candidate, list[Candidate]]:
        """The best on rows of which the first are the sample, and everything tried."""
        rows = replace(rows, library=self.library)
        if rows.n_rows < LEAST_ROWS or not rows.means.shape[1]:
            best = _typical(rows, self.kernels[min(1, len(self.kernels) - 1)])
            return best, [best]
        sample = rows.first(self.budget.more_rows)
        if self.linear:
            sample = replace(sample, slopes=chosen_slopes(sample, sample.n_rows // ROWS_PER_SLOPE))
        tried = self._listed(sample.first(self.budget.rows))
        finalists = self._finalists(tried, sample)
        if sample.n_rows < SMALL_ROWS:
            return _by_odds(finalists), tried
        trusted = finalists if self.relevance is True else not_refuted(finalists, rows)
        every = [*tried, *(c for c in finalists if c not in tried)]
        if self._may_be_linear(sample) and sample.n_rows >= ROWS_PER_SLOPE * sample.n_groups:
            line = judge(sample.with_linear(), [])
            # Half of the prior odds: of as many kernels the best is flattered. A score is two likelihoods.
            flattery = 4 * math.log(len(tried) + 1) / line.sample.n_samples
            every.insert(len(tried), line)
            rival = best_first(trusted)[0].fair_scores.mean() + flattery
            if line.log_error < 0 and line.fair_scores.mean() <= rival:
                # What slopes leave may still curve: the smoothest kernel, at a scale that slopes do not explain.
                return _typical(line.sample, self.kernels[0]), every
        return self._best_or_sum(trusted), every  # what unseen rows speak against has no share either

    def _may_be_linear(self, sample: Sample) -> bool:
        slopes = int(sample.slopes.sum())
        enough = sample.n_rows >= max(ROWS_PER_SLOPE * slopes, SMALL_ROWS)
        return self.linear and sample.intercept and slopes > 0 and enough

    def _listed(self, sample: Sample) -> list[Candidate]:
        """Every candidate, its length scales learned on the sample: from rough kernels to smooth ones.

        The rougher a kernel, the wider the slopes that lead to its best length scales; the next one starts there.
        """
        d, budget = sample.covariates.shape[1], self.budget
        samples = [sample, sample.with_linear()] if self._may_be_linear(sample) else [sample]
        typical = Learned(np.full(d, -math.log(median_distance(sample.covariates))), math.log(30.0), 0.0)
        starts = [typical]
        found: list[Candidate] = []
        auto = self.relevance == "auto" and len(self.kernels) > 1 and sample.n_rows >= SMALL_ROWS
        for kernel in reversed(self.kernels):
            product = isinstance(kernel, Separable)
            if product and d == 1 and len(self.kernels) > 1:
                continue  # the same function as the kernel of the distance
            first = _first_scale(sample.first(min(300, budget.rows // 2)), kernel)
            learned = [learn(sample, kernel, first, max_steps=budget.steps_together, together=True)]
            if d > 1 and (self.relevance is True or auto) and not (product and d > budget.product_features):
                # Where few features matter, one length scale for all may fit nothing, and its start leads nowhere.
                begun = [learn(sample, kernel, each, max_steps=budget.first_steps) for each in (*learned, *starts)]
                best = min(begun, key=lambda found: round(found.value, 9))
                learned.append(learn(sample, kernel, best, max_steps=budget.steps))
                starts = [typical, learned[1]]
            found = [_judged(each, kernel, one) for one in learned for each in samples] + found
        return found

    def _finalists(self, tried: Sequence[Candidate], sample: Sample) -> list[Candidate]:
        """The best few and the best with one length scale on all rows of the sample, some of them learned further."""
        budget = self.budget
        ranked = best_first([c for c in tried if c.per_feature or self.relevance is not True] or tried)
        if sample.n_rows <= budget.rows:
            return ranked
        best, further = ranked[: 1 + budget.sharing], budget.learned_further
        if budget.every_kernel:
            names = dict.fromkeys(c.kernel.name for c in ranked)
            best = [min((c for c in ranked if c.kernel.name == name), key=lambda c: c.evidence) for name in names]
            further = len(best)
        some = sample.first(budget.most_for_each)
        found = self._again(_and_one_scale(best, ranked), some, further)
        if some is sample:
            return found
        ranked = best_first(found)
        return self._again(_and_one_scale(ranked[: budget.learned_further], ranked), sample, budget.learned_further)

    def _again(self, candidates: Sequence[Candidate], rows: Sample, further: int) -> list[Candidate]:
        """The same kernels on more rows, the length scales of the first ones learned further there."""
        out = []
        for i, candidate in enumerate(candidates):
            found, sample = cast(Learned, candidate.learned), rows.with_linear() if candidate.linear else rows
            if i < further:
                # A feature that few rows found no use for is brought near again: from afar it has no slope to follow.
                near = replace(found, logs=np.maximum(found.logs, found.logs.max() - NEAR))
                steps, together = self.budget.more_steps, not found.per_feature
                found = learn(sample, candidate.kernel, near, max_steps=steps, together=together)
            out.append(_judged(sample, candidate.kernel, found))
        return out

    def _best_or_sum(self, candidates: Sequence[Candidate]) -> Candidate:
        """The best, or where its score is lower a sum: of the best few and the best with one length scale.

        Each has the share of it that the evidence gives it.
        """
        best = best_first(candidates)[0]
        alike = [c for c in best_first(candidates) if c.linear == best.linear]
        some = _and_one_scale(alike[: 1 + self.budget.sharing], alike)
        if len(some) == 1 or best.sample.n_distinct > self.budget.summed_rows:
            return best
        grams = [c.parts[0].gram(best.sample) for c in some]
        shares = learn_shares(best.sample, grams, best.row_ratio)
        order = np.argsort(-shares, kind="stable")
        return best_first([best, _sum([some[i] for i in order], shares[order])])[0]


def _first_scale(sample: Sample, kernel: Stationary) -> Learned:
    """A start from the grid, on the processor: few rows."""
    d, sample = sample.covariates.shape[1], replace(sample, library=HOST)
    # A sum of d absolute differences is about sqrt(d) times the distance.
    unit = median_distance(sample.covariates) * (math.sqrt(d) if isinstance(kernel, Separable) else 1.0)
    low, high = _FINE_GRID if d <= _FEW_FEATURES else _GRID
    scales = [np.full(d, unit * 2.0**power) for power in range(low, high + 1, 2)]
    tried = [judge(sample, [Part(1.0, kernel, each)]) for each in scales]
    at = min(range(len(tried)), key=lambda i: (round(tried[i].score, 9), -i))
    edge = {0: "short", len(tried) - 1: "long"}.get(at)
    fall = tried[1 if at == 0 else at - 1].score - tried[at].score if edge else 0.0
    return Learned(cast(Array, -np.log(scales[at])), math.log(tried[at].row_ratio), tried[at].score, False, edge, fall)


def _by_odds(finalists: Sequence[Candidate]) -> Candidate:
    """For a small sample: all kernels, each with its posterior share by the evidence.

    The left-out errors of so few rows tell more of these rows than of kernels, and shares learned from them too.
    """
    ranked = sorted(finalists, key=lambda c: round(c.evidence, 9))
    n, best = ranked[0].sample.n_samples, ranked[0].evidence
    return _sum(ranked, np.array([math.exp(-0.5 * n * (c.evidence - best)) for c in ranked]))


def _sum(candidates: Sequence[Candidate], weights: Array) -> Candidate:
    """Candidates on the same rows as one kernel, in which each has a share; the first has the largest."""
    shares = np.round(SHARES * weights / weights.sum()) / SHARES
    shares[0] += 1.0 - shares.sum()
    first = candidates[0]
    parts = [Part(float(s), c.kernel, c.scales) for s, c in zip(shares, candidates, strict=True) if s > 0]
    return judge(first.sample, parts, first.learned) if len(parts) > 1 else first


def _judged(sample: Sample, kernel: Stationary, found: Learned) -> Candidate:
    return judge(sample, [Part(1.0, kernel, found.scales)], found)


def _typical(sample: Sample, kernel: Stationary) -> Candidate:
    """A kernel at the median distance."""
    scales = np.full(sample.covariates.shape[1], median_distance(sample.covariates))
    return judge(sample, [Part(1.0, kernel, scales)])


def _and_one_scale(some: list[Candidate], ranked: Sequence[Candidate]) -> list[Candidate]:
    """Some, and the best with one length scale where it is not among them."""
    return some + [c for c in ranked if not c.per_feature and c not in some][:1]
