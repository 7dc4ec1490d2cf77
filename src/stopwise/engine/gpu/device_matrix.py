"""The whole Gram matrix, or some of its columns, on a device in float64."""

from __future__ import annotations

from stopwise._support.arrays import Array, Tensor
from stopwise._support.torch import torch
from stopwise.engine.gpu.plain_tiles import TorchTiles
from stopwise.kernels.forms import Form


def gram_on_device(form: Form, rows: Tensor, origin: Tensor) -> Tensor:
    """G = k(rows, rows), (n, n), filled tile by tile."""
    tiles = TorchTiles(form, rows, rows, origin, same=True, dtype=torch().float64)
    n = len(rows)
    out = rows.new_empty((n, n))
    step = max(1, min(tiles.tile, 4096))
    for first in range(0, n, step):
        last = min(first + step, n)
        out[first:last] = tiles.rows(first, last)
    return out


def columns_on_device(form: Form, rows: Tensor, origin: Tensor, at: Array) -> Tensor:
    """G[:, at], (n, len(at))."""
    few = rows[torch().as_tensor(at, device=rows.device)]
    tiles = TorchTiles(form, few, rows, origin, same=False, dtype=torch().float64)
    step = max(1, tiles.tile)
    return torch().cat([tiles.rows(first, min(first + step, len(few))) for first in range(0, len(few), step)]).T
