"""Two versions of the code on the same work: is anything slower than before?

    python benchmarks/versions.py BEFORE/src [AFTER/src] [--repeats 7] [--out FOLDER]

Fits and predictions at 500, 1,000 and 10,000 rows, by every solver, kernel and stopping rule given, so that both
versions do the same arithmetic. Each version runs in fresh processes of one thread, in turns; what is told is the
median over them of the processor's seconds, which other programs on the machine disturb least.
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

NOISE = 0.3
LEAST_SECONDS = 0.3
"""Short work is done again until it has taken so long in all: the clock's own steps and chance then matter little."""


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
    for n in (1000, 10_000):
        fitted = plane(n, "krylov")
        yield f"predict 1,000 rows from {n:,}", lambda fitted=fitted: fitted.predict(new[:1000])


def work(source: str) -> dict[str, float]:
    """Seconds of the processor for each entry, once after a first run that warms up."""
    sys.path.insert(0, source)
    import warnings

    import stopwise

    assert Path(stopwise.__file__).is_relative_to(source), "another stopwise was imported"
    warnings.simplefilter("ignore")
    found = {}
    for name, job in entries():
        job()
        start, turns = time.process_time(), 0
        while turns == 0 or time.process_time() - start < LEAST_SECONDS:
            job()
            turns += 1
        found[name] = (time.process_time() - start) / turns
    return found


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
    runs: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for turn in range(options.repeats):
        for version in runs:
            runs[version].append(in_fresh_process(getattr(options, version)))
        print(f"{turn + 1} of {options.repeats}", file=sys.stderr)
    rows = []
    for name in runs["before"][0]:
        before, after = (statistics.median(run[name] for run in runs[version]) for version in runs)
        rows.append({"entry": name, "before": before, "after": after, "ratio": after / before})
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "versions.json").write_text(json.dumps({"rows": rows, "runs": runs}, indent=1))
    print(
        f"{'entry':40s} {'before':>9s} {'after':>9s} {'ratio':>6s}   (ms of the processor, median of {options.repeats})"
    )
    for row in rows:
        print(f"{row['entry']:40s} {1e3 * row['before']:9.2f} {1e3 * row['after']:9.2f} {row['ratio']:6.2f}")


if __name__ == "__main__":
    main()
