"""What a kernel is: one pair function, its vectorised form, its diagonal, and `+`, `*`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import finite_array, positive, real_array

J = TypeVar("J", float, Array)
Rows: TypeAlias = Any
"""Covariates made ready for `Kernel.block`: an array, or a tuple of `Rows`; sliced by `take_rows`."""


MEDIAN_ROWS = 1_000
"""Rows that tell where the midst of all is: a median of more would take as long as a row of the matrix."""


def take_rows(rows: Rows, index: slice | np.ndarray) -> Rows:
    """The same rows of every array inside a (possibly nested) prepared tuple."""
    if isinstance(rows, tuple):
        return tuple(take_rows(part, index) for part in rows)
    return rows[index]


def common_origin(rows: Array) -> Array:
    """A place in the midst of the rows, which differences are taken from: the median, of some where they are many.

    A mean lies as far from all of them as one wild entry takes it, and what they differ by is then rounding.
    """
    some = rows[:: max(1, len(rows) // MEDIAN_ROWS)].astype(np.float64)
    return np.median(some, axis=0) if len(rows) else np.zeros(rows.shape[1])


def as_matrix(covariates: ArrayLike) -> Array:
    """Covariates as a two-dimensional floating array; float32 stays float32."""
    matrix = np.asarray(covariates)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise ValueError(f"covariates must have 2 dimensions (rows, features); got {matrix.ndim}")
    if matrix.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        matrix = real_array(matrix, "covariates")
    return cast(Array, matrix)


class Kernel(ABC):
    """A positive semi-definite function k(x, z) of two points.

    A subclass is a frozen dataclass that gives `pair` (one number for two points; slow and plain) and the
    vectorised `block` on rows made ready by `prepare`. Preparing once and taking blocks often is what lets
    operators work in tiles.
    """

    @abstractmethod
    def pair(self, x: Array, z: Array) -> float:
        """k(x, z) for two points, as the formula stands."""

    @abstractmethod
    def block(self, left: Rows, right: Rows) -> Array:
        """k between every prepared row on the left and every one on the right."""

    @abstractmethod
    def diagonal(self, covariates: ArrayLike) -> Array:
        """k(x, x) for every row x."""

    def prepare(self, covariates: Array, origin: Array) -> Rows:
        """What `block` wants to know of each row; `origin` is a common shift that keeps rounding small."""
        return covariates

    def check(self, covariates: Array) -> None:
        """Raise ValueError where the covariates lie outside the kernel's domain."""

    @property
    def name(self) -> str:
        """A short name for people."""
        return type(self).__name__.lower()

    @property
    def core(self) -> Kernel:
        """The same kernel as a function of `places`."""
        return self

    def places(self, rows: Any) -> Any:
        """Where the kernel sees rows (arrays or tensors): where they are, unless it is warped."""
        return rows

    def with_inner(self, inner: Kernel) -> Kernel:
        """Another kernel of the same places."""
        return inner

    @property
    def needs_scale(self) -> bool:
        """Whether a length scale in it is still "auto"."""
        return False

    def resolved(self, covariates: Array) -> Kernel:
        """The same kernel with every "auto" that can be read off the covariates alone filled in."""
        return self

    def __call__(self, covariates: ArrayLike, others: ArrayLike | None = None) -> Array:
        """The matrix of k between all rows of `covariates` and all rows of `others` (default: itself)."""
        left = as_matrix(covariates)
        right = left if others is None else as_matrix(others)
        if left.shape[1] != right.shape[1]:
            raise ValueError(
                f"both sides of a kernel need the same number of features; got {left.shape[1]} and "
                f"{right.shape[1]}: pass the same columns on both sides"
            )
        for side in (left, right):
            finite_array(side, "covariates")
            self.check(side)
        origin = common_origin(left)
        prepared = self.prepare(left, origin)
        return self.block(prepared, prepared if others is None else self.prepare(right, origin))

    # What is no kernel is refused here: numpy would go through an array entry by entry, and scikit-learn take a kernel
    # of ours for a number.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Kernel:
        if isinstance(other, Real):
            return self if other == 0 else Sum(self, Constant(float(other)))  # 0 is where Python's sum() begins
        return Sum(self, other)

    def __mul__(self, other: Any) -> Kernel:
        return Scaled(self, float(other)) if isinstance(other, Real) else Product(self, other)

    __radd__ = __add__
    __rmul__ = __mul__


def one_feature(covariates: Array, name: str) -> Array:
    """The single column of covariates, or an error that says the kernel lives on a line."""
    if covariates.shape[1] != 1:
        raise ValueError(
            f"the {name} kernel takes 1 covariate, got {covariates.shape[1]}: use a Gaussian, Laplace or "
            "Matern kernel for several covariates, or a sum of kernels on single columns"
        )
    return cast(Array, covariates[:, 0])


