"""The data as the rooms behind it want them: checked, centred, scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import on_host
from stopwise.copies import left_out_weights
from stopwise.filters import Filter
from stopwise.kernels import Kernel, Precomputed
from stopwise.path import Path, make_path
from stopwise.rules.base import Data
from stopwise.spectrum import Spectrum

NOTHING = 1e-7
"""Features in their standard deviations: columns and directions that vary by less are sums of others, up to the digits
that tables are written with. (Percentages that add up to a hundred do so to eight digits or so.)"""


@dataclass(frozen=True)
class Trend:
    """The constant and the features as columns t(x) = [1, (x - centre) / spread] @ mixing, left unpenalised.

    Over the training samples they are orthonormal: sum_i w_i t(x_i) t(x_i)' = I. Features that are sums of others
    (`NOTHING`) add no column; those without a slope have rows of zeros in `mixing`.
    """

    centre: Array
    spread: Array
    mixing: Array

    @property
    def sloped(self) -> Array:
        """Which features have a slope."""
        return cast(Array, self.mixing[1:].any(axis=1))

    def at(self, covariates: Array) -> Array:
        """t at some rows, (m, p)."""
        scaled = (covariates.astype(np.float64) - self.centre) / self.spread
        return cast(Array, np.column_stack([np.ones(len(scaled)), scaled]) @ self.mixing)

    def slopes(self, level: Array) -> tuple[Array, Array]:
        """The function t(x) @ level as an intercept (q,) and slopes (d, q) of the features in their own units."""
        in_spreads = self.mixing @ level
        slopes = in_spreads[1:] / self.spread[:, None]
        return cast(Array, in_spreads[0] - self.centre @ slopes), cast(Array, slopes)


def make_trend(covariates: Array, weights: Array | None, sloped: Array | None = None) -> Trend:
    """The unpenalised columns of some training rows, of which these features (None: all) have slopes."""
    rows = covariates.astype(np.float64)
    root = np.ones(len(rows)) if weights is None else np.sqrt(weights)
    centre = np.average(rows, axis=0, weights=weights)
    reach = np.abs(rows - centre).max(axis=0)  # divided by before squaring: no magnitude overflows
    varies = rows.max(axis=0) > rows.min(axis=0)  # a mean of equal numbers may round to another: that is no slope
    reach = np.where(varies & (reach > 0), reach, 1.0)
    spread = reach * np.sqrt(np.average(((rows - centre) / reach) ** 2, axis=0, weights=weights))
    spread = np.where(varies & (spread > 0), spread, 1.0)
    used = np.append(True, varies if sloped is None else varies & sloped)
    columns = np.column_stack([np.ones(len(rows)), (rows - centre) / spread])[:, used]
    _, values, directions = np.linalg.svd(root[:, None] * columns, full_matrices=False)
    kept = values > NOTHING * np.linalg.norm(root)
    mixing = np.zeros((len(used), int(kept.sum())))
    mixing[used] = directions[kept].T / values[kept]
    return Trend(centre, spread, mixing)


def random_order(n_rows: int, seed: int) -> Array:
    """Rows in a random order, of which samples are the first: a larger one holds the smaller."""
    return np.random.default_rng([20160716, seed]).permutation(n_rows)


def row_order(covariates: Array) -> Array | None:
    """Rows in the order of their only covariate; None for several."""
    x = on_host(covariates)
    return np.argsort(x[:, 0], kind="stable") if x.ndim == 2 and x.shape[1] == 1 else None


@dataclass(frozen=True)
class Problem:
    """Observations, responses in problem units, and how to get back.

    Rows differ in covariates or responses (`find_observations`). `weights` are relative precisions and `counts` how
    many observations each row stands for, None where all are one; both add up to `n_samples`.

    `responses` is (n, q), centred if there is an intercept and scaled by `scale` (q,), a power of two, so that no
    magnitude of y overflows a square. y = offset + scale * response. With a `trend`, the responses are what is left of
    them after least squares on its columns, and `level` (p, q) is what was taken out.
    """

    covariates: Array
    responses: Array
    weights: Array | None
    scale: Array
    offset: Array
    intercept: bool
    seed: int = 0
    trend: Trend | None = None
    level: Array | None = None
    counts: Array | None = None
    shared_scales: tuple[tuple[int, ...], ...] = ()
    """Groups of columns that share a length scale, such as the levels of one category; all others have their own."""
    subjects: Array | None = None
    """For each row the number, from 0, of the group that it belongs to; None where no groups were given."""
    block: int | None = None
    """How many neighbouring rows share their noise, where a rule was told so."""

    @cached_property
    def order(self) -> Array | None:
        """Rows in the order of their only covariate; None for several."""
        return row_order(self.covariates)

    @property
    def n_rows(self) -> int:
        return len(self.covariates)

    @property
    def data(self) -> Data:
        """Which rows belong together, and in which order they stand."""
        return Data(self.n_rows, subjects=self.subjects, order=self.order)

    @property
    def n_samples(self) -> float:
        """How many observations they stand for."""
        return float(self.n_rows) if self.weights is None else float(self.weights.sum())

    @property
    def root_weights(self) -> Array | None:
        """sqrt of the weights, or None."""
        return None if self.weights is None else np.sqrt(self.weights)

    @property
    def weighted_responses(self) -> Array:
        """sqrt(w) y, (n, q)."""
        return self.responses if self.weights is None else self.responses * np.sqrt(self.weights)[:, None]

    def left_out_shares(self, rows: Array) -> Array | None:
        """What squared left-out errors of some rows, by weight, are multiplied by where stops are compared."""
        if self.weights is None:
            return None
        weights = self.weights[rows]
        return left_out_weights(weights, None if self.counts is None else self.counts[rows]) / weights

    def in_y_units(self, column: int) -> Array:
        """One response as it was given."""
        whole = self.responses[:, column]
        if self.trend is not None and self.level is not None:
            whole = whole + self.trend.at(self.covariates) @ self.level[:, column]
        return cast(Array, self.offset[column] + self.scale[column] * whole)

    def of_responses(self, columns: Sequence[int]) -> Problem:
        """The same rows with some of the responses."""
        at = list(columns)
        level = None if self.level is None else self.level[:, at]
        scale, offset = self.scale[at], self.offset[at]
        return replace(self, responses=self.responses[:, at], scale=scale, offset=offset, level=level)

    def with_trend(self, sloped: Array | None = None) -> Problem:
        """The same problem with slopes (of these features; None: of all) left unpenalised beside the intercept."""
        trend = make_trend(self.covariates, self.weights, sloped)
        columns = trend.at(self.covariates)
        weighted = self.responses if self.weights is None else self.weights[:, None] * self.responses
        level = columns.T @ weighted
        return replace(self, responses=self.responses - columns @ level, trend=trend, level=level)

    @cached_property
    def fixed(self) -> Array | None:
        """The trend's columns in the coordinates of sqrt(w) y, orthonormal (n, p); None without a trend."""
        if self.trend is None:
            return None
        columns = self.trend.at(self.covariates)
        return columns if self.weights is None else cast(Array, np.sqrt(self.weights)[:, None] * columns)

    def gram(self, kernel: Kernel, rows: Array | None = None, columns: Array | None = None) -> Array:
        """The raw kernel matrix between given rows (default: all)."""
        x = self.covariates
        if isinstance(kernel, Precomputed):
            return x if rows is None else cast(Array, x[np.ix_(rows, rows if columns is None else columns)])
        left = x if rows is None else x[rows]
        return kernel(left) if columns is None else kernel(left, x[columns])

    def kernel_scale(self, kernel: Kernel) -> float:
        """The kernel's mean diagonal over samples (1 where it vanishes); remembered, since every decision asks."""
        known: tuple[Kernel, float] | None = self.__dict__.get("_kernel_scale")
        if known is None or known[0] is not kernel:
            x = on_host(self.covariates)
            diagonal = np.diagonal(x) if isinstance(kernel, Precomputed) else kernel.diagonal(x)
            mean = float(np.average(diagonal.astype(np.float64), weights=self.weights))
            known = self.__dict__["_kernel_scale"] = kernel, mean
        return known[1] if known[1] > 0 else 1.0

    def path(self, spectrum: Spectrum, filter: Filter) -> Path:
        """The path of all responses along a filter, on a spectrum with eigenvectors by row."""
        return make_path(spectrum, filter, self.responses, **self.path_fields)

    @property
    def path_fields(self) -> dict[str, Any]:
        """What any path of these responses knows of the rows, and of the way back to the units of y."""
        return {
            "intercept": self.intercept,
            "root_weights": self.root_weights,
            "fixed": self.fixed,
            "level": self.level,
            "counts": self.counts,
            "scale": self.scale,
            "offset": self.offset,
        }

    def random_rows(self, count: int) -> Array:
        """The first `count` of a random order of all rows, ascending: a larger sample holds the smaller one."""
        return np.sort(random_order(self.n_rows, self.seed)[:count])

    def subset(self, rows: Array, kernel: Kernel) -> Problem:
        """The same problem on some of the rows, centred anew; still in this problem's units."""
        precomputed = isinstance(kernel, Precomputed)
        covariates = self.covariates[np.ix_(rows, rows)] if precomputed else self.covariates[rows]
        counts = None if self.counts is None else self.counts[rows]
        weights = None if self.weights is None else self.weights[rows]
        if weights is not None:  # they add up to the observations of this part
            weights = weights * ((len(rows) if counts is None else counts.sum()) / weights.sum())
        subjects = None if self.subjects is None else self.subjects[rows]
        part = replace(
            self,
            covariates=covariates,
            responses=self.responses[rows],
            weights=weights,
            counts=counts,
            subjects=subjects,
        )
        means = part.mean_response()
        return replace(part, responses=part.responses - means, offset=means, scale=np.ones_like(self.scale))

    def spread(self, column: int = 0) -> float:
        """The standard deviation of one response about what an intercept takes out, in the units of y."""
        centred = self.responses[:, column] - self.mean_response()[column]
        return float(np.sqrt(np.average(centred**2, weights=self.weights)) * self.scale[column])

    def mean_response(self) -> Array:
        """The weighted mean that an intercept takes out (zero without one), problem units."""
        if not self.intercept:
            return np.zeros(self.responses.shape[1])
        return cast(Array, np.average(self.responses, axis=0, weights=self.weights))


