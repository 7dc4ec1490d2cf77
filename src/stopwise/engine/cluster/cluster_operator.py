"""K over a cluster: row chunks of the covariates on workers, tall blocks cut the same way, the rest on the client.

`ChunkedGram` is the operator as numpy sees it. `OnCluster` is the same matrix for blocks that stay on workers, and
`ClusterStore` holds the Krylov basis there (a tall-skinny QR: each chunk is factored where it lies, the small factors
on the client). Every block is a future with its history, so what a dying worker held is made again, not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.operators.base import Operator
from stopwise.kernels import Kernel, Rows, take_rows

_TILE = 512
_COLUMNS = 4096


# ---- what workers run -----------------------------------------------------------------------------------------------


def _product(kernel: Kernel, rows: Rows, everyone: list[Rows], blocks: list[Array], roots: Any) -> tuple[Array, float]:
    """The rows of (D) Gram (D) @ block that belong to one chunk, and their sum of squared entries."""
    mine, others = (None, [None] * len(blocks)) if roots is None else roots
    n_rows = _count(rows)
    out, squares = np.zeros((n_rows, blocks[0].shape[1])), 0.0
    for right, block, root in zip(everyone, blocks, others, strict=True):
        weighted = block if root is None else root[:, None] * block
        for first in range(0, n_rows, _TILE):
            part = slice(first, min(first + _TILE, n_rows))
            left = take_rows(rows, part)
            for start in range(0, len(block), _COLUMNS):
                columns = slice(start, min(start + _COLUMNS, len(block)))
                tile = kernel.block(left, take_rows(right, columns))
                out[part] += tile @ weighted[columns]
                if mine is None:
                    squares += float(np.vdot(tile, tile))
                else:
                    squares += float(mine[part] ** 2 @ (tile * tile) @ root[columns] ** 2)
    return (out if mine is None else mine[:, None] * out), squares


def _count(rows: Rows) -> int:
    return _count(rows[0]) if isinstance(rows, tuple) else len(rows)


def _first(pair: tuple[Array, float]) -> Array:
    return pair[0]


def _second(pair: tuple[Array, float]) -> float:
    return pair[1]


def _probes(n_rows: int, n_columns: int, seed: int, ranks: Any) -> Array:
    """Rows of one chunk of a random block that is the same however rows are cut."""
    return cast(Array, np.random.default_rng(seed).standard_normal((n_rows, n_columns))[ranks])


def _inner(block: Array, *held: Array) -> Array:
    return np.concatenate([part.T @ block for part in held])


def _less(block: Array, coefficients: Array, *held: Array) -> Array:
    out, first = block.copy(), 0
    for part in held:
        out -= part @ coefficients[first : first + part.shape[1]]
        first += part.shape[1]
    return out


def _plus(coefficients: Array, *held: Array) -> Array:
    return -_less(np.zeros((len(held[0]), coefficients.shape[1])), coefficients, *held)


def _squared(weights: Array, rotation: Array, *held: Array) -> Array:
    return cast(Array, (np.concatenate(held, axis=1) @ rotation) ** 2 @ weights)


def _less_outer(block: Array, direction: Array, row: Array) -> Array:
    return np.asarray(block - np.outer(direction, row))


def _against(block: Array, direction: Array) -> Array:
    return cast(Array, direction @ block)


def _triangle(block: Array) -> Array:
    return cast(Array, np.linalg.qr(block, mode="r"))


def _orthonormal(block: Array, small: Array) -> Array:
    return cast(Array, np.linalg.qr(block)[0] @ small)


def _norms(block: Array) -> Array:
    return cast(Array, (block**2).sum(axis=0))


def _times(block: Array, small: Array) -> Array:
    return cast(Array, block @ small)


def _scaled(block: Array, factor: Any) -> Array:
    return cast(Array, block * factor)


def _beside(*blocks: Array) -> Array:
    return np.concatenate(blocks, axis=1)


def _columns(block: Array, first: int, last: int) -> Array:
    return block[:, first:last]


# ---- blocks and the operator ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tall:
    """A tall block, a future per row chunk."""

    parts: tuple[Any, ...]
    width: int


class ChunkedGram(Operator):
    """K from prepared row chunks on workers (futures, in order), numpy blocks in and out."""

    def __init__(
        self,
        client: Any,
        kernel: Kernel,
        covariates: Array,
        chunks: Sequence[Any],
        lengths: Sequence[int],
        *,
        weights: Array | None = None,
        centred: bool = False,
    ) -> None:
        super().__init__(len(covariates), weights=weights, centred=centred)
        kernel.check(covariates)
        self.client, self.kernel, self.covariates = client, kernel, covariates
        ends = np.cumsum(lengths)
        self.slices = [slice(int(end - size), int(end)) for end, size in zip(ends, lengths, strict=True)]
        origin = covariates.mean(axis=0)
        self.chunks = [client.submit(kernel.prepare, chunk, origin, pure=False) for chunk in chunks]
        self._squares: float | None = None

    def each(self, function: Callable[..., Any], *blocks: Tall, own: Sequence[Any] | None = None, **shared: Any) -> Any:
        """function(blocks of the chunk, own of the chunk) for every chunk, as futures."""
        columns = [block.parts for block in blocks]
        if own is not None:
            columns.insert(1, tuple(own))
        return [self.client.submit(function, *parts, pure=False, **shared) for parts in zip(*columns, strict=True)]

    def split(self, block: Array) -> Tall:
        """A numpy block cut like the rows."""
        parts = tuple(self.client.submit(np.asarray, block[rows], pure=False) for rows in self.slices)
        return Tall(parts, block.shape[1])

    def product(self, block: Tall) -> Tall:
        """D Gram D @ block for a block on the cluster."""
        roots = [self.root_weights[rows] for rows in self.slices]
        jobs = []
        for i, chunk in enumerate(self.chunks):
            weights = None if self.weights is None else (roots[i], roots)
            jobs.append(
                self.client.submit(_product, self.kernel, chunk, self.chunks, list(block.parts), weights, pure=False)
            )
        if self._squares is None:
            self._squares = sum(self.client.gather(self.client.map(_second, jobs, pure=False)))
        return Tall(tuple(self.client.map(_first, jobs, pure=False)), block.width)

    def _gram_product(self, block: Array) -> Array:
        plain = block / self.root_weights[:, None]
        out = np.concatenate(self.client.gather(list(self.product(self.split(plain)).parts)))
        return cast(Array, out / self.root_weights[:, None])

    def _gram_diagonal(self) -> Array:
        return self.kernel.diagonal(self.covariates)

    def _gram_square_sum(self) -> float | None:
        return self._squares

    @cached_property
    def directions(self) -> list[Array]:
        """The constant direction, a part per chunk."""
        return [self.constant_direction[rows] for rows in self.slices]


class OnCluster:
    """K for blocks on the cluster, with what else a fit asks of its operator."""

    def __init__(self, gram: ChunkedGram) -> None:
        self.gram = gram
        self.n_rows, self.n_samples, self.centred = gram.n_rows, gram.n_samples, gram.centred
        self.root_weights, self.mean_prediction = gram.root_weights, gram.mean_prediction

    @property
    def trace(self) -> float:
        """The trace of K."""
        return self.gram.trace

    @property
    def square_sum(self) -> float | None:
        """The squared Frobenius norm of K."""
        return self.gram.square_sum

    @property
    def diagonal(self) -> Array:
        """The diagonal of K."""
        return self.gram.diagonal

    @property
    def mean_image(self) -> Array:
        """K q before centring."""
        return self.gram.mean_image

    def centre(self, block: Tall) -> Tall:
        """H block."""
        if not self.centred:
            return block
        gram = self.gram
        row = sum(gram.client.gather(gram.each(_against, block, own=gram.directions)))
        return Tall(tuple(gram.each(_less_outer, block, own=gram.directions, row=row)), block.width)

    def multiply(self, block: Tall) -> Tall:
        """K @ block."""
        self.gram.products += block.width
        out = self.gram.product(self.centre(block))
        return self.centre(Tall(tuple(self.gram.each(_scaled, out, factor=1 / self.n_samples)), block.width))
