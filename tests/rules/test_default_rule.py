"""The default rule: what it computes, its weak spots, and the warnings that come with doubtful fits."""

import warnings
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

import stopwise as sw
from stopwise.estimators.doubts import TrustWarning, doubts
from stopwise.rules.prudent import CEILING, LeftOut, constant_stands
from stopwise.selection.result import Selection

FILTERS = ["descent", "flow", "cutoff", "nu-method"]


def ridge_path(X, y, kernel, **settings):
    return sw.KernelRidgeRegressor(kernel, rule=sw.rules.Fixed(step_sum=10.0), **settings).fit(X, y).path_


def distinct_error(X, y, kernel, penalty, group, left):
    """Squared error at one distinct row when a ridge with a free constant is fitted to the others."""
    rest, out = group != left, group == left
    K = kernel(X[rest]) + penalty * np.eye(rest.sum())
    system = np.block([[K, np.ones((rest.sum(), 1))], [np.ones((1, rest.sum())), np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.append(y[rest], 0.0))
    return ((y[out] - kernel(X[out], X[rest]) @ solved[:-1] - solved[-1]) ** 2).sum()


def surface(X):
    """Smooth and free of noise."""
    return np.exp(X[:, 0]) * np.sin(2 * X[:, 1])


def test_left_out_errors_have_three_digits_at_the_ceiling():
    X = np.random.default_rng(0).uniform(-1, 1, (25, 2))
    y, kernel = surface(X), sw.kernels.Gaussian(1.0)
    path = ridge_path(X, y, kernel, fit_intercept=False)
    errors = LeftOut(path)(np.array([CEILING]))[0] * path.scale**2
    with mpmath.workdps(50):
        inverse = (mpmath.matrix(kernel(X).tolist()) + mpmath.eye(25) * 25 / mpmath.mpf(CEILING)) ** -1
        weights = inverse * mpmath.matrix(y.tolist())
        exact = [float((weights[i] / inverse[i, i]) ** 2) for i in range(25)]
    np.testing.assert_allclose(errors.mean(), np.mean(exact), rtol=1e-3)


@pytest.mark.parametrize("solver", ["dense", "factor"])
def test_data_free_of_noise_are_followed_to_the_ceiling(solver):
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-1, 1, (250, 2)), rng.uniform(-1, 1, (500, 2))
    fits = [
        sw.KernelRidgeRegressor(sw.kernels.Gaussian(1.0), rule=rule, solver=solver).fit(X, surface(X))
        for rule in ("auto", sw.rules.Fixed(step_sum=1e9))
    ]
    here, before = (np.sqrt(np.mean((fit.predict(new) - surface(new)) ** 2)) for fit in fits)
    assert fits[0].stop_.reason is sw.rules.Reason.CAP
    assert fits[0].stop_.certainty.settled
    assert here < 0.2 * before


def test_all_solvers_end_at_the_same_reading_where_there_is_no_noise():
    X = np.random.default_rng(0).uniform(-1, 1, (250, 2))
    ends = [
        sw.KernelRidgeRegressor(sw.kernels.Gaussian(1.0), solver=solver).fit(X, surface(X)).step_sum_
        for solver in ("dense", "factor", "preconditioned", "krylov")
    ]
    np.testing.assert_allclose(ends, CEILING, rtol=1e-12)


def test_left_out_errors_are_those_of_fits_without_the_row():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 14, size=30)
    group = np.unique(group, return_inverse=True)[1]
    X = rng.normal(size=14)[group][:, None]
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=30)
    kernel, step_sum = sw.kernels.Matern(), 50.0
    path = ridge_path(X, y, kernel)
    errors = LeftOut(path)(np.array([step_sum]))[0] * path.scale**2
    slow = [distinct_error(X, y, kernel, 30 / step_sum, np.arange(30), row) for row in range(30)]
    np.testing.assert_allclose(errors, slow, rtol=1e-7)


def wave(seed, n=80, noise=0.5):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(size=(n, 1)), axis=0)
    truth = np.sin(2 * np.pi * X[:, 0])
    return X, truth + noise * rng.normal(size=n), truth


def test_without_allowance_the_default_is_leave_one_out_for_ridge():
    X, y, _ = wave(0)
    kernel = sw.kernels.Gaussian(0.2)
    prudent = sw.KernelRidgeRegressor(kernel, rule=sw.rules.Prudent(allowance=0)).fit(X, y)
    loo = sw.KernelRidgeRegressor(kernel, rule="loo").fit(X, y)
    assert prudent.inverse_penalty_ == pytest.approx(loo.inverse_penalty_, rel=1e-4)


