"""Coverage and width of prediction intervals: on real data beside MAPIE's CV+ around the same estimator, and simulated.

    python benchmarks/intervals.py --folder FOLDER_OF_CSV_GZ --json real.json [--sets NAME ...] [--no-mapie] [--jobs 16]
    python benchmarks/intervals.py --simulations --seeds 200 --json simulated.json [--truths ...] [--sizes ...]

The list of sets was written down before any was looked at: `real_sets.LAST`, scikit-learn's diabetes, and every file of
the folder. Three splits, at most 800 training and 1,000 test rows. Lines already in the output are kept. `--dump FILE`
writes the rows of all splits to one file (.npz), and `--from FILE` reads them where packages or folder are not at hand.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import interval_simulations
import numpy as np
import real_sets
from joblib import Parallel, delayed, parallel_config

import stopwise as sw
from stopwise.copies import find_observations

N_TRAIN, N_TEST, SPLITS = 800, 1_000, 3
LEVELS = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Split:
    """Rows to train on and to test on."""

    name: str
    number: int
    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    truth: np.ndarray


def coverage(split: Split) -> dict[str, object]:
    """Coverage and mean width at each level, in standard deviations of y."""
    warnings.simplefilter("ignore", UserWarning)
    X, y, new, truth = split.X, split.y, split.new, split.truth
    found = find_observations(X, y[:, None])
    line: dict[str, object] = {"n_train": len(y), "n_test": len(truth), "new_rows": int(_unseen(split).sum())}
    line |= {"merged": found.n_observations < len(y)}
    line["outside"] = float(((new < X.min(axis=0)) | (new > X.max(axis=0))).any(axis=1).mean())
    start = time.process_time()
    model = sw.KernelGradientRegressor(n_jobs=1).fit(X, y)
    line["fit_seconds"] = time.process_time() - start
    start = time.process_time()
    for level in LEVELS:
        if level <= found.n_observations / (found.n_observations + 1):
            line |= _judged(f"ours_{level}", model.predict_interval(new, level), split)
    line["interval_seconds"] = time.process_time() - start
    return line | {"varying": model.noise_variation()[0]}


def cv_plus(split: Split) -> dict[str, object]:
    """The same for CV+ (five folds) around the same estimator, at 0.9."""
    from mapie.regression import CrossConformalRegressor

    warnings.simplefilter("ignore", UserWarning)
    start, estimator = time.process_time(), sw.KernelGradientRegressor(n_jobs=1)
    around = CrossConformalRegressor(estimator, confidence_level=0.9, method="plus", cv=5)
    around.fit_conformalize(split.X, split.y)
    line = _judged("cv_plus_0.9", around.predict_interval(split.new)[1][:, :, 0], split)
    return line | {"cv_plus_seconds": time.process_time() - start}


def _unseen(split: Split) -> np.ndarray:
    """Test rows whose covariates are not among the training rows'."""
    seen = {row.tobytes() for row in np.ascontiguousarray(split.X)}
    return np.array([row.tobytes() not in seen for row in np.ascontiguousarray(split.new)])


def _judged(name: str, ends: np.ndarray, split: Split) -> dict[str, object]:
    inside, unseen = (split.truth >= ends[:, 0]) & (split.truth <= ends[:, 1]), _unseen(split)
    width = (ends[:, 1] - ends[:, 0]) / split.y.std()
    out = {name: float(inside.mean()), f"{name}_width": float(width.mean())}
    out[f"{name}_median_width"] = float(np.median(width))
    return out | ({f"{name}_new": float(inside[unseen].mean())} if unseen.any() else {})


# ---- where the rows come from -----------------------------------------------------------------------------------


def from_packages(folder: Path | None, wanted: list[str] | None, splits: int) -> list[Split]:
    """The splits of all sets of the list, or of those named."""
    real_sets.N_TEST = N_TEST
    names: list[tuple[str, Path | None]] = [("diabetes", None), *((name, None) for name in real_sets.LISTS["last"])]
    if folder is not None:
        names += [(file.name.partition(".")[0], file) for file in sorted(folder.glob("*.csv.gz"))]
    found = []
    for name, path in names:
        if wanted is None or name in wanted:
            data = real_sets.packaged(name) if path is None else real_sets.from_file(path)
            if real_sets.usable(name, data.covariates, data.response):
                found += [Split(name, number, *data.split(number, N_TRAIN)) for number in range(splits)]
    return found


def dump(listed: list[Split], file: Path) -> None:
    """All splits in one file."""
    parts = ("X", "y", "new", "truth")
    np.savez_compressed(file, **{f"{s.name}|{s.number}|{part}": getattr(s, part) for s in listed for part in parts})


