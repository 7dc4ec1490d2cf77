"""Newton's equations at one reading of the clock, H = sum_i W_i (x) x_i x_i' + penalty.

The unknowns are (p, q): p columns of the design, q fitted values a row. The first columns enter whole, by a Cholesky
factor. The rest, whose share of the fit is below the tolerance, enter by their diagonal, with the rows' mean curvature:
the columns are orthogonal over the weighted rows, so that this is exact where the curvature is the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dtrtrs
from scipy.sparse.linalg import LinearOperator, cg

from stopwise._support.arrays import Array
from stopwise._support.memory import row_tiles

DIRECT_SIZE = 900
"""Up to so many unknowns in the whole columns the leverages of several fitted values a row come from one factor, which
takes a twentieth of a second."""
_PRODUCTS = 400
NEIGHBOURS = 1_000
"""Of so many rows the curvatures around each row are averaged."""
NEARLY_FREE = 1e-6
"""Stands for the constant's penalty of 0, over the others', where the equations are turned to their axes."""


def weighted_gram(rows: Array, weights: Array) -> Array:
    """sum_i w_i x_i x_i' for rows (n, p) and weights (n,): the lower triangle."""
    if not rows.shape[1]:
        return np.zeros((0, 0))
    return cast(Array, scipy.linalg.blas.dsyrk(1.0, (rows * np.sqrt(weights)[:, None]).T, lower=1))


