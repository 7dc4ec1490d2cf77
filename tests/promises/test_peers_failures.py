"""Where comparable programs are known to fail: each of their failures is tried here, and must not happen."""

import json

import numpy as np
import pytest

import stopwise as sw
from commands import run
from hostile import watchdog
from stopwise.engine.solvers.solver_choice import DENSE_ROWS
from stopwise.views.facts import length_scale

RULES = ["critical", "minimax", "sure", "gcv", "loo", "discrepancy", "holdout", "auto"]
FILTERS = ["descent", "flow", "cutoff"]


def sample(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    return X, np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=n)


# ---- a threshold that is never reached ------------------------------------------------------------------------------


@pytest.mark.parametrize("filter", [*FILTERS, pytest.param("nu-method", marks=pytest.mark.deep)])
def test_a_residual_that_never_falls_to_the_noise_level_ends_at_the_limit(filter):
    X, y = sample()
    tied = np.repeat(X[:40], 2, axis=0)  # replicates that differ: no fit leaves less than their spread
    with watchdog(60):
        model = sw.KernelGradientRegressor("matern32", rule="discrepancy", noise_std=1e-9, filter=filter).fit(tied, y)
    assert model.stop_.reason is sw.Reason.CAP
    assert model.stop_.details["residual"] > model.stop_.details["threshold"]
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("rule", ["critical", "minimax", "sure"])
def test_a_noise_level_far_below_the_data_ends_at_the_limit_too(rule):
    X, y = sample()
    with watchdog():
        model = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.2), rule=rule, noise_std=1e-200).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.step_sum_ < np.inf


def test_a_critical_time_of_astronomical_length_is_found_without_walking_there():
    with watchdog(2):
        stop = sw.stopping_time(np.arange(1, 101.0) ** -4, 0.25, 1e-6)
    assert stop.iteration > 10**9


# ---- steps that are too long ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 1.0, 0.5])
def test_a_step_that_would_diverge_is_refused_and_not_run(step):
    X = np.linspace(0, 3, 30)[:, None]  # lambda_1 > 2 for the linear kernel without an intercept
    with pytest.raises(ValueError, match=r"boundedness broken.*lambda_1 = 3"):
        sw.KernelGradientRegressor(sw.kernels.Linear(), schedule=step, fit_intercept=False).fit(X, X[:, 0])


def test_the_largest_step_allowed_does_not_diverge():
    X = np.linspace(0, 3, 30)[:, None]
    settings = {"fit_intercept": False, "rule": sw.rules.Fixed(iteration=10**6)}
    model = sw.KernelGradientRegressor(sw.kernels.Linear(), **settings).fit(X, X[:, 0])
    np.testing.assert_allclose(model.predict(X), X[:, 0], atol=1e-9)


# ---- NaN is not "go on" ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", ["global", "local", "literal"])
def test_a_criterion_that_turns_nan_is_an_error_and_not_no_stop(reading):
    X, y = sample()
    path = sw.KernelGradientRegressor("matern32").fit(X, y).path_
    with watchdog(), pytest.raises(ValueError, match=r"criterion.*got NaN at step_sum"):
        sw.rules.minimise(path, lambda sums: np.where(sums > 9, np.nan, -sums), reading)


@pytest.mark.parametrize("rule", RULES)
def test_nan_in_the_response_is_an_error_for_every_rule(rule):
    X, y = sample()
    y[7] = np.nan
    with pytest.raises(ValueError, match="y contains NaN"):
        sw.KernelGradientRegressor("matern32", rule=rule).fit(X, y)


# ---- units ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [sw.KernelGradientRegressor, sw.KernelRidgeRegressor])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "critical"])
def test_units_do_not_change_the_answer(estimator, rule):
    X, y = sample()
    X = np.column_stack([X[:, 0], X[::-1, 0] ** 2])
    # How a kernel is chosen is the same under every rule.
    model = estimator("auto" if rule == "auto" else "matern32", rule=rule)
    plain = model.fit(X, y).predict(X)
    for factor in (1000.0, 1e-3, 2.54):
        metres = model.fit(factor * X, y).predict(factor * X)
        pounds = model.fit(X, 7 + factor * y).predict(X)
        np.testing.assert_allclose(metres, plain, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose((pounds - 7) / factor, plain, rtol=1e-4, atol=1e-5)


# ---- smoothing many points on random designs ------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["sobolev1", "sobolev2"])
@pytest.mark.parametrize("n", [10_000, pytest.param(100_000, marks=pytest.mark.deep)])
def test_smoothing_many_points_of_a_random_design_does_not_fail(kernel, n):
    rng = np.random.default_rng(n)
    X = rng.uniform(size=(n, 1))
    truth = np.sin(6 * X[:, 0])
    assert n > DENSE_ROWS
    with watchdog(300):
        model = sw.KernelGradientRegressor(kernel, rule="gcv").fit(X, truth + 0.5 * rng.normal(size=n))
    assert model.solver_ == "line"
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < 0.05
    assert model.noise_std_ == pytest.approx(0.5, rel=0.05)


def test_neighbours_far_closer_than_the_rest_do_not_break_a_spline():
    rng = np.random.default_rng(2)
    X = np.sort(np.concatenate([rng.uniform(size=200), 0.5 + 1e-14 * np.arange(200)]))[:, None]
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=400)
    model = sw.KernelRidgeRegressor("sobolev2", rule="gcv").fit(X, y)
    assert np.abs(model.predict(X) - np.sin(6 * X[:, 0])).max() < 0.2


# ---- what was chosen is told ----------------------------------------------------------------------------------------

CHOSEN = ["stop_", "step_sum_", "noise_std_", "hilbert_radius_", "critical_radius_", "kernel_", "solver_", "selection_"]


@pytest.mark.parametrize("estimator", [sw.KernelGradientRegressor, sw.KernelRidgeRegressor])
@pytest.mark.parametrize("rule", RULES)
def test_nothing_that_was_chosen_is_hidden(estimator, rule):
    X, y = sample()
    model = estimator(rule=rule).fit(X, y)
    for name in CHOSEN:
        assert getattr(model, name) is not None
    assert "auto" not in repr(model.kernel_)
    assert np.min(length_scale(model.kernel_)) > 0
    assert model.noise_std_ > 0
    assert isinstance(model.stop_.reason, sw.Reason)
    assert model.stop_.details


def test_the_command_line_tells_what_was_chosen_too():
    told = json.loads(run("fit", "--example", "motorcycle", "--json").stdout)
    for name in ("kernel", "length_scale", "noise_std", "hilbert_radius", "rule", "step_sum", "reason", "solver"):
        assert told[name] is not None
        assert told[name] != "auto" or name == "rule"
