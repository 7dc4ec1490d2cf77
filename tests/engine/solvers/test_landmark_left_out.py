"""Leave-one-out over landmark features is what refits without each row give; the search takes few passes."""

import numpy as np
import pytest

import stopwise as sw
from bare_paths import FILTERS, bare
from stopwise.engine.landmarks.features import Landmarks
from stopwise.engine.landmarks.landmark_left_out import Smoother, left_out_squares, lowest_in_few_passes
from stopwise.rules import Reason, clock_grid

PENALTIES = np.array([0.3, 4.0, 100.0])
"""Inverse penalties nu of ridge: the penalty on squared weights is n / nu."""


@pytest.fixture
def rows(rng):
    x = rng.uniform(-1, 1, (25, 2))
    return x, np.sin(3 * x[:, :1]) + 0.2 * rng.normal(size=(25, 1)) + 5


def plain_landmarks(size):
    """Features that are the rows themselves."""
    return Landmarks(sw.kernels.Linear(), np.eye(size), np.eye(size), np.eye(size))


def smoother(x, y, intercept, weights=None):
    """Ridge on the rows at three penalties, in eigenvectors; with weights, without an intercept."""
    weights = np.ones(len(x)) if weights is None else weights
    n, root = weights.sum(), np.sqrt(weights)
    mean = x.mean(axis=0) if intercept else np.zeros(x.shape[1])
    offset = float(y.mean()) if intercept else 0.0
    left, values, right = np.linalg.svd(root[:, None] * (x - mean), full_matrices=False)
    gains = sw.filters.Ridge().gain(values**2 / n, PENALTIES).T
    weighted = gains * (left.T @ (root * (y[:, 0] - offset)))[:, None]
    return Smoother(
        plain_landmarks(x.shape[1]), mean, right.T / values, gains, weighted, 0, offset, float(n), intercept
    )


def refitted_errors(x, y, nu, intercept, weights=None):
    """The error at each row of a ridge fit to all the others with the same penalty, by plain normal equations."""
    weights = np.ones(len(x)) if weights is None else weights
    n, p = len(x), x.shape[1]
    design = np.column_stack([x, np.ones(n)]) if intercept else x
    penalty = np.diag([weights.sum() / nu] * p + [0.0] * intercept)
    errors = []
    for i in range(n):
        rest = np.arange(n) != i
        left = design[rest].T * weights[rest]
        beta = np.linalg.solve(left @ design[rest] + penalty, left @ y[rest, 0])
        errors.append(y[i, 0] - design[i] @ beta)
    return np.array(errors)


@pytest.mark.parametrize("intercept", [False, True])
def test_squared_left_out_errors_are_those_of_refits_without_each_row(rows, intercept):
    x, y = rows
    found = left_out_squares(smoother(x, y, intercept), x, y, None)
    expected = [(refitted_errors(x, y, nu, intercept) ** 2).sum() for nu in PENALTIES]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_each_row_counts_by_its_weight_and_parts_of_the_rows_add_up(rows, rng):
    x, y = rows
    weights = rng.uniform(0.5, 3, len(x))
    how = smoother(x, y, False, weights)
    expected = [weights @ refitted_errors(x, y, nu, False, weights) ** 2 for nu in PENALTIES]
    whole = left_out_squares(how, x, y, weights)
    parts = [left_out_squares(how, x[part], y[part], weights[part]) for part in (slice(0, 9), slice(9, None))]
    np.testing.assert_allclose(whole, expected, rtol=1e-9)
    np.testing.assert_allclose(parts[0] + parts[1], whole, rtol=1e-12)


def test_a_row_of_several_observations_leaves_out_one_of_them(rows):
    x, y = rows
    counts = np.arange(len(x)) % 3 + 1.0
    written_out = np.repeat(np.arange(len(x)), counts.astype(int))
    found = left_out_squares(smoother(x, y, False, counts), x, y, counts, counts)
    expected = [(refitted_errors(x[written_out], y[written_out], nu, False) ** 2).sum() for nu in PENALTIES]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_row_that_decides_its_own_fit_makes_the_error_infinite():
    x, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0], [2.0]])
    how = Smoother(plain_landmarks(2), np.zeros(2), np.eye(2), np.ones((2, 1)), y, 0, 0.0, 2.0, False)
    assert left_out_squares(how, x, y, None)[0] == np.inf


class Counted:
    """A parabola on the log clock with its lowest point at a known place, and how often it was asked."""

    def __init__(self, lowest):
        self.lowest, self.calls = lowest, 0

    def __call__(self, step_sum):
        self.calls += 1
        with np.errstate(divide="ignore"):
            return 1 + np.log(step_sum / self.lowest) ** 2


@pytest.mark.parametrize("lowest", [1.3, 17.0, 900.0])
@pytest.mark.parametrize("filter", FILTERS)
def test_the_lowest_point_is_found_in_few_passes(filter, lowest):
    path, criterion = bare(filter, values=np.geomspace(2, 1e-4, 60)), Counted(lowest)
    stop = lowest_in_few_passes(path, criterion)
    assert criterion.calls <= 9
    assert stop.reason is Reason.MINIMUM
    reach = clock_grid(path)
    if stop.iteration is not None:
        reach = path.filter.step_sum(np.arange(1.0, 20_000.0))
    elif filter != "cutoff":
        assert stop.step_sum == pytest.approx(lowest, rel=1e-5)
        reach = np.array([lowest])
    best = reach[np.argmin(Counted(lowest)(reach))]
    assert stop.step_sum == pytest.approx(best, rel=1e-5)
    assert stop.evidence.criterion == pytest.approx(Counted(lowest)(best), abs=1e-9)


@pytest.mark.parametrize("filter", FILTERS)
def test_a_criterion_that_falls_to_the_end_stops_at_the_cap(filter):
    path = bare(filter)
    stop = lowest_in_few_passes(path, lambda step_sum: 1 / (1 + np.asarray(step_sum)))
    assert stop.reason is Reason.CAP
    assert stop.step_sum == pytest.approx(clock_grid(path)[-1], rel=1e-2)


def test_readings_without_a_finite_error_are_never_chosen():
    path = bare("ridge", values=np.geomspace(2, 1e-4, 60))
    stop = lowest_in_few_passes(path, lambda at: np.where(at > 5, np.nan, -np.asarray(at)))
    assert stop.step_sum <= 5
    assert stop.step_sum == pytest.approx(5, rel=5e-3)


def test_a_path_that_leads_nowhere_stops_at_zero():
    stop = lowest_in_few_passes(bare("ridge", horizon=0.0), lambda at: np.asarray(at))
    assert (stop.step_sum, stop.reason) == (0.0, Reason.ZERO)
