"""Coverage and width of prediction intervals on real data, beside MAPIE's CV+ around the same estimator.

    python benchmarks/intervals.py --folder FOLDER_OF_CSV_GZ --out intervals.json [--sets NAME ...] [--no-mapie]
    python benchmarks/intervals.py --simulate --seeds 200 --out simulated.json

The list of sets was written down before any was looked at: `real_sets.LAST`, scikit-learn's diabetes, and every file of
the folder. Three splits, at most 800 training and 1,000 test rows. Lines already in the output are kept.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
import real_sets
from real_sets import LISTS, DataSet, packaged

import stopwise as sw
from stopwise.copies import find_observations

N_TRAIN, N_TEST, SPLITS = 800, 1_000, 3
LEVELS = (0.5, 0.9, 0.99)


def coverage(data: DataSet, split: int, *, mapie: bool) -> dict[str, object]:
    """One line: coverage and mean width at each level, in standard deviations of y."""
    X, y, new, truth = data.split(split, N_TRAIN)
    new, truth = new[:N_TEST], truth[:N_TEST]
    seen = {row.tobytes() for row in np.ascontiguousarray(X)}
    unseen = np.array([row.tobytes() not in seen for row in np.ascontiguousarray(new)])
    found = find_observations(X, y[:, None])
    line: dict[str, object] = {"set": data.name, "split": split, "n_train": len(y), "n_test": len(truth)}
    line |= {"merged": found.n_observations < len(y), "new_rows": int(unseen.sum())}
    start = time.process_time()
    model = sw.KernelGradientRegressor().fit(X, y)
    line["fit_seconds"] = time.process_time() - start
    start = time.process_time()
    for level in LEVELS:
        if level <= len(found.first) / (len(found.first) + 1):
            line |= _judged(f"ours_{level}", model.predict_interval(new, level), truth, unseen, y.std())
    line["interval_seconds"] = time.process_time() - start
    varying = model._uncertainty(model._fitted).calibrations[0].varying
    line["varying"] = None if varying is None else varying.ratio
    if mapie:
        line |= _judged("cv_plus_0.9", _cv_plus(X, y, new), truth, unseen, y.std())
    return line


def _judged(name: str, ends: np.ndarray, truth: np.ndarray, unseen: np.ndarray, spread: float) -> dict[str, object]:
    inside = (truth >= ends[:, 0]) & (truth <= ends[:, 1])
    out = {name: float(inside.mean()), f"{name}_width": float((ends[:, 1] - ends[:, 0]).mean() / spread)}
    return out | ({f"{name}_new": float(inside[unseen].mean())} if unseen.any() else {})


def _cv_plus(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    from mapie.regression import CrossConformalRegressor

    around = CrossConformalRegressor(sw.KernelGradientRegressor(), confidence_level=0.9, method="plus", cv=5)
    around.fit_conformalize(X, y)
    return around.predict_interval(new)[1][:, :, 0]


def summary(lines: list[dict[str, object]]) -> None:
    """A table by set and the means that the promise is about."""
    names = sorted({str(line["set"]) for line in lines})
    keys = [f"ours_{level}" for level in LEVELS]
    shown, ratios, low = {key: [] for key in keys}, [], []
    for name in names:
        own = [line for line in lines if line["set"] == name]
        cells = []
        for key in keys:
            values = [float(line[key]) for line in own if key in line]  # type: ignore[arg-type]
            cells.append(f"{np.mean(values):.3f}" if values else "  -  ")
            shown[key] += [float(np.mean(values))] if values else []
        rows = sum(int(line["n_test"]) for line in own)  # type: ignore[call-overload]
        least = 0.88 - 3 * math.sqrt(0.09 / rows)
        short = float(cells[1]) < least
        low += [name] if short else []
        width = np.mean([line["ours_0.9_width"] for line in own])  # type: ignore[list-item]
        text = f"{name:16s} {' '.join(cells)}  width {width:6.3f}  least {least:.3f}{'  LOW' if short else ''}"
        theirs = [line for line in own if "cv_plus_0.9" in line]
        if theirs:
            ratio = np.mean([line["ours_0.9_width"] / line["cv_plus_0.9_width"] for line in theirs])  # type: ignore[operator]
            ratios.append(float(ratio))
            text += f"  CV+ {np.mean([line['cv_plus_0.9'] for line in theirs]):.3f} width ratio {ratio:.3f}"  # type: ignore[list-item]
        print(text)
    means = "  ".join(f"{key[5:]}: {np.mean(values):.3f}" for key, values in shown.items() if values)
    print(f"{len(names)} sets; mean coverage {means}; below the least: {low or 'none'}")
    if ratios:
        print(f"width over CV+'s: mean {np.mean(ratios):.3f}, geometric mean {np.exp(np.mean(np.log(ratios))):.3f}")


# ---- simulations ------------------------------------------------------------------------------------------------

TRUTHS = {
    "sin 6x": lambda x: np.sin(6 * x),
    "sin 20x": lambda x: np.sin(20 * x),
    "kink": lambda x: np.abs(x - 0.5),
    "step": lambda x: (x > 0.5).astype(float),
    "line": lambda x: 2 * x,
}
OUTSIDE = (0.1, 0.5, 4.0)


def simulated(truth: str, noise: float, n: int, seeds: int, grows: float = 1.0) -> dict[str, object]:
    """Coverage of new observations and of the curve over [0, 1], by fifths of x, and of observations outside."""
    f = TRUTHS[truth]
    new, mean, fifths, outside = [], [], [], []
    grid = (np.arange(200) + 0.5) / 200
    away = np.concatenate([[1 + d, -d] for d in OUTSIDE])
    for seed in range(seeds):
        rng = np.random.default_rng([seed, n])
        x = rng.uniform(size=n)
        sigma = noise * grows**x
        model = sw.KernelGradientRegressor().fit(x[:, None], f(x) + sigma * rng.normal(size=n))
        ends, curve = model.predict_interval(grid[:, None]), model.predict_interval(grid[:, None], of="mean")
        y = f(grid) + noise * grows**grid * rng.normal(size=200)
        inside = (y >= ends[:, 0]) & (y <= ends[:, 1])
        new.append(inside.mean())
        fifths.append(inside.reshape(5, 40).mean(axis=1))
        mean.append(((f(grid) >= curve[:, 0]) & (f(grid) <= curve[:, 1])).mean())
        far = model.predict_interval(away[:, None])
        y = f(away) + noise * rng.normal(size=away.size)
        outside.append(((y >= far[:, 0]) & (y <= far[:, 1])).reshape(-1, 2).mean(axis=1))
    line: dict[str, object] = {"truth": truth, "noise": noise, "n": n, "grows": grows, "seeds": seeds}
    line |= {"new": float(np.mean(new)), "mean": float(np.mean(mean))}
    line |= {"fifths": np.mean(fifths, axis=0).round(3).tolist(), "outside": np.mean(outside, axis=0).round(3).tolist()}
    return line


def simulate(seeds: int, out: Path, sizes: list[int]) -> None:
    """Every truth at every noise and size, and noise that grows sixfold."""
    lines = json.loads(out.read_text()) if out.exists() else []
    done = {(line["truth"], line["noise"], line["n"], line["grows"]) for line in lines}
    cases = [(truth, noise, n, 1.0) for n in sizes for truth in TRUTHS for noise in (0.05, 0.3, 1.0)]
    cases += [("sin 6x", 0.1, n, 6.0) for n in sizes if n >= 200]
    for case in cases:
        if case not in done:
            truth, noise, n, grows = case
            lines.append(simulated(truth, noise, n, seeds, grows))
            out.write_text(json.dumps(lines, indent=1))
            print(lines[-1], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("intervals.json"))
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--no-mapie", action="store_true")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="*", default=[30, 200, 1000])
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if asked.simulate:
        simulate(asked.seeds, asked.out, asked.sizes)
        return
    lines = json.loads(asked.out.read_text()) if asked.out.exists() else []
    done = {(line["set"], line["split"]) for line in lines}
    for name, path in sets(asked.folder, asked.sets):
        data = None
        for split in range(asked.splits):
            if (name, split) not in done:
                data = data or (packaged(name) if path is None else read(name, path))
                lines.append(coverage(data, split, mapie=not asked.no_mapie))
                asked.out.write_text(json.dumps(lines, indent=1))
                print(name, split, lines[-1].get("ours_0.9"), lines[-1].get("cv_plus_0.9"), flush=True)
    summary(lines)


def sets(folder: Path | None, wanted: list[str] | None) -> list[tuple[str, Path | None]]:
    """Names of sets with their file, or None for those from packages."""
    listed: list[tuple[str, Path | None]] = [("diabetes", None), *((name, None) for name in LISTS["last"])]
    if folder is not None:
        listed += [(file.name.partition(".")[0], file) for file in sorted(folder.glob("*.csv.gz"))]
    return [one for one in listed if wanted is None or one[0] in wanted]


def read(name: str, path: Path) -> DataSet:
    """A file whose last column is the response."""
    table = np.loadtxt(path, delimiter=",")
    return DataSet(name, table[:, :-1], table[:, -1])


if __name__ == "__main__":
    real_sets.N_TEST = N_TEST
    main()
