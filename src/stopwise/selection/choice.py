"""What "auto" chooses: kernel, length scales, one or one per feature, and whether a linear part is left free.

One list of candidates: each kernel with one length scale for all features and with one per feature, and each of these
with a linear part left unpenalised. They are learned on a few hundred distinct rows and ranked by one score; the best
are learned further on more rows, and none of them may do worse than another on rows that took no part, in its errors
or in the likelihood of these rows. One rule for ties: candidates whose left-out error is within one standard error of
the best's share its place as an average of kernels; in a small sample all do, by their posterior odds. Everything
happens in standard deviations of the features and of y, so units do not matter; the kernel that comes out is in the
features' own units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.memory import keep_freed_memory
from stopwise._support.threads import blas_threads
from stopwise._support.torch import has_gpu, pick_device
from stopwise.engine.solves.search_start import SearchStart
from stopwise.kernels import Gaussian, Kernel, Laplace, Matern, ProductLaplace, ProductMatern
from stopwise.kernels.separable import Separable
from stopwise.kernels.stationary import Stationary
from stopwise.problem import Problem
from stopwise.selection import one_covariate
from stopwise.selection.candidates import Candidate, Part, best_first, judge
from stopwise.selection.length_scales import Device, Host, Learned, Place, learn
from stopwise.selection.result import Selection, describe
from stopwise.selection.rows import Sample, look_at_features, make_sample, median_distance
from stopwise.selection.slopes import chosen_slopes
from stopwise.selection.unseen_rows import LEAST_ROWS, not_refuted

KERNELS: tuple[Stationary, ...] = (Gaussian(), Matern(), ProductMatern(), Laplace(), ProductLaplace())
"""Smooth ones first: an earlier one wins a tie."""
OWN_KERNELS = 10
"""Up to so many responses may have a kernel each: the time grows with their number, and so does what sharing gains."""
DEVICE_ROWS = 3_000
"""From here on a GPU that is there pays: loading torch takes seconds."""
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

    grid_rows: int = 150
    rows: int = 300
    """Every candidate is learned on so many."""
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
    sharing: int = 3
    """With so many others the best may share its place,"""
    averaged_rows: int = 2500
    """up to so many rows: beyond, chance is small and a sum of kernels costs as many times more."""
    small_rows: int = 60
    """A smaller sample gets one length scale for all features, no linear part, and an average over kernels."""
    product_features: float = 50
    """With more features, products of kernels have one length scale: a gradient takes a pass by feature."""
    rows_per_slope: int = 5
    """A linear part needs so many rows for each slope, and alone so many for each length scale that it stands for."""
    ties: float = 1.0
    """Standard errors of the difference up to which left-out rows cannot tell a candidate from the best."""


def effort(n_rows: int) -> tuple[Budget, Place]:
    """How much to look at, and where: more of a large table, since a length scale that is off costs every row.

    A processor learns on up to 1,500 rows (about a minute on one core), a GPU on up to 5,000: seconds for each kernel,
    so that there (and of very many rows) as many are learned as there are kernels: which is best is seen late.
    """
    if n_rows >= DEVICE_ROWS and has_gpu():
        rows, more = np.clip([n_rows // 10, n_rows // 5], [300, 600], [1_200, _DEVICE_MOST])
        budget = Budget(
            grid_rows=300,
            rows=int(rows),
            more_rows=_DEVICE_MOST_OF_MANY if n_rows >= _MANY_ROWS else int(more),
            more_steps=15,
            product_features=math.inf,
            every_kernel=bool(more == _DEVICE_MOST),
        )
        return budget, Device(pick_device())
    more = int(np.clip(n_rows // 10, 600, 1_500))
    return Budget(rows=min(600, more // 2), more_rows=more, every_kernel=n_rows >= _MANY_ROWS), Host()


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

    @property
    def expected(self) -> float:
        """The first response's score."""
        return math.nan if self.scores is None else float(self.scores[0])

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
    if few and one_covariate.takes(problem, given):  # one length scale from hundreds of rows: sharing gains nothing
        return [own(j) for j in everyone]
    shared = replace(choose_kernel(problem, given, relevance, linear=linear), responses=everyone)
    if not few or shared.scores is None:
        return [shared]
    apart = [each for each in map(own, everyone) if each.expected < shared.scores[each.responses[0]]]
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
    if one_covariate.takes(problem, given):
        kernel, table = one_covariate.choose(problem, given, problem.block)
        return Chosen(kernel, problem, None, table)
    kernels = KERNELS if given is None else (given.with_length_scale(1.0),)
    # A kernel asked for by name keeps one length scale unless more are asked for.
    wanted = relevance is True or (relevance == "auto" and given is None)
    with blas_threads(1):  # samples are small
        budget, place = effort(problem.n_rows)
        linear = linear and given is None
        return Search(kernels, wanted, forced=relevance is True, linear=linear, budget=budget, place=place).run(problem)


