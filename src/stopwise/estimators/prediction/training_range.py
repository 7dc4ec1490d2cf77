"""Inside or outside of what was seen: the box of the training data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from stopwise._support.arrays import Array
from stopwise.exceptions import ExtrapolationWarning

Mask: TypeAlias = npt.NDArray[np.bool_]


def feature_range(covariates: Array) -> Array:
    """Smallest and largest value of each feature, (2, d)."""
    return cast(Array, np.stack([covariates.min(axis=0), covariates.max(axis=0)]))


def widest(first: Array | None, second: Array) -> Array:
    """The range of two sets of rows together; `first` may be missing."""
    if first is None:
        return second
    return cast(Array, np.stack([np.minimum(first[0], second[0]), np.maximum(first[1], second[1])]))


def outside(ranges: Array, covariates: Array) -> Mask:
    """Which entries lie outside the range of their feature, (n, d)."""
    return np.asarray((covariates < ranges[0]) | (covariates > ranges[1]))


def warn_outside(ranges: Array, covariates: Array, names: Sequence[str] | Array | None = None) -> None:
    """Warn, with a count and the features concerned, if any row lies outside."""
    beyond = outside(ranges, covariates)
    warn_beyond(int(beyond.any(axis=1).sum()), len(covariates), np.asarray(beyond.any(axis=0)), names, stacklevel=4)


def warn_beyond(
    rows: int, n_rows: int, features: Mask, names: Sequence[str] | Array | None = None, *, stacklevel: int = 4
) -> None:
    """Warn if any of some rows lie outside the range in the features marked."""
    if not rows:
        return
    columns = np.flatnonzero(features)
    shown = ", ".join(f"{str(names[j])[:60]!r}" if names is not None else str(j) for j in columns[:5])
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    warnings.warn(
        f"{rows} of {n_rows} rows lie outside the range of the training data (extrapolation), in feature {shown}{more}",
        ExtrapolationWarning,
        stacklevel=stacklevel,
    )
