"""Kernels that come from elsewhere: a callable, a scikit-learn kernel, or the matrix itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import real_array
from stopwise.kernels.base import Kernel, Rows, as_matrix


def _as_block(value: object, shape: tuple[int, int], source: str) -> Array:
    real = real_array(value, f"what {source} returned")
    given = np.asarray(value).dtype
    block = real.astype(given if given == np.float32 else np.float64)
    if block.shape != shape:
        raise ValueError(
            f"{source} returned an array of shape {block.shape} where {shape} was due: it must take (X, Z) and "
            "return one value for every pair of rows"
        )
    if not np.all(np.isfinite(block)):
        raise ValueError(f"{source} returned NaN or infinity: every kernel value must be finite")
    return cast(Array, block)


@dataclass(frozen=True)
class FromCallable(Kernel):
    """A function k(X, Z) that returns the whole block."""

    function: Callable[[Array, Array], ArrayLike]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"a kernel function must be callable as k(X, Z), got {self.function!r}")

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", "callable"))

    def pair(self, x: Array, z: Array) -> float:
        return float(self.block(np.atleast_2d(x), np.atleast_2d(z))[0, 0])

    def block(self, left: Rows, right: Rows) -> Array:
        return _as_block(self.function(left, right), (len(left), len(right)), f"the kernel {self.name}")

    def diagonal(self, covariates: ArrayLike) -> Array:
        matrix = as_matrix(covariates)
        return np.array([self.block(row[None], row[None])[0, 0] for row in matrix], dtype=matrix.dtype)


@dataclass(frozen=True)
class FromSklearn(Kernel):
    """A kernel of `sklearn.gaussian_process.kernels`, at its present hyper-parameters."""

    kernel: Any

    def __post_init__(self) -> None:
        if not (callable(self.kernel) and hasattr(self.kernel, "diag")):
            raise TypeError(f"not a kernel of sklearn.gaussian_process.kernels: {self.kernel!r}")

    @property
    def name(self) -> str:
        return str(self.kernel)

    def pair(self, x: Array, z: Array) -> float:
        return float(self.kernel(np.atleast_2d(x), np.atleast_2d(z))[0, 0])

    def block(self, left: Rows, right: Rows) -> Array:
        # Asking for k(X, X) with one argument keeps scikit-learn's white-noise terms on the diagonal only there.
        value = self.kernel(left) if left is right else self.kernel(left, right)
        return _as_block(value, (len(left), len(right)), f"the scikit-learn kernel {self.kernel}")

    def diagonal(self, covariates: ArrayLike) -> Array:
        return np.asarray(self.kernel.diag(as_matrix(covariates)), dtype=np.float64)


@dataclass(frozen=True)
class Precomputed(Kernel):
    """X is the raw Gram matrix itself; at predict, rows of k(new, training)."""

    def pair(self, x: Array, z: Array) -> float:
        raise TypeError("a precomputed kernel has no pair function: its values are the matrix handed over as X")

    def block(self, left: Rows, right: Rows) -> Array:
        raise TypeError("a precomputed kernel cannot be evaluated: its values are the matrix handed over as X")

    def __call__(self, covariates: ArrayLike, others: ArrayLike | None = None) -> Array:
        matrix = as_matrix(covariates)
        if others is not None:
            if matrix.shape[1] != len(as_matrix(others)):
                raise ValueError(
                    f"a precomputed kernel matrix at predict needs one column per training row, "
                    f"{len(as_matrix(others))}; got {matrix.shape[1]}"
                )
            return matrix
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"a precomputed kernel matrix must be square, got shape {matrix.shape}")
        return matrix

    def diagonal(self, covariates: ArrayLike) -> Array:
        return cast(Array, np.diagonal(as_matrix(covariates)).copy())
