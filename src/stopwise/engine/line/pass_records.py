"""Rows as a pass takes them, where it stands, and what may be kept of it on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.transitions import StateSpace, Step
from stopwise.engine.line.triangles import Entry, Triangle, Vector, beside, columns_of, diagonal_matrix, factor, number

Means = list[Vector]
"""Means by state (or their information counterparts): one list of responses per state."""


@dataclass(frozen=True)
class Lanes:
    """Rows laid out as (steps, problems, lanes): what is at index t is processed at once."""

    space: StateSpace
    table: list[Array]
    omega: Array
    responses: list[Array]

    @property
    def length(self) -> int:
        return len(self.omega)

    def step(self, t: int) -> Step:
        return self.space.step([column[t] for column in self.table])

    def blank(self) -> Array:
        """Room for one number a row."""
        return np.empty(self.omega.shape, self.omega.dtype)


@dataclass(frozen=True)
class Filtered:
    """Where a pass ends: covariance (forward) or information (backward) and means."""

    spread: Triangle
    means: Means


def nothing(zero: Array, p: int, q: int) -> Filtered:
    """What no rows tell."""
    return Filtered(diagonal_matrix([zero] * p, lower=False), [[zero] * q for _ in range(p)])


def known_states(zero: Array, p: int, q: int) -> Filtered:
    """Unit states, known exactly, as the first p responses; the other q see nothing yet."""
    means: Means = [[*(zero + float(i == j) for j in range(p)), *([zero] * q)] for i in range(p)]
    return Filtered(diagonal_matrix([zero] * p, lower=True), means)


@dataclass(frozen=True)
class Seen:
    """One row of a forward pass: the state given the rows before it, and what the row adds."""

    before: Filtered
    innovations: Sequence[Array]
    """v: responses less their means from the rows before."""
    shrunk: Entry
    """1 / (1 + variance omega): the share of the variance of f that is left after the row."""
    weight: Entry
    """1 / F: the inverse variance of an innovation."""
    gain: Entry
    """Of f; the other states move with it."""


class Watcher(Protocol):
    """Whatever follows a forward pass row by row."""

    def see(self, row: Seen) -> None:
        """Take in the next row."""


class Likelihood:
    """log det(I + G W / a) and y'C^-1 y, summed over the steps."""

    def __init__(self, lanes: Lanes) -> None:
        q, shape, dtype = len(lanes.responses), lanes.omega.shape[1:], lanes.omega.dtype
        self.log_determinant = np.zeros(shape, dtype)
        self.products = [[np.zeros(shape, dtype) for _ in range(q)] for _ in range(q)]

    def see(self, row: Seen) -> None:
        self.log_determinant -= np.log(row.shrunk)
        for totals, left in zip(self.products, row.innovations, strict=True):
            scaled = left * row.weight
            for total, right in zip(totals, row.innovations, strict=True):
                total += scaled * right


class Innovations(Likelihood):
    """With every row's innovations, their inverse variance and the gains: what solves and leverages need."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        self.inverse_variance: list[Entry] = []
        self.gains: list[Vector] = []
        self.innovations: list[Sequence[Array]] = []

    def see(self, row: Seen) -> None:
        super().see(row)
        self.inverse_variance.append(row.weight)
        self.gains.append([row.gain, *(number(other[0]) * row.gain for other in row.before.spread.off[1:])])
        self.innovations.append(row.innovations)


class States(Likelihood):
    """With the whole state given the rows before each: what posterior variances need."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        self.before: list[Filtered] = []

    def see(self, row: Seen) -> None:
        super().see(row)
        self.before.append(row.before)


class Told:
    """What the rows of a stretch tell of the state before it, from a pass whose first p responses are what unit states
    would show: a row's innovation is y - m - h'x, so that it adds h h' / F and h (y - m) / F."""

    def __init__(self, zero: Array, p: int, q: int) -> None:
        self.now = nothing(zero, p, q)

    def see(self, row: Seen) -> None:
        """Add one row; the innovations of unit states are -h."""
        spread, p = self.now.spread, self.now.spread.size
        shown = row.innovations[:p]
        scaled = [row.weight * left for left in row.innovations[p:]]
        means: Means = [
            [m - h * left for m, left in zip(of_state, scaled, strict=True)]
            for of_state, h in zip(self.now.means, shown, strict=True)
        ]
        rows = beside(columns_of(spread), [[h] for h in shown])
        self.now = Filtered(factor(rows, [*spread.diagonal, row.weight], lower=False), means)
