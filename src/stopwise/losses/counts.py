"""Counts: the Poisson loss with a logarithmic link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from stopwise._support.arrays import Array
from stopwise.losses.base import Loss

_HIGHEST = 600.0
"""exp(f) is held finite: beyond, the loss goes on along its tangent."""


@dataclass(frozen=True)
class Poisson(Loss):
    """phi = exp(f) - y f - (y - y log y), half the deviance; f is the logarithm of the mean."""

    name: ClassVar[str] = "poisson"
    discrete: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        along = 1 + np.maximum(f[:, 0] - _HIGHEST, 0.0)
        return np.asarray(self.natural(f) * along - y * f[:, 0] - y + xlogy(y, y))

    def slope(self, y: Array, f: Array) -> Array:
        return (self.natural(f) - y)[:, None]

    def curvature(self, y: Array, f: Array) -> Array:
        return self.natural(f)[:, None, None]

    def natural(self, f: Array) -> Array:
        return np.exp(np.minimum(f[:, 0], _HIGHEST))

    def check(self, y: Array) -> None:
        if y.min() < 0:
            raise ValueError(
                f'loss="poisson" is for counts of at least 0, got {float(y.min()):g}: leave such rows out, or use '
                'loss="squared"'
            )
        if y.max() == 0:
            raise ValueError('loss="poisson" needs a count above 0, and every one is 0: there is nothing to fit')

    def robust(self, y: Array, left_out: Array) -> Array:
        return np.log1p(y)