def test_a_larger_allowance_stops_earlier_and_stays_within_it():
    X, y, _ = wave(1)
    stops = [
        sw.KernelRidgeRegressor(sw.kernels.Gaussian(0.2), rule=sw.rules.Prudent(allowance)).fit(X, y).stop_
        for allowance in (0.0, 0.25, 1.0)
    ]
    sums = [stop.step_sum for stop in stops]
    assert sums[0] > sums[1] > sums[2] > 0
    for stop in stops[1:]:
        excess = stop.details["criterion"] - stop.details["lowest"]
        assert excess == pytest.approx(stop.details["allowance"] * stop.details["standard_error"], rel=1e-3)


@pytest.mark.parametrize("filter_name", FILTERS)
def test_every_filter_stops_at_the_clock_reading_of_ridge(filter_name):
    X, y, _ = wave(2)
    kernel = sw.kernels.Gaussian(0.2)
    ridge = sw.KernelRidgeRegressor(kernel).fit(X, y)
    model = sw.KernelGradientRegressor(kernel, filter=filter_name).fit(X, y)
    assert model.step_sum_ <= ridge.step_sum_ * (1 + 1e-9)
    assert model.step_sum_ > 0.5 * ridge.step_sum_


def test_pure_noise_gets_no_more_than_a_few_degrees_of_freedom():
    rng = np.random.default_rng(5)
    freedom = []
    for _ in range(8):
        X = rng.uniform(size=(100, 2))
        model = sw.KernelRidgeRegressor().fit(X, rng.normal(size=100))
        freedom.append(float(model.path_.degrees_of_freedom()))
    assert np.median(freedom) < 5


@pytest.mark.parametrize(
    ("means", "stands"),
    [
        ([1.0, 1.1, 0.9, 1.2], True),  # a later dip of one standard error
        ([1.0, 1.1, 0.7, 1.2], False),  # of three
        ([1.0, 1.0 + 1e-5, 1.1, 0.9], True),
        ([1.0, 0.99, 1.1, 0.9], False),  # the first step is better
        ([1.0, 1.0 - 1e-5, 1.1, 0.9], True),  # by rounding alone
        ([1.0, 1.1, np.inf, 0.9], True),
        ([1.0, 1.0, 1.0, 1.0], False),
        ([-1.0, -0.9, -1.1, -0.8], True),  # the log-likelihood of counts may have either sign
        ([-1.0, -1.1, -0.9, -0.8], False),
    ],
)
def test_where_the_first_steps_predict_worse_a_fit_must_be_clearly_better_than_the_constant_one(means, stands):
    means = np.array(means)
    assert constant_stands(means, lambda: (means - means[0], np.full(4, 0.1))) == stands


def test_spreads_are_not_asked_for_where_the_error_falls_from_the_start():
    assert not constant_stands(np.array([1.0, 0.9, 1.1]), lambda: pytest.fail("asked"))


@pytest.mark.parametrize("seed", [318, 354])
def test_a_dip_that_chance_makes_late_on_the_path_is_followed_by_no_solver(seed):
    rng = np.random.default_rng(seed)
    x, y, kernel = rng.uniform(size=(80, 1)), rng.normal(size=80), sw.kernels.Matern(0.2, smoothness=1.5)
    dense = sw.KernelRidgeRegressor(kernel, solver="dense").fit(x, y)
    errors, clock = LeftOut(dense.path_), np.array([0.0, *np.geomspace(1e-2, 1e6, 100)])
    best = clock[np.argmin(errors.mean(clock))]
    above, spread = errors.excess(clock[:1], errors(np.array([best]))[0])
    assert above[0] > 0.6 * spread[0]  # the smallest error alone would be followed
    assert sw.KernelRidgeRegressor(kernel, solver="dense", rule="loo").fit(x, y).step_sum_ > 0.1
    for solver in ("dense", "line", "factor", "preconditioned", "krylov"):
        stop = sw.KernelRidgeRegressor(kernel, solver=solver).fit(x, y).stop_
        assert (stop.step_sum, stop.reason) == (0.0, sw.rules.Reason.ZERO)
        assert stop.evidence.criterion == pytest.approx(dense.stop_.evidence.criterion, rel=1e-3)
        assert stop.evidence.lowest == pytest.approx(dense.stop_.evidence.lowest, rel=1e-3)
        assert stop.constant_stood


def mean_errors(make, rules, seeds, **settings):
    """Mean squared error against the truth at the data, averaged over seeds, for each rule on the same path."""
    total = np.zeros(len(rules))
    for seed in seeds:
        X, y, truth, kernel = make(np.random.default_rng(seed))
        for i, rule in enumerate(rules):
            model = sw.KernelGradientRegressor(kernel, rule=rule, random_state=seed, **settings).fit(X, y)
            total[i] += np.mean((model.path_.fit() - truth) ** 2)
    return total / len(seeds)


