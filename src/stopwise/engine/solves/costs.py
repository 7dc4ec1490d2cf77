"""About how long each engine takes, from a table of rates: nothing is timed at fit, so the choice is deterministic.

Rates are seconds per unit of work, measured by `benchmarks/large.py --rates` on two cores of a server processor and on
one H200; another machine is faster or slower by about the same factor in every column, which leaves the choice.
"""

from __future__ import annotations

from dataclasses import dataclass

READINGS = 7
"""Penalties at which left-out errors are read: six to eight in practice."""
HOST_PRODUCTS, DEVICE_PRODUCTS = 100, 300
"""Steps of conjugate gradients at a penalty: 40 where it is large, 300 and more where there is little noise. On a GPU a
cost that is sure (a factor) is better than one that may be ten times as large; on a processor a factor of 20,000 rows
takes a minute, and only products are left."""
HOST_EVERY_ROW, DEVICE_EVERY_ROW = 5_000, 30_000
"""Up to here a factor leaves out every row, which doubles its cost (on a GPU: six times); beyond, folds."""

DEVICE_ROWS = 3_000
"""From here on a GPU pays: loading torch takes seconds."""
HOST_PATIENCE, DEVICE_PATIENCE = 1_000.0, 600.0
"""Seconds, by these pessimistic counts, beyond which landmarks (on a GPU: a Krylov space) serve better."""
HOST_SOLVE, DEVICE_SOLVE = 30.0, 10.0
"""Seconds that one solve by products may take: a fit takes about six such."""


@dataclass(frozen=True)
class Rates:
    """Seconds: `eigenpairs`, `cholesky` and `inverse` per n^3, `entry` per kernel entry made and multiplied."""

    eigenpairs: float
    cholesky: float
    inverse: float
    entry: float
    held_entry: float
    """Per entry of a matrix in memory that is multiplied with a few columns."""
    low_rank: float
    """Per n r^2."""
    products: float
    """Steps that a solve by conjugate gradients is counted with."""
    launch: float = 0.0
    """Of a step of conjugate gradients, whatever its size: a device waits for the host."""

    def product(self, n_rows: int, *, held: bool) -> float:
        """Seconds of one product of all pairs of rows with a few columns."""
        return self.launch + float(n_rows) ** 2 * (self.held_entry if held else self.entry)


HOST = Rates(1.5e-10, 7e-12, 8e-12, 8e-9, 9e-10, 2e-11, HOST_PRODUCTS)
DEVICE = Rates(6e-13, 1.05e-14, 5.5e-14, 3.5e-12, 3.5e-12, 6e-14, DEVICE_PRODUCTS, 2e-3)


@dataclass(frozen=True)
class Cost:
    """About how long, and why."""

    engine: str
    seconds: float


def engine_costs(n_rows: int, rates: Rates, *, every_row: int, rank: int, held: bool) -> list[Cost]:
    """The default rule by all eigenpairs, by a factor and by preconditioned solves, cheapest first."""
    n = float(n_rows)
    reading = rates.cholesky + (rates.inverse if n_rows <= every_row else 0.0)
    product = rates.product(n_rows, held=held)
    solves = (READINGS + 2) * rates.products
    costs = [
        Cost("dense", rates.eigenpairs * n**3),
        Cost("factor", (READINGS * reading + 2 * rates.cholesky) * n**3),
        Cost("preconditioned", rates.low_rank * n * rank**2 + solves * product),
    ]
    return sorted(costs, key=lambda cost: cost.seconds)
