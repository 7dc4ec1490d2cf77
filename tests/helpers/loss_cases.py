"""One row per loss: an instance with every scale settled, and a way to draw responses for a truth f."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stopwise.losses import Exponential, Huber, Logistic, Loss, Poisson, Quantile, Softmax, Squared

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def _labels(rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
    return (rng.random(len(f)) < 1 / (1 + np.exp(-f))).astype(float)


def _three(rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
    return np.digitize(f + rng.logistic(size=len(f)), [-1.0, 1.0]).astype(float)


CASES: dict[str, tuple[Loss, Draw]] = {
    "squared": (Squared(), lambda rng, f: f + rng.normal(size=len(f))),
    "logistic": (Logistic(), _labels),
    "softmax": (Softmax(3), _three),
    "exponential": (Exponential(), _labels),
    "poisson": (Poisson(), lambda rng, f: rng.poisson(np.exp(f / 2)).astype(float)),
    "huber": (Huber(1.0), lambda rng, f: f + rng.standard_t(2, size=len(f))),
    "quantile": (Quantile(0.8, 0.3), lambda rng, f: f + rng.normal(size=len(f))),
}


def problem(name: str, kernel: object, n: int, seed: int, *, weighted: bool = False, intercept: bool = True):
    """A random problem with its Gram matrix: two covariates, a smooth truth."""
    from stopwise.engine.loss_fits.loss_rows import LossRows, kernel_problem

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    loss, draw = CASES[name]
    y = draw(rng, 1.5 * np.sin(2 * X[:, 0]) + X[:, 1])
    weights = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    rows = LossRows(X, y, weights)
    return kernel_problem(kernel, rows, loss, n, 0, intercept), kernel(X)
