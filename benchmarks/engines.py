"""Does every engine stop where all eigenpairs stop, and is what it says of its own arithmetic true?

    python benchmarks/engines.py [--problems 60] [--rows 2000] [--folder FOLDER_OF_CSV_GZ] [--engines factor ...]
    python benchmarks/engines.py --problems 200 --rows 500 --engines factor preconditioned products

Random problems (rough or smooth, quiet or loud, one to four covariates, three kernels) and, with `--folder`, twelve
real tables with the kernel that the default chooses. `lost` is the exact left-out error at an engine's stop over that
at the stop by all eigenpairs, less one; `regret` what the engine says arithmetic may lose. `device` is the GPU's code
on torch's CPU, `products` preconditioned solves with no room for a matrix, `landmarks` as many landmarks as rows.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

import stopwise as sw
from stopwise.engine.solvers import gpu_solver, solve_places
from stopwise.filters import Ridge

ENGINES = ("factor", "preconditioned", "products", "krylov", "device", "landmarks")
KERNELS = (sw.kernels.Gaussian(0.7), sw.kernels.Laplace(1.0), sw.kernels.Matern(0.8, smoothness=1.5))
TABLES = (
    ("airfoil", "bike", "concrete", "elevators", "energy", "keggdirected", "kin40k", "pol", "protein")
    + ("pumadyn32nm", "solar", "wine")
)  # fmt: skip
Problem = tuple[np.ndarray, np.ndarray, sw.kernels.Kernel | str]


def random_problem(seed: int, n: int) -> Problem:
    """Rough or smooth, quiet or loud, one to four covariates."""
    generator = np.random.default_rng([16, seed])
    x = generator.uniform(-1, 1, (n, int(generator.integers(1, 5))))
    slope = generator.normal(size=x.shape[1])
    truth = [np.sin(4 * x @ slope), np.abs(x @ slope), np.sign(x[:, 0] - 0.2), x @ slope][seed % 4]
    return x, truth + [0.02, 0.2, 1.0][seed % 3] * generator.normal(size=n), KERNELS[seed % 3]


def real_problem(file: Path, n: int) -> Problem:
    """So many rows of a table, standardised; the kernel is to be chosen."""
    table = np.loadtxt(file, delimiter=",")
    table = table[np.random.default_rng(0).permutation(len(table))[:n]]
    table = table[:, table.std(axis=0) > 0]
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    return table[:, :-1], table[:, -1], "auto"


@contextmanager
def engine(name: str, n: int) -> Iterator[dict[str, object]]:
    """The settings that ask for an engine; where it is the machine that chooses, such a machine."""
    room, device = solve_places.HELD_SHARE, gpu_solver.DEVICE
    try:
        if name == "products":
            solve_places.HELD_SHARE = 0.0
        if name == "device":
            import torch  # noqa: F401

            gpu_solver.DEVICE = "cpu"
        solver = {"products": "preconditioned", "device": "preconditioned", "landmarks": "nystrom"}.get(name, name)
        yield {"solver": solver} | ({"n_landmarks": n} if name == "landmarks" else {})
    finally:
        solve_places.HELD_SHARE, gpu_solver.DEVICE = room, device


def compared(told: dict[str, object], problem: Problem, engines: list[str]) -> list[dict[str, object]]:
    """A line for each engine beside all eigenpairs."""
    warnings.simplefilter("ignore")
    x, y, kernel = problem
    dense = sw.KernelGradientRegressor(kernel, solver="dense", n_jobs=1).fit(x, y)
    along = dense.path_.along(Ridge())  # descent's readings are chosen by ridge's left-out error

    def left_out(step_sum: float) -> float:
        return float(np.mean(along.leave_one_out(np.array([step_sum])) ** 2))

    lines = []
    for name in engines:
        with engine(name, dense.path_.n_samples) as settings:
            model = sw.KernelGradientRegressor(dense.kernel_, n_jobs=1, random_state=0, **settings).fit(x, y)
        sure = model.stop_.certainty
        line = {"engine": name, "solver": model.solver_, "rows": len(y), "settled": sure.settled, "regret": sure.regret}
        lines.append(told | line | {"lost": left_out(model.step_sum_) / left_out(dense.step_sum_) - 1})
    return lines


def random_lines(seed: int, n: int, engines: list[str]) -> list[dict[str, object]]:
    return compared({"problem": str(seed)}, random_problem(seed, n), engines)


def real_lines(file: Path, n: int, engines: list[str]) -> list[dict[str, object]]:
    return compared({"problem": file.name.partition(".")[0]}, real_problem(file, n), engines)


def show(lines: list[dict[str, object]]) -> None:
    """A line for each engine: the worst and the median loss, how often the bound is exceeded, and how wide it is."""
    print(f"{'engine':15s} problems  worst loss  beyond regret  regret / |loss|, median  not settled")
    for name in dict.fromkeys(line["engine"] for line in lines):
        of = [line for line in lines if line["engine"] == name]
        lost, regret = (np.array([line[key] for line in of], dtype=float) for key in ("lost", "regret"))
        wide = np.divide(regret, np.abs(lost), out=np.full(len(of), np.inf), where=lost != 0)
        unsettled = [str(line["problem"]) for line in of if not line["settled"]]
        shown = f"{name:15s} {len(of):8d} {lost.max():11.2%} {int(np.sum(lost > regret)):14d} {np.median(wide):24.1f}"
        print(f"{shown}  {len(unsettled)} {' '.join(unsettled)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--folder", type=Path, help="of NAME.csv.gz, the response last")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("engines.json"))
    asked = parser.parse_args()
    work = [delayed(random_lines)(seed, asked.rows, asked.engines) for seed in range(asked.problems)]
    if asked.folder is not None:
        files = [asked.folder / f"{name}.csv.gz" for name in TABLES]
        work += [delayed(real_lines)(file, asked.rows, asked.engines) for file in files]
    lines: list[dict[str, object]] = []
    with parallel_config(backend="loky", n_jobs=asked.jobs, inner_max_num_threads=1):
        for found in Parallel(return_as="generator_unordered")(work):
            lines += found
            asked.json.write_text(json.dumps(lines, indent=1))
    show([line for line in lines if str(line["problem"]).isdigit()])
    if asked.folder is not None:
        print("\nreal tables")
        show([line for line in lines if not str(line["problem"]).isdigit()])


if __name__ == "__main__":
    main()
