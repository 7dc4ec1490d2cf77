"""The matrix held in memory: the reference for all other operators."""

from typing import cast

import numpy as np
import numpy.typing as npt
import scipy.linalg

from stopwise._support.arrays import Array
from stopwise._support.memory import row_tiles
from stopwise.engine.operators.centring import centred_gram, projected
from stopwise.engine.operators.operator import Operator

_ASYMMETRY = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}
"""By how much mirrored entries may differ, relative to the largest: what rounding leaves, with room to spare."""


class Dense(Operator):
    """K from the raw Gram matrix, float64 or float32, which is copied where rounding left it not quite symmetric.

    `own`: nobody else needs the matrix, so that it may be made symmetric in place.
    """

    def __init__(
        self,
        gram: Array,
        *,
        weights: Array | None = None,
        centred: bool = False,
        fixed: Array | None = None,
        own: bool = False,
    ) -> None:
        if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
            raise ValueError(f"a Gram matrix must be square, got shape {gram.shape}")
        super().__init__(len(gram), weights=weights, centred=centred)
        self.fixed = fixed
        scale = max(float(gram.max(initial=0.0)), -float(gram.min(initial=0.0)))
        if not np.isfinite(scale):
            raise ValueError("the Gram matrix holds NaN or infinity: rescale the covariates or the kernel")
        gaps = (float(np.abs(gram[t, t.start :] - gram[t.start :, t].T).max()) for t in row_tiles(*gram.shape))
        gap = max(gaps, default=0.0)
        refuse_asymmetry(gap, scale, gram.dtype)
        self.gram = gram if gap == 0 else _symmetric(gram if own else gram.copy())

    def _gram_product(self, block: Array) -> Array:
        return np.asarray(self.gram @ block.astype(self.gram.dtype, copy=False))

    def gram_diagonal(self) -> Array:
        return np.diagonal(self.gram)

    def _gram_square_sum(self) -> float:
        total = 0.0
        for t in row_tiles(*self.gram.shape):
            weighted = self.root_weights[t, None] * self.gram[t] * self.root_weights[None, :]
            total += float(np.vdot(weighted, weighted))
        return total

    def normalized_gram(self) -> Array:
        """K itself, weighted and centred."""
        dtype = self.gram.dtype
        root = None if self.weights is None else self.root_weights.astype(dtype)
        constant = self.constant_direction.astype(dtype) if self.centred and self.fixed is None else None
        matrix = centred_gram(self.gram / dtype.type(self.n_samples), root, constant)
        return matrix if self.fixed is None else cast(Array, projected(matrix, self.fixed.astype(dtype)))

    @property
    def _free(self) -> Array:
        """The orthonormal directions that K takes to zero since they are left free, (n, p)."""
        if self.fixed is not None:
            return self.fixed
        return self.constant_direction[:, None] if self.centred else np.zeros((self.n_rows, 0))

    def eigh(self) -> tuple[Array, Array]:
        """All eigenvalues, descending and as they come from LAPACK, with their eigenvectors.

        Free directions are given an eigenvalue far below all others, and zero afterwards: with zero from the start they
        would mix with those of tiny eigenvalues, and what a fit that nearly runs through its rows leaves would be lost.
        """
        matrix, free = self.normalized_gram(), self._free.astype(self.gram.dtype)
        matrix -= free @ (np.linalg.norm(matrix) * free.T)
        values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
        values[: free.shape[1]] = 0.0
        # In order in memory: products with reversed columns would be eight times slower, since BLAS takes none.
        order = np.argsort(-values, kind="stable")
        return values[order].astype(np.float64), np.asfortranarray(vectors[:, order])


def refuse_asymmetry(gap: float, scale: float, dtype: npt.DTypeLike) -> None:
    """Entries that differ from their mirror images by up to `gap` must be rounding beside the largest, `scale`."""
    if gap > _ASYMMETRY[np.dtype(dtype)] * scale:
        raise ValueError(
            f"a Gram matrix must be symmetric: entries differ from their mirror images by up to {gap:g} "
            f"(largest entry {scale:g})"
        )


def _symmetric(gram: Array) -> Array:
    """The mean of a matrix and its mirror image, in its place."""
    for t in row_tiles(*gram.shape):
        mean = (gram[t, t.start :] + gram[t.start :, t].T) / 2
        gram[t, t.start :] = mean
        gram[t.start :, t] = mean.T
    return gram
