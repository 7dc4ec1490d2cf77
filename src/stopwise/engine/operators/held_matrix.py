"""The matrix held in memory: the reference for all other operators."""

import numpy as np
import scipy.linalg

from stopwise._support.arrays import Array
from stopwise.engine.operators.operator import Operator

_ASYMMETRY = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}
"""By how much mirrored entries may differ, relative to the largest: what rounding leaves, with room to spare."""


class Dense(Operator):
    """K from the raw Gram matrix, float64 or float32."""

    def __init__(
        self, gram: Array, *, weights: Array | None = None, centred: bool = False, fixed: Array | None = None
    ) -> None:
        if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
            raise ValueError(f"a Gram matrix must be square, got shape {gram.shape}")
        super().__init__(len(gram), weights=weights, centred=centred)
        self.fixed = fixed
        scale = float(np.abs(gram).max(initial=0.0))
        if not np.isfinite(scale):
            raise ValueError("the Gram matrix holds NaN or infinity: rescale the covariates or the kernel")
        gap = float(np.abs(gram - gram.T).max(initial=0.0))
        if gap > _ASYMMETRY[gram.dtype] * scale:
            raise ValueError(
                f"a Gram matrix must be symmetric: entries differ from their mirror images by up to {gap:g} "
                f"(largest entry {scale:g})"
            )
        self.gram = gram if gap == 0 else (gram + gram.T) / 2

    def _gram_product(self, block: Array) -> Array:
        return np.asarray(self.gram @ block.astype(self.gram.dtype, copy=False))

    def _gram_diagonal(self) -> Array:
        return np.diagonal(self.gram)

    def _gram_square_sum(self) -> float:
        weighted = self.root_weights[:, None] * self.gram * self.root_weights[None, :]
        return float(np.vdot(weighted, weighted))

    def normalized_gram(self) -> Array:
        """K itself, weighted and centred."""
        matrix = self.gram / self.gram.dtype.type(self.n_samples)
        if self.weights is not None:
            root = self.root_weights.astype(self.gram.dtype)
            matrix *= root[:, None]
            matrix *= root[None, :]
        if self.fixed is not None:
            fixed = self.fixed.astype(self.gram.dtype)
            image = matrix @ fixed
            matrix -= fixed @ image.T
            matrix -= (image - fixed @ (fixed.T @ image)) @ fixed.T
        elif self.centred:
            q = self.constant_direction.astype(self.gram.dtype)
            image = matrix @ q
            matrix -= np.outer(q, image)
            matrix -= np.outer(image - q * (q @ image), q)
        return matrix

    def eigh(self) -> tuple[Array, Array]:
        """All eigenvalues, descending and as they come from LAPACK, with their eigenvectors."""
        values, vectors = scipy.linalg.eigh(self.normalized_gram(), overwrite_a=True, check_finite=False, driver="evd")
        return values[::-1].astype(np.float64), vectors[:, ::-1]
