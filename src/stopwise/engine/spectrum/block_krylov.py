"""Block Krylov: the spectrum of K, and of K with respect to the responses, from a few products.

The space starts from a block that holds the responses and random probes, and grows by one product with K at a time,
fully reorthogonalised. On it K is a small matrix T = Q'KQ whose eigenpairs (Ritz pairs) stand for those of K:

- Responses lie in the space, so everything that reads them (fits, residuals, norms) converges like Gauss quadrature.
- Ritz values never exceed eigenvalues, so with the exact trace the complexity is over-estimated: `Spectrum.bound`.
- Probes lie in the space too: each z'phi(K)z is known as well, so traces of any function get a statistical estimate,
  exact on converged pairs and averaged over probes elsewhere (`Spectrum.density`), calibrated to the trace and, where
  known, the Frobenius norm, with jackknife replicas over groups of probes for its error.
- Where the operator can count eigenvalues (`operators.counting`) no probes are needed: the space holds the responses
  alone, and sums over the spectrum come from the counts.

The store holds tall blocks and does their algebra, so that a device or a cluster can keep them: see `Store`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.engine.operators.eigenvalue_counts import GROUPS, Counting
from stopwise.engine.operators.running_sums import Line
from stopwise.engine.spectrum.column_store import Block, NumpyStore, Store
from stopwise.engine.spectrum.eigenpairs import clean_eigenvalues
from stopwise.engine.spectrum.probe_traces import calibrated, pooled
from stopwise.spectrum import Density, Spectrum, spread_density

__all__ = ["GROUPS", "BlockKrylov", "Multiplier", "NumpyStore", "Store", "with_diagonal"]

_CONVERGED = 1e-3
"""A Ritz pair counts as an eigenpair when its residual is below this share of its value."""
_POLE_CYCLE = (10.0, 10.0, 3.0, 30.0)
"""Where a rational space puts its poles, in units of 1/step_sum at the stop: ten makes exp(-eta lambda) a polynomial of
degree 15 in the smoother, to 2e-7."""
_FIRST_POLES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Poles in units of the largest eigenvalue, as long as nothing is known of the stop."""


class Multiplier(Protocol):
    """What the driver asks of an operator; blocks are whatever the store holds."""

    n_rows: int
    n_samples: float
    centred: bool

    @property
    def trace(self) -> float: ...
    @property
    def square_sum(self) -> float | None: ...
    def multiply(self, block: Block) -> Block: ...


