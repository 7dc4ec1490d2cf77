"""Products by fused Triton kernels: the block packed, the kernel launched, its parts put together.

float16 carries 11 bits, two pieces of it 22: as many as this product needs, at the full rate of the matrix units. Its
range is narrow, so kernel values and block columns are scaled by powers of two to lie just below its upper end.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from stopwise._support.torch import torch, triton
from stopwise.engine.gpu.fused_source import RESIDENT, Scheme, load_source, row_length, write_source
from stopwise.engine.gpu.packed_rows import PAD, diagonal_of, largest_entry, padded, prepare_leaf, split
from stopwise.kernels.expressions import SquaredDistance
from stopwise.kernels.forms import Form

_TOP = 14
"""Scaled values stay below 2 ** 15, half of float16's range."""
_HALF_LIMIT = 3e4
_FLAT = 64.0
"""Norms (in units of the exponent) past which one inner product loses digits that differences keep."""
_FEW = 32
_SHARP = 32.0
"""Norms past which the diagonal of a smooth kernel is marked as well: where all else is small, its rounding shows."""
_PARTIAL_BYTES = 2 << 30
_TILES = 2048
"""Float32 totals run over at most this many tiles before they are set aside, memory permitting."""

EXACT = {"float32": "f16x4", "fast": "f16x1"}


@dataclass(frozen=True)
class Launch:
    """Tile sizes and how a tile is spread over the chip."""

    rows: int = 128
    columns: int = 64
    warps: int = 4
    stages: int = 3


CANDIDATES = (
    Launch(128, 64, 4, 3),
    Launch(64, 64, 4, 3),
    Launch(128, 128, 8, 3),
    Launch(128, 64, 8, 3),
    Launch(64, 128, 4, 3),
    Launch(256, 64, 8, 3),
    Launch(128, 64, 8, 2),
    Launch(128, 32, 4, 4),
)
SHORT = (Launch(64, 64, 4, 3), Launch(64, 64, 4, 2), Launch(64, 32, 4, 2))
MIDDLE = (Launch(128, 64, 4, 3), Launch(128, 64, 8, 2), *SHORT)
LONG = (Launch(128, 128, 8, 3), *MIDDLE)
"""Launches in order of preference by the length of prepared rows, as measured on an H200: the first that fits is taken.
With wide blocks short rows' launch is also the best for middle ones."""
_tuned: dict[tuple[str, int, str], Launch] = {}


def interpreted() -> bool:
    """Whether Triton runs its kernels in Python (slow; for tests without a GPU)."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def can_fuse(device: Any) -> bool:
    """Whether Triton kernels run on this device."""
    return triton() is not None and (device.type == "cuda" or interpreted())


def pick_scheme(form: Form, rows: Any, origin: Any, precision: str) -> Scheme:
    """Float16 pieces where they are exact enough and in range, else differences, else three-pass TF32."""
    product = EXACT[precision]
    largest = largest_entry(form, rows, origin)
    distances = any(isinstance(leaf, SquaredDistance) for leaf in form.leaves)
    if distances and rows.shape[1] <= _FEW and (form.rough or largest > _FLAT):
        return Scheme("difference", product)
    return Scheme("f16x3" if largest < _HALF_LIMIT else "tf32x3", product)


def _block_width(n_columns: int, scheme: Scheme) -> int:
    """The block's width as the kernel sees it: a power of two; with both pieces beside each other at least 16."""
    least = 8 if scheme.pieces == 2 else 16
    return max(least, 1 << (n_columns - 1).bit_length())


