"""A fit under a loss on its left-out rows: confusion, reliability, and the loss along the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.copies import find_observations
from stopwise.engine.loss_fits.loss_minimiser import Minimiser, minimise
from stopwise.engine.loss_fits.loss_path import walk
from stopwise.engine.loss_fits.loss_rows import LossRows, kernel_problem
from stopwise.estimators.calibration import reliability
from stopwise.estimators.fitted import fitted_of
from stopwise.estimators.loss_fit import LossFitted
from stopwise.views.shown_rows import ShownRows

_CLOCK_ROWS = 1_000
"""Rows from which the loss along the clock is drawn."""


@dataclass(frozen=True)
class LeftOutClasses:
    """Codes (n,), weights (n,) and class probabilities (n, classes) of rows, each predicted by a fit without it."""

    codes: Array
    weights: Array
    probability: Array

    @property
    def confusion(self) -> Array:
        """Rows (by weight) of each class, down, that are taken for each class, across."""
        count = self.probability.shape[1]
        table = np.zeros((count, count))
        np.add.at(table, (self.codes, np.argmax(self.probability, axis=1)), self.weights)
        return table

    @property
    def accuracy(self) -> float:
        """The share of rows whose class is the likeliest."""
        return float(np.trace(self.confusion) / self.weights.sum())

    @property
    def commonest(self) -> float:
        """The share of the commonest class: what no features at all would predict."""
        return float(np.bincount(self.codes, self.weights).max() / self.weights.sum())

    @property
    def certainty(self) -> float:
        """The mean probability of the likeliest class: what the accuracy is where probabilities mean what they say."""
        return float(np.average(self.probability.max(axis=1), weights=self.weights))

    @property
    def reliability(self) -> tuple[Array, Array, Array]:
        """Mean predicted probability, observed share and weight in ten bins."""
        return reliability(self.probability, self.codes.astype(np.float64), self.weights)


def classes_along_clock(model: Any, rows: ShownRows) -> list[tuple[Minimiser, LeftOutClasses]]:
    """Fits with the model's kernel at readings in order, its own stop among them, each row left out by formula."""
    fitted = cast(LossFitted, fitted_of(model))
    some = rows.take(np.sort(np.random.default_rng(0).permutation(len(rows))[:_CLOCK_ROWS]))
    used = some.features if fitted.features is None else some.features[:, fitted.features]
    found = find_observations(used, some.responses, some.weights, labels=True)
    weights = np.ones(len(found.first)) if found.weights is None else found.weights
    merged = LossRows(used[found.first], some.responses[found.first, 0], weights, found.counts).in_order()
    count = model.n_landmarks if isinstance(model.n_landmarks, int) else None
    path = walk(kernel_problem(fitted.kernel, merged, fitted.loss, count, 0, model.fit_intercept))
    stop = minimise(path.chosen.problem, float(fitted.stops[0].step_sum), path.chosen)
    others = [each for each in path.readings if each.step_sum > 0 and each.step_sum != stop.step_sum]
    codes = merged.y.astype(int)
    return [
        (at, LeftOutClasses(codes, merged.weights, fitted.loss.natural(at.known_left_out)))
        for at in sorted([*others, stop], key=lambda each: each.step_sum)
    ]
