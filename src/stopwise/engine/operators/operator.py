"""The matrix K = Gram / n as something that multiplies blocks.

With weights w (frequencies, n their sum) the matrix is D Gram D / n, D = diag(sqrt w): its non-zero eigenvalues are
those of the data with row i repeated w_i times. With an intercept it is centred, H K H with H = I - q q' and
q = sqrt(w / n). A subclass only knows how to multiply the raw Gram matrix.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.kernels import Kernel


class Operator(ABC):
    """K as an operator. Subclasses are final and give `_gram_product` and `gram_diagonal`."""

    fixed: Array | None = None
    """Orthonormal columns (n, p) that are projected out in place of the constant direction, if any."""

    def __init__(self, n_rows: int, *, weights: Array | None = None, centred: bool = False) -> None:
        self.n_rows = n_rows
        self.weights = weights
        self.centred = centred
        self.n_samples = float(n_rows) if weights is None else float(weights.sum())
        self.root_weights: Array = np.ones(n_rows) if weights is None else np.sqrt(weights)

    @abstractmethod
    def _gram_product(self, block: Array) -> Array:
        """Gram @ block, for an (n_rows, b) block."""

    @abstractmethod
    def gram_diagonal(self) -> Array:
        """The diagonal of the Gram matrix."""

    def _gram_square_sum(self) -> float | None:
        """Sum over i, j of w_i w_j Gram_ij^2 where it comes at no great cost, else None."""
        return None

    def gram_product(self, block: Array) -> Array:
        """Gram @ block: neither weighted nor centred nor divided by n."""
        return self._gram_product(np.ascontiguousarray(block))

    @cached_property
    def constant_direction(self) -> Array:
        """q = sqrt(w / n): the direction that an intercept takes out."""
        return cast(Array, self.root_weights / np.sqrt(self.n_samples))

    def _uncentred(self, block: Array) -> Array:
        if self.weights is None:
            out = self._gram_product(block)
        else:
            root = self.root_weights[:, None]
            out = root * self._gram_product(np.ascontiguousarray(root * block))
        out /= self.n_samples
        return out

    def centre(self, block: Array) -> Array:
        """H block: what is left after taking out the constant direction (nothing to do without an intercept)."""
        if not self.centred:
            return block
        if self.fixed is not None:
            return cast(Array, block - self.fixed @ (self.fixed.T @ block))
        q = self.constant_direction
        if self.weights is None:  # q is the same in every row
            return cast(Array, block - float(q[0]) * (q @ block))
        return cast(Array, block - q[:, None] * (q @ block))

    def multiply(self, block: Array) -> Array:
        """K @ block; the first product of a centred operator finds K q beside it."""
        if not self.centred or self.fixed is not None or block.ndim != 2 or "mean_image" in self.__dict__:
            return self.centre(self._uncentred(self.centre(block)))
        both = self._uncentred(np.column_stack([self.centre(block), self.constant_direction]))
        self.__dict__["mean_image"] = both[:, -1].copy()
        return self.centre(both[:, :-1])

    @cached_property
    def mean_image(self) -> Array:
        """K q before centring: the weighted mean row of the Gram matrix, as the intercept needs it."""
        return cast(Array, self._uncentred(self.constant_direction[:, None])[:, 0])

    @cached_property
    def fixed_image(self) -> Array:
        """K times the fixed columns, before they are projected out."""
        assert self.fixed is not None
        return self._uncentred(self.fixed)

    @cached_property
    def diagonal(self) -> Array:
        plain = np.asarray(self.gram_diagonal(), dtype=np.float64) * self.root_weights**2 / self.n_samples
        if not self.centred:
            return cast(Array, plain)
        if self.fixed is not None:
            fixed, image = self.fixed, self.fixed_image
            across = image - fixed @ (fixed.T @ image) / 2
            return cast(Array, np.maximum(plain - 2 * (fixed * across).sum(axis=1), 0.0))
        q, image = self.constant_direction, self.mean_image
        return cast(Array, np.maximum(plain - 2 * q * image + q * q * float(q @ image), 0.0))

    @cached_property
    def trace(self) -> float:
        """The trace of K, exact up to rounding."""
        return float(self.diagonal.sum())

    @cached_property
    def square_sum(self) -> float | None:
        """The squared Frobenius norm of K, or None where the operator does not know it."""
        total = self._gram_square_sum()
        if total is None:
            return None
        total /= self.n_samples**2
        if self.centred:
            q, image = self.constant_direction, self.mean_image
            total = total - 2 * float(image @ image) + float(q @ image) ** 2
        return max(float(total), 0.0)

    @cached_property
    def mean_row(self) -> Array | None:
        """w' Gram / n, the weighted mean row of the Gram matrix, or t' Gram for the fixed columns t of rows, (p, n).

        None where nothing is projected out.
        """
        if self.fixed is not None:
            return cast(Array, (self.fixed_image * self.n_samples / self.root_weights[:, None]).T)
        return cast(Array, self.mean_image * np.sqrt(self.n_samples) / self.root_weights) if self.centred else None


class KernelOperator(Operator):
    """K of a kernel between rows in memory. Subclasses are final and give `_gram_product`."""

    def __init__(
        self, kernel: Kernel, covariates: Array, *, weights: Array | None = None, centred: bool = False
    ) -> None:
        super().__init__(len(covariates), weights=weights, centred=centred)
        kernel.check(covariates)
        self.kernel, self.covariates = kernel, covariates

    def gram_diagonal(self) -> Array:
        return self.kernel.diagonal(self.covariates)
