"""Newton's equations at one reading of the clock, H = sum_i W_i (x) x_i x_i' + penalty.

The unknowns are (p, q): p columns of the design, q fitted values a row. The first columns enter whole, by a Cholesky
factor. The rest, whose share of the fit is below the tolerance, enter by their diagonal, with the rows' mean curvature:
the columns are orthogonal over the weighted rows, so that this is exact where the curvature is the same everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from stopwise._support.arrays import Array
from stopwise.losses.labels import simplex

DIRECT_SIZE = 600
"""Up to so many unknowns in the whole columns the leverages of several fitted values a row come from one factor."""
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

    @cached_property
    def factor(self) -> Array:
        """The lower Cholesky factor of H over the whole columns, ordered by fitted value, then by column."""
        return self._factor(self.curvature)

    def direction(self, gradient: Array, share: float, near: Equations) -> Array:
        """-H^-1 gradient, (p, q); by conjugate gradients to a tolerance that shrinks with the gradient's `share`, with
        the preconditioner of equations `near` these, at the same reading: a few products cost less than a factor."""
        solved = self._conjugate_gradients(gradient[: self.whole], min(0.1, math.sqrt(share)), near)
        return -np.concatenate([solved, gradient[self.whole :] / self.rest[:, None]])

    def leverages(self) -> Array:
        """x_i' H^-1 x_i, (n, q, q)."""
        rows, rest, q = self.design[:, : self.whole], self.design[:, self.whole :], self.curvature.shape[1]
        out = np.einsum("ij,ij->i", rest, rest / self.rest)[:, None, None] * np.eye(q)
        if q == 1:
            half = scipy.linalg.solve_triangular(self.factor, rows.T, lower=True, check_finite=False)
            return cast(Array, out + np.einsum("ji,ji->i", half, half)[:, None, None])
        if self.whole * q > DIRECT_SIZE:
            return cast(Array, out + self._leverages_by_direction())
        inverse = self._inverse()
        for c, d in np.ndindex(q, q):
            out[:, c, d] += np.einsum("ij,ij->i", rows @ inverse[c, :, d], rows)
        return cast(Array, out)

    def _leverages_by_direction(self) -> Array:
        """The whole columns' part with one fitted value at a time: along each direction of a row's own curvature, its
        leverage when every row has that share of its mean curvature. Exact where all rows are alike."""
        mean, penalty = self.mean_curvature[:, 0], self.penalty[: self.whole, 0]
        rows = self.design[:, : self.whole] / np.sqrt(np.maximum(penalty, NEARLY_FREE * (penalty.max() or 1.0)))
        strengths, turn = scipy.linalg.eigh(rows.T @ (mean * rows), driver="evd", check_finite=False)
        energies = (rows @ turn) ** 2
        values, vectors = np.linalg.eigh(self.curvature)
        shares = np.maximum(values, 0.0) / mean
        along = [np.einsum("ij,ij->i", energies, 1 / (1 + np.outer(share, strengths))) for share in shares.T]
        return cast(Array, (vectors * np.column_stack(along)[:, None]) @ vectors.transpose(0, 2, 1))

    def log_determinant(self) -> float:
        """log |H|, from the factor of all unknowns in the whole columns."""
        whole = 2 * float(np.log(np.diagonal(self.factor)).sum())
        return whole + int(self.curvature.shape[1]) * float(np.log(self.rest).sum())

    def joint(self) -> Array:
        """x_i' H^-1 x_j between all rows, (n q, n q), ordered by row, then by fitted value."""
        rows, rest, q = self.design[:, : self.whole], self.design[:, self.whole :], self.curvature.shape[1]
        inside = np.einsum("ij,cjdk,lk->icld", rows, self._inverse(), rows, optimize=True).reshape(2 * (q * len(rows),))
        return cast(Array, inside + np.kron((rest / self.rest) @ rest.T, np.eye(q)))

    def _inverse(self) -> Array:
        """H^-1 over the whole columns, (q, whole, q, whole)."""
        half = np.tril(dpotri(self.factor, lower=1)[0] if self.whole else self.factor)
        return cast(Array, (half + np.tril(half, -1).T).reshape(2 * (self.curvature.shape[1], self.whole)))

    def _factor(self, curvature: Array) -> Array:
        """The lower Cholesky factor of H, unknowns ordered by fitted value, then by column: (q whole, q whole)."""
        design, p, q = self.design[:, : self.whole], self.whole, curvature.shape[1]
        if not p:
            return np.zeros((0, 0))
        hessian = np.zeros((q * p, q * p))
        for c in range(q):
            rows = slice(c * p, (c + 1) * p)
            root = design * np.sqrt(curvature[:, c, c])[:, None]
            hessian[rows, rows] = scipy.linalg.blas.dsyrk(1.0, root.T, lower=1)
            hessian[rows, rows][np.diag_indices(p)] += self.penalty[:p, 0]
            for d in range(c):
                hessian[rows, d * p : (d + 1) * p] = design.T @ (curvature[:, c, d, None] * design)
        jitter = 0.0
        for _ in range(10):
            factor, failed = dpotrf(hessian, lower=1)
            if not failed:
                return cast(Array, factor)
            jitter = max(10 * jitter, 1e-14 * float(np.diagonal(hessian).max()))
            hessian[np.diag_indices_from(hessian)] += jitter
        raise ValueError("Newton's equations overflow: rescale y or the covariates")

    @cached_property
    def corner_factors(self) -> list[Array]:
        """The factors of H_1, ..., H_C, where H_c is H with one fitted value a row, towards a corner of a simplex."""
        corners = simplex(self.curvature.shape[1] + 1)
        towards = np.einsum("cj,ijk,ck->ci", corners, self.curvature, corners, optimize=True)
        return [self._factor(each[:, None, None]) for each in towards]

    def _product(self, block: Array) -> Array:
        """H block over the whole columns."""
        design = self.design[:, : self.whole]
        bent = np.einsum("icd,id->ic", self.curvature, design @ block)
        return cast(Array, design.T @ bent + self.penalty[: self.whole] * block)

    def _precondition(self, block: Array) -> Array:
        """Z' (H_1^-1, ..., H_C^-1) Z block, near to H^-1 block; of one fitted value H^-1 itself.

        Z (C, q) are the corners of a simplex, C = q + 1; the curvature towards one is p_c (1 - p_c) for classes. Where
        rows are all alike this is within a factor of two of H^-1, in any direction.
        """
        if block.shape[1] == 1:
            return cast(Array, dpotrs(self.factor, block, lower=1)[0])
        corners = simplex(len(self.corner_factors))
        sides = zip(self.corner_factors, corners @ block.T, strict=True)
        return cast(Array, np.transpose([dpotrs(factor, side, lower=1)[0] for factor, side in sides]) @ corners)

    def _conjugate_gradients(self, right: Array, tolerance: float, near: Equations) -> Array:
        """H^-1 right over the whole columns, until the residual is below a share of the right side."""
        solved, left, goal = np.zeros_like(right), right, tolerance * float(np.linalg.norm(right))
        along = near._precondition(left)
        size = float(np.vdot(left, along))
        for _ in range(_PRODUCTS if size > 0 else 0):
            image = self._product(along)
            step = size / float(np.vdot(along, image))
            solved, left = solved + step * along, left - step * image
            if float(np.linalg.norm(left)) <= goal:
                break
            turned = near._precondition(left)
            size, last = float(np.vdot(left, turned)), size
            along = turned + (size / last) * along
        return solved
