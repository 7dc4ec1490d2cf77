"""Many solves at one penalty, products with the kernel's matrix, and predictions: passes that move means alone.

One pass over covariances gives each row's gain; then (G + a W^-1)^-1 b costs a mean filter and its adjoint (de Jong
1989, smoothing errors). Both are linear recurrences: stretches start from zero, and each stretch's true start enters
through how much its rows depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.line.fits import free_start, posterior_variance
from stopwise.engine.line.joins import chained, elements, joined, lay_out
from stopwise.engine.line.merged_rows import LineRows, merge_rows
from stopwise.engine.line.pass_records import Filtered, Innovations, Lanes
from stopwise.engine.line.passes import forward
from stopwise.engine.line.transitions import StateSpace, Step
from stopwise.engine.line.triangles import Entry, applied, inner, number, transposed
from stopwise.engine.operators.operator import KernelOperator
from stopwise.kernels import Kernel

State = list[Array]
"""One array a state, each (responses, stretches)."""


class LineFactor:
    """(G + a W^-1)^-1 on what an intercept leaves, factored once."""

    def __init__(self, rows: LineRows, space: StateSpace, penalty: float, *, intercept: bool) -> None:
        self.rows, self.space, self.penalty, self.intercept = rows, space, penalty, intercept
        omega = rows.weights[:, None] / penalty
        self.lanes, self.layout = lay_out(space, space.gaps(rows.covariate), omega, [])
        self._pass_covariances(omega)
        self._measure_starts()
        self._ones: Array | None = None
        if intercept and not space.diffuse:
            self._ones = self._solve(np.ones((rows.n_places, 1)))[:, 0]

    def _pass_covariances(self, omega: Array) -> None:
        """Each row's gain K_t and inverse innovation variance 1 / F_t."""
        nothing: list[list[Entry]] = [[] for _ in range(self.space.size)]
        start = Filtered(free_start(self.space, omega, self.intercept), nothing)
        kept = Innovations(self.lanes)
        forward(self.lanes, joined(elements(self.lanes), start)[0], kept)
        self.gains, self.inverse_innovation = kept.gains, kept.inverse_variance

    def _measure_starts(self) -> None:
        """How each row's prediction depends on the start of its stretch (forward) and its solution on the end."""
        p, shape = self.space.size, self.lanes.omega.shape
        unit = _units(p, shape[-1])
        zero = np.zeros((shape[0], p, shape[-1]))
        residuals, end = self._forward(zero, unit)
        self.from_start = -residuals
        self.transfer = np.stack(end)  # (p, p, stretches): end = transfer @ start
        solved, _ = self._backward(zero, unit)
        self.from_end = solved

    def _forward(self, block: Array, start: State) -> tuple[Array, State]:
        """Innovations of a mean filter, and its state after the last row."""
        means, out = start, np.empty_like(block)
        for t in range(self.lanes.length):
            means = _moved(self.lanes.step(t), means)
            out[t] = block[t] - means[0]
            means = [mean + gain * out[t] for mean, gain in zip(means, self.gains[t], strict=True)]
        return out, means

    def _backward(self, innovations: Array, end: State) -> tuple[Array, State]:
        """u = v / F - K'r and the adjoint r before the first row."""
        state, out = end, np.empty_like(innovations)
        for t in range(self.lanes.length - 1, -1, -1):
            told = innovations[t] * self.inverse_innovation[t]
            for r, gain in zip(state, self.gains[t], strict=True):
                told = told - gain * r
            out[t] = told
            state = _moved(self.lanes.step(t), [state[0] + told, *state[1:]], transpose=True)
        return out, state

    def _solve(self, block: Array) -> Array:
        """(G + a W^-1)^-1 block, (places, q)."""
        p, count = self.space.size, self.lanes.omega.shape[-1]
        laid = self.layout.lay(block.T)
        zero = [np.zeros((block.shape[1], count)) for _ in range(p)]
        residuals, ends = self._forward(laid, zero)
        none = np.zeros((p, block.shape[1], 1))
        starts = chained(self.transfer, np.stack(ends), none)
        residuals -= np.einsum("tis,iqs->tqs", self.from_start, starts)
        solved, begins = self._backward(residuals, zero)
        after = _chained_back(self.transfer, np.stack(begins), none)
        solved += np.einsum("tis,iqs->tqs", self.from_end, after)
        return self.layout.rows(solved).T

    def solve(self, block: Array) -> Array:
        """P block for a block (places, q)."""
        solved = self._solve(block)
        if self._ones is None:
            return solved
        return solved - np.outer(self._ones, solved.sum(axis=0) / self._ones.sum())

    def residual(self, block: Array, rough: int = 0) -> Array:
        """a (A + a I)^-1 block by row, A = D Gram D centred; none of its columns is `rough`.

        Rows at one place differ by what no kernel sees.
        """
        rows = self.rows
        root = np.sqrt(rows.row_weights)[:, None]
        mean = rows.sums(root * block) / rows.weights[:, None]
        left = self.penalty * self.solve(mean) / rows.weights[:, None]
        if rows.n_places == len(block):
            return cast(Array, root * rows.by_row(left))
        return cast(Array, block + root * rows.by_row(left - mean))

    def inverse(self, block: Array, start: Array | None = None) -> Array:
        """(A + a I)^-1 block by row; no guess is needed to `start` from."""
        return self.residual(block) / self.penalty


