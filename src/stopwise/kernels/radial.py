"""Kernels of the scaled distance: Gaussian, Laplace, Matern.

Every one is a function of u = -|x - z|^2 / (2 l^2), which is one inner product of two augmented rows,
[x, -|x|^2/2, 1] . [z, 1, -|z|^2/2]; so a tile costs one matrix product and one pass of the profile.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.kernels.base import Rows
from stopwise.kernels.stationary import Stationary

_CLOSE = 1e-9
"""Squared distances below this share of the squared norms are recomputed from differences, for rough kernels: rounding
of 1e-16 of the norms would show as the root of 1e-7 of a distance there."""
_BLUR = 1e-12
"""Where rounding in u could pass this, every pair near enough to matter is recomputed: k then has 12 digits."""
_REACH = 750.0
"""-u beyond which every profile is below rounding; exp(-sqrt(2 u)), the slowest, is 1e-17 there."""
_HALF_RANGE = {kind: -0.5 * math.log(np.finfo(kind).tiny) for kind in (np.float32, np.float64)}
"""Kernels count as 0 where their exponential is below exp(-this), far below rounding; so a product of two is never
subnormal, and processors multiply subnormal numbers up to twenty times slower."""
_FARTHEST = 1e30
"""-u is held to at most this, where every profile is 0: the square of a longer distance may overflow."""
_PAIRS = 2**18
"""Pairs recomputed at once: a few megabytes for each feature."""


@dataclass(frozen=True)
class Radial(Stationary):
    """Shared by the kernels of u = -r^2/2, r = |(x - z) / length_scale|.

    Subclasses give `decay(u)` (in place where they can) and `reach`.
    """

    rough: ClassVar[bool] = False
    """True where k has a kink at r = 0, so that rounding in r^2 shows as its square root."""

    @abstractmethod
    def decay(self, u: Array) -> Array:
        """k as a function of u = -r^2/2, as written; may overwrite u."""

    @abstractmethod
    def reach(self, exponent: float) -> float:
        """The -u at which the exponential in k is exp(-exponent)."""

    def profile(self, u: Array, lowest: float = -math.inf) -> Array:
        """k as a function of u = -r^2/2, 0 where it vanishes; may overwrite u. `lowest` is a bound on u."""
        end = -self.reach(_HALF_RANGE[u.dtype.type])
        if lowest >= end or not u.size or not float(u.min()) < end:
            return self.decay(u)
        smallest = float(self.decay(np.full(1, end, dtype=u.dtype))[0])
        out = self.decay(np.maximum(u, end, out=u))
        out *= out > 2 * smallest  # twice: the exponential of one number and of many may differ in the last digit
        return out

    def pair(self, x: Array, z: Array) -> float:
        return float(self.profile(np.array([-0.5 * math.fsum(self.apart(x, z) ** 2)]))[0])

    def prepare(self, covariates: Array, origin: Array) -> Rows:
        with np.errstate(over="ignore"):
            scaled = (covariates.astype(np.float64) - origin) / self.scales
            half = -0.5 * np.einsum("ij,ij->i", scaled, scaled)
        ones = np.ones_like(half)
        left = np.column_stack([scaled, half, ones])
        right = np.column_stack([scaled, ones, half])
        return (left, right, np.empty((len(half), 0), dtype=covariates.dtype))

    def block(self, left: Rows, right: Rows) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            u = left[0] @ right[1].T
        np.minimum(u, 0.0, out=u)
        self._recompute_blurred_pairs(u, left[0], right[1])
        dtype = left[2].dtype
        return self.profile(u if dtype == u.dtype else u.astype(dtype), _lowest(left[0], right[1]))

    def _recompute_blurred_pairs(self, u: Array, left: Array, right: Array) -> None:
        """From differences, where the inner product of long rows has lost digits that the profile would show."""
        if not u.size:
            return
        norms = -float(left[:, -2].min()) - float(right[:, -1].min())
        blur = norms * np.finfo(np.float64).eps
        near = max(_CLOSE * norms if self.rough else 0.0, _REACH + blur if blur > _BLUR else 0.0)
        if near == 0:
            return
        row, column = np.nonzero(~(u <= -near))  # NaN, from rows too long to square, counts as near
        for first in range(0, row.size, _PAIRS):
            i, j = row[first : first + _PAIRS], column[first : first + _PAIRS]
            difference = left[i, :-2] - right[j, :-2]
            with np.errstate(over="ignore"):
                u[i, j] = -0.5 * np.einsum("ij,ij->i", difference, difference)
        if not norms < _FARTHEST:
            np.maximum(u, -_FARTHEST, out=u)


def _lowest(left: Array, right: Array) -> float:
    """No u of these rows lies below: distances are at most the sum of two norms."""
    longest = sum(math.sqrt(-float(rows.min(initial=0.0))) for rows in (left[:, -2], right[:, -1]))
    return -(longest * longest)  # infinite, not an error, where rows are too long to square


@dataclass(frozen=True)
class Gaussian(Radial):
    """k(x, z) = exp(-|x - z|^2 / (2 l^2)), l = `length_scale`."""

    def decay(self, u: Array) -> Array:
        return cast(Array, np.exp(u, out=u))

    def reach(self, exponent: float) -> float:
        return exponent


@dataclass(frozen=True)
class Laplace(Radial):
    """k(x, z) = exp(-|x - z| / l), l = `length_scale`, |.| Euclidean."""

    rough: ClassVar[bool] = True

    def decay(self, u: Array) -> Array:
        return _decay(u, 0.5)

    def reach(self, exponent: float) -> float:
        return exponent**2 / 2


@dataclass(frozen=True)
class Matern(Radial):
    """Matern kernel of smoothness 1/2, 3/2 or 5/2 with length scale l; r = |x - z| / l.

    1/2: exp(-r).  3/2: (1 + s) exp(-s), s = sqrt(3) r.  5/2: (1 + s + s^2/3) exp(-s), s = sqrt(5) r.
    """

    smoothness: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothness not in (0.5, 1.5, 2.5):
            raise ValueError(
                f"smoothness must be 0.5, 1.5 or 2.5, got {self.smoothness!r}: between them use a scikit-learn "
                "Matern kernel; beyond them the Gaussian"
            )

    @property
    def rough(self) -> bool:  # type: ignore[override]
        return self.smoothness == 0.5

    @property
    def name(self) -> str:
        return f"matern{int(2 * self.smoothness)}2"

    def reach(self, exponent: float) -> float:
        return exponent**2 / (4 * self.smoothness)

    def decay(self, u: Array) -> Array:
        return _decay(u, self.smoothness)


def _decay(u: Array, smoothness: float) -> Array:
    """The Matern profile as a function of u = -r^2/2, s = sqrt(-4 smoothness u); overwrites u."""
    u *= -4.0 * smoothness
    s = np.sqrt(u, out=u)
    if smoothness == 0.5:
        return cast(Array, np.exp(np.negative(s, out=s), out=s))
    decay = np.exp(-s)
    s += 1.0 + s * s / 3.0 if smoothness == 2.5 else 1.0
    decay *= s
    return cast(Array, decay)