@dataclass(frozen=True)
class Search:
    """The best of some kernels for a problem."""

    kernels: Sequence[Stationary]
    per_feature: bool
    forced: bool = False
    linear: bool = False
    budget: Budget = Budget()
    place: Place = field(default_factory=Host)

    def run(self, problem: Problem) -> Chosen:
        """Every candidate, the best of them, and the table of all."""
        keep_freed_memory()
        features = look_at_features(problem.covariates, problem.weights, problem.shared_scales)
        if not features.kept.size:
            nothing = Selection((), features.table(None, False), "no feature varies: the fit is constant")
            return Chosen(self.kernels[0].with_length_scale(1.0), problem, None, nothing)
        rows = make_sample(problem, features, self.budget.more_rows + self.budget.unseen_rows)
        if rows.n_rows < LEAST_ROWS or not rows.means.shape[1]:
            best = self._typical(rows, self.kernels[min(1, len(self.kernels) - 1)])
            tried = [best]
        else:
            best, tried = self._best(rows)
        if features.kept.size < problem.covariates.shape[1]:
            problem = replace(problem, covariates=problem.covariates[:, features.kept])
        table = describe(problem, features, best, tried)
        kept = None if problem.covariates.shape[1] == len(table.features) else features.kept
        varies = np.ptp(problem.responses, axis=0) > 0
        scores = np.full(varies.size, np.nan)
        scores[varies] = best.fair_scores
        problem = problem.with_trend(best.sample.slopes) if best.linear else problem
        kernel, starts = best.in_units(features.spread), best.result.starts if np.all(varies) else None
        return Chosen(kernel, problem, kept, table, scores, starts=starts)

    def _typical(self, rows: Sample, kernel: Stationary) -> Candidate:
        """A kernel at the median distance."""
        scales = np.full(rows.covariates.shape[1], median_distance(rows.covariates))
        return judge(rows, [Part(1.0, kernel, scales)], self.place, per_feature=False)

    def _best(self, rows: Sample) -> tuple[Candidate, list[Candidate]]:
        sample = rows.first(self.budget.more_rows)
        if self.linear:
            slopes = chosen_slopes(sample, sample.n_rows // self.budget.rows_per_slope)
            rows, sample = replace(rows, slopes=slopes), replace(sample, slopes=slopes)
        tried = self._listed(sample.first(self.budget.rows))
        finalists = self._finalists(tried, sample)
        if sample.n_rows < self.budget.small_rows:
            return self._mixed(finalists), tried
        trusted = finalists if self.forced else not_refuted(finalists, rows, self.place)
        best = best_first(trusted)[0]
        if self._may_be_linear(sample) and sample.n_rows >= self.budget.rows_per_slope * len(np.unique(sample.groups)):
            line = judge(sample.with_linear(), [], self.place, per_feature=False)
            tried.append(line)
            # Half of the prior odds: of as many kernels the best is flattered. A score is two likelihoods.
            among = 4 * math.log(len(tried)) / sample.n_samples
            if line.log_error < 0 and line.fair_scores.mean() <= best.fair_scores.mean() + among:
                # What slopes leave may still curve: the smoothest kernel, at a scale that slopes do not explain.
                best = self._typical(sample.with_linear(), self.kernels[0])
                return best, [*tried, *finalists]
        best = self._averaged(best, trusted)  # what unseen rows speak against has no share either
        return best, [*tried, *(c for c in finalists if c not in tried)]

    def _listed(self, sample: Sample) -> list[Candidate]:
        """Every candidate, its length scales learned on the sample: from rough kernels to smooth ones.

        The rougher a kernel, the wider the slopes that lead to its best length scales; the next one starts there.
        """
        d, budget = sample.covariates.shape[1], self.budget
        typical = Learned(np.full(d, -math.log(median_distance(sample.covariates))), math.log(30.0), 0.0)
        starts = [typical]
        found: list[list[Candidate]] = []
        for kernel in reversed(self.kernels):
            product = isinstance(kernel, Separable)
            if product and d == 1 and len(self.kernels) > 1:
                continue  # the same function as the kernel of the distance
            first, edge, fall = self._first_scale(sample.first(budget.grid_rows), kernel)
            one = learn(sample, kernel, first, max_steps=budget.steps_together, together=True, place=self.place)
            judged = [replace(c, edge=edge, fall=fall) for c in self._with_linear(sample, kernel, one, False)]
            if self._may_be_many(sample) and not (product and d > budget.product_features):
                many = self._learned_each(sample, kernel, one, *starts)
                starts = [typical, many]
                judged += self._with_linear(sample, kernel, many, True)
            found.append(judged)
        return [candidate for each in reversed(found) for candidate in each]

    def _learned_each(self, sample: Sample, kernel: Stationary, *starts: Learned) -> Learned:
        """One length scale per feature, from the best of some starts after a few steps from each.

        Where few features matter, one length scale for all may fit nothing, and its start leads nowhere.
        """
        begun = [learn(sample, kernel, each, max_steps=self.budget.first_steps, place=self.place) for each in starts]
        start = min(begun, key=lambda found: round(found.value, 9))
        return learn(sample, kernel, start, max_steps=self.budget.steps, place=self.place)

    def _with_linear(
        self, sample: Sample, kernel: Stationary, found: Learned, per_feature: bool
    ) -> Iterator[Candidate]:
        """A candidate, and the same with a linear part where that is allowed."""
        yield self._judged(sample, kernel, found, per_feature)
        if self._may_be_linear(sample):
            yield self._judged(sample.with_linear(), kernel, found, per_feature)

    def _may_be_many(self, sample: Sample) -> bool:
        """Whether one length scale per feature is on the list: never in a small sample, unless asked for."""
        many = self.forced or sample.n_rows >= self.budget.small_rows
        return self.per_feature and many and sample.covariates.shape[1] > 1

    def _may_be_linear(self, sample: Sample) -> bool:
        n, slopes = sample.n_rows, int(sample.slopes.sum())
        enough = n >= max(self.budget.rows_per_slope * slopes, self.budget.small_rows)
        return self.linear and sample.intercept and slopes > 0 and enough

    def _judged(self, sample: Sample, kernel: Stationary, found: Learned, per_feature: bool) -> Candidate:
        candidate = judge(sample, [Part(1.0, kernel, found.scales)], self.place, per_feature=per_feature)
        return replace(candidate, learned=found)

    def _first_scale(self, sample: Sample, kernel: Stationary) -> tuple[Learned, str | None, float]:
        """A start from the grid, which end of it that is (if any), and how much the score fell in the last step."""
        d = sample.covariates.shape[1]
        # A sum of d absolute differences is about sqrt(d) times the distance.
        unit = median_distance(sample.covariates) * (math.sqrt(d) if isinstance(kernel, Separable) else 1.0)
        low, high = _FINE_GRID if d <= _FEW_FEATURES else _GRID
        scales = [np.full(d, unit * 2.0**power) for power in range(low, high + 1, 2)]
        tried = [judge(sample, [Part(1.0, kernel, each)], Host(), per_feature=False) for each in scales]
        at = min(range(len(tried)), key=lambda i: (round(tried[i].score, 9), -i))
        edge = {0: "short", len(tried) - 1: "long"}.get(at)
        fall = tried[1 if at == 0 else at - 1].score - tried[at].score if edge else 0.0
        log_ratio = math.log(max(tried[at].result.ratio / sample.n_samples, 1e-3))
        return Learned(cast(Array, -np.log(scales[at])), log_ratio, tried[at].score), edge, fall

    def _finalists(self, tried: Sequence[Candidate], sample: Sample) -> list[Candidate]:
        """The best few and the best with one length scale on all rows of the sample, some of them learned further."""
        allowed = [c for c in tried if c.per_feature] if self.forced else []
        ranked = best_first(allowed or tried)
        if sample.n_rows <= self.budget.rows:
            return ranked
        best, further = ranked[: max(self.budget.sharing, self.budget.learned_further)], self.budget.learned_further
        if self.budget.every_kernel:
            of_kernel = {name: [c for c in ranked if c.kernel.name == name] for name in (c.kernel.name for c in ranked)}
            best, further = [min(same, key=lambda c: c.evidence) for same in of_kernel.values()], len(of_kernel)
        best += [c for c in ranked if not c.per_feature and c not in best][:1]
        each = [
            self._again(c, sample.first(self.budget.most_for_each), further=i < further) for i, c in enumerate(best)
        ]
        if sample.n_rows <= self.budget.most_for_each:
            return each
        few = best_first(each)[: self.budget.learned_further]
        few += [c for c in best_first(each) if not c.per_feature and c not in few][:1]
        return [self._again(c, sample, further=i < self.budget.learned_further) for i, c in enumerate(few)]

    def _again(self, candidate: Candidate, sample: Sample, *, further: bool) -> Candidate:
        """The same kernel on more rows, its length scales learned further there or not."""
        found = cast(Learned, candidate.learned)
        sample = sample.with_linear() if candidate.linear else sample
        if further:
            together, steps = not candidate.per_feature, self.budget.more_steps
            # A feature that few rows found no use for is brought near again: from afar it has no slope to follow.
            found = replace(found, logs=np.maximum(found.logs, found.logs.max() - NEAR))
            found = learn(sample, candidate.kernel, found, max_steps=steps, together=together, place=self.place)
        judged = self._judged(sample, candidate.kernel, found, candidate.per_feature)
        return replace(judged, edge=candidate.edge, fall=candidate.fall)

    def _mixed(self, finalists: Sequence[Candidate]) -> Candidate:
        """For a small sample: all kernels, each with its posterior share by the evidence.

        The left-out errors of so few rows tell more of these rows than of kernels.
        """
        ranked = sorted(finalists, key=lambda c: round(c.evidence, 9))
        best, n = ranked[0], ranked[0].sample.n_samples
        odds = [math.exp(-0.5 * n * (c.evidence - best.evidence)) for c in ranked]
        shares = [round(SHARES * each / sum(odds)) / SHARES for each in odds[1:]]
        shares = [1.0 - sum(shares), *shares]
        parts = [Part(share, c.kernel, c.scales) for share, c in zip(shares, ranked, strict=True) if share > 0]
        if len(parts) < 2:
            return best
        judged = judge(best.sample, parts, self.place, per_feature=best.per_feature)
        return replace(judged, edge=best.edge, fall=best.fall)

    def _averaged(self, best: Candidate, finalists: Sequence[Candidate]) -> Candidate:
        """The best, or its average with others that left-out rows cannot tell from it if that predicts as well."""
        others = [
            c
            for c in best_first(finalists)
            if c is not best and c.linear == best.linear and c.tied_with(best, self.budget.ties)
        ]
        others = others[: self.budget.sharing]
        if not others or best.sample.n_distinct > self.budget.averaged_rows:
            return best
        shares = [0.5, *(0.5 / len(others) for _ in others)]
        parts = [Part(s, c.kernel, c.scales) for s, c in zip(shares, [best, *others], strict=True)]
        judged = judge(best.sample, parts, self.place, per_feature=best.per_feature)
        return replace(judged, edge=best.edge, fall=best.fall) if judged.log_error <= best.log_error else best
