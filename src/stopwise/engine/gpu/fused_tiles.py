"""Products by fused Triton kernels: the block packed, the kernel launched, its parts put together.

float16 carries 11 bits, two pieces of it 22: as many as this product needs, at the full rate of the matrix units. Its
range is narrow, so kernel values and block columns are scaled by powers of two to lie just below its upper end.
"""

import math
import os
from dataclasses import dataclass
from typing import Any, Literal

from stopwise._support.arrays import Device, Tensor
from stopwise._support.torch import torch, triton
from stopwise.engine.gpu.fused_source import RESIDENT, Scheme, load_source, row_length, write_source
from stopwise.engine.gpu.packed_rows import diagonal_of, largest_entry, padded, prepare_leaf, split
from stopwise.kernels.expressions import SquaredDistance
from stopwise.kernels.forms import Form

_TOP = 14
"""Scaled values stay below 2 ** (_TOP + 1), half of float16's range."""
_HALF_LIMIT = 3e4
"""Prepared rows with larger entries than this would leave float16's range, 65,504, when their products are added."""
_FLAT, _FEW = 64.0, 32
"""Norms (in units of the exponent) past which one inner product loses digits that differences keep, and features up to
which differences are taken: they cost an operation a feature."""
_SHARP = 32.0
"""Norms past which the diagonal of a smooth kernel is marked as well: where all else is small, its rounding shows."""
_PARTIAL_BYTES = 2 << 30
"""Memory for partial sums."""
_TILES, _CARRIED_TILES, _PROGRAMS = 256, 1024, 1024
"""Float32 totals run over at most so many tiles before they are set aside (more where rounding is carried along), and a
chip is kept busy by so many programs; both as far as memory permits."""


@dataclass(frozen=True)
class Launch:
    """Tile sizes and how a tile is spread over the chip."""

    rows: int = 128
    columns: int = 64
    warps: int = 4
    stages: int = 3


SHORT = (Launch(64, 64, 4, 3), Launch(64, 64, 4, 2), Launch(64, 32, 4, 2))
MIDDLE = (Launch(128, 64, 4, 3), Launch(128, 64, 8, 2), *SHORT)
LONG = (Launch(128, 128, 8, 3), *MIDDLE)
DOUBLE = (Launch(64, 32, 4, 2), Launch(32, 32, 2, 2))
"""Launches in order of preference by the length of prepared rows, as measured on an H200: the first that fits is taken.
With wide blocks short rows' launch is also the best for middle ones. In float64 one serves all."""
_fitting: dict[tuple[str, int, str], Launch] = {}
"""The launch that fitted, by source, width and device."""


def interpreted() -> bool:
    """Whether Triton runs its kernels in Python (slow; for tests without a GPU)."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def can_fuse(device: Device) -> bool:
    """Whether Triton kernels run on this device."""
    return triton() is not None and (device.type == "cuda" or interpreted())


def pick_scheme(form: Form, rows: Tensor, origin: Tensor, precision: str) -> Scheme | None:
    """Float16 pieces where they are exact enough and in range, else differences, else three-pass TF32.

    In float64 differences, of few features or where the kernel is made of them; else nothing is fused.
    """
    if precision == "float64":
        return Scheme("double", 1) if form.separable or rows.shape[1] <= _FEW else None
    pieces: Literal[1, 2] = 1 if precision == "fast" else 2
    carried = precision == "carried"
    if form.separable:
        return Scheme("difference", pieces, carried)
    largest = largest_entry(form, rows, origin)
    distances = any(isinstance(leaf, SquaredDistance) for leaf in form.leaves)
    if distances and rows.shape[1] <= _FEW and (form.rough or largest > _FLAT):
        return Scheme("difference", pieces, carried)
    return Scheme("f16x3" if largest < _HALF_LIMIT else "tf32x3", pieces, carried)


def block_width(n_columns: int, scheme: Scheme) -> int:
    """The block's width as the kernel sees it: a power of two; with both pieces beside each other at least 16."""
    least = 8 if scheme.pieces == 2 else 16
    return max(least, 1 << (n_columns - 1).bit_length())