class FusedTiles:
    """k(left, right) as something that multiplies, by one fused kernel."""

    def __init__(self, form: Form, left: Any, right: Any, origin: Any, *, same: bool, scheme: Scheme) -> None:
        self.scheme, self.device = scheme, left.device
        self.n_left, self.n_right, self.n_features = len(left), len(right), left.shape[1]
        top = max(float(diagonal_of(form, rows).max()) for rows in ([left] if same else [left, right]))
        self.exponent = _TOP - math.ceil(math.log2(top)) if scheme.pieces and not scheme.bfloat and top > 0 else 0
        self.form = form.times(2.0**self.exponent)
        mark = same and (form.rough or largest_entry(form, left, origin) > _SHARP)
        self.source = write_source(self.form, scheme, self.n_features, same=mark, interpret=interpreted())
        self.compiled: Any = None
        """The last kernel launched, for its count of registers."""
        self._rows: list[Any] = []
        for leaf in self.form.leaves:
            self._rows.append(prepare_leaf(leaf, left, origin, scheme, left=True))
            shared = same and scheme.dot == "difference"
            self._rows.append(self._rows[-1] if shared else prepare_leaf(leaf, right, origin, scheme, left=False))

    def _pack(self, block: Any, width: int) -> tuple[Any, Any]:
        """The block as the kernel reads it, and what its columns were multiplied by."""
        library, scheme = torch(), self.scheme
        if not scheme.pieces:
            out = block.new_zeros((padded(self.n_right), width), dtype=library.float32)
            out[: self.n_right, : block.shape[1]] = block
            return out, block.new_ones(block.shape[1])
        dtype = library.bfloat16 if scheme.bfloat else library.float16
        _, exponent = library.frexp(block.abs().amax(0).clamp(min=2.0**-100))
        scales = library.exp2((_TOP - exponent).to(block.dtype))
        out = block.new_zeros((padded(self.n_right), scheme.pieces, width), dtype=dtype)
        for index, piece in enumerate(split(block * scales, scheme.pieces, dtype)):
            out[: self.n_right, index, : block.shape[1]] = piece
        return out.view(len(out), -1), scales

    def _splits(self, launch: Launch, width: int) -> int:
        """How many parts the walk over columns is cut into: enough programs, short sums, little memory."""
        tiles = padded(self.n_right) // launch.columns
        programs = padded(self.n_left) // launch.rows
        wanted = max(-(-tiles // _TILES), -(-1024 // programs))
        bytes_each = padded(self.n_left) * width * self.scheme.outputs * 4
        return max(1, min(wanted, tiles, _PARTIAL_BYTES // bytes_each))

    def _launch(self, packed: Any, width: int, launch: Launch, splits: int, limit: int | None = None) -> Any:
        scheme, n_left = self.scheme, padded(self.n_left)
        out = torch().empty((splits, n_left, scheme.outputs, width), dtype=torch().float32, device=self.device)
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
        """The launch found by `tune` or used before, else those to try in turn."""
        tuned = _tuned.get((self.source, width, str(self.device)))
        if tuned is not None:
            return (tuned,)
        length = row_length(self.scheme, self.n_features)
        if length > RESIDENT:
            return LONG
        return MIDDLE if length > 128 and width * max(self.scheme.pieces, 1) < 128 else SHORT

    def product(self, block: Any, launch: Launch | None = None) -> Any:
        """k(left, right) @ block, in the block's own type."""
        n_columns = block.shape[1]
        width = _block_width(n_columns, self.scheme)
        packed, scales = self._pack(block, width)
        out = self._try(packed, width, self.launches(width) if launch is None else (launch,))
        total = out.sum((0, 2))[: self.n_left, :n_columns].to(block.dtype)
        return total / (scales * 2.0**self.exponent)

    def _try(self, packed: Any, width: int, launches: tuple[Launch, ...]) -> Any:
        """The first launch that fits the chip; memory that runs out in flight is met with fewer partial sums."""
        for index, launch in enumerate(launches):
            splits = self._splits(launch, width)
            while True:
                try:
                    out = self._launch(packed, width, launch, splits)
                    _tuned[(self.source, width, str(self.device))] = launch
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

    def tune(self, block: Any, candidates: tuple[Launch, ...] = CANDIDATES) -> dict[Launch, float]:
        """Seconds of each launch on a few waves of programs; the fastest is remembered for this kernel and width."""
        width = _block_width(block.shape[1], self.scheme)
        packed, _ = self._pack(block, width)
        seconds: dict[Launch, float] = {}
        for launch in candidates:
            if not self._fits(launch):
                continue
            try:
                seconds[launch] = self._time(packed, width, launch)
            except triton().runtime.errors.OutOfResources:  # type: ignore[union-attr]
                continue
        if seconds:
            _tuned[(self.source, width, str(self.device))] = min(seconds, key=lambda each: seconds[each])
        return seconds

    def _fits(self, launch: Launch) -> bool:
        return launch.rows <= PAD and launch.columns <= PAD

    def _time(self, packed: Any, width: int, launch: Launch) -> float:
        """Seconds per kernel entry: the best of three launches of a few waves, after a first that compiles."""
        chip = torch().cuda.get_device_properties(self.device).multi_processor_count
        rows = min(padded(self.n_left) // launch.rows, 2 * chip * PAD // launch.rows)
        self._launch(packed, width, launch, 1, limit=chip)
        times = []
        for _ in range(3):
            start, stop = (torch().cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self._launch(packed, width, launch, 1, limit=rows)
            stop.record()
            stop.synchronize()
            times.append(float(start.elapsed_time(stop)) / 1e3)
        return float(float(min(times)) / (rows * launch.rows * padded(self.n_right)))
