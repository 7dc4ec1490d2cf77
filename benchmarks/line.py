"""One covariate: stopwise's defaults beside smoothing splines, additive models, celerite2 and lowess.

    python benchmarks/line.py truths --seeds 10        # six truths x two noises x two designs at n = 10,000
    python benchmarks/line.py growth                   # seconds and memory from 10^5 to 10^7 rows
    python benchmarks/line.py kernels --sizes 200000   # seconds of each kernel by name, beside sobolev1
    python benchmarks/line.py truths --methods stopwise "R smooth.spline"

Prints a table and writes line-<what>.json; results of other methods already in that file are kept.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import resource
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from line_peers import NORMAL_90, PEERS, Answer

BUMPS = (
    np.array([0.1, 0.13, 0.15, 0.23, 0.25, 0.40, 0.44, 0.65, 0.76, 0.78, 0.81]),
    np.array([4, 5, 3, 4, 5, 4.2, 2.1, 4.3, 3.1, 5.1, 4.2]),
    np.array([0.005, 0.005, 0.006, 0.01, 0.01, 0.03, 0.01, 0.01, 0.005, 0.008, 0.005]),
)
"""Places, heights and widths of Donoho and Johnstone's bumps (1994)."""


def bumps(x: np.ndarray) -> np.ndarray:
    place, height, width = BUMPS
    return (height * (1 + np.abs((x[:, None] - place) / width)) ** -4).sum(axis=1)


TRUTHS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "smooth wave": lambda x: np.sin(6 * x),
    "sum of waves": lambda x: np.sin(12 * x) + 0.5 * np.sin(47 * x) + 0.3 * np.cos(90 * x),
    "kink": lambda x: 2 * np.abs(x - 0.4),
    "step": lambda x: 1.0 * (x > 0.37) - 0.5 * (x > 0.7),
    "bumps": bumps,
    "bend": lambda x: x + 2 * np.maximum(x - 0.6, 0),
}
NEW = np.linspace(0.0005, 0.9995, 2000)


