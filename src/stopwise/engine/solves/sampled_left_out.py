"""Exact leave-one-out where no eigenvector and no whole inverse is at hand: on some rows, by their unit vectors.

In weighted coordinates the left-out residual of row i is [P y]_i / P_ii, and P_ii is row i of P times its unit vector:
one more column in the block of right-hand sides. Leaving out rows B together makes it (P_BB)^-1 [P y]_B, the same as
solving without them; where few of many rows are left out at once, that is leave-one-out but for the share they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stopwise._support.array_library import library_of
from stopwise._support.arrays import Array


class Inverse(Protocol):
    """P at one penalty."""

    def inverse(self, block: Array) -> Array:
        """P block."""


@dataclass(frozen=True)
class LeftOutRows:
    """Left-out residuals of a few rows, weighted coordinates, on the host."""

    rows: Array
    residuals: Array
    """(m,) or (m, q)"""
    diagonal: Array
    """P_ii of each: 1 / P_ii is the row's predictive variance in units of the noise variance over the penalty."""


def left_out_rows(solver: Inverse, response: Array, rows: Array, *, solved: Array | None = None) -> LeftOutRows:
    """Leave each of `rows` out, one at a time; `solved` is P response where it is known already."""
    library = library_of(response)
    flat = response[:, None] if response.ndim == 1 else response
    units = library.unit_columns(len(flat), rows)
    if solved is None:
        both = library.zeros(len(flat), flat.shape[1] + len(rows))
        both[:, : flat.shape[1]], both[:, flat.shape[1] :] = flat, units
        image = solver.inverse(both)
        solved, columns = image[:, : flat.shape[1]], image[:, flat.shape[1] :]
    else:
        solved = solved[:, None] if solved.ndim == 1 else solved
        columns = solver.inverse(units)
    inside = library.host(columns[rows] + 0.0)
    diagonal = np.diagonal(inside).copy()
    residuals = library.host(solved[rows] + 0.0) / diagonal[:, None]
    return LeftOutRows(rows, residuals[:, 0] if response.ndim == 1 else residuals, diagonal)


def left_out_together(solver: Inverse, response: Array, rows: Array) -> Array:
    """Residuals of `rows` when all of them are left out at once: (P_BB)^-1 [P y]_B."""
    library = library_of(response)
    columns = library.host(solver.inverse(library.unit_columns(len(response), rows))[rows] + 0.0)
    inside = library.host(solver.inverse(response)[rows] + 0.0)
    return np.linalg.solve((columns + columns.T) / 2, inside)


def sample_rows(n_rows: int, count: int, seed: int) -> Array:
    """The first `count` of a random order of all rows: a larger sample holds the smaller one."""
    order = np.random.default_rng([20160716, seed]).permutation(n_rows)
    return np.sort(order[:count])
