"""Products in plain torch: a tile of rows at a time, on any device torch knows.

Inner products are taken in float64 (a distance is a difference of large numbers), the rest in the precision asked for.
"""

from stopwise._support.arrays import Device, Tensor, TensorType
from stopwise._support.memory import spans
from stopwise._support.torch import torch
from stopwise.engine.gpu.packed_rows import evaluate
from stopwise.kernels.expressions import LARGEST_GROWTH, AbsoluteDistance, Dot, Sides, SquaredDistance, apart
from stopwise.kernels.forms import Form

_HOST_BUDGET = 1 << 28
"""Bytes that tiles on the host may take: a quarter of a gibibyte, more than any cache."""
_COPIES = 5
"""Tiles of this many float64 copies are alive at once, at most, while an expression is evaluated."""


def free_bytes(device: Device) -> int:
    """Device memory that can still be had; on the host, a modest budget."""
    if device.type != "cuda":
        return _HOST_BUDGET
    library = torch()
    free, _ = library.cuda.mem_get_info(device)
    cached = library.cuda.memory_reserved(device) - library.cuda.memory_allocated(device)
    return int(free + cached)


def _ready(leaf: Dot, rows: Tensor, origin: Tensor) -> Sides:
    """Both sides of an inner product; for a sum over features its scaled rows stand on either."""
    if not isinstance(leaf, AbsoluteDistance):
        return leaf.sides(rows, origin)
    scaled = leaf.scaled(rows, origin)
    return Sides(scaled, scaled, scaled[:, :1], leaf.shift)


def _growth(left: Tensor, right: Tensor, rate: float, dtype: TensorType) -> Tensor:
    """prod_j (1 + rate |x_j - z_j|), bounded where the exponential beside it has vanished long before."""
    out = left.new_ones((len(left), len(right)), dtype=dtype)
    for x, z in zip(left.T, right.T, strict=True):
        out *= 1 + rate * (x[:, None] - z[None, :]).abs_().to(dtype)
        out.clamp_(max=LARGEST_GROWTH)
    return out


class TorchTiles:
    """k(left, right) as something that multiplies, tile by tile."""

    widest = 64
    """Columns multiplied at once, at most."""

    def __init__(
        self, form: Form, left: Tensor, right: Tensor, origin: Tensor, *, same: bool, dtype: TensorType
    ) -> None:
        self.form, self.dtype, self.same, self._device = form, dtype, same, left.device
        self.n_left, self.n_right = len(left), len(right)
        self._left = [_ready(leaf, left, origin) for leaf in form.leaves]
        self._right = self._left if same else [_ready(leaf, right, origin) for leaf in form.leaves]
        budget = free_bytes(left.device) // 4
        self.tile = max(1, min(self.n_left, budget // max(1, 8 * _COPIES * self.n_right)))

    def rows(self, first: int, last: int) -> Tensor:
        """k between some rows on the left and all on the right."""
        leaves: list[Tensor] = []
        beside: dict[AbsoluteDistance, tuple[Tensor, Tensor]] = {}
        for leaf, x, z in zip(self.form.leaves, self._left, self._right, strict=True):
            if isinstance(leaf, AbsoluteDistance):
                part = x.left[first:last]
                leaves.append((apart(part, z.right) + leaf.shift).to(self.dtype))
                beside[leaf] = (part, z.right)
                continue
            value = torch().addmm(z.constant[None, :], x.left[first:last], z.right.T)
            value += (x.constant + x.shift)[first:last, None]
            if self.same and self.form.rough and isinstance(leaf, SquaredDistance):
                inside = torch().arange(first, last, device=value.device)
                value[inside - first, inside] = leaf.shift
            leaves.append(value.to(self.dtype))
        return evaluate(self.form, leaves, [_growth(*beside[g.leaf], g.rate, self.dtype) for g in self.form.growths])

    def whole(self) -> Tensor:
        """k(left, right), filled tile by tile."""
        out = torch().empty((self.n_left, self.n_right), dtype=self.dtype, device=self._device)
        for rows in spans(self.n_left, max(1, min(self.tile, 4096))):
            out[rows] = self.rows(rows.start, rows.stop)
        return out

    def product(self, block: Tensor) -> Tensor:
        """k(left, right) @ block. Where memory runs out in flight, the tile is halved and the walk goes on."""
        block = block.to(self.dtype)
        out = block.new_empty((self.n_left, block.shape[1]))
        first = 0
        while first < self.n_left:
            last = min(first + self.tile, self.n_left)
            try:
                out[first:last] = self.rows(first, last) @ block
            except torch().OutOfMemoryError:
                if self.tile == 1:
                    raise
                self.tile = max(1, self.tile // 2)
                torch().cuda.empty_cache()
                continue
            first = last
        return out
