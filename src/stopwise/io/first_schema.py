"""What files of the first schema call things: a learned attribute each, where there is one `Fitted` now."""

from typing import Any

import numpy as np

from stopwise.rules import Stop
from stopwise.tables.encodings import Categories, Numbers
from stopwise.tables.recipe import FittedTable, Recipe

_RENAMED = {
    "kernel": "kernel",
    "selection": "selection_",
    "solver": "solver",
    "path": "path_",
    "rule": "_rule",
    "covariates": "X_fit_",
    "n_features": "n_features_in_",
    "features": "_features",
    "feature_range": "feature_range_",
    "mean_row": "_mean_row",
    "spread": "_spread",
    "stream": "_stream",
    "device": "_device",
}
_OPTIONAL = {"feature_names": "feature_names", "kept_rows": "_kept_rows"}


def fitted_fields(learned: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Fitted` from the attributes of a model of the first schema."""
    stops, dual = learned["stops"], learned["dual_coef_"]
    single = isinstance(stops, Stop)
    named = {name: learned[old] for name, old in _RENAMED.items()}
    optional = {name: learned.get(old) for name, old in _OPTIONAL.items()}
    return {
        **named,
        **optional,
        "stops": (stops,) if single else tuple(stops),
        "noise_std": np.atleast_1d(learned["noise_std_"]),
        "dual_coef": dual[:, None] if single else dual,
        "intercept": np.atleast_1d(learned["intercept_"]),
        "single": single,
        "n_given": 0 if learned["path_"].spectrum.basis is None else len(learned["path_"].spectrum.basis.rows),
        "waiting": None,
        "row_of": None,
        "precision": learned["_solution_notes"].get("precision"),
        "columns_in": None,
        "recipe": None,
    }


def table_fields(fields: dict[str, Any]) -> tuple[FittedTable, Recipe]:
    """What the command line knew of a table in the first schema: the target, and how its columns became features."""
    return FittedTable(fields["target"]), Recipe(tuple(_encoding(part) for part in fields["parts"]))


def _encoding(part: dict[str, Any]) -> Numbers | Categories:
    if "levels" in part:
        return Categories(str(part["name"]), tuple(str(level) for level in part["levels"]))
    return Numbers(str(part["name"]), float(part["median"]), boolean=bool(part["boolean"]))


def plain_fields(data: Any) -> Any:
    """The raw JSON of a table's description without the names of its types: dictionaries, lists and values."""
    if isinstance(data, list):
        return [plain_fields(part) for part in data]
    if not isinstance(data, dict):
        return data
    if data.get("$") == "float":
        return float(data["is"])
    if data.get("$") == "tuple":
        return [plain_fields(part) for part in data["is"]]
    return {name: plain_fields(part) for name, part in data["fields"].items()}
