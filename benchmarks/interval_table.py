"""From lines of `intervals.py` to the tables and the picture of the docs.

python benchmarks/interval_table.py real.json --simulated simulated.json ... --picture docs/_static/intervals.svg
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np

LEVELS = (0.5, 0.9, 0.99)


def mean(lines: list[dict], key: str) -> float:
    """Over the lines that have it; nan where none does."""
    values = [line[key] for line in lines if key in line]
    return float(np.mean(values)) if values else math.nan


def by_set(lines: list[dict]) -> dict[str, dict[str, float]]:
    """Means over splits: coverage, least allowed at .9, width, and ours over CV+'s on splits that have both."""
    found = {}
    for name in sorted({line["set"] for line in lines}):
        own = [line for line in lines if line["set"] == name]
        both = [line for line in own if "cv_plus_0.9" in line]
        row = {f"{level}": mean(own, f"ours_{level}") for level in LEVELS}
        row |= {"splits": len(own), "rows": own[0]["n_train"], "width": mean(own, "ours_0.9_width")}
        row["least"] = 0.88 - 3 * math.sqrt(0.09 / sum(line["n_test"] for line in own))
        row["cv_plus"] = mean(both, "cv_plus_0.9")
        row["ratio"] = (
            float(np.mean([a["ours_0.9_width"] / a["cv_plus_0.9_width"] for a in both])) if both else math.nan
        )
        found[name] = row
    return found


def real_table(sets: dict[str, dict[str, float]]) -> str:
    """A line per set."""
    lines = ["| set | rows | .5 | .9 | .99 | width | CV+ | width / CV+'s |", "|---|---|---|---|---|---|---|---|"]
    for name, row in sets.items():
        cells = [f"{row[f'{level}']:.3f}" for level in LEVELS] + [f"{row['width']:.3g}"]
        cells += [f"{row['cv_plus']:.3f}", f"{row['ratio']:.3f}"]
        lines.append(f"| {name} | {row['rows']} | " + " | ".join(c.replace("nan", "-") for c in cells) + " |")
    return "\n".join(lines)


def simulated_table(lines: list[dict]) -> str:
    """A line per case."""
    out = [
        "| truth | noise | n | seeds | new | curve | outside at .1 | .5 | 4 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        truth = line["truth"] + (", noise grows sixfold" if line["grows"] > 1 else "")
        cells = [f"{v:.3f}" for v in (line["new"], line["mean"], *line["outside"])]
        out.append(f"| {truth} | {line['noise']} | {line['n']} | {line['seeds']} | " + " | ".join(cells) + " |")
    return "\n".join(out)


def picture(sets: dict[str, dict[str, float]], file: Path) -> None:
    """Coverage at .9 of every set with the least allowed, and widths over CV+'s."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9.2, 8.2), layout="constrained", sharey=True)
    names, at = list(sets), np.arange(len(sets))
    axes[0].plot([sets[name]["0.9"] for name in names], at, "o", color="#0072B2", markersize=4, label="stopwise")
    axes[0].plot([sets[name]["cv_plus"] for name in names], at, "x", color="#D55E00", markersize=4, label="CV+")
    axes[0].plot([sets[name]["least"] for name in names], at, "|", color="#7F7F7F", label="least allowed")
    axes[0].axvline(0.9, color="#7F7F7F", linewidth=0.8)
    axes[0].set(title="Coverage of new observations at 0.9", yticks=at, yticklabels=names)
    axes[0].tick_params(axis="y", labelsize=7)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    axes[1].semilogx([sets[name]["ratio"] for name in names], at, "o", color="#0072B2", markersize=4)
    axes[1].axvline(1.0, color="#7F7F7F", linewidth=0.8)
    axes[1].set(title="Mean width over that of CV+")
    axes[1].set_xticks([0.5, 0.7, 1.0, 1.4], ["0.5", "0.7", "1", "1.4"])
    axes[1].minorticks_off()
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.invert_yaxis() if ax is axes[0] else None
    figure.savefig(file)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("real", type=Path)
    parser.add_argument("--simulated", type=Path, nargs="*", default=[])
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    sets = by_set([line for line in json.loads(asked.real.read_text()) if "ours_0.9" in line])
    print(real_table(sets))
    for level in LEVELS:
        print(f"mean at {level}: {np.nanmean([row[f'{level}'] for row in sets.values()]):.4f}")
    low = [name for name, row in sets.items() if row["0.9"] < row["least"]]
    ratios = np.array([row["ratio"] for row in sets.values() if not math.isnan(row["ratio"])])
    print(f"{len(sets)} sets, below the least: {low or 'none'}")
    if ratios.size:
        middle = f"median {np.median(ratios):.3f}, geometric mean {np.exp(np.log(ratios).mean()):.3f}"
        print(f"width over CV+'s on {ratios.size} sets: mean {ratios.mean():.3f}, {middle}, largest {ratios.max():.3f}")
    if asked.simulated:
        print(simulated_table([line for file in asked.simulated for line in json.loads(file.read_text())]))
    if asked.picture is not None:
        picture(sets, asked.picture)


if __name__ == "__main__":
    main()
