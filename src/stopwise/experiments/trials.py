"""Many responses on one design: paths, errors and hold-out halves, a column for each trial."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np

from stopwise._support.arrays import Array, Index
from stopwise._support.memory import row_tiles
from stopwise.engine.operators import Dense
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.experiments.setting import Setting
from stopwise.filters import Filter
from stopwise.noise import NoiseEstimator, noise_levels
from stopwise.path import Path, make_path
from stopwise.rules import Data

T = TypeVar("T")


def take(path: Path, columns: Index) -> Path:
    """The path of some of several responses."""
    return replace(
        path,
        coefficients=path.coefficients[:, columns],
        energy=path.energy[columns],
        response=None if path.response is None else path.response[:, columns],
    )


def factor_by_trial(factor: Callable[[Array, Array], Array], eigenvalues: Array, step_sums: Array) -> Array:
    """A filter's shrinkage, gain or weight with each trial at its own clock reading: (k, q)."""
    distinct, index = np.unique(step_sums, return_inverse=True)
    return factor(eigenvalues, distinct)[index].T


def _products(image: Array, weights: Array, coefficients: Array) -> Array:
    """image @ diag(weights_g) @ coefficients for every g as one product; the weights go on the smaller side."""
    (g, k), rows, columns = weights.shape, len(image), coefficients.shape[1]
    if columns >= rows:
        images = (image * weights[:, None, :]).reshape(g * rows, k)
        return cast(Array, (images @ coefficients).reshape(g, rows, columns))
    scaled = (weights.T[:, :, None] * coefficients[:, None, :]).reshape(k, g * columns)
    return np.moveaxis((image @ scaled).reshape(rows, g, columns), 1, 0)


@dataclass(frozen=True)
class Half:
    """Descent on the training rows of some trials and its error on the held-out rows (RWY14, hold-out; E11).

    `image` takes weighted coefficients to predictions at every row of the design.
    """

    path: Path
    image: Array
    test: Array
    target: Array

    def error(self, columns: Index, step_sum: Array) -> Array:
        """Mean squared error on the held-out rows: readings by columns."""
        weights = self.path.filter.weight(self.path.spectrum.eigenvalues, step_sum)
        coefficients, target, image = self.path.coefficients[:, columns], self.target[:, columns], self.image[self.test]
        out = np.empty((len(weights), len(columns)))
        for part in row_tiles(len(weights), target.size):
            gap = _products(image, weights[part], coefficients) - target
            out[part] = np.einsum("gij,gij->gj", gap, gap) / len(target)
        return out

    def fit(self, step_sums: Array) -> Array:
        """Fitted values at every row of the design, each trial at its own clock reading."""
        weights = factor_by_trial(self.path.filter.weight, self.path.spectrum.eigenvalues, step_sums)
        return cast(Array, self.image @ (weights * self.path.coefficients))


@dataclass(frozen=True)
class OneHalf:
    """The half of a single trial, as `rules.HeldOut` wants it."""

    half: Half

    @property
    def path(self) -> Path:
        return self.half.path.column(0)

    def error(self, step_sum: Array) -> Array:
        return self.half.error(np.array([0]), np.atleast_1d(step_sum))[:, 0]


@dataclass(frozen=True)
class Trials:
    """Responses drawn from a setting, what the rules are told of the noise, and the path of each.

    `groups` says which trials share a random hold-out split, `seeds` the seed of each group's split.
    """

    setting: Setting
    filter: Filter
    responses: Array
    told: Array
    groups: Index
    seeds: tuple[int, ...]
    memory: dict[Hashable, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def count(self) -> int:
        return len(self.told)

    @cached_property
    def path(self) -> Path:
        """All trials on the whole design."""
        return self.setting.path(self.filter, self.responses)

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What was computed under this key before, or now: readings of one rule share their search."""
        if key not in self.memory:
            self.memory[key] = compute()
        return cast(T, self.memory[key])

    def told_by(self, estimator: NoiseEstimator) -> Trials:
        """The same trials with the noise level estimated from each."""
        levels = noise_levels(estimator, self.setting.x[:, None], self.responses, self.path)
        return replace(self, told=levels, memory={})

    def errors(self, step_sums: Array) -> Array:
        """||f - f*||_n^2 of each trial at its own clock reading."""
        inside, outside = self.remember("truth", lambda: self.path.truth_coefficients(self.setting.truth))
        gain = factor_by_trial(self.path.filter.gain, self.path.spectrum.eigenvalues, step_sums)
        gap = gain * self.path.coefficients - inside[:, None]
        return cast(Array, (np.einsum("ij,ij->j", gap, gap) + outside) / self.setting.n)

    def exact_risk(self, step_sum: float) -> float:
        """The mean error at one clock reading, over the noise."""
        return float(self.path.risk(self.setting.truth, self.setting.noise_std, step_sum))

    def half(self, train: Array, test: Array, columns: Index) -> Half:
        """Some trials fitted on some of the rows."""
        gram, y = self.setting.gram, self.responses[:, columns]
        path = make_path(dense_spectrum(Dense(gram[np.ix_(train, train)])), self.filter, y[train])
        basis = path.spectrum.basis
        assert basis is not None
        return Half(path, gram[:, train] @ basis.rows / len(train), test, y[test])

    def data(self, trial: int) -> Data:
        """What a rule may ask of one trial beyond its path."""
        columns = np.array([trial])
        return Data(
            self.setting.n,
            split=lambda train, test: OneHalf(self.half(train, test, columns)),
            seed=self.seeds[self.groups[trial]],
        )


def draw_trials(setting: Setting, filter: Filter, rng: np.random.Generator, count: int, n_splits: int = 20) -> Trials:
    """So many trials, told the true noise level, dealt into groups that share a random hold-out split."""
    seeds = tuple(int(s) for s in rng.integers(2**31, size=n_splits))
    responses = setting.draw(rng, count)
    told = np.full(count, setting.noise_std)
    return Trials(setting, filter, responses, told, np.arange(count) % n_splits, seeds)
