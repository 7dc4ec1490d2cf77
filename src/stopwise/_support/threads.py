"""One setting for threads: tiles and BLAS together."""

import functools
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral

import numpy as np
import scipy.linalg  # noqa: F401  brings a BLAS of its own beside numpy's: both must be there to be found
from threadpoolctl import ThreadpoolController

MOST = 1024
"""More threads than any machine here can use would only exhaust it."""
_ROOM = 96 * 2**20
"""Bytes of address space that a thread takes: its stack, its tiles, and a buffer of BLAS, which gives up without it."""


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


def has_room(count: int) -> bool:
    """Whether a few threads would find address space."""
    try:
        np.empty(min(count, 4) * _ROOM, dtype=np.uint8)
    except MemoryError:
        return False
    return True


@contextmanager
def threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of threads; where the system gives no more of them, an error that says what to do.

    Python waits for ever for a thread that starts and then finds no memory, so room for a few is tried out before.
    """
    words = f"{count} threads could not be started: free memory, or set n_jobs=1"
    if not has_room(count):
        raise MemoryError(words)
    try:
        with ThreadPoolExecutor(count) as pool:
            yield pool
    except RuntimeError as problem:
        if "start new thread" not in str(problem):
            raise
        raise MemoryError(words) from problem


_owner = threading.RLock()


def _free_in_child() -> None:
    """A process forked while some thread held the setting must not wait for a thread it does not have."""
    global _owner
    _owner = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_in_child)


@functools.cache
def _controller() -> ThreadpoolController:
    """numpy's BLAS and scipy's; finding them takes milliseconds, so it is done once."""
    return ThreadpoolController()


@contextmanager
def blas_threads(count: int | None) -> Iterator[None]:
    """BLAS on at most `count` threads in here; None leaves it alone, and it never gets more than it had.

    The setting is the whole process's: while one thread holds it, others do not touch it, so that it always ends where
    it began.
    """
    owner = _owner
    if count is None or not owner.acquire(blocking=False):
        yield
        return
    try:
        now = [library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"]
        with _controller().limit(limits=min([count, *filter(None, now)]), user_api="blas"):
            yield
    finally:
        owner.release()


def limit_of(n_jobs: object) -> int | None:
    """What `n_jobs` asks of BLAS: None leaves it alone, and so does what is no number (it is refused elsewhere)."""
    return thread_count(int(n_jobs)) if isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) else None


SMALL = 1000
"""Matrices up to so many rows are done sooner by one thread: two copies of BLAS (numpy's and scipy's) wait for each
other, and for any other process, longer than they compute."""


def blas_for(n_rows: int) -> int | None:
    """A limit for work on matrices of so many rows."""
    return 1 if n_rows <= SMALL else None
