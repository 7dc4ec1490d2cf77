"""Inside or outside of what was seen: the box of the training data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from stopwise._support.arrays import Array
from stopwise._support.torch import is_tensor, on_host, torch

Mask: TypeAlias = npt.NDArray[np.bool_]


def feature_range(covariates: Any) -> Array:
    """Smallest and largest value of each feature, (2, d), found where the rows are."""
    if is_tensor(covariates):
        return cast(Array, on_host(torch().stack([covariates.amin(0), covariates.amax(0)])))
    return cast(Array, np.stack([covariates.min(axis=0), covariates.max(axis=0)]))


def widest(first: Array | None, second: Array) -> Array:
    """The range of two sets of rows together; `first` may be missing."""
    if first is None:
        return second
    return cast(Array, np.stack([np.minimum(first[0], second[0]), np.maximum(first[1], second[1])]))


def outside(ranges: Array, covariates: Array) -> Mask:
    """Which entries lie outside the range of their feature, (n, d)."""
    return np.asarray((covariates < ranges[0]) | (covariates > ranges[1]))


_OUTSIDE_SHARE = 0.01
"""Share of rows that may lie a little outside without a word."""


def largest_gaps(covariates: Array) -> Array:
    """The widest gap between neighbouring values of each feature: how far apart the data themselves are."""
    return cast(Array, np.diff(np.sort(covariates, axis=0), axis=0).max(axis=0, initial=0.0))


def extrapolation(
    ranges: Array, gaps: Array, covariates: Array, names: Sequence[str] | Array | None = None
) -> str | None:
    """What to say of rows outside the range of the training data; None where it does not matter.

    It does where more than a percent of the rows are outside, or one is further out than the data's own gaps.
    """
    beyond = outside(ranges, covariates)
    rows = int(beyond.any(axis=1).sum())
    if not rows:
        return None
    far = (covariates < ranges[0] - gaps) | (covariates > ranges[1] + gaps)
    if rows <= _OUTSIDE_SHARE * len(covariates) and not far.any():
        return None
    columns = np.flatnonzero(beyond.any(axis=0))
    shown = ", ".join(f"{str(names[j])[:60]!r}" if names is not None else str(j) for j in columns[:5])
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    return (
        f"{rows} of {len(covariates)} rows lie outside the range of the training data (extrapolation), in feature "
        f"{shown}{more}"
    )
