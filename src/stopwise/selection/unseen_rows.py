"""Do length scales per feature pay? Asked of rows that had no part in learning them.

Length scales fitted to a sample flatter it. So contenders are compared by the log of their squared error on unseen rows
plus their evidence on the rows they learned from, the latter counted in full only where there are many rows for each
length scale. One length scale for all features is judged by the same formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.kernels.radial import Radial
from stopwise.selection.relevance import Learned, half_distances
from stopwise.selection.sample import Sample
from stopwise.selection.scores import Ridge

LEARNING_ROWS = 300
"""With half as many again, learn on so many and ask the rest; with fewer, learn on all and ask in three folds."""
_FOLDS, _FIXED_FOLDS = 3, 5
"""Folds where length scales are learned anew in each, and where they are given."""
_ROWS_PER_SCALE = 20
"""Evidence counts in full from so many rows per length scale on."""
_BULK = 0.95
"""Share of the unseen rows that must agree: without the worst, which may be one outlier met by chance."""

Learner = Callable[[Sample], Learned]


@dataclass(frozen=True)
class Contender:
    """A kernel with the length scales it learned, their evidence there, and squared errors on unseen rows."""

    kernel: Radial
    learned: Learned
    errors: Array
    evidence_share: float

    @property
    def unseen(self) -> float:
        """Log mean squared error on unseen rows; 0 is about the constant function's."""
        return math.log(max(float(self.errors.mean()), 1e-300))

    @property
    def unseen_bulk(self) -> float:
        """The same without the largest twentieth of the errors."""
        kept = np.sort(self.errors)[: math.ceil(_BULK * self.errors.size)]
        return math.log(max(float(kept.mean()), 1e-300))

    def clearly_better(self, other: Contender, margin: float) -> bool:
        """Lower by a margin on unseen rows, lower on all but the worst of them, and likelier where it learned.

        With few rows one outlier met by chance can look like half of the error saved: then the three do not agree.
        """
        return (
            self.unseen < other.unseen - margin
            and self.unseen_bulk < other.unseen_bulk
            and self.learned.value < other.learned.value
        )

    @property
    def score(self) -> float:
        """What is compared; lower is better."""
        return self.evidence_share * self.learned.value + self.unseen


def contend(
    sample: Sample, kernel: Radial, learner: Learner, again: Callable[[Sample, Learned], Learned] | None = None
) -> Contender:
    """Let one way of finding length scales learn, and ask it about rows it has not seen.

    `again` learns on a fold, told what was learned on all rows (which of several starts led there, say).
    """
    n, d = sample.covariates.shape
    if not few(sample):
        rows = np.arange(n)
        learned, errors = _learn_and_ask(sample, kernel, learner, rows[:LEARNING_ROWS], rows[LEARNING_ROWS:])
    else:
        learned = learner(sample)
        anew = learner if again is None else lambda part: again(part, learned)
        errors = np.concatenate([_learn_and_ask(sample, kernel, anew, *pair)[1] for pair in _folds(n, _FOLDS)])
    return Contender(kernel, learned, errors, min(1.0, min(n, LEARNING_ROWS) / (_ROWS_PER_SCALE * d)))


def few(sample: Sample) -> bool:
    """Whether a sample is too small to set rows aside, and folds are needed (and cheap)."""
    return sample.n_rows < LEARNING_ROWS * 3 // 2


def log_fold_error(sample: Sample, kernel: Radial, scales: Array) -> float:
    """Log mean squared error over five folds at given length scales."""
    given = Learned(cast(Array, -np.log(scales)), 0.0, 0.0, 0)
    pairs = _folds(sample.n_rows, _FIXED_FOLDS)
    errors = np.concatenate([_learn_and_ask(sample, kernel, lambda part: given, *pair)[1] for pair in pairs])
    return math.log(max(float(errors.sum() / sample.n_samples), 1e-300))


def _folds(n_rows: int, count: int) -> list[tuple[Any, Any]]:
    rows = np.arange(n_rows)
    return [(rows[rows % count != k], rows[rows % count == k]) for k in range(count)]


def _learn_and_ask(sample: Sample, kernel: Radial, learner: Learner, learn: Any, ask: Any) -> tuple[Learned, Array]:
    """What was learned on some rows, and squared errors (by weight, mean over responses) on others."""
    part, middle = sample.rows(learn)
    learned = learner(part)
    inside, outside = part.covariates / learned.scales, sample.covariates[ask] / learned.scales
    gram = kernel.profile(half_distances(inside))
    predicted = middle + Ridge(part, gram).predict(gram, kernel.profile(_half_cross(outside, inside)))
    squared = sample.weights[ask, None] * (sample.means[ask] - predicted) ** 2 + sample.within[ask]
    return learned, cast(Array, squared.mean(axis=1))


def _half_cross(rows: Array, others: Array) -> Array:
    """-|x - z|^2 / 2 between rows, never above zero."""
    u = rows @ others.T
    u -= 0.5 * np.einsum("ij,ij->i", rows, rows)[:, None]
    u -= 0.5 * np.einsum("ij,ij->i", others, others)[None, :]
    return cast(Array, np.minimum(u, 0.0, out=u))