def tent(radius, n=100, noise=1.0):
    def make(rng):
        x = np.arange(1, n + 1) / n
        truth = radius * (np.abs(x - 0.5) - 0.5)
        return x[:, None], truth + noise * rng.normal(size=n), truth, sw.kernels.Sobolev(1)

    return make


def correlated(rng, n=100):
    x = np.arange(1, n + 1) / n
    noise = rng.normal(size=n + 50)
    for i in range(1, n + 50):
        noise[i] += 0.6 * noise[i - 1]
    truth = 4 * np.sin(2 * np.pi * x)
    return x[:, None], truth + noise[50:], truth, sw.kernels.Sobolev(2, anchored=False)


def wide(rng, n=25, d=60):
    X = rng.normal(size=(n, d))
    truth = X[:, :5].sum(axis=1)
    return X, truth + 0.5 * rng.normal(size=n), truth, sw.kernels.Gaussian(15.0)


SPOTS = {
    "radius 0.1": (tent(0.1), {}),
    "radius 1": (tent(1.0), {}),
    "radius 10": (tent(10.0), {}),
    "radius 100": (tent(100.0), {}),
    "noise told too small": (tent(3.0), {"noise_std": 0.5}),
    "noise told too large": (tent(3.0), {"noise_std": 2.0}),
    "correlated noise": (correlated, {}),
    "n = 20": (tent(3.0, n=20, noise=0.3), {}),
    "d > n": (wide, {}),
}


@pytest.mark.parametrize("spot", SPOTS)
def test_the_default_is_never_far_worse_than_the_better_of_leave_one_out_and_hold_out(spot):
    make, settings = SPOTS[spot]
    auto, loo, holdout = mean_errors(make, ["auto", "loo", "holdout"], range(12), **settings)
    assert auto < 1.5 * min(loo, holdout)


def test_the_published_rule_stays_as_it_was():
    n = 100
    X = (np.arange(1, n + 1) / n)[:, None]
    y = np.abs(X[:, 0] - 0.5) - 0.5 + np.random.default_rng(0).normal(size=n)
    model = sw.KernelGradientRegressor.as_published(sw.kernels.Sobolev(1), noise_std=1.0).fit(X, y)
    assert model.stop_.iteration == 10
    assert model.critical_radius_ == pytest.approx(0.60961405, abs=1e-8)


# ---- warnings -------------------------------------------------------------------------------------------------------


def test_a_sound_fit_comes_without_a_warning():
    X, y, _ = wave(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.KernelGradientRegressor().fit(X, y)


def test_heavy_tails_are_warned_of():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(200, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    y[7] += 50.0
    with pytest.warns(TrustWarning, match="row 7 .counted from 0. lie"):
        sw.KernelRidgeRegressor().fit(X, y)


def test_too_few_rows_to_choose_by_are_warned_of():
    X = np.arange(5.0)[:, None]
    with pytest.warns(TrustWarning, match="5 rows are too few"):
        sw.KernelRidgeRegressor().fit(X, np.array([0.0, 1.0, 0.5, 2.0, 1.0]))


def test_a_score_that_still_falls_at_the_edge_is_doubted():
    nothing = SimpleNamespace(stops=())
    for edge, fall, doubted in (("short", 0.2, True), ("short", 0.01, False), ("long", 0.5, True), (None, 1.0, False)):
        table = Selection((), (), "", n_samples=100.0, at_edge=edge, edge_fall=fall)
        assert any(f"still falling at the {edge} end" in line for line in doubts(table, nothing)) == doubted


def test_the_edge_is_doubted_by_what_lies_beyond_the_learned_length_scale():
    """Levels that no length scale tells apart any better, and a line: learning went as far as there was a reason to."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 6, size=200), rng.integers(0, 4, size=200)
    levels = np.column_stack([np.eye(6)[first], np.eye(4)[second]])
    cells = rng.normal(size=(6, 4))[first, second] + 0.3 * rng.normal(size=200)
    x = rng.normal(size=(40, 1))
    for X, y in ((levels, cells), (x, x[:, 0] + 0.3 * rng.normal(size=40))):
        with warnings.catch_warnings():
            warnings.simplefilter("error", TrustWarning)
            found = sw.KernelGradientRegressor().fit(X, y).selection_
        assert found.at_edge is not None
        assert found.edge_fall < 0.02
    X = np.random.default_rng(1).normal(size=(60, 3))
    with pytest.warns(TrustWarning, match="still falling at the long end"):
        sw.KernelGradientRegressor().fit(X, X[:, 0] ** 2 + X[:, 1] * X[:, 2])
