"""Rows as a pass takes them, where it stands, and what may be kept of it on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

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

    def see(self, t: int, row: Seen) -> None:
        """Take in the row at step t."""


class Likelihood:
    """log det(I + G W / a) and y'C^-1 y, summed over the steps."""

    def __init__(self, lanes: Lanes) -> None:
        q, shape, dtype = len(lanes.responses), lanes.omega.shape[1:], lanes.omega.dtype
        self.log_determinant = np.zeros(shape, dtype)
        self.products = [[np.zeros(shape, dtype) for _ in range(q)] for _ in range(q)]

    def see(self, t: int, row: Seen) -> None:
        self.log_determinant -= np.log(row.shrunk)
        for totals, left in zip(self.products, row.innovations, strict=True):
            scaled = left * row.weight
            for total, right in zip(totals, row.innovations, strict=True):
                total += scaled * right


class Innovations(Likelihood):
    """With every row's innovations, their inverse variance and the gains: what solves and leverages need."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        self.inverse_variance = lanes.blank()
        self.gains = [lanes.blank() for _ in range(lanes.space.size)]
        self.innovations = [lanes.blank() for _ in lanes.responses]

    def see(self, t: int, row: Seen) -> None:
        super().see(t, row)
        self.inverse_variance[t] = row.weight
        self.gains[0][t] = row.gain
        for i in range(1, len(self.gains)):
            self.gains[i][t] = number(row.before.spread.off[i][0]) * row.gain
        for kept, value in zip(self.innovations, row.innovations, strict=True):
            kept[t] = value


class States(Likelihood):
    """With the whole state given the rows before each: what posterior variances need."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes)
        p = lanes.space.size
        self.diagonal = [lanes.blank() for _ in range(p)]
        self.off = [[lanes.blank() if j < i else None for j in range(p)] for i in range(p)]
        self.means = [[lanes.blank() for _ in lanes.responses] for _ in range(p)]

    def see(self, t: int, row: Seen) -> None:
        super().see(t, row)
        spread, means = row.before.spread, row.before.means
        for i, column in enumerate(self.diagonal):
            column[t] = spread.diagonal[i]
            for j in range(i):
                cast(Array, self.off[i][j])[t] = number(spread.off[i][j])
            for target, mean in zip(self.means[i], means[i], strict=True):
                target[t] = mean

    def at(self, t: int) -> Filtered:
        """The state given the rows before step t."""
        off: list[list[Entry | None]] = [[None if c is None else c[t] for c in row] for row in self.off]
        spread = Triangle([column[t] for column in self.diagonal], off, True)
        return Filtered(spread, [[column[t] for column in row] for row in self.means])


class Told:
    """What the rows of a stretch tell of the state before it, from a pass whose first p responses are what unit states
    would show: a row's innovation is y - m - h'x, so that it adds h h' / F and h (y - m) / F."""

    def __init__(self, zero: Array, p: int, q: int) -> None:
        self.now = nothing(zero, p, q)

    def see(self, t: int, row: Seen) -> None:
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
