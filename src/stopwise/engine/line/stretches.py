"""Rows cut into stretches that are processed side by side.

Python is slow a row at a time; so every stretch is passed as if the state before it were known, the stretches are
joined end to end, and passed again from their true ends.
"""

from __future__ import annotations

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.joins import Elements, Layout, joined
from stopwise.engine.line.pass_records import Filtered, Innovations, Lanes, Likelihood, States, Told, known_states
from stopwise.engine.line.passes import adjoint, backward, error_told, forward
from stopwise.engine.line.transitions import StateSpace

_FULL_LANES = 8192
"""Lanes times problems beyond which more of them no longer save time: vectors of 64 kB, a handful to a core's cache."""
_SHORTEST = 8
"""Rows of a stretch at least: joining is no cheaper than passing a few rows."""


def elements(lanes: Lanes) -> Elements:
    """The first pass, forward from a known state."""
    p, shape = lanes.space.size, lanes.omega.shape[1:]
    zero = np.zeros(shape, lanes.omega.dtype)
    nothing = np.zeros((lanes.length, 1, shape[-1]))
    known = Lanes(lanes.space, lanes.table, lanes.omega, [nothing] * p + lanes.responses)
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
