"""K on a GPU: tiles of the kernel made and consumed on chip, blocks as torch tensors.

`Cuda` is the operator as numpy sees it; `Cuda.on_device` is the same matrix for tensors that stay where they are, which
is what the Krylov driver multiplies with. `Cross` is the rectangular k(new, training) for predictions.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, cast

import numpy as np

from stopwise._support.arrays import Array, Device, Rows, Tensor, TensorType
from stopwise._support.torch import is_tensor, pick_device, torch
from stopwise.engine.gpu.fused_tiles import FusedTiles, can_fuse, pick_scheme
from stopwise.engine.gpu.packed_rows import diagonal_of, snapped
from stopwise.engine.gpu.plain_tiles import TorchTiles
from stopwise.engine.operators.operator import Operator
from stopwise.kernels import Kernel
from stopwise.kernels.base import MEDIAN_ROWS
from stopwise.kernels.forms import Form, form_of

Precision = Literal["float32", "carried", "fast", "float64"]
"""Of products: to float32's rounding; the same with the rounding of long sums carried along; three digits; exact."""


def as_tensor(values: Rows, device: Device, dtype: TensorType | None = None) -> Tensor:
    """A tensor on the device: a torch tensor moved if it has to be, anything else through numpy."""
    tensor: Tensor = values if is_tensor(values) else torch().from_numpy(np.ascontiguousarray(values))
    return tensor.to(device=device, dtype=dtype)


