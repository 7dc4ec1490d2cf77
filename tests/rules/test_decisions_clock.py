"""What rules are made of, at its edges: step counts, filters, complexity and bounds against plain loops."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq

import reference
import stopwise as sw
from bare_paths import FILTERS
from stopwise import complexity
from stopwise.schedules import InvalidSchedule
from stopwise.spectrum import Density

s = sw.schedules
f = sw.filters

# --- schedules --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.1, 0.3, 1 / 3, 0.7, 1.0, 1e-3, math.pi / 10])
def test_a_constant_step_counts_exactly_at_and_just_before_every_reading(step):
    """Rounding puts the quotient of sum and step on either side of the count."""
    counts = np.arange(1, 3000)
    sums = counts * step
    schedule = s.Constant(step)
    np.testing.assert_array_equal(schedule.iteration(sums), counts)
    np.testing.assert_array_equal(schedule.iteration(np.nextafter(sums, 0)), counts - 1)
    np.testing.assert_array_equal(schedule.iteration(np.nextafter(sums, np.inf)), counts)


def test_a_step_that_leaves_nothing_leaves_everything_before_it_is_made():
    """Silently, though the logarithm of what it leaves is minus infinity."""
    values = np.array([1.0, 0.5, 0.0])
    for schedule in (s.Constant(1), s.Sequence([1.0])):
        assert schedule.log_shrinkage(values, 0).tolist() == [0.0, 0.0, 0.0]
        np.testing.assert_allclose(np.exp(schedule.log_shrinkage(values, 2)), [0.0, 0.25, 1.0], rtol=1e-15)
    both = s.Constant(1.0).log_shrinkage(values, np.array([[0], [2]]))
    np.testing.assert_allclose(np.exp(both), [[1.0, 1.0, 1.0], [0.0, 0.25, 1.0]], rtol=1e-15)


def test_a_step_is_kept_as_a_float():
    for given in (1, np.float32(0.5), Fraction(1, 4)):
        assert type(s.Constant(given).step) is float
        assert s.Constant(given).step == float(given)


@pytest.mark.parametrize("length", [1, 3, 1024, 1025, 2500])
def test_a_sequence_sums_and_shrinks_as_a_loop_does(length):
    steps = [0.9 / (1 + 0.01 * i) for i in range(length)]
    schedule, values = s.Sequence(steps), np.array([1.0, 0.4, 0.02])
    for count in (0, 1, 2, length - 1, length, length + 1, length + 2, 3 * length + 5):
        made = [steps[min(i, length - 1)] for i in range(count)]
        assert schedule.step_sum(count) == pytest.approx(math.fsum(made), rel=1e-12)
        expected = [math.fsum(math.log1p(-step * value) for step in made) for value in values]
        np.testing.assert_allclose(schedule.log_shrinkage(values, count), expected, rtol=1e-11)


@pytest.mark.parametrize("power", [0, 0.3, 0.5, 1])
def test_a_decay_sums_as_a_loop_does_and_starts_at_one(power):
    schedule = s.PolynomialDecay(power=power)
    assert schedule.step_size(0) == 1.0
    for count in (0, 1, 1023, 1024, 1025, 9000):
        made = [(i + 1.0) ** -power for i in range(count)]
        assert schedule.step_sum(count) == pytest.approx(math.fsum(made), rel=1e-12)
        assert schedule.iteration(schedule.step_sum(count)) == count


def test_steps_are_counted_up_to_what_a_float_counts():
    for schedule in (s.Sequence([1.0]), s.PolynomialDecay(power=0)):
        for count in (2**51 + 3, 2**52, 2**52 + 5, 2**53 - 1):
            assert schedule.iteration(float(schedule.step_sum(count))) == pytest.approx(count, rel=1e-14, abs=0)
        assert schedule.iteration(1e300) == s.MAX_ITERATION


def test_broken_steps_are_named():
    for steps, message in (
        ([0.5, 0.0, -1.0], r"steps must be positive and finite, got -1\.0"),
        ([0.9, 0.5, 0.7], r"step 2 is 0\.7, above step 1 = 0\.5; steps must stay level"),
        ([0.9, 0.0], r"^infinite travel broken: .* end with a positive step$"),
    ):
        with pytest.raises(InvalidSchedule, match=message):
            s.Sequence(steps)
    with pytest.raises(TypeError, match=r"step_size must be a number, got '1' \(str\)"):
        s.Constant("1")
    for schedule in (s.Constant(0.5), s.Sequence([0.5]), s.PolynomialDecay()):
        with pytest.raises(TypeError, match=r"^step_sum must hold real numbers"):
            schedule.iteration("far")


# --- filters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.6, 1, 2.5, 30])
@pytest.mark.parametrize("largest", [1.0, 0.3, 1 / 3, 7.7])
def test_the_nu_method_counts_exactly_at_and_just_before_every_reading(nu, largest):
    filter = f.NuMethod(nu=nu).bind(largest)
    counts = np.arange(1, 4000)
    sums = filter.step_sum(counts)
    np.testing.assert_allclose(sums, [reference.nu_method_clock(int(k), largest, nu) for k in counts], rtol=1e-14)
    np.testing.assert_array_equal(filter.iteration(sums), counts)
    np.testing.assert_array_equal(filter.iteration(np.nextafter(sums, 0)), counts - 1)
    assert filter.iteration(0) == 0


def test_the_nu_method_counts_far_in_whole_numbers_too():
    filter = f.NuMethod(nu=1).bind(1)
    assert filter.step_sum(4 * 10**9) == pytest.approx(reference.nu_method_clock(4e9, 1.0), rel=1e-14)


def test_the_nu_method_on_no_spectrum_runs_on_the_clock_of_a_unit_eigenvalue():
    assert f.NuMethod().bind(0.0) == f.NuMethod().bind(1.0)
    assert f.NuMethod().bind(0.0).weight(np.zeros(2), f.NuMethod().bind(1.0).step_sum(3)) == pytest.approx(
        [reference.nu_method_clock(3, 1.0)] * 2
    )


def test_an_eigenvalue_that_rounding_put_above_the_largest_counts_as_the_largest():
    filter = f.NuMethod().bind(1.0)
    for count in (1, 2, 30, 400):
        above, there = filter.weight([1.0 + 1e-9, 1.0], filter.step_sum(count))
        assert above == there


@pytest.mark.parametrize("name", [*FILTERS, "decay"])
def test_no_readings_and_no_eigenvalues_give_empty_tables(name):
    filter = {**FILTERS, "decay": f.GradientDescent(s.PolynomialDecay(0.5))}[name].bind(1.0)
    for rule in (filter.shrinkage, filter.gain, filter.weight):
        assert rule([1.0, 0.5], []).shape == (0, 2)
        assert rule([], [0.5, 4.0]).shape == (2, 0)
        assert rule([], 4.0).shape == (0,)
        assert rule([1, 0], 4).shape == (2,)


def test_the_clock_reads_floats_and_each_way_of_asking_agrees():
    assert f.Ridge().snap(3).dtype == np.float64
    filter, values = f.NuMethod().bind(1.0), np.array([1.0, 0.3, 0.0])
    np.testing.assert_array_equal(filter._weight(values, 5.0), filter.weight(values, 5.0))
    np.testing.assert_array_equal(filter._shrinkage(values, 5.0), filter.shrinkage(values, 5.0))


def test_a_filter_takes_the_schedule_that_it_has_not():
    assert f.as_filter("descent") == f.as_filter(f.GradientDescent()) == f.GradientDescent("auto")
    assert f.as_filter(f.GradientDescent(), 0.25) == f.as_filter("descent", 0.25) == f.GradientDescent(0.25)
    assert f.as_filter(f.GradientDescent(0.5), 0.25) == f.GradientDescent(0.5)


def test_unbound_and_overflowing_filters_say_what_to_do():
    for filter in (f.GradientDescent(), f.NuMethod()):
        with pytest.raises(TypeError, match=r"^bind this filter to a largest eigenvalue first"):
            filter.step_sum(1)
    with pytest.raises(ValueError, match=r"got 1e\+300 times 1e\+10: rescale the kernel, or stop earlier$"):
        f.Ridge().gain([1e10], 1e300)


# --- complexity -------------------------------------------------------------------------------------------------

LEADING = np.array([2.0, 1.0, 0.5, 0.1])


def test_a_radius_of_zero_has_no_complexity_and_one_radius_gives_a_number():
    assert complexity.local_complexity(LEADING, 0) == 0.0
    assert type(complexity.local_complexity(LEADING, 0.5)) is float
    assert complexity.local_complexity(LEADING, [0.0, 0.5]).shape == (2,)


def test_no_spectrum_lets_the_clock_run_for_ever():
    nothing = Density(np.zeros(3), np.ones(3), 3.0)
    assert complexity.step_sums_at(nothing, np.array([[1.0, 2.0]])).tolist() == [[math.inf, math.inf]]


def test_zeros_and_denormal_eigenvalues_change_nothing_and_warn_of_nothing():
    targets = np.geomspace(1e-3, 1e3, 20)
    counts = np.array([1.0, 2.0, 1.0, 3.0])
    plain = complexity.step_sums_at(Density(LEADING, counts, 7.0), targets)
    for target, eta in zip(targets, plain, strict=True):
        assert eta * (counts @ np.minimum(1, eta * LEADING)) == pytest.approx(target, rel=1e-12)
    for more in (0.0, 1e-310):
        padded = Density(np.append(LEADING, more), np.append(counts, 5.0), 12.0)
        np.testing.assert_allclose(complexity.step_sums_at(padded, targets), plain, rtol=1e-13)


@pytest.mark.parametrize("values", [[2.0, 1.0], [1.0], [4.0, 0.5, 0.5]])
def test_the_travel_at_its_reading_is_the_target_also_where_a_part_sums_to_one(values):
    values = np.array(values)
    for target in np.linspace(0.05, 9, 40):
        eta = complexity.step_sum_at(Density(values, np.ones_like(values), 3.0), target)
        assert reference.travel(values, eta) == pytest.approx(target, rel=1e-13)


def test_single_precision_is_worked_on_in_double():
    readings, values = np.array([0.3, 7.7], dtype=np.float32), np.array([1.1, 0.3], dtype=np.float32)
    for bound in (complexity.bound_before_stop, complexity.ridge_bound_before_stop):
        np.testing.assert_array_equal(bound(readings), bound(readings.astype(float)))
    exact = complexity.risk_lower_bound(values.astype(float), readings.astype(float), 0.3)
    np.testing.assert_array_equal(complexity.risk_lower_bound(values, readings, 0.3), exact)


def test_a_ratio_whose_square_overflows_has_no_target():
    assert complexity.critical_target(4.0, 1e-160, 1.0, 1.0) == math.inf
    assert complexity.critical_target(4.0, 0.0, 1.0, 1.0) == math.inf
    assert complexity.critical_target(4.0, 0.5, 3.0, 2.0) == 36.0


@pytest.mark.parametrize("left", [0.0, 0.3, 40.0])
@pytest.mark.parametrize("noise_std", [0.01, 0.5])
def test_the_population_radius_counts_infinitely_many_unseen_eigenvalues_by_their_sum(left, noise_std):
    def gap(eps):
        return 7 * math.sqrt((np.minimum(LEADING, eps**2).sum() + left) / 90) - eps**2 / noise_std

    expected = brentq(gap, 1e-4 if left else 1e-2 * noise_std, 1e3, xtol=1e-14)
    found = sw.population_critical_radius(LEADING, 90, noise_std, constant=7.0, trace=LEADING.sum() + left)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_trace_may_fall_short_of_its_eigenvalues_by_rounding_alone():
    for size in (1e-6, 1.0, 1e6):
        values = size * LEADING
        exact = sw.population_critical_radius(values, 90, 0.5)
        assert sw.population_critical_radius(values, 90, 0.5, trace=values.sum() * (1 - 1e-9)) == exact
        given = sw.critical_radius(values, 0.5, n_samples=9, trace=values.sum() * (1 - 1e-9))
        assert given == pytest.approx(sw.critical_radius(values, 0.5, n_samples=9), rel=1e-12)
        for part in (0.5, 1 - 1e-6):
            with pytest.raises(ValueError, match="trace must be at least the sum of the eigenvalues given"):
                sw.population_critical_radius(values, 90, 0.5, trace=part * values.sum())
            with pytest.raises(ValueError, match="trace must be at least the sum of the eigenvalues given"):
                sw.critical_radius(values, 0.5, trace=part * values.sum())


def test_bounds_are_the_formulas_of_the_theorem():
    for eta in (1, 2.5, 40):
        assert complexity.bound_before_stop(eta) == pytest.approx(4 / (math.e * eta), rel=1e-15)
        assert complexity.ridge_bound_before_stop(eta) == pytest.approx(2 / eta, rel=1e-15)
    assert complexity.bound_before_stop([1, 2]).shape == complexity.ridge_bound_before_stop([1, 2]).shape == (2,)
    for radius in (0.1, 0.7, 3.0):
        assert complexity.bound_at_stop(radius) == pytest.approx(12 * radius * radius, rel=1e-15)


@pytest.mark.parametrize(("n_samples", "trace"), [(None, None), (50, None), (50, 9.0)])
def test_the_lower_bound_of_the_risk_counts_known_eigenvalues(n_samples, trace):
    readings = np.array([[0.1, 1.0, 3.0], [0.0, 20.0, 1e3]])
    found = complexity.risk_lower_bound(LEADING.tolist(), readings, 0.3, n_samples=n_samples, trace=trace)
    assert found.shape == (2, 3)
    for value, eta in zip(found.ravel(), readings.ravel(), strict=True):
        expected = sum(min(1.0, (eta * v) ** 2) for v in LEADING) * 0.3**2 / (4 * (n_samples or 4))
        assert value == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="trace must be at least"):
        complexity.risk_lower_bound(LEADING, 1.0, 0.3, trace=1.0)


def test_eigenvalues_of_zero_and_clocks_past_a_float_are_refused():
    for radius in (sw.critical_step_sum, lambda values, noise_std: sw.population_critical_radius(values, 9, noise_std)):
        with pytest.raises(ValueError, match=r"^all eigenvalues are zero: .* the kernel explains nothing$"):
            radius([0.0, 0.0], 0.5)
        with pytest.raises(
            ValueError, match=r"\(noise_std 1e-160\): rescale y, noise_std and hilbert_radius together$"
        ):
            radius([1.0, 0.5], 1e-160)
        with pytest.raises(ValueError, match=r"beyond what a float holds \(noise_std 1e\+200\)"):
            radius([1.0, 0.5], 1e200)


POPULATION = sw.population_critical_radius
REFUSED = [
    (lambda: sw.local_complexity("many", 1.0), r"^eigenvalues must hold real numbers"),
    (lambda: POPULATION("many", 9, 0.5), r"^eigenvalues must hold real numbers"),
    (lambda: sw.local_complexity([[1.0]], 1.0), r"^eigenvalues must be a non-empty .* array, got shape \(1, 1\)$"),
    (lambda: sw.local_complexity([], 1.0), r"^eigenvalues must be a non-empty .* array, got shape \(0,\)$"),
    (lambda: sw.local_complexity([1.0, -2.0, -3.0], 1.0), r"^eigenvalues must be finite and at least 0; got -2\.0$"),
    (lambda: sw.local_complexity([1.0, math.nan], 1.0), r"^eigenvalues must be finite and at least 0; got nan$"),
    (lambda: sw.local_complexity([math.inf], 1.0), r"^eigenvalues must be finite and at least 0; got inf$"),
    (
        lambda: sw.local_complexity([1e308, 1e308], 1.0),
        r"^the eigenvalues \(up to 1e\+308\) add up past .* the kernel$",
    ),
    (lambda: sw.local_complexity([1.0], 1.0, n_samples=-1), r"^n_samples must be positive and finite, got -1$"),
    (lambda: sw.local_complexity([0.5], 1.0, n_samples=0.5), r"^n_samples must be at least 1, got 0\.5$"),
    (lambda: sw.local_complexity([1.0], 1.0, trace=math.nan), r"^trace must be a finite number, got nan$"),
    (lambda: sw.local_complexity([1.0, 2.0], 1.0, trace=1), r"^trace must be at least the sum .* given, 3; got 1$"),
    (lambda: sw.local_complexity([1.0], "wide"), r"^radius must hold real numbers"),
    (lambda: sw.local_complexity([1.0], [2.0, 0.0, -1.0, -3.0]), r"^radius must be at least 0, got -1\.0$"),
    (lambda: sw.critical_radius([1.0], -1), r"^noise_std .* got -1: for data without noise .* rule=sw\.rules\.Fixed\("),
    (lambda: sw.critical_radius([1.0], 0.5, hilbert_radius=0), r"^hilbert_radius must be positive and finite, got 0$"),
    (lambda: sw.critical_radius([1.0], 0.5, constant=0), r"^constant must be positive and finite, got 0$"),
    (lambda: POPULATION([1.0], 9, 0.5, constant=0), r"^constant must be positive and finite, got 0$"),
    (lambda: POPULATION([1.0], 0, 0.5), r"^n_samples must be positive and finite, got 0$"),
    (lambda: POPULATION([1.0], 9, 0.5, trace=math.nan), r"^trace must be a finite number, got nan$"),
    (lambda: POPULATION([1.0, 2.0], 9, 0.5, trace=1), r"^trace must be at least the sum .* given, 3; got 1$"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_has_no_complexity_is_refused_by_name_and_value(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
