"""What a loss is: a convex function of the response and of the fitted value, with its first two derivatives.

To add one: a frozen dataclass in a file of its own with `derivatives` (of several fitted values a row: `parts`), its
line in `NAMED`, and its row in the table of cases in tests/losses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stopwise._support.arrays import Array


@dataclass(frozen=True)
class Convexity:
    """Bounds on the curvature over a range of fitted values: what WYW17 (Theorem 1) calls m and M."""

    least: float
    most: float
    noise_std: float | None = None
    """The sub-Gaussian parameter of the slopes: half the length of the interval they lie in; None: not bounded."""


class Loss(ABC):
    """phi(y, f), convex in f, for n rows at once. Subclasses are frozen dataclasses.

    `y` is (n,), numbers or class codes; `f` is (n, q), on the scale of the link, q = `width`.
    """

    name: ClassVar[str]
    for_classes: ClassVar[bool] = False
    likelihood: ClassVar[bool] = False
    """Whether exp(-phi) is the probability of y, all of it: counts and residuals spread more than their mean tells."""
    degree: ClassVar[int] = 0
    """In the units of y: location and scale of y are taken out first where it is not 0."""

    @property
    def width(self) -> int:
        """How many fitted values a row has."""
        return 1

    @abstractmethod
    def parts(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """phi (n,), half a deviance (0: no f does better), and its slope (n, q) and curvature (n, q, q) in f."""

    def value(self, y: Array, f: Array) -> Array:
        """phi, (n,)."""
        return self.parts(y, f)[0]

    def slope(self, y: Array, f: Array) -> Array:
        """d phi / d f, (n, q)."""
        return self.parts(y, f)[1]

    def curvature(self, y: Array, f: Array) -> Array:
        """The second derivatives, (n, q, q)."""
        return self.parts(y, f)[2]

    def natural(self, f: Array) -> Array:
        """The inverse link: fitted values on the scale of y, (n,), or class probabilities, (n, classes)."""
        return f[:, 0]

    def scores(self, f: Array) -> Array:
        """What decides between classes: log odds of the second of two, (n,), or one score for each, (n, classes)."""
        return f[:, 0]

    def guarded(self, y: Array, f: Array, n_samples: float) -> Array:
        """phi (n,) where one in `n_samples` + 2 labels is wrong (rule of succession): no f may be infinite."""
        return self.value(y, f)

    def check(self, y: Array) -> None:
        """Raise ValueError for responses that the loss is not made for."""

    def convexity(self, reach: float) -> Convexity:
        """m and M over |f| <= reach, or ValueError where the theorem does not cover the loss."""
        raise ValueError(
            "the published path needs a loss whose curvature is bounded from above and away from 0 (WYW17, Theorem 1), "
            f"and {self.name!r} has no such bounds: use the practical path, or squared, logistic or exponential loss"
        )

    def targets(self, y: Array, left_out: Array) -> Array:
        """Responses (n, t) as a choice by squares should see them, given predictions (n,) that had no part of them."""
        return y[:, None]

    def rescaled(self, factor: float) -> Loss:
        """The same loss for responses divided by a factor."""
        return self

    def resolved(self, spread: float) -> Loss:
        """The loss with everything "auto" filled in for residuals of this spread."""
        return self


class OneValueLoss(Loss):
    """A loss with one fitted value a row."""

    @abstractmethod
    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """phi and its first and second derivative in f, all (n,), for y and f of that shape."""

    def parts(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        value, slope, curvature = self.derivatives(y, f[:, 0])
        return value, slope[:, None], curvature[:, None, None]


def spread_of(residual: Array, weights: Array) -> float:
    """1.4826 times the weighted median of absolute deviations; their mean where half of them are 0, 1 where all are."""
    deviation = np.abs(residual - weighted_quantile(residual, weights, 0.5))
    robust = 1.4826 * weighted_quantile(deviation, weights, 0.5)
    return robust or float(np.average(deviation, weights=weights)) or 1.0


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    """The smallest value with at least `level` of the weight at or below it; halfway to the next where they tie."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) / np.sum(weights)
    ends = np.searchsorted(below, [level - 1e-12, level + 1e-12])
    return float(values[order[np.minimum(ends, len(order) - 1)]].mean())
