"""Kernels of one covariate as states that move from place to place: x' = A x + noise of covariance Q, f = x[0].

Sobolev of order p is Brownian motion integrated p - 1 times (Wahba 1978); Matern p - 1/2 is a stationary process of p
states (Hartikainen & Sarkka 2010). Q is given by columns with positive weights, each formed without cancelling: its
entries shrink like gap^(2p-1), and a difference of covariances would have no digits left at small gaps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc

from stopwise._support.arrays import Array
from stopwise.engine.line import triangles as tri
from stopwise.engine.line.triangles import ONE, Columns, Entry, Triangle, Vector
from stopwise.kernels.base import Kernel
from stopwise.kernels.radial import Laplace, Matern
from stopwise.kernels.sobolev import Sobolev
from stopwise.kernels.warped import Warped


@dataclass(frozen=True)
class Step:
    """One move, for all lanes: A by rows, and Q = `noise` diag(`weights`) `noise`'."""

    matrix: Columns
    noise: Columns
    weights: Vector


class StateSpace(ABC):
    """A kernel on the line with a finite state."""

    size: int
    """States: p."""
    diffuse: bool
    """True where freeing the constant is freeing the first state at the start."""

    @abstractmethod
    def gaps(self, covariate: Array) -> Array:
        """From each place to the next of a sorted covariate, (n, problems), in the units in which `table` takes them;
        the first from where the state starts. Differences come before scaling, so that a tiny gap keeps its digits."""

    @abstractmethod
    def start(self) -> Triangle:
        """Covariance of the state where it starts, at place 0 or (stationary) anywhere: numbers, or (problems, 1)."""

    @abstractmethod
    def table(self, gaps: Array) -> list[Array]:
        """What a move over each gap needs, computed once."""

    @abstractmethod
    def step(self, row: list[Array]) -> Step:
        """The move whose table row(s) these are."""


@dataclass(frozen=True)
class Spline(StateSpace):
    """Sobolev of order 1 or 2: f^(order) is white noise; f and its slope start at 0, or free with variance 1."""

    kernel: Sobolev
    diffuse = True

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.kernel.order

    def gaps(self, covariate: Array) -> Array:
        left, right = self.kernel.ends()
        return np.maximum(np.diff(covariate, prepend=left), 0.0)[:, None] / (right - left)

    def start(self) -> Triangle:
        return tri.diagonal_matrix([0.0 if self.kernel.anchored else 1.0] * self.size, lower=True)

    def table(self, gaps: Array) -> list[Array]:
        return [gaps] if self.size == 1 else [gaps, gaps / 3.0, gaps / 4.0]

    def step(self, row: list[Array]) -> Step:
        gap = row[0]
        if self.size == 1:
            return Step([[ONE]], [[ONE]], [gap])
        # Q = [[g^3/3, g^2/2], [g^2/2, g]] = sum of two squares, with no division by the gap.
        return Step([[ONE, gap], [None, ONE]], [[gap, None], [1.5, ONE]], [row[1], row[2]])


_FORGOTTEN = 1_000.0
"""A gap over which exp(-s) leaves nothing that a float holds; powers of much longer ones would overflow beside it."""


@dataclass(frozen=True)
class Stationary(StateSpace):
    """Matern 1/2, 3/2, 5/2 in units of its rate: k = polynomial(s) exp(-s), s = sqrt(2 nu) |x - z| / l."""

    size: int  # type: ignore[misc]
    rate: float | Array
    """sqrt(2 nu) / length scale: one number, or one for each of several problems."""
    diffuse = False

    def gaps(self, covariate: Array) -> Array:
        across = np.diff(covariate, prepend=covariate[:1])[:, None] * np.atleast_1d(self.rate)
        return np.asarray(np.minimum(across, _FORGOTTEN))

    def start(self) -> Triangle:
        if self.size < 3:
            return tri.diagonal_matrix([1.0] * self.size, lower=True)
        off = tri.empty(3)
        off[2][0] = -1.0 / 3.0  # cov(f, f'') = -var(f') = -1/3
        return Triangle([1.0, 1.0 / 3.0, 8.0 / 9.0], off, True)

    def table(self, gaps: Array) -> list[Array]:
        decay = np.exp(-gaps)
        if self.size == 1:
            return [decay, -np.expm1(-2.0 * gaps)]
        return [gaps, decay, *(_noise2(gaps) if self.size == 2 else _noise3(gaps))]

    def step(self, row: list[Array]) -> Step:
        if self.size == 1:
            return Step([[row[0]]], [[ONE]], [row[1]])
        g, e = row[0], row[1]
        if self.size == 2:
            ge = g * e
            return Step([[e + ge, ge], [-ge, e - ge]], [[ONE, None], [row[3], ONE]], [row[2], row[4]])
        d0, l10, l20, d1, l21, d2 = row[2:]
        noise: Columns = [[ONE, None, None], [l10, ONE, None], [l20, l21, ONE]]
        return Step(_triple_root(g, e), noise, [d0, d1, d2])


