"""What may be chosen, and how good it is: kernels with length scales, judged by ridge on a sample and on other rows.

On distinct rows with weights w, D = diag(sqrt w), n = sum w, the model is y ~ N(F b, s^2 (I + nu K)), K = D Gram D / n.
The fixed part F b (an intercept, or an intercept and a linear part) is projected out of both sides: its directions
cost degrees of freedom and no penalty. Replicates add their own spread to s^2 and nothing to the determinant, so the
evidence is that of the table with every row written out. One replicate (a row of responses) is left out at a time,
with all its copies; a row that alone decides a slope, which no linear part predicts then, counts for no candidate. The
score is the evidence plus the log of the left-out error; the error's rows are kept, so that the difference of two
candidates has a standard error.

Rows outside the sample may speak against a candidate. It is a Gaussian process on the sample: in units of the noise
variance, ridge at the ratio nu has prior covariance (nu / n) k less what is free, and predicts an unseen row of weight
w with variance 1/w + v(x). Squared errors tell how well it predicts, each response at its best ratio; the log density,
at the likeliest ratio, also whether its noise and its roughness are those of the rows: a smooth kernel with much noise
and a rough one with little predict alike but for rows that lie close together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.minimum import lowest_by_parabola
from stopwise.engine.operators.centring import projected
from stopwise.engine.solves.search_start import SearchStart, start_from
from stopwise.kernels import Kernel
from stopwise.kernels.gradients import Values
from stopwise.sample import LEAST_LEFT, Features, Sample
from stopwise.selection.learning import Part, deviance

MAX_RATIO = 1e9
"""The largest signal-to-noise ratio nu at which kernels are compared: beyond, the evidence has lost too many digits."""
LEAST_ROWS = 8
"""Of fewer distinct rows in all nothing is searched (Matern 3/2 at the median distance)."""
BARELY = 4.0
"""Scores, times the number of values, that differ by less tell nothing: a score is two log likelihoods, each times -2,
and twice the log of a Bayes factor up to 2 is "not worth more than a bare mention" (Kass & Raftery 1995)."""
_CURVE_POINTS = 56
_LEAST_RATIO = 1e-3


@dataclass(frozen=True, eq=False)
class Candidate:
    """Kernels with their shares (one, or a sum of several; none: least squares), and ridge with them on a sample.

    `vectors` are the eigenvectors of K, `coordinates` (m, q) the responses in them, `ratios` the grid of nu,
    `shrinkage` = 1 / (1 + nu lambda) (m, g) and `left_out` the squared left-out error of every row by its weight,
    (m, g, q), in units of each response's variance. Only `vectors` stay where they were made.
    """

    parts: tuple[Part, ...]
    sample: Sample
    vectors: Values
    coordinates: Array
    ratios: Array
    shrinkage: Array
    left_out: Array

    @cached_property
    def evidence_curve(self) -> Array:
        """-2 log likelihood / n at each ratio, (g, q)."""
        sample = self.sample
        left = self.shrinkage.T @ self.coordinates**2 + sample.spread_within
        energy = ((sample.fixed.T @ sample.responses) ** 2).sum(axis=0)  # which is centred: of the slopes alone
        count = sample.fixed.shape[1] - int(sample.intercept)
        fit = deviance(left, sample.n_free, energy, count, sample.picking())
        return cast(Array, (fit - np.log(self.shrinkage).sum(axis=0)[:, None]) / sample.n_samples)

    @property
    def likeliest(self) -> Array:
        """For each response the index of the ratio with the highest evidence."""
        return cast(Array, np.argmin(self.evidence_curve, axis=0))

    @cached_property
    def best(self) -> Array:
        """For each response the index of the ratio with the smallest left-out error."""
        return cast(Array, np.argmin(self.left_out.sum(axis=0), axis=0))

    @cached_property
    def errors(self) -> Array:
        """Squared left-out errors of every row by its weight, (m, q), each response at its best ratio."""
        return cast(Array, self.left_out[:, self.best, np.arange(self.best.size)])

    @cached_property
    def evidence(self) -> Array:
        """-2 log likelihood per sample of each response, at its likeliest ratio."""
        return np.array([lowest_by_parabola(column)[0] for column in self.evidence_curve.T])

    @cached_property
    def log_error(self) -> Array:
        """Log mean squared left-out error of each response; 0 is about the constant function's."""
        return cast(Array, np.log(np.maximum(self.errors.sum(axis=0) / self.sample.n_samples, 1e-300)))

    @property
    def score(self) -> float:
        """What is minimised: the sum of both, each averaged over responses."""
        return float(self.evidence.mean() + self.log_error.mean())

    @property
    def fair_scores(self) -> Array:
        """The score of each response, less what learning p length scales from the same rows flatters it by.

        Each of its two terms is minus two log likelihoods over n, lowered by p / n (Wilks); by 1 / q of that for each
        of q responses that share the length scales. The left-out error is also flattered by slopes that were picked.
        """
        scales = self.sample.n_groups if self.per_feature else 1
        flattery = 2 * (scales / max(1, self.best.size) + self.sample.picking()) / self.sample.n_samples
        return cast(Array, self.evidence + self.log_error + flattery)

    @property
    def row_ratio(self) -> float:
        """The signal-to-noise ratio of a single row with the highest evidence (the median over responses)."""
        return max(float(self.ratios[int(np.median(self.likeliest))] / self.sample.n_samples), _LEAST_RATIO)

    @property
    def level(self) -> Array:
        """The noise variance of each response at its likeliest ratio, in units of its variance."""
        squares = (self.shrinkage[:, self.likeliest] * self.coordinates**2).sum(axis=0)
        return cast(Array, (squares + self.sample.spread_within) / self.sample.n_free)

    @property
    def signal(self) -> float:
        """The variance of the process that the kernel is the covariance of, at the likeliest ratio (a mean)."""
        return float((self.level * self.ratios[self.likeliest]).mean() / self.sample.n_samples)

    @property
    def starts(self) -> tuple[SearchStart, ...] | None:
        """For each response where a search for its stop on all rows starts.

        None where the largest ratio is the best, since a stop may be far beyond.
        """
        if np.any(self.best == self.ratios.size - 1):
            return None
        n, errors = self.sample.n_samples, self.left_out[:, ::-1]
        places = np.log(n / self.ratios[::-1])
        return tuple(start_from(places, errors[:, :, j].T, n) for j in range(errors.shape[2]))

    @property
    def first(self) -> Part:
        """The kernel with the largest share, and its length scales; least squares alone has none."""
        return self.parts[0]

    @property
    def per_feature(self) -> bool:
        """Whether that has one length scale for each group of features."""
        return bool(self.parts) and self.first.per_feature

    @property
    def kind(self) -> tuple[bool, bool]:
        """Whether there is a linear part, and whether skewed features are drawn in."""
        return self.sample.linear, self.sample.warped

    @property
    def name(self) -> str:
        """The kernel's, or of a sum the kernels' with their shares; and the linear part."""
        names = [part.kernel.name if part.share == 1 else f"{part.share:.2g} {part.kernel.name}" for part in self.parts]
        told = " + ".join(["linear", *names] if self.sample.linear else names)
        return f"warped {told}" if self.sample.warped else told

    def in_units(self, features: Features) -> Kernel:
        """The kernel on features in their own units."""
        warp, spread = self.sample.drawn_in, self.sample.spread_of_places * features.spread
        kernels = ((part.share, part.kernel.with_length_scale(part.scales * spread)) for part in self.parts)
        kernel = reduce(add, [kernel if share == 1 else share * kernel for share, kernel in kernels])
        return kernel if warp is None else warp.kernel(kernel, features.centre, features.spread)


