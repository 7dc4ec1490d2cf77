"""Spectra over 16 orders of magnitude, ten billion steps, ties, near-duplicates and denormals, against 50 digits.

Each expected value is computed here by mpmath from the same floating-point inputs, as the formula stands.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf

import reference
import stopwise as sw
from stopwise.path import Path
from stopwise.spectrum import Basis, Density, Spectrum

DIGITS = 50
EPS = 2.0**-52
STEP = 0.25
ORDERS = 10.0 ** -np.arange(16.0)  # 1 to 1e-15; with the next line all 16 orders, denormals and zero
DEEPEST = np.concatenate([ORDERS, [3e-16, 1e-16, 1e-100, 1e-307, 1e-310, 5e-324, 0.0]])
COUNTS = [1, 2, 1000, 10**6, 10**10]
SUMS = [STEP * t for t in COUNTS]


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(DIGITS):
        yield


def power_sum(exponent, count):
    """1 + 2^-s + ... + count^-s, by the zeta functions of Riemann and Hurwitz."""
    if exponent == 1:
        return mpmath.harmonic(count)
    return mpmath.zeta(exponent) - mpmath.zeta(exponent, count + 1)


def log_left_decaying(value, power, count):
    """sum over t of log(1 - t^-power value), from the series of the logarithm to a share of 1e-20; value below 1/4."""
    terms = range(1, 2 + int(20 / -mpmath.log10(value)))
    return -sum(value**k / k * power_sum(power * k, count) for k in terms)


def exact(name, value, iteration):
    """S and 1 - S of one eigenvalue after so many steps of 1/4 (or at that clock reading)."""
    value, eta = mpf(float(value)), mpf(STEP) * iteration
    if name == "descent":
        log = iteration * mpmath.log1p(-mpf(STEP) * value)
        return mpmath.exp(log), -mpmath.expm1(log)
    if name == "flow":
        return mpmath.exp(-eta * value), -mpmath.expm1(-eta * value)
    if name == "ridge":
        return 1 / (1 + eta * value), eta * value / (1 + eta * value)
    kept = eta * value >= 1
    return mpf(not kept), mpf(kept)


FILTERS = {
    "descent": sw.filters.GradientDescent(STEP).bind(1.0),
    "flow": sw.filters.GradientFlow(),
    "ridge": sw.filters.Ridge(),
    "cutoff": sw.filters.CutOff(),
}


def assert_digits(found, expected, rel, tiny=1e-300):
    """To a relative error, or below what floating point can hold."""
    for one, other in zip(np.ravel(found), expected, strict=True):
        assert abs(mpf(float(one)) - other) <= rel * abs(other) + tiny, (one, mpmath.nstr(other, 20))


# ---- filters and schedules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", FILTERS)
def test_filters_keep_their_digits_over_every_order_of_magnitude(name, count):
    """exp turns an error of one ulp in log S into |log S| ulps: 745 of them at the smallest float."""
    at = STEP * count
    pairs = [exact(name, value, count) for value in DEEPEST]
    assert_digits(FILTERS[name].shrinkage(DEEPEST, at), [left for left, _ in pairs], 1500 * EPS)
    denormal = 1e-323 * count  # step * eigenvalue is rounded there, count times over
    assert_digits(FILTERS[name].gain(DEEPEST, at), [gain for _, gain in pairs], 4 * EPS, tiny=denormal)
    positive = DEEPEST > 0
    weights = [gain / mpf(float(v)) for (_, gain), v in zip(pairs, DEEPEST, strict=True) if v > 0]
    found = FILTERS[name].weight(DEEPEST, at)
    normal = DEEPEST >= 1e-300
    assert_digits(found[normal], [w for w, v in zip(weights, DEEPEST[positive], strict=True) if v >= 1e-300], 6 * EPS)
    assert_digits(found[positive], weights, 1e-6)
    assert found[-1] == (0.0 if name == "cutoff" else at)


@pytest.mark.parametrize("count", [1, 1024, 1025, 10**5, 10**10])
@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_ten_billion_decaying_steps_cost_no_digits(power, count):
    values = np.array([0.2, 1e-3, 1e-8, 1e-16])
    filter_ = sw.filters.GradientDescent(sw.schedules.PolynomialDecay(1.0, power)).bind(1.0)
    clock = power_sum(mpf(power), count)
    at = filter_.step_sum(count)
    assert_digits(at, [clock], 1e-13)
    logs = [log_left_decaying(mpf(float(v)), mpf(power), count) for v in values]
    found = filter_._bound_schedule().log_shrinkage(values, count)
    assert_digits(found, logs, 1e-12)
    assert int(filter_.iteration(at)) == count


@pytest.mark.parametrize("count", [3, 5, 10**10])
def test_a_sequence_goes_on_with_its_last_step(count):
    steps = [1.0, 0.5, 0.5, 1e-6]
    filter_ = sw.filters.GradientDescent(steps).bind(1.0)
    inside = [mpf(s) for s in steps[: min(count, 4)]]
    rest = max(count - 4, 0)
    logs = [
        sum(mpmath.log1p(-s * mpf(float(v))) for s in inside) + rest * mpmath.log1p(-mpf(1e-6) * mpf(float(v)))
        for v in DEEPEST[1:]
    ]
    found = filter_.gain(DEEPEST[1:], filter_.step_sum(count))
    assert_digits(found, [-mpmath.expm1(log) for log in logs], 1e-13, tiny=1e-323 * count)


@pytest.mark.parametrize("nu", [1.0, 2.0])
def test_a_thousand_accelerated_steps_keep_the_digits_of_small_eigenvalues(nu):
    values = np.array([1.0, 0.3, 1e-3, 1e-6, 1e-9, 1e-16, 1e-300])
    method = sw.filters.NuMethod(nu).bind(1.0)
    found = method.gain(values, method.step_sum(1000))
    for one, value in zip(found, values, strict=True):
        x, before, now = mpf(float(value)), mpf(0), mpf(0)
        for k in range(1, 1001):
            below = mpf((k + 2 * nu - 1) * (2 * k + 4 * nu - 1))
            mu = (k - 1) * (2 * k - 3) * (2 * k + 2 * nu - 1) / (below * (2 * k + 2 * nu - 3))
            omega = 4 * (2 * k + 2 * nu - 1) * (k + nu - 1) / below
            mu, omega = (mpf(0), mpf(4 * nu + 2) / (4 * nu + 1)) if k == 1 else (mu, omega)
            before, now = now, now + mu * (now - before) + omega * x * (1 - now)
        assert abs(mpf(float(one)) - now) <= 1e-10 * abs(now)


# ---- complexity and the rule ------------------------------------------------------------------------------------

SPECTRA = {
    "16 orders": ORDERS,
    "denormals": DEEPEST,
    "ties": np.repeat([1.0, 1e-8, 1e-16], 7),
    "one": np.array([1e-12]),
    "denormal": np.array([1e-310, 5e-324]),
    "near-ties": np.array([1.0, 1.0 - EPS / 2, 1e-3, 1e-3 * (1 + EPS)]),
}


@pytest.mark.parametrize("noise_std", [1e-7, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("name", SPECTRA)
def test_complexity_and_critical_radius_are_exact(name, noise_std):
    values = SPECTRA[name]
    for radius in (1e-160, 1e-8, 0.1, 1.0, 1e8):
        squared = mpf(radius) ** 2
        expected = mpmath.sqrt(sum(min(mpf(float(v)), squared) for v in values) / len(values))
        assert_digits(sw.local_complexity(values, radius), [expected], 8 * EPS, tiny=2e-162)
    found = sw.critical_radius(values, noise_std)
    expected = reference.critical_radius_in_digits(values, noise_std, digits=DIGITS)
    assert found == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("radius", [1.0, 1e3, 1e7])
@pytest.mark.parametrize("name", ["16 orders", "ties", "near-ties"])
def test_the_stopping_time_is_the_right_integer_up_to_ten_billion_steps_and_beyond(name, radius):
    values, step, noise_std = SPECTRA[name], 1e-3, 0.37
    stop = sw.stopping_time(values, step, noise_std, hilbert_radius=radius)
    level = len(values) * (mpf(radius) / (2 * mpmath.e * mpf(noise_std))) ** 2
    exact_values = [mpf(float(v)) for v in values]
    at, after = (reference.travel(exact_values, mpf(step) * (stop.iteration + k)) for k in (0, 1))
    slack = 1 + mpf(10) ** -13  # an iterate within rounding of the crossing may fall on either side
    assert at <= level * slack
    assert after * slack > level
    assert stop.iteration > {1.0: 10, 1e3: 10**5, 1e7: 10**10}[radius]


# ---- everything read off a path ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def path():
    """16 eigenvalues over 15 orders and an orthonormal basis, so that leverages differ from row to row."""
    rng = np.random.default_rng(50)
    vectors = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    y = rng.standard_normal(16)
    density = Density(ORDERS, np.ones(16), 16.0)
    spectrum = Spectrum(ORDERS, Basis(vectors), density.trace, 16.0, density, density, largest_bound=1.0)
    coefficients = vectors.T @ y
    return Path(spectrum, FILTERS["descent"], coefficients, np.asarray(y @ y), response=y)


@pytest.mark.parametrize("count", [1, 37, 10**4, 10**7, 10**10])
@pytest.mark.parametrize("name", FILTERS)
def test_residual_norm_degrees_of_freedom_and_risks_keep_their_digits(path, name, count):
    along, at, n = path.along(FILTERS[name]), STEP * count, 16
    left, gain = zip(*(exact(name, v, count) for v in ORDERS), strict=True)
    values, c = [mpf(float(v)) for v in ORDERS], [mpf(float(v)) for v in path.coefficients]
    triples = list(zip(values, c, left, gain, strict=True))
    residual = sum((s * a) ** 2 for _, a, s, _ in triples) / n
    norm = sum(g**2 * a**2 / v for v, a, _, g in triples) / n
    degrees, remaining, spread = sum(gain), sum(left), sum(g**2 for g in gain)
    rel = 100 * EPS
    assert_digits(along.residual_norm(at), [mpmath.sqrt(residual)], rel)
    assert_digits(along.hilbert_norm(at), [mpmath.sqrt(norm)], rel)
    assert_digits(along.degrees_of_freedom(at), [degrees], rel)
    assert_digits(along.complexity_sum(at), [sum(min(mpf(1), mpf(at) * v) for v in values)], rel)
    sigma = 0.3
    assert_digits(along.variance(sigma, at), [mpf(sigma) ** 2 * spread / n], rel)
    sure = residual + mpf(sigma) ** 2 * (1 - 2 * remaining / n)
    assert_digits(sw.rules.SURE().criterion(along, sigma, at), [sure], 0, tiny=20 * EPS)
    worst = 4 * max(v * s**2 for v, s in zip(values, left, strict=True)) + mpf(sigma) ** 2 * spread / n
    assert_digits(sw.rules.Minimax().criterion(along, sigma, 2.0, np.asarray(at)), [worst], 1500 * EPS)
    # the share of degrees of freedom left is a difference, 1 - df / n: its error is an ulp of 1
    share = remaining / n
    assert_digits(along.gcv(at), [residual / share**2], float(8 * EPS / share) + rel)


@pytest.mark.parametrize("count", [1, 37, 10**4, 10**7, 10**10])
@pytest.mark.parametrize("name", FILTERS)
def test_fits_weights_and_leave_one_out_errors_keep_their_digits(path, name, count):
    along, at = path.along(FILTERS[name]), STEP * count
    left, gain = zip(*(exact(name, v, count) for v in ORDERS), strict=True)
    vectors = [[mpf(float(v)) for v in row] for row in path.spectrum.basis.rows]
    c = [mpf(float(v)) for v in path.coefficients]
    fitted = [sum(u * g * a for u, g, a in zip(row, gain, c, strict=True)) for row in vectors]
    weighted = [g / mpf(float(v)) * a / 16 for g, v, a in zip(gain, ORDERS, c, strict=True)]
    weights = [sum(u * w for u, w in zip(row, weighted, strict=True)) for row in vectors]
    assert_digits(along.fit(at), fitted, 0, tiny=20 * EPS)
    assert_digits(along.dual_coef(at), weights, 0, tiny=100 * EPS * float(max(abs(w) for w in weights)))
    # 1 - h_ii = sum of u^2 S, to an ulp of 1 (the basis is orthonormal to that)
    spared = [sum(u**2 * s for u, s in zip(row, left, strict=True)) for row in vectors]
    residual = [sum(u * s * a for u, s, a in zip(row, left, c, strict=True)) for row in vectors]
    if min(spared) > 1e-6:
        errors = [r / h for r, h in zip(residual, spared, strict=True)]
        rel = float(40 * EPS / min(spared))
        assert_digits(along.leave_one_out(at), errors, rel, tiny=rel * float(max(abs(e) for e in errors)))


# ---- from rows to fits ------------------------------------------------------------------------------------------


def mp_gram(x, kernel):
    def pair(a, b):
        squared = sum((mpf(float(s)) - mpf(float(t))) ** 2 for s, t in zip(a, b, strict=True))
        return mpmath.exp(-squared / 2) if kernel == "gaussian" else mpmath.exp(-mpmath.sqrt(squared))

    return mpmath.matrix([[pair(a, b) for b in x] for a in x])


def mp_fit(gram, y, step, count):
    """y - (I - step K)^count y by an eigendecomposition in 50 digits."""
    n = len(y)
    values, vectors = mpmath.eigsy(gram / n)
    response = mpmath.matrix([mpf(float(v)) for v in y])
    coefficients = vectors.T * response
    for j in range(n):
        coefficients[j] *= -mpmath.expm1(count * mpmath.log1p(-mpf(step) * max(values[j], 0)))
    return np.array([float(v) for v in vectors * coefficients])


ROWS = {
    "ties": lambda x: np.concatenate([x, x]),
    "rows 1e-12 apart": lambda x: np.concatenate([x, x + 1e-12]),
    "rows 1e-12 apart, far from the origin": lambda x: np.concatenate([x, x + 1e-12]) + 8.0,
    "denormal rows": lambda x: np.concatenate([x, x * 1e-310]),
}


@pytest.mark.parametrize("count", [1, 1000, 10**6])
@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize("rows", ROWS)
def test_fits_on_ties_and_near_duplicates_agree_with_fifty_digits(rows, kernel, count):
    """A Gram entry is right to an ulp or so, hence the fit after t steps to about t ulps times the step."""
    rng = np.random.default_rng(12)
    x = ROWS[rows](rng.standard_normal((5, 2)))
    y = rng.standard_normal(10)
    expected = mp_fit(mp_gram(x, kernel), y, 0.5, count)
    made = {"gaussian": sw.kernels.Gaussian(1.0), "laplace": sw.kernels.Laplace(1.0)}[kernel]
    for solver in ("dense", "krylov"):
        model = sw.KernelGradientRegressor(
            made, rule=sw.rules.Fixed(iteration=count), noise_std=1.0, schedule=0.5, fit_intercept=False, solver=solver
        ).fit(x, y)
        assert np.abs(model.path_.fit() - expected).max() <= 20 * EPS * (10 + 0.5 * count)


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("rows", ROWS)
def test_single_precision_keeps_its_own_digits(rows, count):
    rng = np.random.default_rng(13)
    x = ROWS[rows](rng.standard_normal((5, 2))).astype(np.float32)
    y = rng.standard_normal(10)
    expected = mp_fit(mp_gram(x, "gaussian"), y, 0.5, count)
    model = sw.KernelGradientRegressor(
        sw.kernels.Gaussian(1.0), rule=sw.rules.Fixed(iteration=count), noise_std=1.0, schedule=0.5
    )
    model.set_params(fit_intercept=False, precision="float32", solver="dense").fit(x, y)
    assert np.abs(model.path_.fit() - expected).max() <= 20 * 2.0**-23 * (10 + 0.5 * count)


@pytest.mark.parametrize("call", ["predict", "predict_interval"])
def test_deviations_of_responses_too_large_to_be_squared_are_refused_in_words(call):
    rng = np.random.default_rng(15)
    x = rng.standard_normal((30, 2))
    model = sw.KernelRidgeRegressor("gaussian").fit(x, 1e160 * (np.sin(x[:, 0]) + 0.3 * rng.standard_normal(30)))
    assert np.isfinite(model.predict(x)).all()
    with pytest.raises(ValueError, match=r"overflows above 1e\+150.*rescale"):
        model.predict(x, return_std=True) if call == "predict" else model.predict_interval(x)


@pytest.mark.parametrize("unit", [1e-310, 1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("rule", ["critical", "sure", "gcv", "loo", "auto"])
def test_responses_near_the_ends_of_floating_point_give_the_same_model(rule, unit):
    """A denormal has fewer digits: what y lost there, 5e-324 / unit, is all that may differ."""
    rng = np.random.default_rng(14)
    x = rng.standard_normal((20, 2))
    y = np.sin(x[:, 0]) + 0.3 * rng.standard_normal(20)
    chosen = sw.rules.Critical(hilbert_radius="auto") if rule == "critical" else rule
    plain = sw.KernelRidgeRegressor(sw.kernels.Gaussian(1.0), rule=chosen, noise_std="evidence").fit(x, y)
    extreme = sw.KernelRidgeRegressor(sw.kernels.Gaussian(1.0), rule=chosen, noise_std="evidence").fit(x, unit * y)
    assert extreme.step_sum_ == pytest.approx(plain.step_sum_, rel=1e-6)
    lost = 1e-6 + 100 * 5e-324 / unit
    assert np.abs(extreme.predict(x) / unit - plain.predict(x)).max() <= lost
    assert math.isfinite(extreme.noise_std_)
    assert extreme.noise_std_ / unit == pytest.approx(plain.noise_std_, rel=1e-6)
