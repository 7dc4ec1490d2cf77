"""About how long each engine takes, from a table of rates: nothing is timed at fit, so the choice is deterministic.

Rates are seconds per unit of work, measured by `benchmarks/large.py --rates` on two cores of a server processor and on
one H200; another machine is faster or slower by about the same factor in every column, which leaves the choice.
"""

from __future__ import annotations

from dataclasses import dataclass

READINGS, ESTIMATE = 7, 13
"""Penalties at which left-out errors are read: six to eight in practice; and solves of an estimate by descent."""
HOST_PRODUCTS, DEVICE_PRODUCTS = 100, 300
"""Steps of conjugate gradients at a penalty: 40 where it is large, 300 and more where there is little noise. On a GPU a
cost that is sure (a factor) is better than one that may be ten times as large; on a processor a factor of 20,000 rows
takes a minute, and only products are left."""
HOST_EVERY_ROW, DEVICE_EVERY_ROW = 15_000, 30_000
"""Up to here a factor leaves out every row, which doubles its cost (on a GPU: six times); beyond, a factor a fold."""
FOLD_SHARE, FOLD_ROWS, LEAST_LEFT_OUT = 20, 4_000, 1_500
"""Rows left out together: one in so many, and at most so many; and how many are left out before the stop is judged at
all, since a standard error from fewer is itself too unsure."""

DEVICE_ROWS = 3_000
"""From here on a GPU pays: loading torch takes seconds."""
HOST_PATIENCE, DEVICE_PATIENCE = 1_000.0, 1_000.0
"""Seconds, by these pessimistic counts, beyond which landmarks (on a GPU: a Krylov space) serve better."""
HOST_SOLVE, DEVICE_SOLVE = 30.0, 10.0
"""Seconds that one solve by products may take: penalties that would take longer are not read,"""
LEAST_PRODUCTS = 10
"""but no solve takes fewer products than this."""


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


def folds(n_rows: int) -> tuple[int, int]:
    """Rows in a fold, and folds that are needed to judge a stop."""
    size = max(min(n_rows // FOLD_SHARE, FOLD_ROWS), 1)
    return size, -(-LEAST_LEFT_OUT // size)


def engine_costs(n_rows: int, rates: Rates, *, every_row: int, rank: int, held: bool, longest: float) -> list[Cost]:
    """The default rule by all eigenpairs, by a factor and by preconditioned solves (of at most `longest` seconds each,
    where that is enough), cheapest first."""
    n = float(n_rows)
    reading = rates.cholesky + rates.inverse if n_rows <= every_row else rates.cholesky * folds(n_rows)[1]
    product = rates.product(n_rows, held=held)
    solve = max(min(rates.products * product, longest), LEAST_PRODUCTS * product)
    solves = READINGS * folds(n_rows)[1] + ESTIMATE
    costs = [
        Cost("dense", rates.eigenpairs * n**3),
        Cost("factor", (READINGS * reading + 2 * rates.cholesky) * n**3),
        Cost("preconditioned", rates.low_rank * n * rank**2 + solves * solve),
    ]
    return sorted(costs, key=lambda cost: cost.seconds)
