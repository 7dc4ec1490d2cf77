"""Memory: what is freed is kept for the next array, and tiles cover all rows."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from stopwise._support.memory import TILE_ENTRIES, row_tiles

FAULTS = """
import resource
import numpy as np
from stopwise._support.memory import keep_freed_memory
{call}
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    parts = [np.ones((200, 200)) for _ in range(6)]
    del parts
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how freed blocks are kept is glibc's")
def test_freed_matrices_are_not_asked_of_the_system_again():
    # Settings of the C library by environment, which dask makes for its workers, would say what is kept.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}

    def faults(call: str) -> int:
        words = [sys.executable, "-c", FAULTS.format(call=call)]
        return int(subprocess.run(words, capture_output=True, check=True, env=plain).stdout)

    assert faults("keep_freed_memory()") < faults("") / 5


def test_tiles_cover_every_row_once():
    for n_rows, n_columns in ((1, 1), (10, TILE_ENTRIES), (7, TILE_ENTRIES // 3)):
        covered = [i for tile in row_tiles(n_rows, n_columns) for i in range(tile.start, tile.stop)]
        assert covered == list(range(n_rows))
