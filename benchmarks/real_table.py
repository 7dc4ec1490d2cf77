"""From lines of results to the table and the figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

TIE = 0.01
OURS = ["stopwise", "stopwise-isotropic"]
LABELS = {
    "cv-penalty": "ridge, Gaussian, 5-fold CV over penalty",
    "cv-gaussian": "ridge, Gaussian, 5-fold CV over penalty and bandwidth",
    "cv-kernels": "ridge, 5-fold CV over penalty, bandwidth and kernel",
    "ridge-cv": "linear ridge, CV over penalty",
    "gp-rbf": "Gaussian process, RBF",
    "gp-matern32": "Gaussian process, Matern 3/2",
    "gp-features": "Gaussian process, Matern 3/2, a length scale per feature",
    "grid-search": "GridSearchCV(KernelRidge) over penalty and bandwidth",
    "nystroem": "Nystroem + RidgeCV",
    "xrfm": "xRFM, 18 settings",
    "lightgbm": "LightGBM",
    "forest": "random forest",
    "hold-out": "hold-out early stopping",
    "published": "the rule as published",
    "stopwise": "stopwise",
    "stopwise-isotropic": "stopwise, relevance=False",
}


def by_set(results: pd.DataFrame, first: str, second: str) -> pd.Series:
    """For each data set the mean error of one method over that of another, on the splits both were run on."""
    wide = results.pivot_table(index=["set", "split"], columns="method", values="ratio")
    if first not in wide or second not in wide:
        return pd.Series(dtype=float)
    means = wide[[first, second]].dropna().groupby("set").mean()
    return means[first] / means[second]


def compare(results: pd.DataFrame, first: str, second: str) -> dict[str, object] | None:
    """One line of the table."""
    ratio = by_set(results, first, second)
    if ratio.empty:
        return None
    return {
        "method": LABELS.get(first, first),
        "against": LABELS.get(second, second),
        "sets": len(ratio),
        "median": f"{ratio.median():.3f}",
        "geometric mean": f"{np.exp(np.log(ratio).mean()):.3f}",
        "90%": f"{ratio.quantile(0.9):.3f}",
        "worst": f"{ratio.max():.3f} ({ratio.idxmax()})",
        "wins-ties-losses": f"{(ratio < 1 - TIE).sum()}-{(abs(ratio - 1) <= TIE).sum()}-{(ratio > 1 + TIE).sum()}",
    }


def ranks(results: pd.DataFrame) -> pd.DataFrame:
    """Mean rank of every method over the sets that all of them were run on; 1 is the best."""
    errors = results.pivot_table(index="set", columns="method", values="ratio").dropna()
    mean = errors.rank(axis=1).mean().sort_values().round(2)
    return pd.DataFrame(
        {"method": [LABELS.get(name, name) for name in mean.index], f"mean rank, {len(errors)} sets": mean.values}
    )


def seconds(results: pd.DataFrame) -> pd.DataFrame:
    """Median CPU seconds at 1,000 training rows."""
    full = results[results.n_train == 1000]
    table = full.groupby("method").cpu_seconds.agg(["median", "max", "count"]).round(2)
    table.index = [LABELS.get(name, name) for name in table.index]
    return table


def markdown(table: pd.DataFrame) -> str:
    """A table in Markdown."""
    cells = [[str(c) for c in table.columns], *([str(v) for v in row] for row in table.itertuples(index=False))]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * len(table.columns), *lines[1:]])


def figure(results: pd.DataFrame, file: Path) -> None:
    """Every data set: its error with each method over that of ridge with CV over the same kernels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = {"stopwise": "o", "stopwise-isotropic": "D", "lightgbm": "^", "published": "x"}
    ratios = {name: by_set(results, name, "cv-kernels") for name in shown}
    order = ratios["stopwise"].sort_values().index
    picture, axes = plt.subplots(figsize=(8, 0.26 * len(order) + 1.6))
    for name, mark in shown.items():
        values = ratios[name].reindex(order).clip(upper=4.0)
        axes.plot(values, np.arange(len(order)), mark, label=LABELS[name], alpha=0.8)
    axes.axvline(1.0, color="0.5", linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks([0.1, 0.25, 0.5, 1, 2, 4], ["0.1", "0.25", "0.5", "1", "2", "4 or more"])
    axes.set_yticks(np.arange(len(order)), order)
    axes.set_xlabel("RMSE over that of ridge with 5-fold CV over penalty, bandwidth and kernel")
    axes.grid(axis="y", alpha=0.2)
    axes.legend(loc="upper left", fontsize=8)
    picture.tight_layout()
    picture.savefig(file)
    plt.close(picture)


def report(cache: Path) -> None:
    """Print the table; write it, the errors of every set, and the figure beside the results."""
    results = pd.read_csv(cache / "results.csv").drop_duplicates(["set", "split", "method"], keep="last")
    rivals = [name for name in [*LABELS, *(set(results.method) - set(LABELS))] if name not in OURS]
    pairs = [(ours, other) for ours in OURS for other in rivals] + [("stopwise", "stopwise-isotropic")]
    lines = [line for pair in pairs if (line := compare(results, *pair)) is not None]
    parts = [markdown(pd.DataFrame(lines))] if lines else []
    parts.append(markdown(ranks(results)))
    parts.append(markdown(seconds(results).reset_index(names="CPU seconds, 1,000 rows")))
    wide = results.pivot_table(index="set", columns="method", values="ratio").round(4)
    wide.insert(0, "splits", results.groupby("set").split.nunique())
    wide.to_csv(cache / "by_set.csv")
    parts.append(markdown(wide.reset_index()))
    (cache / "table.md").write_text("\n\n".join(parts) + "\n")
    print("\n\n".join(parts[:-1]))
    if "stopwise" in wide and "cv-kernels" in wide:
        figure(results, cache / "real_data.svg")
