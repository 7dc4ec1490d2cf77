"""Step sizes: valid sequences travel as their running sum says; every broken condition is named."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stopwise as sw
from stopwise.schedules import as_schedule

s = sw.schedules
SCHEDULES = {
    "constant": (s.Constant(0.3), lambda t: 0.3),
    "square root": (s.PolynomialDecay(step_size=0.8, power=0.5), lambda t: 0.8 / math.sqrt(t + 1)),
    "harmonic": (s.PolynomialDecay(step_size=1.0, power=1.0), lambda t: 1 / (t + 1)),
    "no decay": (s.PolynomialDecay(step_size=0.2, power=0.0), lambda t: 0.2),
    "sequence": (s.Sequence([1.0, 0.5, 0.5, 0.1]), lambda t: [1.0, 0.5, 0.5, 0.1][min(t, 3)]),
}
every_schedule = pytest.mark.parametrize("name", SCHEDULES)


@every_schedule
def test_the_step_sum_is_the_sum_of_the_steps_before(name):
    schedule, step = SCHEDULES[name]
    for t in (0, 1, 2, 5, 1023, 1024, 1025, 1026, 5000, 30_000):
        assert schedule.step_size(t) == pytest.approx(step(t), rel=1e-15)
        assert schedule.step_sum(t) == pytest.approx(math.fsum(step(i) for i in range(t)), rel=1e-13, abs=0)


@every_schedule
def test_shrinkage_is_a_sum_of_logarithms_over_the_steps(name):
    schedule, step = SCHEDULES[name]
    for eigenvalue in (0.999, 0.2, 1e-6, 0.0):
        for t in (0, 1, 3, 1025, 4000):
            expected = math.fsum(math.log1p(-step(i) * eigenvalue) for i in range(t))
            value = schedule.log_shrinkage(np.array([eigenvalue]), t)[0]
            assert value == pytest.approx(expected, rel=1e-11, abs=1e-300)


@every_schedule
@given(t=st.integers(0, 100_000), part=st.floats(0.01, 0.99))
def test_the_iteration_of_a_step_sum_is_the_last_one_not_past_it(name, t, part):
    schedule, step = SCHEDULES[name]
    here = float(schedule.step_sum(t))
    assert schedule.iteration(here) == t
    assert schedule.iteration(here + part * step(t)) == t


@every_schedule
def test_many_iterations_are_summed_at_once(name):
    schedule, _ = SCHEDULES[name]
    iterations = np.array([0, 3, 2000])
    expected = [float(schedule.step_sum(int(t))) for t in iterations]
    np.testing.assert_array_equal(schedule.step_sum(iterations), expected)
    np.testing.assert_array_equal(schedule.iteration(np.array(expected)), iterations)


def test_a_long_harmonic_travel_follows_the_logarithm():
    travelled = float(s.PolynomialDecay(step_size=1.0, power=1.0).step_sum(10**9))
    assert travelled == pytest.approx(math.log(1e9) + np.euler_gamma + 0.5e-9, rel=1e-13)


@pytest.mark.parametrize(("largest", "expected"), [(0.25, 1.0), (1.0, 1.0), (4.0, 0.25), (0.0, 1.0)])
def test_auto_is_the_largest_valid_constant_step(largest, expected):
    assert as_schedule("auto", largest) == s.Constant(expected)


def test_a_number_is_a_constant_step_and_a_list_is_a_sequence():
    assert as_schedule(0.5, 1.0) == s.Constant(0.5)
    assert as_schedule([0.5, 0.25], 1.0) == s.Sequence([0.5, 0.25])


def test_a_step_may_equal_its_bound():
    assert as_schedule(s.Constant(1 / 3.7), 3.7) == s.Constant(1 / 3.7)
    assert as_schedule(1.0, 0.2) == s.Constant(1.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: s.Constant(-0.1), r"bound.*positive.*-0\.1"),
        (lambda: s.Constant(0.0), r"bound.*positive.*0\.0"),
        (lambda: s.Constant(math.nan), r"bound.*finite.*nan"),
        (lambda: s.Constant(math.inf), r"bound.*finite.*inf"),
        (lambda: s.PolynomialDecay(step_size=-1.0, power=0.5), r"bound.*positive.*-1"),
        (lambda: s.PolynomialDecay(step_size=1.0, power=1.5), r"infinite travel.*at most 1.*1\.5"),
        (lambda: s.PolynomialDecay(step_size=1.0, power=-0.5), r"non-increasing.*at least 0.*-0\.5"),
        (lambda: s.Sequence([0.5, 0.6]), r"non-increasing.*0\.6.*0\.5"),
        (lambda: s.Sequence([0.5, -0.1]), r"bound.*-0\.1"),
        (lambda: s.Sequence([0.5, math.nan]), r"bound.*finite.*nan"),
        (lambda: s.Sequence([0.5, 0.0]), r"infinite travel.*last step is 0.*positive"),
        (lambda: s.Sequence([]), r"at least one"),
        (lambda: s.Sequence([[0.5], [0.4]]), r"one dimension"),
    ],
)
def test_an_invalid_schedule_names_the_broken_condition(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("schedule", "largest", "words"),
    [
        (s.Constant(1.5), 0.1, r"bound.*1\.5.*1/lambda_1.*= 1 .*smaller step"),
        (s.Constant(0.5), 4.0, r"bound.*0\.5.*0\.25.*lambda_1 = 4.*smaller step"),
        (s.PolynomialDecay(step_size=0.9, power=0.5), 2.0, r"bound.*0\.9.*0\.5"),
        (s.Sequence([1.0, 0.1]), 2.0, r"bound.*step size is 1,.*0\.5"),
    ],
)
def test_a_step_above_the_bound_says_the_bound_and_the_step(schedule, largest, words):
    values = np.array([largest, largest / 2])
    with pytest.raises(ValueError, match=words):
        sw.stopping_time(values, schedule, 1.0)
    with pytest.raises(ValueError, match=words):
        sw.filters.GradientDescent(schedule).bind(largest)


@pytest.mark.parametrize("wrong", ["0.5", None, [0.5], True], ids=repr)
def test_a_step_that_is_no_number_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="step_size must be a number"):
        s.Constant(wrong)
