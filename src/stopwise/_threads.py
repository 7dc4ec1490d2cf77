"""One setting for threads: tiles and BLAS together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

MOST = 1024
"""More threads than any machine here can use would only exhaust it."""


def thread_count(n_jobs: int | None) -> int:
    """How many threads `n_jobs` asks for: None and -1 mean all usable cores, -2 all but one, as in scikit-learn."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return usable
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: give a number of threads, or -1 for all cores")
    if n_jobs > MOST:
        raise ValueError(f"n_jobs must be at most {MOST}, got {n_jobs}: give a number of threads, or -1 for all cores")
    return max(1, usable + 1 + n_jobs) if n_jobs < 0 else n_jobs


@contextmanager
def threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of threads; where the system gives no more of them, an error that says what to do."""
    try:
        with ThreadPoolExecutor(count) as pool:
            yield pool
    except RuntimeError as problem:
        if "start new thread" not in str(problem):
            raise
        raise MemoryError(f"{count} threads could not be started: free memory, or set n_jobs=1") from problem
