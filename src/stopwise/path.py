"""Every fit along a filter, without running it.

In the eigenbasis of K each direction is fitted by its own gain, so any iterate, its residual, its Hilbert norm, its
degrees of freedom and (with a known truth) its exact risk are sums over eigenvalues. A path lives in problem units
(responses centred and scaled); `scale` and `offset` bring results back to the units of y.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import at_least_zero, finite_array, real_array
from stopwise._support.memory import row_tiles
from stopwise.filters import Filter, SteppedFilter, as_filter
from stopwise.spectrum import Density, Spectrum

_SMALLEST = 1e-280
"""A largest eigenvalue below this would send the clock beyond what a float holds."""
SATURATED = 1e-10
"""Leverages closer to 1 than this leave no residual to divide by."""
UNSURE = 0.01
"""Share of the degrees of freedom left over, below which an unfinished spectrum knows it no better than its error."""


PerResponse: TypeAlias = float | Array
"""A number for one response, or one for each of several."""
Readings: TypeAlias = ArrayLike | None
"""A clock reading (or number of iterations), or a list of them; None for the chosen stop."""


@dataclass(frozen=True)
class Path:
    """All estimates along one filter for one response vector, or for several at once.

    `coefficients` are the responses in the eigenbasis, (k,) or (k, q); `energy` their whole sum of squares, so that
    what lies outside the known eigenvectors is never fitted and never lost. `response` are the responses by row in
    the same weighted, centred coordinates, where rows are at hand.
    """

    spectrum: Spectrum
    filter: Filter
    coefficients: Array
    energy: Array
    intercept: bool = False
    root_weights: Array | None = None
    counts: Array | None = None
    """How many observations each row stands for; None for one each."""
    response: Array | None = None
    fixed: Array | None = None
    """Orthonormal columns (n, p) left unpenalised in place of the constant alone, in the coordinates of `response`."""
    level: Array | None = None
    """What least squares on them took out of the responses, (p,) or (p, q), problem units."""
    scale: PerResponse = 1.0
    offset: PerResponse = 0.0
    chosen: tuple[float, ...] | None = None
    horizon: float = math.inf
    """How far an unfinished spectrum can be read: beyond it the estimate is not this path's but an interpolation."""
    left_out: Array | None = None
    """What ridge at the chosen stop leaves of rows predicted without them, (m,) or (m, q), in the coordinates of
    `response`: known to solvers that leave rows out instead of finding eigenvectors,"""
    left_out_rows: Array | None = None
    """and which rows those are, (m,)."""

    # ---- where on the path ------------------------------------------------------------------------------------

    @property
    def n_samples(self) -> float:
        """How many samples, counting weights."""
        return self.spectrum.n_samples

    @property
    def n_fixed(self) -> int:
        """Degrees of freedom that are not penalised: none, the intercept's, or a linear part's with it."""
        return int(self.intercept) if self.fixed is None else self.fixed.shape[1]

    def fixed_part(self) -> Array | float:
        """What was taken out of the responses beside their mean, by row, problem units; 0 without a linear part."""
        if self.fixed is None or self.level is None:
            return 0.0
        return self._unweighted(self.fixed @ self.level)

    def _unweighted(self, rows: Array) -> Array:
        """Values (n, ...) in the coordinates of `response` in those of the responses themselves."""
        return rows if self.root_weights is None else cast(Array, (rows.T / self.root_weights).T)

    @property
    def density(self) -> Density:
        """Values and multiplicities behind every sum over all eigenvalues."""
        return self.spectrum.density

    @property
    def step_sum_cap(self) -> float:
        """A clock reading past which nothing that rounding can see changes any more."""
        values = self.spectrum.eigenvalues
        largest = float(values.max(initial=0.0))
        if largest == 0:
            return 0.0
        if largest < _SMALLEST:
            raise ValueError(
                f"the kernel matrix is too small: its largest eigenvalue is {largest:g}; rescale the kernel"
            )
        smallest = float(values[values > 1e-14 * largest].min())
        return min(self.horizon, 1e3 / smallest, 1e13 / largest)

    @property
    def step_sum_limit(self) -> float:
        """Where predictions end: weights grow with step_sum, and past 1e13 / lambda_1 a prediction has no digits left.

        A path of eigenvalues alone, with no rows to predict from, goes further.
        """
        return (1e18 if self.spectrum.basis is None else 1e13) / max(self.spectrum.largest_bound, _SMALLEST)

    def step_sums(self, step_sum: Readings = None, iteration: Readings = None) -> Array:
        """The clock reading(s) meant by the arguments: the last iterate not past `step_sum`."""
        if iteration is not None:
            if step_sum is not None:
                raise ValueError("give step_sum or iteration, not both")
            if not isinstance(self.filter, SteppedFilter):
                raise ValueError(f"the {self.filter.name} filter has no iterations: give step_sum")
            return self.filter.step_sum(_readings(iteration, "iteration"))
        if step_sum is None:
            if self.chosen is None:
                raise ValueError("no stop has been chosen on this path: give step_sum or iteration")
            chosen = np.asarray(self.chosen)
            return cast(Array, chosen[0] if self.coefficients.ndim == 1 else chosen)
        return self.filter.snap(_readings(step_sum, "step_sum"))

    @property
    def n_responses(self) -> int:
        """How many response vectors there are."""
        return 1 if self.coefficients.ndim == 1 else int(self.coefficients.shape[1])

    @property
    def row_weights(self) -> Array:
        """How often each row counts."""
        if self.root_weights is not None:
            return cast(Array, self.root_weights**2)
        return np.ones(1 if self.spectrum.basis is None else len(self.spectrum.basis.rows))

    @property
    def row_counts(self) -> Array:
        """How many observations each row stands for."""
        return np.ones(len(self.row_weights)) if self.counts is None else self.counts

    def column(self, index: int) -> Path:
        """The path of one of several response vectors."""
        if not 0 <= index < self.n_responses:
            raise ValueError(f"this path has {self.n_responses} response(s), numbered from 0; got {index!r}")
        if self.coefficients.ndim == 1:
            return self
        return replace(
            self,
            coefficients=self.coefficients[:, index],
            energy=self.energy[index],
            response=None if self.response is None else self.response[:, index],
            scale=float(self.scale[index]) if isinstance(self.scale, np.ndarray) else self.scale,
            offset=float(self.offset[index]) if isinstance(self.offset, np.ndarray) else self.offset,
            level=None if self.level is None else self.level[:, index],
            left_out=None if self.left_out is None else self.left_out[:, index],
            chosen=None if self.chosen is None else (self.chosen[index],),
        )

    def at_rows(self, rows: Array) -> Path:
        """The same fit seen at some of its rows: residuals and leverages of these, sums over all."""
        basis = self.spectrum.basis
        if basis is None or self.spectrum.diagonal_left is not None:
            raise ValueError("the rows of this path cannot be told apart")
        part = replace(basis, rows=basis.rows.part(rows) if hasattr(basis.rows, "part") else basis.rows[rows])
        return replace(
            self,
            spectrum=replace(self.spectrum, basis=part),
            response=None if self.response is None else self.response[rows],
            root_weights=None if self.root_weights is None else self.root_weights[rows],
            counts=None if self.counts is None else self.counts[rows],
            fixed=None if self.fixed is None else self.fixed[rows],
        )

    def along(self, filter: Filter) -> Path:
        """The same data along another filter (bound here)."""
        return replace(self, filter=as_filter(filter).bind(self.spectrum.largest_bound), chosen=None)

    def _evaluate(self, rule: Callable[[Path, Array], Array], step_sum: Readings, iteration: Readings) -> Array:
        """rule(path, step_sums); several responses at their own chosen stops are taken one by one."""
        sums = self.step_sums(step_sum, iteration)
        if step_sum is None and iteration is None and self.coefficients.ndim == 2:
            parts = [rule(self.column(j), np.asarray(s)) for j, s in enumerate(np.atleast_1d(sums))]
            return np.stack(parts, axis=-1)
        return rule(self, sums)

    # ---- in problem units, for rules --------------------------------------------------------------------------

    @property
    def unseen_energy(self) -> Array:
        """The responses' sum of squares outside the known eigenvectors: never fitted."""
        basis = self.spectrum.basis
        if basis is not None and len(self.coefficients) >= len(basis.rows) - self.n_fixed:
            # A whole basis leaves nothing out; the difference would be rounding, and hide a small residual.
            return np.zeros(self.coefficients.shape[1:])
        return cast(Array, np.maximum(self.energy - (self.coefficients**2).sum(axis=0), 0.0))

    def mean_squared_residual(self, step_sum: ArrayLike) -> Array:
        """(1/n) sum_j S_j^2 ytilde_j^2, with the unseen part at S = 1."""
        shrinkage = self.filter.shrinkage(self.spectrum.eigenvalues, step_sum)
        return cast(Array, (shrinkage**2 @ self.coefficients**2 + self.unseen_energy) / self.n_samples)

    def squared_hilbert_norm(self, step_sum: ArrayLike) -> Array:
        """||f||_H^2 = (1/n) sum_j (gain_j / lambda_j)^2 lambda_j ytilde_j^2."""
        values = self.spectrum.eigenvalues
        weight = self.filter.weight(values, step_sum)
        return cast(Array, weight * (weight * values) @ self.coefficients**2 / self.n_samples)

    def debiased_squared_norm(self, step_sum: ArrayLike, noise_std: float) -> Array:
        """(1/n) sum_j gain_j^2 (ytilde_j^2 - sigma^2) / lambda_j: in the mean never above the truth's squared norm."""
        values = self.density.values
        weight = self.filter.weight(values, step_sum)
        noise = self.density.total(weight * (weight * values)) * noise_std**2 / self.n_samples
        return cast(Array, self.squared_hilbert_norm(step_sum) - self.beside_responses(noise))

    def degrees_of_freedom(self, step_sum: Readings = None, *, iteration: Readings = None) -> Array:
        """sum_j gain_j: the trace of the smoother, without the intercept."""
        sums = self.step_sums(step_sum, iteration)
        return self.density.total(self.filter.gain(self.density.values, sums))

    def squared_gain_sum(self, step_sum: ArrayLike) -> Array:
        """sum_j gain_j^2."""
        return self.density.total(self.filter.gain(self.density.values, step_sum) ** 2)

    def complexity_sum(self, step_sum: ArrayLike) -> Array:
        """d(eta) = sum_j min(1, eta lambda_j)."""
        sums = at_least_zero(step_sum, "step_sum")
        return self.density.total(np.minimum(1.0, sums[..., None] * self.density.values))

    def beside_responses(self, values: Array) -> Array:
        """Numbers that all responses share, one per clock reading, shaped to meet one column per response."""
        return values if self.coefficients.ndim == 1 else np.asarray(values)[..., None]

    def gcv(self, step_sum: ArrayLike) -> Array:
        """RES / (tr S / n)^2, an intercept costing one degree; infinite where no degree of freedom is left."""
        free = self.beside_responses(1 - (self.degrees_of_freedom(step_sum) + self.n_fixed) / self.n_samples)
        with np.errstate(divide="ignore", invalid="ignore"):
            return cast(
                Array, np.where(free > self._least_left(1e-8), self.mean_squared_residual(step_sum) / free**2, np.inf)
            )

    def _least_left(self, rounding: float) -> float:
        """The smallest share of a row (or of all) that may be left to it: below, a ratio of two such says nothing.

        A spectrum that is not complete knows its sums to a percent or so.
        """
        return rounding if self.spectrum.complete else UNSURE

    # ---- in the units of y, for people ------------------------------------------------------------------------

    def fit(self, step_sum: Readings = None, *, iteration: Readings = None) -> Array:
        """Fitted values at the training rows: (n,), (g, n), (n, q) or (g, n, q)."""
        values = self._evaluate(Path._fit, step_sum, iteration)
        return cast(Array, self.offset + self.scale * (values + self.fixed_part()))

    def _rows(self, coefficients: Array) -> Array:
        """Coefficients (k, ...) in the eigenbasis to values by row, unweighted."""
        if self.spectrum.basis is None:
            raise ValueError("this path was made from eigenvalues alone: fitted values need eigenvectors")
        flat = coefficients.reshape(len(coefficients), -1)
        rows = self._unweighted(self.spectrum.basis.combine(flat).astype(np.float64))
        return rows.reshape(len(rows), *coefficients.shape[1:])

    def _by_row(self, factors: Array) -> Array:
        """factors (k,) or (g, k) times the coefficients, as values by row: ([g], n, [q])."""
        columns = factors.T if self.coefficients.ndim == 1 else factors.T[..., None]
        rows = self._rows(columns * (self.coefficients if factors.ndim == 1 else self.coefficients[:, None]))
        return rows if factors.ndim == 1 else np.moveaxis(rows, 0, 1)

    def _fit(self, sums: Array) -> Array:
        return self._by_row(self.filter.gain(self.spectrum.eigenvalues, sums))

    def dual_coef(self, step_sum: Readings = None, *, iteration: Readings = None) -> Array:
        """Weights a with f(x) = sum_i a_i k(x, x_i) + intercept, from gain / lambda and its limit."""

        def weights(path: Path, sums: Array) -> Array:
            return path._by_row(path.filter.weight(path.spectrum.eigenvalues, sums))

        counts = self.row_weights if self.coefficients.ndim == 1 else self.row_weights[:, None]
        rows = counts * self._off_free(self._evaluate(weights, step_sum, iteration))
        return cast(Array, rows * (self.scale / self.n_samples))

    def _off_free(self, rows: Array) -> Array:
        """Values by row, ([g], n, [q]), less their part in what is left free: the constant, or all columns of a trend.

        Weights and residuals have none there, but eigenvectors of eigenvalue zero may hold a share of it, by rounding
        alone: `step_sum` would blow it up in weights, and beside a tiny residual it is large.
        """
        axis, root = rows.ndim - self.coefficients.ndim, np.sqrt(self.row_weights)
        root = root if self.coefficients.ndim == 1 else root[:, None]
        inside = np.tensordot(self.free, root * rows, (0, axis))
        return cast(Array, rows - np.moveaxis(np.tensordot(self.free, inside, (1, 0)), 0, axis) / root)

    @property
    def free(self) -> Array:
        """What is not penalised, as orthonormal columns (n, p) in the coordinates of the weighted responses."""
        if self.fixed is not None:
            return self.fixed
        return cast(Array, np.sqrt(self.row_weights / self.n_samples)[:, None][:, : int(self.intercept)])

    def residual_norm(self, step_sum: Readings = None, *, iteration: Readings = None) -> Array:
        """Root mean square of y - fit, in the units of y."""
        squared = self._evaluate(Path.mean_squared_residual, step_sum, iteration)
        return cast(Array, self.scale * np.sqrt(squared))

    def change(self, first: float, last: float) -> Array:
        """Root mean square difference of the fitted values at two clock readings, in the units of y."""
        gains = self.filter.gain(self.spectrum.eigenvalues, np.array([first, last]))
        return cast(Array, self.scale * np.sqrt((gains[1] - gains[0]) ** 2 @ self.coefficients**2 / self.n_samples))

    def hilbert_norm(self, step_sum: Readings = None, *, iteration: Readings = None) -> Array:
        """||f||_H of the estimate (intercept aside), in the units of y."""
        squared = self._evaluate(Path.squared_hilbert_norm, step_sum, iteration)
        return cast(Array, self.scale * np.sqrt(squared))

    # ---- leave-one-out ----------------------------------------------------------------------------------------

    @cached_property
    def _square(self) -> bool:
        """Whether there is an eigenvector for each row, and no row is missing: then they are complete."""
        weights = self.row_weights
        all_there = float(weights.sum()) >= (1 - 1e-9) * self.n_samples
        return len(self.spectrum.eigenvalues) == weights.size and all_there

    def leverage_left(self, step_sum: ArrayLike) -> Array:
        """1 - h_ii by row, h the smoother with its intercept; (n,) or (g, n).

        Of a row that stands for several observations, h_ii is the leverage of one of them.
        """
        basis, spectrum = self.spectrum.basis, self.spectrum
        if basis is None:
            raise ValueError("leverages need eigenvectors")
        values, sums = spectrum.eigenvalues, np.asarray(step_sum, dtype=np.float64)
        counts, fixed = self.row_counts, (self.free**2).sum(axis=1)
        if self._square:
            left = basis.squared(self.filter.shrinkage(values, sums).T).T + (counts - 1.0 - fixed)
        else:
            gains = self.filter.gain(values, sums)
            left = counts - fixed - basis.squared(gains.T).T
            if spectrum.diagonal_left is not None and spectrum.diagonal_left.sum() > 0:
                # Degrees of freedom outside the known space, shared out like the kernel's own diagonal there.
                missing = self.degrees_of_freedom(sums) - gains.sum(axis=-1)
                share = spectrum.diagonal_left / spectrum.diagonal_left.sum()
                left = left - np.maximum(missing, 0.0)[..., None] * share
        return cast(Array, left / counts)

    def residual_rows(self, sums: Array) -> Array:
        """y - f by row in problem units; of a whole basis from S itself, so that a tiny residual keeps its digits."""
        if self.response is None or self._square:
            return self._off_free(self._by_row(self.filter.shrinkage(self.spectrum.eigenvalues, sums)))
        return cast(Array, self._unweighted(self.response) - self._fit(sums))

    def _leave_one_out(self, sums: Array) -> Array:
        left, residual = self.beside_responses(self.leverage_left(sums)), self.residual_rows(sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            return cast(Array, np.where(left > self._least_left(SATURATED), residual / left, np.inf))

    def leave_one_out(self, step_sum: Readings = None, *, iteration: Readings = None) -> Array:
        """Leave-one-out residuals y_i - f_(-i)(x_i) in the units of y, by the leverage shortcut.

        Exact for ridge at a fixed penalty. For the other filters an approximation, within a few percent where few
        degrees of freedom are spent and of no use near interpolation. Infinite where a row is fitted exactly.
        """
        return cast(Array, self.scale * self._evaluate(Path._leave_one_out, step_sum, iteration))

    def leave_one_out_error(self, step_sum: ArrayLike) -> Array:
        """Mean squared leave-one-out residual in problem units (rows counted by weight)."""
        sums, weights = np.asarray(step_sum, dtype=np.float64), self.row_weights

        def some(at: Array) -> Array:
            squared = np.moveaxis(self._leave_one_out(at) ** 2, 1, -1)
            return cast(Array, (squared * weights).sum(axis=-1) / self.n_samples)

        # Many readings at once: a filter that is run step by step is then run once for all of them.
        readings = np.atleast_1d(sums)
        out = np.concatenate([some(readings[part]) for part in row_tiles(len(readings), weights.size)])
        return out if sums.ndim else cast(Array, out[0])

    # ---- with a known truth: exact, no simulation ---------------------------------------------------------------

    def truth_coefficients(self, truth: ArrayLike) -> tuple[Array, float]:
        values = finite_array(truth, "truth")
        if self.spectrum.basis is None:
            raise ValueError("bias needs eigenvectors")
        if values.shape != (len(self.spectrum.basis.rows),):
            raise ValueError(
                f"truth must be one value per training row, {len(self.spectrum.basis.rows)}; got {values.shape}"
            )
        weighted = np.sqrt(self.row_weights) * values
        weighted = weighted - self.free @ (self.free.T @ weighted)
        inside = self.spectrum.basis.coordinates(weighted)
        return inside, max(float(weighted @ weighted - inside @ inside), 0.0)

    def squared_bias(self, truth: ArrayLike, step_sum: Readings = None, *, iteration: Readings = None) -> Array:
        """(1/n) sum_j S_j^2 ftilde_j^2 (RWY14, B_t^2), exact."""
        inside, outside = self.truth_coefficients(truth)
        shrinkage = self.filter.shrinkage(self.spectrum.eigenvalues, self.step_sums(step_sum, iteration))
        return cast(Array, (shrinkage**2 @ inside**2 + outside) / self.n_samples)

    def variance(self, noise_std: float, step_sum: Readings = None, *, iteration: Readings = None) -> Array:
        """(sigma^2/n) sum_j gain_j^2 (RWY14, the mean of V_t), exact; plus sigma^2/n for an intercept."""
        spread = self.squared_gain_sum(self.step_sums(step_sum, iteration)) + self.n_fixed
        return cast(Array, at_least_zero(noise_std, "noise_std") ** 2 * spread / self.n_samples)

    def risk(
        self, truth: ArrayLike, noise_std: float, step_sum: Readings = None, *, iteration: Readings = None
    ) -> Array:
        """Mean squared error against the truth at the training rows, averaged over the noise: exact."""
        bias = self.squared_bias(truth, step_sum, iteration=iteration)
        return cast(Array, bias + self.variance(noise_std, step_sum, iteration=iteration))

    def stopped_at(self, chosen: tuple[float, ...]) -> Path:
        """The same path with its chosen stop (one per response) as the default of every method."""
        if np.shape(chosen) != (self.n_responses,):
            raise ValueError(f"a stop is needed for each of {self.n_responses} response(s), as a tuple; got {chosen!r}")
        return replace(self, chosen=chosen)


def _readings(given: ArrayLike, name: str) -> Array:
    """Clock readings, or whole numbers of iterations: one or a list."""
    values = real_array(given, name)
    fits = (values >= 0) & (values < math.inf)
    if name == "iteration" and not np.all(fits & (values == np.floor(values))):
        raise ValueError(f"iteration must be a whole number of at least 0, got {given!r}")
    if not np.all(fits):
        raise ValueError(f"step_sum must be at least 0 and finite, got {given!r}: path_.step_sum_cap is the end")
    if values.ndim > 1:
        raise ValueError(f"{name} must be a number or a list of numbers, got shape {values.shape}")
    return values


def make_path(
    spectrum: Spectrum, filter: Filter, response: Array, *, root_weights: Array | None = None, **settings: Any
) -> Path:
    """A path for responses (n,) or (n, q), already centred if there is an intercept; `settings` are fields of it."""
    if spectrum.basis is None:
        raise ValueError("a path needs eigenvectors")
    weighted = response if root_weights is None else (response.T * root_weights).T
    return Path(
        spectrum=spectrum,
        filter=filter.bind(spectrum.largest_bound),
        coefficients=spectrum.basis.coordinates(weighted),
        energy=(weighted**2).sum(axis=0),
        root_weights=root_weights,
        response=weighted,
        **settings,
    )
