"""How much a kernel and a stop that were chosen on the rows flatter the errors of these rows."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from stopwise.estimators.fitted import Fitted
from stopwise.selection.length_scales import prior_variance
from stopwise.selection.result import Selection


def optimism(fitted: Fitted) -> float:
    """sqrt((n + p) / (n - p)): what p parameters chosen on n rows flatter errors by (Akaike 1970)."""
    parameters, n = float(fitted.rule.reads_data), fitted.path.n_samples
    if fitted.selection is not None and len(fitted.selection):
        n = min(n, float(fitted.selection.n_rows or n))
        parameters += 2 + free_scales(fitted.selection, n)
    parameters = min(parameters, n / 2)
    return math.sqrt((n + parameters) / (n - parameters))


def free_scales(selection: Selection, n_rows: float) -> float:
    """How many length scales the data moved away from the common one.

    Those of each feature have a Gaussian prior about their mean; with a prior that fits them, sum (gap / spread)^2 is
    the number of parameters that the data determine (MacKay 1992).
    """
    chosen = next((row for row in selection if row.get("chosen")), {})
    if not chosen.get("per_feature"):
        return 0.0
    logs = np.log([float(cast(float, row["relevance"])) for row in selection.features if row.get("relevance")])
    if not logs.size:
        return 0.0
    moved = float(((logs - logs.mean()) ** 2).sum()) / prior_variance(n_rows, logs.size)
    return min(moved, logs.size - 1.0)
