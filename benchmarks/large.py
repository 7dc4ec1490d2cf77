"""Real tables from 10,000 to 200,000 rows: stopwise with its defaults beside its opponents, all of a set in one call.

    python benchmarks/large.py --data FOLDER [--flights flights.npy] [--sets pol kin40k] [--splits 0 1 2] [--gpu]
    python benchmarks/large.py --rates [--gpu]    # the rates of engine/solves/costs.py, measured on this machine
    python benchmarks/large.py --from a.json b.json --figure large.svg    # the table of runs made before, and a figure

FOLDER holds NAME.csv.gz files, the response last. 64 percent of the rows train, 20 percent test (the first and the last
of numpy's default_rng(split) permutation), standardised on the training rows. RMSE on all test rows, and on those whose
covariates no training row has. `--gpu` lets GPyTorch in: its exact Gaussian process, Matern 3/2, 50 steps of Adam.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import stopwise as sw

SETS = ("pol", "elevators", "bike", "kin40k", "protein", "keggdirected", "keggundirected", "flights")
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load(name: str, folder: Path, flights: Path | None) -> np.ndarray | None:
    """A table with the response last, or None where its file is not there."""
    if name == "flights":
        return None if flights is None else np.load(flights).astype(np.float64)
    path = folder / f"{name}.csv.gz"
    return np.loadtxt(path, delimiter=",") if path.exists() else None


def split_of(table: np.ndarray, split: int, rows: int | None) -> Split:
    """Training and test rows, standardised on the training rows."""
    order = np.random.default_rng(split).permutation(len(table))
    train, test = order[: int(0.64 * len(table))][:rows], order[-int(0.2 * len(table)) :]
    x, y = table[:, :-1], table[:, -1]
    centre, spread = x[train].mean(0), x[train].std(0)
    spread[spread == 0] = 1.0
    x = (x - centre) / spread
    y = (y - y[train].mean()) / y[train].std()
    return x[train], y[train], x[test], y[test]


def is_new(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Which test rows have covariates that no training row has."""
    seen = {row.tobytes() for row in np.ascontiguousarray(train + 0.0)}
    return np.array([row.tobytes() not in seen for row in np.ascontiguousarray(test + 0.0)])


def stopwise_fit(estimator: type, solver: str) -> Callable[[Split], tuple[np.ndarray, dict[str, object]]]:
    def fit(split: Split) -> tuple[np.ndarray, dict[str, object]]:
        x, y, new, _ = split
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            started = time.perf_counter()
            model = estimator(solver=solver, random_state=0).fit(x, y)
            fitted = time.perf_counter() - started
            predicted = model.predict(new)
        sure = model.stop_.certainty
        return predicted, {
            "fit_s": fitted,
            "solver": model.solver_,
            "device": str(getattr(model, "device_", None)),
            "kernel": str(model.kernel_)[:160],
            "penalty": float(model.path_.n_samples / model.step_sum_) if model.step_sum_ else None,
            "degrees_of_freedom": float(model.path_.degrees_of_freedom()),
            "settled": sure.settled,
            "regret": sure.regret,
            "products": sure.products,
            "reason": model.stop_.reason.name,
            "warnings": sorted({f"{w.category.__name__}: {w.message}"[:200] for w in told}),
        }

    return fit


def boosting(split: Split) -> tuple[np.ndarray, dict[str, object]]:
    x, y, new, _ = split
    started = time.perf_counter()
    model = HistGradientBoostingRegressor(random_state=0).fit(x, y)
    return model.predict(new), {"fit_s": time.perf_counter() - started}


