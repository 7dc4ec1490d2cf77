"""A low-rank stand-in F F' for the Gram matrix, and (F F' + a I)^-1 at every penalty from one decomposition.

Pivots are drawn with probability proportional to what is left of the diagonal (randomly pivoted Cholesky: Chen,
Epperly, Tropp & Webber 2025), a block of proposals at a time with rejection (Epperly, Tropp & Webber 2024): (r + 1) n
entries of the matrix and O(r^2 n) multiplications. F F' never exceeds the matrix, so the preconditioned matrix has no
eigenvalue below one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stopwise._support.array_library import library_of
from stopwise._support.arrays import Array
from stopwise.engine.operators.centring import centred

_EXHAUSTED = 1e-14
"""Trace left over, relative to the whole, below which more pivots would be rounding."""
_PROPOSALS = 20
"""Pivots are drawn in about so many blocks."""


@dataclass(frozen=True)
class LowRank:
    """F F' + a I, inverted and halved for any penalty a > 0, with F = H diag(mask) `features`.

    `mask` takes rows out (zeros), `constant` is the direction q that H = I - q q' takes out; `features` is shared, not
    copied. `values`, `vectors` are the eigenpairs of F'F.
    """

    features: Array
    values: Array
    vectors: Array
    constant: Array | None = None
    mask: Array | None = None

    @property
    def rank(self) -> int:
        return int(self.features.shape[1])

    def inverse_root(self, block: Array, penalty: float) -> Array:
        """(F F' + a I)^-1/2 block = (block - F V g V' F' block) / sqrt(a) (Woodbury).

        g = (1 - sqrt(a / (Lambda + a))) / Lambda, written without cancellation.
        """
        root = (penalty / (self.values + penalty)) ** 0.5
        weights = 1 / ((self.values + penalty) * (1 + root))
        return (block - self._turned(block, weights)) / float(penalty**0.5)

    def root(self, block: Array, penalty: float) -> Array:
        """(F F' + a I)^1/2 block = sqrt(a) (block + F V g V' F' block), g = (sqrt(1 + Lambda / a) - 1) / Lambda."""
        weights = 1 / (penalty * (1 + (1 + self.values / penalty) ** 0.5))
        return (block + self._turned(block, weights)) * float(penalty**0.5)

    def _turned(self, block: Array, weights: Array) -> Array:
        """F V diag(weights) V' F' block."""
        inside = self.vectors.T @ self._down(block)
        inside = (inside.T * weights).T if block.ndim == 2 else inside * weights
        return self._up(self.vectors @ inside)

    def _down(self, block: Array) -> Array:
        """F' block."""
        inner = centred(block, self.constant)
        return self.features.T @ (inner if self.mask is None else _by_row(self.mask, inner))

    def _up(self, small: Array) -> Array:
        """F small."""
        outer = self.features @ small
        return centred(outer if self.mask is None else _by_row(self.mask, outer), self.constant)

    @property
    def first_vector(self) -> Array:
        """The eigenvector of F F' with the largest eigenvalue, not normalised, with a little of every other row."""
        top = self._up(self.vectors[:, -1])
        return top + 1e-3 * centred(top * 0.0 + float(abs(top).max()), self.constant)

    @cached_property
    def largest(self) -> float:
        """The largest eigenvalue of F F': just below the matrix's own."""
        return float(self.values.max()) if self.rank else 0.0


def _by_row(factors: Array, block: Array) -> Array:
    return factors[:, None] * block if block.ndim == 2 else factors * block


def stand_in_of(features: Array, gram: Array, constant: Array | None, mask: Array | None = None) -> LowRank:
    """F F' from features whose `gram` (masked features' inner products) is at hand."""
    if constant is not None:
        mean = features.T @ (constant if mask is None else constant * mask)
        gram = gram - mean[:, None] * mean[None, :]
    values, vectors = library_of(features).eigh((gram + gram.T) / 2)
    return LowRank(features, values.clip(0.0), vectors, constant, mask)


def randomly_pivoted(
    columns: Callable[[Array], Array], diagonal: Array, rank: int, generator: np.random.Generator
) -> tuple[Array, Array, float]:
    """F (n, r), its pivots and the trace left over, r <= rank (less where the matrix has no more to give)."""
    library = library_of(diagonal)
    n = len(diagonal)
    rank = min(rank, n)
    rows = library.zeros(n, rank)
    left, count, chosen = diagonal + 0.0, 0, []
    whole = float(diagonal.sum())
    while count < rank and float(left.sum()) > _EXHAUSTED * whole:
        drawn = _draw(library.host(left), min(max(rank // _PROPOSALS, 16), rank - count), generator)
        if not drawn.size:
            break
        block = columns(drawn) - rows[:, :count] @ rows[drawn, :count].T
        accepted = _accept(library.host(block[drawn]), library.host(left)[drawn], generator)
        lower = library.cholesky(block[drawn[accepted]][:, accepted] + 0.0)
        if lower is None:  # pivots that rounding cannot tell apart: the largest alone
            accepted = accepted[:1]
            lower = library.cholesky(block[drawn[accepted]][:, accepted] + 0.0)
        if lower is None:
            break
        # By its small inverse: triangular solves with a million columns take a second each on a device.
        inverse = library.solve_lower(lower, library.eye(len(accepted)))
        new = block[:, accepted] @ inverse.T
        rows[:, count : count + len(accepted)] = new
        left = (left - (new * new).sum(1)).clip(0.0)
        left[drawn[accepted]] = 0.0
        chosen.append(drawn[accepted])
        count += len(accepted)
    pivots = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
    return rows[:, :count], pivots, float(left.sum())


def _draw(left: Array, count: int, generator: np.random.Generator) -> Array:
    """Distinct rows, each proposal proportional to what is left of its diagonal."""
    chance = left / left.sum()
    return np.unique(generator.choice(len(left), size=count, p=chance))


def _accept(block: Array, before: Array, generator: np.random.Generator) -> Array:
    """Which proposals to keep: each with the share of its diagonal that those kept before leave it."""
    work = block.astype(np.float64, copy=True)
    kept: list[int] = []
    for i in generator.permutation(len(work)):
        if kept and generator.random() * before[i] >= work[i, i]:
            continue
        if work[i, i] <= 1e-10 * before[i]:
            continue
        kept.append(int(i))
        column = work[:, i] / np.sqrt(work[i, i])
        work -= np.outer(column, column)
    return np.array(kept or [int(np.argmax(before))], dtype=np.int64)
