"""What rows outside the sample say of candidates that were learned on it.

A candidate is a Gaussian process on the sample: in units of the noise variance, ridge at the ratio nu has prior
covariance (nu / n) k less what is free, and predicts an unseen row of weight w with variance 1/w + v(x). Squared errors
tell how well it predicts, each response at its best ratio; the log density, at the likeliest ratio, also whether its
noise and its roughness are those of the rows: a smooth kernel with much noise and a rough one with little predict alike
but for rows that lie close together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.array_library import ArrayLibrary
from stopwise._support.arrays import Array
from stopwise._support.minimum import lowest_by_parabola
from stopwise.selection.candidates import Candidate, best_first
from stopwise.selection.rows import Sample

LEAST_ROWS = 8
"""Fewer rows say nothing: unseen ones refute nothing, and of fewer distinct rows in all nothing is searched (Matern 3/2
at the median distance)."""


@dataclass(frozen=True)
class Unseen:
    """A candidate's prediction of rows outside its sample, at any ratio.

    With F the free columns of the sample, t those of the new rows, D = diag(sqrt w) and V the eigenvectors less their
    part in F: `images` = (k(new, rows) - t F' D K) D V, `prior` = k(x, x) less what is free, `free` = |t|^2 and `level`
    the free part of the prediction, (u, q).
    """

    candidate: Candidate
    images: Array
    prior: Array
    free: Array
    level: Array
    truth: Array
    weights: Array

    def errors(self) -> Array:
        """Squared errors averaged over responses, each at its best ratio, (u,)."""
        return cast(Array, ((self.truth - self._means(self.candidate.result.best)) ** 2).mean(axis=1))

    def surprises(self) -> Array:
        """-2 log density of each row (up to a constant) averaged over responses, each at its likeliest ratio, (u,)."""
        result, sample = self.candidate.result, self.candidate.sample
        at = np.array([lowest_by_parabola(column)[1] for column in result.evidence_curve().T])
        shrinkage, share = result.shrinkage[:, at], result.ratios[at] / sample.n_samples
        level = ((shrinkage * result.coordinates**2).sum(axis=0) + sample.spread_within) / sample.n_free
        told = self.images**2 @ (share * shrinkage)
        own = 1 / self.weights + self.free
        variance = np.maximum(level, 1e-300) * (share * np.maximum(self.prior[:, None] - told, 0.0) + own[:, None])
        return cast(Array, (np.log(variance) + (self.truth - self._means(at)) ** 2 / variance).mean(axis=1))

    def _means(self, at: Array) -> Array:
        """Predictions (u, q), in units of the sample's responses."""
        result = self.candidate.result
        share = result.ratios[at] / self.candidate.sample.n_samples
        return cast(Array, self.images @ (share * result.shrinkage[:, at] * result.coordinates) + self.level)


def look_at(candidate: Candidate, rows: Sample, unseen: Array, library: ArrayLibrary) -> Unseen:
    """A candidate at some of the rows that its sample (the first of them) was drawn from."""
    sample, new = candidate.sample, rows.covariates[unseen]
    gram = sum(part.gram(sample, library) for part in candidate.parts)
    cross = sum(part.between(new, sample, library) for part in candidate.parts)
    root, fixed = library.take(sample.root_weights[:, None]), library.take(sample.fixed)
    design = sample.root_weights[:, None] * sample.design(sample.covariates)
    columns = sample.design(new) @ np.linalg.lstsq(design, sample.fixed, rcond=1e-10)[0]
    seen = root * (candidate.result.vectors - fixed @ (fixed.T @ candidate.result.vectors))
    there, weighted = library.take(columns), root * fixed
    pulled = weighted.T @ gram
    both = library.host(cross @ weighted) - columns @ library.host(pulled @ weighted) / 2
    return Unseen(
        candidate,
        library.host(cross @ seen - there @ (pulled @ seen)),
        sum(part.share for part in candidate.parts) - 2 * (columns * both).sum(axis=1),
        (columns**2).sum(axis=1),
        columns @ (sample.fixed.T @ sample.responses),
        (rows.means[unseen] - sample.middle) / sample.unit,
        rows.weights[unseen],
    )


def not_refuted(finalists: list[Candidate], rows: Sample, library: ArrayLibrary) -> list[Candidate]:
    """Those that rows outside the sample do not speak against, the best score first.

    No other predicts these rows better by a standard error, and of those left no other has them less surprising by one.
    Where such rows are fewer than the sample, they may refute length scales per feature alone, which are most easily
    learned wrong, and by the best with one length scale.
    """
    seen = finalists[0].sample.n_rows
    unseen = np.arange(seen, rows.n_rows)
    if unseen.size < LEAST_ROWS:
        return finalists
    ranked = [look_at(c, rows, unseen, library) for c in best_first(finalists)]
    if unseen.size >= seen:
        ranked = _no_worse(ranked, [each.errors() for each in ranked])
        return [each.candidate for each in _no_worse(ranked, [each.surprises() for each in ranked])]
    one = [each for each in ranked if not each.candidate.per_feature]
    refuted = ranked[0].candidate.per_feature and one and _worse(ranked[0].errors(), one[0].errors())
    return [each.candidate for each in (one if refuted else ranked)]


def _no_worse(ranked: list[Unseen], losses: list[Array]) -> list[Unseen]:
    """Those whose loss is not larger than the smallest by more than one standard error of the difference."""
    least = min(losses, key=lambda each: float(each.mean()))
    return [each for each, loss in zip(ranked, losses, strict=True) if not _worse(loss, least)]


def _worse(loss: Array, than: Array) -> bool:
    gap = loss - than
    return float(gap.mean()) > float(gap.std()) / math.sqrt(gap.size)
