"""Rows cut into stretches that are processed side by side, and joined end to end.

Python is slow a row at a time; so every stretch is passed as if the state before it were known, the stretches are
joined, and passed again from their true ends. Joining is composing conditional distributions (Sarkka &
Garcia-Fernandez 2021), in triangles. A few neighbours become one longer stretch, all such groups side by side, and so
on until few are left: a scan of logarithmic depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar, cast

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

R = TypeVar("R")
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


def _over(change: Callable[..., object], *parts: R) -> R:
    """A change of entries, one from each part, made in every place of lists and records that are built alike."""
    first: Any = parts[0]
    if isinstance(first, list):
        return cast(R, [_over(change, *entries) for entries in zip(*cast(Any, parts), strict=True)])
    if isinstance(first, _RECORDS):
        by_field = zip(*(vars(part).values() for part in parts), strict=True)
        return cast(R, type(first)(*(_over(change, *entries) for entries in by_field)))
    return cast(R, first if isinstance(first, bool) else change(*parts))


_RECORDS = Elements, Filtered, Triangle


def _arrays(record: R, change: Callable[[Array], Array]) -> R:
    """The same change to every array of a record; numbers stay."""
    return _over(lambda entry: change(entry) if isinstance(entry, np.ndarray) else entry, record)


def _groups(count: int) -> Layout:
    """Neighbours that become one; all of few."""
    return Layout.of(count, count if count <= 2 * _GROUP else _GROUP)


def joined(parts: Elements, start: Filtered) -> tuple[Filtered, Filtered]:
    """The state before each stretch given everything before it, and what all after it tell of the state at its end."""
    p, q = parts.spread.size, len(parts.means[0])
    problems, count = np.shape(parts.gain[0][0])
    layout = _groups(count)
    whole = _arrays(parts, layout.lay)
    laid = [_arrays(whole, itemgetter(s)) for s in range(layout.length)]
    starts, ends = start, nothing(np.zeros((problems, 1)), p, q)
    if layout.stretches > 1:
        starts, ends = joined(_together(laid, p, q), start)
    before, after = _stack(_before(laid, starts)[:-1]), _stack(_after(laid, ends)[1:])
    return _arrays(before, layout.rows), _arrays(after, layout.rows)


def _together(laid: list[Elements], p: int, q: int) -> Elements:
    """Neighbours composed, each a column of groups: gains from unit states."""
    zero = np.zeros(np.shape(laid[0].gain[0][0]))
    silent: Vector = [0.0] * p
    known = []
    for part in laid:
        after = Filtered(part.after.spread, [[*silent, *row] for row in part.after.means])
        known.append(Elements(part.spread, part.gain, [[*silent, *row] for row in part.means], after))
    end = _before(known, known_states(zero, p, q))[-1]
    told = _after(laid, nothing(zero, p, q))[0]
    return Elements(end.spread, [row[:p] for row in end.means], [row[p:] for row in end.means], told)


def _before(parts: list[Elements], start: Filtered) -> list[Filtered]:
    """The state before each stretch given everything before it, and after the last."""
    states = [start]
    for part in parts:
        now = states[-1]
        spread, told = narrowed(now.spread, part.after.spread), innovations(now, part.after)
        by_response = zip(zip(*now.means, strict=True), told, strict=True)
        means = [
            [m + step for m, step in zip(mean, tri.applied(spread, gap), strict=True)] for mean, gap in by_response
        ]
        rows = tri.beside(tri.product(part.gain, tri.columns_of(spread)), tri.columns_of(part.spread))
        moved = tri.factor(rows, [*spread.diagonal, *part.spread.diagonal], lower=True)
        states.append(Filtered(moved, _carried(part.gain, means, part.means)))
    return states


def _after(parts: list[Elements], end: Filtered) -> list[Filtered]:
    """What all rows from each stretch on tell of the state before it, and those after the last of the state there."""
    states = [end]
    for part in reversed(parts):
        told = error_told(Filtered(part.spread, part.means), states[-1])
        back = tri.transposed(part.gain)
        rows = tri.beside(tri.product(back, tri.columns_of(told.spread)), tri.columns_of(part.after.spread))
        both = tri.factor(rows, [*told.spread.diagonal, *part.after.spread.diagonal], lower=False)
        states.append(Filtered(both, _carried(back, tri.transposed(told.means), part.after.means)))
    return states[::-1]


def _carried(gain: Sequence[Sequence[Entry]], means: Sequence[Sequence[Entry]], own: Means) -> Means:
    """gain m + own, means given by response."""
    return [
        [tri.number(tri.inner(row, mean)) + value for mean, value in zip(means, values, strict=True)]
        for row, values in zip(gain, own, strict=True)
    ]


def _stack(states: list[Filtered]) -> Filtered:
    """States one after another as one state."""

    def join(*entries: Entry | None) -> Array | None:
        if all(entry is None for entry in entries):
            return None
        return np.stack(np.broadcast_arrays(*(np.atleast_2d(tri.number(entry)) for entry in entries)))

    return _over(join, *states)


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
