"""One door to dense linear algebra: the same functions on numpy arrays and on torch tensors, wherever those live.

Code behind this door uses operators both libraries share (`@`, `*`, `.T`, slices, `.sum(0)`) and asks `library_of` for
the rest. Everything is float64 unless the arrays say otherwise.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import scipy.linalg
from scipy.linalg import get_lapack_funcs, lapack, solve_triangular

from stopwise._support.arrays import Array
from stopwise._support.memory import spans
from stopwise._support.torch import is_tensor, torch

LARGEST = 8192
"""Rows that one call of LAPACK factors.

OpenBLAS's potrf in several threads writes past its buffers beyond: from 16,000 rows in float64 and 27,000 in float32
with its kernels for AVX-512, where the process dies (scipy's OpenBLAS 0.3.30).
"""
_ROWS = 2048
"""Rows below a block of the diagonal that are solved at once: copies of them are small beside the block's own."""


def factor_lower_half(matrix: Array, largest: int = LARGEST) -> bool:
    """Put L, L L' = matrix, in the place of its lower half; whether it is positive definite.

    `matrix` is in Fortran's order, float32 or float64. What is above the diagonal is neither read nor written.
    """
    n = len(matrix)
    (potrf,) = get_lapack_funcs(("potrf",), (matrix,))
    if n <= largest:
        return not potrf(matrix, lower=True, clean=False, overwrite_a=True)[1]
    for block in spans(n, largest):
        first, last = block.start, block.stop
        left = matrix[block, :first]
        corner = np.array(matrix[block, block], order="F")
        corner -= left @ left.T
        lower, failed = potrf(corner, lower=True, clean=False, overwrite_a=True)
        if failed:
            return False
        np.copyto(matrix[block, block], lower, where=np.tri(last - first, dtype=bool))
        for rows in spans(n - last, _ROWS):
            below = matrix[last + rows.start : last + rows.stop]
            rest = below[:, block].T - left @ below[:, :first].T
            below[:, block] = solve_triangular(lower, rest, lower=True, overwrite_b=True, check_finite=False).T
    return True


class NumpyLibrary:
    """numpy and LAPACK on the host; `module` is the library itself, for what both spell alike."""

    module: Any = np

    def cholesky(self, matrix: Array) -> Array | None:
        """The lower factor L, L L' = matrix, which may be overwritten; None where it is not positive definite."""
        lower = np.asfortranarray(matrix.T)  # itself where symmetric, and in the order that LAPACK overwrites
        if not factor_lower_half(lower):
            return None
        for column in range(1, len(lower)):
            lower[:column, column] = 0.0
        return cast(Array, lower)

    def solve_lower(self, lower: Array, block: Array, *, transposed: bool = False) -> Array:
        """L^-1 block, or L'^-1 block, in the precision of L."""
        block = np.asarray(block, dtype=lower.dtype)  # a factor in float32 is not copied
        return cast(Array, solve_triangular(lower, block, lower=True, trans=int(transposed), check_finite=False))

    def inverse(self, matrix: Array) -> tuple[Array, float] | None:
        """The inverse of a matrix, which may be overwritten, and its log determinant; None as for `cholesky`."""
        factor, failed = lapack.dpotrf(matrix.T, overwrite_a=1)  # in Fortran's order: no copy
        if failed:
            return None
        determinant = 2 * float(np.log(np.diagonal(factor)).sum())
        half, _ = lapack.dpotri(factor, overwrite_c=1)
        diagonal = np.diagonal(half).copy()
        half += half.T  # what is not asked for is zero
        np.fill_diagonal(half, diagonal)
        return half, determinant

    def qr(self, block: Array) -> tuple[Array, Array]:
        """Thin factors Q R = block."""
        orthonormal, upper = np.linalg.qr(block)
        return orthonormal, upper

    def eigh(self, matrix: Array) -> tuple[Array, Array]:
        """Eigenvalues ascending, and eigenvectors."""
        values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
        return values, vectors

    def add_to_diagonal(self, matrix: Array, value: float) -> None:
        """matrix += value I, in place."""
        matrix.flat[:: len(matrix) + 1] += value

    def zeros(self, *shape: int) -> Array:
        """Zeros of this kind."""
        return np.zeros(shape)

    def eye(self, count: int) -> Array:
        """The identity of this kind."""
        return np.eye(count)

    def join(self, blocks: list[Array]) -> Array:
        """Blocks side by side."""
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def take(self, values: Array) -> Array:
        """A numpy array (or one of this kind) as one of this kind."""
        return np.asarray(values)

    def host(self, values: Array) -> Array:
        """One of this kind as a numpy array."""
        return values


class TorchLibrary:
    """The same by torch, on the device of a tensor."""

    def __init__(self, like: Array) -> None:
        self.module: Any = torch()
        self._like = self.module.as_tensor(like).new_zeros(0, dtype=self.module.float64)

    def cholesky(self, matrix: Array) -> Array | None:
        lower, info = torch().linalg.cholesky_ex(matrix)
        return None if int(info) else cast(Array, lower)

    def solve_lower(self, lower: Array, block: Array, *, transposed: bool = False) -> Array:
        flat = torch().as_tensor(block)
        matrix = torch().as_tensor(lower)
        columns = flat[:, None] if flat.ndim == 1 else flat
        out = torch().linalg.solve_triangular(matrix.mT if transposed else matrix, columns, upper=transposed)
        return cast(Array, out[:, 0] if flat.ndim == 1 else out)

    def inverse(self, matrix: Array) -> tuple[Array, float] | None:
        lower = self.cholesky(matrix)
        if lower is None:
            return None
        diagonal = torch().as_tensor(lower).diagonal()
        return torch().cholesky_inverse(lower), 2 * float(torch().log(diagonal).sum())

    def qr(self, block: Array) -> tuple[Array, Array]:
        orthonormal, upper = torch().linalg.qr(block)
        return orthonormal, upper

    def eigh(self, matrix: Array) -> tuple[Array, Array]:
        values, vectors = torch().linalg.eigh(matrix)
        return values, vectors

    def add_to_diagonal(self, matrix: Array, value: float) -> None:
        matrix.diagonal().add_(value)  # type: ignore[attr-defined]

    def zeros(self, *shape: int) -> Array:
        return cast(Array, self._like.new_zeros(shape))

    def eye(self, count: int) -> Array:
        return cast(Array, torch().eye(count, dtype=self._like.dtype, device=self._like.device))

    def join(self, blocks: list[Array]) -> Array:
        return blocks[0] if len(blocks) == 1 else cast(Array, torch().cat(blocks, 1))

    def take(self, values: Array) -> Array:
        if not is_tensor(values):
            values = torch().from_numpy(np.ascontiguousarray(values))
        return cast(Array, torch().as_tensor(values).to(self._like))

    def host(self, values: Array) -> Array:
        return cast(Array, torch().as_tensor(values).cpu().numpy())


ArrayLibrary: TypeAlias = NumpyLibrary | TorchLibrary
"""What numpy and torch spell differently."""
HOST = NumpyLibrary()


def library_of(array: Array) -> ArrayLibrary:
    """The library an array belongs to."""
    return TorchLibrary(array) if is_tensor(array) else HOST


def library_on(device: Any) -> ArrayLibrary:
    """torch on a device."""
    return TorchLibrary(torch().zeros(0, device=device))
