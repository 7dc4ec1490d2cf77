"""What must hold along every path, whatever the spectrum, the data, the filter and the units."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stopwise as sw
from problems import DESIGNS, FILTERS, KERNELS, MONOTONE, RESPONSES, design, estimator, examples, response

f = sw.filters
EPS = 2.2e-16

# Spectra over 16 orders of magnitude, with ties and zeros; the largest is one of the first drawn.
eigenvalues = st.lists(
    st.one_of(st.floats(-16, 1).map(lambda e: 10.0**e), st.sampled_from([0.0, 1.0, 0.5])), min_size=1, max_size=30
).map(lambda values: np.sort(np.array([*values, 0.25]))[::-1])
exponents = st.floats(-3, 3)
clock = st.lists(st.floats(-4, 10).map(lambda e: 10.0**e), min_size=2, max_size=12).map(lambda s: np.sort([0.0, *s]))


def bound(name, values):
    """A filter of that name, bound to the spectrum; descent with the largest step, or with steps that decay."""
    largest = float(values[0])
    made = {
        "descent": lambda: f.GradientDescent("auto"),
        "decay": lambda: f.GradientDescent(sw.schedules.PolynomialDecay(min(1.0, 1 / largest), 0.5)),
        "flow": f.GradientFlow,
        "cutoff": f.CutOff,
        "ridge": f.Ridge,
    }[name]()
    return made.bind(largest)


# ---- filters on a spectrum --------------------------------------------------------------------------------------


@examples(60, 1000)
@given(name=st.sampled_from([*MONOTONE, "decay"]), values=eigenvalues, sums=clock)
def test_shrinkage_lies_between_zero_and_one_and_never_grows(name, values, sums):
    filter_ = bound(name, values)
    left, gain = filter_.shrinkage(values, sums), filter_.gain(values, sums)
    for share in (left, gain):
        assert np.all((share >= 0) & (share <= 1))
    assert np.all(np.diff(left, axis=0) <= 4 * EPS)
    assert np.all(np.diff(gain, axis=0) >= -4 * EPS)
    assert np.all(np.diff(filter_.weight(values, sums), axis=0) >= -1e-12 * filter_.weight(values, sums[1:]))
    assert np.all(left[0] == 1)
    assert np.all(np.diff(left, axis=1) >= -4 * EPS)  # what is larger in the spectrum is fitted first


@examples(60, 3000)
@given(values=eigenvalues, nu=st.sampled_from([0.75, 1.0, 2.0, 4.0]), t=st.integers(1, 400))
def test_the_nu_method_keeps_the_bounds_that_the_rule_needs(values, nu, t):
    method = f.NuMethod(nu).bind(float(values[0]))
    eta = float(method.step_sum(t))
    left, gain = method.shrinkage(values, eta), method.gain(values, eta)
    assert np.all(np.abs(left) <= 1 + 1e-9)
    if nu >= 1:
        assert np.all(left**2 * (2 * math.e * eta * values) <= 1 + 1e-9)
    reach = np.minimum(1, eta * values)
    most = (4 * nu + 2) / (4 * nu + 1) if t < 8 or nu < 1 else {1.0: 1.09, 2.0: 1.025, 4.0: 1.006}[nu]
    assert np.all(gain <= most * reach * (1 + 1e-9))


@examples(200, 5000)
@given(values=eigenvalues, sums=clock, truth=st.integers(0, 10_000))
def test_ridge_flow_and_descent_lie_between_known_multiples_of_each_other(values, sums, truth):
    """ridge <= flow <= descent <= min(1, u) <= 2 ridge; flow <= 1.2985 ridge, its risk 1.6863 (Ali et al. 2019)."""
    descent = bound("descent", values)
    sums = descent.snap(sums)
    ridge, flow, steps = (bound(name, values).gain(values, sums) for name in ("ridge", "flow", "descent"))
    reach = np.minimum(1, sums[:, None] * values)
    slack = 1 + 1e-9
    assert np.all(ridge <= flow * slack)
    assert np.all(flow <= 1.2985 * ridge * slack)
    assert np.all(flow <= steps * slack)
    assert np.all(steps <= reach * slack)
    assert np.all(reach <= 2 * ridge * slack)
    signal = np.random.default_rng(truth).standard_normal(values.size) ** 2 * 10.0 ** (truth % 7 - 3)
    risk = [(1 - gain) ** 2 @ signal + (gain**2).sum(axis=1) for gain in (ridge, flow)]
    assert np.all(risk[1] <= 1.6863 * risk[0] * slack)


# ---- the critical radius ----------------------------------------------------------------------------------------


@examples(150, 5000)
@given(values=eigenvalues, noise=exponents, radius=exponents, scale=st.floats(-8, 8))
def test_the_critical_radius_follows_its_scale_laws(values, noise, radius, scale):
    sigma, r, a = 10.0**noise, 10.0**radius, 10.0**scale
    plain = sw.critical_radius(values, sigma, hilbert_radius=r)
    assert sw.critical_radius(values, a * sigma, hilbert_radius=a * r) == pytest.approx(plain, rel=1e-12)
    # a kernel scaled by a, in whose norm every function is 1 / sqrt(a) as large
    scaled = sw.critical_radius(a * values, sigma, hilbert_radius=r / math.sqrt(a))
    assert scaled == pytest.approx(math.sqrt(a) * plain, rel=1e-12)
    eta = sw.critical_step_sum(values, sigma, hilbert_radius=r)
    assert eta == pytest.approx(plain**-2, rel=1e-12)
    level = values.size * (r / (2 * math.e * sigma)) ** 2
    assert eta * np.minimum(1, eta * values).sum() == pytest.approx(level, rel=1e-9)


@examples(150, 3000)
@given(
    values=eigenvalues,
    noise=st.lists(exponents, min_size=2, max_size=6),
    radius=exponents,
    step=st.floats(-4, 0),
    constant=st.floats(0.5, 8),
)
def test_more_noise_never_stops_later_and_a_larger_ball_never_earlier(values, noise, radius, step, constant):
    schedule = 10.0**step / max(1.0, float(values[0]))
    stops = [
        sw.stopping_time(values, schedule, 10.0**e, hilbert_radius=10.0**radius, constant=constant).iteration
        for e in sorted(noise)
    ]
    assert stops == sorted(stops, reverse=True)
    stops = [
        sw.stopping_time(values, schedule, 10.0**radius, hilbert_radius=10.0**e, constant=constant).iteration
        for e in sorted(noise)
    ]
    assert stops == sorted(stops)


# ---- paths of data ----------------------------------------------------------------------------------------------

PROBLEM = {
    "seed": st.integers(0, 10_000),
    "n": st.integers(2, 40),
    "kernel": st.sampled_from(sorted(KERNELS)),
    "layout": st.sampled_from(DESIGNS),
    "kind": st.sampled_from(RESPONSES),
    "intercept": st.booleans(),
}


def draw(seed, n, layout, kind):
    x = design(layout, n, seed)
    return x, response(kind, x, seed)


@examples(80, 1500)
@given(precision=st.sampled_from(["float64", "float32"]), sums=clock, **PROBLEM)
def test_along_a_path_residuals_fall_and_norms_and_degrees_of_freedom_grow(
    seed, n, kernel, layout, kind, intercept, precision, sums
):
    x, y = draw(seed, n, layout, kind)
    more = {"fit_intercept": intercept, "precision": precision, "noise_std": float(np.abs(y).max())}
    path = estimator("descent", KERNELS[kernel], rule=sw.rules.Fixed(step_sum=1.0), solver="dense", **more).fit(x, y)
    path = path.path_
    for filter_ in (f.GradientDescent("auto"), f.GradientFlow(), f.CutOff(), f.Ridge()):
        along = path.along(filter_)
        residual, norm, df = (m(sums) for m in (along.residual_norm, along.hilbert_norm, along.degrees_of_freedom))
        assert residual[0] == pytest.approx(np.sqrt(np.mean((y - intercept * y.mean()) ** 2)), rel=1e-6, abs=1e-300)
        assert norm[0] == df[0] == 0
        assert np.all(np.diff(residual) <= 1e-12 * residual[0])
        assert np.all(np.diff(norm) >= -1e-12 * norm[1:])
        assert np.all(np.diff(df) >= -1e-12 * n)
        assert df[-1] <= (n - intercept) * (1 + 1e-6)


@examples(80, 1000)
@given(filter_=st.sampled_from(FILTERS), radius=exponents, scale=st.floats(-6, 6), **PROBLEM)
def test_one_stop_in_any_unit_of_the_response_and_any_scale_of_the_kernel(
    seed, n, kernel, layout, kind, intercept, filter_, radius, scale
):
    """y, sigma and R times a: the same stop. The kernel times a and R over sqrt(a): the clock over a, the same fit."""
    x, y = draw(seed, n, layout, kind)
    y = y / (np.abs(y).max() or 1.0)
    a, r = 10.0**scale, 10.0**radius

    def fit(kernel, response, sigma, ball):
        rule = sw.rules.Critical(hilbert_radius=ball)
        return estimator(filter_, kernel, rule=rule, noise_std=sigma, fit_intercept=intercept, solver="dense").fit(
            x, response
        )

    plain = fit(KERNELS[kernel], y, 0.3, r)
    units = fit(KERNELS[kernel], a * y, 0.3 * a, r * a)
    crossing = plain.stop_.details.get("critical_step_sum")
    assert (crossing is None) == (units.stop_.details.get("critical_step_sum") is None)
    if crossing is None:  # nothing to fit
        assert plain.step_sum_ == units.step_sum_ == 0
        return
    assert units.stop_.details["critical_step_sum"] == pytest.approx(crossing, rel=1e-9)
    largest = float(plain.eigenvalues_[0])
    share = 1e-9 + 50 * EPS * largest * plain.step_sum_
    same_iterate = plain.stop_.iteration == units.stop_.iteration
    assert same_iterate or abs(crossing / plain.step_sum_ - 1) < 1e-9  # a crossing on an iterate may round either way
    if same_iterate:
        assert np.allclose(units.path_.fit() / a, plain.path_.fit(), rtol=0, atol=share)
    scaled = fit(a * KERNELS[kernel], y, 0.3, r / math.sqrt(a))
    # entries are rounded before they are centred, which may leave little of them
    close = 1e-9 + 50 * EPS * float(KERNELS[kernel].diagonal(x).mean()) / largest
    assert a * scaled.stop_.details["critical_step_sum"] == pytest.approx(crossing, rel=close)
    if filter_ in ("flow", "ridge") and crossing < 1e12 / largest:
        assert np.allclose(scaled.path_.fit(), plain.path_.fit(), rtol=0, atol=close + share)
