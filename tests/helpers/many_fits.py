"""How much memory many fits leave behind, in a process that does nothing else.

    python many_fits.py fits 500
    python many_fits.py refusals 1000

prints how many bytes the process has grown by after a warm-up. Where other tests ran before, what they freed would hide
a leak, or look like one.
"""

import gc
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import stopwise as sw

KERNEL = sw.kernels.Gaussian(0.5)
X = np.random.default_rng(0).uniform(size=(20, 2))
y = np.sin(5 * X[:, 0]) + 0.2 * np.random.default_rng(1).normal(size=20)
ESTIMATORS = [sw.KernelGradientRegressor, sw.KernelRidgeRegressor]


def resident():
    """Bytes of this process in memory."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fit_once(turn, folder):
    """A small fit of one kind or another, its predictions, and a file."""
    kind = turn % 5
    if kind == 4:
        model = sw.KernelRidgeRegressor(KERNEL, n_landmarks=6).partial_fit(X, y)
    else:
        solver = "krylov" if kind == 3 else "dense"
        rule = ("auto", "gcv", "critical", "gcv")[kind]
        model = ESTIMATORS[turn % 2](KERNEL, rule=rule, solver=solver, n_jobs=1).fit(X, y)
    model.predict(X, return_std=True)
    if turn % 50 == 0:
        sw.save(model, folder / "m.stopwise")
        sw.load(folder / "m.stopwise").predict(X)


def refuse_once(turn, folder):
    """A fit that ends in an error."""
    with pytest.raises(ValueError, match="NaN"):
        sw.KernelGradientRegressor(KERNEL).fit(X, y * np.nan)


def main(kind, count):
    work = {"fits": fit_once, "refusals": refuse_once}[kind]
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(100):
            work(turn, Path(folder))
        before = resident()
        for turn in range(count):
            work(turn, Path(folder))
        print(resident() - before)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
