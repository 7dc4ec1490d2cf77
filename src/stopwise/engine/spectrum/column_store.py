"""Where a Krylov space keeps its columns, and the algebra on them; a device brings its own."""

from collections.abc import Callable
from typing import Protocol, TypeAlias, cast

import numpy as np

from stopwise._support.arrays import Array, Tensor
from stopwise.spectrum import Basis

Block: TypeAlias = Array | Tensor
"""A tall block of columns, (n, b): a numpy array, or a tensor on a device."""


class Store(Protocol):
    """Orthonormal tall columns and the algebra on them. Small results are float64 numpy arrays."""

    @property
    def width(self) -> int:
        """How many columns are held."""

    def start(self, responses: Array, n_probes: int, seed: int) -> tuple[Block, Array]:
        """A first block [responses, probes] of unit-size columns, and the scale taken out of each column."""

    def random(self, n_columns: int, seed: int) -> Block:
        """A fresh block of random columns."""

    def inner(self, block: Block) -> Array:
        """Q' block for all columns held."""

    def remove(self, block: Block, coefficients: Array) -> Block:
        """block - Q coefficients."""

    def factor(self, block: Block) -> tuple[Block, Array]:
        """An orthonormal block U and a small R with block = U R (a thin QR)."""

    def turn(self, block: Block, small: Array) -> Block:
        """block @ small."""

    def append(self, block: Block) -> None:
        """Hold these orthonormal columns too."""

    def block(self, first: int, last: int) -> Block:
        """Some of the columns held, as a block to multiply."""

    def basis(self, width: int, rotation: Array) -> Basis:
        """The first `width` columns, rotated."""


_FIRST_COLUMNS = 512
"""Room to start with: pages are only taken once they are written to, and growing copies."""


class NumpyStore:
    """Columns in memory, in one growing array."""

    def __init__(
        self, n_rows: int, capacity: int, centre: Callable[[Array], Array], order: Array | None = None
    ) -> None:
        self._columns = np.empty((n_rows, min(capacity, _FIRST_COLUMNS)), order="F")
        self._capacity, self._centre, self._order = capacity, centre, order
        self.width = 0

    def _probes(self, n_columns: int, seed: int) -> Array:
        raw = np.random.default_rng(seed).standard_normal((len(self._columns), n_columns))
        if self._order is not None:
            # Probes follow a canonical order of the rows, so that shuffling rows changes nothing.
            shuffled = np.empty_like(raw)
            shuffled[self._order] = raw
            raw = shuffled
        return self._centre(raw)

    def start(self, responses: Array, n_probes: int, seed: int) -> tuple[Array, Array]:
        block = np.column_stack([responses, self._probes(n_probes, seed)])
        sizes = np.linalg.norm(block, axis=0)
        scales = np.where(sizes > 0, sizes, 1.0)
        return block / scales, scales

    def random(self, n_columns: int, seed: int) -> Array:
        block = self._probes(n_columns, seed)
        return cast(Array, block / np.linalg.norm(block, axis=0))

    @property
    def held(self) -> Array:
        return self._columns[:, : self.width]

    def inner(self, block: Array) -> Array:
        return cast(Array, self.held.T @ block)

    def remove(self, block: Array, coefficients: Array) -> Array:
        # An intercept keeps the constant out of the space; where little is left of a block, rounding would let it in.
        part = self.held @ coefficients
        return self._centre(np.subtract(block, part, out=part))

    def factor(self, block: Array) -> tuple[Array, Array]:
        return cast(tuple[Array, Array], np.linalg.qr(block))

    def turn(self, block: Array, small: Array) -> Array:
        return cast(Array, block @ small)

    def append(self, block: Array) -> None:
        needed = self.width + block.shape[1]
        if needed > self._columns.shape[1]:
            room = min(max(needed, 2 * self._columns.shape[1]), max(self._capacity, needed))
            grown = np.empty((len(self._columns), room), order="F")
            grown[:, : self.width] = self.held
            self._columns = grown
        self._columns[:, self.width : needed] = block
        self.width = needed

    def block(self, first: int, last: int) -> Array:
        return np.ascontiguousarray(self._columns[:, first:last])

    def basis(self, width: int, rotation: Array) -> Basis:
        return Basis(self._columns[:, :width], rotation)
