"""About how long each engine takes, from a table of rates: nothing is timed at fit, so the choice is deterministic.

Rates are seconds per unit of work, measured by `benchmarks/large.py --rates` on two cores of a server processor and on
one H200; another machine is faster or slower by about the same factor in every column, which leaves the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from stopwise.kernels import Kernel
from stopwise.kernels.expressions import AbsoluteDistance
from stopwise.kernels.forms import form_of, has_form

READINGS, ESTIMATE = 7, 13
"""Penalties at which left-out errors are read: six to eight in practice; and solves of an estimate by descent."""
FOLD_SHARE, FOLD_ROWS, LEAST_LEFT_OUT = 20, 4_000, 1_500
"""Rows left out together: one in so many, and at most so many; and how many are left out before the stop is judged at
all, since a standard error from fewer is itself too unsure."""
SINGLE_ROWS = 5_000
"""From here on a factor in float32 pays, on a processor: in float64 it takes twice the time, a second and more."""
ANCHOR_POINTS = 3
"""Points that penalties around an anchor take, of every row left out: two to four in practice."""
DEVICE_ROWS = 3_000
"""From here on a GPU pays: loading torch takes seconds."""
LEAST_PRODUCTS = 10
"""No solve takes fewer products than this."""
_PRECONDITIONED, _COLUMN_BYTES = 0.8, 2.5 * 8.0
"""Of the free memory, what a preconditioner may take; and of each row and column of it, at its peak."""
UNSEEN = 0.02
"""How far fitted values may be off, relative to the left-out error, before it would be seen there."""


@dataclass(frozen=True)
class Machine:
    """What work costs on a kind of machine, and what is therefore asked of it.

    Seconds: `eigenpairs`, `cholesky` and `inverse` per n^3, `entry` per kernel entry made and multiplied.
    """

    eigenpairs: float
    cholesky: float
    inverse: float
    entry: float
    held_entry: float
    """Per entry of a matrix in memory that is multiplied with a few columns."""
    low_rank: float
    """Per n r^2."""
    products: float
    """Steps of conjugate gradients that a solve is counted with: 40 at a large penalty, 300 and more where there is
    little noise. On a GPU a cost that is sure (a factor) is better than one that may be ten times as large; on a
    processor a factor of 20,000 rows takes a minute, and only products are left."""
    every_row: int
    """Up to here a factor leaves out every row, which doubles its cost (on a GPU: six times); beyond, a fold."""
    alone_rows: int
    """Up to here products leave rows out alone, a column for each; beyond, a fold together. At 2,000 rows, one thread:
    6 to 15 s where folds take 2 to 5, and 50 s where their solves come to no end."""
    rank: int
    """Columns of a preconditioner, at most: as much work as a handful of products with a block of sixteen."""
    solve: float
    """Seconds that one solve by products may take: penalties that would take longer are not read."""
    middle_rows: int
    """Of many more rows, so many on which a factor reads the stop first, for seconds: a better start saves readings,
    and from few rows a penalty may come out too small, where a solve takes ten times the products."""
    patience: float = 1_000.0
    """Seconds, by these pessimistic counts, beyond which landmarks serve better."""
    launch: float = 0.0
    """Of a step of conjugate gradients, whatever its size: a device waits for the host."""
    in_place: float = 0.0
    """A Cholesky factor that overwrites half of a matrix, per n^3,"""
    column: float = 0.0
    """and a solve with its triangle, per n^2 and column of many; float32 takes half of both."""

    def product(self, n_rows: int, *, held: bool) -> float:
        """Seconds of one product of all pairs of rows with a few columns."""
        return self.launch + float(n_rows) ** 2 * (self.held_entry if held else self.entry)

    def fusing(self, kernel: Kernel, n_features: int) -> Machine:
        """The same device multiplying with a kernel in fused tiles: one takes ten times as long as another.

        Seconds of an entry with sixteen columns, fitted to the rates of `benchmarks/gpu.py` (within a quarter of them).
        """
        if not has_form(kernel):
            return self
        form = form_of(kernel.core)
        apart = sum(isinstance(leaf, AbsoluteDistance) for leaf in form.leaves)
        one_by_one = n_features * (apart + len(form.growths))  # what no matrix product gives
        by_product = n_features * (len(form.leaves) - apart)
        kinked = form.rough and not form.separable  # so that distances take three products
        return replace(self, entry=4.5e-13 + 1.0e-13 * one_by_one + 1.3e-14 * by_product + 9e-13 * kinked)

    def columns(self, n_rows: int, free: float) -> int:
        """Columns of a preconditioner of so many rows, in so many bytes of free memory."""
        return max(min(self.rank, n_rows // 4, int(_PRECONDITIONED * free / (_COLUMN_BYTES * n_rows))), 1)

    def affordable_products(self, n_rows: int) -> float:
        """Products that one solve may take."""
        return max(self.solve / self.product(n_rows, held=False), LEAST_PRODUCTS)


HOST = Machine(
    eigenpairs=1.5e-10,
    cholesky=7e-12,
    inverse=8e-12,
    entry=8e-9,
    held_entry=9e-10,
    low_rank=2e-11,
    products=100,
    every_row=15_000,
    alone_rows=3_000,
    rank=1_500,
    solve=30.0,
    middle_rows=4_000,
    in_place=4e-12,
    column=1.2e-11,
)
"""`in_place` and `column` from one thread: 6.8e-12 and 2.1e-11 s at 8,000 rows, over 1.7 for two cores."""
DEVICE = Machine(
    eigenpairs=6e-13,
    cholesky=1.05e-14,
    inverse=5.5e-14,
    entry=6e-13,
    held_entry=3.5e-12,
    low_rank=6e-14,
    products=300,
    every_row=30_000,
    alone_rows=3_000,
    rank=5_000,
    solve=10.0,
    middle_rows=16_000,
    launch=2e-3,
)
"""`entry` is of a Gaussian kernel in ten dimensions."""


def fold_size(n_rows: int, most: int = FOLD_ROWS) -> int:
    return max(min(n_rows // FOLD_SHARE, most), 1)


def folds_needed(n_rows: int) -> int:
    """Folds that are left out before a stop is judged."""
    return -(-LEAST_LEFT_OUT // fold_size(n_rows))


def anchored(n_rows: int, rates: Machine) -> float:
    """Seconds of the default rule by one factor for all penalties near the stop, or (few rows) by one at each.

    Every row's entry of the inverse is counted with each factor: chance in a sample of rows often asks for it. One
    factor reaches all penalties where some thousand rows give a good start (`middle_rows`).
    """
    if n_rows <= 2 * rates.middle_rows:
        return far_off(n_rows, rates) * (0.5 if n_rows > SINGLE_ROWS else 1.0)
    n = float(n_rows)
    points = 2 * ANCHOR_POINTS * rates.column * n**2 * min(n, LEAST_LEFT_OUT)
    return 0.5 * ((rates.in_place + rates.inverse) * n**3 + points) + ESTIMATE * rates.product(n_rows, held=True)


def far_off(n_rows: int, rates: Machine) -> float:
    """The same where the stop is far from where it was looked for, and small: a factor in float64 at each reading.

    So it is for responses with long tails: few rows have most of the error, and a sample says little of them.
    """
    each = (rates.in_place + rates.inverse) * float(n_rows) ** 3
    return READINGS * each + ESTIMATE * rates.product(n_rows, held=True)


def engine_costs(n_rows: int, rates: Machine, *, has_room: bool) -> dict[str, float]:
    """Seconds of the default rule by preconditioned solves, by a factor and by all eigenpairs.

    The first: by a matrix and its factor in one square where that `has_room`, else by products.
    """
    n, rank, every_row = float(n_rows), min(rates.rank, n_rows // 4), n_rows <= rates.every_row
    reading = rates.cholesky + rates.inverse if every_row else rates.cholesky * folds_needed(n_rows)
    product = rates.product(n_rows, held=False)
    solve = max(min(rates.products * product, rates.solve), LEAST_PRODUCTS * product)
    by_products = rates.low_rank * n * rank**2 + (READINGS * folds_needed(n_rows) + ESTIMATE) * solve
    one_factor = anchored(n_rows, rates) if has_room else math.inf
    by_factors = one_factor if has_room and not every_row else (READINGS * reading + 2 * rates.cholesky) * n**3
    return {"preconditioned": min(by_products, one_factor), "factor": by_factors, "dense": rates.eigenpairs * n**3}