@dataclass
class BlockKrylov:
    """The growing space. Call `grow` for one more product and `spectrum` for what is known by now."""

    operator: Multiplier
    store: Store
    responses: Array
    n_probes: int
    seed: int = 0
    precision: float = 2.2e-16
    counting: Counting | None = None
    """Counts of eigenvalues where the operator has them: then sums over the spectrum need no probes."""
    one_sided: bool = False
    """Whether `Spectrum.bound` is what decides: then it is made as sharp as the products allow."""
    below: Callable[[int], Array | None] | None = None
    """Numbers, largest first, that do not exceed the eigenvalues, where the operator can give them without products.
    Asked after the first products for effort 0, and for more where that pays (None: no more to be had)."""

    def __post_init__(self) -> None:
        self.n_responses = self.responses.shape[1]
        self.products = 0
        self.steps = 0
        """Products of this space itself; `products` counts those of further probes too."""
        self.complete = False
        self.rational = isinstance(self.operator, Line) and self.operator.rational
        """Grown by the operator's own `expand` instead of by K: residuals are then computed, not read off."""
        self.pole = 0.0
        self.poles: list[float] = []
        self._others: list[list[Density]] = []
        self._below = np.zeros(0)
        self._effort = -1
        self._draws = 0
        self._projected = np.zeros((0, 0))
        self.processed = 0
        self._coupling = np.zeros((0, 0))
        block, scales = self.store.start(self.responses, self.n_probes, self.seed)
        pending = self._orthonormal(block, 1e-10)
        if pending is None:
            self.complete = True
            self._start_coordinates = np.zeros((0, len(scales)))
            return
        self.store.append(pending)
        self._start_coordinates = self.store.inner(block) * scales

    # ---- growing --------------------------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        """How large the space can get: rows, less one direction for an intercept."""
        return self.operator.n_rows - int(self.operator.centred)

    def _orthonormal(self, block: Block, smallest: float, *, clean: bool = False) -> Block | None:
        """Columns orthonormal to each other and to all held; directions below `smallest` are dropped.

        A `clean` block is so already but for a last pass.
        """
        for attempt in range(0 if clean else 2):
            if self.store.width:
                block = self.store.remove(block, self.store.inner(block))
            unit, r = self.store.factor(block)
            left, sizes, _ = np.linalg.svd(r)
            keep = sizes > (smallest if attempt == 0 else 0.5)
            if not keep.any():
                return None
            block = self.store.turn(unit, left[:, keep])
        if self.store.width:
            block = self.store.remove(block, self.store.inner(block))
        return self.store.factor(block)[0]

    def grow(self) -> bool:
        """Multiply the newest block, project K, and add the next block; False when the space is exhausted."""
        if self.complete:
            return False
        first, last = self.processed, self.store.width
        newest = self.store.block(first, last)
        image = self.operator.multiply(newest)
        self.products += 1
        self.steps += 1
        across = self.store.inner(image)
        self._extend_projection(across, first, last)
        if self.rational:
            image = cast(Line, self.operator).expand(cast(Array, newest), self._next_pole())
            across = self.store.inner(image)
        rest = self.store.remove(image, across)
        again = self.store.inner(rest)
        rest = self.store.remove(rest, again)
        unit, r = self.store.factor(rest)
        self._coupling = r
        size = 1.0 if self.rational else float(np.abs(np.diagonal(self._projected)).max(initial=0.0))
        self._next(unit, r, max(size, np.finfo(float).tiny))
        return not self.complete

    def _next_pole(self) -> float:
        if self.pole:
            pole = self.pole * _POLE_CYCLE[self.steps % len(_POLE_CYCLE)]
        else:
            pole = _FIRST_POLES[(self.steps - 1) % len(_FIRST_POLES)] * float(np.diagonal(self._projected).max())
        self.poles.append(pole)
        return pole

    def _extend_projection(self, across: Array, first: int, last: int) -> None:
        grown = np.zeros((last, last))
        grown[:first, :first] = self._projected
        grown[:, first:last] = across
        grown[first:last, :first] = across[:first].T
        self._projected = grown
        self.processed = last

    def _next(self, unit: Block, r: Array, scale: float) -> None:
        if self.processed >= self.dimension:
            self.complete = True
            return
        floor = max(100 * self.precision, 1e-14) * scale * np.sqrt(self.operator.n_rows) ** 0.5
        left, sizes, _ = np.linalg.svd(r)
        keep = sizes > floor
        room = self.dimension - self.processed
        block = self.store.turn(unit, left[:, keep][:, :room]) if keep.any() else None
        clean = self.precision < 1e-12 and float(sizes[keep].min(initial=np.inf)) > 1e-6 * float(sizes.max(initial=0))
        block = None if block is None else self._orthonormal(block, 0.5, clean=clean)
        if block is None:
            block = self._fresh(scale, room)
        if block is None:
            self.complete = True
        else:
            self.store.append(block)

    def _fresh(self, scale: float, room: int) -> Block | None:
        """After a breakdown: a random block if there is trace left to find, else None."""
        left = self.operator.trace - float(np.trace(self._projected))
        if left <= max(1e-12, 1e3 * self.precision) * max(self.operator.trace, scale):
            return None
        self._coupling = np.zeros((0, 0))
        self._draws += 1
        block = self.store.random(min(max(self.n_probes, 1), room), self.seed + 7919 * self._draws)
        return self._orthonormal(block, 1e-8)

    # ---- reading --------------------------------------------------------------------------------------------------

    def coordinates(self) -> Array:
        """The starting columns, responses then probes, in the columns held."""
        out = np.zeros((self.processed, self._start_coordinates.shape[1]))
        rows = min(self.processed, len(self._start_coordinates))
        out[:rows] = self._start_coordinates[:rows]
        return out

    def ritz(self) -> tuple[Array, Array, Array]:
        """Ritz values (descending), their coordinates, and the norms of their residuals."""
        matrix = (self._projected + self._projected.T) / 2
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[::-1], vectors[:, ::-1]
        if self.complete or not self._coupling.size:
            residuals = np.zeros_like(values)
        elif self.counting is not None:
            first = self._computed_residuals(values[:1], vectors[:, :1])
            residuals = np.append(first, np.full(values.size - 1, np.inf))
        elif self.rational:
            residuals = self._computed_residuals(values, vectors)
        else:
            tail = self._coupling.shape[1]
            residuals = np.linalg.norm(self._coupling @ vectors[-tail:], axis=0)
        # Once every direction is there, what is left below rounding of a product is rounding.
        noise = 8 * self.precision * max(self.operator.trace, 0.0) if self.complete else 0.0
        self._last_ritz = clean_eigenvalues(values, self.precision, rounding=noise), vectors, residuals
        return self._last_ritz

    def _computed_residuals(self, values: Array, vectors: Array) -> Array:
        """|K v - theta v| for the leading Ritz vectors, by one product; the others count as not converged."""
        leading = min(values.size, 128)
        known = self.store.basis(self.processed, vectors[:, :leading])
        ritz = known.combine(np.eye(leading))
        gap = self.operator.multiply(ritz) - ritz * values[:leading]
        return np.append(np.linalg.norm(gap, axis=0), np.full(values.size - leading, np.inf))

    def spectrum(self) -> Spectrum:
        """What is known by now, with a deterministic bound and a statistical estimate for the rest."""
        values, vectors, residuals = self.ritz()
        replicas: tuple[Density, ...]
        floor: Density | None = None
        n, trace = self.operator.n_samples, self.operator.trace
        if self.complete:
            density = Density(values, np.ones_like(values), n)
            trace, replicas, bound = density.trace, (), density
        elif self.counting is not None:
            cells = self.counting.cells
            density, replicas, bound, floor = cells.density, cells.replicas, cells.upper, cells.lower
        else:
            below = self._certain(values, vectors) if self.one_sided else values
            bound = spread_density(below, max(trace, float(below.sum())), n)
            density, replicas = self._statistical(values, vectors, residuals)
        largest = float(values[0] + residuals[0]) if values.size else 0.0
        if self.counting is not None:
            largest = self.counting.cells.largest(float(values[0]), float(residuals[0]))
        return Spectrum(
            eigenvalues=values,
            basis=self.store.basis(self.processed, vectors),
            trace=trace,
            n_samples=n,
            density=density,
            bound=bound,
            largest_bound=largest * (1 + 1e-13),
            complete=self.complete,
            replicas=replicas,
            converged=residuals <= _CONVERGED * values,
            residuals=residuals,
            products=self.products,
            floor=floor,
        )

    def _certain(self, values: Array, vectors: Array) -> Array:
        """The sharpest numbers known that do not exceed the eigenvalues: each the largest of its place."""
        lifted = self._lifted(values, vectors)
        if self.below is None:
            return lifted
        if self._effort < 0:
            self.sharpen()
        both = np.zeros((2, max(lifted.size, self._below.size)))
        both[0, : lifted.size], both[1, : self._below.size] = lifted, self._below
        return cast(Array, both.max(axis=0)[: self.dimension])

    def sharpen(self) -> bool:
        """Ask for better numbers below the eigenvalues; False where there are none."""
        assert self.below is not None
        better = self.below(self._effort + 1)
        if better is None:
            return False
        self._effort, self._below = self._effort + 1, better
        return True

    def _lifted(self, values: Array, vectors: Array) -> Array:
        """Numbers above Ritz values that do not exceed eigenvalues either, by what products say of the next block.

        K V = V diag(theta) + U G with U orthogonal to the space, so K is at least its Nystrom approximation from V,
        whose eigenvalues are those of diag(theta) + theta^-1/2 G'G theta^-1/2. Pairs that rounding may have touched
        are left out.
        """
        if self.rational or not self._coupling.size:
            return values
        sure = values > max(1e4 * self.precision, 1e-10) * float(values[0])
        tail = self._coupling.shape[1]
        outside = (self._coupling @ vectors[-tail:, sure]) / np.sqrt(values[sure])
        lifted = np.linalg.eigvalsh(np.diag(values[sure]) + outside.T @ outside)[::-1]
        return cast(Array, np.maximum(lifted, values[sure]))

    def response_coordinates(self) -> Array:
        """The responses in the Ritz vectors of the last `spectrum`."""
        return cast(Array, self._last_ritz[1].T @ self.coordinates()[:, : self.n_responses])

    def estimate_residual(self, weighted: Array) -> Array:
        """|K a - f| for weights a given by Ritz coefficients, (m, g): what the space cannot see of the estimate."""
        if self.complete or not self._coupling.size:
            return np.zeros(weighted.shape[1])
        values, vectors, _ = self._last_ritz
        if self.rational:
            basis = self.store.basis(self.processed, vectors)
            gap = self.operator.multiply(basis.combine(weighted)) - basis.combine(values[:, None] * weighted)
            return cast(Array, np.linalg.norm(gap, axis=0))
        tail = self._coupling.shape[1]
        return cast(Array, np.linalg.norm(self._coupling @ (vectors[-tail:] @ weighted), axis=0))

    def _statistical(self, values: Array, vectors: Array, residuals: Array) -> tuple[Density, tuple[Density, ...]]:
        probes = (vectors.T @ self.coordinates()[:, self.n_responses :]) ** 2
        # A pair that stands for several eigenvalues close together is no eigenpair, however small its residual: probes,
        # whose squares there have that number as their mean, tell.
        alone = probes.mean(axis=1) < 1 + 4 * np.sqrt(2 / max(probes.shape[1], 1))
        known = np.cumprod((residuals <= _CONVERGED * values) & alone).astype(bool)
        targets = [float(self.dimension - known.sum()), self.operator.trace - float(values[known].sum())]
        squares = self.operator.square_sum
        if squares is not None and self.steps > 1:
            targets.append(squares - float((values[known] ** 2).sum()))
        groups = np.array_split(np.arange(probes.shape[1]), min(GROUPS, probes.shape[1]))

        def density(columns: Array) -> Density:
            counts = np.ones_like(values)
            counts[~known] = calibrated(values[~known], probes[~known][:, columns].mean(axis=1), targets)
            return Density(values, counts, self.operator.n_samples)

        everyone = np.arange(probes.shape[1])
        replicas = [density(np.setdiff1d(everyone, group)) for group in groups] if len(groups) > 1 else []
        return pooled([[density(everyone), *replicas], *self._others])

    def more_probes(self, store: Store, draw: int) -> None:
        """As many probes again, in a space of their own with as many products: a second opinion on every trace."""
        nothing, seed = np.zeros((self.operator.n_rows, 0)), self.seed + 104729 * draw
        other = BlockKrylov(self.operator, store, nothing, self.n_probes, seed, self.precision)
        for step in range(self.steps):
            if self.rational:
                other.pole = self.poles[step] / _POLE_CYCLE[(step + 1) % len(_POLE_CYCLE)]
            if not other.grow():
                break
        self.products += other.products
        values, vectors, residuals = other.ritz()
        if other.complete:
            self._others.append([Density(values, np.ones_like(values), self.operator.n_samples)])
        else:
            mean, replicas = other._statistical(values, vectors, residuals)
            self._others.append([mean, *replicas])


def with_diagonal(spectrum: Spectrum, diagonal: Array) -> Spectrum:
    """The spectrum with what its known part leaves of the diagonal of K, as leverages need it."""
    assert spectrum.basis is not None
    left = np.maximum(diagonal - spectrum.basis.squared(spectrum.eigenvalues), 0.0)
    return replace(spectrum, diagonal_left=left)
