"""How much memory is free, what would not fit, and how tables are cut that are made a part at a time."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TILE_ENTRIES = 2**21
"""Entries of a table that are made at once: 16 MiB of doubles, small beside any memory, large beside Python's cost."""


def free_bytes() -> int:
    """Memory that can be taken without swapping: the system's, or the control group's limit if that is lower."""
    free = _meminfo()
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):
            continue
    return max(free, 0)


def _meminfo() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError):
        return 4 * 2**30


def keep_freed_memory() -> None:
    """Have the C library keep freed blocks for the next arrays, where it would hand them back and ask again.

    glibc hands back blocks above a size that grows to the largest one freed: 16 MiB, never touched. Without it a first
    fit of 1,000 rows spends a sixth of its time on page faults.
    """
    np.empty(TILE_ENTRIES)


def row_tiles(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices that cover so many rows, of `TILE_ENTRIES` entries each with so many columns."""
    return spans(n_rows, max(1, TILE_ENTRIES // max(n_columns, 1)))


def spans(count: int, step: int) -> Iterator[slice]:
    """Slices of `step` that cover 0 to `count`; the last may be shorter."""
    return (slice(first, min(first + step, count)) for first in range(0, count, step))


def gibibytes(count: float) -> str:
    """A byte count for people."""
    return f"{count / 2**30:.1f} GiB"
