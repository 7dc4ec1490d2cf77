"""What is not penalised taken out, of blocks and of Gram matrices, numpy's or torch's.

An intercept: H = I - q q', q = sqrt(w / n); or a linear part beside it: I - Q Q' for orthonormal columns Q.
"""

from __future__ import annotations

from typing import Any, cast

from stopwise._support.arrays import Array
from stopwise._support.memory import row_tiles


def centred(block: Array, constant: Array | None) -> Array:
    """H block = block - q (q' block)."""
    if constant is None:
        return block
    means = constant @ block
    return cast(Array, block - (constant[:, None] * means if block.ndim == 2 else constant * means))


def centred_gram(gram: Array, root_weights: Array | None = None, constant: Array | None = None) -> Array:
    """A = H D G D H from a raw Gram matrix, which is overwritten."""
    if root_weights is not None:
        gram *= root_weights[:, None]
        gram *= root_weights[None, :]
    if constant is not None:
        image = gram @ constant
        subtract_outer(gram, constant, image)
        subtract_outer(gram, image - constant * (constant @ image), constant)
    return gram


def projected(matrix: Any, fixed: Any) -> Any:
    """(I - Q Q') M (I - Q Q') for a symmetric matrix M, which is overwritten, and orthonormal columns Q."""
    image = matrix @ fixed
    matrix -= fixed @ image.T
    matrix -= (image - fixed @ (fixed.T @ image)) @ fixed.T
    return matrix


def subtract_outer(matrix: Array, left: Array, right: Array) -> None:
    """matrix -= left right', a block of rows at a time: no second matrix is made."""
    for rows in row_tiles(len(matrix), len(right)):
        matrix[rows] -= left[rows, None] * right[None, :]
