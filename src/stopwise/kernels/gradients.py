"""How a kernel matrix changes with its length scales: what learning them by a gradient needs.

For rows already divided by their length scales, `gram_and_pullback` gives the matrix K and a function that turns the
sensitivity S = dL/dK of any quantity L into dL / d log(1 / l_f) for every feature f. It never holds an n x n x d array.
The formulas run on numpy arrays and torch tensors alike; `xp` is the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, singledispatch
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from scipy.spatial.distance import pdist

from stopwise.kernels.base import Kernel
from stopwise.kernels.expressions import apart
from stopwise.kernels.radial import Gaussian, Laplace, Matern
from stopwise.kernels.separable import ProductLaplace, ProductMatern

Values: TypeAlias = Any
"""An array of numpy or a tensor of torch."""
Pullback = Callable[[Values], Values]
_GROUP, _LARGEST = 16, 1e150
"""A product of factors 1 + s is bounded after so many of them: exp(-sum of s) is far below rounding by then."""


@singledispatch
def gram_and_pullback(kernel: Kernel, rows: Values, xp: ModuleType) -> tuple[Values, Pullback]:
    """K between scaled rows (n, d), and the map from dL/dK (symmetric) to dL / d log(1 / length scale), (d,)."""
    raise TypeError(f"length scales of the {kernel.name} kernel cannot be learned by a gradient")


def half_distances(rows: Values) -> Values:
    """-|x - z|^2 / 2 between all rows, never above zero and zero on the diagonal."""
    norms = (rows * rows).sum(1) / 2
    u = rows @ rows.T
    u -= norms[:, None]
    u -= norms[None, :]
    u = u.clip(max=0.0)
    u[range(len(u)), range(len(u))] = 0.0
    return u


def median_distance(rows: Values) -> float:
    """The median distance between rows of numpy; the root mean square where half of them tie."""
    squared = -2 * half_distances(rows)[np.triu_indices(len(rows), 1)]
    middle = float(np.median(squared)) if squared.size else 0.0
    middle = middle if middle > 0 or not squared.size else float(squared.mean())
    return math.sqrt(middle if middle > 0 else 2.0 * rows.shape[1])


def _radial(rows: Values, slope: Values) -> Pullback:
    """For K a function of r^2 with derivative `slope`: 4 x'(diag(B 1) - B) x column by column, B = S * slope."""

    def pull(sensitivity: Values) -> Values:
        along = sensitivity * slope
        return 4 * (rows * (along.sum(1)[:, None] * rows - along @ rows)).sum(0)

    return pull


@gram_and_pullback.register
def _(kernel: Gaussian, rows: Values, xp: ModuleType) -> tuple[Values, Pullback]:
    gram = xp.exp(half_distances(rows))
    return gram, _radial(rows, -gram / 2)


@gram_and_pullback.register
def _(kernel: Laplace | Matern, rows: Values, xp: ModuleType) -> tuple[Values, Pullback]:
    smoothness = kernel.smoothness if isinstance(kernel, Matern) else 0.5
    s = xp.sqrt(-4 * smoothness * half_distances(rows))
    decay = xp.exp(-s)
    if smoothness == 0.5:
        # Where x = z the derivative along a feature is 0, whatever the slope there.
        return decay, _radial(rows, -decay / (2 * s + (s == 0)))
    if smoothness == 1.5:
        return (1 + s) * decay, _radial(rows, -1.5 * decay)
    return (1 + s + s * s / 3) * decay, _radial(rows, -(5 / 6) * (1 + s) * decay)


def _apart(rows: Values, xp: ModuleType) -> Values:
    """sum_f |x_f - z_f| for every pair of rows: each pair once in numpy; in torch all of them, as a square.

    On a device half the work is not worth finding its way back into a square.
    """
    return pdist(rows, "cityblock") if xp is np else apart(rows, rows)


@lru_cache(maxsize=4)
def _upper(n: int) -> tuple[Values, Values]:
    """numpy's pairs in the same order, as indices of rows and columns."""
    return np.triu_indices(n, 1)


def _square(pairs: Values, n: int, xp: ModuleType) -> Values:
    """The symmetric matrix with ones on its diagonal and these entries above it."""
    if xp is not np:
        return pairs
    out = np.ones((n, n))
    i, j = _upper(n)
    out[i, j] = out[j, i] = pairs
    return out


def _separable(rows: Values, gram: Values, slope: Callable[[Values], Values], xp: ModuleType) -> Pullback:
    """For K a product over features: sum_ij S_ij K_ij slope(s_ij), feature by feature, slope = d log k / d log s."""

    def pull(sensitivity: Values) -> Values:
        along = (2 * sensitivity[_upper(len(rows))] if xp is np else sensitivity) * gram
        by_feature = (slope(_apart(rows[:, f : f + 1], xp)) for f in range(rows.shape[1]))
        return xp.stack([each @ along if xp is np else (each * along).sum() for each in by_feature])

    return pull


@gram_and_pullback.register
def _(kernel: ProductLaplace, rows: Values, xp: ModuleType) -> tuple[Values, Pullback]:
    gram = xp.exp(-_apart(rows, xp))
    return _square(gram, len(rows), xp), _separable(rows, gram, lambda s: -s, xp)


@gram_and_pullback.register
def _(kernel: ProductMatern, rows: Values, xp: ModuleType) -> tuple[Values, Pullback]:
    rows = math.sqrt(3.0) * rows
    growth = 1.0
    for f in range(rows.shape[1]):
        growth = growth * (1 + _apart(rows[:, f : f + 1], xp))
        if f % _GROUP == _GROUP - 1:
            growth = growth.clip(max=_LARGEST)
    gram = growth * xp.exp(-_apart(rows, xp))
    return _square(gram, len(rows), xp), _separable(rows, gram, lambda s: -s * s / (1 + s), xp)
