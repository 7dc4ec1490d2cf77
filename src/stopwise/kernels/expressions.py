"""Small expressions of inner products, which every array library can evaluate.

An expression has `Dot` leaves, one matrix product each, whose rows are made ready once (`Dot.sides`); above them stand
a few element-wise nodes. Evaluated with torch or (to write source code) with text, it is the same formula.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from stopwise._support.arrays import Tensor

V = TypeVar("V")
"""What an expression is evaluated with: tensors, or the names of variables in source code."""


class Ops(Protocol[V]):
    """The element-wise arithmetic an expression needs, for one kind of value."""

    def affine(self, value: V, slope: float, shift: float) -> V:
        """slope * value + shift."""

    def add(self, first: V, second: V) -> V: ...
    def multiply(self, first: V, second: V) -> V: ...
    def exp2(self, value: V) -> V: ...
    def root(self, value: V) -> V:
        """sqrt(max(value, 0))."""


class Term(ABC):
    """A node. `times` and `plus` fold constants downwards, so that most of them end up in the rows of a leaf."""

    @abstractmethod
    def compute(self, ops: Ops[V], *parts: V) -> V:
        """The node's value from those of its parts."""

    @property
    def parts(self) -> tuple[Term, ...]:
        """The nodes below, in the order of the fields."""
        return tuple(part for part in vars(self).values() if isinstance(part, Term))

    def times(self, factor: float) -> Term:
        """The same expression times a positive constant."""
        return self if factor == 1 else Affine(self, slope=factor)

    def plus(self, shift: float) -> Term:
        """The same expression plus a constant."""
        return self if shift == 0 else Affine(self, shift=shift)

    def value(self, ops: Ops[V], memo: dict[Term, V]) -> V:
        """The node's value; `memo` holds the leaves, and every part that was computed before."""
        if self not in memo:
            memo[self] = self.compute(ops, *(part.value(ops, memo) for part in self.parts))
        return memo[self]

    def nodes(self) -> tuple[Term, ...]:
        """This node and every distinct one below it, in order of appearance."""
        return tuple(dict.fromkeys([self, *(node for part in self.parts for node in part.nodes())]))


@dataclass(frozen=True)
class Sides:
    """Rows of a leaf on both sides: its value at (i, j) is left_i . right_j + constant_i + constant_j + shift."""

    left: Tensor
    right: Tensor
    constant: Tensor
    shift: float


@dataclass(frozen=True)
class Dot(Term):
    """A leaf: factor * (a bilinear or squared-distance form of x and z) + shift."""

    factor: float
    shift: float = 0.0

    def compute(self, ops: Ops[V], *parts: V) -> V:
        raise KeyError(f"the leaf {self} was not given")

    def times(self, factor: float) -> Term:
        return replace(self, factor=self.factor * factor, shift=self.shift * factor)

    def plus(self, shift: float) -> Term:
        return replace(self, shift=self.shift + shift)

    @abstractmethod
    def sides(self, rows: Tensor, origin: Tensor) -> Sides:
        """The rows made ready, on their device."""

    @abstractmethod
    def diagonal(self, rows: Tensor) -> Tensor:
        """The value where x = z, for every row."""


@dataclass(frozen=True)
class Distance(Dot):
    """A leaf of (x - z) / scales that is `shift` where x = z; `origin` is taken off first to keep rounding small."""

    scales: tuple[float, ...] = (1.0,)

    @abstractmethod
    def scaled(self, rows: Tensor, origin: Tensor) -> Tensor:
        """Rows in units in which the value is a sum over features of a function of their differences, + shift."""

    def diagonal(self, rows: Tensor) -> Tensor:
        return rows[:, 0] * 0 + self.shift


@dataclass(frozen=True)
class SquaredDistance(Distance):
    """factor * |(x - z) / scales|^2 + shift."""

    def scaled(self, rows: Tensor, origin: Tensor) -> Tensor:
        """(x - origin) sqrt|factor| / scales: the value is sign(factor) times a squared distance of these, + shift."""
        return (rows - origin) * rows.new_tensor([math.sqrt(abs(self.factor)) / scale for scale in self.scales])

    def sides(self, rows: Tensor, origin: Tensor) -> Sides:
        scaled, sign, root_two = self.scaled(rows, origin), math.copysign(1.0, self.factor), math.sqrt(2.0)
        norms = (scaled * scaled).sum(-1) * sign
        return Sides(scaled * (-sign * root_two), scaled * root_two, norms, self.shift)


