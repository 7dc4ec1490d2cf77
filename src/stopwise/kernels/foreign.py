"""Kernels that come from elsewhere: a callable, a scikit-learn kernel, or the matrix itself."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
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
    """A kernel of `sklearn.gaussian_process.kernels`, at its present hyper-parameters.

    A `WhiteKernel` in it is noise, which has no value between two observations, even of one place: it is left out
    (`signal`). How loud noise is, the stop and `noise_std` say.
    """

    kernel: Any

    def __post_init__(self) -> None:
        if not (callable(self.kernel) and hasattr(self.kernel, "diag")):
            raise TypeError(f"not a kernel of sklearn.gaussian_process.kernels: {self.kernel!r}")
        if any(isinstance(value, Kernel) for value in self.kernel.get_params().values()):
            raise TypeError(
                "scikit-learn's + and * take a stopwise kernel for a number: make a stopwise kernel of the other one "
                "first, as in sw.kernels.as_kernel(RBF()) + sw.kernels.Gaussian(0.3)"
            )
        if _without_noise(self.kernel) is None:
            raise ValueError(
                f"the scikit-learn kernel {self.kernel} is noise alone, which nothing can be predicted from: add a "
                "kernel of the signal, such as RBF()"
            )

    @cached_property
    def signal(self) -> Any:
        """The kernel without white noise."""
        return _without_noise(self.kernel)

    @property
    def name(self) -> str:
        return str(self.signal)

    def pair(self, x: Array, z: Array) -> float:
        return float(self.signal(np.atleast_2d(x), np.atleast_2d(z))[0, 0])

    def block(self, left: Rows, right: Rows) -> Array:
        return _as_block(self.signal(left, right), (len(left), len(right)), f"the scikit-learn kernel {self.kernel}")

    def diagonal(self, covariates: ArrayLike) -> Array:
        return np.asarray(self.signal.diag(as_matrix(covariates)), dtype=np.float64)


def _without_noise(kernel: Any) -> Any:
    """The kernel between observations that differ, where white noise is zero; None where nothing is left of it."""
    # Imported by whoever gives such a kernel; all others would wait for it.
    gp = importlib.import_module("sklearn.gaussian_process.kernels")
    if isinstance(kernel, gp.WhiteKernel):
        return None
    if isinstance(kernel, gp.Exponentiation):
        inner = _without_noise(kernel.kernel)
        return None if inner is None else gp.Exponentiation(inner, kernel.exponent)
    if not isinstance(kernel, (gp.Sum, gp.Product)):
        return kernel
    parts = [part for part in map(_without_noise, (kernel.k1, kernel.k2)) if part is not None]
    if len(parts) == 2:
        return type(kernel)(*parts)
    return parts[0] if parts and isinstance(kernel, gp.Sum) else None


@dataclass(frozen=True)
class Precomputed(Kernel):
    """X is the raw Gram matrix itself; at predict, rows of k(new, training)."""

    def pair(self, x: Array, z: Array) -> float:
        raise TypeError("a precomputed kernel has no pair function: its values are the matrix handed over as X")

    def block(self, left: Rows, right: Rows) -> Array:
        raise TypeError(
            "a precomputed kernel cannot be evaluated: its values are the matrix handed over as X (in place of its sum "
            "or product with another kernel, hand over that of the two matrices)"
        )

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