def _power_of_two(values: Array) -> Array:
    """For each column the power of two just above its largest magnitude (1 for a zero column)."""
    largest = np.abs(values).max(axis=0, initial=0.0)
    exponents = np.where(largest > 0, np.frexp(largest)[1], 0)
    return cast(Array, np.ldexp(1.0, np.clip(exponents, -1021, 1023)))


def make_problem(
    covariates: Array, y: Array, weights: Array | None, *, intercept: bool, seed: int, counts: Array | None = None
) -> Problem:
    """Centre and scale responses (n, q) of observations (`find_observations`)."""
    responses = np.asarray(y, dtype=np.float64)
    first = _power_of_two(responses)
    responses = responses / first
    offset = np.zeros(responses.shape[1])
    if intercept:
        # From one of the responses first: such differences are exact, so that a large offset costs no digits.
        anchor = responses[0]
        responses = responses - anchor
        mean = np.average(responses, axis=0, weights=weights)
        offset, responses = anchor + mean, responses - mean
        # Differences of a few roundings of the offset are rounding: such a y is constant.
        rounding = 4 * np.finfo(np.float64).eps * np.abs(offset)
        responses[:, np.abs(responses).max(axis=0) <= rounding] = 0.0
    second = _power_of_two(responses)
    scale = first * second
    return Problem(covariates, responses / second, weights, scale, offset * first, intercept, seed, counts=counts)