@dataclass(frozen=True)
class AbsoluteDistance(Distance):
    """factor * sum_j |x_j - z_j| / scales_j + shift: not an inner product, it is summed over the features."""

    def scaled(self, rows: Tensor, origin: Tensor) -> Tensor:
        """(x - origin) factor / scales: the value is the sum of absolute differences of these, + shift."""
        return (rows - origin) * rows.new_tensor([self.factor / scale for scale in self.scales])

    def sides(self, rows: Tensor, origin: Tensor) -> Sides:
        raise TypeError("a sum of absolute differences has no sides: compute it from `scaled` rows")


def apart(left: Tensor, right: Tensor) -> Tensor:
    """sum_j |x_j - z_j| between rows, a feature at a time: torch's own distances spend a block of threads on a pair."""
    out = left.new_zeros((len(left), len(right)))
    for x, z in zip(left.T, right.T, strict=True):
        out += (x[:, None] - z[None, :]).abs_()
    return out


LARGEST_GROWTH = 1e30
"""Bound on a `Growth` on a device: the exponential beside it has vanished in float32 long before."""


@dataclass(frozen=True)
class Growth(Term):
    """prod_j (1 + rate a_j), a_j the absolute differences that `leaf` adds up; computed beside it, given with it."""

    leaf: AbsoluteDistance
    rate: float = 1.0

    def compute(self, ops: Ops[V], *parts: V) -> V:
        raise KeyError(f"the growth beside {self.leaf} was not given")


@dataclass(frozen=True)
class Inner(Dot):
    """factor * <x, z> + shift."""

    def sides(self, rows: Tensor, origin: Tensor) -> Sides:
        scaled = rows * math.sqrt(self.factor)
        return Sides(scaled, scaled, rows[:, 0] * 0, self.shift)

    def diagonal(self, rows: Tensor) -> Tensor:
        return (rows * rows).sum(-1) * self.factor + self.shift


@dataclass(frozen=True)
class Affine(Term):
    """slope * inner + shift."""

    inner: Term
    slope: float = 1.0
    shift: float = 0.0

    def compute(self, ops: Ops[V], *parts: V) -> V:
        return ops.affine(parts[0], self.slope, self.shift)

    def times(self, factor: float) -> Term:
        return replace(self, slope=self.slope * factor, shift=self.shift * factor)

    def plus(self, shift: float) -> Term:
        return replace(self, shift=self.shift + shift)


@dataclass(frozen=True)
class Exp2(Term):
    """2 ** inner."""

    inner: Term

    def compute(self, ops: Ops[V], *parts: V) -> V:
        return ops.exp2(*parts)

    def times(self, factor: float) -> Term:
        return Exp2(self.inner.plus(math.log2(factor)))


@dataclass(frozen=True)
class Root(Term):
    """sqrt(max(inner, 0))."""

    inner: Term

    def compute(self, ops: Ops[V], *parts: V) -> V:
        return ops.root(*parts)


@dataclass(frozen=True)
class Total(Term):
    """first + second."""

    first: Term
    second: Term

    def compute(self, ops: Ops[V], *parts: V) -> V:
        return ops.add(*parts)

    def times(self, factor: float) -> Term:
        return Total(self.first.times(factor), self.second.times(factor))


@dataclass(frozen=True)
class Times(Term):
    """first * second."""

    first: Term
    second: Term

    def compute(self, ops: Ops[V], *parts: V) -> V:
        return ops.multiply(*parts)

    def times(self, factor: float) -> Term:
        # An exponential takes it in its exponent, at no cost; a square takes its root twice and stays a square.
        if isinstance(self.first, Exp2):
            return Times(self.first.times(factor), self.second)
        if self.first == self.second:
            half = self.first.times(math.sqrt(factor))
            return Times(half, half)
        return super().times(factor)


@dataclass(frozen=True)
class Fixed(Term):
    """A constant; a leaf that is zero everywhere gives it its shape."""

    constant: float
    zero: Term = Inner(0.0)

    def compute(self, ops: Ops[V], *parts: V) -> V:
        return ops.affine(parts[0], 1.0, self.constant)

    def times(self, factor: float) -> Term:
        return Fixed(self.constant * factor)


def total(first: Term, second: Term) -> Term:
    """first + second; a constant is folded into the other."""
    if isinstance(first, Fixed):
        first, second = second, first
    return first.plus(second.constant) if isinstance(second, Fixed) else Total(first, second)


def product(first: Term, second: Term) -> Term:
    """first * second; a constant is folded into the other, an exponential comes first."""
    if isinstance(first, Fixed):
        first, second = second, first
    if isinstance(second, Fixed):
        return first.times(second.constant)
    return Times(first, second) if isinstance(first, Exp2) else Times(second, first)


def power(base: Term, degree: int) -> Term:
    """base ** degree by repeated squaring; shared parts are computed once."""
    if degree == 1:
        return base
    half = power(base, degree // 2)
    square = Times(half, half)
    return square if degree % 2 == 0 else Times(square, base)
