"""K over a cluster: row chunks of the covariates on workers, a task for each chunk of every product.

Blocks are numpy arrays on the client: a product costs n^2 kernel entries on the workers, and a few columns of n numbers
on the way there and back. Every part is a future with its history, so what a dying worker held is made again, not lost.
"""

from collections.abc import Sequence

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.dask import Client, Future
from stopwise._support.memory import row_tiles, spans
from stopwise.engine.operators.operator import KernelOperator
from stopwise.kernels import Kernel, Rows, common_origin, take_rows

_COLUMNS = 4096
"""Columns of a tile of the kernel matrix."""


def _product(
    kernel: Kernel, rows: Rows, everyone: list[Rows], blocks: list[Array], weights: tuple[Array, list[Array]] | None
) -> tuple[Array, float]:
    """The rows of Gram @ block that belong to one chunk, and the weighted sum of their squared entries. For workers."""
    mine, others = (None, [None] * len(blocks)) if weights is None else weights
    n_rows = _count(rows)
    out, squares = np.zeros((n_rows, blocks[0].shape[1])), 0.0
    for right, block, weight in zip(everyone, blocks, others, strict=True):
        for part in row_tiles(n_rows, _COLUMNS):
            left = take_rows(rows, part)
            for columns in spans(len(block), _COLUMNS):
                tile = kernel.block(left, take_rows(right, columns))
                out[part] += tile @ block[columns]
                if mine is None or weight is None:
                    squares += float(np.vdot(tile, tile))
                else:
                    squares += float(mine[part] @ (tile * tile) @ weight[columns])
    return out, squares


def _count(rows: Rows) -> int:
    return _count(rows[0]) if isinstance(rows, tuple) else len(rows)


class ChunkedGram(KernelOperator):
    """K from row chunks on workers (futures, in order)."""

    def __init__(
        self,
        client: Client,
        kernel: Kernel,
        covariates: Array,
        chunks: Sequence[Future],
        lengths: Sequence[int],
        *,
        weights: Array | None = None,
        centred: bool = False,
    ) -> None:
        super().__init__(kernel, covariates, weights=weights, centred=centred)
        self.client = client
        ends = np.cumsum(lengths)
        self.slices = [slice(int(end - size), int(end)) for end, size in zip(ends, lengths, strict=True)]
        origin = common_origin(covariates)
        self.chunks = [client.submit(kernel.prepare, chunk, origin, pure=False) for chunk in chunks]
        self._squares: float | None = None

    def _gram_product(self, block: Array) -> Array:
        submit, jobs = self.client.submit, []
        parts = [submit(np.asarray, block[rows], pure=False) for rows in self.slices]
        weights = None if self.weights is None else [self.weights[rows] for rows in self.slices]
        for i, chunk in enumerate(self.chunks):
            both = None if weights is None else (weights[i], weights)
            jobs.append(submit(_product, self.kernel, chunk, self.chunks, parts, both, pure=False))
        results = self.client.gather(jobs)
        self._squares = sum(squares for _, squares in results)
        return np.concatenate([rows for rows, _ in results])

    def _gram_square_sum(self) -> float | None:
        return self._squares