@dataclass(frozen=True)
class Equations:
    """The design (n, p) with the number of its whole columns, curvatures w phi'' (n, q, q), penalties (p, 1), and the
    mean square of the other columns (p - whole,)."""

    design: Array
    whole: int
    curvature: Array
    penalty: Array
    squares: Array

    @cached_property
    def columns(self) -> Array:
        """The whole columns, (n, whole)."""
        return self.design[:, : self.whole]

    @property
    def direct(self) -> bool:
        """Whether the unknowns of the whole columns share one factor."""
        q = int(self.curvature.shape[1])
        return q == 1 or q * self.whole <= DIRECT_SIZE

    @cached_property
    def mean_curvature(self) -> Array:
        """The mean over the q fitted values of every row's curvature, (n,)."""
        return cast(Array, np.einsum("icc->i", self.curvature) / self.curvature.shape[1])

    @cached_property
    def rest(self) -> Array:
        """The diagonal of H at the columns that are not whole, (p - whole,)."""
        return self.penalty[self.whole :, 0] + float(self.mean_curvature.sum()) * self.squares

    @cached_property
    def gram(self) -> Array:
        """H less the penalty over the whole columns, unknowns ordered by fitted value, then by column."""
        p, q = self.whole, self.curvature.shape[1]
        out = np.zeros((q * p, q * p), order="F")
        for c, d in zip(*np.tril_indices(q), strict=True):
            bend = self.curvature[:, c, d]
            block = weighted_gram(self.columns, bend) if c == d else self.columns.T @ (bend[:, None] * self.columns)
            out[c * p : (c + 1) * p, d * p : (d + 1) * p] = block
        return out

    @cached_property
    def factor(self) -> Array:
        """The lower Cholesky factor of H over the whole columns."""
        hessian, jitter = self.gram.copy(order="F"), 0.0
        if not len(hessian):
            return hessian
        hessian[np.diag_indices_from(hessian)] += np.tile(self.penalty[: self.whole, 0], self.curvature.shape[1])
        for _ in range(10):
            factor, failed = dpotrf(hessian, lower=1)
            if not failed:
                return cast(Array, factor)
            jitter = max(10 * jitter, 1e-14 * float(np.diagonal(hessian).max()))
            hessian[np.diag_indices_from(hessian)] += jitter
        raise ValueError("Newton's equations overflow: rescale y or the covariates")

    @cached_property
    def mean_axes(self) -> tuple[Array, Array]:
        """D (whole, whole) and s (whole,) with (G + a U)^-1 = D diag(1 / (s + a)) D', G the Gram matrix of the mean
        curvatures, a the largest `penalty` and U all of them over a, at least `NEARLY_FREE`: the same for every a."""
        root = np.sqrt(np.maximum(self.penalty[: self.whole, 0] / self.largest, NEARLY_FREE))
        gram = weighted_gram(self.columns, self.mean_curvature) / np.outer(root, root)
        strengths, turn = scipy.linalg.eigh(gram, driver="evd", check_finite=False)
        return turn / root[:, None], strengths

    @property
    def largest(self) -> float:
        """The largest penalty of the whole columns."""
        return float(self.penalty[: self.whole].max(initial=0.0)) or 1.0

    def with_penalty(self, penalty: Array) -> Equations:
        """The same with another penalty; what does not depend on it is shared."""
        other = replace(self, penalty=penalty)
        vars(other).update({"gram": self.gram} if self.direct else {"mean_axes": self.mean_axes})
        return other

    def direction(self, gradient: Array, share: float, near: Equations) -> Array:
        """-H^-1 gradient, (p, q); by conjugate gradients to a tolerance that shrinks with the gradient's `share`, with
        the preconditioner of equations `near` these, at the same reading: a few products cost less than a factor."""
        right = gradient[: self.whole]

        def flat(image: Callable[[Array], Array]) -> LinearOperator:
            return LinearOperator(2 * (right.size,), lambda v: image(v.reshape(right.shape)).ravel(), dtype=np.float64)

        solved, rest = right, gradient[self.whole :] / self.rest[:, None]
        if right.size:
            settings = {"rtol": min(0.1, math.sqrt(share)), "maxiter": _PRODUCTS}
            solved = cg(flat(self._product), right.ravel(), M=flat(near.precondition), **settings)[0]
        return -np.concatenate([solved.reshape(right.shape), rest])

    @cached_property
    def leverages(self) -> Array:
        """A_i = x_i' H^-1 x_i, (n, q, q): how far f_i moves when its slope changes by one."""
        rows, rest, q = self.columns, self.design[:, self.whole :], self.curvature.shape[1]
        out = np.einsum("ij,ij->i", rest, rest / self.rest)[:, None, None] * np.eye(q)
        if not self.direct:
            return cast(Array, out + self._leverages_by_direction())
        if q == 1 and self.whole:
            half = dtrtrs(self.factor, rows.T, lower=1)[0]
            return cast(Array, out + np.einsum("ji,ji->i", half, half)[:, None, None])
        inverse = self._inverse()
        for c, d in zip(*np.tril_indices(q), strict=True):
            out[:, c, d] += np.einsum("ij,ij->i", rows @ inverse[c, :, d], rows)
            out[:, d, c] = out[:, c, d]
        return cast(Array, out)

    def _leverages_by_direction(self) -> Array:
        """The whole columns' part with one fitted value at a time: along each direction of the curvature around a row,
        its leverage when every row has that share of its mean curvature. Exact where all rows are alike.

        With G the same inverse for the mean curvatures, and g_ij between rows i and j, the curvature around row i is
        the mean of all weighted by g_ij^2: what is left out is then zero to first order in how much rows differ.
        """
        axes, strengths = self.mean_axes
        rows = self.columns @ axes
        values, vectors = np.linalg.eigh(self._curvature_around(rows, 1 / (strengths + self.largest)))
        squares, shares = rows**2, values.clip(0.0)
        along = [np.einsum("ij,ij->i", squares, 1 / (np.outer(share, strengths) + self.largest)) for share in shares.T]
        return cast(Array, (vectors * np.column_stack(along)[:, None]) @ vectors.transpose(0, 2, 1))

    def _curvature_around(self, rows: Array, inverse: Array) -> Array:
        """The curvature around every row over its mean, (n, q, q), from the row itself and up to `NEIGHBOURS` others;
        G = rows diag(inverse) rows'."""
        n, q = self.curvature.shape[:2]
        some = np.arange(0, n, math.ceil(n / NEIGHBOURS))
        own = np.einsum("ij,ij->i", rows * inverse, rows) ** 2 * ~np.isin(np.arange(n), some)
        flat = np.column_stack([self.curvature.reshape(n, q * q), self.mean_curvature])
        around = own[:, None] * flat
        for part in row_tiles(n, len(some)):
            around[part] += ((rows[part] * inverse) @ rows[some].T) ** 2 @ (n / len(some) * flat[some])
        return cast(Array, (around[:, :-1] / around[:, -1:]).reshape(n, q, q))

    def log_determinant(self) -> float:
        """log |H|, from the factor of all unknowns in the whole columns."""
        whole = 2 * float(np.log(np.diagonal(self.factor)).sum())
        return whole + int(self.curvature.shape[1]) * float(np.log(self.rest).sum())

    def joint(self) -> Array:
        """x_i' H^-1 x_j between all rows, (n q, n q), ordered by row, then by fitted value."""
        rows, rest, q = self.columns, self.design[:, self.whole :], self.curvature.shape[1]
        inside = np.einsum("ij,cjdk,lk->icld", rows, self._inverse(), rows, optimize=True).reshape(2 * (q * len(rows),))
        return cast(Array, inside + np.kron((rest / self.rest) @ rest.T, np.eye(q)))

    def _inverse(self) -> Array:
        """H^-1 over the whole columns, (q, whole, q, whole)."""
        half = np.tril(dpotri(self.factor, lower=1)[0] if self.whole else self.factor)
        return cast(Array, (half + np.tril(half, -1).T).reshape(2 * (self.curvature.shape[1], self.whole)))

    def _product(self, block: Array) -> Array:
        """H block over the whole columns."""
        bent = np.einsum("icd,id->ic", self.curvature, self.columns @ block)
        return cast(Array, self.columns.T @ bent + self.penalty[: self.whole] * block)

    def precondition(self, block: Array) -> Array:
        """Near to H^-1 block, for a block (k, q) of the first k columns, more or fewer than are whole here."""
        whole, (count, q) = self.whole, block.shape
        inside = np.zeros((whole, q))
        inside[:count] = block[:whole]
        return np.concatenate([self._solve(inside)[:count], block[whole:] / self.rest[: max(count - whole, 0), None]])

    def _solve(self, block: Array) -> Array:
        """H^-1 block over the whole columns, or that of the mean curvatures."""
        if not self.direct:
            axes, strengths = self.mean_axes
            return cast(Array, axes @ ((axes.T @ block) / (strengths + self.largest)[:, None]))
        if not self.whole:
            return block
        return cast(Array, dpotrs(self.factor, block.T.reshape(-1), lower=1)[0].reshape(block.T.shape).T)
