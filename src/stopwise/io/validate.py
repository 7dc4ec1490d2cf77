"""Do the parts of a loaded model fit together?"""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.filters import Filter
from stopwise.kernels import Kernel
from stopwise.path import Path
from stopwise.rules import Reason, Stop
from stopwise.spectrum import Spectrum

REQUIRED = (
    *("X_fit_", "dual_coef_", "intercept_", "path_", "eigenvalues_", "trace_", "step_sum_"),
    *("noise_std_", "hilbert_radius_", "critical_radius_", "n_features_in_", "feature_range_"),
    *("_features", "_mean_row", "_spread", "_stream", "_device"),
)


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def check_model(model: Any) -> None:
    """Raise ValueError, naming the part, unless types and shapes agree with one another."""
    missing = [name for name in REQUIRED if not hasattr(model, name)]
    _must(not missing, f"{', '.join(missing)} missing")
    _must(isinstance(model.kernel_, Kernel), "the kernel is not a kernel")
    _check_weights(model)
    outputs = 1 if model.dual_coef_.ndim == 1 else model.dual_coef_.shape[1]
    stops = [model.stop_] if isinstance(model.stop_, Stop) else model.stop_
    _must(isinstance(stops, list) and len(stops) == outputs, "there must be one stop per response")
    _must(all(isinstance(s, Stop) and isinstance(s.reason, Reason) for s in stops), "a stop is not a stop")
    _check_path(model.path_, outputs, single=model.dual_coef_.ndim == 1)
    names = getattr(model, "feature_names_in_", None)
    _must(names is None or len(names) == model.n_features_in_, "there must be one name per feature")


def _check_weights(model: Any) -> None:
    rows, dual = model.X_fit_, model.dual_coef_
    _must(isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind == "f", "X_fit_ is not a matrix")
    _must(isinstance(dual, np.ndarray) and dual.ndim in (1, 2), "dual_coef_ is not an array of 1 or 2 dimensions")
    _must(len(dual) == len(rows), f"dual_coef_ has {len(dual)} rows for {len(rows)} rows of X_fit_")
    _must(bool(np.isfinite(rows).all() and np.isfinite(dual).all()), "X_fit_ or dual_coef_ is not finite")
    _must(np.shape(model.intercept_) == dual.shape[1:], "intercept_ and dual_coef_ disagree in shape")
    features = getattr(model, "_features", None)
    width = model.n_features_in_ if features is None else len(np.arange(model.n_features_in_)[features])
    _must(rows.shape[1] == width, f"X_fit_ has {rows.shape[1]} columns for {width} features")
    model.kernel_.check(rows)


def _check_path(path: Any, outputs: int, *, single: bool) -> None:
    _must(isinstance(path, Path), "path_ is not a path")
    for part, kind in ((path.spectrum, Spectrum), (path.filter, Filter)):
        _must(isinstance(part, kind), f"the path's {kind.__name__.lower()} is not one")
    known = path.spectrum.eigenvalues.shape
    _must(len(known) == 1, "eigenvalues must be a list of numbers")
    _must(path.coefficients.shape == (known if single else (*known, outputs)), "coefficients and eigenvalues disagree")
    basis = path.spectrum.basis
    if basis is not None:
        width = basis.rows.shape[1] if basis.rotation is None else basis.rotation.shape[1]
        _must(width == known[0], "eigenvectors and eigenvalues disagree in number")
        _must(path.response is None or len(path.response) == len(basis.rows), "responses and eigenvectors disagree")
    _must(path.chosen is None or len(path.chosen) == outputs, "there must be one chosen stop per response")
