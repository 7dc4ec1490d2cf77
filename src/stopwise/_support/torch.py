"""The one door to torch and triton."""

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable
from functools import cache
from typing import Any, cast

from stopwise._support.arrays import Device, Index, Tensor
from stopwise._support.optional import optional


class MissingDevice(RuntimeError):
    """A GPU was asked for and something it needs is not there."""


@cache
def torch() -> Any:
    """The torch module."""
    return optional("torch", "this", "torch", ' (and, for solver="cuda", an NVIDIA GPU)')


def has_torch() -> bool:
    """Whether torch is installed; does not import it."""
    return importlib.util.find_spec("torch") is not None


@cache
def triton() -> Any | None:
    """The triton module, or None where it is missing: plain torch tiles serve then."""
    try:
        return importlib.import_module("triton")
    except ImportError:
        return None


def is_tensor(value: object) -> bool:
    """Whether a value is a torch tensor, asked without importing torch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr")


def on_host(value: object) -> Any:
    """A tensor as a numpy array (float64 or float32), shared where it is on the CPU already; anything else as it is."""
    return cast(Tensor, value).detach().cpu().numpy() if is_tensor(value) else value


def has_gpu() -> bool:
    """Whether torch is installed and sees a GPU; a build for processors alone says so without being imported."""
    return has_torch() and not _only_for_processors() and bool(torch().cuda.is_available())


def _only_for_processors() -> bool:
    try:
        return importlib.metadata.version("torch").endswith("+cpu")
    except importlib.metadata.PackageNotFoundError:  # on the path without having been installed
        return False


def pick_device(device: Device | str | None = None) -> Device:
    """The device to work on: the one named, else the GPU, else an error that names what is missing."""
    library = torch()
    if device is not None:
        return library.device(device)
    if not library.cuda.is_available():
        built = library.version.cuda
        reason = "this torch was built without CUDA" if built is None else f"torch (CUDA {built}) sees no GPU"
        raise MissingDevice(
            f'solver="cuda" needs an NVIDIA GPU: {reason}; install a CUDA build of torch on a machine with a GPU, or '
            'use solver="krylov"'
        )
    return library.device("cuda", library.cuda.current_device())


_MIX = -7046029254386353131
"""The golden ratio in 64 bits: an odd number that spreads what it multiplies."""


def row_keys(columns: Iterable[Any], keys: Any) -> Any:
    """One number for each row, of its entries and the key it starts with: arrays or tensors of 64-bit integers."""
    for column in columns:
        keys = (column ^ keys) * _MIX
        keys = keys ^ (keys >> 29)
    return keys


def distinct_tensor_rows(rows: Tensor) -> Index | None:
    """For each row of a tensor the number of its distinct values, as a numpy array; None where all rows differ.

    Sorting whole rows takes twenty times as long as one number for each, which mostly is enough.
    """
    library = torch()
    # Zero has two signs and one value.
    columns = ((column + 0.0).double().contiguous().view(library.int64) for column in rows.T)
    keys = row_keys(columns, rows.new_zeros(len(rows), dtype=library.int64))
    if len(library.unique(keys)) == len(rows):
        return None
    _, inverse = library.unique(rows, dim=0, return_inverse=True)
    return None if int(inverse.max()) + 1 == len(rows) else inverse.cpu().numpy()
