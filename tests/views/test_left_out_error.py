"""The leave-one-out error that commands print: of all rows, of some, or of those that a solver left out."""

import warnings

import numpy as np
import pytest

import stopwise as sw
from stopwise.estimators.prediction.row_leverages import left_out_residuals
from stopwise.pages.summary import headline
from stopwise.rules import Fixed
from stopwise.views import facts
from stopwise.views.curves import chosen


@pytest.fixture
def data(rng):
    X = rng.normal(size=(400, 2))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=400)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_draw_of_rows_has_the_error_of_these_rows(data, weighted, monkeypatch, rng):
    weights = rng.uniform(0.5, 2, size=400) if weighted else None
    model = sw.KernelGradientRegressor("gaussian", solver="nystrom", n_landmarks=60).fit(*data, sample_weight=weights)
    assert facts.rows_left_out(model.path_) is None
    path, counted = model.path_, model.path_.row_weights
    every = left_out_residuals(path, np.array([path.step_sums()]), np.arange(400), None)[:, 0]
    monkeypatch.setattr(facts, "MADE_ANEW", 150)
    rows = facts.rows_left_out(model.path_)
    assert len(set(rows.tolist())) == 150
    expected = np.sqrt(np.average(every[rows] ** 2, weights=counted[rows]))
    assert facts.rmse_leave_one_out(model.path_) == pytest.approx(expected, rel=1e-9)
    assert facts.describe(model)["loo_rows"] == 150


@pytest.mark.parametrize("filter", ["descent", "flow"])
@pytest.mark.parametrize("step_sum", [1.0, 1e2, 1e4, 1e6])
def test_the_error_is_that_of_fits_without_each_row_near_interpolation_too(filter, step_sum, rng):
    """The leverage shortcut is beyond twice the error at the last reading."""
    X = rng.uniform(size=(60, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.05 * rng.normal(size=60)
    kernel, rule = sw.kernels.Laplace(1.0), Fixed(step_sum=step_sum)
    model = sw.KernelGradientRegressor(kernel, rule=rule, filter=filter, fit_intercept=False).fit(X, y)
    gram, path, errors = kernel(X, X), model.path_, []
    for i in range(60):
        keep = np.delete(np.arange(60), i)
        values, vectors = np.linalg.eigh(gram[np.ix_(keep, keep)] / 60)
        dual = vectors @ (path.filter.weight(values, path.step_sums()) * (vectors.T @ y[keep])) / 60
        errors.append(y[i] - gram[i, keep] @ dual)
    assert facts.rmse_leave_one_out(path) == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.03)


def test_a_solver_that_leaves_rows_out_tells_their_error_at_its_stop(data):
    model = sw.KernelRidgeRegressor("gaussian", solver="factor").fit(*data)
    assert model.path_.left_out is not None
    settings = {"rule": Fixed(step_sum=float(model.step_sum_)), "solver": "dense"}
    dense = sw.KernelRidgeRegressor(model.kernel_, **settings).fit(*data)
    expected = facts.rmse_leave_one_out(dense.path_)
    # The search left rows out at a penalty beside the stop, as near as it looks: 1e-5 here.
    assert facts.rmse_leave_one_out(model.path_) == pytest.approx(expected, rel=1e-4)
    assert facts.rmse_leave_one_out(model.path_, 2 * float(model.step_sum_)) is None


def test_residuals_of_a_part_of_the_spectrum_are_responses_less_the_fit(data):
    path = sw.KernelGradientRegressor("gaussian", solver="nystrom", n_landmarks=30).fit(*data).path_
    assert path.scale * path.residual_rows(np.array(7.0)) == pytest.approx(data[1] - path.fit(7.0), abs=1e-12)


@pytest.mark.parametrize("estimator", [sw.KernelGradientRegressor, sw.KernelRidgeRegressor])
def test_the_error_of_a_curve_solved_on_a_line_is_that_of_all_eigenpairs(estimator, rng):
    """Without the diagonal it knew the leverages of a few directions alone, and told errors a tenth too small."""
    x = rng.uniform(size=(600, 1))
    y, kernel = np.sin(60 * x[:, 0]) + 0.3 * rng.normal(size=600), sw.kernels.Matern(0.04, smoothness=2.5)
    line, dense = (estimator(kernel, solver=solver).fit(x, y).path_ for solver in ("line", "dense"))
    assert facts.rmse_leave_one_out(line) == pytest.approx(facts.rmse_leave_one_out(dense), rel=0.01)


def test_where_groups_are_left_out_the_error_told_is_that_of_rows_of_new_groups(tmp_path):
    """Against fits without each group at the same penalty; the report's R^2 is of that error."""
    rng = np.random.default_rng(0)
    groups, kernel = np.repeat(np.arange(12), 5), sw.kernels.Gaussian(0.3)
    X = rng.uniform(size=(12, 1))[groups] + 0.02 * rng.normal(size=(60, 1))
    y = np.sin(6 * X[:, 0]) + 0.5 * rng.normal(size=12)[groups] + 0.1 * rng.normal(size=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sw.rules.DependentRowsWarning)
        model = sw.KernelRidgeRegressor(kernel).fit(X, y, groups=groups)
    errors = np.empty(60)
    for group in range(12):
        rest, own = groups != group, groups == group
        inverse = np.linalg.inv(kernel(X[rest]) + model.alpha_ * np.eye(55))
        level = inverse.sum(axis=0) @ y[rest] / inverse.sum()
        errors[own] = y[own] - level - kernel(X[own], X[rest]) @ inverse @ (y[rest] - level)
    told = facts.describe(model)["rmse_loo"]
    assert told == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    assert told > 1.05 * facts.rmse_leave_one_out(model.path_)
    (r2,) = [each["value"] for each in headline(chosen(model), 0, None, None) if each["key"] == "r2"]
    assert r2 == pytest.approx(1 - told**2 / np.var(y), rel=1e-9)
