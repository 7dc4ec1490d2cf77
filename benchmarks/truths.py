"""How far is the stop from the best one, where the truth is known?

    python benchmarks/truths.py --problems 200 --jobs 2

Random problems: 30 to `--most` rows, one to six covariates, smooth, rough, bent and linear truths, noise of .1, .5, 1
standard deviations of the truth. The default fit chooses the kernel; on its path the excess risk |f - f*|^2 at the stop
of each rule, on new rows, is divided by the smallest on the path. Prints quantiles over problems and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

import stopwise as sw
from stopwise.views.comparison import predict_at

TRUTHS = {
    "smooth": lambda z, x: np.sin(2 * z) + 0.5 * np.cos(x[:, 0]),
    "wave": lambda z, x: np.sin(8 * z),
    "kink": lambda z, x: np.abs(z),
    "step": lambda z, x: np.sign(x[:, 0] - 0.2) * (1 + 0.5 * (x[:, -1] > 0)),
    "line": lambda z, x: z,
    "bump": lambda z, x: np.exp(-8 * (x[:, 0] - 0.3) ** 2) * (1 + x[:, -1]),
}
NOISES = (0.1, 0.5, 1.0)
RULES = {
    "default": sw.rules.Prudent(),
    "evidence": sw.rules.MarginalLikelihood(),
    "leave-one-out": sw.rules.LeaveOneOut(),
}


NEW_ROWS = 500


def problem(seed: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str, float]:
    """Covariates and responses, new covariates and the truth there, and what kind they are of."""
    rng = np.random.default_rng([7, seed])
    n = int(np.exp(rng.uniform(np.log(30), np.log(most))))
    d = int(rng.integers(1, 7))
    x = rng.uniform(-1, 1, (n + NEW_ROWS, d))
    slope = rng.normal(size=d)
    name, noise = list(TRUTHS)[seed % len(TRUTHS)], NOISES[(seed // len(TRUTHS)) % len(NOISES)]
    truth = TRUTHS[name](x @ slope / np.linalg.norm(slope), x)
    y = truth + noise * truth.std() * rng.normal(size=len(truth))
    return x[:n], y[:n], x[n:], truth[n:], name, noise


def measure(seed: int, most: int) -> dict[str, object]:
    """Excess risk of each rule over the path's smallest, on new rows of one problem."""
    x, y, new, new_truth, name, noise = problem(seed, most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sw.KernelGradientRegressor(solver="dense", random_state=0).fit(x, y)
        path = model.path_
        stops = [rule.decide(path, model.noise_std_ / float(path.scale)).step_sum for rule in RULES.values()]
        grid = np.append(stops, np.append(0.0, np.geomspace(1e-3, path.step_sum_limit, 150)))
        risk = np.mean((predict_at(model, new, grid) - new_truth[:, None]) ** 2, axis=0)
        row: dict[str, object] = {"seed": seed, "rows": len(y), "features": x.shape[1], "truth": name, "noise": noise}
        row["oracle"] = float(risk.min())
        row |= {rule: float(risk[i] / risk.min()) for i, rule in enumerate(RULES)}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--most", type=int, default=1_000, help="the most rows of a problem")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = Parallel(options.jobs)(delayed(measure)(seed, options.most) for seed in range(options.problems))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    for name in RULES:
        ratios = np.array([row[name] for row in rows])
        told = ", ".join(f"{q:.0%} {np.quantile(ratios, q):.2f}" for q in (0.5, 0.75, 0.95, 1.0))
        print(f"{name:15s} excess risk over the path's smallest: {told}")
    for key in ("noise", "truth"):
        for value in dict.fromkeys(row[key] for row in rows):
            of = [row for row in rows if row[key] == value]
            told = "  ".join(f"{name} {np.median([row[name] for row in of]):.2f}" for name in RULES)
            print(f"  {key} {value}: medians  {told}")


if __name__ == "__main__":
    main()
