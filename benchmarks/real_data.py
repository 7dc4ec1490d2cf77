"""Prediction error on real data against peers: `make bench-real ARGS="--quick"`.

Every (data set, split, method) is one line of `results.csv` in the cache folder, so that a run can be stopped and
taken up again. At the end the summary table is printed and written beside it, with one figure. Other versions of
stopwise run beside this one in processes of their own: `--versions before=/folder/with/src`. Where the packages that
hold the data are not installed, `--dump sets.npz` here and `--from sets.npz` there.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from real_rivals import RIVALS, Method, gaussian_process, grid_search, recursive_features
from real_sets import LISTS, DataSet, dump, load, undump
from real_versions import fit_predict, predict_with

QUICK = ["diabetes", "mcycle", "biomass", "quakes"]
FIELDS = ["set", "split", "method", "n_train", "n_features", "ratio", "cpu_seconds"]


def ours(**settings: object) -> Method:
    """A stopwise estimator with default settings but these."""
    return lambda X, y, new: fit_predict(X, y, new, **settings)


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


def measure(data: DataSet, split: int, name: str, versions: dict[str, str]) -> dict[str, object]:
    """One line of results: RMSE relative to the training mean's, and CPU seconds."""
    X, y, new, truth = data.split(split)
    if name in versions:
        predicted, seconds = predict_with(versions[name], X, y, new)
    else:
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


def run(sets: list[DataSet], splits: int, methods: list[str], versions: dict[str, str], options: object) -> None:
    """Measure what is not in the cache yet, the most rows first: the last to end should be small."""
    file = options.cache / "results.csv"
    done = read(file)
    if not file.exists():
        file.write_text(",".join(FIELDS) + "\n")
    largest = sorted(sets, key=lambda data: -len(data.split(0)[1])) if options.jobs > 1 else sets
    tasks = (
        delayed(measure)(data, split, name, versions)
        for data in largest
        for split in range(min(splits, data.n_splits))
        for name in methods
        if (data.name, split, name) not in done
    )
    lines: Iterator[dict[str, object]] = Parallel(options.jobs, return_as="generator_unordered")(tasks)
    for line in lines:
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
    parser.add_argument("--list", choices=list(LISTS), nargs="+", default=["packaged"], help="sets of the packages")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="only these methods")
    parser.add_argument("--versions", nargs="+", default=[], metavar="NAME=FOLDER", help="other versions of stopwise")
    parser.add_argument("--dump", type=Path, help="write the sets to this file, and measure nothing")
    parser.add_argument("--from", type=Path, dest="source", help="read the sets from a file that --dump wrote")
    parser.add_argument("--jobs", type=int, default=1, help="so many measurements at a time, a core each")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    only = options.sets or (QUICK if options.quick else None)
    sets = undump(options.source, only) if options.source else load(options.folders, only, options.list)
    if options.dump:
        dump(sets, options.dump)
        return
    options.cache.mkdir(parents=True, exist_ok=True)
    versions = dict(pair.split("=", 1) for pair in options.versions)
    methods = options.methods or [name for name in METHODS if name not in SLOW]
    run(sets, 2 if options.quick else options.splits, [*methods, *versions], versions, options)
    if find_spec("pandas") is None:
        print(f"the lines are in {options.cache / 'results.csv'}; the table needs pandas")
        return
    from real_table import report

    report(options.cache)


if __name__ == "__main__":
    main()