def gaussian_process(split: Split) -> tuple[np.ndarray, dict[str, object]]:
    """GPyTorch's exact Gaussian process on the GPU: Matern 3/2, one length scale per feature, 50 steps."""
    import gpytorch
    import torch

    x, y, new = (torch.as_tensor(part, dtype=torch.float32, device="cuda") for part in split[:3])

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc,unused-ignore]
        def __init__(self, likelihood: object) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=x.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, rows: object) -> object:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

    started = time.perf_counter()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().cuda()
    model = Model(likelihood).cuda().train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood.train(), model)
    for _ in range(50):
        optimiser.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimiser.step()
    torch.cuda.synchronize()
    spent = time.perf_counter() - started
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        predicted = torch.cat([model(part).mean for part in new.split(4096)])
    return predicted.double().cpu().numpy(), {"fit_s": spent}


def methods(gpu: bool, solver: str) -> Iterator[tuple[str, Callable[[Split], tuple[np.ndarray, dict[str, object]]]]]:
    yield "stopwise", stopwise_fit(sw.KernelGradientRegressor, solver)
    yield "stopwise ridge", stopwise_fit(sw.KernelRidgeRegressor, solver)
    yield "boosting", boosting
    if gpu:
        yield "gpytorch", gaussian_process


def run(name: str, table: np.ndarray, options: argparse.Namespace) -> list[dict[str, object]]:
    rows = []
    for number in options.splits:
        split = split_of(table, number, options.rows)
        new = is_new(split[0], split[2])
        for what, fit in methods(options.gpu, options.solver):
            if options.methods and what not in options.methods:
                continue
            if what == "gpytorch" and len(split[0]) > 50_000:
                continue
            row: dict[str, object] = {"set": name, "rows": len(split[0]), "split": number, "method": what}
            try:
                predicted, more = fit(split)
                gap = predicted - split[3]
                row |= {"rmse": float(np.sqrt(np.mean(gap**2))), "rmse_new": float(np.sqrt(np.mean(gap[new] ** 2)))}
                row |= more
            except Exception as error:  # noqa: BLE001 a table says which method failed, and goes on
                row["error"] = f"{type(error).__name__}: {error}"[:300]
            rows.append(row)
            print(line(row), flush=True)
    return rows


def line(row: dict[str, object]) -> str:
    """A row of the table."""
    shown = [f"{row['set']:15s} {row['rows']:7d} {row['split']} {row['method']:15s}"]
    if "error" in row:
        return f"{shown[0]} {row['error']}"
    shown.append(f"rmse {row['rmse']:.4f} (new X {row['rmse_new']:.4f}) {row['fit_s']:7.1f} s")
    for key in ("solver", "degrees_of_freedom", "settled", "regret", "kernel", "warnings"):
        if row.get(key) not in (None, []):
            value = row[key]
            shown.append(f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}")
    return " ".join(shown)


def rates(gpu: bool) -> None:
    """Seconds per unit of work of a few sizes, for engine/solves/costs.py."""
    from stopwise._support.array_library import library_of
    from stopwise.engine.solves.factor import factor
    from stopwise.engine.solves.half_held import HalfHeld

    def timed(what: str, work: Callable[[], object], unit: float) -> None:
        work()
        started = time.perf_counter()
        work()
        if gpu:
            torch.cuda.synchronize()
        spent = time.perf_counter() - started
        print(f"{what:30s} {spent:8.3f} s  {spent / unit:.2e} s per unit", flush=True)

    if gpu:
        import torch
    for n in (8_000, 16_000, 32_000) if gpu else (2_000, 4_000):
        x = np.random.default_rng(0).normal(size=(n, 200))
        matrix = np.asarray(x @ x.T / 200)
        held = torch.as_tensor(matrix, device="cuda") if gpu else matrix
        library = library_of(held)
        timed(f"eigenpairs {n}", lambda m=held, lib=library: lib.eigh(m + 0.0), n**3)
        timed(f"cholesky {n}", lambda m=held: factor(lambda: m + 0.0, 1.0), n**3)
        made = factor(lambda m=held: m + 0.0, 1.0)
        timed(f"inverse diagonal {n}", made.inverse_diagonal, n**3)
        block = library.take(x[:, :16])
        timed(f"held product {n} x 16", lambda m=held, b=block: m @ b, n**2)
        for dtype in () if gpu else (np.float64, np.float32):
            square = HalfHeld(
                lambda rows, columns, m=matrix: m[np.ix_(rows, columns)], matrix.diagonal(), np.arange(n), dtype=dtype
            )
            timed(f"factor in place {n} {dtype.__name__}", lambda s=square: s.factor(1.0), n**3)
            lower, many = square.factor(1.0).lower, np.asfortranarray(np.tile(x, 3)[:, :500], dtype=dtype)
            timed(
                f"triangle {n} x 500 {dtype.__name__}",
                lambda a=lower, b=many, lib=library: lib.solve_lower(a, b),
                500 * n**2,
            )