@dataclass(frozen=True)
class WithSharedNoise(StateSpace):
    """A curve f and noise u that neighbours share, Cov u = level exp(-rate gap): states (f + u, the others of f, u)."""

    curve: StateSpace
    rate: Array
    """Over a unit of the curve's gaps; one for each of several problems."""
    level: Array
    """Var u in units of the kernel, one for each."""
    diffuse = False

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.curve.size + 1

    def gaps(self, covariate: Array) -> Array:
        return self.curve.gaps(covariate)

    def start(self) -> Triangle:
        of_curve, p = self.curve.start(), self.curve.size
        rows: Columns = [[*row, None] for row in tri.columns_of(of_curve)] + [[None] * (p + 1)]
        rows[0][p] = rows[p][p] = ONE
        return tri.factor(rows, [*of_curve.diagonal, self.level[:, None]], lower=True)

    def table(self, gaps: Array) -> list[Array]:
        shape = np.broadcast_shapes(gaps.shape, (1, self.rate.size))
        of_curve = [np.broadcast_to(column, shape) for column in self.curve.table(gaps)]
        return [*of_curve, np.exp(-gaps * self.rate), self.level * -np.expm1(-2.0 * gaps * self.rate)]

    def step(self, row: list[Array]) -> Step:
        move, kept = self.curve.step(row[:-2]), row[-2]
        matrix: Columns = [
            [*entries, (kept if i == 0 else 0.0) - tri.number(entries[0])] for i, entries in enumerate(move.matrix)
        ]
        noise: Columns = [[*entries, ONE if i == 0 else None] for i, entries in enumerate(move.noise)]
        none: list[Entry | None] = [None] * len(move.weights)
        return Step([*matrix, [*([None] * self.curve.size), kept]], [*noise, [*none, ONE]], [*move.weights, row[-1]])


@dataclass(frozen=True)
class DrawnIn(StateSpace):
    """A kernel of a covariate that is drawn in by a power, which keeps its order: only gaps are others."""

    inner: StateSpace
    kernel: Warped

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.inner.size

    @property
    def diffuse(self) -> bool:  # type: ignore[override]
        return self.inner.diffuse

    def gaps(self, covariate: Array) -> Array:
        return self.inner.gaps(np.maximum.accumulate(self.kernel.places(covariate[:, None])[:, 0]))

    def start(self) -> Triangle:
        return self.inner.start()

    def table(self, gaps: Array) -> list[Array]:
        return self.inner.table(gaps)

    def step(self, row: list[Array]) -> Step:
        return self.inner.step(row)


def _triple_root(g: Array, e: Array) -> Columns:
    """exp(F g), F the companion matrix of (z + 1)^3: e (I + N g + N^2 g^2 / 2) with N = F + I nilpotent."""
    a, b = g * e, 0.5 * g * g * e
    return [
        [e + a + b, a + 2.0 * b, b],
        [-b, e + a - 2.0 * b, a - b],
        [b - a, 2.0 * b - 3.0 * a, e - 2.0 * a + b],
    ]


def _noise2(g: Array) -> list[Array]:
    """L and d of Q = 4 int_0^g phi phi', phi = (s, 1 - s) e^-s; int_0^g s^k e^-2s ds = k! / 2^(k+1) P(k+1, 2g)."""
    e2 = np.exp(-2.0 * g)
    q00 = gammainc(3, 2.0 * g)
    q01 = 2.0 * g * g * e2
    q11 = 4.0 * g * e2 + q00
    l10 = _ratio(q01, q00)
    return [q00, l10, np.maximum(q11 - l10 * q01, 0.0)]


def _noise3(g: Array) -> list[Array]:
    """L and d of Q = (4/3) int_0^g phi phi', phi = (s^2, 2s - s^2, 2 - 4s + s^2) e^-s."""
    e2 = np.exp(-2.0 * g)
    p5 = gammainc(5, 2.0 * g)
    x = 2.0 * g
    p4 = p5 + x**4 * e2 / 24.0
    p3 = p4 + x**3 * e2 / 6.0
    p2 = p3 + x**2 * e2 / 2.0
    p1 = p2 + x * e2
    value, slope = g * g, 2.0 * g - g * g
    q01 = (2.0 / 3.0) * value**2 * e2
    q11 = (4.0 / 3.0) * (p3 - 1.5 * p4 + 0.75 * p5)
    q02 = (4.0 / 3.0) * value * slope * e2 - q11
    q12 = (2.0 / 3.0) * slope**2 * e2
    q22 = (4.0 / 3.0) * (2.0 * p1 - 4.0 * p2 + 5.0 * p3 - 3.0 * p4 + 0.75 * p5)
    l10, l20 = _ratio(q01, p5), _ratio(q02, p5)
    d1 = np.maximum(q11 - l10 * q01, 0.0)
    l21 = _ratio(q12 - l20 * q01, d1)
    return [p5, l10, l20, d1, l21, np.maximum(q22 - l20 * q02 - l21 * l21 * d1, 0.0)]


def _ratio(top: Array, bottom: Array) -> Array:
    """top / bottom, 0 where the gap (and so both) is 0."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def state_space(kernel: Kernel) -> StateSpace | None:
    """The state-space form of a kernel of one covariate, or None where it has none."""
    if isinstance(kernel, Warped):
        inner = state_space(kernel.inner)
        return None if inner is None else DrawnIn(inner, kernel)
    if isinstance(kernel, Sobolev):
        return Spline(kernel)
    if isinstance(kernel, Laplace):
        return Stationary(1, 1.0 / float(kernel.scales[0]))
    if isinstance(kernel, Matern):
        return Stationary(int(kernel.smoothness + 0.5), math.sqrt(2.0 * kernel.smoothness) / float(kernel.scales[0]))
    return None
