"""Tables in chunks of rows, wherever they are: dask arrays and dataframes, or folders of files.

A chunk is a task that yields checked rows; nothing is loaded before a worker asks for it. What is wrong with a chunk is
said with the chunk's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.dask import Client, Collection, Delayed, dask, is_dask, is_frame

if TYPE_CHECKING:
    import pandas as pd


class PartitionError(ValueError):
    """A chunk of rows that does not fit the others; the message names it."""


@dataclass(frozen=True)
class Rows:
    """Checked rows of one chunk: covariates (n, d), responses (n, q), weights or None."""

    covariates: Array
    responses: Array
    weights: Array | None

    def __len__(self) -> int:
        return len(self.covariates)


@dataclass(frozen=True)
class Layout:
    """What every chunk must look like: column names with their types (None: any numeric type), or a width."""

    features: tuple[str, ...] | None
    targets: tuple[str, ...] | None
    weight: str | None = None
    dtypes: tuple[tuple[str, str], ...] | None = None
    n_features: int = 0
    precision: str = "float64"


@dataclass(frozen=True)
class Chunks:
    """Delayed `Rows` with their names, how many rows each has, and what they look like."""

    parts: tuple[Delayed, ...]
    labels: tuple[str, ...]
    lengths: tuple[int, ...]
    layout: Layout
    single: bool

    @property
    def n_rows(self) -> int:
        """Rows of all chunks together."""
        return sum(self.lengths)


# ---- checks, run by workers ---------------------------------------------------------------------------------------


def _column(table: pd.DataFrame, name: str, layout: Layout, label: str) -> Array:
    if name not in table.columns:
        raise PartitionError(f"{label} has no column {name!r}: it has {', '.join(map(repr, table.columns))}")
    column = table[name]
    expected = dict(layout.dtypes or ()).get(name)
    if expected is not None and str(column.dtype) != expected:
        raise PartitionError(f"{label}: column {name!r} is {column.dtype} and the first partition has {expected}")
    try:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise PartitionError(f"{label}: column {name!r} is {column.dtype}, not a number in every row") from error
    return cast(Array, values)


def _finite(values: Array, label: str, names: Sequence[str]) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        column = int(np.argmax(bad.any(axis=0)))
        rows = np.flatnonzero(bad[:, column])
        raise PartitionError(
            f"{label}: {names[column]} holds NaN or infinity in {rows.size} of {len(values)} rows, first in row "
            f"{rows[0]}"
        )


def rows_of_table(table: pd.DataFrame, layout: Layout, label: str) -> Rows:
    """Checked rows of a pandas table."""
    features, targets = layout.features or (), layout.targets or ()
    names = [*features, *targets]
    values = np.column_stack([_column(table, name, layout, label) for name in names])
    _finite(values, label, [f"column {name!r}" for name in names])
    d = len(features)
    weights = None if layout.weight is None else _weights(_column(table, layout.weight, layout, label), label)
    covariates = np.ascontiguousarray(values[:, :d], dtype=layout.precision)
    return Rows(covariates, np.ascontiguousarray(values[:, d:]), weights)


def rows_of_arrays(
    X: ArrayLike | pd.DataFrame, responses: ArrayLike, weights: ArrayLike | None, layout: Layout, label: str
) -> Rows:
    """Checked rows of blocks of arrays (or of pandas tables without their names)."""
    if layout.features is not None and hasattr(X, "columns"):
        X = np.column_stack([_column(cast("pd.DataFrame", X), name, layout, label) for name in layout.features])
    x, y = np.asarray(X), np.asarray(responses)
    for name, block in (("X", x), ("y", y)):
        if block.dtype.kind not in "fiub":
            raise PartitionError(f"{label}: {name} is {block.dtype}, not a number in every row")
    if x.ndim != 2 or x.shape[1] != layout.n_features:
        raise PartitionError(f"{label}: X has shape {x.shape} and must have {layout.n_features} columns")
    expected = dict(layout.dtypes or ()).get("X")
    if expected is not None and str(x.dtype) != expected:
        raise PartitionError(f"{label}: X is {x.dtype} and the first partition has {expected}")
    y = (y[:, None] if y.ndim == 1 else y).astype(np.float64)
    if len(y) != len(x):
        raise PartitionError(f"{label}: X has {len(x)} rows and y has {len(y)}; cut both at the same rows")
    covariates = np.ascontiguousarray(x, dtype=layout.precision)
    names = [f"column {name!r}" for name in layout.features or ()]
    _finite(covariates, label, names or [f"feature {j} of X" for j in range(x.shape[1])])
    _finite(y, label, [f"column {j} of y" for j in range(y.shape[1])])
    return Rows(covariates, y, None if weights is None else _weights(np.asarray(weights), label, len(x)))


def _weights(values: Array, label: str, n_rows: int | None = None) -> Array:
    weights = np.asarray(values, dtype=np.float64)
    if n_rows is not None and weights.shape != (n_rows,):
        raise PartitionError(f"{label}: sample_weight has shape {weights.shape} for {n_rows} rows")
    if not np.all(np.isfinite(weights) & (weights >= 0)):
        raise PartitionError(f"{label}: sample_weight must be finite and at least 0: weights are frequencies")
    return weights


# ---- dask collections -----------------------------------------------------------------------------------------------


def chunks_of_collections(
    X: Collection, y: Collection, weights: Collection | None, precision: str, client: Client
) -> Chunks:
    """Chunks of dask (or numpy) X, y and weights, cut where X is cut."""
    features = tuple(str(name) for name in X.columns) if is_frame(X) else None
    typed = X.dtypes.items() if is_frame(X) else [("X", X.dtype)]
    dtypes = tuple((str(name), str(dtype)) for name, dtype in typed)
    layout = Layout(features, None, dtypes=dtypes, n_features=int(X.shape[1]), precision=precision)
    single = getattr(y, "ndim", 1) == 1
    x_parts = _row_blocks(X)
    y_parts, w_parts = _aligned(y, X, len(x_parts), "y"), _aligned(weights, X, len(x_parts), "sample_weight")
    labels = tuple(f"partition {i}" for i in range(len(x_parts)))
    make = dask().delayed(rows_of_arrays, pure=False)
    parts = [make(x, b, w, layout, label) for x, b, w, label in zip(x_parts, y_parts, w_parts, labels, strict=True)]
    lengths = _lengths(X) or count_rows(parts, client)
    return Chunks(tuple(parts), labels, tuple(lengths), layout, single)


def _row_blocks(value: Collection) -> list[Delayed]:
    if is_frame(value):
        return list(value.to_delayed(optimize_graph=True))
    whole = value if value.ndim == 1 or value.numblocks[1] == 1 else value.rechunk({1: -1})
    return list(whole.to_delayed().ravel())


def _lengths(value: Collection) -> list[int] | None:
    if is_frame(value) or any(np.isnan(size) for size in value.chunks[0]):
        return None
    return [int(size) for size in value.chunks[0]]


def _aligned(value: Collection | None, X: Collection, count: int, name: str) -> list[Delayed | None]:
    """Blocks of y or weights for the blocks of X; a numpy array is cut like X."""
    if value is None:
        return [None] * count
    known = _lengths(X)
    if not is_dask(value):
        if known is None:
            raise ValueError(f"{name} must be a dask collection too where the partitions of X have unknown lengths")
        value = dask("dask.array").from_array(np.asarray(value), chunks=-1)
    if known is not None and not is_frame(value) and _lengths(value) is not None:
        if value.shape[0] != sum(known):
            raise ValueError(f"X has {sum(known)} rows and {name} has {value.shape[0]}")
        value = value.rechunk({0: tuple(known)})
    blocks = _row_blocks(value)
    if len(blocks) != count:
        raise ValueError(f"X has {count} partitions and {name} has {len(blocks)}: cut both at the same rows")
    return blocks


def count_rows(parts: Sequence[Delayed], client: Client) -> list[int]:
    """How many rows each chunk has: a pass that also finds what is wrong with any of them."""
    length = dask().delayed(len, pure=False)
    return [int(n) for n in client.gather(client.compute([length(part) for part in parts]))]
