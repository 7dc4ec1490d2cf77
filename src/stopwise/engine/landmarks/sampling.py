"""Which rows stand for all: uniform draws, and draws by approximate ridge-leverage scores.

Draws depend on the number of rows and the seed alone, never on how rows are cut into chunks, and are nested: fewer
landmarks are the first of more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.arrays import Index as Index
from stopwise._support.checks import real_array
from stopwise._support.memory import row_tiles
from stopwise.engine.landmarks.features import make_landmarks, moments_of
from stopwise.kernels import Kernel

_PERMUTED = 2**20
"""Tables up to this many rows are permuted whole, so that any number of rows can be drawn."""
MOST = 2**14
"""The most rows that are ever drawn from a larger table."""

Take: TypeAlias = Callable[[Index], Array]
"""Row numbers in, covariates out."""


def draw_rows(n_rows: int, count: int, seed: int) -> Index:
    """`count` different row numbers in random order; the first few of a longer draw."""
    generator = np.random.default_rng(seed)
    if n_rows <= _PERMUTED:
        return generator.permutation(n_rows)[:count]
    if count > MOST:
        raise ValueError(f"at most {MOST} rows can be drawn from a table of {n_rows}, got {count}")
    return generator.choice(n_rows, MOST, replace=False)[:count]


def _check_count(count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, Integral) or int(count) < 1:
        raise ValueError(f"count must be a whole number of at least 1, got {count!r}")


@dataclass(frozen=True)
class Uniform:
    """`count` rows, each as likely as any other."""

    count: int

    def __post_init__(self) -> None:
        _check_count(self.count)

    def points(self, kernel: Kernel, n_rows: int, take: Take, seed: int) -> Array:
        return take(draw_rows(n_rows, min(self.count, n_rows), seed))


@dataclass(frozen=True)
class Leverage:
    """`count` rows drawn by how much the rest cannot stand for them: approximate ridge-leverage scores.

    A uniform pilot of `count` rows gives features; each of `oversampling * count` candidate rows then scores
    phi' (Phi'Phi + n r)^-1 phi plus what the pilot misses of k(x, x) over n r (never an under-estimate: Musco & Musco
    2017), at the ridge r for which the pilot has half of `count` degrees of freedom.
    """

    count: int
    oversampling: int = 8

    def __post_init__(self) -> None:
        _check_count(self.count)
        _check_count(self.oversampling)

    def points(self, kernel: Kernel, n_rows: int, take: Take, seed: int) -> Array:
        count = min(self.count, n_rows)
        size = min(n_rows, max(count, min(self.oversampling * count, MOST)))
        candidates = take(draw_rows(n_rows, size, seed))
        if size == count:
            return candidates
        scores = leverage_scores(kernel, candidates, candidates[:count], count / 2)
        generator = np.random.default_rng([seed, 1])
        # Gumbel keys: the largest `count` are a draw without replacement in proportion to the scores.
        keys = np.log(np.maximum(scores, 1e-300)) + generator.gumbel(size=size)
        return candidates[np.argsort(-keys)[:count]]


Choice = Uniform | Leverage


def leverage_scores(kernel: Kernel, rows: Array, pilot: Array, degrees: float) -> Array:
    """Approximate ridge-leverage scores of `rows` among themselves, seen through landmarks at `pilot`."""
    landmarks = make_landmarks(kernel, pilot)
    moments = moments_of(landmarks, rows, np.zeros((len(rows), 1)))
    values, vectors = np.linalg.eigh(moments.gram)
    values = np.maximum(values, 0.0)
    ridge = _ridge_for(values, degrees)
    scores = np.empty(len(rows))
    for part in row_tiles(len(rows), len(pilot)):
        features = landmarks.features(rows[part]).astype(np.float64)
        missed = np.maximum(kernel.diagonal(rows[part]) - np.einsum("ij,ij->i", features, features), 0.0)
        scores[part] = (features @ vectors) ** 2 @ (1 / (values + ridge)) + missed / ridge
    return cast(Array, np.minimum(scores, 1.0))


def _ridge_for(values: Array, degrees: float) -> float:
    """The ridge at which sum v / (v + ridge) is `degrees`, by bisection on a log scale."""
    largest = float(values.max(initial=0.0))
    if largest == 0:
        return 1.0
    low, high = 1e-12 * largest, 1e3 * largest * values.size
    for _ in range(80):
        middle = float(np.sqrt(low) * np.sqrt(high))
        low, high = (middle, high) if (values / (values + middle)).sum() > degrees else (low, middle)
    return float(np.sqrt(low) * np.sqrt(high))


def as_points(n_landmarks: object) -> Array | None:
    """Landmarks given as points, (m, d); None where only a number or a way of drawing them is given."""
    if isinstance(n_landmarks, bool):
        raise TypeError(f'n_landmarks must be a whole number, points or "auto", got {n_landmarks!r}')
    if isinstance(n_landmarks, str | Integral | Uniform | Leverage):
        return None
    points = np.array(n_landmarks)
    if points.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        points = real_array(points, "n_landmarks")
    if points.ndim != 2 or not points.size:
        raise ValueError(
            "landmarks given as points must be a non-empty two-dimensional array, a row each (one covariate: shape "
            f"(m, 1)); got shape {points.shape}"
        )
    if not np.all(np.isfinite(points)) or np.abs(points).max() > 1e300:
        raise ValueError("landmarks must be finite and at most 1e300: they hold NaN, infinity or larger numbers")
    return cast(Array, points)
