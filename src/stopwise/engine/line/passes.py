"""One pass over the rows in each direction, on many lanes at once.

Forward: the distribution of the state at a row given those before it, as a covariance (a Kalman filter in Bierman and
Thornton's form). Backward: what the rows after it tell of the state, as an information matrix. Put together they give
the distribution at a row given all the others: the left-out fit, with nothing subtracted from anything.

`omega` is a row's precision, weight / penalty; rows without an observation have 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.transitions import StateSpace, Step
from stopwise.engine.line.triangles import (
    Entry,
    Triangle,
    Vector,
    add,
    beside,
    factor,
    number,
    reduced,
    times,
    transformed,
)

Means = list[Vector]
"""Means by state (or their information counterparts): one list of responses per state."""


@dataclass(frozen=True)
class Lanes:
    """Rows laid out as (steps, lanes, problems): what is at index t is processed at once."""

    space: StateSpace
    table: list[Array]
    omega: Array
    responses: list[Array]

    @property
    def length(self) -> int:
        """Steps."""
        return len(self.omega)

    def step(self, t: int) -> Step:
        """The move to step t."""
        return self.space.step([column[t] for column in self.table])


@dataclass(frozen=True)
class Filtered:
    """Where a pass ends: covariance (forward) or information (backward) and means."""

    spread: Triangle
    means: Means


@dataclass
class Record:
    """What a forward pass keeps: at every row the state given the rows before it, and the sums of the likelihood."""

    diagonal: list[Array]
    off: list[list[Array | None]]
    means: list[list[Array]]
    log_determinant: Array
    products: list[list[Array]]

    @classmethod
    def of(cls, lanes: Lanes) -> Record:
        """An empty record for these lanes."""
        p, q, shape, dtype = lanes.space.size, len(lanes.responses), lanes.omega.shape, lanes.omega.dtype
        off = [[np.empty(shape, dtype) if j < i else None for j in range(p)] for i in range(p)]
        sums = [[np.zeros(shape[1:], dtype) for _ in range(q)] for _ in range(q)]
        return cls(
            [np.empty(shape, dtype) for _ in range(p)],
            off,
            [[np.empty(shape, dtype) for _ in range(q)] for _ in range(p)],
            np.zeros(shape[1:], dtype),
            sums,
        )

    def keep(self, t: int, spread: Triangle, means: Means) -> None:
        """Store the state given the rows before step t."""
        for i, column in enumerate(self.diagonal):
            column[t] = spread.diagonal[i]
            for j in range(i):
                self.off[i][j][t] = number(spread.off[i][j])  # type: ignore[index]
            for target, mean in zip(self.means[i], means[i], strict=True):
                target[t] = mean

    def at(self, t: int) -> Filtered:
        """The state given the rows before step t."""
        off: list[list[Entry | None]] = [[None if c is None else c[t] for c in row] for row in self.off]
        spread = Triangle([column[t] for column in self.diagonal], off, True)
        return Filtered(spread, [[column[t] for column in row] for row in self.means])

    def count(self, residuals: Sequence[Array], shrunk: Entry, weight: Entry) -> None:
        """Add one row to log det(I + G W / a) and to y'C^-1 y."""
        self.log_determinant -= np.log(shrunk)
        for row, left in zip(self.products, residuals, strict=True):
            scaled = left * weight
            for total, right in zip(row, residuals, strict=True):
                total += scaled * right


def forward(lanes: Lanes, start: Filtered, record: Record | None = None) -> Filtered:
    """The state after the last row of each lane; `record` receives what is known before each row."""
    spread, means = start.spread, start.means
    for t in range(lanes.length):
        move, omega = lanes.step(t), lanes.omega[t]
        spread, means = _moved(move, spread), _applied(move.matrix, means)
        if record is not None:
            record.keep(t, spread, means)
        shrunk = 1.0 / (1.0 + spread.diagonal[0] * omega)
        weight = omega * shrunk
        gain = spread.diagonal[0] * weight
        residuals = [y[t] - mean for y, mean in zip(lanes.responses, means[0], strict=True)]
        if record is not None:
            record.count(residuals, shrunk, weight)
        steps = [gain * r for r in residuals]
        means = [
            [
                mean + (step if i == 0 else number(spread.off[i][0]) * step)
                for mean, step in zip(row, steps, strict=True)
            ]
            for i, row in enumerate(means)
        ]
        spread = Triangle([spread.diagonal[0] * shrunk, *spread.diagonal[1:]], spread.off, True)
    return Filtered(spread, means)


