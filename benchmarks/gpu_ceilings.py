"""What the chip can do, measured: bytes copied, matrix products, exponentials."""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl


def seconds(work: Callable[[], object], repeats: int = 5, warm: int = 2) -> float:
    """Median seconds of a piece of device work, by events."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeats):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / 1e3)
    return sorted(times)[len(times) // 2]


def copy_rate() -> float:
    """Bytes read plus written per second by a large copy."""
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: target.copy_(source))


def matrix_rate(dtype: torch.dtype, n: int = 8192, tf32: bool = False) -> float:
    """Floating-point operations per second of a large matrix product."""
    a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        return 2 * n**3 / seconds(lambda: a @ b)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@triton.jit
def _exponentials(out, rounds, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    x = -(at % 1024).to(tl.float32) / 1024
    for _ in range(rounds):
        x = tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out + at, x)


def exponential_rate(rounds: int = 4096) -> float:
    """Exponentials per second when nothing else is done."""
    size, programs = 2048, 132 * 16
    out = torch.empty(size * programs, device="cuda")
    work = lambda: _exponentials[(programs,)](out, rounds, SIZE=size, num_warps=8)  # noqa: E731
    return size * programs * rounds / seconds(work)


def ceilings() -> dict[str, float]:
    """All of them, by name."""
    return {
        "copy_bytes_per_s": copy_rate(),
        "float16_flop_per_s": matrix_rate(torch.float16),
        "tf32_flop_per_s": matrix_rate(torch.float32, tf32=True),
        "float32_flop_per_s": matrix_rate(torch.float32),
        "float64_flop_per_s": matrix_rate(torch.float64, n=4096),
        "exponentials_per_s": exponential_rate(),
    }
