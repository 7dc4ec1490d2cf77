"""Losses for classes: logistic, softmax and exponential. `y` holds class codes 0, 1, ..."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, cast

import numpy as np
from scipy.special import expit, log_softmax, softmax

from stopwise._support.arrays import Array
from stopwise.losses.base import Convexity, Loss, OneValueLoss


class _Classes(Loss):
    """A loss of codes 0, ..., `width`."""

    for_classes: ClassVar[bool] = True

    @abstractmethod
    def of_each(self, f: Array) -> Array:
        """phi for every class that the label may be, (n, classes)."""

    def guarded(self, y: Array, f: Array, n_samples: float) -> Array:
        each, doubt = self.of_each(f), 1 / (n_samples + 2)
        right = each[np.arange(len(y)), y.astype(int)]
        return np.asarray((1 - doubt) * right + doubt * (each.sum(axis=1) - right) / self.width)


class _TwoClasses(_Classes, OneValueLoss):
    """A function of s f, s = +1 for class 1 and -1 for class 0."""

    odds: ClassVar[float] = 1.0
    """The log odds of class 1 are this multiple of f."""

    def of_each(self, f: Array) -> Array:
        return np.column_stack([self.derivatives(np.full(len(f), code), f[:, 0])[0] for code in (0, 1)])

    def scores(self, f: Array) -> Array:
        return self.odds * f[:, 0]

    def natural(self, f: Array) -> Array:
        return np.column_stack([expit(-self.scores(f)), expit(self.scores(f))])


@dataclass(frozen=True)
class Logistic(_TwoClasses):
    """phi = log(1 + exp(-s f)), s = +1 for class 1 and -1 for class 0; f is the log odds of class 1."""

    name: ClassVar[str] = "logistic"
    likelihood: ClassVar[bool] = True

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        sign = np.where(y > 0, 1.0, -1.0)
        wrong = expit(-sign * f)
        return np.logaddexp(0.0, -sign * f), -sign * wrong, wrong * expit(sign * f)

    def convexity(self, reach: float) -> Convexity:
        return Convexity(1 / (2 + 2 * math.cosh(reach)), 0.25, 0.5)


@dataclass(frozen=True)
class Exponential(_TwoClasses):
    """phi = exp(-s f), AdaBoost's; f is half the log odds of class 1."""

    name: ClassVar[str] = "exponential"
    odds: ClassVar[float] = 2.0

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        sign = np.where(y > 0, 1.0, -1.0)
        value = np.exp(-sign * f)
        return value, -sign * value, value

    def convexity(self, reach: float) -> Convexity:
        return Convexity(math.exp(-reach), math.exp(reach), math.cosh(reach))


@dataclass(frozen=True)
class Softmax(_Classes):
    """phi = -log p_y, p the softmax of f Z' with Z = `simplex`: q = classes - 1, and every class is treated alike."""

    n_classes: int
    name: ClassVar[str] = "softmax"
    likelihood: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise ValueError(f"softmax needs at least 2 classes, got {self.n_classes}")

    @property
    def width(self) -> int:
        return self.n_classes - 1

    def scores(self, f: Array) -> Array:
        return f @ simplex(self.n_classes).T

    def of_each(self, f: Array) -> Array:
        return cast(Array, -log_softmax(self.scores(f), axis=1))

    def parts(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        each, basis = self.of_each(f), simplex(self.n_classes)
        p = np.exp(-each)
        mean = p @ basis
        curvature = (p[:, None] * basis.T) @ basis - mean[:, :, None] * mean[:, None]
        return each[np.arange(len(y)), y.astype(int)], (p - self.targets(y, f)) @ basis, curvature

    def slope(self, y: Array, f: Array) -> Array:  # alone it is asked for n rows a left-out row
        return cast(Array, (self.natural(f) - self.targets(y, f)) @ simplex(self.n_classes))

    def natural(self, f: Array) -> Array:
        return cast(Array, softmax(self.scores(f), axis=1))

    def targets(self, y: Array, left_out: Array) -> Array:
        return cast(Array, np.eye(self.n_classes)[y.astype(int)])


@cache
def simplex(corners: int) -> Array:
    """An orthonormal basis (corners, corners - 1) of the vectors that sum to zero: its rows are a simplex's corners."""
    return cast(Array, np.linalg.qr(np.eye(corners)[:, : corners - 1] - 1 / corners)[0])