def data(truth: str, noise: float, design: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = (np.arange(n) + 0.5) / n if design == "even" else rng.random(n)
    return x, TRUTHS[truth](x) + noise * rng.standard_normal(n)


def stopwise(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> Answer:
    import stopwise as sw

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sw.KernelGradientRegressor().fit(x[:, None], y)
        mean, std = model.predict(new[:, None], return_std=True)
    return mean, NORMAL_90 * std


METHODS = {"stopwise": stopwise, **PEERS}


def one(method: str, truth: str, noise: float, design: str, n: int, seed: int) -> dict[str, object]:
    x, y = data(truth, noise, design, n, seed)
    row: dict[str, object] = {"method": method, "truth": truth, "noise": noise, "design": design, "n": n, "seed": seed}
    start = time.perf_counter()
    try:
        mean, half = METHODS[method](x, y, NEW)
    except Exception as error:  # noqa: BLE001 - a peer that refuses the data is a result
        return {**row, "failed": f"{type(error).__name__}: {error}"[:120]}
    seconds = time.perf_counter() - start
    gap = np.abs(mean - TRUTHS[truth](NEW))
    covered = None if half is None else float((gap <= half).mean())
    return {**row, "seconds": seconds, "error": float(np.sqrt((gap**2).mean())), "covered": covered}


def truths(options: argparse.Namespace) -> None:
    path = pathlib.Path(options.out or "line-truths.json")
    rows = [] if not path.exists() else json.loads(path.read_text())
    done = {(r["method"], r["truth"], r["noise"], r["design"], r["n"], r["seed"]) for r in rows}
    for seed in range(options.seeds):
        for truth in TRUTHS:
            for noise in (0.1, 1.0):
                for design in ("even", "random"):
                    for method in options.methods:
                        key = (method, truth, noise, design, options.n, seed)
                        if key not in done:
                            rows.append(one(*key))
        path.write_text(json.dumps(rows, indent=0))
    show(rows, options.n)


def show(rows: list[dict[str, object]], n: int) -> None:
    methods = list(dict.fromkeys(str(r["method"]) for r in rows))
    print(f"root mean squared error against the truth at n = {n} (quadratic mean over seeds); last: ours / best peer")
    for truth in TRUTHS:
        for noise in (0.1, 1.0):
            for design in ("even", "random"):
                cells = {}
                for method in methods:
                    own = [
                        r
                        for r in rows
                        if r["n"] == n
                        and (r["method"], r["truth"], r["noise"], r["design"]) == (method, truth, noise, design)
                    ]
                    good = [float(r["error"]) ** 2 for r in own if "error" in r]  # type: ignore[arg-type]
                    cells[method] = (np.sqrt(np.mean(good)) if good else np.nan, len(good))
                best = np.nanmin([v for m, (v, _) in cells.items() if m != "stopwise"] or [np.nan])
                ratio = cells.get("stopwise", (np.nan, 0))[0] / best
                told = "  ".join(f"{m} {v:.4f} ({k})" for m, (v, k) in cells.items())
                print(f"{truth:13s} {noise:3g} {design:6s} {told}  ratio {ratio:.3f}")


def wavy(n: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Rows of two waves in noise, and the generator that made them."""
    rng = np.random.default_rng(0)
    x = rng.random(n)
    return x, np.sin(9 * x) + 0.5 * np.sin(40 * x) + 0.3 * rng.standard_normal(n), rng


def kernels(options: argparse.Namespace) -> None:
    """Default fits by each kernel in turn; the least of `seeds` repetitions, taken in turn too."""
    import stopwise as sw

    kinds: dict[str, object] = {"sobolev1": "sobolev1", "sobolev2": "sobolev2", "laplace": sw.kernels.Laplace(0.2)}
    kinds |= {f"matern{k}2": sw.kernels.Matern(0.2, smoothness=k / 2) for k in (3, 5)}
    rows = []
    for n in options.sizes:
        x, y, _ = wavy(n)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
        for _ in range(options.seeds):
            for name, kernel in kinds.items():
                start, used = time.perf_counter(), time.process_time()
                sw.KernelGradientRegressor(kernel).fit(x[:, None], y)
                taken[name].append((time.perf_counter() - start, time.process_time() - used))
        least = {name: np.min(times, axis=0) for name, times in taken.items()}
        for name, (seconds, busy) in least.items():
            ratio = least[name] / least["sobolev1"]
            rows.append({"n": n, "kernel": name, "seconds": seconds, "cpu_seconds": busy, "ratio": ratio[1]})
            told = f"{seconds:6.2f} s {busy:6.2f} cpu s; {ratio[0]:.2f} and {ratio[1]:.2f} times sobolev1"
            print(f"n = {n:9d} {name:9s} {told}", flush=True)
    pathlib.Path(options.out or "line-kernels.json").write_text(json.dumps(rows, indent=0))


def growth(options: argparse.Namespace) -> None:
    """Each size in this process, small ones first: memory is the peak so far."""
    rows = []
    for n in options.sizes:
        x, y, rng = wavy(n)
        new = rng.random(100_000)
        start, used = time.perf_counter(), time.process_time()
        mean, _ = stopwise(x, y, new)
        seconds, busy = time.perf_counter() - start, time.process_time() - used
        error = float(np.sqrt(np.mean((mean - np.sin(9 * new) - 0.5 * np.sin(40 * new)) ** 2)))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append({"n": n, "seconds": seconds, "cpu_seconds": busy, "error": error, "peak_gb": peak})
        print(f"n = {n:9d}  {seconds:7.1f} s  {busy:7.1f} cpu s  error {error:.5f}  peak {peak:.2f} GB", flush=True)
    pathlib.Path(options.out or "line-growth.json").write_text(json.dumps(rows, indent=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["truths", "growth", "kernels"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--out")
    options = parser.parse_args()
    {"truths": truths, "growth": growth, "kernels": kernels}[options.what](options)


if __name__ == "__main__":
    main()
