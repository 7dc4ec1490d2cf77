"""Rows cut into stretches that are processed side by side, and joined end to end.

Python is slow a row at a time; so every stretch is passed as if the state before it were known, the stretches are
joined, and passed again from their true ends. Joining is composing conditional distributions (Sarkka &
Garcia-Fernandez 2021), in triangles. A few neighbours become one longer stretch, all such groups side by side, and so
on until few are left: a scan of logarithmic depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line import triangles as tri
from stopwise.engine.line.pass_records import (
    Filtered,
    Innovations,
    Lanes,
    Likelihood,
    Means,
    States,
    Told,
    known_states,
    nothing,
)
from stopwise.engine.line.passes import adjoint, backward, error_told, forward, innovations, narrowed
from stopwise.engine.line.transitions import StateSpace
from stopwise.engine.line.triangles import Entry, Triangle, Vector

_FULL_LANES = 8192
"""Lanes times problems beyond which more of them no longer save time: vectors of 64 kB, a handful to a core's cache."""
_SHORTEST = 8
"""Rows of a stretch at least: joining is no cheaper than passing a few rows."""
_GROUP = 4
"""Neighbours that become one; any number from 2 to 8 takes about as long."""


@dataclass(frozen=True)
class Layout:
    """How n things in order become (length, stretches): padded at the end with zeros, that are nowhere and say
    nothing."""

    count: int
    stretches: int
    length: int

    @classmethod
    def of(cls, count: int, length: int) -> Layout:
        return cls(count, -(-count // length), length)

    def lay(self, values: Array) -> Array:
        """(..., n) -> (length, ..., stretches): neighbours in memory are processed at once."""
        short = self.stretches * self.length - self.count
        if short:
            values = np.concatenate([values, np.zeros((*values.shape[:-1], short), values.dtype)], axis=-1)
        return np.ascontiguousarray(np.moveaxis(values.reshape(*values.shape[:-1], -1, self.length), -1, 0))

    def rows(self, values: Array) -> Array:
        """The way back: (length, ..., stretches) -> (..., n)."""
        return np.moveaxis(values, 0, -1).reshape(*values.shape[1:-1], -1)[..., : self.count]


@dataclass(frozen=True)
class Elements:
    """What each stretch does to any state before it: the state after it is N(gain x + means, spread), and its rows tell
    of x as much as `after`. Arrays are (problems, stretches)."""

    spread: Triangle
    gain: list[Vector]
    means: Means
    after: Filtered

    def each(self, change: Callable[[Array], Array]) -> Elements:
        """The same change to every array."""
        after = Filtered(_each_triangle(self.after.spread, change), _each(self.after.means, change))
        spread = _each_triangle(self.spread, change)
        return Elements(spread, _each(self.gain, change), _each(self.means, change), after)


def _groups(count: int) -> Layout:
    """Neighbours that become one; all of few."""
    return Layout.of(count, count if count <= 2 * _GROUP else _GROUP)


def joined(parts: Elements, start: Filtered) -> tuple[Filtered, Filtered]:
    """The state before each stretch given everything before it, and what all after it tell of the state at its end."""
    p, q = parts.spread.size, len(parts.means[0])
    problems, count = np.shape(parts.gain[0][0])
    layout = _groups(count)
    laid = parts.each(layout.lay)
    starts, ends = start, nothing(np.zeros((problems, 1)), p, q)
    if layout.stretches > 1:
        starts, ends = joined(_together(laid, p, q), start)
    before, after = _stack(_before(laid, starts)[:-1]), _stack(_after(laid, ends)[1:])
    return _by_row(before, layout), _by_row(after, layout)


def _together(laid: Elements, p: int, q: int) -> Elements:
    """Neighbours composed, (length, problems, groups) -> (problems, groups): gains from unit states."""
    zero = np.zeros(np.shape(laid.gain[0][0])[1:])
    silent: Vector = [0.0] * p
    after = Filtered(laid.after.spread, [[*silent, *row] for row in laid.after.means])
    known = Elements(laid.spread, laid.gain, [[*silent, *row] for row in laid.means], after)
    end = _before(known, known_states(zero, p, q))[-1]
    told = _after(laid, nothing(zero, p, q))[0]
    return Elements(end.spread, [row[:p] for row in end.means], [row[p:] for row in end.means], told)


def _before(parts: Elements, start: Filtered) -> list[Filtered]:
    """The state before each stretch given everything before it, and after the last."""
    states = [start]
    for s in range(len(parts.gain[0][0])):  # type: ignore[arg-type]
        part, now = parts.each(lambda column, s=s: column[s]), states[-1]  # type: ignore[misc]
        spread, told = narrowed(now.spread, part.after.spread), innovations(now, part.after)
        by_response = zip(zip(*now.means, strict=True), told, strict=True)
        means = [
            [m + step for m, step in zip(mean, tri.applied(spread, gap), strict=True)] for mean, gap in by_response
        ]
        rows = tri.beside(tri.product(part.gain, tri.columns_of(spread)), tri.columns_of(part.spread))
        moved = tri.factor(rows, [*spread.diagonal, *part.spread.diagonal], lower=True)
        states.append(Filtered(moved, _carried(part.gain, means, part.means)))
    return states


def _after(parts: Elements, end: Filtered) -> list[Filtered]:
    """What all rows from each stretch on tell of the state before it, and those after the last of the state there."""
    states = [end]
    for s in range(len(parts.gain[0][0]) - 1, -1, -1):  # type: ignore[arg-type]
        part, now = parts.each(lambda column, s=s: column[s]), states[-1]  # type: ignore[misc]
        told = error_told(Filtered(part.spread, part.means), now)
        back = [list(row) for row in zip(*part.gain, strict=True)]
        rows = tri.beside(tri.product(back, tri.columns_of(told.spread)), tri.columns_of(part.after.spread))
        both = tri.factor(rows, [*told.spread.diagonal, *part.after.spread.diagonal], lower=False)
        states.append(Filtered(both, _carried(back, list(zip(*told.means, strict=True)), part.after.means)))
    return states[::-1]


def _carried(gain: Sequence[Sequence[Entry]], means: Sequence[Sequence[Entry]], own: Means) -> Means:
    """gain m + own, means given by response."""
    return [
        [tri.number(tri.inner(row, mean)) + value for mean, value in zip(means, values, strict=True)]
        for row, values in zip(gain, own, strict=True)
    ]


def _each(rows: list[Vector], change: Callable[[Array], Array]) -> list[Vector]:
    return [[change(entry) if isinstance(entry, np.ndarray) else entry for entry in row] for row in rows]


def _each_triangle(triangle: Triangle, change: Callable[[Array], Array]) -> Triangle:
    off: list[list[Entry | None]] = [
        [change(entry) if isinstance(entry, np.ndarray) else entry for entry in row] for row in triangle.off
    ]
    return Triangle(_each([triangle.diagonal], change)[0], off, triangle.lower)


def _stack(states: list[Filtered]) -> Filtered:
    """States one after another as one state."""

    def join(entries: list[Entry]) -> Array:
        return np.stack(np.broadcast_arrays(*map(np.atleast_2d, entries)))

    first = states[0].spread
    p, q = first.size, len(states[0].means[0])
    off = tri.empty(p)
    for i in range(p):
        for j in range(p):
            if (j < i) if first.lower else (j > i):
                off[i][j] = join([tri.number(s.spread.off[i][j]) for s in states])
    spread = Triangle([join([s.spread.diagonal[i] for s in states]) for i in range(p)], off, first.lower)
    return Filtered(spread, [[join([s.means[i][c] for s in states]) for c in range(q)] for i in range(p)])


def _by_row(state: Filtered, layout: Layout) -> Filtered:
    return Filtered(_each_triangle(state.spread, layout.rows), _each(state.means, layout.rows))


def chained(transfer: Array, driven: Array, start: Array) -> Array:
    """The states x_0 = start, x_(s+1) = transfer_s x_s + driven_s: (p, p, n), (p, q, n), (p, q, 1) -> (p, q, n)."""
    n = transfer.shape[-1]
    layout = _groups(n)
    moves, own, now = layout.lay(transfer), layout.lay(driven), start
    if layout.stretches > 1:
        gain, total = moves[0], own[0]
        for t in range(1, layout.length):
            gain, total = _product(moves[t], gain), _product(moves[t], total) + own[t]
        now = chained(gain, total, start)
    states = []
    for move, added in zip(moves, own, strict=True):
        states.append(now)
        now = _product(move, now) + added
    return layout.rows(np.stack(states))


def _product(left: Array, right: Array) -> Array:
    """Matrix products along the last axis."""
    return cast(Array, np.einsum("ijs,jqs->iqs", left, right))


def elements(lanes: Lanes) -> Elements:
    """The first pass, forward from a known state."""
    p, shape = lanes.space.size, lanes.omega.shape[1:]
    zero = np.zeros(shape, lanes.omega.dtype)
    silent = np.zeros((lanes.length, 1, shape[-1]))
    known = Lanes(lanes.space, lanes.table, lanes.omega, [silent] * p + lanes.responses)
    q = len(lanes.responses)
    told = Told(zero, p, q)
    end = forward(known, known_states(zero, p, q), told)
    return Elements(end.spread, [row[:p] for row in end.means], [row[p:] for row in end.means], told.now)


def lay_out(space: StateSpace, gaps: Array, omega: Array, responses: list[Array]) -> tuple[Lanes, Layout]:
    """Rows in order, (n, problems) each (or (n, 1) where problems share them), as lanes."""
    problems = max(omega.shape[1], gaps.shape[1])
    layout = Layout.of(len(omega), max(_SHORTEST, -(-len(omega) * problems // _FULL_LANES)))
    table = [layout.lay(column.T) for column in space.table(gaps)]
    laid = layout.lay(omega.T)
    laid = np.broadcast_to(laid, np.broadcast_shapes(laid.shape, (1, problems, 1)))
    return Lanes(space, table, laid, [layout.lay(y.T) for y in responses]), layout


def likelihood(lanes: Lanes, start: Filtered) -> Likelihood:
    """The determinant and energies alone."""
    sums = Likelihood(lanes)
    forward(lanes, joined(elements(lanes), start)[0], sums)
    return sums


def solves(lanes: Lanes, start: Filtered) -> tuple[Innovations, list[Array], Array]:
    """The forward pass, C^-1 y for each response, and the diagonal of C^-1."""
    before, after = joined(elements(lanes), start)
    kept = Innovations(lanes)
    end = forward(lanes, before, kept)
    return kept, *adjoint(lanes, error_told(end, after), kept)


def posterior(lanes: Lanes, start: Filtered) -> tuple[Likelihood, list[Array], Array]:
    """The forward pass, and at each place the means and the variance of f given all rows but the one there."""
    before, after = joined(elements(lanes), start)
    states = States(lanes)
    forward(lanes, before, states)
    return states, *backward(lanes, after, states)
