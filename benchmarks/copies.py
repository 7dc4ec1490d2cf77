"""Copies and weights: is a fit as good as without them, and are its noise level and intervals the same?

    python benchmarks/copies.py [--folder FOLDER_OF_CSV_GZ] [--seeds 20] [--solvers dense factor] [--json copies.json]

Three parts. `planted`: 400 rows of a known truth under noise .5 with rows repeated or weights given; the error over
that of the same rows once, or with weights of mean one, means over seeds, with the kernel chosen and with it given.
`ties`: 0/1 and Poisson responses on ten levels (and solar), beside the same responses moved by 1e-6. `tables`: real
sets with copies, the noise level over that with one copy of each row kept, and coverage at .90 of rows whose covariates
are new.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

import stopwise as sw

N, NOISE, NEW = 400, 0.5, (np.arange(400)[:, None] + 0.5) / 400
SOLVERS = ("dense", "factor", "preconditioned", "krylov", "nystrom")
TABLES = ("wine", "concrete", "protein", "keggdirected")
Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def truth(X: np.ndarray) -> np.ndarray:
    """sin 6x."""
    return np.sin(6 * X[:, 0])


def planted(seed: int) -> Iterator[tuple[str, Rows, Rows]]:
    """Rows with copies or weights, and the rows that they are to be as good as."""
    rng = np.random.default_rng(seed)
    X, normal = rng.uniform(size=(N, 1)), rng.normal(size=N)
    y = truth(X) + NOISE * normal
    for share in (2, 20, 100):
        some = rng.permutation(np.append(np.arange(N), rng.permutation(N)[: N * share // 100]))
        weights = np.bincount(some).astype(float)
        yield f"{share} % repeated", (X[some], y[some], None), (X, y, None)
        yield (
            f"{share} % repeated, over the same as weights",
            (X[some], y[some], None),
            (X, y, weights / weights.mean()),
        )
    yield "weight 2", (X, y, np.full(N, 2.0)), (X, y, None)
    uneven = rng.uniform(0.5, 2, size=N)
    yield "uniform(.5, 2) x 7", (X, y, 7 * uneven), (X, y, uneven / uneven.mean())
    sigma = 0.2 + 0.8 * X[:, 0]
    loud, precise = truth(X) + sigma * normal, sigma**-2
    yield "1 / sigma^2 x 1000", (X, loud, 1000 * precise), (X, loud, precise / precise.mean())


def error(solver: str, kernel: object, rows: Rows) -> float:
    """Root mean square distance of the curve from the truth."""
    X, y, weights = rows
    settings = {"n_landmarks": 100} if solver == "nystrom" else {}
    model = sw.KernelGradientRegressor(kernel, solver=solver, n_jobs=1, **settings).fit(X, y, sample_weight=weights)
    return float(np.sqrt(np.mean((model.predict(NEW) - truth(NEW)) ** 2)))


def planted_errors(solver: str, given: bool, seed: int) -> list[dict[str, object]]:
    """A line for each case."""
    warnings.simplefilter("ignore")
    kernel = sw.kernels.Gaussian(0.2) if given else "auto"
    told = {"solver": solver, "kernel": "given" if given else "auto", "seed": seed}
    return [
        told | {"case": case, "error": error(solver, kernel, rows), "reference": error(solver, kernel, other)}
        for case, rows, other in planted(seed)
    ]


def ties(folder: Path | None) -> Iterator[dict[str, object]]:
    """Noise, standard deviation and width of an interval over those of the same responses moved by 1e-6."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, size=(1000, 1)) / 9.0
    cases = {"0/1": (X, (rng.uniform(size=1000) < X[:, 0]).astype(float)), "Poisson": (X, rng.poisson(1 + 4 * X[:, 0]))}
    if folder is not None:
        solar = np.loadtxt(folder / "solar.csv.gz", delimiter=",")
        cases["solar"] = solar[:, :-1], solar[:, -1]
    for name, (x, y) in cases.items():
        each = []
        for moved in (0.0, 1e-6):
            model = sw.KernelGradientRegressor().fit(x, y + moved * rng.normal(size=len(y)))
            width = float(np.diff(model.predict_interval(x)).mean())
            each.append((float(model.noise_std_), float(model.predict(x, return_std=True)[1].mean()), width))
        yield dict(zip(("case", "noise", "deviation", "width"), (name, *np.divide(*each).tolist()), strict=True))


def tables(folder: Path, splits: int) -> Iterator[dict[str, object]]:
    """2,000 rows of sets with copies, beside one copy of each row; the other rows tell coverage."""
    for name in TABLES:
        table = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",")
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(table))
            count = min(2_000, 4 * len(table) // 5)
            train, test = table[order[:count]], table[order[count : count + 4_000]]
            once = np.unique(train, axis=0)
            model, single = (sw.KernelGradientRegressor(random_state=0).fit(t[:, :-1], t[:, -1]) for t in (train, once))
            seen = {row.tobytes() for row in np.ascontiguousarray(train[:, :-1])}
            new = test[[row.tobytes() not in seen for row in np.ascontiguousarray(test[:, :-1])]]
            lower, upper = model.predict_interval(new[:, :-1]).T
            covered = float(((new[:, -1] >= lower) & (new[:, -1] <= upper)).mean())
            ratio = float(model.noise_std_ / single.noise_std_)
            yield {"table": name, "split": split, "copies": count - len(once), "noise": ratio, "covered": covered}


def _ratio(lines: list[dict[str, object]]) -> float:
    return float(np.mean([line["error"] for line in lines]) / np.mean([line["reference"] for line in lines]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of NAME.csv.gz, the response last")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--solvers", nargs="*", default=SOLVERS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, default=Path("copies.json"))
    asked = parser.parse_args()
    work = [(solver, given, seed) for solver in asked.solvers for given in (False, True) for seed in range(asked.seeds)]
    with parallel_config(backend="loky", n_jobs=asked.jobs, inner_max_num_threads=1):
        lines = [line for found in Parallel()(delayed(planted_errors)(*one) for one in work) for line in found]
    for kernel in ("auto", "given"):
        print(f"kernel {kernel:37s} " + " ".join(f"{solver:>14s}" for solver in asked.solvers))
        for case in dict.fromkeys(line["case"] for line in lines):
            of = [x for x in lines if (x["case"], x["kernel"]) == (case, kernel)]
            means = [_ratio([x for x in of if x["solver"] == solver]) for solver in asked.solvers]
            print(f"{case:44s} " + " ".join(f"{mean:14.4f}" for mean in means), flush=True)
    warnings.simplefilter("ignore")
    for source in (ties(asked.folder), tables(asked.folder, asked.splits) if asked.folder else ()):
        for line in source:
            told = (f"{key} {v:.3f}" if isinstance(v, float) else f"{key} {v}" for key, v in line.items())
            print("  ".join(told), flush=True)
            lines.append(line)
    asked.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
