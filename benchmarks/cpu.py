"""Every solver and its peers on one machine: same data, one process, one table.

    python benchmarks/cpu.py [--quick] [--out FOLDER]

Each entry runs in this process on the same training rows; its test error is against the known truth. Peak memory is
the process's high-water mark while it ran, all else that it holds included.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from cpu_peers import Csaps, Himalaya, PyGam, Spline, gaussian_process, grid_search, landmarks

import stopwise as sw

warnings.simplefilter("ignore")
NOISE, SCALE = 0.3, 3.0


def peak_gb(*, reset: bool = False) -> float:
    """The largest resident size since the last reset, in GB (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e6


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
    new = x[0] + (x[-1] - x[0]) * rng.random(n)

    def wave(v: np.ndarray) -> np.ndarray:
        return np.sin(9 * v) + 0.5 * np.sin(40 * v)

    return x[:, None], wave(x) + NOISE * rng.standard_normal(n), new[:, None], wave(new)


def measure(name: str, model: Any, data: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """Seconds, test error and memory of one entry; a failure is a row of its own."""
    x, y, new, truth = data
    peak_gb(reset=True)
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
    row["peak_gb"] = peak_gb()
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


def on_the_plane(sizes: list[int], largest_dense: int, largest_process: int) -> list[dict[str, Any]]:
    """Ten covariates: the fixed radius and the default rule, dense and matrix-free, and the peers."""
    rows = []
    kernel, radius = sw.kernels.Gaussian(SCALE), sw.rules.Critical(hilbert_radius=12.0)
    gamma = 0.5 / SCALE**2
    for n in sizes:
        data = plane(n)
        for solver in ("krylov", "dense") if n <= largest_dense else ("krylov",):
            fixed = sw.KernelGradientRegressor(kernel, rule=radius, noise_std=NOISE, solver=solver)
            rows.append(measure(f"stopwise {solver}, radius 12", fixed, data))
            default = sw.KernelGradientRegressor(kernel, solver=solver)
            rows.append(measure(f"stopwise {solver}, default rule", default, data))
        if n <= largest_dense:
            steps = next(r["T"] for r in rows if r["n"] == n and "radius" in r["entry"])
            seconds = steps_with_matrix(data[0], data[1], steps)
            rows.append({"entry": "T steps, matrix held", "n": n, "seconds": seconds, "T": steps})
            rows.append(measure("KernelRidge, 5 folds, 10 penalties", grid_search(gamma), data))
        if n <= largest_process:
            rows.append(measure("himalaya KernelRidgeCV, 5 folds, 10 penalties", Himalaya(gamma), data))
            rows.append(measure("GaussianProcessRegressor", gaussian_process(SCALE), data))
        rows.append(measure("Nystroem(500) + RidgeCV", landmarks(gamma), data))
    return rows


def on_the_line(sizes: list[int], largest_peer: int) -> list[dict[str, Any]]:
    """One covariate: counts and running sums against smoothing splines.

    scipy's spline raises on the unit interval from some thousand places on, so it is also given steps of length one.
    """
    rows = []
    for n in sizes:
        for even in (True, False):
            data, design = line(n, even=even), "even" if even else "random"
            model = sw.KernelGradientRegressor(sw.kernels.Sobolev(1, anchored=False), solver="line")
            rows.append(measure(f"stopwise line, {design}", model, data))
            if n > largest_peer:
                continue
            rows.append(measure(f"make_smoothing_spline, {design}", Spline(), data))
            wide = (data[0] * n, data[1], data[2] * n, data[3])
            rows.append(measure(f"make_smoothing_spline, {design}, steps of 1", Spline(), wide))
            rows.append(measure(f"csaps, {design}", Csaps(), data))
            rows.append(measure(f"pyGAM, {design}", PyGam(), data))
    return rows


def slope(rows: list[dict[str, Any]], row: dict[str, Any]) -> float | None:
    """How an entry's seconds grow with n since its next smaller size, as a power."""
    earlier = [r for r in rows if r["entry"] == row["entry"] and r["n"] < row["n"] and "seconds" in r]
    if "seconds" not in row or not earlier:
        return None
    before = max(earlier, key=lambda r: r["n"])
    return math.log(row["seconds"] / before["seconds"]) / math.log(row["n"] / before["n"])


def figure(rows: list[dict[str, Any]], file: Path) -> None:
    """Seconds against n, a line for each entry with more than one size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    picture, panels = plt.subplots(1, 2, figsize=(11, 6))
    for axes, title in zip(panels, ("ten covariates", "on the line"), strict=True):
        chosen = [r for r in rows if "seconds" in r and ((" line" in r["entry"] or r["on_line"]) == (title[0] == "o"))]
        for entry in dict.fromkeys(r["entry"] for r in chosen):
            points = sorted((r["n"], r["seconds"]) for r in chosen if r["entry"] == entry)
            axes.plot(*zip(*points, strict=True), "o-", markersize=4, label=entry)
        axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds", title=title)
        sizes = sorted({r["n"] for r in chosen})
        axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2, frameon=False)
    picture.tight_layout()
    picture.savefig(file)
    plt.close(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--alone", action="store_true", help="the matrix-free solvers alone, on the larger sizes")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sizes = [2000, 4000] if options.quick else [10_000, 100_000, 1_000_000]
    peers = 0 if options.alone else 4000 if options.quick else 100_000
    rows = [{**row, "on_line": True} for row in on_the_line(sizes, peers)]
    sizes = [500, 1000] if options.quick else [10_000, 50_000] if options.alone else [2500, 10_000, 50_000]
    dense = 0 if options.alone else 1000 if options.quick else 10_000
    plane_rows = on_the_plane(sizes, dense, dense // 4)
    rows += [{**row, "on_line": False} for row in plane_rows]
    rows = [{**row, "growth": slope(rows, row)} for row in rows]
    (options.out / "cpu.json").write_text(json.dumps({"rows": rows}, indent=1))
    figure(rows, options.out / "cpu.svg")
    print(f"\n{'entry':46s} {'n':>9s} {'seconds':>9s} {'ratio':>7s} {'error':>8s} {'GB':>6s}  growth")
    for row in rows:
        seconds, error = row.get("seconds", math.nan), row.get("error", math.nan)
        ours = next(r["seconds"] for r in rows if r["n"] == row["n"] and r["on_line"] == row["on_line"])
        power = "" if row["growth"] is None else f"n^{row['growth']:.2f}"
        note = row.get("failed", "")
        print(
            f"{row['entry']:46s} {row['n']:9d} {seconds:9.2f} {seconds / ours:7.1f} {error:8.4f} "
            f"{row.get('peak_gb', 0):6.2f}  {power} {note}"
        )


if __name__ == "__main__":
    main()