def check_kernel(part: object, what: str) -> None:
    """Raise TypeError unless this part of a kernel is one."""
    if not isinstance(part, Kernel):
        raise TypeError(
            f"{what} must be a kernel, got {part!r}: sw.kernels.as_kernel makes one from a name, a function or a "
            "scikit-learn kernel"
        )


@dataclass(frozen=True)
class Constant(Kernel):
    """k(x, z) = c: the constants, with prior variance c."""

    value: float = 1.0

    def __post_init__(self) -> None:
        positive(self.value, "the value of a constant kernel")

    def pair(self, x: Array, z: Array) -> float:
        return self.value

    def prepare(self, covariates: Array, origin: Array) -> Rows:
        return covariates[:, :1]

    def block(self, left: Rows, right: Rows) -> Array:
        return np.full((len(left), len(right)), self.value, dtype=left.dtype)

    def diagonal(self, covariates: ArrayLike) -> Array:
        matrix = as_matrix(covariates)
        return np.full(len(matrix), self.value, dtype=matrix.dtype)


@dataclass(frozen=True)
class Around(Kernel):
    """A kernel made of an `inner` one, which sees the `places` of rows."""

    inner: Kernel

    def prepare(self, covariates: Array, origin: Array) -> Rows:
        return self.inner.prepare(self.places(covariates), self.places(origin))

    def check(self, covariates: Array) -> None:
        self.inner.check(self.places(covariates))

    @property
    def needs_scale(self) -> bool:
        return self.inner.needs_scale

    def resolved(self, covariates: Array) -> Kernel:
        return replace(self, inner=self.inner.resolved(self.places(covariates)))


@dataclass(frozen=True)
class Scaled(Around):
    """k(x, z) = factor * inner(x, z)."""

    factor: float

    def __post_init__(self) -> None:
        check_kernel(self.inner, "what is scaled")
        positive(self.factor, "the factor of a scaled kernel")

    @property
    def name(self) -> str:
        return f"{self.factor:.3g} * {self.inner.name}"

    def pair(self, x: Array, z: Array) -> float:
        return self.factor * self.inner.pair(x, z)

    def block(self, left: Rows, right: Rows) -> Array:
        out = self.inner.block(left, right)
        out *= out.dtype.type(self.factor)
        return out

    def diagonal(self, covariates: ArrayLike) -> Array:
        out = self.inner.diagonal(covariates)
        return cast(Array, out * out.dtype.type(self.factor))


@dataclass(frozen=True)
class _Pair(Kernel):
    """Two kernels joined value by value; `Sum` and `Product` say how."""

    first: Kernel
    second: Kernel
    words: ClassVar[str]

    @abstractmethod
    def join(self, first: J, second: J) -> J:
        """Two numbers joined, or two arrays in the place of the first."""

    def __post_init__(self) -> None:
        for part in (self.first, self.second):
            check_kernel(part, f"each part of a {type(self).__name__.lower()}")

    @property
    def name(self) -> str:
        return self.words.format(self.first.name, self.second.name)

    def prepare(self, covariates: Array, origin: Array) -> Rows:
        return (self.first.prepare(covariates, origin), self.second.prepare(covariates, origin))

    def pair(self, x: Array, z: Array) -> float:
        return self.join(self.first.pair(x, z), self.second.pair(x, z))

    def block(self, left: Rows, right: Rows) -> Array:
        return self.join(self.first.block(left[0], right[0]), self.second.block(left[1], right[1]))

    def diagonal(self, covariates: ArrayLike) -> Array:
        return self.join(self.first.diagonal(covariates), self.second.diagonal(covariates))

    def check(self, covariates: Array) -> None:
        self.first.check(covariates)
        self.second.check(covariates)

    def resolved(self, covariates: Array) -> Kernel:
        return type(self)(self.first.resolved(covariates), self.second.resolved(covariates))


@dataclass(frozen=True)
class Sum(_Pair):
    """k(x, z) = first(x, z) + second(x, z)."""

    words: ClassVar[str] = "{} + {}"

    def join(self, first: J, second: J) -> J:
        first += second
        return first


@dataclass(frozen=True)
class Product(_Pair):
    """k(x, z) = first(x, z) * second(x, z)."""

    words: ClassVar[str] = "({}) * ({})"

    def join(self, first: J, second: J) -> J:
        first *= second
        return first


def parts(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel and every kernel inside it."""
    yield kernel
    for inner in vars(kernel).values():
        if isinstance(inner, Kernel):
            yield from parts(inner)
