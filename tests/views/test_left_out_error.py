"""The leave-one-out error that commands print: of all rows, of some, or of those that a solver left out."""

import numpy as np
import pytest

import stopwise as sw
from stopwise.rules import Fixed
from stopwise.views import facts


@pytest.fixture
def data(rng):
    X = rng.normal(size=(400, 2))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=400)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_draw_of_rows_has_the_error_of_these_rows(data, weighted, monkeypatch, rng):
    weights = rng.uniform(0.5, 2, size=400) if weighted else None
    model = sw.KernelGradientRegressor("gaussian", solver="nystrom", n_landmarks=60).fit(*data, sample_weight=weights)
    assert facts.rows_left_out(model.path_) is None
    every, counted = model.path_.leave_one_out(), model.path_.row_weights
    monkeypatch.setattr(facts, "MADE_ANEW", 150)
    rows = facts.rows_left_out(model.path_)
    assert len(set(rows.tolist())) == 150
    expected = np.sqrt(np.average(every[rows] ** 2, weights=counted[rows]))
    assert facts.rmse_leave_one_out(model.path_) == pytest.approx(expected, rel=1e-9)
    assert facts.describe(model)["loo_rows"] == 150


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
