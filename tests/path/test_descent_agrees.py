"""The descent run three ways in plain loops, and the closed-form path, are one and the same."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import stopwise as sw

KERNELS = {
    "min": (sw.kernels.Sobolev(order=1), reference.sobolev(1)),
    "spline": (sw.kernels.Sobolev(order=2, anchored=False), reference.sobolev(2, anchored=False)),
    "periodic": (sw.kernels.PeriodicSobolev(order=2), reference.periodic_sobolev(2)),
    "gaussian": (sw.kernels.Gaussian(length_scale=0.4), reference.gaussian(0.4)),
    "laplace": (sw.kernels.Laplace(length_scale=0.2), reference.laplace(0.2)),
    "matern": (sw.kernels.Matern(length_scale=0.3, smoothness=2.5), reference.matern(2.5, 0.3)),
    "quadratic": (sw.kernels.Polynomial(degree=2), reference.polynomial(2)),
    "linear": (sw.kernels.Linear(), reference.linear()),
    "sum": (
        sw.kernels.Linear() + 0.5 * sw.kernels.Laplace(1.0),
        lambda x, z: x[0] * z[0] + 0.5 * reference.laplace()(x, z),
    ),
}
N_STEPS = 40


@st.composite
def problems(draw):
    """A kernel, a design (tied rows and the origin make K singular), responses of any size, a schedule."""
    name = draw(st.sampled_from(sorted(KERNELS)))
    seed, n = draw(st.integers(0, 2**32 - 1)), draw(st.integers(2, 15))
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    design = draw(st.sampled_from(["distinct", "tied", "with origin"]))
    if design == "tied":
        X[n // 2 :] = X[0]
    if design == "with origin":
        X[0] = 0.0
    y = draw(st.sampled_from([1e-6, 1.0, 1e6])) * rng.normal(size=n)
    part, kind = draw(st.floats(0.05, 1.0)), draw(st.sampled_from(["constant", "decay", "sequence"]))
    return name, X, y, part, kind


def schedule_and_steps(part, kind, largest):
    first = part * min(1.0, 1 / largest if largest > 1e-12 else 1.0)
    if kind == "constant":
        return sw.schedules.Constant(first), [first] * N_STEPS
    if kind == "decay":
        return sw.schedules.PolynomialDecay(step_size=first, power=0.7), [
            first * (t + 1) ** -0.7 for t in range(N_STEPS)
        ]
    steps = [first * 0.9**t for t in range(10)]
    return sw.schedules.Sequence(steps), steps + [steps[-1]] * (N_STEPS - 10)


@given(problem=problems(), fit_intercept=st.booleans())
def test_three_plain_descents_and_the_closed_form_path_agree(problem, fit_intercept):
    name, X, y, part, kind = problem
    kernel, pair = KERNELS[name]
    n, scale = len(y), np.abs(y).max()
    offset = y.mean() if fit_intercept else 0.0
    K = reference.gram(pair, X) / n
    K = reference.centre(K) if fit_intercept else K
    schedule, steps = schedule_and_steps(part, kind, reference.eigenvalues(K)[0])

    weights = reference.descent_omega(K, y - offset, steps)
    in_theta = np.array(reference.descent_theta(K, y - offset, steps)) + offset
    in_omega = np.array(reference.fits_of_weights(K, weights)) + offset
    in_fits = np.array(reference.descent_fits(K, y - offset, steps)) + offset

    model = sw.KernelGradientRegressor(
        kernel,
        rule=sw.rules.Fixed(iteration=N_STEPS),
        noise_std=scale,
        schedule=schedule,
        fit_intercept=fit_intercept,
    ).fit(X, y)
    closed = np.array([model.path_.fit(iteration=t) for t in range(N_STEPS + 1)])
    for other in (in_theta, in_omega, in_fits):
        np.testing.assert_allclose(closed, other, rtol=0, atol=1e-10 * scale)

    # the same function away from the data, from the weights of the last iterate
    new = np.linspace(0.05, 0.95, 5)[:, None]
    block = reference.gram(pair, new, X)
    if fit_intercept:
        gram = reference.gram(pair, X)
        block = block - block.mean(axis=1, keepdims=True) - gram.mean(axis=0) + gram.mean()
    expected = block @ weights[-1] / math.sqrt(n) + offset
    size = max(scale, np.abs(block).max() * np.abs(weights[-1]).max() * math.sqrt(n))
    np.testing.assert_allclose(model.predict(new), expected, rtol=0, atol=1e-10 * size)
    raw = reference.gram(pair, new, X) @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(raw, expected, rtol=0, atol=1e-10 * size)


@given(seed=st.integers(0, 2**32 - 1), rank=st.integers(1, 8), t=st.integers(0, N_STEPS))
def test_norms_and_degrees_of_freedom_follow_the_plain_descent(seed, rank, t):
    rng = np.random.default_rng(seed)
    n = 8
    features = rng.normal(size=(n, rank))
    gram = features @ features.T
    y = rng.normal(size=n)
    K = gram / n
    step = 0.9 * min(1.0, 1 / reference.eigenvalues(K)[0])
    model = sw.KernelGradientRegressor(
        "precomputed",
        rule=sw.rules.Fixed(iteration=t),
        noise_std=1.0,
        schedule=sw.schedules.Constant(step),
        fit_intercept=False,
    ).fit(gram, y)
    hats = reference.hat_matrices(lambda unit: reference.descent_fits(K, unit, [step] * t), n)
    omega = reference.descent_omega(K, y, [step] * t)[-1]
    path = model.path_
    residual = y - hats[-1] @ y
    assert path.residual_norm(iteration=t) == pytest.approx(math.sqrt(np.mean(residual**2)), rel=1e-9, abs=1e-11)
    assert path.hilbert_norm(iteration=t) == pytest.approx(math.sqrt(max(omega @ K @ omega, 0)), rel=1e-9, abs=1e-11)
    assert path.degrees_of_freedom(iteration=t) == pytest.approx(np.trace(hats[-1]), rel=1e-10, abs=1e-11)
    np.testing.assert_allclose(model.dual_coef_ * math.sqrt(n), omega, rtol=0, atol=1e-10 * max(1, np.abs(omega).max()))
    truth = rng.normal(size=n)
    for noise_std in (0.5, 2.0):
        bias, spread = reference.squared_bias(hats[-1], truth), reference.variance(hats[-1], noise_std)
        assert path.squared_bias(truth, iteration=t) == pytest.approx(bias, rel=1e-10, abs=1e-12)
        assert path.variance(noise_std, iteration=t) == pytest.approx(spread, rel=1e-10, abs=1e-12)
        assert path.risk(truth, noise_std, iteration=t) == pytest.approx(bias + spread, rel=1e-10)


def test_weights_of_a_zero_kernel_grow_with_the_step_sum():
    """lambda = 0 everywhere: the gain is nil and the weight is its limit, step_sum / n times the response."""
    y = np.array([1.0, -2.0, 4.0])
    model = sw.KernelGradientRegressor(
        "precomputed", rule=sw.rules.Fixed(iteration=6), noise_std=1.0, schedule=0.5, fit_intercept=False
    ).fit(np.zeros((3, 3)), y)
    np.testing.assert_allclose(model.dual_coef_, 3.0 * y / 3, rtol=1e-13)
    np.testing.assert_array_equal(model.predict(np.zeros((2, 3))), [0.0, 0.0])


def test_many_stopping_points_and_responses_are_answered_at_once(rng):
    X, Y = rng.uniform(size=(20, 1)), rng.normal(size=(20, 3))
    settings = {
        "kernel": sw.kernels.Sobolev(order=1),
        "rule": sw.rules.Fixed(iteration=5),
        "noise_std": 1.0,
        "schedule": 0.5,
    }
    together = sw.KernelGradientRegressor(**settings).fit(X, Y)
    assert isinstance(together.stop_, list)
    assert len(together.stop_) == 3
    iterations = np.array([0, 1, 7])
    for column in range(3):
        alone = sw.KernelGradientRegressor(**settings).fit(X, Y[:, column])
        np.testing.assert_allclose(together.predict(X)[:, column], alone.predict(X), rtol=1e-12, atol=1e-12)
        one_by_one = [alone.path_.fit(iteration=int(t)) for t in iterations]
        np.testing.assert_allclose(alone.path_.fit(iteration=iterations), one_by_one, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(
            together.path_.fit(iteration=iterations)[..., column], one_by_one, rtol=1e-12, atol=1e-13
        )


def test_a_step_sum_between_two_iterates_means_the_earlier_one(rng):
    X, y = rng.uniform(size=(12, 1)), rng.normal(size=12)
    model = sw.KernelGradientRegressor(
        sw.kernels.Sobolev(order=1), rule=sw.rules.Fixed(iteration=3), noise_std=1.0, schedule=0.5
    ).fit(X, y)
    np.testing.assert_array_equal(model.path_.fit(1.4), model.path_.fit(iteration=2))
    np.testing.assert_array_equal(model.path_.fit(1.5), model.path_.fit(iteration=3))
    assert model.step_sum_ == 1.5
