"""Random regression problems for property tests: designs, responses, kernels, rules and filters by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

import stopwise as sw

DEEP = settings.default is not None and settings.default.max_examples > 100
"""True under the deep profile, where sizes and counts grow."""


def examples(count: int, deep: int | None = None) -> settings:
    """So many examples by default, and `deep` (ten times as many unless told) under the deep profile."""
    wanted = (10 * count if deep is None else deep) if DEEP else count
    return settings(max_examples=wanted, deadline=None, suppress_health_check=list(HealthCheck))


KERNELS = {
    "gaussian": sw.kernels.Gaussian(1.5),
    "narrow gaussian": sw.kernels.Gaussian(0.3),
    "laplace": sw.kernels.Laplace(2.0),
    "matern32": sw.kernels.Matern(1.5, 1.5),
    "matern52": sw.kernels.Matern(2.0, 2.5),
    "linear": sw.kernels.Linear(),
    "polynomial2": sw.kernels.Polynomial(2),
    "sum": sw.kernels.Gaussian(1.0) + 0.5 * sw.kernels.Linear(),
    "product": sw.kernels.Gaussian(2.0) * sw.kernels.Laplace(3.0),
}
FILTERS = ["descent", "flow", "cutoff", "nu-method", "ridge"]
MONOTONE = [name for name in FILTERS if name != "nu-method"]
DESIGNS = ["random", "ties", "grid", "near-duplicates", "one column", "many columns"]
RESPONSES = ["smooth", "noise", "constant", "huge", "tiny"]


def design(name: str, n: int, seed: int) -> np.ndarray:
    """n rows of covariates of about unit size."""
    rng = np.random.default_rng([seed, 1])
    x = rng.standard_normal((n, {"one column": 1, "many columns": 20}.get(name, 3)))
    if name == "ties":
        return np.round(x, 1)
    if name == "grid":
        return np.column_stack([np.linspace(-1, 1, n)] * 3) + 0.01 * x
    if name == "near-duplicates":
        x[n // 2 :] = x[: n - n // 2] + 1e-12 * x[n // 2 :]
    return x


def response(name: str, x: np.ndarray, seed: int) -> np.ndarray:
    """One response of its kind; `huge` and `tiny` are smooth ones in other units."""
    rng = np.random.default_rng([seed, 2])
    noise = rng.standard_normal(len(x))
    smooth = np.sin(x[:, 0]) + 0.5 * x[:, -1] * x[:, x.shape[1] // 2] + 0.4 * noise
    return {
        "smooth": smooth,
        "noise": noise,
        "constant": np.full(len(x), 2.5),
        "huge": 1e9 * smooth,
        "tiny": 1e-9 * smooth,
    }[name]


def estimator(filter_: str, kernel: Any, **more: Any) -> Any:
    """The estimator that runs a filter: ridge has one of its own."""
    if filter_ == "ridge":
        return sw.KernelRidgeRegressor(kernel, **more)
    return sw.KernelGradientRegressor(kernel, filter=filter_, **more)


def wave_in_shared_noise(seed: int, correlation: float, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n places in a row, a wave over them, and noise of which neighbours share so much (an autoregression)."""
    rng = np.random.default_rng(seed)
    noise = np.zeros(n + 100)
    for t in range(1, n + 100):
        noise[t] = correlation * noise[t - 1] + np.sqrt(1 - correlation**2) * rng.standard_normal()
    x = (np.arange(n) + 0.5) / n
    return x[:, None], np.sin(6 * x), 0.3 * noise[100:]
