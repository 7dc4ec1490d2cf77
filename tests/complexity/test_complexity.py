"""The radius from a sort and a quadratic, against a bracketing root-finder; the stop against a search."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import reference
import stopwise as sw
from stopwise import complexity

positive = st.floats(1e-6, 1e3)
noise_levels = st.floats(1e-3, 1e2)


@st.composite
def spectra(draw):
    """Descending, with ties and zeros likely; at least one eigenvalue is positive."""
    distinct = draw(st.lists(positive, min_size=1, max_size=6))
    repeats = draw(st.lists(st.integers(1, 4), min_size=len(distinct), max_size=len(distinct)))
    zeros = draw(st.integers(0, 5))
    values = [value for value, times in zip(distinct, repeats, strict=True) for _ in range(times)]
    return np.array(sorted(values, reverse=True) + [0.0] * zeros)


@given(values=spectra(), radius=st.floats(1e-4, 1e2))
def test_local_complexity_is_the_root_mean_of_capped_eigenvalues(values, radius):
    expected = reference.local_complexity(values, radius)
    assert sw.local_complexity(values, radius) == pytest.approx(expected, rel=1e-13)


def test_local_complexity_takes_many_radii_at_once():
    values, radii = np.array([2.0, 1.0, 0.5, 0.0]), np.array([0.1, 0.9, 5.0])
    expected = [reference.local_complexity(values, radius) for radius in radii]
    np.testing.assert_allclose(sw.local_complexity(values, radii), expected, rtol=1e-14)


@given(values=spectra(), noise_std=noise_levels, hilbert_radius=st.floats(1e-2, 1e2), constant=st.floats(0.1, 50))
def test_the_exact_radius_agrees_with_a_bracketing_root_finder(values, noise_std, hilbert_radius, constant):
    settings = {"hilbert_radius": hilbert_radius, "constant": constant}
    expected = reference.critical_radius(values, noise_std, **settings)
    radius = sw.critical_radius(values, noise_std, **settings)
    assert radius == pytest.approx(expected, rel=1e-12)
    assert sw.critical_step_sum(values, noise_std, **settings) == pytest.approx(1 / expected**2, rel=2e-12)


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, 0.0, 0.0, 0.0]),
        np.full(7, 0.3),
        np.array([5.0, 5.0, 1e-9, 1e-9, 0.0]),
        1 / np.arange(1, 200) ** 2.0,
        np.exp(-np.arange(30.0)),
        np.array([0.25]),
    ],
    ids=["rank one", "all tied", "tied and tiny", "polynomial", "exponential", "one eigenvalue"],
)
@pytest.mark.parametrize("noise_std", [1e-4, 0.1, 1.0, 30.0])
def test_the_exact_radius_agrees_with_forty_digit_bisection(values, noise_std):
    expected = reference.critical_radius_in_digits(values, noise_std)
    assert sw.critical_radius(values, noise_std) == pytest.approx(expected, rel=1e-14)


@given(values=spectra(), noise_std=noise_levels)
def test_the_order_of_the_eigenvalues_does_not_matter(values, noise_std):
    shuffled = np.random.default_rng(0).permutation(values)
    assert sw.critical_radius(shuffled, noise_std) == pytest.approx(sw.critical_radius(values, noise_std), rel=1e-13)


@given(values=spectra(), noise_std=noise_levels, hilbert_radius=st.floats(1e-2, 1e2))
def test_a_larger_ball_is_the_same_as_quieter_noise(values, noise_std, hilbert_radius):
    in_ball = sw.critical_radius(values, noise_std, hilbert_radius=hilbert_radius)
    assert in_ball == pytest.approx(sw.critical_radius(values, noise_std / hilbert_radius), rel=1e-12)


def assume_that_the_trace_can_tell(values, keep):
    """The trace is one rounded number: what was left out must not vanish in it."""
    left_out = values[keep:].sum()
    assume(left_out == 0 or left_out > 1e-3 * values.sum())


@given(values=spectra(), noise_std=noise_levels, keep=st.integers(1, 24), missing=st.integers(0, 40))
def test_leading_eigenvalues_and_the_trace_are_enough(values, noise_std, keep, missing):
    full = np.concatenate([values, np.zeros(missing)])
    expected = reference.critical_radius(full, noise_std)
    leading = full[:keep]
    # exact as long as what was left out lies below the radius
    assume(keep >= len(full) or full[keep] <= expected**2)
    assume_that_the_trace_can_tell(full, keep)
    settings = {"n_samples": len(full), "trace": float(full.sum())}
    assert sw.critical_radius(leading, noise_std, **settings) == pytest.approx(expected, rel=1e-11)
    complexity = reference.local_complexity(full, expected)
    assert sw.local_complexity(leading, expected, **settings) == pytest.approx(complexity, rel=1e-11)


@given(values=spectra(), noise_std=noise_levels, keep=st.integers(1, 24))
def test_too_few_eigenvalues_stop_early_and_never_late(values, noise_std, keep):
    assume_that_the_trace_can_tell(values, keep)
    settings = {"n_samples": len(values), "trace": float(values.sum())}
    partial = sw.critical_step_sum(values[:keep], noise_std, **settings)
    assert partial <= sw.critical_step_sum(values, noise_std) * (1 + 1e-11)


def test_an_early_stop_before_the_first_eigenvalue_has_a_root_formula():
    values, noise_std = np.array([0.3, 0.2, 0.1]), 2.0
    squared = 2 * math.e * noise_std * math.sqrt(values.sum() / 3)
    assert squared > values[0]
    assert sw.critical_radius(values, noise_std) ** 2 == pytest.approx(squared, rel=1e-14)


@st.composite
def schedules(draw, largest):
    bound = min(1.0, 1 / largest)
    first = draw(st.floats(0.05, 1.0)) * bound
    kind = draw(st.sampled_from(["constant", "decay", "sequence"]))
    if kind == "constant":
        return sw.schedules.Constant(first), itertools.repeat(first)
    if kind == "decay":
        power = draw(st.floats(0.0, 0.6))
        steps = (first * (t + 1) ** -power for t in itertools.count())
        return sw.schedules.PolynomialDecay(step_size=first, power=power), steps
    ratios = draw(st.lists(st.floats(0.5, 1.0), min_size=1, max_size=8))
    values = [first * math.prod(ratios[:i]) for i in range(len(ratios) + 1)]
    return sw.schedules.Sequence(values), itertools.chain(values, itertools.repeat(values[-1]))


@given(data=st.data(), values=spectra(), crossing=st.floats(0.01, 100))
def test_the_stopping_time_is_the_last_iterate_before_the_crossing(data, values, crossing):
    schedule, steps = data.draw(schedules(values[0]))
    steps = list(itertools.islice(steps, 20_000))
    # choose the noise that puts the crossing a known travel away
    step_sum = crossing * steps[0]
    noise_std = math.sqrt(len(values) / reference.travel(values, step_sum)) / (2 * math.e)
    stop = sw.stopping_time(values, schedule, noise_std)
    expected = reference.stopping_time(values, steps, noise_std)
    assume(abs(math.fsum(steps[: expected + 1]) / step_sum - 1) > 1e-9)
    assume(abs(math.fsum(steps[:expected]) / step_sum - 1) > 1e-9)
    assert stop.iteration == expected
    assert stop.step_sum == pytest.approx(math.fsum(steps[:expected]), rel=1e-12, abs=1e-300)
    assert stop.reason is (sw.Reason.CROSSING if expected else sw.Reason.ZERO)


def test_a_critical_stop_shows_its_evidence_on_both_sides():
    values = 1 / np.arange(1, 60) ** 2.0
    stop = sw.stopping_time(values, sw.schedules.Constant(0.5), 0.2)
    details = stop.details
    for prefix, iteration in (("", stop.iteration), ("next_", stop.iteration + 1)):
        radius = 1 / math.sqrt(0.5 * iteration)
        assert details[prefix + "radius"] == pytest.approx(radius, rel=1e-14)
        assert details[prefix + "complexity"] == pytest.approx(reference.local_complexity(values, radius), rel=1e-13)
        assert details[prefix + "threshold"] == pytest.approx(radius**2 / (2 * math.e * 0.2), rel=1e-13)
    assert details["complexity"] <= details["threshold"]
    assert details["next_complexity"] > details["next_threshold"]


def test_the_population_radius_counts_the_samples_and_not_the_eigenvalues():
    values = 1 / np.arange(1, 400) ** 2.0
    expected = reference.population_critical_radius(values, 5_000, 0.3)
    assert sw.population_critical_radius(values, 5_000, 0.3) == pytest.approx(expected, rel=1e-12)
    with_constant = reference.population_critical_radius(values, 5_000, 0.3, constant=7.0)
    assert sw.population_critical_radius(values, 5_000, 0.3, constant=7.0) == pytest.approx(with_constant, rel=1e-12)


@pytest.mark.parametrize("n_samples", [10.0, 1e3, 1e20, 1e30, 1e200])
def test_eigenvalues_that_only_the_trace_tells_of_add_their_sum_at_any_number_of_samples(n_samples):
    """Each of infinitely many is below any radius squared: 1600 (sum_j min(lambda_j, eps^2) + left) = n eps^4."""
    values, left = 1 / np.arange(1, 200) ** 2.0, 1 / 199.5
    low, high = 1e-60, 1e3
    for _ in range(600):
        middle = math.sqrt(low * high)
        above = 1600 * (np.minimum(values, middle**2).sum() + left) > n_samples * middle**4
        low, high = (middle, high) if above else (low, middle)
    found = sw.population_critical_radius(values, n_samples, 1.0, trace=float(values.sum()) + left)
    assert found == pytest.approx(high, rel=1e-12)


@given(data=st.data(), values=spectra(), noise_std=st.floats(0.05, 2.0), seed=st.integers(0, 2**32 - 1))
def test_the_bounds_of_theorem_one_hold_for_the_exact_risk(data, values, noise_std, seed):
    """Any truth of the unit ball, any iterate up to the stop; and after it the bound that the lemmas do prove (E5)."""
    rng = np.random.default_rng(seed)
    step = 0.8 * min(1.0, 1 / values[0])
    spent = rng.dirichlet(np.ones(len(values)))  # how the squared Hilbert norm of one is shared out
    stop = sw.stopping_time(values, step, noise_std).iteration
    radius = sw.critical_radius(values, noise_std)
    for t in {1, 2, 7, stop // 2, stop, stop + 1, 10 * stop + 3} - {0}:
        eta = step * t
        left = np.exp(t * np.log1p(-step * values))
        risk = values @ (spent * left**2) + noise_std**2 * np.mean((1 - left) ** 2)
        if t <= stop:
            assert risk <= complexity.bound_before_stop(eta)
        if t == stop:
            # as printed; the last iterate before the crossing may lie up to one step short of it
            assert risk <= complexity.bound_at_stop(radius) * (1 + step / eta)
        assert complexity.risk_lower_bound(values, eta, noise_std) <= risk * (1 + 1e-9)
        by_hand = noise_std**2 / 4 * np.mean(np.minimum(1, eta * values) ** 2)
        assert complexity.risk_lower_bound(values, eta, noise_std) == pytest.approx(by_hand, rel=1e-12)
