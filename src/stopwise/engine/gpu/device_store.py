"""Tall orthonormal columns kept on a device, with the algebra a Krylov driver needs.

Columns are held in slabs: on the device while there is room, then in pinned host memory, from where they are brought
back a slab at a time. Inner products are summed in float64 whatever the columns' type. Probes are drawn on the device.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from stopwise._support.arrays import Array, Mask, Tensor
from stopwise._support.memory import spans
from stopwise._support.torch import torch
from stopwise.engine.gpu.device_operator import OnDevice, as_tensor
from stopwise.engine.gpu.plain_tiles import free_bytes
from stopwise.spectrum import Basis

SLAB = 64
"""Columns of a slab, the unit that moves between device and host."""
_ROWS = 1 << 17
"""Rows of a slab worked on at once: 64 MiB in float64."""


class TorchStore:
    """A `Store` (see `stopwise.engine.spectrum.block_krylov`) whose blocks are tensors on the operator's device."""

    def __init__(self, operator: OnDevice, *, reserve: int = 0, order: Tensor | None = None) -> None:
        self.operator, self.device, self.dtype = operator, operator.device, operator.dtype
        self.n_rows, self.width = operator.n_rows, 0
        self._slabs: list[Tensor] = []
        self._reserve, self._order = reserve, order
        self._turned: tuple[Array, Tensor] | None = None

    # ---- blocks ---------------------------------------------------------------------------------------------------

    def _probes(self, n_columns: int, seed: int) -> Tensor:
        library, shape = torch(), (self.n_rows, n_columns)
        generator = library.Generator(self.device).manual_seed(seed)
        raw = library.randn(shape, generator=generator, device=self.device, dtype=library.float64)
        if self._order is not None:
            # Probes follow an order of the rows that shuffling does not change.
            shuffled = library.empty_like(raw)
            shuffled[self._order] = raw
            raw = shuffled
        return self.operator.centre(raw)

    def start(self, responses: Array, n_probes: int, seed: int) -> tuple[Tensor, Array]:
        block = torch().cat([as_tensor(responses, self.device, torch().float64), self._probes(n_probes, seed)], 1)
        sizes = block.norm(dim=0)
        scales = torch().where(sizes > 0, sizes, torch().ones_like(sizes))
        return (block / scales).to(self.dtype), scales.cpu().numpy()

    def random(self, n_columns: int, seed: int) -> Tensor:
        block = self._probes(n_columns, seed)
        return (block / block.norm(dim=0)).to(self.dtype)

    def factor(self, block: Tensor) -> tuple[Tensor, Array]:
        if self.dtype == torch().float64:
            unit, r = torch().linalg.qr(block)
            return unit, r.cpu().numpy()
        unit, first, kept = _gram_factor(block.double())
        unit, second = _polished(unit, kept)
        return unit.to(self.dtype), second @ first

    def turn(self, block: Tensor, small: Array) -> Tensor:
        return (block.double() @ as_tensor(small, self.device, torch().float64)).to(self.dtype)

    # ---- held columns ---------------------------------------------------------------------------------------------

    def _slab(self) -> Tensor:
        size = SLAB * self.n_rows * self.dtype.itemsize
        if self.device.type != "cuda" or free_bytes(self.device) - self._reserve > size:
            return torch().empty((SLAB, self.n_rows), dtype=self.dtype, device=self.device)
        return torch().empty((SLAB, self.n_rows), dtype=self.dtype, pin_memory=True)

    def append(self, block: Tensor) -> None:
        for column in block.T:
            if self.width == SLAB * len(self._slabs):
                self._slabs.append(self._slab())
            self._slabs[-1][self.width % SLAB] = column
            self.width += 1

    def pieces(self, width: int | None = None) -> Iterator[tuple[slice, slice, Tensor]]:
        """Held columns as (which columns, which rows, tensor (columns, rows) on the device)."""
        width = self.width if width is None else width
        for first in range(0, width, SLAB):
            last = min(first + SLAB, width)
            slab = self._slabs[first // SLAB][: last - first]
            for rows in spans(self.n_rows, _ROWS):
                yield slice(first, last), rows, slab[:, rows].to(self.device, non_blocking=True)

    def inner(self, block: Tensor) -> Array:
        return cast(Array, device_coordinates(self, block, self.width).cpu().numpy())

    def remove(self, block: Tensor, coefficients: Array) -> Tensor:
        """block - Q coefficients; rounding would let an intercept's constant in where little is left of a block."""
        return self.operator.centre(block - _combine(self, coefficients, self.width).to(self.dtype))

    def block(self, first: int, last: int) -> Tensor:
        columns = [self._slabs[k // SLAB][k % SLAB].to(self.device) for k in range(first, last)]
        return torch().stack(columns, 1)

    def turned(self, rotation: Array, rows: slice) -> Tensor:
        """Some rows of the held columns, rotated. Kept whole for the next call while there is room."""
        if self._turned is None or self._turned[0] is not rotation:
            self._turned = None
            size = self.n_rows * rotation.shape[1] * self.dtype.itemsize
            if self.device.type == "cuda" and size > (free_bytes(self.device) - self._reserve) // 2:
                return self._turn_rows(rotation, rows)
            whole = torch().empty((self.n_rows, rotation.shape[1]), dtype=self.dtype, device=self.device)
            for part in spans(self.n_rows, _ROWS // 4):
                whole[part] = self._turn_rows(rotation, part)
            self._turned = (rotation, whole)
        return self._turned[1][rows]

    def _turn_rows(self, rotation: Array, rows: slice) -> Tensor:
        held = torch().cat([slab[:, rows].to(self.device) for slab in self._slabs])[: len(rotation)]
        return (held.double().T @ as_tensor(rotation, self.device, torch().float64)).to(self.dtype)

    def forget(self) -> None:
        """Give back what was only kept to be quick."""
        self._turned = None

    def basis(self, width: int, rotation: Array) -> Basis:
        """The first `width` columns, rotated; has the methods of `stopwise.spectrum.Basis`."""
        return cast(Basis, DeviceBasis(self, width, rotation))


def _gram_factor(block: Tensor) -> tuple[Tensor, Array, Mask]:
    """block = U R from the eigenpairs of block' block, whose cost is one product, and which directions were kept.

    Directions below 1e-7 of the largest are lost: zero in both. U is orthonormal to 1e-16 over the square of the
    smallest that was kept; `_polished` makes that rounding.
    """
    sizes = block.norm(dim=0)
    scales = torch().where(sizes > 0, sizes, torch().ones_like(sizes))
    block = block / scales
    values, vectors = np.linalg.eigh((block.T @ block).cpu().numpy())
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > 1e-14 * max(float(values[0]), 1e-300)
    roots = np.sqrt(np.where(kept, values, 0.0))
    inverse = vectors * np.where(kept, 1 / np.where(kept, roots, 1.0), 0.0)
    unit = block @ as_tensor(inverse, block.device)
    return unit, roots[:, None] * vectors.T * scales.cpu().numpy(), kept


def _polished(unit: Tensor, kept: Mask) -> tuple[Tensor, Array]:
    """Nearly orthonormal columns made orthonormal (Cholesky QR); those not kept are zero and stay so."""
    gram = (unit.T @ unit).cpu().numpy() + np.diag(np.where(kept, 0.0, 1.0))
    lower = np.linalg.cholesky(gram)
    return unit @ as_tensor(np.linalg.inv(lower).T, unit.device), lower.T


def device_coordinates(store: TorchStore, block: Tensor, width: int) -> Tensor:
    """Q' block on the device, for the first `width` columns held."""
    out = torch().zeros((width, block.shape[1]), dtype=torch().float64, device=store.device)
    for columns, rows, piece in store.pieces(width):
        out[columns] += piece.double() @ block[rows].double()
    return out


def _combine(store: TorchStore, coefficients: Array, width: int) -> Tensor:
    small = as_tensor(coefficients, store.device, torch().float64)
    out = torch().zeros((store.n_rows, small.shape[1]), dtype=torch().float64, device=store.device)
    for columns, rows, piece in store.pieces(width):
        out[rows] += piece.double().T @ small[columns]
    return out


@dataclass(frozen=True)
class DeviceRows:
    """The columns of a store as a tall array that is brought to the host only when someone asks for its entries."""

    store: TorchStore
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.store.n_rows, self.width

    def __len__(self) -> int:
        return self.store.n_rows

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        kind = np.float64 if self.store.dtype == torch().float64 else np.float32
        out = np.empty(self.shape, dtype=kind if dtype is None else dtype)
        for columns, rows, piece in self.store.pieces(self.width):
            out[rows, columns] = piece.T.cpu().numpy()
        return out


@dataclass(frozen=True)
class DeviceBasis:
    """Orthonormal vectors held by a store, rotated: numpy in, numpy out, the work on the device."""

    store: TorchStore
    width: int
    rotation: Array

    @property
    def rows(self) -> DeviceRows:
        """The unrotated vectors, (n, width); `np.asarray` brings them to the host."""
        return DeviceRows(self.store, self.width)

    def combine(self, coefficients: Array) -> Array:
        """The vectors summed with these coefficients: (k,) or (k, q) -> (n,) or (n, q)."""
        flat = (self.rotation @ coefficients).reshape(self.width, -1)
        out = _combine(self.store, flat, self.width).cpu().numpy()
        return cast(Array, out.reshape(len(out), *coefficients.shape[1:]))

    def coordinates(self, vectors: Array) -> Array:
        """Inner products of every vector with `vectors`: (n,) or (n, q) -> (k,) or (k, q)."""
        block = as_tensor(vectors, self.store.device)
        flat = device_coordinates(self.store, block.reshape(len(block), -1), self.width).cpu().numpy()
        return cast(Array, self.rotation.T @ flat.reshape(self.width, *vectors.shape[1:]))

    def squared(self, weights: Array, tile: int = 1 << 16) -> Array:
        """Sum over j of weights_j v_ij^2 for every row i: (k,) or (k, g) -> (n,) or (n, g)."""
        small = as_tensor(weights, self.store.device, torch().float64).reshape(len(weights), -1)
        out = small.new_empty((self.store.n_rows, small.shape[1]))
        for rows in spans(self.store.n_rows, tile):
            vectors = self.store.turned(self.rotation, rows).double()
            out[rows] = (vectors * vectors) @ small
        return cast(Array, out.cpu().numpy().reshape(len(out), *weights.shape[1:]))
