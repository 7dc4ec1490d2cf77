"""Least squares, the loss of the rest of the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stopwise._support.arrays import Array
from stopwise.losses.base import Convexity, Loss


@dataclass(frozen=True)
class Squared(Loss):
    """phi = (y - f)^2 / 2: its minimisers along the clock are ridge's."""

    name: ClassVar[str] = "squared"

    def value(self, y: Array, f: Array) -> Array:
        return (y - f[:, 0]) ** 2 / 2

    def slope(self, y: Array, f: Array) -> Array:
        return f - y[:, None]

    def curvature(self, y: Array, f: Array) -> Array:
        return np.ones((len(y), 1, 1))

    def convexity(self, reach: float) -> Convexity:
        return Convexity(1.0, 1.0)
