"""Intervals calibrated on a fit's own left-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.threads import blas_for, blas_threads
from stopwise._support.torch import on_host
from stopwise.engine.landmarks.features import FeatureRows
from stopwise.engine.solvers.line_solver import LineSolver, on_the_line
from stopwise.estimators.fitted import Fitted
from stopwise.estimators.loss_fit import LossFitted
from stopwise.estimators.prediction.device import predict_where_rows_are
from stopwise.estimators.prediction.intervals import Calibration, Ratios, Uncertainty, optimism
from stopwise.estimators.prediction.other_kernels import OtherKernels, Others, has_length_scale, sample_places
from stopwise.estimators.prediction.posterior import (
    Free,
    LinePosterior,
    Posterior,
    posterior_of_landmarks,
    posterior_of_pairs,
    posterior_of_rows,
)
from stopwise.estimators.prediction.row_leverages import (
    SATURATED,
    basis_of,
    has_all_pairs,
    landmark_vectors,
    left_out_on_line,
    left_out_residuals,
    left_out_sets,
    path_left,
    residuals_of,
    residuals_of_sets,
    rows_left,
    scales_of_sets,
    shares_of_sets,
    with_all_pairs,
    without_itself,
)
from stopwise.estimators.prediction.varying_noise import find_varying_noise
from stopwise.filters import Ridge
from stopwise.kernels import Precomputed
from stopwise.path import Path
from stopwise.problem import make_problem, make_trend

STANDING_ROWS, LEFT_OUT_ROWS = 1_000, 2_000
"""Where eigenpairs of all rows are not at hand: rows that stand for all in the estimate's variance, and rows left
out to calibrate it. Time and memory then do not grow with the number of rows."""
_LEFT_OUT_OF_LANDMARKS = 700
"""Rows left out where that takes two products with the landmarks for each: the share that an interval of level .9
covers then has a standard error of 1.1 percent, and calibrating takes less than predicting 100,000 rows."""
_VARYING_ROWS = 600
"""Left-out rows that varying noise is learned from: a log variance is smooth, or not worth having."""
_LARGEST = 1e150
"""Responses that vary by more overflow when they are squared and added up."""
_WHOLE = 1e-9
"""Rounding of a weight over the smallest one, below which it is a whole number."""


@dataclass(frozen=True)
class Given:
    """Rows as they were given: the ratios with one copy of each left out, (rows, q), and how many copies there were."""

    ratios: Array
    copies: Array


def uncertainty_of(fitted: Fitted) -> Uncertainty:
    """Calibrate the intervals of a fit on its own left-out rows.

    Where all eigenpairs are known, rows are few, they lie on a line or are seen through landmarks, every row tells of
    the variance; else some stand for all, and others are left out.
    """
    rows = training_rows(fitted)
    if rows is None:
        raise ValueError(
            "intervals need rows that can be left out, and a fit in batches or on a cluster keeps none: fit all rows, "
            'or a sample of them, with fit(X, y) and a solver such as "nystrom"'
        )
    if (largest := _spread(fitted)) > _LARGEST:
        raise ValueError(
            f"intervals and standard deviations square y, which overflows above {_LARGEST:g}, and y varies by "
            f"{largest:.3g}: rescale it, or predict without them"
        )
    fitted = with_all_pairs(fitted, rows, STANDING_ROWS)
    clock, known = scale_clock(fitted), _known_posterior(fitted, rows)
    errors = None if known else _known_errors(fitted.path)
    standing, asked = _shared_out(len(rows), known is not None, errors)
    through = isinstance(basis_of(fitted).rows, FeatureRows)
    asked = np.sort(asked[: _LEFT_OUT_OF_LANDMARKS if through else LEFT_OUT_ROWS])
    posterior = known or _standing_posterior(fitted, rows, np.sort(standing))
    some, counts = on_host(rows[asked]), fitted.path.row_counts[asked]
    noise, variance = (counts / fitted.path.row_weights[asked])[:, None], posterior.variance(some, clock)
    together = left_out_sets(fitted)
    path, copies = fitted.path.along(Ridge()), None if together is not None else _copies(fitted.path)
    vectors = landmark_vectors(path, asked)
    if vectors is None and known is None:
        left, kept = path_left(path, fitted.step_sums, asked), np.ones_like(variance)
    else:
        left, kept = (rows_left(path, at, asked, vectors, known, some) for at in (fitted.step_sums, clock))
    itself = (1 - kept) * noise
    beside = np.zeros_like(variance) if known and vectors is None else variance - itself
    scale, within = _scale(noise + beside, itself, kept), None
    if together is not None:
        missed = residuals_of_sets(fitted.path, fitted.step_sums, together)[asked]
        scale, counts = scales_of_sets(fitted.path, clock, together)[asked], shares_of_sets(together)[asked]
    elif errors is not None:
        missed = errors[asked]
    elif isinstance(known, LinePosterior):
        missed, within = left_out_on_line(fitted.path, known, fitted.step_sums, asked)
    else:
        missed = left_out_residuals(fitted.path, fitted.step_sums, asked, vectors)
    within = residuals_of(fitted.path, fitted.step_sums, asked, vectors) if within is None else within
    lost = _lost_digits(fitted, asked, some, within) if errors is None else 0.0
    missed = missed + lost
    given = None
    if copies is not None:  # one of them left out, and predicted as a new observation of weight one is
        each = copies[asked, None]
        # Ridge stands for other filters where a row is left out, and less well where its copies stay in.
        again = without_itself(within, 1 - (1 - left) / each) + lost
        ratios = np.where(each > 1, again, missed) / _scale(1 + beside, itself, 1 - (1 - kept) / each)
        given = Given(ratios, copies[asked])
    by_rows = None if isinstance(fitted.kernel, Precomputed) else some.astype(np.float64, copy=False)
    calibrations = tuple(_calibrated(by_rows, missed, missed / scale, counts, given, j) for j in range(len(clock)))
    return Uncertainty(posterior, calibrations, clock, optimism(fitted), _others(fitted, rows))


def _shared_out(n_rows: int, all_stand: bool, errors: Array | None) -> tuple[Array, Array]:
    """Rows that stand for all, no more than half of them, and rows that are left out, in a random order.

    Rows that a solver left out are the last to stand for others, and the only ones asked.
    """
    order = np.random.default_rng(n_rows).permutation(n_rows)
    if all_stand:
        return order, order
    first = standing = min(STANDING_ROWS, n_rows // 2)
    if errors is not None:
        told = cast(Array, np.isfinite(errors).all(axis=1))
        order = order[np.argsort(told[order], kind="stable")]
        first = max(standing, int((~told).sum()))
    return order[:standing], order[first:]


def _known_errors(path: Path) -> Array | None:
    """Residuals of rows that the solver left out, (rows, q) in the units of y, NaN for others; None where it left none.

    An unfinished spectrum knows leverages too roughly for a fit that nearly runs through its rows.
    """
    if path.left_out is None or path.left_out_rows is None:
        return None
    errors = np.full((len(path.row_weights), path.n_responses), np.nan)
    rows = path.left_out_rows
    errors[rows] = path.left_out.reshape(len(rows), -1) / np.sqrt(path.row_weights[rows, None]) * path.scale
    return errors


def _lost_digits(fitted: Fitted, rows: Array, covariates: Array, within: Array) -> Array:
    """By how much predictions at some rows are off the path's own fit, whose residuals there are `within`; units of y.

    A prediction sums large terms, and a response may follow its features to more digits than that keeps.
    """
    path, response = fitted.path, np.asarray(fitted.path.response)
    taken_out = np.broadcast_to(path.fixed_part(), response.shape)
    root = np.sqrt(path.row_weights[rows, None])
    weighted, linear = (values.reshape(len(response), -1)[rows] for values in (response, taken_out))
    given = path.offset + path.scale * (weighted / root + linear)
    return cast(Array, given - predict_where_rows_are(fitted, covariates) - within)


def _scale(beside: Array, itself: Array, kept: Array) -> Array:
    """The root of `beside` and of what the row itself tells of the estimate there: v / (1 - h) without it."""
    return cast(Array, np.sqrt(beside + itself / np.maximum(kept, SATURATED)))


def _copies(path: Path) -> Array | None:
    """How often each row was given, where copies (or whole weights, which are the same) were merged; else None."""
    if path.counts is not None or path.root_weights is None:
        return None
    times = path.row_weights / path.row_weights.min()
    return cast(Array, np.rint(times)) if np.all(np.abs(times - np.rint(times)) <= _WHOLE * times) else None


def scale_clock(fitted: Fitted) -> Array:
    """The clock reading at which the estimate's variance is read, one per response.

    The stop's own; of the default rule, which stops early on purpose, the one it could not be told from: what an early
    stop leaves out of the estimate is doubt about the curve. To three digits: where an error is smallest is known to
    the root of rounding, and intervals should not change with the order of rows.
    """
    return np.array([max(stop.step_sum, float(f"{stop.evidence.lowest_step_sum or 0.0:.3g}")) for stop in fitted.stops])


def has_intervals(fitted: Fitted | LossFitted) -> bool:
    """Whether a fit can say how uncertain it is: finite squares, with rows to leave out, whose noise is their own."""
    if training_rows(fitted) is None or cast(Fitted, fitted).shared_noise:
        return False
    return _spread(cast(Fitted, fitted)) <= _LARGEST


def _spread(fitted: Fitted) -> float:
    """By how much responses vary, the most varied of several."""
    return float(np.max(fitted.path.scale))


def training_rows(fitted: Fitted | LossFitted) -> Array | None:
    """The rows that a fit can leave out, as the kernel takes them; None under a loss, and where it kept sums alone."""
    if isinstance(fitted, LossFitted):
        return None
    basis = fitted.path.spectrum.basis
    if basis is None or fitted.path.response is None:
        return None
    return basis.rows.covariates if isinstance(basis.rows, FeatureRows) else fitted.covariates


def _known_posterior(fitted: Fitted, rows: Array) -> Posterior | LinePosterior | None:
    """From all rows, or all as the landmarks of the fit see them; None where they are too many for all eigenpairs."""
    path, basis, kernel, weights = fitted.path, basis_of(fitted), fitted.kernel, fitted.path.row_weights
    if fitted.solver == LineSolver.name:
        space = on_the_line(kernel, rows.shape[1])
        return None if space is None else LinePosterior(space, rows, weights, path.intercept)
    free = Free(path.intercept, fitted.trend, path.n_samples)
    if isinstance(basis.rows, FeatureRows):
        clock = None if len(rows) <= STANDING_ROWS else scale_clock(fitted)
        return posterior_of_landmarks(basis.rows, np.asarray(basis.rotation), path.spectrum, free, clock)
    if has_all_pairs(path):
        pairs = path.spectrum.eigenvalues, np.asarray(basis.vectors, dtype=np.float64)
        return posterior_of_pairs(kernel, on_host(rows), weights, pairs, free, path.n_samples)
    return None


def _standing_posterior(fitted: Fitted, rows: Array, chosen: Array) -> Posterior:
    """From some rows that stand for all, on the same clock of Gram / n."""
    path, precomputed = fitted.path, isinstance(fitted.kernel, Precomputed)
    some = rows[np.ix_(chosen, chosen)] if precomputed else on_host(rows[chosen])
    weights = path.row_weights[chosen]
    weights = weights * (path.row_counts[chosen].sum() / weights.sum())
    trend = None if fitted.trend is None else make_trend(some, weights, fitted.trend.sloped)
    free = Free(path.intercept, trend, float(weights.sum()))
    columns = chosen if precomputed else None
    posterior = posterior_of_rows(fitted.kernel, some, weights, free, path.n_samples, columns)
    return posterior.visible(scale_clock(fitted))


def _calibrated(
    rows: Array | None, missed: Array, observed: Array, counts: Array, given: Given | None, column: int
) -> Calibration:
    """Of one response; `rows` (None: a precomputed kernel knows none) tell where the noise is louder."""
    ratios = observed[:, column]
    varying, logs = None, np.zeros(len(ratios))
    if rows is not None:
        learned_from = _evenly(rows, ratios, counts)
        with blas_threads(blas_for(len(learned_from))):
            found = find_varying_noise(rows[learned_from], ratios[learned_from])
        if found is not None:
            varying, left_out = found
            logs = varying.log_variance(rows)
            logs[learned_from] = left_out
    even = np.exp(-logs / 2)
    copied = None if given is None else _in_order(given.ratios[:, column] * even, given.copies)
    return Calibration(_in_order(ratios * even, counts), copied, varying, _in_order(missed[:, column], counts))


def _in_order(ratios: Array, counts: Array) -> Ratios:
    order = np.argsort(np.abs(ratios), kind="stable")
    return Ratios(np.abs(ratios)[order], counts[order])


def _evenly(rows: Array, ratios: Array, counts: Array) -> Array:
    """For some observations, evenly spread in the order of their entries, the number of their row."""
    in_order = np.lexsort((np.abs(ratios), *rows.T[::-1]))
    last = np.cumsum(np.maximum(np.rint(counts[in_order]), 1))
    wanted = np.floor(np.linspace(0, last[-1] - 1, int(min(last[-1], _VARYING_ROWS))))
    return cast(Array, in_order[np.searchsorted(last, wanted, side="right")])


def _others(fitted: Fitted, rows: Array) -> Others | None:
    """Other kernels that the rows allow; None where the kernel was given: then it is the user's word."""
    path, ranges = fitted.path, fitted.feature_range
    chosen_from = 0 if fitted.selection is None else len(fitted.selection)
    if not chosen_from or ranges is None or not has_length_scale(fitted.kernel):
        return None
    covariates, weights, y = on_host(rows).astype(np.float64), path.row_weights, np.asarray(path.response)
    responses = y.reshape(len(rows), -1) / np.sqrt(weights[:, None]) * path.scale
    each = []
    for response, at in zip(responses.T, fitted.step_sums, strict=True):
        column, counts = response[:, None], path.counts
        problem = make_problem(covariates, column, weights, intercept=path.intercept, seed=0, counts=counts)
        each.append(OtherKernels(sample_places(problem, fitted.kernel, fitted.trend, float(at))))
    return Others(ranges if fitted.features is None else ranges[:, fitted.features], tuple(each))
