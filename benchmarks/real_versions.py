"""Several versions of stopwise side by side: each in a process of its own, which is kept for the next fit.

Run as a program (`python real_versions.py`) it answers on its standard output what it is asked on its standard input:
a pickled (X, y, new) with the predictions and the CPU seconds of fit and prediction.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import warnings
from functools import cache

import numpy as np


def fit_predict(X: np.ndarray, y: np.ndarray, new: np.ndarray, **settings: object) -> np.ndarray:
    """A stopwise estimator with default settings but these, of the version that this process imports."""
    import stopwise as sw

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # doubts are for people
        return sw.KernelGradientRegressor(**settings).fit(X, y).predict(new)


@cache
def _process(folder: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.path.abspath(folder)}
    return subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def predict_with(folder: str, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, float]:
    """Predictions by the version whose source is in a folder, and its CPU seconds."""
    process = _process(folder)
    pickle.dump((X, y, new), process.stdin)
    process.stdin.flush()
    return pickle.load(process.stdout)


def answer() -> None:
    """Answer until standard input ends."""
    import stopwise  # noqa: F401  (its import is no part of a fit's time)

    while True:
        try:
            asked = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        start = time.process_time()
        predicted = fit_predict(*asked)
        pickle.dump((predicted, time.process_time() - start), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    answer()
