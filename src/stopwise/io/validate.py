"""Do the parts of a loaded model fit together?"""

from __future__ import annotations

import numpy as np

from stopwise.estimators.fitted import Fitted
from stopwise.filters import Filter
from stopwise.kernels import Kernel
from stopwise.path import Path
from stopwise.rules import Reason, Stop
from stopwise.spectrum import Spectrum


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def check_fitted(fitted: Fitted) -> None:
    """Raise ValueError, naming the part, unless types and shapes agree with one another."""
    _must(isinstance(fitted.kernel, Kernel), "the kernel is not a kernel")
    _check_weights(fitted)
    outputs, stops = fitted.dual_coef.shape[1], fitted.stops
    _must(isinstance(stops, tuple) and len(stops) == outputs, "there must be one stop per response")
    _must(all(isinstance(s, Stop) and isinstance(s.reason, Reason) for s in stops), "a stop is not a stop")
    _must(outputs == 1 or not fitted.single, "several responses cannot be one column")
    _must(np.shape(fitted.noise_std) == (outputs,), "there must be one noise level per response")
    _check_path(fitted.path, outputs)
    names = fitted.feature_names
    _must(names is None or len(names) == fitted.n_features, "there must be one name per feature")


def _check_weights(fitted: Fitted) -> None:
    rows, dual = fitted.covariates, fitted.dual_coef
    _must(isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind == "f", "covariates are not a matrix")
    _must(isinstance(dual, np.ndarray) and dual.ndim == 2, "dual_coef is not an array of 2 dimensions")
    _must(len(dual) == len(rows), f"dual_coef has {len(dual)} rows for {len(rows)} rows of covariates")
    _must(bool(np.isfinite(rows).all() and np.isfinite(dual).all()), "covariates or dual_coef are not finite")
    _must(np.shape(fitted.intercept) == dual.shape[1:], "intercept and dual_coef disagree in shape")
    features = fitted.features
    width = fitted.n_features if features is None else len(np.arange(fitted.n_features)[features])
    _must(rows.shape[1] == width, f"covariates have {rows.shape[1]} columns for {width} features")
    fitted.kernel.check(rows)


def _check_path(path: Path, outputs: int) -> None:
    _must(isinstance(path, Path), "path_ is not a path")
    for part, kind in ((path.spectrum, Spectrum), (path.filter, Filter)):
        _must(isinstance(part, kind), f"the path's {kind.__name__.lower()} is not one")
    known = path.spectrum.eigenvalues.shape
    _must(len(known) == 1, "eigenvalues must be a list of numbers")
    fits = path.coefficients.shape == (*known, outputs) or (outputs == 1 and path.coefficients.shape == known)
    _must(fits, "coefficients and eigenvalues disagree")
    basis = path.spectrum.basis
    if basis is not None:
        width = basis.rows.shape[1] if basis.rotation is None else basis.rotation.shape[1]
        _must(width == known[0], "eigenvectors and eigenvalues disagree in number")
        _must(path.response is None or len(path.response) == len(basis.rows), "responses and eigenvectors disagree")
    _must(path.chosen is None or len(path.chosen) == outputs, "there must be one chosen stop per response")
