"""Features drawn in by powers before a kernel sees them: skewed columns have far rows that no kernel reaches.

Yeo & Johnson 2000 (Biometrika 87): with z = (x - c) / s and power p, equal to z where p = 1,

    psi(z) = ((1 + z)^p - 1) / p  for z >= 0,    -((1 - z)^(2 - p) - 1) / (2 - p)  for z < 0,

log(1 + z) and -log(1 - z) at p = 0 and p = 2. Its slope at zero is one for every power, so that w(x) = c + s psi(z) is
in the units of x; outside [low, high] it goes on as a straight line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.optimize import minimize_scalar

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.torch import is_tensor, torch
from stopwise.kernels.base import Around, Constant, Kernel, Rows, as_matrix, check_kernel

_NEARLY_ZERO = 1e-8
"""A power, in place of zero: its logarithm is then right to eight digits."""
_LARGEST_EXPONENT = 336.0
"""Of e, that a power may make of values twenty times as far out as any seen: its square is a number yet."""


@dataclass(frozen=True)
class Warped(Around):
    """k(x, z) = inner(w(x), w(z)), w_j of feature j the map above with its centre, spread, power, low and high."""

    centre: tuple[float, ...]
    spread: tuple[float, ...]
    power: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        check_kernel(self.inner, "what is warped")
        lengths = {len(each) for each in (self.centre, self.spread, self.power, self.low, self.high)}
        if len(lengths) > 1:
            raise ValueError(f"centre, spread, power, low and high need one number per feature, got {sorted(lengths)}")
        if not all(low <= high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError("low must be at most high for each feature")
        if not all(0 < spread < math.inf for spread in self.spread):
            raise ValueError("spread must be positive for each feature: use the standard deviation")

    @property
    def name(self) -> str:
        return f"warped {self.inner.name}"

    @property
    def core(self) -> Kernel:
        return self.inner

    def places(self, rows: Any) -> Any:
        if rows.shape[-1] != len(self.power):
            raise ValueError(
                f"this kernel is warped for {len(self.power)} features, got {rows.shape[-1]}: pass the fit's columns"
            )
        library = torch() if is_tensor(rows) else np

        def numbers(values: ArrayLike) -> Any:
            return rows.new_tensor(np.asarray(values)) if is_tensor(rows) else np.asarray(values, dtype=rows.dtype)

        centre, spread = np.array(self.centre), np.array(self.spread)
        above, below = (np.where(np.abs(p) < _NEARLY_ZERO, _NEARLY_ZERO, p) for p in (self._powers, 2 - self._powers))
        ends = [(np.array(end) - centre) / spread for end in (self.low, self.high)]
        slopes = [(1 + np.abs(end)) ** (np.sign(end) * (self._powers - 1)) for end in ends]
        (low, high), (at_low, at_high) = map(numbers, ends), map(numbers, slopes)
        z, zero = (rows - numbers(centre)) / numbers(spread), numbers(0.0)
        inside = library.minimum(library.maximum(z, low), high)
        right, left = library.log1p(library.maximum(inside, zero)), library.log1p(library.maximum(-inside, zero))
        warped = library.expm1(numbers(above) * right) / numbers(above)
        warped = warped - library.expm1(numbers(below) * left) / numbers(below)
        warped = warped + at_low * library.minimum(z - low, zero) + at_high * library.maximum(z - high, zero)
        return numbers(centre) + numbers(spread) * warped

    @property
    def _powers(self) -> Array:
        return np.array(self.power)

    def with_inner(self, inner: Kernel) -> Kernel:
        return replace(self, inner=inner)

    def pair(self, x: Array, z: Array) -> float:
        return self.inner.pair(self.places(np.asarray(x)), self.places(np.asarray(z)))

    def block(self, left: Rows, right: Rows) -> Array:
        return self.inner.block(left, right)

    def diagonal(self, covariates: ArrayLike) -> Array:
        return self.inner.diagonal(self.places(as_matrix(covariates)))


@dataclass(frozen=True, eq=False)
class Warp:
    """Powers (d,) that draw in features given in standard deviations about their means, where these are skewed.

    Features lie in [low, high]; `spread` is the standard deviation of what comes out, in which `places` are given.
    """

    power: Array
    low: Array
    high: Array
    spread: Array

    def places(self, covariates: Array) -> Array:
        """Standardised covariates drawn in, and of unit spread again."""
        return cast(Array, self.kernel(Constant(1.0), 0.0, 1.0).places(covariates) / self.spread)

    def kernel(self, inner: Kernel, centre: Array | float, spread: Array | float) -> Warped:
        """A kernel of the features drawn in, in their own units: of this mean and standard deviation."""
        numbers = (centre, spread, self.power, centre + spread * self.low, centre + spread * self.high)
        return Warped(inner, *(tuple(np.broadcast_to(each, self.power.shape).tolist()) for each in numbers))


def find_warp(rows: Array, weights: Array, low: Array, high: Array, left_alone: Array) -> Warp | None:
    """The powers that make each column of standardised rows most nearly normal; None where no column gains by one.

    A power stays one where the likeliest raises the log likelihood by less than log(n) / 2, the price of a parameter
    (Schwarz 1978), for columns of at most two values, which a map only scales, and for those `left_alone`.
    """
    power = np.ones(rows.shape[1])
    for j, column in enumerate(rows.T):
        if not left_alone[j] and np.any((column > column.min()) & (column < column.max())):
            power[j] = _likeliest_power(column)
    if np.all(power == 1):
        return None
    drawn = Warp(power, low, high, np.ones(len(power))).places(rows)
    mean = np.average(drawn, axis=0, weights=weights)
    spread = np.sqrt(np.average((drawn - mean) ** 2, axis=0, weights=weights))
    return Warp(power, low, high, np.where(power == 1, 1.0, spread))


def warp_of(rows: Array, inner: Kernel, left_alone: Sequence[int] = ()) -> Warped | None:
    """A kernel of some rows drawn in where they are skewed, in their own units; None where no column is."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    middle, reach = low / 2 + high / 2, np.where(high > low, high / 2 - low / 2, 1.0)
    inside = (rows - middle) / reach  # before squaring: no magnitude overflows
    centre, spread = middle + reach * inside.mean(axis=0), reach * np.where(high > low, inside.std(axis=0), 1.0)
    scaled, alone = (rows - centre) / spread, np.isin(np.arange(rows.shape[1]), list(left_alone))
    warp = find_warp(scaled, np.ones(len(rows)), scaled.min(axis=0), scaled.max(axis=0), alone)
    return None if warp is None else warp.kernel(inner, centre, spread)


def _likeliest_power(column: Array) -> float:
    """To two decimals, more than any rows can tell: the same whatever the order of rows rounds.

    The log likelihood of a normal psi(z): (p - 1) sum sign(z) log(1 + |z|) - n log(var psi(z)) / 2. (scipy's own does
    the same, and takes ten times as long for a thousand rows.)
    """
    logs = np.sign(column) * np.log1p(np.abs(column))
    right, left, total = logs[logs > 0], -logs[logs <= 0], logs.sum()
    reach = _LARGEST_EXPONENT / math.log1p(20 * float(np.abs(column).max()))

    def likelihood(power: float) -> float:
        above, below = (p if abs(p) > _NEARLY_ZERO else _NEARLY_ZERO for p in (power, 2 - power))
        parts = np.expm1(above * right) / above, np.expm1(below * left) / -below
        variance = float(np.concatenate(parts).var())
        return float((power - 1) * total - column.size * math.log(variance) / 2) if variance > 0 else -math.inf

    best = minimize_scalar(lambda power: -likelihood(power), bounds=(2 - reach, reach), options={"xatol": 1e-4})
    power = round(float(best.x), 2)
    return power if likelihood(power) - likelihood(1.0) > math.log(column.size) / 2 else 1.0