def _origin_of(rows: Tensor) -> Tensor:
    """As `common_origin`, where the rows are."""
    return rows[:: max(1, len(rows) // MEDIAN_ROWS)].median(0).values


def block_dtype(precision: Precision) -> TensorType:
    return torch().float64 if precision == "float64" else torch().float32


class Cross:
    """k(left, right) as something that multiplies blocks of tensors; fused where Triton runs, else in plain torch."""

    def __init__(
        self,
        form: Form,
        left: Tensor,
        right: Tensor,
        origin: Tensor,
        *,
        precision: Precision = "float32",
        same: bool = False,
    ) -> None:
        self.shape = (len(left), len(right))
        self.dtype = block_dtype(precision)
        self.tiles: FusedTiles | TorchTiles
        both = left if same else torch().cat([left, right])
        scheme = pick_scheme(form, both, origin, precision) if can_fuse(left.device) else None
        if scheme is not None:
            self.tiles = FusedTiles(form, left, right, origin, same=same, scheme=scheme)
        else:
            self.tiles = TorchTiles(form, left, right, origin, same=same, dtype=self.dtype)

    def product(self, block: Tensor) -> Tensor:
        """k(left, right) @ block."""
        block = block.to(self.dtype)
        if block.shape[1] <= self.tiles.widest:
            return self.tiles.product(block)
        return torch().cat([self.tiles.product(part) for part in block.split(self.tiles.widest, dim=1)], 1)


class Cuda(Operator):
    """K with fused tiles on the GPU. `precision`: see `Precision`.

    `device` names another torch device; with "cpu" everything runs in plain torch tiles, as the tests do.
    """

    def __init__(
        self,
        kernel: Kernel,
        covariates: Rows,
        *,
        weights: Array | None = None,
        centred: bool = False,
        precision: Precision = "float32",
        device: Device | str | None = None,
    ) -> None:
        super().__init__(len(covariates), weights=weights, centred=centred)
        self.kernel, self.precision = kernel.core, precision
        self.device = _device_of(covariates, device)
        self.form = form_of(self.kernel)
        self.rows = as_tensor(covariates, self.device, torch().float64)
        if self.rows.ndim == 1:
            self.rows = self.rows[:, None]
        self.rows = kernel.places(self.rows)
        self.origin = _origin_of(self.rows)
        if precision != "float64":
            self.rows = snapped(self.form, self.rows, self.origin)

    @cached_property
    def cross(self) -> Cross:
        """The raw Gram matrix as something that multiplies tensors."""
        return self._cross(self.form)

    def _cross(self, form: Form) -> Cross:
        return Cross(form, self.rows, self.rows, self.origin, precision=self.precision, same=True)

    def product_of_rows(self, rows: Array, block: Tensor) -> Tensor:
        """Some rows of the raw Gram matrix times a tensor."""
        part = Cross(self.form, self.rows[rows], self.rows, self.origin, precision=self.precision)
        return part.product(block.contiguous())

    def gram(self) -> Tensor:
        """The raw Gram matrix, (n, n), in float64."""
        return self._tiles(self.rows, same=True).whole()

    def columns(self, at: Array) -> Tensor:
        """Some of its columns, (n, len(at))."""
        return self._tiles(self.rows[as_tensor(at, self.device)], same=False).whole().T

    def _tiles(self, left: Tensor, *, same: bool) -> TorchTiles:
        return TorchTiles(self.form, left, self.rows, self.origin, same=same, dtype=torch().float64)

    @cached_property
    def on_device(self) -> OnDevice:
        """The same operator for blocks that are tensors on the device."""
        return OnDevice(self)

    def _gram_product(self, block: Array) -> Array:
        out = self.cross.product(as_tensor(block, self.device))
        return cast(Array, out.double().cpu().numpy())

    def gram_diagonal(self) -> Array:
        return cast(Array, diagonal_of(self.form, self.rows).cpu().numpy())

    def _gram_square_sum(self) -> float:
        # k * k is a kernel as well: one more product, of width one.
        squared = self._cross(form_of(self.kernel * self.kernel))
        weights = as_tensor(self.root_weights**2, self.device)
        return float((squared.product(weights[:, None])[:, 0].double() * weights).sum())


class OnDevice:
    """K for tensors: weights and centring as in `Operator`, done on the device."""

    def __init__(self, operator: Cuda) -> None:
        self.operator = operator
        self.n_rows, self.n_samples, self.centred = operator.n_rows, operator.n_samples, operator.centred
        self.device, self.dtype = operator.device, block_dtype(operator.precision)
        self._constant = as_tensor(operator.constant_direction, self.device, torch().float64)
        weighted = operator.weights is not None
        self._root = as_tensor(operator.root_weights, self.device, self.dtype)[:, None] if weighted else None

    @property
    def trace(self) -> float:
        return self.operator.trace

    @property
    def square_sum(self) -> float | None:
        return self.operator.square_sum

    def centre(self, block: Tensor) -> Tensor:
        """H block; the mean is taken in float64."""
        if not self.centred:
            return block
        means = self._constant @ block.double()
        return (block - self._constant[:, None] * means).to(block.dtype)

    def multiply(self, block: Tensor) -> Tensor:
        """K @ block, a tensor like `block`."""
        block = self.centre(block.to(self.dtype))
        if self._root is None:
            out = self.operator.cross.product(block)
        else:
            out = self._root * self.operator.cross.product(self._root * block)
        return self.centre(out / self.n_samples)


_CHECKED_ROWS, _CHECKED_SIGNS = 500, 8
"""Rows and vectors of signs on which rounding is measured: enough for its size within a fifth."""


def rounding_error(fast: Cuda, exact: Cuda, seed: int) -> float:
    """The largest root mean square, over some rows, by which products with random signs are off."""
    n = fast.n_rows
    rng = np.random.default_rng([11, seed])
    rows = as_tensor(rng.permutation(n)[:_CHECKED_ROWS], exact.device)
    signs = as_tensor(rng.choice([-1.0, 1.0], size=(n, _CHECKED_SIGNS)), exact.device)
    some = Cross(exact.form, fast.rows[rows], fast.rows, fast.origin, precision=exact.precision)
    gap = fast.cross.product(signs)[rows].double() - some.product(signs).double()
    return float((gap**2).mean(1).max() ** 0.5)


def careful_cost(exact: Cuda) -> float:
    """How many products in float32 one in float64 takes as long as: 2 to 4 where it is fused (one H200), else 15."""
    return 4.0 if isinstance(exact.cross.tiles, FusedTiles) else 15.0


def _device_of(rows: Rows, device: Device | str | None) -> Device:
    """The device named, else the one that rows are on already, else the GPU."""
    return pick_device(cast(Tensor, rows).device if device is None and is_tensor(rows) else device)


def predict_on_device(
    kernel: Kernel,
    new: Rows,
    training: Rows,
    dual_coef: Rows,
    *,
    precision: Precision = "float32",
    device: Device | str | None = None,
    rows_at_once: int = 1 << 18,
) -> Any:
    """k(new, training) @ dual_coef: tensors in, a tensor out; numpy in, numpy out."""
    device = _device_of(training, device)
    right = kernel.places(as_tensor(training, device, torch().float64))
    origin, form = _origin_of(right), form_of(kernel.core)
    block = as_tensor(dual_coef, device)
    flat = block[:, None] if block.ndim == 1 else block
    parts = []
    for first in range(0, len(new), rows_at_once):
        left = kernel.places(as_tensor(new[first : first + rows_at_once], device, torch().float64))
        parts.append(Cross(form, left, right, origin, precision=precision).product(flat))
    out = torch().cat(parts) if parts else flat.new_empty((0, flat.shape[1]))
    out = out[:, 0] if block.ndim == 1 else out
    return out if is_tensor(new) else out.double().cpu().numpy()