class FusedTiles:
    """k(left, right) as something that multiplies, by one fused kernel."""

    def __init__(self, form: Form, left: Tensor, right: Tensor, origin: Tensor, *, same: bool, scheme: Scheme) -> None:
        self.scheme, self.device, self.real = scheme, left.device, getattr(torch(), scheme.real)
        self.n_left, self.n_right, self.n_features = len(left), len(right), left.shape[1]
        top = max(float(diagonal_of(form, rows).max()) for rows in ([left] if same else [left, right]))
        self.exponent = _TOP - math.ceil(math.log2(top)) if top > 0 and scheme.dot != "double" else 0
        self.form = form.times(2.0**self.exponent)
        mark = same and (form.rough or largest_entry(form, left, origin) > _SHARP)
        self.source = write_source(self.form, scheme, self.n_features, same=mark, interpret=interpreted())
        self.compiled: Any = None
        """The last kernel launched, for its count of registers."""
        self._rows: list[Tensor] = []
        for leaf in self.form.leaves:
            self._rows.append(prepare_leaf(leaf, left, origin, scheme, left=True))
            shared = same and scheme.by_feature
            self._rows.append(self._rows[-1] if shared else prepare_leaf(leaf, right, origin, scheme, left=False))

    @property
    def widest(self) -> int:
        """Columns multiplied at once, at most: more would not stay on chip."""
        return 16 if self.scheme.dot == "double" else 64

    def pack(self, block: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """The block as the kernel reads it, and what its columns were multiplied by."""
        library, pieces = torch(), self.scheme.pieces
        if self.scheme.dot == "double":
            out = block.new_zeros((padded(self.n_right), width), dtype=library.float64)
            out[: self.n_right, : block.shape[1]] = block
            return out, library.ones_like(out[0, : block.shape[1]])
        _, exponent = library.frexp(block.abs().amax(0).clamp(min=2.0**-100))
        scales = library.exp2((_TOP - exponent).to(block.dtype))
        out = block.new_zeros((padded(self.n_right), pieces, width), dtype=library.float16)
        for index, piece in enumerate(split(block * scales, pieces, library.float16)):
            out[: self.n_right, index, : block.shape[1]] = piece
        return out.view(len(out), -1), scales

    def _splits(self, launch: Launch, width: int) -> int:
        """How many parts the walk over columns is cut into: enough programs, short sums, little memory."""
        tiles = padded(self.n_right) // launch.columns
        programs = padded(self.n_left) // launch.rows
        longest = _CARRIED_TILES if self.scheme.carried else _TILES
        wanted = max(-(-tiles // longest), -(-_PROGRAMS // programs))
        bytes_each: int = padded(self.n_left) * width * self.scheme.pieces * self.real.itemsize
        return max(1, min(wanted, tiles, _PARTIAL_BYTES // bytes_each))

    def launch(self, packed: Tensor, width: int, launch: Launch, splits: int, limit: int | None = None) -> Tensor:
        """The partial sums of one launch; `limit` on the tiles of rows, for timing."""
        scheme, n_left = self.scheme, padded(self.n_left)
        out = torch().empty((splits, n_left, scheme.pieces, width), dtype=self.real, device=self.device)
        n_tiles = padded(self.n_right) // launch.columns
        rows = n_left // launch.rows if limit is None else min(n_left // launch.rows, limit)
        options = {} if interpreted() else {"num_warps": launch.warps, "num_stages": launch.stages}
        self.compiled = load_source(self.source)[(rows, splits)](
            out,
            packed,
            1.0,
            n_tiles,
            -(-n_tiles // splits),
            n_left,
            padded(self.n_right),
            *self._rows,
            BM=launch.rows,
            BN=launch.columns,
            BW=packed.shape[1],
            **options,
        )
        return out

    def launches(self, width: int) -> tuple[Launch, ...]:
        """The launch used before, else those to try in turn."""
        before = _fitting.get((self.source, width, str(self.device)))
        if before is not None:
            return (before,)
        length = row_length(self.scheme, self.n_features)
        if self.scheme.dot == "double":
            return DOUBLE
        if length > RESIDENT:
            return LONG
        return MIDDLE if length > 128 and width * self.scheme.pieces < 128 else SHORT

    def product(self, block: Tensor, launch: Launch | None = None) -> Tensor:
        """k(left, right) @ block, in the block's own type."""
        n_columns = block.shape[1]
        width = block_width(n_columns, self.scheme)
        packed, scales = self.pack(block, width)
        out = self._try(packed, width, self.launches(width) if launch is None else (launch,))
        total = out.sum((0, 2), dtype=torch().float64)[: self.n_left, :n_columns]
        return (total / (scales * 2.0**self.exponent)).to(block.dtype)

    def _try(self, packed: Tensor, width: int, launches: tuple[Launch, ...]) -> Tensor:
        """The first launch that fits the chip; memory that runs out in flight is met with fewer partial sums."""
        for index, launch in enumerate(launches):
            splits = self._splits(launch, width)
            while True:
                try:
                    out = self.launch(packed, width, launch, splits)
                    _fitting[(self.source, width, str(self.device))] = launch
                    return out
                except torch().OutOfMemoryError:
                    if splits == 1:
                        raise
                    splits //= 2
                    torch().cuda.empty_cache()
                except triton().runtime.errors.OutOfResources:  # type: ignore[union-attr]
                    if index == len(launches) - 1:
                        raise
                    break
        raise AssertionError("no launch was given")