def ratio_grid(largest: float, count: int) -> Array:
    """Signal-to-noise ratios at which a kernel is tried: from a hundredth of what its largest eigenvalue shows on."""
    largest = max(largest, 1e-300)
    return np.geomspace(1e-2 / largest, max(min(1e12 / largest, MAX_RATIO), 1e2 / largest), count)


def judge(sample: Sample, *parts: Part) -> Candidate:
    """Ridge with some kernels on a sample, every row left out in turn."""
    library, root = sample.library, sample.library.take(sample.root_weights)
    gram = sum((part.gram(sample) for part in parts), library.zeros(sample.n_rows, sample.n_rows))
    gram *= root[:, None]
    gram *= root[None, :] / sample.n_samples
    there, vectors = library.eigh(projected(gram, library.take(sample.fixed)))
    values = np.maximum(library.host(there), 0.0)
    ratios = ratio_grid(float(values[-1]), _CURVE_POINTS)
    shrinkage = 1 / (1 + np.outer(values, ratios))
    coordinates = library.host(vectors.T @ library.take(sample.free_responses))
    leverage = 1 - library.host((vectors**2) @ library.take(shrinkage)) + (sample.fixed**2).sum(axis=1)[:, None]
    left = 1 - leverage / sample.replicates[:, None]
    inverse = (1 / np.maximum(left, LEAST_LEFT)) ** 2
    errors = np.empty((*shrinkage.shape, coordinates.shape[1]))
    for j in range(coordinates.shape[1]):
        residual = library.host(vectors @ library.take(coordinates[:, j : j + 1] * shrinkage))
        errors[:, :, j] = np.where(left > LEAST_LEFT, (residual**2 + sample.within[:, j : j + 1]) * inverse, np.inf)
    errors[sample.decisive] = 0.0
    return Candidate(parts, sample, vectors, coordinates, ratios, shrinkage, errors)


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best score first; the one listed first (smoother, fewer length scales) where two tie.

    Skewed features are drawn in where that is more than barely better.
    """
    return sorted(candidates, key=lambda c: round(c.score + c.sample.warped * BARELY / c.sample.n_samples, 9))


def unseen_losses(candidate: Candidate, rows: Sample) -> tuple[Array, Array]:
    """Squared errors (u,) and -2 log densities (u,) of the rows beyond a sample, which is the first of `rows`.

    Both are means over responses. With F the free columns of the sample, t those of the new rows, D = diag(sqrt w) and
    V the eigenvectors less their part in F: `free` = k(new, rows) - t F' D Gram, `images` = free D V, `prior` = k(x, x)
    less what is free; |t|^2 is the variance of what is free, and t F'y its prediction.
    """
    sample, library, parts = candidate.sample, candidate.sample.library, candidate.parts
    unseen = np.arange(sample.n_rows, rows.n_rows)
    new = rows.covariates[unseen]
    gram, cross = sum(part.gram(sample) for part in parts), sum(part.between(new, sample) for part in parts)
    design = sample.root_weights[:, None] * sample.design(sample.covariates)
    columns = sample.design(new) @ np.linalg.lstsq(design, sample.fixed, rcond=1e-10)[0]
    root, fixed = library.take(sample.root_weights[:, None]), library.take(sample.fixed)
    free = cross - library.take(columns) @ ((root * fixed).T @ gram)
    images = library.host(free @ (root * (candidate.vectors - fixed @ (fixed.T @ candidate.vectors))))
    prior = sum(part.share for part in parts) - (columns * library.host((cross + free) @ (root * fixed))).sum(axis=1)
    truth = (rows.means[unseen] - sample.middle) / sample.unit - columns @ (sample.fixed.T @ sample.responses)

    def residuals(at: Array) -> tuple[Array, Array, Array]:
        shrinkage, share = candidate.shrinkage[:, at], candidate.ratios[at] / sample.n_samples
        return truth - images @ (share * shrinkage * candidate.coordinates), shrinkage, share

    errors = (residuals(candidate.best)[0] ** 2).mean(axis=1)
    residual, shrinkage, share = residuals(candidate.likeliest)
    left = np.maximum(prior[:, None] - images**2 @ (share * shrinkage), 0.0)
    own = 1 / rows.weights[unseen] + (columns**2).sum(axis=1)
    variance = np.maximum(candidate.level, 1e-300) * (share * left + own[:, None])
    return cast(Array, errors), cast(Array, (np.log(variance) + residual**2 / variance).mean(axis=1))


def not_refuted(finalists: list[Candidate], rows: Sample) -> list[Candidate]:
    """Those that rows outside the sample do not speak against, the best score first.

    Their errors on these rows are not above the least by a standard error, nor of those left how surprised they are.
    Where such rows are fewer than the sample, they may refute length scales per feature alone, which are most easily
    learned wrong, and by the best with one length scale.
    """
    seen = finalists[0].sample.n_rows
    ranked = best_first(finalists)
    losses = {c: unseen_losses(c, rows) for c in ranked}
    if rows.n_rows - seen < seen:
        one = [c for c in ranked if not c.per_feature]
        refuted = ranked[0].per_feature and one and worse(losses[ranked[0]][0], losses[one[0]][0])
        return one if refuted else ranked
    return _unbeaten(_unbeaten(ranked, lambda c: losses[c][0]), lambda c: losses[c][1])


def best_unbeaten(candidates: Sequence[Candidate]) -> Candidate:
    """The best score of those whose left-out error is not above the least by more than a standard error.

    Of a table in which most rows have no noise, being all zeros, say, and a few have much, the evidence tells of most
    rows and the error of the few: it may then favour what predicts these worst.
    """
    return _unbeaten(best_first(candidates), lambda c: cast(Array, c.errors.mean(axis=1)))[0]


def _unbeaten(candidates: list[Candidate], loss: Callable[[Candidate], Array]) -> list[Candidate]:
    """Those whose loss is not above the least by more than a standard error, in the same order."""
    least = min((loss(c) for c in candidates), key=lambda each: float(each.mean()))
    return [c for c in candidates if not worse(loss(c), least)]


def worse(loss: Array, than: Array) -> bool:
    """Whether one loss is larger than another by more than a standard error of the difference."""
    gap = loss - than
    return float(gap.mean()) > float(gap.std()) / math.sqrt(gap.size)
