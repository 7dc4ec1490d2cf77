"""Left-out blocks and groups against leaving them out by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.problems import wave_in_shared_noise
from sklearn import config_context
from sklearn.model_selection import cross_val_score

import stopwise as sw
from stopwise.filters import Ridge
from stopwise.rules import DependentRowsWarning, clock_grid
from stopwise.rules.left_out_blocks import Paired, block_errors, by_label, consecutive


def by_hand(kernel, x, y, weights, labels, penalty):
    """Squared errors of each group when a ridge with an intercept is fitted to all the others."""
    out = []
    for label in np.unique(labels):
        rest, own = labels != label, labels == label
        inverse = np.linalg.inv(kernel(x[rest]) + np.diag(penalty / weights[rest]))
        ones = np.ones(rest.sum())
        level = (ones @ inverse @ y[rest]) / (ones @ inverse @ ones)
        predicted = kernel(x[own], x[rest]) @ inverse @ (y[rest] - level) + level
        out.append((weights[own] * (y[own] - predicted) ** 2).sum())
    return np.array(out)


@pytest.mark.parametrize("weighted", [False, True])
def test_leaving_out_a_group_equals_fitting_the_others(weighted):
    rng = np.random.default_rng(0)
    x, labels = rng.random((60, 2)), rng.integers(0, 12, 60)
    y = np.sin(5 * x[:, 0]) + 0.3 * rng.standard_normal(60)
    weights = rng.uniform(0.5, 2, 60) if weighted else np.ones(60)
    kernel = sw.kernels.Matern(0.4, smoothness=1.5)
    model = sw.KernelRidgeRegressor(kernel, rule=sw.rules.Fixed(step_sum=50.0), solver="dense").fit(x, y, weights)
    path = model.path_.along(Ridge())
    weights = weights * 60 / weights.sum()
    errors = block_errors(path, by_label(labels), np.array([50.0]))[0] * float(path.scale) ** 2
    np.testing.assert_allclose(errors, by_hand(kernel, x, y, weights, labels, 60 / 50.0), rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_noise_that_groups_share_is_the_mean_square_of_their_left_out_residuals_over_their_scales(weighted):
    """By hand: a Gaussian process with a free constant, fitted to the other groups."""
    rng = np.random.default_rng(0)
    labels, kernel = np.repeat(np.arange(15), 4), sw.kernels.Gaussian(0.3)
    x = rng.random((15, 1))[labels]
    y = np.sin(5 * x[:, 0]) + 0.3 * rng.standard_normal(15)[labels] + 0.1 * rng.standard_normal(60)
    weights = rng.uniform(0.5, 2, 60) if weighted else np.ones(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)
        model = sw.KernelRidgeRegressor(kernel).fit(x, y, weights, groups=labels)
    path, weights = model.path_, weights * 60 / weights.sum()
    grid = clock_grid(path)[::12]
    at = grid[np.argmin(block_errors(path, by_label(labels), grid).sum(axis=1))]
    means, penalty = [], 60 / at
    for label in range(15):
        rest, own = labels != label, labels == label
        inverse = np.linalg.inv(kernel(x[rest]) + np.diag(penalty / weights[rest]))
        across, ones = kernel(x[own], x[rest]), np.ones(rest.sum())
        level = (ones @ inverse @ y[rest]) / (ones @ inverse @ ones)
        residual = y[own] - across @ inverse @ (y[rest] - level) - level
        left = 1 - across @ inverse @ ones
        variance = 1 - ((across @ inverse) * across).sum(axis=1) + left**2 / (ones @ inverse @ ones)
        means.append(np.mean(residual**2 / (1 / weights[own] + variance / penalty)))
    assert model.noise_std_ == pytest.approx(np.sqrt(np.mean(means)), rel=1e-8)


def test_an_estimate_from_groups_without_groups_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"needs rows that belong together: fit\(..., groups=\)"):
        sw.KernelRidgeRegressor("gaussian", noise_std=sw.noise.LeftOutTogether()).fit(
            rng.random((30, 1)), rng.random(30)
        )


def test_blocks_in_a_row_score_every_row_once_away_from_its_predictors():
    sets = consecutive(np.arange(103), 20)
    scored = np.concatenate([each.rows[each.scored] for each in sets])
    assert sorted(scored) == list(range(103))
    for each in sets[1:-1]:
        assert each.scored.min() >= 8 or each.rows[0] == 0
        assert len(each.rows) - 1 - each.scored.max() >= 8 or each.rows[-1] == 102


def test_the_standard_error_takes_whole_blocks_as_independent():
    x, truth, noise = wave_in_shared_noise(1, 0.8, 200)
    model = sw.KernelRidgeRegressor("sobolev2", rule=sw.rules.LeaveBlockOut(20), solver="dense")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)
        found = model.fit(x, truth + noise).stop_
    assert found.step_sum < found.evidence.lowest_step_sum
    readings = np.array([found.step_sum, found.evidence.lowest_step_sum])
    fifths = block_errors(model.path_.along(Ridge()), consecutive(np.arange(200), 20), readings)
    gap = fifths[0] - fifths[1]
    whole = [sum(gap[i : i + 5]) for i in range(0, 50, 5)]
    by_hand = np.sqrt(10 * np.var(whole)) / 200
    assert found.evidence.standard_error == pytest.approx(by_hand, rel=1e-9)
    assert found.evidence.criterion - found.evidence.lowest == pytest.approx(sum(whole) / 200, rel=1e-6)


def test_blocks_do_not_follow_noise_that_neighbours_share_and_say_so():
    risks = []
    for seed in range(4):
        x, truth, noise = wave_in_shared_noise(seed, 0.8, 400)
        with pytest.warns(DependentRowsWarning, match="degrees of freedom"):
            blocks = sw.KernelRidgeRegressor("sobolev2", rule=sw.rules.LeaveBlockOut(20)).fit(x, truth + noise)
        single = sw.KernelRidgeRegressor("sobolev2", rule="loo").fit(x, truth + noise)
        risks.append([np.mean((m.predict(x) - truth) ** 2) for m in (blocks, single)])
    by_blocks, alone = np.mean(risks, axis=0)
    assert by_blocks < 0.5 * alone


def test_rows_that_share_noise_are_told_as_rows_of_groups_where_groups_were_given():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(100), 6)
    x = rng.uniform(size=100)[group] + 0.001 * rng.normal(size=600)
    y = np.sin(6 * x) + 0.4 * rng.normal(size=100)[group] + 0.1 * rng.normal(size=600)
    with pytest.warns(DependentRowsWarning, match=r"^left-out groups ask .*: rows of a group share .* within a group"):
        sw.KernelRidgeRegressor(sw.kernels.Laplace(0.5)).fit(x[:, None], y, groups=group)


def test_batches_say_that_blocks_need_all_eigenpairs(rng):
    x, y = rng.uniform(size=(60, 1)), rng.normal(size=60)
    model = sw.KernelRidgeRegressor(sw.kernels.Gaussian(0.5), rule=sw.rules.LeaveBlockOut(5))
    with pytest.raises(ValueError, match=r"^the rule leave-block-out needs all eigenpairs, and landmarks keep"):
        model.partial_fit(x, y)


def test_independent_rows_get_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DependentRowsWarning)
        for seed in range(3):
            x, truth, noise = wave_in_shared_noise(seed, 0.0, 400)
            sw.KernelRidgeRegressor("sobolev2", rule=sw.rules.LeaveBlockOut(20)).fit(x, truth + noise)


def by_default(seed, correlation):
    """Risk of the default model with blocks of 20, the smallest risk on its path, and whether it warned."""
    x, truth, noise = wave_in_shared_noise(seed, correlation, 400)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = sw.KernelGradientRegressor(rule=sw.rules.LeaveBlockOut(20)).fit(x, truth + noise)
    path = model.path_
    fits = path.fit(step_sum=np.append(0.0, np.geomspace(1e-2, path.step_sum_limit, 300)))
    oracle = np.min(np.mean((fits - truth) ** 2, axis=1))
    warned = any(issubclass(each.category, DependentRowsWarning) for each in told)
    return np.mean((model.predict(x) - truth) ** 2), oracle, warned


@pytest.mark.deep
def test_over_fifty_seeds_blocks_are_near_the_oracle_and_warn_where_they_should():
    risk, oracle, warned = np.mean([by_default(seed, 0.8) for seed in range(50)], axis=0)
    assert risk <= 1.5 * oracle
    assert warned >= 0.9
    assert np.mean([by_default(seed, 0.0)[2] for seed in range(50)]) <= 0.05


def test_groups_make_leave_group_out_the_default_and_travel_through_routing():
    rng = np.random.default_rng(3)
    subject = np.repeat(np.arange(20), 5)
    x = rng.random((100, 1))
    y = np.sin(6 * x[:, 0]) + 0.5 * rng.standard_normal(20)[subject] + 0.1 * rng.standard_normal(100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sw.KernelRidgeRegressor("matern32").fit(x, y, groups=subject)
        assert model.stop_.evidence.rule == "leave-block-out"
        with config_context(enable_metadata_routing=True):
            routed = sw.KernelRidgeRegressor("matern32").set_fit_request(groups=True)
            scores = cross_val_score(routed, x, y, cv=3, params={"groups": subject})
    assert np.all(np.isfinite(scores))


@pytest.mark.parametrize(
    ("rule", "groups", "message"),
    [
        (sw.rules.LeaveBlockOut(), None, "size="),
        (sw.rules.LeaveBlockOut(40), None, "at most half of the 50 rows, got 40"),
        (sw.rules.LeaveBlockOut(5), np.zeros(50), "at least 2 groups"),
        (sw.rules.LeaveBlockOut(5), np.zeros(7), "one label for each of the 50 rows"),
        (sw.rules.LeaveBlockOut(5), np.where(np.arange(50) == 7, np.nan, np.arange(50) // 5), "row 7 .* has none"),
        (sw.rules.LeaveBlockOut(5), np.array(["a", None] * 25, dtype=object), "row 1 .* has none"),
    ],
)
def test_what_cannot_be_left_out_is_refused(rule, groups, message):
    rng = np.random.default_rng(4)
    with pytest.raises(ValueError, match=message):
        sw.KernelRidgeRegressor("matern32", rule=rule).fit(rng.random((50, 1)), rng.random(50), groups=groups)


@pytest.mark.parametrize("size", [0, 2.5, float("nan")])
def test_a_block_is_a_whole_number_of_rows(size):
    with pytest.raises(ValueError, match="whole number"):
        sw.rules.LeaveBlockOut(size)


def test_the_first_of_all_readings_within_the_allowance_is_taken():
    """Errors of ten blocks at four readings, the last the best: 0.02, 9 and 0.9 standard errors above it."""
    turns = np.tile([-1.0, 1.0], 5)
    table = np.stack([2 + 0.02 / 10**0.5 + turns, 2 + 9 / 10**0.5 + turns, 2 + 0.9 / 10**0.5 + turns, 0 * turns + 2])
    paired = Paired.of(table, 10.0)
    np.testing.assert_allclose(paired.excess / np.append(paired.spread[:3], 1.0), [0.02, 9.0, 0.9, 0.0], rtol=1e-9)
    assert [paired.earliest(a) for a in (0.0, 0.01, 0.02 * (1 + 1e-9), 5.0)] == [3, 3, 0, 0]


@pytest.mark.parametrize("solver", ["krylov", "line", "factor", "nystrom"])
def test_a_solver_that_cannot_leave_blocks_out_says_so_and_auto_takes_the_one_that_can(solver, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=80)
    with pytest.raises(ValueError, match=r'rule leave-block-out needs all eigenpairs, got .*use solver="dense"'):
        sw.KernelRidgeRegressor("sobolev1", rule=sw.rules.LeaveBlockOut(8), solver=solver).fit(X, y)
    monkeypatch.setattr("stopwise.engine.solvers.solver_choice.DENSE_ROWS", 50)
    model = sw.KernelRidgeRegressor("sobolev1").fit(X, y, groups=np.repeat(np.arange(10), 8))
    assert model.solver_ == "dense"
    assert model.stop_.evidence.rule == "leave-block-out"
    with pytest.raises(ValueError, match=r"refit does not know which rows hang together: use fit\(X, y, groups=\)"):
        model.refit(-y)


def test_a_stop_of_descent_before_the_allowance_is_said_to_be_its_own_minimum():
    rng, x, noise = np.random.default_rng(0), np.arange(300) / 300, np.zeros(300)
    for i in range(1, 300):
        noise[i] = 0.8 * noise[i - 1] + 0.2 * rng.normal()
    with pytest.warns(DependentRowsWarning):
        model = sw.KernelGradientRegressor("sobolev1", rule=sw.rules.LeaveBlockOut(20)).fit(
            x[:, None], np.sin(6 * x) + noise
        )
    assert model.stop_.beyond_allowance
    assert "the error of its own path on blocks or groups of rows left out is smallest there" in sw.explain(model)


def test_groups_may_have_any_names():
    rng = np.random.default_rng(5)
    x, numbers = rng.random((60, 1)), rng.integers(0, 8, 60)
    y = np.sin(6 * x[:, 0]) + 0.3 * rng.standard_normal(60)
    names = np.array(["a", 1, 2.5, "b", "d", 4, "c", -3], dtype=object)
    fits = [sw.KernelRidgeRegressor("gaussian").fit(x, y, groups=each) for each in (numbers, names[numbers])]
    np.testing.assert_allclose(fits[1].predict(x), fits[0].predict(x), rtol=1e-12)
    np.testing.assert_allclose(fits[1].predict_interval(x, 0.8), fits[0].predict_interval(x, 0.8), rtol=1e-9)
