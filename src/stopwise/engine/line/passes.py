"""One pass over the rows in each direction, on many lanes at once.

Forward: the distribution of the state at a row given those before it, as a covariance (a Kalman filter in Bierman and
Thornton's form). Backward: what the rows after it tell of the state, as an information matrix; put together they give
the distribution at any place given all rows, with nothing subtracted from anything. Or of the error of the forward
pass (de Jong 1989): that gives C^-1 y and the diagonal of C^-1, and so what each row's neighbours predict there.

`omega` is a row's precision, weight / penalty; rows without an observation have 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from stopwise._support.arrays import Array
from stopwise.engine.line import triangles as tri
from stopwise.engine.line.pass_records import Filtered, Innovations, Lanes, Means, Seen, States, Watcher
from stopwise.engine.line.transitions import Step
from stopwise.engine.line.triangles import ONE, Columns, Entry, Triangle, Vector


def forward(lanes: Lanes, start: Filtered, watcher: Watcher) -> Filtered:
    """The state after the last row of each lane; the watcher is shown every row."""
    spread, means = start.spread, start.means
    for t in range(lanes.length):
        move, omega = lanes.step(t), lanes.omega[t]
        spread, means = _moved(move, spread), _applied(move.matrix, means)
        shrunk = 1.0 / (1.0 + spread.diagonal[0] * omega)
        weight = omega * shrunk
        gain = spread.diagonal[0] * weight
        innovations = [y[t] - mean for y, mean in zip(lanes.responses, means[0], strict=True)]
        watcher.see(Seen(Filtered(spread, means), innovations, shrunk, weight, gain))
        steps = [gain * v for v in innovations]
        means = [
            [
                mean + (step if i == 0 else tri.number(spread.off[i][0]) * step)
                for mean, step in zip(row, steps, strict=True)
            ]
            for i, row in enumerate(means)
        ]
        spread = Triangle([spread.diagonal[0] * shrunk, *spread.diagonal[1:]], spread.off, True)
    return Filtered(spread, means)


def _moved(move: Step, spread: Triangle) -> Triangle:
    """A P A' + Q."""
    rows = tri.beside(tri.product(move.matrix, tri.columns_of(spread)), move.noise)
    return tri.factor(rows, [*spread.diagonal, *move.weights], lower=True)


def _applied(matrix: Columns, means: Means) -> Means:
    """A m."""
    by_response = list(zip(*means, strict=True))
    return [[tri.number(tri.inner(row, mean)) for mean in by_response] for row in matrix]


def backward(lanes: Lanes, end: Filtered, states: States) -> tuple[list[Array], Array]:
    """At every place the mean of f given all rows but the one there (one array a response), and its variance."""
    means_out, variance = [lanes.blank() for _ in lanes.responses], lanes.blank()
    information, means = end.spread, end.means
    for t in range(lanes.length - 1, -1, -1):
        move, omega = lanes.step(t), lanes.omega[t]
        variance[t], values = _joined(states.before[t], Filtered(information, means))
        for target, value in zip(means_out, values, strict=True):
            target[t] = value
        information = Triangle([information.diagonal[0] + omega, *information.diagonal[1:]], information.off, False)
        means = [[m + omega * y[t] for m, y in zip(means[0], lanes.responses, strict=True)], *means[1:]]
        information, means = noised(Filtered(information, means), move.noise, move.weights)
        back = tri.transposed(move.matrix)
        information = tri.factor(tri.product(back, tri.columns_of(information)), information.diagonal, lower=False)
        means = _applied(back, means)
    return means_out, variance


def adjoint(lanes: Lanes, end: Filtered, kept: Innovations) -> tuple[list[Array], Array]:
    """C^-1 y (one array a response) and the diagonal of C^-1, from what rows after each lane tell of its last state's
    error: r and N of de Jong (1989), sums of squares alone."""
    solved, diagonal = [lanes.blank() for _ in lanes.responses], lanes.blank()
    spread, means = end.spread, end.means
    for t in range(lanes.length - 1, -1, -1):
        gain, weight = kept.gains[t], kept.inverse_variance[t]
        columns = tri.columns_of(spread)
        along = tri.product([gain], columns)[0]
        scaled = [d * tri.number(k) for d, k in zip(spread.diagonal, along, strict=True)]
        diagonal[t] = tri.number(tri.inner(scaled, along)) + weight
        for c, target in enumerate(solved):
            target[t] = kept.innovations[t][c] * weight - tri.number(tri.inner(gain, [row[c] for row in means]))
        means = [[m + u[t] for m, u in zip(means[0], solved, strict=True)], *means[1:]]
        # (I - K e_0')'T beside e_0, of weight 1 / F: what is left of the error after the row, and the row itself.
        first = [tri.number(entry) - tri.number(k) for entry, k in zip(columns[0], along, strict=True)]
        rows: Columns = [[*first, ONE], *([*row, None] for row in columns[1:])]
        back = tri.transposed(lanes.step(t).matrix)
        spread = tri.factor(tri.product(back, rows), [*spread.diagonal, weight], lower=False)
        means = _applied(back, means)
    return solved, diagonal


def error_told(end: Filtered, after: Filtered) -> Filtered:
    """What rows after a state tell of its error, from what they tell of the state itself."""
    shifted = tri.transposed(innovations(end, after)) or [[] for _ in after.means]
    return Filtered(*noised(Filtered(after.spread, shifted), tri.columns_of(end.spread), end.spread.diagonal))


def noised(now: Filtered, columns: Sequence[Sequence[Entry | None]], weights: Vector) -> tuple[Triangle, Means]:
    """(M^-1 + W diag(weights) W')^-1 and what becomes of M^-1-weighted means: process noise seen by an information
    matrix, or observations of W'x (with value 0) seen by a covariance."""
    spread, means = now.spread, now.means
    for k, weight in enumerate(weights):
        direction = [row[k] for row in columns]
        spread, gain, alpha = tri.reduced(spread, direction, weight)
        share = weight / alpha
        means = [list(row) for row in means]
        for c in range(len(means[0])):
            step = share * tri.number(tri.inner(direction, [row[c] for row in means]))
            for i, g in enumerate(gain):
                means[i][c] = means[i][c] - g * step
    return spread, means


def _joined(before: Filtered, after: Filtered) -> tuple[Entry, Vector]:
    """Variance and means of f from a covariance with its means and an information matrix with its own."""
    spread = narrowed(before.spread, after.spread)
    gaps = zip(before.means[0], innovations(before, after), strict=True)
    return spread.diagonal[0], [mean + tri.applied(spread, gap)[0] for mean, gap in gaps]


def narrowed(spread: Triangle, information: Triangle) -> Triangle:
    """(P^-1 + J)^-1."""
    for direction, weight in zip(zip(*tri.columns_of(information), strict=True), information.diagonal, strict=True):
        spread, _, _ = tri.reduced(spread, direction, weight)
    return spread


def innovations(before: Filtered, after: Filtered) -> list[Vector]:
    """eta - J m for each response: what the rows after say beyond the mean from the rows before."""
    return [
        [told - known for told, known in zip(of_response, tri.applied(after.spread, mean), strict=True)]
        for of_response, mean in zip(zip(*after.means, strict=True), zip(*before.means, strict=True), strict=True)
    ]
