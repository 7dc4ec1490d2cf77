"""Every solver and its peers on one machine: same data, one process, one table.

    python benchmarks/cpu.py [--quick] [--out FOLDER]

Each entry runs in this process on the same training rows; its test error is against the known truth. Peak memory is the
growth of the process's high-water mark while it ran (so an entry that fits below an earlier peak shows zero).
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import stopwise as sw

warnings.simplefilter("ignore")
NOISE, SCALE = 0.3, 3.0
PENALTIES = np.geomspace(1e-4, 1e2, 10)


def plane(n: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Ten covariates, of which four matter."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n + 2000, 10))
    truth = np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + np.exp(-(x[:, 3] ** 2))
    y = truth + NOISE * rng.standard_normal(n + 2000)
    return x[:n], y[:n], x[n:], truth[n:]


def line(n: int, seed: int = 0, even: bool = False) -> tuple[np.ndarray, ...]:
    """One covariate on [0, 1], random uniform or evenly spaced."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(n)) if not even else (np.arange(n) + 0.5) / n
    new = rng.random(n)

    def wave(v: np.ndarray) -> np.ndarray:
        return np.sin(9 * v) + 0.5 * np.sin(40 * v)

    return x[:, None], wave(x) + NOISE * rng.standard_normal(n), new[:, None], wave(new)


class Spline:
    """scipy's smoothing spline with its own choice of penalty, as an estimator."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Spline:
        from scipy.interpolate import make_smoothing_spline

        self.spline = make_smoothing_spline(x[:, 0], y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.spline(x[:, 0])


def measure(name: str, model: Any, data: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """Seconds, test error and memory of one entry; a failure is a row of its own."""
    x, y, new, truth = data
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    row: dict[str, Any] = {"entry": name, "n": len(x)}
    try:
        model.fit(x, y)
        row["seconds"] = time.perf_counter() - start
        row["error"] = float(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
    except (ValueError, MemoryError, ArithmeticError, np.linalg.LinAlgError) as problem:
        row["failed"] = f"{type(problem).__name__}: {str(problem)[:90]}"
    stop = getattr(model, "stop_", None)
    if stop is not None:
        row |= {"T": stop.iteration, **{key: stop.details.get(key) for key in ("settled", "products", "columns")}}
    row["peak_gb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(row, flush=True)
    return row


def steps_with_matrix(x: np.ndarray, y: np.ndarray, steps: int) -> float:
    """Seconds that the literal descent would take with the matrix held: time per step measured, steps counted."""
    start = time.perf_counter()
    gram = sw.kernels.Gaussian(SCALE)(x) / len(x)
    build = time.perf_counter() - start
    f, centred = np.zeros_like(y), y - y.mean()
    start = time.perf_counter()
    for _ in range(20):
        f += gram @ (centred - f)
    return build + steps * (time.perf_counter() - start) / 20


def on_the_plane(sizes: list[int], largest_dense: int) -> list[dict[str, Any]]:
    """Ten covariates: the fixed radius and the default rule, dense and matrix-free, and the peers."""
    rows = []
    kernel, radius = sw.kernels.Gaussian(SCALE), sw.rules.Critical(hilbert_radius=12.0)
    gamma = 0.5 / SCALE**2
    for n in sizes:
        data = plane(n)
        for solver in ("krylov", "dense") if n <= largest_dense else ("krylov",):
            fixed = sw.KernelGradientRegressor(kernel, rule=radius, noise_std=NOISE, solver=solver)
            rows.append(measure(f"stopwise {solver}, radius 12", fixed, data))
            rows.append(
                measure(f"stopwise {solver}, default rule", sw.KernelGradientRegressor(kernel, solver=solver), data)
            )
        if n <= largest_dense:
            steps = next(r["T"] for r in rows if r["n"] == n and "radius" in r["entry"])
            seconds = steps_with_matrix(data[0], data[1], steps)
            rows.append({"entry": "T steps, matrix held", "n": n, "seconds": seconds, "T": steps})
            grid = GridSearchCV(KernelRidge(kernel="rbf", gamma=gamma), {"alpha": PENALTIES}, cv=5)
            rows.append(measure("KernelRidge, 5 folds, 10 penalties", grid, data))
        features = make_pipeline(Nystroem(gamma=gamma, n_components=500, random_state=0), RidgeCV(PENALTIES))
        rows.append(measure("Nystroem(500) + RidgeCV", features, data))
    return rows


def on_the_line(sizes: list[int], largest_peer: int) -> list[dict[str, Any]]:
    """One covariate: running sums against scipy's smoothing spline, on both kinds of design."""
    rows = []
    for n in sizes:
        for even in (False, True):
            data, design = line(n, even=even), "even" if even else "random"
            model = sw.KernelGradientRegressor(sw.kernels.Sobolev(1, anchored=False), solver="line")
            rows.append(measure(f"stopwise line, {design}", model, data))
            if n <= largest_peer:
                rows.append(measure(f"make_smoothing_spline, {design}", Spline(), data))
    return rows


def slope(rows: list[dict[str, Any]], entry: str) -> float | None:
    """How an entry's seconds grow with n, as a power."""
    points = [(r["n"], r["seconds"]) for r in rows if r["entry"] == entry and "seconds" in r]
    if len(points) < 2:
        return None
    (first, a), (last, b) = points[0], points[-1]
    return math.log(b / a) / math.log(last / first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    rows = on_the_plane([1000, 2000] if options.quick else [10_000, 20_000, 50_000], 2000 if options.quick else 10_000)
    rows += on_the_line(
        [2000, 4000] if options.quick else [100_000, 300_000, 1_000_000], 4000 if options.quick else 100_000
    )
    options.out.mkdir(parents=True, exist_ok=True)
    slopes = {entry: slope(rows, entry) for entry in sorted({r["entry"] for r in rows})}
    (options.out / "cpu.json").write_text(json.dumps({"rows": rows, "slopes": slopes}, indent=1))
    print(f"\n{'entry':42s} {'n':>9s} {'seconds':>9s} {'error':>8s} {'GB':>6s}  growth")
    for row in rows:
        growth = slopes[row["entry"]]
        seconds, error = row.get("seconds", math.nan), row.get("error", math.nan)
        power = "" if growth is None else f"n^{growth:.2f}"
        note = row.get("failed", "")
        print(
            f"{row['entry']:42s} {row['n']:9d} {seconds:9.2f} {error:8.4f} {row.get('peak_gb', 0):6.2f}  {power} {note}"
        )


if __name__ == "__main__":
    main()
