"""Kernels of the inner product: linear and polynomial."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise.kernels.base import Kernel, Rows, as_matrix


def _check_size(kernel: Kernel, covariates: Array, degree: int) -> None:
    """No product of two rows is larger than the larger row with itself: if that fits into a float, all do."""
    with np.errstate(over="ignore"):
        largest: Any = np.einsum("ij,ij->i", covariates, covariates).max(initial=0.0)
        fits = np.isfinite((1 + largest) ** float(degree))
    if not fits:
        raise ValueError(
            f"the {kernel.name} kernel overflows: a row has squared length {largest:g}, whose power {degree} is past "
            f"{np.finfo(covariates.dtype).max:g}; rescale the covariates"
        )


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, z) = <x, z>."""

    def check(self, covariates: Array) -> None:
        _check_size(self, covariates, 1)

    def pair(self, x: Array, z: Array) -> float:
        return float(np.dot(np.atleast_1d(x), np.atleast_1d(z)))

    def block(self, left: Rows, right: Rows) -> Array:
        return cast(Array, left @ right.T)

    def diagonal(self, covariates: ArrayLike) -> Array:
        matrix = as_matrix(covariates)
        return cast(Array, np.einsum("ij,ij->i", matrix, matrix))


@dataclass(frozen=True)
class Polynomial(Kernel):
    """k(x, z) = (1 + <x, z>)^degree; on a line its rank is degree + 1 (RWY14 erratum E4)."""

    degree: int = 2

    def __post_init__(self) -> None:
        if isinstance(self.degree, bool) or not isinstance(self.degree, Integral) or self.degree < 1:
            raise ValueError(f"degree must be an integer of at least 1, got {self.degree!r}")

    def check(self, covariates: Array) -> None:
        _check_size(self, covariates, self.degree)

    @property
    def name(self) -> str:
        return f"polynomial{self.degree}"

    def pair(self, x: Array, z: Array) -> float:
        return float((1.0 + np.dot(np.atleast_1d(x), np.atleast_1d(z))) ** self.degree)

    def block(self, left: Rows, right: Rows) -> Array:
        out = left @ right.T
        out += 1.0
        return cast(Array, out**self.degree)

    def diagonal(self, covariates: ArrayLike) -> Array:
        matrix = as_matrix(covariates)
        return cast(Array, (1.0 + np.einsum("ij,ij->i", matrix, matrix)) ** self.degree)