def from_dump(file: Path, wanted: list[str] | None, splits: int) -> list[Split]:
    """The splits of such a file, or those of the sets named."""
    found = []
    with np.load(file) as held:
        for name, number in dict.fromkeys(tuple(key.split("|")[:2]) for key in held):
            if int(number) < splits and (wanted is None or name in wanted):
                rows = [held[f"{name}|{number}|{part}"] for part in ("X", "y", "new", "truth")]
                found += (
                    [Split(name, int(number), *rows)] if real_sets.usable(f"{name}, split {number},", *rows) else []
                )
    return found


# ---- what came out ----------------------------------------------------------------------------------------------


def summary(lines: list[dict]) -> None:
    """A table by set and the means that the promise is about."""
    keys = [f"ours_{level}" for level in LEVELS]
    shown, ratios, low = {key: [] for key in keys}, [], []
    names = sorted({line["set"] for line in lines if keys[1] in line})
    for name in names:
        own = [line for line in lines if line["set"] == name and keys[1] in line]
        means = {key: _mean(own, key) for key in keys}
        for key in keys:
            shown[key] += [] if math.isnan(means[key]) else [means[key]]
        least = 0.88 - 3 * math.sqrt(0.09 / sum(line["n_test"] for line in own))
        low += [name] if means[keys[1]] < least else []
        text = (
            f"{name:16s} "
            + " ".join(f"{means[key]:.3f}" for key in keys)
            + f"  width {_mean(own, keys[1] + '_width'):8.4g}"
        )
        text += f"  least {least:.3f}" + ("  LOW" if means[keys[1]] < least else "")
        theirs = [line for line in own if "cv_plus_0.9" in line]
        if theirs:
            ratios.append(np.mean([line["ours_0.9_width"] / line["cv_plus_0.9_width"] for line in theirs]))
            text += f"  CV+ {_mean(theirs, 'cv_plus_0.9'):.3f} width ratio {ratios[-1]:.3f}"
        print(text)
    means = "  ".join(f"{key[5:]}: {np.mean(values):.3f}" for key, values in shown.items() if values)
    print(f"{len(names)} sets; mean coverage {means}; below the least: {low or 'none'}")
    if ratios:
        print(f"width over CV+'s: mean {np.mean(ratios):.3f}, geometric mean {np.exp(np.mean(np.log(ratios))):.3f}")


def _mean(lines: list[dict], key: str) -> float:
    values = [line[key] for line in lines if key in line]
    return float(np.mean(values)) if values else math.nan


def real(asked: argparse.Namespace) -> None:
    """Every set and split, ours and CV+, lines already known kept."""
    lines = json.loads(asked.json.read_text()) if asked.json.exists() else []
    held = {(line["set"], line["split"]): line for line in lines}
    if asked.dumped is None:
        listed = from_packages(asked.folder, asked.sets, asked.splits)
    else:
        listed = from_dump(asked.dumped, asked.sets, asked.splits)
    if asked.dump is not None:
        dump(listed, asked.dump)
        return
    methods = {"ours_0.9": coverage} | ({} if asked.no_mapie else {"cv_plus_0.9": cv_plus})
    jobs = [(s, f) for key, f in methods.items() for s in listed if key not in held.get((s.name, s.number), {})]
    jobs.sort(key=lambda job: -(len(job[0].y) ** 2) * job[0].X.shape[1] * (1 if job[1] is coverage else 5))
    with parallel_config(backend="loky", n_jobs=asked.jobs, inner_max_num_threads=1):
        for (split, _), line in zip(jobs, Parallel(return_as="generator")(delayed(f)(s) for s, f in jobs), strict=True):
            where = held.setdefault((split.name, split.number), {"set": split.name, "split": split.number})
            where.update(line)
            asked.json.write_text(json.dumps(list(held.values()), indent=1))
    summary(list(held.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path, default=Path("intervals.json"))
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--no-mapie", action="store_true")
    parser.add_argument("--dump", type=Path)
    parser.add_argument("--from", type=Path, dest="dumped")
    parser.add_argument("--simulations", action="store_true")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--truths", nargs="*", default=list(interval_simulations.TRUTHS))
    parser.add_argument("--sizes", type=int, nargs="*", default=list(interval_simulations.SIZES))
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    start = time.time()
    if asked.simulations:
        listed = interval_simulations.cases(asked.truths, asked.sizes)
        lines = interval_simulations.simulate(listed, asked.seeds, asked.jobs)
        asked.json.write_text(json.dumps(lines, indent=1))
        interval_simulations.show(lines)
    else:
        real(asked)
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
