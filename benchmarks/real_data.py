"""Prediction error on real data against peers: `make bench-real ARGS="--quick"`.

Every (data set, split, method) is one line of `results.csv` in the cache folder, so that a run can be stopped and
taken up again. At the end the summary table is printed and written beside it, with one figure.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from real_rivals import RIVALS, Method, gaussian_process, grid_search, recursive_features
from real_sets import LISTS, DataSet, load

import stopwise as sw

QUICK = ["diabetes", "mcycle", "biomass", "quakes"]
FIELDS = ["set", "split", "method", "n_train", "n_features", "ratio", "cpu_seconds"]


def ours(**settings: object) -> Method:
    """A stopwise estimator with default settings but these."""

    def method(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # trust warnings are for people
            return sw.KernelGradientRegressor(**settings).fit(X, y).predict(new)

    return method


METHODS: dict[str, Method] = {
    "stopwise": ours(),
    "stopwise-isotropic": ours(relevance=False),
    **RIVALS,
    "grid-search": grid_search,
    "gp-features": gaussian_process("matern32", per_feature=True),
    "xrfm": recursive_features,
}
SLOW = ["grid-search", "gp-features", "xrfm"]
"""Timed on request only (`--methods`)."""


def measure(data: DataSet, split: int, name: str) -> dict[str, object]:
    """One line of results: RMSE relative to the training mean's, and CPU seconds."""
    X, y, new, truth = data.split(split)
    start = time.process_time()
    predicted = METHODS[name](X, y, new)
    seconds = time.process_time() - start
    ratio = np.sqrt(np.mean((predicted - truth) ** 2) / np.mean((y.mean() - truth) ** 2))
    values = (data.name, split, name, len(y), X.shape[1], f"{ratio:.6g}", f"{seconds:.4g}")
    return dict(zip(FIELDS, values, strict=True))


def read(file: Path) -> dict[tuple[str, int, str], dict[str, object]]:
    """Lines measured earlier."""
    if not file.exists():
        return {}
    with file.open() as lines:
        return {(line["set"], int(line["split"]), line["method"]): dict(line) for line in csv.DictReader(lines)}


def run(sets: list[DataSet], splits: int, methods: list[str], cache: Path) -> None:
    """Measure what is not in the cache yet."""
    file = cache / "results.csv"
    done = read(file)
    if not file.exists():
        file.write_text(",".join(FIELDS) + "\n")
    for data in sets:
        for split in range(min(splits, data.n_splits)):
            for name in methods:
                if (data.name, split, name) in done:
                    continue
                line = measure(data, split, name)
                with file.open("a") as out:
                    csv.DictWriter(out, FIELDS).writerow(line)
                print(*line.values(), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of *.csv.gz, the last column the response")
    parser.add_argument("--quick", action="store_true", help=f"two splits of {', '.join(QUICK)}")
    parser.add_argument("--cache", type=Path, default=Path("build/bench-real"), help="folder for results")
    parser.add_argument("--splits", type=int, default=10, help="at most so many splits of each set")
    parser.add_argument("--sets", nargs="+", help="only these data sets")
    parser.add_argument("--list", choices=list(LISTS), default="packaged", help="which sets of the packages")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="only these methods")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    options.cache.mkdir(parents=True, exist_ok=True)
    only = options.sets or (QUICK if options.quick else None)
    sets = load(options.folders, only, options.list)
    methods = options.methods or [name for name in METHODS if name not in SLOW]
    run(sets, 2 if options.quick else options.splits, methods, options.cache)
    from real_table import report

    report(options.cache)


if __name__ == "__main__":
    main()
