"""Newton's equations at one reading of the clock, H = sum_i W_i (x) x_i x_i' + penalty.

The unknowns are (p, q): p columns of the design, q fitted values a row. The first columns enter whole, by a Cholesky
factor. The rest, whose share of the fit is below the tolerance, enter by their diagonal, with the rows' mean curvature:
the columns are orthogonal over the weighted rows, so that this is exact where the curvature is the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from stopwise._support.arrays import Array

DIRECT_SIZE, DIRECT_STEP_SIZE = 600, 100
"""Up to so many unknowns in the whole columns leverages come from one factor; and steps, beyond by conjugate gradients:
for a single right side a few products cost less than the factor."""
_PRODUCTS = 400
NEARLY_FREE = 1e-6
"""Stands for the constant's penalty of 0, over the others', where the equations are turned to their axes."""


@dataclass(frozen=True)
class Equations:
    """The design (n, p) with the number of its whole columns, curvatures w phi'' (n, q, q), penalties (p, 1), and the
    weighted sum of squares and the mean curvature of the rest's diagonal."""

    design: Array
    whole: int
    curvature: Array
    penalty: Array
    energies: Array
    weight: float

    @cached_property
    def mean_curvature(self) -> Array:
        """The mean over the q fitted values of every row's curvature, (n, 1, 1)."""
        return cast(Array, np.einsum("icc->i", self.curvature)[:, None, None] / self.curvature.shape[1])

    @cached_property
    def rest(self) -> Array:
        """The diagonal of H at the columns that are not whole, (p - whole,)."""
        bend, count = float(self.mean_curvature.sum()) / self.weight, self.design.shape[1] - self.whole
        return self.penalty[self.whole :, 0] + bend * self.energies[self.energies.size - count :]

    def _direct(self, size: int) -> bool:
        return bool(self.curvature.shape[1] == 1 or self.whole * self.curvature.shape[1] <= size)

    def direction(self, gradient: Array, share: float) -> Array:
        """-H^-1 gradient, (p, q); by conjugate gradients to a tolerance that shrinks with the gradient's `share`."""
        first, q = gradient[: self.whole], gradient.shape[1]
        if self._direct(DIRECT_STEP_SIZE):
            factor = self._factor(self.curvature)
            solved = scipy.linalg.cho_solve((factor, True), first.T.ravel(), check_finite=False).reshape(q, -1).T
        else:
            solved = self._conjugate_gradients(first, min(0.1, math.sqrt(share)))
        return -np.concatenate([solved, gradient[self.whole :] / self.rest[:, None]])

    def leverages(self) -> Array:
        """x_i' H^-1 x_i, (n, q, q)."""
        if not self._direct(DIRECT_SIZE):
            return self._leverages_by_direction()
        rows, q = self.design[:, : self.whole], self.curvature.shape[1]
        out = np.zeros((len(rows), q, q))
        for c, d, block in self._inverse():
            out[:, c, d] = out[:, d, c] = np.einsum("ij,ij->i", rows @ block, rows)
        return out + self._rest_leverage()[:, None, None] * np.eye(q)

    def _rest_leverage(self) -> Array:
        rest = self.design[:, self.whole :]
        return np.asarray(np.einsum("ij,ij->i", rest, rest / self.rest))

    def _leverages_by_direction(self) -> Array:
        """The same with one fitted value at a time: along each direction of a row's own curvature, its leverage when
        every row has that share of its mean curvature. Exact where all rows are alike."""
        mean, penalty = self.mean_curvature[:, 0], self.penalty[: self.whole, 0]
        rows = self.design[:, : self.whole] / np.sqrt(np.maximum(penalty, NEARLY_FREE * (penalty.max() or 1.0)))
        strengths, turn = scipy.linalg.eigh(rows.T @ (mean * rows), driver="evd", check_finite=False)
        energies = (rows @ turn) ** 2
        values, vectors = np.linalg.eigh(self.curvature)
        shares = np.maximum(values, 0.0) / mean
        along = [np.einsum("ij,ij->i", energies, 1 / (1 + np.outer(share, strengths))) for share in shares.T]
        each = np.column_stack(along) + self._rest_leverage()[:, None]
        return cast(Array, (vectors * each[:, None]) @ vectors.transpose(0, 2, 1))

    def log_determinant(self) -> float:
        """log |H|, from the factor of all unknowns in the whole columns."""
        whole = 2 * float(np.log(np.diagonal(self._factor(self.curvature))).sum())
        return whole + int(self.curvature.shape[1]) * float(np.log(self.rest).sum())

    def joint(self) -> Array:
        """x_i' H^-1 x_j between all rows, (q, n, q, n)."""
        n, q = self.curvature.shape[:2]
        rows, rest = self.design[:, : self.whole], self.design[:, self.whole :]
        out = np.zeros((q, n, q, n))
        for c, d, block in self._inverse():
            out[c, :, d] = rows @ block @ rows.T
            out[d, :, c] = out[c, :, d].T
        for c in range(q):
            out[c, :, c] += (rest / self.rest) @ rest.T
        return out

    def _inverse(self) -> Iterator[tuple[int, int, Array]]:
        """Blocks (c, d) of H^-1 over the whole columns, c >= d."""
        p = self.whole
        inverse = scipy.linalg.lapack.dpotri(self._factor(self.curvature), lower=1)[0] if p else np.empty((0, 0))
        for c in range(self.curvature.shape[1]):
            for d in range(c + 1):
                block = inverse[c * p : (c + 1) * p, d * p : (d + 1) * p]
                yield c, d, _symmetric(block) if c == d else block

    def _factor(self, curvature: Array) -> Array:
        """The lower Cholesky factor of H, unknowns ordered by fitted value, then by column: (q whole, q whole)."""
        design, p, q = self.design[:, : self.whole], self.whole, curvature.shape[1]
        hessian = np.zeros((q * p, q * p))
        for c in range(q if p else 0):
            rows = slice(c * p, (c + 1) * p)
            root = design * np.sqrt(curvature[:, c, c])[:, None]
            hessian[rows, rows] = scipy.linalg.blas.dsyrk(1.0, root.T, lower=1)
            hessian[rows, rows][np.diag_indices(p)] += self.penalty[:p, 0]
            for d in range(c):
                hessian[rows, d * p : (d + 1) * p] = design.T @ (curvature[:, c, d, None] * design)
        jitter = 0.0
        for _ in range(10 if p else 0):
            factor, failed = scipy.linalg.lapack.dpotrf(hessian, lower=1)
            if not failed:
                return cast(Array, factor)
            jitter = max(10 * jitter, 1e-14 * float(np.diagonal(hessian).max()))
            hessian[np.diag_indices_from(hessian)] += jitter
        if p:
            raise ValueError("Newton's equations overflow: rescale y or the covariates")
        return hessian

    def _conjugate_gradients(self, right: Array, tolerance: float) -> Array:
        """H^-1 right over the whole columns, preconditioned by H with every row's mean curvature for its matrix."""
        design, penalty = self.design[:, : self.whole], self.penalty[: self.whole]
        factor = self._factor(self.mean_curvature)

        def product(flat: Array) -> Array:
            block = flat.reshape(right.shape)
            bent = np.einsum("icd,id->ic", self.curvature, design @ block)
            return cast(Array, design.T @ bent + penalty * block).ravel()

        def nearly(flat: Array) -> Array:
            return cast(Array, scipy.linalg.cho_solve((factor, True), flat.reshape(right.shape))).ravel()

        both = (LinearOperator((right.size, right.size), matvec=f) for f in (product, nearly))
        matrix, near = both
        return cast(Array, cg(matrix, right.ravel(), rtol=tolerance, maxiter=_PRODUCTS, M=near)[0]).reshape(right.shape)


def _symmetric(lower: Array) -> Array:
    """The matrix whose lower half this is."""
    return cast(Array, np.tril(lower) + np.tril(lower, -1).T)
