"""The paper's own setting, met to the last digit given.

The min kernel, x = i/n, truth |x - 1/2| - 1/2, and noise of size one unless said otherwise.

The printed strings carry their own precision: a value meets one when it rounds to it.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import stopwise as sw

SIZES = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300]
TIMES = {0.25: [3, 4, 5, 6, 7, 7, 8, 9, 9, 10, 18, 25], 1.0: [0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 6]}
RADII = {
    10: "1.12915331",
    50: ".74098989",
    100: ".60961405",
    200: ".46219791",
    300: ".39728718",
    1000: ".26407993",
}
RISKS = {10: ".066124", 50: ".042229", 100: ".033356", 200: ".023859", 300: ".019683"}
BY_NOISE = {0.1: (260, 65), 0.5: (31, 7), math.sqrt(2): (7, 1), 2.0: (5, 1), 5.0: (2, 0)}


def meets(value, printed):
    return abs(value - float(printed)) <= 0.5 * 10.0 ** -len(printed.split(".")[1])


def tent(x):
    return np.abs(x - 0.5) - 0.5


def closed_form_eigenvalues(n):
    k = np.arange(1, n + 1)
    return 1 / (4 * n**2 * np.sin((2 * k - 1) * np.pi / (4 * n + 2)) ** 2)


def published(x, *, noise_std=1.0, kernel=None, step_size=0.25):
    kernel = sw.kernels.Sobolev(order=1) if kernel is None else kernel
    y = tent(x) + np.random.default_rng(len(x)).normal(size=len(x))
    schedule = sw.schedules.Constant(step_size)
    return sw.KernelGradientRegressor.as_published(kernel, noise_std=noise_std, schedule=schedule).fit(x[:, None], y)


def equispaced(n):
    return np.arange(1, n + 1) / n


def risk_at_stop(model, x):
    return float(model.path_.risk(tent(x), 1.0, iteration=model.n_iter_))


@pytest.mark.parametrize("n", [10, 100, 300])
def test_the_min_kernel_has_the_closed_form_spectrum(n):
    model = published(equispaced(n))
    np.testing.assert_allclose(model.eigenvalues_, closed_form_eigenvalues(n), rtol=1e-9)
    assert model.trace_ == pytest.approx((n + 1) / (2 * n), rel=1e-13)


@pytest.mark.parametrize(("n", "printed"), RADII.items())
def test_the_critical_radius_meets_the_printed_one(n, printed):
    assert meets(sw.critical_radius(closed_form_eigenvalues(n), 1.0), printed)
    assert meets(published(equispaced(n)).critical_radius_, printed)


@pytest.mark.parametrize("step_size", [0.25, 1.0])
@pytest.mark.parametrize("at", range(len(SIZES)), ids=[f"n={n}" for n in SIZES])
def test_the_stopping_time_meets_the_printed_one(step_size, at):
    n, expected = SIZES[at], TIMES[step_size][at]
    model = published(equispaced(n), step_size=step_size)
    assert model.n_iter_ == model.stop_.iteration == expected
    stop = sw.stopping_time(closed_form_eigenvalues(n), sw.schedules.Constant(step_size), 1.0)
    assert stop.iteration == expected
    assert stop.step_sum == pytest.approx(step_size * expected, rel=1e-14)


@pytest.mark.parametrize(("step_size", "expected"), [(0.25, 261), (1.0, 65)])
def test_ten_thousand_points_stop_at_the_printed_time(step_size, expected):
    stop = sw.stopping_time(closed_form_eigenvalues(10_000), sw.schedules.Constant(step_size), 1.0)
    assert stop.iteration == expected


@pytest.mark.parametrize(("noise_std", "expected"), BY_NOISE.items())
def test_louder_noise_stops_at_the_printed_times(noise_std, expected):
    for step_size, iteration in zip((0.25, 1.0), expected, strict=True):
        stop = sw.stopping_time(closed_form_eigenvalues(100), sw.schedules.Constant(step_size), noise_std)
        assert stop.iteration == iteration
        assert published(equispaced(100), noise_std=noise_std, step_size=step_size).n_iter_ == iteration


@pytest.mark.parametrize(("power", "iteration", "printed"), [(0.5, 3, "2.28445705"), (1.0, 7, "2.59285714")])
def test_decaying_steps_stop_at_the_printed_time_and_travel(power, iteration, printed):
    schedule = sw.schedules.PolynomialDecay(step_size=1.0, power=power)
    stop = sw.stopping_time(closed_form_eigenvalues(100), schedule, 1.0)
    assert stop.iteration == iteration
    assert meets(stop.step_sum, printed)


@pytest.mark.parametrize(("n", "printed"), RISKS.items())
def test_the_exact_risk_at_the_stop_meets_the_printed_one(n, printed):
    x = equispaced(n)
    assert meets(risk_at_stop(published(x), x), printed)


def test_the_gaussian_kernel_meets_its_numbers():
    x = equispaced(100)
    model = published(x, kernel=sw.kernels.Gaussian(length_scale=1.0))
    assert meets(model.critical_radius_**2, ".357290")
    assert model.n_iter_ == 11
    assert meets(risk_at_stop(model, x), ".027734")


@pytest.mark.parametrize(("n", "printed"), [(100, "1.68179283"), (1000, ".94574161"), (10_000, ".476250")])
def test_the_population_radius_meets_the_printed_one(n, printed):
    leading = 4 / ((2 * np.arange(1, 101) - 1) ** 2 * np.pi**2)
    assert meets(sw.population_critical_radius(leading, n, 1.0, trace=0.5), printed)


@pytest.mark.parametrize(
    ("constant", "noise_variance", "printed"),
    [("auto", 1, "4.39909"), ("auto", 2, "2.51840"), (2 * math.e, 1, "2.69085"), (2 * math.e, 2, "1.83027")],
)
def test_ridge_chooses_the_printed_inverse_penalty(constant, noise_variance, printed):
    model = ridge(constant, math.sqrt(noise_variance))
    assert meets(model.inverse_penalty_, printed)
    assert model.alpha_ == pytest.approx(100 / model.inverse_penalty_, rel=1e-14)
    number = 4.0 if constant == "auto" else constant
    assert meets(
        sw.critical_step_sum(closed_form_eigenvalues(100), math.sqrt(noise_variance), constant=number),
        printed,
    )


def test_the_best_ridge_penalty_has_the_printed_risk():
    path = ridge("auto", 1.0).path_
    truth = tent(equispaced(100))
    best = minimize_scalar(lambda nu: float(path.risk(truth, 1.0, step_sum=nu)), bounds=(5, 100), method="bounded")
    assert meets(best.fun, ".020017")
    assert meets(best.x, "28.6")


def ridge(constant, noise_std):
    x = equispaced(100)
    y = tent(x) + np.random.default_rng(100).normal(size=100)
    rule = sw.rules.Critical(constant=constant, hilbert_radius=1.0)
    model = sw.KernelRidgeRegressor(sw.kernels.Sobolev(order=1), rule=rule, noise_std=noise_std, fit_intercept=False)
    return model.fit(x[:, None], y)


def test_a_design_that_starts_at_zero_loses_one_rank():
    x = np.arange(100) / 100
    model = published(x)
    assert np.sum(model.eigenvalues_ > 1e-12 * model.eigenvalues_[0]) == 99
    assert meets(model.critical_radius_**2, ".370375")
    assert model.n_iter_ == 10
    assert meets(risk_at_stop(model, x), ".032738")


def test_ten_points_and_unit_steps_leave_the_zero_function():  # E10
    model = published(equispaced(10), step_size=1.0)
    assert model.n_iter_ == 0
    assert model.stop_.reason is sw.Reason.ZERO
    np.testing.assert_array_equal(model.predict(equispaced(10)[:, None]), np.zeros(10))


def test_the_printed_lower_bound_fails_where_the_proved_one_holds():  # E5
    n = 100
    y = np.random.default_rng(5).normal(size=n)
    schedule = sw.schedules.Constant(1.0)
    path = (
        sw.KernelGradientRegressor.as_published("precomputed", noise_std=1.0, schedule=schedule).fit(np.eye(n), y).path_
    )
    risk = float(path.risk(np.zeros(n), 1.0, iteration=2))
    assert risk == pytest.approx(3.96e-4, abs=0.005e-4)
    assert risk < 5.0e-3
    assert risk >= 0.25 * 0.02**2
