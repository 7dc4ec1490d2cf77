"""What files of the first schema call things: a learned attribute each, where there is one `Fitted` now."""

from typing import Any

import numpy as np

from stopwise.rules import Stop

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
    }
