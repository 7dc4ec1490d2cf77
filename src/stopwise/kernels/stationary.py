"""What kernels of scaled differences share: a length scale for all features, one for each, or "auto"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import real_array
from stopwise.kernels.base import Kernel, as_matrix

LengthScale = float | tuple[float, ...] | Literal["auto"]


def _as_length_scale(value: object) -> LengthScale:
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f'length_scale must be a number, one number per feature, or "auto"; got {value!r}')
        return "auto"
    if value is None or np.asarray(value).dtype == bool:
        raise TypeError(f'length_scale must be a number, one number per feature, or "auto"; got {value!r}')
    numbers = real_array(value, "length_scale")
    if numbers.ndim > 1 or numbers.size == 0 or not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise ValueError(f"length_scale must be positive and finite, got {value!r}")
    return float(numbers) if numbers.ndim == 0 else tuple(float(v) for v in numbers)


@dataclass(frozen=True)
class Stationary(Kernel):
    """k(x, z) a function of (x - z) / length_scale that is 1 where x = z."""

    length_scale: LengthScale = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "length_scale", _as_length_scale(self.length_scale))

    def with_length_scale(self, length_scale: float | Sequence[float] | Array) -> Self:
        """The same kernel at another length scale."""
        return replace(self, length_scale=_as_length_scale(length_scale))

    @property
    def needs_scale(self) -> bool:
        return isinstance(self.length_scale, str)

    @property
    def scales(self) -> Array:
        """The length scale as an array (one entry, or one per feature)."""
        if self.needs_scale:
            raise ValueError(
                'length_scale="auto" is chosen when an estimator is fitted; give a number to evaluate the '
                "kernel by itself"
            )
        return np.atleast_1d(np.asarray(self.length_scale, dtype=np.float64))

    def apart(self, x: Array, z: Array) -> Array:
        """(x - z) / length_scale of two points, one entry per feature."""
        difference = np.asarray(x, dtype=np.float64) - np.asarray(z, dtype=np.float64)
        return np.atleast_1d(difference / self.scales)

    def check(self, covariates: Array) -> None:
        count = self.scales.size
        if count not in (1, covariates.shape[1]):
            raise ValueError(
                f"length_scale has {count} entries for {covariates.shape[1]} features: give one number, or one "
                "per feature"
            )

    def diagonal(self, covariates: ArrayLike) -> Array:
        matrix = as_matrix(covariates)
        return np.ones(len(matrix), dtype=matrix.dtype)
