"""The Krylov basis on a cluster: tall blocks in row chunks, their algebra where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.cluster import cluster_operator as work
from stopwise.engine.cluster.cluster_operator import OnCluster, Tall
from stopwise.spectrum import Basis

MIRRORED_BYTES = 512 * 2**20
"""A basis up to this size is copied to the client, where rules that look at rows can do so without asking workers."""


class ClusterStore:
    """A `Store` (see `stopwise.engine.spectrum.block_krylov`) whose blocks are `Tall`."""

    def __init__(self, operator: OnCluster, order: Array) -> None:
        self.operator, self.gram = operator, operator.gram
        # Probes follow a canonical order of the rows, so that neither shuffling nor chunking changes them.
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        self._ranks = [ranks[rows] for rows in self.gram.slices]
        self._blocks: list[Tall] = []
        self._mirror: list[Array] = []

    @property
    def width(self) -> int:
        """How many columns are held."""
        return sum(block.width for block in self._blocks)

    def _total(self, futures: Any) -> Array:
        """The sum over chunks, always in the order of the rows."""
        return cast(Array, np.sum(self.gram.client.gather(futures), axis=0))

    def _probes(self, n_columns: int, seed: int) -> Tall:
        submit, n = self.gram.client.submit, self.gram.n_rows
        parts = [submit(work._probes, n, n_columns, seed, ranks, pure=False) for ranks in self._ranks]
        return self.operator.centre(Tall(tuple(parts), n_columns))

    def _unit(self, block: Tall) -> tuple[Tall, Array]:
        sizes = np.sqrt(self._total(self.gram.each(work._norms, block)))
        scales = np.where(sizes > 0, sizes, 1.0)
        return Tall(tuple(self.gram.each(work._scaled, block, factor=1 / scales)), block.width), scales

    def start(self, responses: Array, n_probes: int, seed: int) -> tuple[Tall, Array]:
        """A first block [responses, probes] of unit-size columns, and the scale taken out of each column."""
        parts = self.gram.each(work._beside, self.gram.split(responses), self._probes(n_probes, seed))
        return self._unit(Tall(tuple(parts), responses.shape[1] + n_probes))

    def random(self, n_columns: int, seed: int) -> Tall:
        """A fresh block of random columns."""
        return self._unit(self._probes(n_columns, seed))[0]

    def inner(self, block: Tall) -> Array:
        """Q' block for all columns held."""
        return self._total(self.gram.each(work._inner, block, *self._blocks))

    def remove(self, block: Tall, coefficients: Array) -> Tall:
        """block - Q coefficients."""
        own = [coefficients] * len(self.gram.slices)
        return Tall(tuple(self.gram.each(work._less, block, *self._blocks, own=own)), block.width)

    def factor(self, block: Tall) -> tuple[Tall, Array]:
        """A tall-skinny QR: triangles of the chunks are stacked and factored on the client."""
        triangles = self.gram.client.gather(self.gram.each(work._triangle, block))
        small, triangle = np.linalg.qr(np.concatenate(triangles))
        cuts = np.cumsum([len(part) for part in triangles])[:-1]
        parts = self.gram.each(work._orthonormal, block, own=np.split(small, cuts))
        return Tall(tuple(parts), triangle.shape[0]), triangle

    def turn(self, block: Tall, small: Array) -> Tall:
        """block @ small."""
        return Tall(tuple(self.gram.each(work._times, block, small=small)), small.shape[1])

    def append(self, block: Tall) -> None:
        """Hold these columns too."""
        self._blocks.append(block)

    def block(self, first: int, last: int) -> Tall:
        """Some of the columns held, as a block to multiply."""
        parts, at = [], 0
        for block in self._blocks:
            low, high = max(first - at, 0), min(last - at, block.width)
            if low < high:
                whole = (low, high) == (0, block.width)
                cut = self.gram.each(work._columns, block, first=low, last=high) if not whole else block.parts
                parts.append(Tall(tuple(cut), high - low))
            at += block.width
        return parts[0] if len(parts) == 1 else Tall(tuple(self.gram.each(work._beside, *parts)), last - first)

    def basis(self, width: int, rotation: Array) -> Basis:
        """The first `width` columns, rotated: a copy on the client while it is small, else left on the cluster."""
        ends = np.cumsum([block.width for block in self._blocks])
        count = int(np.searchsorted(ends, width)) + 1
        if ends[count - 1] != width:
            raise ValueError(f"{width} columns do not end with a block")
        if 8 * self.gram.n_rows * width > MIRRORED_BYTES:
            self._mirror = []
            return cast(Basis, ClusterBasis(self, tuple(self._blocks[:count]), rotation))
        for block in self._blocks[len(self._mirror) : count]:
            self._mirror.append(np.concatenate(self.gram.client.gather(list(block.parts))))
        return Basis(np.concatenate(self._mirror[:count], axis=1), rotation)


@dataclass(frozen=True)
class ClusterBasis:
    """Orthonormal vectors on a cluster, rotated: numpy in, numpy out."""

    store: ClusterStore
    held: tuple[Tall, ...]
    rotation: Array

    @property
    def rows(self) -> Array:
        """The unrotated vectors, (n, k), on the client."""
        gram = self.store.gram
        return np.concatenate(gram.client.gather(gram.each(work._beside, *self.held)))

    def combine(self, coefficients: Array) -> Array:
        """The vectors summed with these coefficients: (k,) or (k, q) -> (n,) or (n, q)."""
        gram, flat = self.store.gram, (self.rotation @ coefficients).reshape(len(self.rotation), -1)
        jobs = [gram.client.submit(work._plus, flat, *parts, pure=False) for parts in self._by_chunk()]
        return np.concatenate(gram.client.gather(jobs)).reshape(-1, *coefficients.shape[1:])

    def _by_chunk(self) -> Any:
        return zip(*(block.parts for block in self.held), strict=True)

    def coordinates(self, vectors: Array) -> Array:
        """Inner products of every vector with `vectors`: (n,) or (n, q) -> (k,) or (k, q)."""
        gram, flat = self.store.gram, vectors.reshape(len(vectors), -1)
        inner = self.store._total(gram.each(work._inner, gram.split(flat), *self.held))
        return cast(Array, self.rotation.T @ inner.reshape(-1, *vectors.shape[1:]))

    def squared(self, weights: Array, tile: int = 4096) -> Array:
        """Sum over j of weights_j v_ij^2 for every row i: (k,) or (k, g) -> (n,) or (n, g)."""
        client = self.store.gram.client
        jobs = [client.submit(work._squared, weights, self.rotation, *parts, pure=False) for parts in self._by_chunk()]
        return np.concatenate(client.gather(jobs))
