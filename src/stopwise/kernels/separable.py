"""Products over features of one-dimensional kernels: `ProductLaplace` and `ProductMatern`.

Where a truth is rough along the axes (steps, thresholds, categories), a product k(x, z) = prod_j k_j(x_j, z_j) follows
it with fewer rows than a kernel of the Euclidean distance. Both kernels are functions of the scaled differences
s_j = speed |x_j - z_j| / l_j alone, and of their sum; a tile costs one pass of the rows' features.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from scipy.spatial.distance import cdist

from stopwise._support.arrays import Array
from stopwise.kernels.base import Rows
from stopwise.kernels.stationary import Stationary

_GROUP = 32
"""Features multiplied together before their exponential is taken: (1 + s)^32 stays finite for every s below `_FAR`."""
_FAR = 1e9
_LEAST = {kind: math.sqrt(np.finfo(kind).tiny) for kind in (np.float32, np.float64)}
"""Smaller values count as 0, so that a product of two is never subnormal."""


@dataclass(frozen=True)
class Separable(Stationary):
    """Shared by the products over features of one kernel of s_j = speed |x_j - z_j| / length_scale_j.

    Subclasses give `tile(left, right)`, k between rows scaled so that s is the plain distance of two entries.
    """

    speed: ClassVar[float] = 1.0

    @abstractmethod
    def tile(self, left: Array, right: Array) -> Array:
        """k between rows in units in which s_j = |left_j - right_j|."""

    def prepare(self, covariates: Array, origin: Array) -> Rows:
        scaled = (covariates.astype(np.float64) - origin) * (self.speed / self.scales)
        return (np.ascontiguousarray(scaled), np.empty((len(scaled), 0), dtype=covariates.dtype))

    def block(self, left: Rows, right: Rows) -> Array:
        out = self.tile(left[0], right[0]).astype(left[1].dtype, copy=False)
        out *= out > _LEAST[out.dtype.type]
        return out


@dataclass(frozen=True)
class ProductLaplace(Separable):
    """k(x, z) = exp(-sum_j |x_j - z_j| / l_j), l = `length_scale` (one number, or one per feature)."""

    @property
    def name(self) -> str:
        return "productlaplace"

    def pair(self, x: Array, z: Array) -> float:
        return math.exp(-math.fsum(np.abs(self.apart(x, z))))

    def tile(self, left: Array, right: Array) -> Array:
        distance = cdist(left, right, "cityblock")
        np.negative(distance, out=distance)
        return cast(Array, np.exp(distance, out=distance))


@dataclass(frozen=True)
class ProductMatern(Separable):
    """k(x, z) = prod_j (1 + s_j) exp(-s_j), s_j = sqrt(3) |x_j - z_j| / l_j: Matern 3/2 along every feature."""

    speed: ClassVar[float] = math.sqrt(3.0)

    @property
    def name(self) -> str:
        return "productmatern32"

    def pair(self, x: Array, z: Array) -> float:
        s = self.speed * np.abs(self.apart(x, z))
        return math.exp(math.fsum(np.log1p(s)) - math.fsum(s))

    def tile(self, left: Array, right: Array) -> Array:
        out = np.ones((len(left), len(right)))
        for first in range(0, left.shape[1], _GROUP):
            x, z = left[:, first : first + _GROUP], right[:, first : first + _GROUP]
            for column, other in zip(x.T, z.T, strict=True):
                s = np.abs(np.subtract.outer(column, other))
                np.minimum(s, _FAR, out=s)
                s += 1.0
                out *= s
            out *= np.exp(-cdist(x, z, "cityblock"))
        return out
