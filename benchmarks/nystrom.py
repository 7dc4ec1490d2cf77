"""Landmarks and clusters: speed, memory and error beside scikit-learn; two workers beside one; a table out of core.

    python benchmarks/nystrom.py peers      # n = 200,000 against Nystroem + RidgeCV at the same landmarks
    python benchmarks/nystrom.py workers    # the product phase on one worker and on two
    python benchmarks/nystrom.py folder     # 5,000,000 x 10 of Parquet from the command line, memory watched
    python benchmarks/nystrom.py bracket    # n = 20,000: does the bracket of 1,000 landmarks hold the exact stop?

Each prints one JSON object. Every measurement runs in a process of its own on one thread per worker.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

GRID = np.logspace(-6, 3, 19)
"""RidgeCV's penalties: half a decade apart, wide enough that the best one is inside."""


def simulated(n, d, seed):
    """A smooth function of ten covariates, two of them without effect, and noise a fifth of its spread."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, d))
    f = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + np.exp(-4 * x[:, 3] ** 2) + 0.5 * np.cos(4 * x[:, 4] + x[:, 5])
    return x, f + 0.2 * rng.standard_normal(n), f


def in_own_process(*words):
    """The JSON that this file prints for some words, run by itself so that its peak memory is its own."""
    done = subprocess.run([sys.executable, __file__, *map(str, words)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


# ---- against scikit-learn -------------------------------------------------------------------------------------------


def one_peer(name, n, m, d):
    """CPU time, peak memory above the data and test error of one way."""
    x, y, _ = simulated(n, d, 1)
    new, _, truth = simulated(20_000, d, 2)
    new = np.clip(new, x.min(axis=0), x.max(axis=0))
    scale = np.sqrt(d)
    # the rows that Nystroem(random_state=0) draws, for both: draws differ more than the two ways of stopping do
    points = x[np.random.RandomState(0).permutation(n)[:m]]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if name == "scikit-learn":
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline

        model = make_pipeline(
            Nystroem(kernel="rbf", gamma=0.5 / scale**2, n_components=m, random_state=0), RidgeCV(alphas=GRID)
        )
    else:
        import stopwise as sw

        model = sw.KernelRidgeRegressor(sw.kernels.Gaussian(scale), rule=name, solver="nystrom", n_landmarks=points)
    before = max(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(x, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = float(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
    out = {"cpu_s": cpu, "wall_s": wall, "peak_mib": peak / 1024, "added_mib": (peak - before) / 1024, "rmse": error}
    if name != "scikit-learn":
        out |= {"step_sum": model.step_sum_, "bracket": model.stop_.details["bracket"]}
        out |= {"captured": model.stop_.details["captured"]}
    else:
        out |= {"alpha": float(model[-1].alpha_)}
    return out


def peers(n, m, d):
    """scikit-learn beside the default rule, GCV and leave-one-out."""
    names = ("scikit-learn", "auto", "gcv", "loo")
    return {name: in_own_process("one-peer", "--name", name, "--rows", n, "--landmarks", m) for name in names}


# ---- two workers ----------------------------------------------------------------------------------------------------


def timed(client, work):
    """Seconds on the wall, and CPU seconds of the busiest worker: the wall time where nothing else runs."""
    before, started = client.run(time.process_time), time.perf_counter()
    work()
    wall, after = time.perf_counter() - started, client.run(time.process_time)
    return wall, max(after[worker] - before[worker] for worker in before)


def on_workers(count, n, m, d):
    """(wall, busiest CPU) of the landmark pass and of an exact product of width 16 on so many workers."""
    import dask.array as da
    from distributed import Client, LocalCluster

    import stopwise as sw
    from stopwise.engine.cluster.chunks import chunks_of_collections
    from stopwise.engine.cluster.cluster_operator import ChunkedGram
    from stopwise.engine.landmarks.features import make_landmarks
    from stopwise.estimators.dask_collections import ChunkedRows

    x, y, _ = simulated(n, d, 3)
    small, kernel = x[:24_000], sw.kernels.Gaussian(np.sqrt(d))
    with (
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        rows, responses = da.from_array(x, chunks=(n // 16, d)), da.from_array(y, chunks=n // 16)
        source = ChunkedRows(client, chunks_of_collections(rows, responses, None, "float64", client), 0, True)
        landmarks = make_landmarks(kernel, source.take(source._drawn[:m]))
        source.stream(make_landmarks(kernel, source.take(source._drawn[:8])))
        first = timed(client, lambda: source.stream(landmarks))
        parts = np.array_split(small, 8)
        gram = ChunkedGram(client, kernel, small, client.scatter(parts), [len(part) for part in parts])
        block = np.random.default_rng(4).standard_normal((len(small), 16))
        gram.multiply(np.ones((len(small), 1)))
        return first, timed(client, lambda: gram.multiply(block))


def workers(n, m, d, rounds=3):
    """The product phase on one worker and on two, by turns; medians compared."""
    one, two = [], []
    for _ in range(rounds):
        one.append(on_workers(1, n, m, d))
        two.append(on_workers(2, n, m, d))
    ratios = np.median(one, axis=0) / np.median(two, axis=0)
    names = ("landmark_pass", "exact_product")
    return {
        "seconds (wall, busiest worker's CPU)": {"1": one, "2": two},
        "speedup on the wall": dict(zip(names, ratios[:, 0].tolist(), strict=True)),
        "speedup by CPU time": dict(zip(names, ratios[:, 1].tolist(), strict=True)),
        "load": os.getloadavg()[0],
    }


# ---- out of core ----------------------------------------------------------------------------------------------------


def write_table(folder, n, d, files=20):
    """Parquet files of a table that no process ever holds whole."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    for i in range(files):
        path = folder / f"part-{i:03d}.parquet"
        if not path.exists():
            x, y, _ = simulated(n // files, d, 100 + i)
            frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(d)]).assign(y=y)
            frame.to_parquet(path, row_group_size=125_000)


