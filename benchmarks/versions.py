"""Two versions of the code on the same work: is anything slower than before?

    python benchmarks/versions.py BEFORE/src [AFTER/src] [--repeats 7] [--out FOLDER]

Fits and predictions at 500, 1,000 and 10,000 rows, by every solver, kernel and stopping rule given, so that both
versions do the same arithmetic. Each version runs in fresh processes of one thread, in turns. What is told is the
median over processes of the processor's seconds in the best of a few runs: other programs on the machine share its
caches, and so slow down even what does not wait for them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NOISE = 0.3
LEAST_TURNS, LONG = 8, 1.0
"""Each entry is run so many times in a process, unless they take more than so many seconds, and the best one counts."""


def entries() -> Iterator[tuple[str, Callable[[], object]]]:
    """What is timed, by name; data and fitted models are made before the clock starts."""
    import numpy as np

    import stopwise as sw

    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 5))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + NOISE * rng.standard_normal(len(X))
    x = np.sort(rng.random(10_000))[:, None]
    wave = np.sin(9 * x[:, 0]) + NOISE * rng.standard_normal(len(x))
    kernel, new = sw.kernels.Gaussian(2.0), X[10_000:]
    given = {"rule": sw.rules.Critical(hilbert_radius=5.0), "noise_std": NOISE, "n_jobs": 1, "random_state": 0}

    def plane(n: int, solver: str, estimator: type = sw.KernelGradientRegressor, **more: object) -> object:
        return estimator(kernel, solver=solver, **{**given, **more}).fit(X[:n], y[:n])

    for n in (500, 1000):
        yield f"dense, {n:,} rows", lambda n=n: plane(n, "dense")
        yield f"dense, sure, {n:,} rows", lambda n=n: plane(n, "dense", rule="sure")
        yield f"dense, leave-one-out, {n:,} rows", lambda n=n: plane(n, "dense", rule="loo", noise_std="gcv")
        yield f"dense ridge, {n:,} rows", lambda n=n: plane(n, "dense", sw.KernelRidgeRegressor)
    for n in (500, 1000, 10_000):
        yield f"krylov, {n:,} rows", lambda n=n: plane(n, "krylov")
        yield f"nystrom, {n:,} rows", lambda n=n: plane(n, "nystrom", n_landmarks=200)
        line = sw.KernelGradientRegressor("sobolev1", solver="line", **given)
        yield f"line, {n:,} rows", lambda n=n, line=line: line.fit(x[:: 10_000 // n], wave[:: 10_000 // n])
    for n in (500, 1000):
        fitted = plane(n, "dense")
        yield f"predict 10,000 rows from {n:,}", lambda fitted=fitted: fitted.predict(new)
    fitted = plane(10_000, "nystrom", n_landmarks=200)
    yield "predict 10,000 rows from 200 landmarks", lambda: fitted.predict(new)


def work(source: str) -> dict[str, float]:
    """Seconds of the processor for each entry."""
    sys.path.insert(0, source)
    import warnings

    import stopwise

    assert Path(stopwise.__file__).is_relative_to(source), "another stopwise was imported"
    warnings.simplefilter("ignore")
    found = {}
    for name, job in entries():
        taken = [seconds_of(job)]
        while len(taken) < LEAST_TURNS and sum(taken) < LONG:
            taken.append(seconds_of(job))
        found[name] = min(taken)
    return found


def seconds_of(job: Callable[[], object]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def in_fresh_process(source: Path) -> dict[str, float]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | threads
    command = [sys.executable, __file__, "--work", str(source.resolve())]
    told: dict[str, float] = json.loads(subprocess.run(command, env=environment, stdout=-1, check=True).stdout)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("after", type=Path, nargs="?", default=Path(__file__).parents[1] / "src")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        json.dump(work(options.work), sys.stdout)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for turn in range(options.repeats):
        for version in runs:
            runs[version].append(in_fresh_process(getattr(options, version)))
        rows = compared(runs)
        (options.out / "versions.json").write_text(json.dumps({"rows": rows, "runs": runs}, indent=1))
        print(f"{turn + 1} of {options.repeats}", file=sys.stderr)
    print(f"Milliseconds of the processor, median of {options.repeats} processes")
    print(f"{'entry':40s} {'before':>9s} {'after':>9s} {'ratio':>6s}")
    for row in rows:
        print(f"{row['entry']:40s} {1e3 * row['before']:9.2f} {1e3 * row['after']:9.2f} {row['ratio']:6.2f}")


def compared(runs: dict[str, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """The median of each entry in both versions, and the later over the earlier."""
    rows = []
    for name in runs["before"][0]:
        before, after = (statistics.median(run[name] for run in runs[version]) for version in runs)
        rows.append({"entry": name, "before": before, "after": after, "ratio": after / before})
    return rows


if __name__ == "__main__":
    main()
