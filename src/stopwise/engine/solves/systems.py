"""Ridge systems of one problem at any penalty: what the default rule and the estimate ask of a solver.

`FactorSystem` holds the matrix and factors it anew at each penalty; every row is left out, exactly. `AnchorSystem` (see
`anchor`) has one factor for all penalties near. Where no matrix is held (see `products`), `UnitSystem` leaves rows out
alone by their unit vectors, and `FoldSystem` a share of them together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from stopwise._support.array_library import library_of
from stopwise._support.arrays import Array
from stopwise.engine.solves.factor import Factor, factor
from stopwise.engine.solves.preconditioned import Product, Tally
from stopwise.engine.solves.shifted_descent import Resolvent

KNOWN = 1e-4
"""How far unfinished work may put the mean squared error of rows left out alone off, relative to it."""


class RidgeSystem(ABC):
    """Ridge at any penalty, and residuals of rows left out there; `responses` (n, q) are weighted, centred.

    What stands here is true where every row is left out, alone and exactly.
    """

    def __init__(self, responses: Array, n_samples: float) -> None:
        self.responses, self.n_samples = responses, n_samples
        self.library, self.tally = library_of(responses), Tally()

    @abstractmethod
    def multiply(self, block: Array) -> Array:
        """A block."""

    @abstractmethod
    def at(self, penalty: float, tol: float = 1e-6) -> Resolvent:
        """Solves at a penalty, of which iterations may leave `tol` of the responses."""

    @abstractmethod
    def left_out(self, penalty: float) -> Array:
        """Residuals of `rows_left_out`, each predicted by others, in weighted coordinates, (m, q), on the host."""

    @property
    def rows_left_out(self) -> Array:
        """Which rows `left_out` tells of."""
        return np.arange(len(self.responses))

    @property
    def weight(self) -> float:
        """Samples that the rows left out stand for."""
        return self.n_samples

    @property
    def together(self) -> float:
        """The share of rows left out at once; zero for each alone."""
        return 0.0

    def grow(self) -> bool:
        """Leave more rows out; False where that cannot be."""
        return False

    def guessed(self) -> float:
        """Standard error that guessed residuals add to differences of mean squared errors."""
        return 0.0

    def unsolved(self, penalty: float) -> Array:
        """Root mean square by which unfinished solves may put the residuals of `left_out` off, for each response."""
        return np.zeros(self.responses.shape[1])

    def expect(self, penalty: float, share: float) -> None:
        """About where the stop is, and its root mean squared left-out error over that of the responses."""

    @property
    def search_tol(self) -> float:
        """How far fitted values may be off, relative to the responses, before it would be seen."""
        return 1e-4

    @property
    def rounding(self) -> float:
        """Of products, relative to the largest eigenvalue."""
        return 1e-12

    @property
    def affordable(self) -> float:
        """The smallest penalty that is read."""
        return 0.0

    @property
    def factored(self) -> float | None:
        """The penalty at which solves cost next to nothing, if there is one."""
        return None

    def start_vector(self, seed: int) -> Array:
        """Where to look for the largest eigenvalue from."""
        return self.library.take(np.random.default_rng([3, seed]).normal(size=len(self.responses)))


class FactorSystem(RidgeSystem):
    """A held matrix. `matrix` makes A anew (weighted, centred, unscaled), `product` multiplies with it."""

    def __init__(
        self,
        matrix: Callable[[], Array],
        constant: Array | None,
        responses: Array,
        n_samples: float,
        product: Product,
        counts: Array | None = None,
    ) -> None:
        super().__init__(responses, n_samples)
        self._matrix, self._constant, self._product, self._counts = matrix, constant, product, counts
        self._last: Factor | None = None

    def multiply(self, block: Array) -> Array:
        self.tally.columns += block.shape[1]
        return self._product(block)

    def at(self, penalty: float, tol: float = 0.0) -> Factor:
        """The factor at a penalty; the last one is kept."""
        if self._last is None or self._last.penalty != penalty:
            self._last = None  # room for the next
            self.tally.products += 1
            self._last = factor(self._matrix, penalty, self._constant)
        return self._last

    def left_out(self, penalty: float) -> Array:
        return self.library.host(self.at(penalty).left_out(self.responses, self._counts) + 0.0)
