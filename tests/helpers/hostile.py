"""What tests of bad input share: a table of calls with the words of their errors, and a watchdog against hanging."""

import contextlib
import math
import re
import signal

import numpy as np
import pandas as pd
import pytest

import stopwise as sw

RAW = (np.linalg.LinAlgError, UnicodeError)
"""Errors from deep inside that happen to be ValueErrors."""
X = np.random.default_rng(0).uniform(size=(20, 2))
y = np.sin(5 * X[:, 0]) + 0.2 * np.random.default_rng(1).normal(size=20)
KERNEL = sw.kernels.Gaussian(0.5)
NAMES = {
    "sw": sw,
    "np": np,
    "pd": pd,
    "nan": math.nan,
    "inf": math.inf,
    "X": X,
    "y": y,
    "x": np.linspace(0, 1, 20)[:, None],
    "k": sw.kernels,
    "s": sw.schedules,
    "r": sw.rules,
    "z": sw.noise,
    "f": sw.filters,
    "l": sw.landmarks,
}


def rows(table):
    """(call, words) for each line `call | words` of a table, named by the call."""
    lines = [line.strip().split(" | ", 1) for line in table.strip().splitlines()]
    assert len({call for call, _ in lines}) == len(lines), "a call is in the table twice"
    return [pytest.param(call, words, id=call) for call, words in lines]


@contextlib.contextmanager
def watchdog(seconds=10):
    """Whatever happens inside ends within so many seconds of this processor's work, or 20 times that on the clock.

    The clock alone would count what other programs do on a busy machine.
    """

    def bark(number, frame):
        raise AssertionError(f"not done after {seconds} s of work")

    timers = [(signal.SIGPROF, signal.ITIMER_PROF, seconds), (signal.SIGALRM, signal.ITIMER_REAL, 20 * seconds)]
    before = [signal.signal(number, bark) for number, _, _ in timers]
    for _, timer, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def refused(call, words, *others):
    """The call ends soon, in a ValueError or TypeError (or one of `others`) with these words; ... stands for any."""
    with watchdog(), pytest.raises((ValueError, TypeError, *others)) as caught:
        call()
    assert not isinstance(caught.value, RAW)
    message = " ".join(str(caught.value).split())
    assert re.search(".*".join(re.escape(part) for part in words.split(" ... ")), message), message