def _chained_back(transfer: Array, driven: Array, end: Array) -> Array:
    """The states after each stretch: r_(s-1) = transfer_s' r_s + driven_s, the last being `end`."""
    return chained(transfer[..., ::-1].swapaxes(0, 1), driven[..., ::-1], end)[..., ::-1]


def _units(p: int, stretches: int) -> State:
    """The p unit states, as so many responses."""
    return [np.repeat(row[:, None], stretches, axis=1) for row in np.eye(p)]


def _moved(step: Step, state: State, *, transpose: bool = False) -> State:
    """A state, or A' state."""
    rows = transposed(step.matrix) if transpose else step.matrix
    return [cast(Array, number(inner(row, state))) for row in rows]


@dataclass(frozen=True)
class LineProduct:
    """sum_j k(z_i, x_j) b_j at new places z in O(n + m): the prior covariance as an adjoint pass and a forward one."""

    space: StateSpace
    covariate: Array
    """Distinct places x, sorted."""

    def at(self, new: Array, block: Array) -> Array:
        """The products at new places for a block (places, q)."""
        places, where = np.unique(np.asarray(new, dtype=np.float64), return_inverse=True)
        together = np.concatenate([self.covariate, places])
        order = np.argsort(together, kind="stable")
        padded = np.concatenate([block, np.zeros((len(places), block.shape[1]))])[order]
        return self._product(together[order], padded)[order >= len(self.covariate)][where]

    def own(self, block: Array) -> Array:
        """The products at the places themselves: G block."""
        return self._product(self.covariate, block)

    def _product(self, covariate: Array, block: Array) -> Array:
        lanes, layout = lay_out(self.space, self.space.gaps(covariate), np.ones((len(covariate), 1)), [])
        laid, p, count = layout.lay(block.T), self.space.size, lanes.omega.shape[-1]
        zero = [np.zeros((block.shape[1], count)) for _ in range(p)]
        transfer = _open_loop(lanes)
        _, first = _adjoint(lanes, laid, zero)
        after = _chained_back(transfer, np.stack(first), np.zeros((p, block.shape[1], 1)))
        told, begin = _adjoint(lanes, laid, list(after))
        _, ends = _driven(lanes, told, zero)
        initial = applied(self.space.start(), [state[:, :1] for state in begin])
        before = chained(transfer, np.stack(ends), np.stack(initial))
        values, _ = _driven(lanes, told, list(before))
        return layout.rows(values).T


def _open_loop(lanes: Lanes) -> Array:
    """What a state at the start of each stretch becomes at its end, (p, p, stretches)."""
    state = _units(lanes.space.size, lanes.omega.shape[-1])
    for t in range(lanes.length):
        state = _moved(lanes.step(t), state)
    return np.stack(state)


def _adjoint(lanes: Lanes, block: Array, end: State) -> tuple[list[State], State]:
    """mu_t = A' mu_(t+1) + e_0 b_t at every step, and the state before the first row."""
    state, kept = end, []
    for t in range(lanes.length - 1, -1, -1):
        state = [state[0] + block[t], *state[1:]]
        kept.append(state)
        state = _moved(lanes.step(t), state, transpose=True)
    return kept[::-1], state


def _driven(lanes: Lanes, told: list[State], start: State) -> tuple[Array, State]:
    """x_t = A x_(t-1) + Q mu_t: x_t[0] at every step, and the last state."""
    state, values = start, []
    for t in range(lanes.length):
        step = lanes.step(t)
        state = _moved(step, state)
        for k, weight in enumerate(step.weights):
            column = [row[k] for row in step.noise]
            along = weight * number(inner(column, told[t]))
            state = [x if entry is None else x + entry * along for entry, x in zip(column, state, strict=True)]
        values.append(state[0])
    return np.stack(values), state


class LineOperator(KernelOperator):
    """K on a line for any kernel with a finite state: two passes a product."""

    def __init__(self, kernel: Kernel, space: StateSpace, covariates: Array, rows: LineRows, *, centred: bool) -> None:
        super().__init__(kernel, covariates, weights=rows.row_weights, centred=centred)
        self.rows = rows
        self.line = LineProduct(space, rows.covariate)

    def _gram_product(self, block: Array) -> Array:
        return self.rows.by_row(self.line.own(self.rows.sums(np.asarray(block, dtype=np.float64))))


def values_at(space: StateSpace, training: Array, dual_coef: Array, new: Array) -> Array:
    """sum_i k(x, x_i) a_i at new places, for weights (n, q)."""
    rows = merge_rows(training, np.zeros((len(training), 1)))
    return LineProduct(space, rows.covariate).at(new, rows.sums(dual_coef))


def variance_at(
    space: StateSpace, training: Array, weights: Array | None, penalties: Array, new: Array, *, intercept: bool
) -> Array:
    """Posterior variance of f in units of the noise variance, (m, penalties): the prior's far from the data.

    (k(x, x) - k_x' C^-1 k_x) / a with C = G + a W^-1, and the intercept's part; an infinite penalty leaves that alone.
    """
    rows = merge_rows(training, np.zeros((len(training), 1)), weights)
    out = np.full((len(new), len(penalties)), 1.0 / rows.n_samples if intercept else 0.0)
    for j, penalty in enumerate(penalties):
        if np.isfinite(penalty):
            out[:, j] = posterior_variance(rows, space, float(penalty), new, intercept=intercept) / penalty
    return out