def use_of(pid):
    """Resident MiB and CPU seconds so far of each process below one, by its id."""
    import psutil

    try:
        family = psutil.Process(pid).children(recursive=True)
        return {one.pid: (one.memory_info().rss / 2**20, sum(one.cpu_times()[:2])) for one in family}
    except psutil.NoSuchProcess:
        return {}


def folder(n, m, d, keep):
    """The command line on a folder of Parquet: seconds, peak memory of each worker, and what it printed."""
    place = Path(keep or tempfile.mkdtemp(prefix="stopwise-"))
    write_table(place, n, d)
    out = place.parent / "model.stopwise"
    words = ["fit", place, "--target", "y", "--solver", "dask", "--landmarks", m, "--kernel", "gaussian"]
    words += ["--length-scale", 0.5 * np.sqrt(d), "--out", out, "--json"]
    started = time.perf_counter()
    running = subprocess.Popen(
        [sys.executable, "-m", "stopwise", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peaks, busy = {}, {}
    while running.poll() is None:
        for pid, (size, seconds) in use_of(running.pid).items():
            peaks[pid], busy[pid] = max(peaks.get(pid, 0.0), size), seconds
        time.sleep(0.2)
    printed, complaints = running.communicate()
    if running.returncode:
        raise SystemExit(complaints)
    result = json.loads(printed)
    return {
        "wall_s": time.perf_counter() - started,
        "worker_peak_mib": sorted((round(size) for size in peaks.values()), reverse=True)[:4],
        "worker_cpu_s": sorted((round(seconds, 1) for seconds in busy.values()), reverse=True)[:4],
        "table_mib_on_disk": sum(p.stat().st_size for p in place.glob("*.parquet")) / 2**20,
        "result": {key: result[key] for key in ("rows", "seconds", "step_sum", "bracket", "captured", "settled")},
    }


# ---- the bracket ----------------------------------------------------------------------------------------------------


def bracket(n, m, d):
    """Critical with radius and noise given, exactly (matrix-free) and on landmarks."""
    import stopwise as sw

    x, y, _ = simulated(n, d, 5)
    rule = sw.rules.Critical(hilbert_radius=3.0)
    settings = {"rule": rule, "noise_std": 0.2, "schedule": 1.0}
    kernel = sw.kernels.Gaussian(0.5 * np.sqrt(d))
    started = time.perf_counter()
    exact = sw.KernelGradientRegressor(kernel, solver="krylov", tol=0.0, **settings).fit(x, y)
    middle = time.perf_counter()
    seen = sw.KernelGradientRegressor(kernel, solver="nystrom", n_landmarks=m, **settings).fit(x, y)
    low, high = seen.stop_.details["bracket"]
    return {
        "exact": exact.step_sum_,
        "exact_bracket": exact.stop_.details.get("bracket"),
        "landmarks": seen.step_sum_,
        "bracket": [low, high],
        "holds": bool(low <= exact.step_sum_ <= high),
        "captured": seen.stop_.details["captured"],
        "seconds": {"exact": middle - started, "landmarks": time.perf_counter() - middle},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["peers", "one-peer", "workers", "folder", "bracket"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--landmarks", type=int)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--name", default="auto")
    parser.add_argument("--keep", help="where to write (and find again) the Parquet files")
    given = parser.parse_args()
    sizes = {"folder": (5_000_000, 500), "workers": (200_000, 500), "bracket": (20_000, 1000)}
    n, m = sizes.get(given.what, (200_000, 500))
    n, m, d = given.rows or n, given.landmarks or m, given.features
    runs = {
        "peers": lambda: peers(n, m, d),
        "one-peer": lambda: one_peer(given.name, n, m, d),
        "workers": lambda: workers(n, m, d),
        "folder": lambda: folder(n, m, d, given.keep),
        "bracket": lambda: bracket(n, m, d),
    }
    print(json.dumps(runs[given.what]()))


if __name__ == "__main__":
    main()
