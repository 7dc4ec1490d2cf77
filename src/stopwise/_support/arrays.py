"""Names for the array types that cross room borders."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

    Tensor: TypeAlias = torch.Tensor
    Device: TypeAlias = torch.device
    TensorType: TypeAlias = torch.dtype
else:  # torch is optional, and none of its types is needed to run
    Tensor = Device = TensorType = Any

Array: TypeAlias = npt.NDArray[Any]
ArrayLike: TypeAlias = npt.ArrayLike
Index: TypeAlias = npt.NDArray[np.integer[Any]]
"""Row or column numbers."""
Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = Array | Tensor
"""Covariates, (n, d), in memory or on a device."""


def evenly(count: int, most: int) -> Index:
    """At most so many of the numbers 0, ..., count - 1, evenly spaced."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)