def _moved(move: Step, spread: Triangle) -> Triangle:
    """A P A' + Q."""
    rows = beside(transformed(move.matrix, spread), move.noise)
    return factor(rows, [*spread.diagonal, *move.weights], lower=True)


def _applied(matrix: list[Vector], means: Means, *, transpose: bool = False) -> Means:
    """A m, or A' m."""
    p = len(matrix)
    out: Means = []
    for i in range(p):
        row: list[Entry] = []
        for c in range(len(means[0])):
            total: Entry | None = None
            for j in range(p):
                total = add(total, times(matrix[j][i] if transpose else matrix[i][j], means[j][c]))
            row.append(number(total))
        out.append(row)
    return out


def backward(lanes: Lanes, end: Filtered, record: Record | None = None) -> tuple[Filtered, list[Array], Array]:
    """What each lane's rows tell of the state before its first row.

    With a forward record also, at every row, the mean of f given all other rows (one array a response) and its variance
    in units of the prior's.
    """
    shape, dtype = lanes.omega.shape, lanes.omega.dtype
    known, q = record is not None, len(lanes.responses)
    left_out = [np.empty(shape, dtype) for _ in range(q if known else 0)]
    variance = np.empty(shape if known else (0,), dtype)
    information, means = end.spread, end.means
    for t in range(lanes.length - 1, -1, -1):
        move, omega = lanes.step(t), lanes.omega[t]
        if record is not None:
            variance[t], values = _joined(record.at(t), Filtered(information, means))
            for target, value in zip(left_out, values, strict=True):
                target[t] = value
        information = Triangle([information.diagonal[0] + omega, *information.diagonal[1:]], information.off, False)
        means = [[m + omega * y[t] for m, y in zip(means[0], lanes.responses, strict=True)], *means[1:]]
        information, means = noised(Filtered(information, means), move.noise, move.weights)
        rows = transformed(move.matrix, information, transpose=True)
        information = factor(rows, information.diagonal, lower=False)
        means = _applied(move.matrix, means, transpose=True)
    return Filtered(information, means), left_out, variance


def noised(now: Filtered, columns: Sequence[Sequence[Entry | None]], weights: Vector) -> tuple[Triangle, Means]:
    """(M^-1 + W diag(weights) W')^-1 and what becomes of M^-1-weighted means: process noise seen by an information
    matrix, or observations of W'x (with value 0) seen by a covariance."""
    spread, means = now.spread, now.means
    for k, weight in enumerate(weights):
        direction = [row[k] for row in columns]
        spread, gain, alpha = reduced(spread, direction, weight)
        share = weight / alpha
        means = [list(row) for row in means]
        for c in range(len(means[0])):
            along: Entry | None = None
            for i, part in enumerate(direction):
                along = add(along, times(part, means[i][c]))
            step = share * number(along)
            for i, g in enumerate(gain):
                means[i][c] = means[i][c] - g * step
    return spread, means


def _joined(before: Filtered, after: Filtered) -> tuple[Entry, Vector]:
    """Variance and means of f from a covariance with its means and an information matrix with its own."""
    spread, p = before.spread, before.spread.size
    gaps = innovations(before, after)
    for k in range(p):
        direction = [after.spread.entry(i, k) if i <= k else None for i in range(p)]
        spread, _, _ = reduced(spread, direction, after.spread.diagonal[k])
    values = []
    for mean, gap in zip(before.means[0], gaps, strict=True):
        along: Entry = gap[0]
        for i in range(1, p):
            along = along + number(spread.off[i][0]) * gap[i]
        values.append(mean + spread.diagonal[0] * along)
    return spread.diagonal[0], values


def innovations(before: Filtered, after: Filtered) -> list[Vector]:
    """eta - J m for each response: what the rows after say beyond the mean from the rows before."""
    information, p = after.spread, after.spread.size
    out = []
    for c in range(len(before.means[0])):
        scaled = []
        for k in range(p):
            along: Entry = before.means[k][c]
            for i in range(k):
                along = along + number(information.off[i][k]) * before.means[i][c]
            scaled.append(information.diagonal[k] * along)
        row = []
        for i in range(p):
            total = after.means[i][c] - scaled[i]
            for k in range(i + 1, p):
                total = total - number(information.off[i][k]) * scaled[k]
            row.append(total)
        out.append(row)
    return out