def mean_table(rows: list[dict[str, object]]) -> str:
    """Mean error over splits (and on rows whose covariates are new), and the median seconds of a fit."""
    names = ("stopwise", "stopwise ridge", "gpytorch", "boosting")
    lines = ["| set | rows | " + " | ".join(names) + " |", "|---" * (2 + len(names)) + "|"]
    for key in dict.fromkeys((row["set"], row["rows"]) for row in rows):
        cells = []
        for name in names:
            of = [row for row in rows if (row["set"], row["rows"]) == key and row["method"] == name and "rmse" in row]
            means = [float(np.mean([row[what] for row in of])) for what in ("rmse", "rmse_new")] if of else []
            cells.append(f"{means[0]:.4f} ({means[1]:.4f}), {np.median([r['fit_s'] for r in of]):.0f} s" if of else "")
        lines.append(f"| {key[0]} | {key[1]:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows: list[dict[str, object]], path: Path) -> None:
    """Error against seconds, a panel for each set, a point for each split."""
    from matplotlib import pyplot

    colours = {"stopwise": "#0072B2", "stopwise ridge": "#56B4E9", "gpytorch": "#D55E00", "boosting": "#7F7F7F"}
    sets = list(dict.fromkeys(row["set"] for row in rows))
    figure, axes = pyplot.subplots(2, -(-len(sets) // 2), figsize=(11, 5.2), layout="constrained", squeeze=False)
    for ax, name in zip(axes.flat, sets, strict=False):
        for method, colour in colours.items():
            of = [row for row in rows if row["set"] == name and row["method"] == method and "rmse" in row]
            new = [row["rmse_new"] for row in of]
            ax.plot([row["fit_s"] for row in of], new, "o", color=colour, markersize=6, alpha=0.8, label=method)
        size = next(row["rows"] for row in rows if row["set"] == name)
        ax.set(xscale="log", xlim=(0.3, 150), title=f"{name}, {size:,} rows")
        ax.set_ylim(0, 1.1 * max(row["rmse_new"] for row in rows if row["set"] == name and "rmse_new" in row))
        ax.set_xticks([1, 10, 100], ["1", "10", "100"])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("seconds of a fit")
    for ax in axes[:, 0]:
        ax.set_ylabel("error, new rows")
    shown = {label: handle for handle, label in zip(*axes[0, 0].get_legend_handles_labels(), strict=True)}
    shown = {label: handle for label, handle in shown.items() if any(row["method"] == label for row in rows)}
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("--flights", type=Path)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--splits", nargs="*", type=int, default=[0])
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--rates", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--from", type=Path, nargs="*", dest="source", help="rows of earlier runs, made with --json")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    if options.gpu:  # as the other libraries, before any fit is timed
        started = time.perf_counter()
        import torch

        torch.zeros(1, device="cuda")
        print(f"torch and the GPU's context: {time.perf_counter() - started:.1f} s", flush=True)
    if options.rates:
        rates(options.gpu)
        return
    rows: list[dict[str, object]] = [row for path in options.source or () for row in json.loads(path.read_text())]
    for name in () if options.source else options.sets:
        table = load(name, options.data, options.flights)
        if table is not None:
            rows += run(name, table, options)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1, default=str))
    print(mean_table(rows))
    if options.figure:
        draw(rows, options.figure)


if __name__ == "__main__":
    main()
