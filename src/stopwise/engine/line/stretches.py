"""Rows cut into stretches that are processed side by side, and the joins between them.

Python is slow a row at a time; so n rows become about sqrt(n) stretches, every stretch is passed as if its first state
were known (forward) or nothing followed (backward), the stretches are joined end to end, and passed again from their
true ends. Joining is composing conditional distributions (Sarkka & Garcia-Fernandez 2021), in triangles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.passes import Filtered, Lanes, Means, Record, backward, forward, innovations, noised
from stopwise.engine.line.transitions import StateSpace
from stopwise.engine.line.triangles import (
    Entry,
    Triangle,
    Vector,
    beside,
    columns_of,
    diagonal_matrix,
    empty,
    factor,
    number,
    reduced,
    transformed,
)

FULL_LANES = 2048
"""Lanes times problems beyond which more of them no longer save time: vectors of 16 kB, which caches hold."""


@dataclass(frozen=True)
class Layout:
    """How n rows become (length, stretches): padded at the end with rows that are nowhere and say nothing."""

    n_rows: int
    stretches: int
    length: int

    @classmethod
    def of(cls, n_rows: int, problems: int = 1) -> Layout:
        """A step costs about four times a join, so there are twice the square root of n stretches; fewer where several
        problems share the lanes, and joins move arrays."""
        wanted = math.isqrt(4 * n_rows if problems == 1 else n_rows)
        stretches = max(1, min(wanted, max(FULL_LANES, math.isqrt(n_rows)) // problems))
        length = -(-n_rows // stretches)
        return cls(n_rows, -(-n_rows // length), length)

    def lay(self, values: Array) -> Array:
        """(n, problems) -> (length, stretches, problems)."""
        padded = self.stretches * self.length
        if padded > self.n_rows:
            values = np.concatenate([values, np.zeros((padded - self.n_rows, *values.shape[1:]), values.dtype)])
        return np.ascontiguousarray(values.reshape(self.stretches, self.length, -1).swapaxes(0, 1))

    def rows(self, values: Array) -> Array:
        """The way back: (length, stretches, problems) -> (n, problems)."""
        return values.swapaxes(0, 1).reshape(self.stretches * self.length, -1)[: self.n_rows]


@dataclass(frozen=True)
class Elements:
    """What each stretch does to any state before it: the state after it is N(gain x + means, spread), and its rows tell
    of x as much as `after`."""

    spread: Triangle
    gain: list[Vector]
    means: Means
    after: Filtered


def elements(lanes: Lanes) -> Elements:
    """The first passes, forward from a known state and backward from nothing."""
    p, shape = lanes.space.size, lanes.omega.shape[1:]
    zero = np.zeros(shape, lanes.omega.dtype)
    nothing = np.zeros(lanes.omega.shape[:2] + (1,))
    known = Lanes(lanes.space, lanes.table, lanes.omega, [nothing] * p + lanes.responses)
    q = len(lanes.responses)
    unit = cast(Means, [[zero + float(i == j) for j in range(p)] + [zero] * q for i in range(p)])
    end = forward(known, Filtered(diagonal_matrix([zero] * p, lower=True), unit))
    blank: Means = [[zero] * q for _ in range(p)]
    after, _, _ = backward(lanes, Filtered(diagonal_matrix([zero] * p, lower=False), blank))
    return Elements(end.spread, [row[:p] for row in end.means], [row[p:] for row in end.means], after)


def before_stretches(parts: Elements, start: Filtered, count: int) -> Filtered:
    """The state before each stretch given everything before it."""
    states, now = [], start
    for s in range(count):
        states.append(now)
        if s == count - 1:
            break
        after = _pick(parts.after, s)
        spread, p = now.spread, now.spread.size
        gaps = innovations(now, after)
        for k in range(p):
            direction = [after.spread.entry(i, k) if i <= k else None for i in range(p)]
            spread, _, _ = reduced(spread, direction, after.spread.diagonal[k])
        means = _shifted(spread, now.means, gaps)
        gain = _pick_rows(parts.gain, s)
        own = _pick_triangle(parts.spread, s)
        rows = beside(transformed(gain, spread), columns_of(own))
        moved = factor(rows, [*spread.diagonal, *own.diagonal], lower=True)
        now = Filtered(moved, _carried(gain, means, _pick_rows(parts.means, s)))
    return _stack(states)


def after_stretches(parts: Elements, count: int) -> Filtered:
    """What all rows after each stretch tell of the state at its end."""
    p, q = parts.spread.size, len(parts.means[0])
    sample = _pick_rows(parts.gain, 0)[0][0] * 0.0
    now = Filtered(diagonal_matrix([sample] * p, lower=False), [[sample] * q for _ in range(p)])
    states = []
    for s in range(count - 1, -1, -1):
        states.append(now)
        if s == 0:
            break
        own, gain = _pick_triangle(parts.spread, s), _pick_rows(parts.gain, s)
        told = innovations(Filtered(own, _pick_rows(parts.means, s)), now)
        shifted: Means = [[told[c][i] for c in range(q)] for i in range(p)]
        spread, means = noised(Filtered(now.spread, shifted), columns_of(own), own.diagonal)
        after = _pick(parts.after, s)
        rows = beside(transformed(gain, spread, transpose=True), columns_of(after.spread))
        joined = factor(rows, [*spread.diagonal, *after.spread.diagonal], lower=False)
        transposed = [[gain[j][i] for j in range(p)] for i in range(p)]
        now = Filtered(joined, _carried(transposed, means, after.means))
    return _stack(states[::-1])


def _shifted(spread: Triangle, means: Means, gaps: list[Vector]) -> Means:
    """m + P g for each response."""
    p, out = spread.size, [list(row) for row in means]
    for c, gap in enumerate(gaps):
        scaled = []
        for k in range(p):
            along = gap[k]
            for i in range(k + 1, p):
                along = along + number(spread.off[i][k]) * gap[i]
            scaled.append(spread.diagonal[k] * along)
        for i in range(p):
            total = scaled[i]
            for k in range(i):
                total = total + number(spread.off[i][k]) * scaled[k]
            out[i][c] = out[i][c] + total
    return out


def _carried(gain: list[Vector], means: Means, own: Means) -> Means:
    """gain m + own."""
    out: Means = []
    for i, row in enumerate(gain):
        totals = []
        for c, value in enumerate(own[i]):
            for j, g in enumerate(row):
                value = value + g * means[j][c]
            totals.append(value)
        out.append(totals)
    return out


def _take(entry: Entry | None, stretch: int) -> Entry | None:
    """One stretch of an entry: a plain number for one problem, else an array over problems."""
    if entry is None or np.ndim(entry) == 0:
        return entry
    row: Array = entry[stretch]  # type: ignore[index]
    return row.item() if row.size == 1 else row


def _pick_triangle(triangle: Triangle, stretch: int) -> Triangle:
    off = [[_take(entry, stretch) for entry in row] for row in triangle.off]
    return Triangle([number(_take(d, stretch)) for d in triangle.diagonal], off, triangle.lower)


def _pick_rows(rows: list[Vector], stretch: int) -> list[Vector]:
    return [[number(_take(entry, stretch)) for entry in row] for row in rows]


def _pick(state: Filtered, stretch: int) -> Filtered:
    return Filtered(_pick_triangle(state.spread, stretch), _pick_rows(state.means, stretch))


def _stack(states: list[Filtered]) -> Filtered:
    """States by stretch as one state on lanes."""

    def join(entries: list[Entry]) -> Array:
        arrays = [np.atleast_1d(np.asarray(entry)) for entry in entries]
        return np.stack(np.broadcast_arrays(*arrays))

    first = states[0].spread
    p, q = first.size, len(states[0].means[0])
    off = empty(p)
    for i in range(p):
        for j in range(p):
            if (j < i) if first.lower else (j > i):
                off[i][j] = join([number(s.spread.off[i][j]) for s in states])
    spread = Triangle([join([s.spread.diagonal[i] for s in states]) for i in range(p)], off, first.lower)
    return Filtered(spread, [[join([s.means[i][c] for s in states]) for c in range(q)] for i in range(p)])


def lay_out(space: StateSpace, gaps: Array, omega: Array, responses: list[Array]) -> tuple[Lanes, Layout]:
    """Rows in order, (n, problems) each (or (n, 1) where problems share them), as lanes."""
    layout = Layout.of(len(omega), max(omega.shape[1], gaps.shape[1]))
    table = [layout.lay(column) for column in space.table(gaps)]
    shape = (1, 1, max(omega.shape[1], gaps.shape[1]))
    laid = np.broadcast_to(layout.lay(omega), np.broadcast_shapes(layout.lay(omega).shape, shape))
    return Lanes(space, table, laid, [layout.lay(y) for y in responses]), layout


def both_ways(lanes: Lanes, start: Filtered, *, left_out: bool = True) -> tuple[Record, list[Array], Array]:
    """A forward record from the true starts, and (if wanted) every row's left-out means and variance."""
    count = lanes.omega.shape[1]
    parts = elements(lanes)
    record = Record.of(lanes)
    forward(lanes, before_stretches(parts, start, count), record)
    if not left_out:
        return record, [], np.empty(0)
    _, means, variance = backward(lanes, after_stretches(parts, count), record)
    return record, means, variance
