"""Filters map eigenvalues and a step sum to what is still missing; each against its own slow definition."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import stopwise as sw

f = sw.filters
EIGENVALUES = np.array([1.7, 1.0, 1.0, 0.3, 1e-2, 1e-6, 1e-12, 0.0])
LARGEST = EIGENVALUES[0]
FILTERS = {
    "descent": lambda: f.GradientDescent(sw.schedules.Constant(0.4)),
    "decaying descent": lambda: f.GradientDescent(sw.schedules.PolynomialDecay(step_size=0.5, power=0.5)),
    "ridge": f.Ridge,
    "flow": f.GradientFlow,
    "cutoff": f.CutOff,
    "nu-method": lambda: f.NuMethod(nu=1.0),
    "nu-method 2": lambda: f.NuMethod(nu=2.0),
}
STEPPED = ["descent", "decaying descent", "nu-method", "nu-method 2"]
every_filter = pytest.mark.parametrize("name", FILTERS)


def bound(name):
    return FILTERS[name]().bind(LARGEST)


def diagonal_hat(path):
    """What the reference path leaves of each eigen-direction of a diagonal K, for every iterate."""
    return [1 - np.diag(hat) for hat in reference.hat_matrices(path, len(EIGENVALUES))]


def test_descent_leaves_the_product_of_one_minus_step_times_eigenvalue():
    steps = [0.5 * (t + 1) ** -0.5 for t in range(40)]
    expected = diagonal_hat(lambda y: reference.descent_fits(np.diag(EIGENVALUES), y, steps))
    descent = bound("decaying descent")
    for t, left in enumerate(expected):
        np.testing.assert_allclose(descent.shrinkage(EIGENVALUES, descent.step_sum(t)), left, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("nu", [0.75, 1.0, 2.0])
def test_the_nu_method_follows_its_three_term_recurrence(nu):
    expected = diagonal_hat(lambda y: reference.nu_method_fits(np.diag(EIGENVALUES), y, 60, nu))
    method = f.NuMethod(nu=nu).bind(LARGEST)
    for t, left in enumerate(expected):
        assert method.step_sum(t) == pytest.approx(reference.nu_method_clock(t, LARGEST, nu), rel=1e-14)
        np.testing.assert_allclose(method.shrinkage(EIGENVALUES, method.step_sum(t)), left, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "fit"),
    [("ridge", reference.ridge_fit), ("flow", reference.flow_fit), ("cutoff", reference.cutoff_fit)],
)
@pytest.mark.parametrize("step_sum", [0.1, 1.0, 3.0, 100.0, 2e6])
def test_filters_without_steps_equal_their_matrix_form(name, fit, step_sum):
    K = np.diag(EIGENVALUES)
    expected = 1 - np.diag(reference.hat_matrix(lambda y: fit(K, y, step_sum), len(K)))
    np.testing.assert_allclose(bound(name).shrinkage(EIGENVALUES, step_sum), expected, rtol=1e-9, atol=1e-14)


def test_cut_off_keeps_an_eigenvalue_that_equals_its_threshold():
    np.testing.assert_array_equal(f.CutOff().bind(1.0).shrinkage(np.array([1.0, 0.5, 0.25]), 2.0), [0.0, 0.0, 1.0])


@every_filter
def test_nothing_is_gained_before_the_first_step(name):
    bare = bound(name)
    np.testing.assert_array_equal(bare.shrinkage(EIGENVALUES, 0.0), np.ones(len(EIGENVALUES)))
    np.testing.assert_array_equal(bare.gain(EIGENVALUES, 0.0), np.zeros(len(EIGENVALUES)))
    np.testing.assert_array_equal(bare.weight(EIGENVALUES, 0.0), np.zeros(len(EIGENVALUES)))


@every_filter
def test_one_step_sum_gives_a_vector_and_many_give_a_row_each(name):
    bare = bound(name)
    sums = np.array([bare.step_sum(t) for t in (0, 1, 5, 17)]) if name in STEPPED else np.array([0.0, 0.3, 2.0, 50.0])
    for method in (bare.shrinkage, bare.gain, bare.weight):
        rows = method(EIGENVALUES, sums)
        assert rows.shape == (4, len(EIGENVALUES))
        for row, step_sum in zip(rows, sums, strict=True):
            assert method(EIGENVALUES, float(step_sum)).shape == EIGENVALUES.shape
            np.testing.assert_allclose(method(EIGENVALUES, float(step_sum)), row, rtol=1e-13, atol=0)


@every_filter
def test_shrinkage_and_gain_add_up_to_one_and_weight_is_gain_over_eigenvalue(name):
    bare = bound(name)
    for t in (1, 2, 7, 40):
        step_sum = bare.step_sum(t) if name in STEPPED else 0.37 * t
        shrinkage, gain, weight = (method(EIGENVALUES, step_sum) for method in (bare.shrinkage, bare.gain, bare.weight))
        np.testing.assert_allclose(shrinkage + gain, 1.0, rtol=1e-14)
        np.testing.assert_allclose(weight * EIGENVALUES, gain, rtol=1e-12, atol=0)
        if name != "cutoff":  # which has no weight at all below its threshold
            assert weight[-1] == pytest.approx(step_sum, rel=1e-12)


def test_the_cut_off_filter_gives_no_weight_below_its_threshold():
    np.testing.assert_array_equal(bound("cutoff").weight(np.array([1.0, 0.1, 0.0]), 2.0), [1.0, 0.0, 0.0])


@pytest.mark.parametrize("name", [name for name in FILTERS if name != "cutoff"])
@pytest.mark.parametrize("eigenvalue", [1e-3, 1e-9, 1e-15, 1e-200])
def test_small_eigenvalues_keep_all_digits_of_their_gain(name, eigenvalue):
    bare = bound(name)
    step_sum = bare.step_sum(12) if name in STEPPED else 4.2
    expected = exact_gain(name, eigenvalue, step_sum)
    tolerance = 1e-10 if name.startswith("nu") else 1e-13
    assert bare.gain(np.array([eigenvalue]), step_sum)[0] == pytest.approx(expected, rel=tolerance, abs=0)
    weight = bare.weight(np.array([eigenvalue]), step_sum)[0]
    assert weight == pytest.approx(float(expected / mpmath.mpf(eigenvalue)), rel=tolerance)


def exact_gain(name, eigenvalue, step_sum):
    with mpmath.workdps(300):
        value, eta = mpmath.mpf(eigenvalue), mpmath.mpf(float(step_sum))
        if name == "ridge":
            return eta * value / (1 + eta * value)
        if name == "flow":
            return -mpmath.expm1(-eta * value)
        if name.startswith("nu"):
            return nu_gain(value, 2 if name.endswith("2") else 1)
        steps = [0.4] * 12 if name == "descent" else [0.5 * (t + 1) ** -0.5 for t in range(12)]
        left = mpmath.mpf(1)
        for step in steps:
            left *= 1 - mpmath.mpf(step) * value
        return 1 - left


def nu_gain(value, nu, n_steps=12):
    """The recurrence of the reference, on one eigenvalue and in long arithmetic."""
    x = value / mpmath.mpf(LARGEST)
    before, now = mpmath.mpf(0), mpmath.mpf(0)
    for k in range(1, n_steps + 1):
        below = mpmath.mpf((k + 2 * nu - 1) * (2 * k + 4 * nu - 1))
        mu = (k - 1) * (2 * k - 3) * (2 * k + 2 * nu - 1) / (below * (2 * k + 2 * nu - 3))
        omega = 4 * (2 * k + 2 * nu - 1) * (k + nu - 1) / below
        if k == 1:
            mu, omega = mpmath.mpf(0), mpmath.mpf(4 * nu + 2) / (4 * nu + 1)
        before, now = now, now + mu * (now - before) + omega * x * (1 - now)
    return now


@every_filter
def test_shrinkage_stays_between_minus_one_and_one_and_fades(name):
    bare = bound(name)
    far = bare.step_sum(3000) if name in STEPPED else 1e5
    sums = [bare.step_sum(t) for t in (1, 3, 10, 100)] if name in STEPPED else [0.1, 1.0, 10.0, 1e3]
    for step_sum in sums:
        assert np.all(np.abs(bare.shrinkage(EIGENVALUES, step_sum)) <= 1 + 1e-12)
    assert np.all(np.abs(bare.shrinkage(EIGENVALUES[:4], far)) < 1e-2)
    assert bare.shrinkage(EIGENVALUES, far)[-1] == 1.0


@pytest.mark.parametrize("name", ["descent", "decaying descent", "ridge", "flow", "cutoff"])
def test_what_is_left_never_grows_along_the_monotone_filters(name):
    bare = bound(name)
    sums = [bare.step_sum(t) for t in range(60)] if name in STEPPED else np.linspace(0, 30, 60)
    left = bare.shrinkage(EIGENVALUES, np.array(sums))
    assert np.all(np.diff(left, axis=0) <= 1e-15)
    assert np.all(left >= 0)


@pytest.mark.parametrize("nu", [1.0, 2.0, 4.0])
def test_the_nu_method_obeys_the_bounds_that_carry_the_rule_over(nu):
    values = np.geomspace(1e-6, 1.0, 400)
    method = f.NuMethod(nu=nu).bind(1.0)
    excess = []
    for t in range(1, 80):
        step_sum = method.step_sum(t)
        left = method.shrinkage(values, step_sum)
        assert np.all(left**2 * 2 * math.e * step_sum * values <= 1 + 1e-12)
        excess.append(np.max((1 - left) / np.minimum(1, step_sum * values)))
    # the overshoot is largest at the first step, where it is (4 nu + 2) / (4 nu + 1), and fades
    assert excess[0] == pytest.approx((4 * nu + 2) / (4 * nu + 1), rel=1e-12)
    assert max(excess[1:]) < excess[0]
    assert max(excess[7:]) < {1.0: 1.09, 2.0: 1.025, 4.0: 1.006}[nu]


@given(
    step=st.floats(1e-3, 0.58),
    values=st.lists(st.floats(0, 1.7), min_size=1, max_size=8),
    t=st.integers(1, 400),
)
def test_descent_obeys_the_two_bounds_of_the_paper(step, values, t):
    values = np.array(values)
    descent = f.GradientDescent(sw.schedules.Constant(step)).bind(1.7)
    eta = descent.step_sum(t)
    left, gain = descent.shrinkage(values, eta), descent.gain(values, eta)
    reach = np.minimum(1, eta * values)
    assert np.all(left**2 * eta * values <= 1 / (2 * math.e) + 1e-12)
    assert np.all(gain <= reach + 1e-12)
    assert np.all(gain >= reach / 2 - 1e-12)


@pytest.mark.parametrize("name", STEPPED)
def test_the_clock_and_the_step_count_are_inverse_to_each_other(name):
    bare = bound(name)
    for t in itertools.chain(range(30), (1000, 123_456)):
        assert bare.iteration(bare.step_sum(t)) == t
    for t in (1, 5, 29):
        between = (bare.step_sum(t) + bare.step_sum(t + 1)) / 2
        assert bare.iteration(between) == t
        np.testing.assert_array_equal(
            bare.shrinkage(EIGENVALUES, between), bare.shrinkage(EIGENVALUES, bare.step_sum(t))
        )


def test_descent_with_vanishing_steps_is_gradient_flow():
    flow = f.GradientFlow().bind(LARGEST).shrinkage(EIGENVALUES, 2.0)
    gaps = []
    for step in (0.1, 0.01, 0.001):
        descent = f.GradientDescent(sw.schedules.Constant(step)).bind(LARGEST)
        gaps.append(np.abs(descent.shrinkage(EIGENVALUES, descent.step_sum(round(2.0 / step))) - flow).max())
    assert gaps[2] < 1e-3
    for wide, narrow in itertools.pairwise(gaps):
        assert narrow == pytest.approx(wide / 10, rel=0.2)


READINGS = 30.0 * np.exp([0.0, *np.linspace(-3, 3, 6)])


@pytest.mark.parametrize("largest", [1.0, 1e-4])
def test_ridge_as_a_sum_of_ridges_is_itself(largest):
    weights = f.sum_of_ridges(f.Ridge(), READINGS, largest)
    np.testing.assert_allclose(weights, np.eye(len(READINGS))[0], atol=1e-12)


@pytest.mark.parametrize("readings", [READINGS, READINGS[[0, 1, 3, 6]]], ids=["seven", "four"])
@pytest.mark.parametrize(
    "filter", [f.GradientFlow(), f.GradientDescent(sw.schedules.Constant(0.4))], ids=lambda f: f.name
)
def test_a_sum_of_ridges_follows_descent_and_flow(filter, readings):
    weights = f.sum_of_ridges(filter, readings, LARGEST)
    assert weights.sum() == pytest.approx(1.0)
    assert np.linalg.norm(weights) < 3  # errors of single ridges do not grow much
    values = np.geomspace(1e-6, LARGEST, 500)
    ridges = f.Ridge().shrinkage(values, readings)
    aim = filter.shrinkage(values, readings[0])
    assert np.abs(weights @ ridges - aim).max() < 0.05
    assert np.abs(ridges[0] - aim).max() > 0.19  # what ridge alone at the same reading is off by


def test_at_the_start_of_the_clock_the_first_ridge_stands_for_any_filter():
    np.testing.assert_array_equal(f.sum_of_ridges(f.GradientFlow(), np.zeros(3), 1.0), [1.0, 0.0, 0.0])
