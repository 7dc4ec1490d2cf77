"""Products T diag(d) T' with T unit triangular: how covariance and information matrices are carried without roots.

Entries are numbers or arrays of one shape ("lanes": many independent problems at once), real or complex. Nothing here
subtracts two positive numbers, so no matrix loses its definiteness whatever the scales of its rows (Bierman 1977,
Factorization Methods for Discrete Sequential Estimation, chapters III and VI).

A covariance is kept with T lower (the value f first): observing f then touches d[0] alone. An information matrix is
kept with T upper: adding an observation of f touches d[0] alone again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from stopwise._support.arrays import Array

T = TypeVar("T")
Entry: TypeAlias = "Array | float | complex"
Vector: TypeAlias = "list[Entry]"
Columns: TypeAlias = "list[list[Entry | None]]"
"""A matrix by rows; None is an entry that is zero by structure."""

ONE = 1.0
"""An entry that is one by structure: where this very object stands, nothing is multiplied."""
TINY = 1e-290
"""Added to a divisor that may be exactly zero, where the numerator is then zero as well."""


@dataclass(frozen=True)
class Triangle:
    """T diag(d) T'. `off[i][j]` is T's entry in row i, column j; the diagonal of T is 1 and not stored."""

    diagonal: Vector
    off: list[list[Entry | None]]
    lower: bool

    @property
    def size(self) -> int:
        return len(self.diagonal)

    def order(self) -> range:
        """The order in which columns are eliminated: the column that has all rows comes first."""
        return range(self.size) if self.lower else range(self.size - 1, -1, -1)

    def below(self, column: int) -> range:
        """The rows in which a column of T has entries besides its 1."""
        return range(column + 1, self.size) if self.lower else range(column)


def empty(size: int) -> list[list[Entry | None]]:
    """A square of structural zeros."""
    return [[None] * size for _ in range(size)]


def diagonal_matrix(values: Vector, *, lower: bool) -> Triangle:
    return Triangle(list(values), empty(len(values)), lower)


def add(left: Entry | None, right: Entry | None) -> Entry | None:
    """left + right, None being zero."""
    if left is None:
        return right
    return left if right is None else left + right


def times(left: Entry | None, right: Entry | None) -> Entry | None:
    """left * right, None being zero."""
    if left is None or right is None:
        return None
    return right if left is ONE else left if right is ONE else left * right


def number(value: Entry | None) -> Entry:
    """None as 0."""
    return 0.0 if value is None else value


def transposed(matrix: Sequence[Sequence[T]]) -> list[list[T]]:
    """The columns of a matrix by rows."""
    return [list(column) for column in zip(*matrix, strict=True)]


def product(left: Sequence[Sequence[Entry | None]], right: Columns) -> Columns:
    """left right, by rows."""
    columns = list(zip(*right, strict=True))
    return [[inner(row, column) for column in columns] for row in left]


def applied(triangle: Triangle, vector: Sequence[Entry]) -> Vector:
    """T diag(d) T' vector."""
    rows = columns_of(triangle)
    scaled = [d * number(inner(c, vector)) for d, c in zip(triangle.diagonal, zip(*rows, strict=True), strict=True)]
    return [number(inner(row, scaled)) for row in rows]


def columns_of(triangle: Triangle) -> Columns:
    """T by rows."""
    p = triangle.size
    return [[ONE if i == k else triangle.off[i][k] for k in range(p)] for i in range(p)]


def beside(left: Columns, right: Columns) -> Columns:
    """[left, right]."""
    return [[*a, *b] for a, b in zip(left, right, strict=True)]


def factor(rows: Columns, weights: Vector, *, lower: bool) -> Triangle:
    """W diag(weights) W' as a triangle, by weighted modified Gram-Schmidt on the rows of W (Thornton and Bierman).

    `rows` is overwritten.
    """
    p, columns = len(rows), range(len(weights))
    off, diagonal = empty(p), [0.0] * p
    out = Triangle(diagonal, off, lower)  # type: ignore[arg-type]
    for i in out.order():
        own = rows[i]
        weighted = [times(weights[c], own[c]) for c in columns]
        d = inner(weighted, own)
        out.diagonal[i] = number(d)
        if d is None or not out.below(i):
            continue
        inverse = 1.0 / (d + TINY)
        for j in out.below(i):
            product = inner(weighted, rows[j])
            if product is None:
                continue
            multiple = product * inverse
            off[j][i] = multiple
            rows[j] = [
                other if mine is None else (-multiple * mine if other is None else other - multiple * mine)
                for other, mine in zip(rows[j], own, strict=True)
            ]
    return out


def inner(left: Sequence[Entry | None], right: Sequence[Entry | None]) -> Entry | None:
    """sum of products, None being zero."""
    total: Entry | None = None
    for a, b in zip(left, right, strict=True):
        total = add(total, times(a, b))
    return total


def reduced(triangle: Triangle, direction: Sequence[Entry | None], weight: Entry) -> tuple[Triangle, Vector, Entry]:
    """(M^-1 + weight g g')^-1 for M the triangle and g the direction, with M g and 1 + weight g'M g.

    Bierman's measurement update (1977, chapter V.3), with the precision `weight` in place of a variance. A covariance
    is reduced by what an observation of g'x tells; an information matrix by process noise along g.
    """
    off, diagonal = [list(row) for row in triangle.off], list(triangle.diagonal)
    gain: list[Entry | None] = [None] * triangle.size
    alpha: Entry = 1.0
    # Bierman's order starts with the column of T that has its 1 alone.
    for j in reversed(list(triangle.order())):
        f: Entry | None = direction[j]
        for i in triangle.below(j):
            f = add(f, times(triangle.off[i][j], direction[i]))
        if f is None:
            continue
        spread, scaled = number(times(triangle.diagonal[j], f)), number(times(weight, f))
        before = alpha
        alpha = alpha + scaled * spread
        diagonal[j] = triangle.diagonal[j] * (before / alpha)
        slope = -scaled / before
        for i in triangle.below(j):
            old = triangle.off[i][j]
            off[i][j] = add(old, times(gain[i], slope))
            gain[i] = add(gain[i], times(old, spread))
        gain[j] = add(gain[j], spread)
    return Triangle(diagonal, off, triangle.lower), [number(g) for g in gain], alpha
