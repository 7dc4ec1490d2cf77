"""Every kernel against a double loop over its pair formula."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as gp

import reference
import stopwise as sw
import stopwise.kernels.radial as radial
from stopwise.kernels import as_kernel

k = sw.kernels

# name: (kernel, pair formula, number of features)
CASES = {
    "sobolev1": (k.Sobolev(order=1), reference.sobolev(1), 1),
    "sobolev1 free": (k.Sobolev(order=1, anchored=False), reference.sobolev(1, anchored=False), 1),
    "sobolev2": (k.Sobolev(order=2), reference.sobolev(2), 1),
    "sobolev2 free": (k.Sobolev(order=2, anchored=False), reference.sobolev(2, anchored=False), 1),
    "sobolev2 on (-2, 3)": (
        k.Sobolev(order=2, anchored=False, interval=(-2, 3)),
        reference.on_interval(reference.sobolev(2, anchored=False), (-2, 3)),
        1,
    ),
    "periodic1": (k.PeriodicSobolev(order=1), reference.periodic_sobolev(1), 1),
    "periodic2": (k.PeriodicSobolev(order=2), reference.periodic_sobolev(2), 1),
    "periodic3": (k.PeriodicSobolev(order=3), reference.periodic_sobolev(3), 1),
    "gaussian": (k.Gaussian(length_scale=0.7), reference.gaussian(0.7), 3),
    "gaussian, a scale each": (
        k.Gaussian(length_scale=[0.3, 1.0, 4.0]),
        reference.gaussian([0.3, 1.0, 4.0]),
        3,
    ),
    "laplace": (k.Laplace(length_scale=0.4), reference.laplace(0.4), 2),
    "laplace, a scale each": (k.Laplace(length_scale=[0.4, 2.0]), reference.laplace([0.4, 2.0]), 2),
    "matern12": (k.Matern(length_scale=0.5, smoothness=0.5), reference.matern(0.5, 0.5), 2),
    "matern32": (k.Matern(length_scale=0.5, smoothness=1.5), reference.matern(1.5, 0.5), 2),
    "matern52": (k.Matern(length_scale=[0.5, 3.0], smoothness=2.5), reference.matern(2.5, [0.5, 3.0]), 2),
    "linear": (k.Linear(), reference.linear(), 4),
    "polynomial1": (k.Polynomial(degree=1), reference.polynomial(1), 2),
    "polynomial2": (k.Polynomial(), reference.polynomial(2), 2),
    "polynomial5": (k.Polynomial(degree=5), reference.polynomial(5), 2),
}
every_kernel = pytest.mark.parametrize("case", CASES)


def draw(seed, n, n_features, low=0.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, size=(n, n_features))


def assert_close(actual, expected, rtol=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=rtol * max(1.0, np.abs(expected).max()))


@every_kernel
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 8), m=st.integers(1, 8))
def test_a_block_of_values_equals_the_double_loop(case, seed, n, m):
    kernel, pair, n_features = CASES[case]
    X, Z = draw(seed, n, n_features), draw(seed + 1, m, n_features)
    assert_close(kernel(X, Z), reference.gram(pair, X, Z))
    assert_close(kernel(X), reference.gram(pair, X))
    assert_close(kernel.diagonal(X), np.diag(reference.gram(pair, X)))


@every_kernel
def test_the_pair_function_is_the_formula(case):
    kernel, pair, n_features = CASES[case]
    X = draw(1, 6, n_features)
    for x in X:
        for z in X:
            assert kernel.pair(x, z) == pytest.approx(pair(x, z), rel=1e-13, abs=1e-13)


@every_kernel
def test_a_gram_matrix_is_symmetric_and_positive_semidefinite(case):
    kernel, _, n_features = CASES[case]
    X = draw(2, 25, n_features)
    X[5:9] = X[0:4]  # repeated points: singular, still valid
    gram = kernel(X)
    assert_close(gram, gram.T, rtol=1e-14)  # products of blocks round in another order on another processor
    values = np.linalg.eigvalsh(gram)
    assert values[0] >= -1e-13 * values[-1]


@every_kernel
def test_single_precision_stays_single_precision(case):
    kernel, pair, n_features = CASES[case]
    X = draw(3, 9, n_features).astype(np.float32)
    Z = draw(4, 5, n_features).astype(np.float32)
    assert kernel(X, Z).dtype == np.float32
    assert kernel.diagonal(X).dtype == np.float32
    assert_close(kernel(X, Z), reference.gram(pair, X.astype(float), Z.astype(float)), rtol=3e-6)


@every_kernel
def test_integers_are_read_as_numbers(case):
    kernel, pair, n_features = CASES[case]
    X = np.arange(2 * n_features).reshape(2, n_features) % 2
    assert_close(kernel(X), reference.gram(pair, X.astype(float)))


def test_the_cubic_spline_kernel_is_its_integral():
    for x, z in [(0.3, 0.8), (0.5, 0.5), (1.0, 0.25)]:
        assert k.Sobolev(order=2).pair([x], [z]) == pytest.approx(reference.spline_by_quadrature(x, z), rel=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_periodic_kernel_is_its_fourier_series(order):
    for x, z in [(0.3, 0.8), (0.95, 0.1), (0.2, 0.2)]:
        expected = reference.periodic_by_cosines(x, z, order)
        assert k.PeriodicSobolev(order=order).pair([x], [z]) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_periodic_kernel_does_not_notice_whole_turns(order):
    x = draw(5, 7, 1)
    kernel = k.PeriodicSobolev(order=order)
    assert_close(kernel(x, x + 3.0), kernel(x))
    on_five = k.PeriodicSobolev(order=order, interval=(-1.0, 4.0))
    assert_close(on_five(5 * x - 1, 5 * x + 4), kernel(x))


def test_matern_one_half_is_the_laplace_kernel():
    X = draw(6, 10, 3)
    assert_close(k.Matern(length_scale=0.6, smoothness=0.5)(X), k.Laplace(length_scale=0.6)(X), rtol=1e-15)


@pytest.mark.parametrize("kernel", [k.Gaussian(0.5), k.Laplace(0.5), k.Matern(0.5, 1.5), k.Matern(0.5, 2.5)], ids=repr)
def test_a_common_shift_of_the_covariates_changes_nothing(kernel):
    X = np.round(draw(7, 12, 2), 6)
    X[6] = X[5] + [2**-20, 0]  # nearly coincident points show a lost digit first
    shifted = X + 2.0**20
    assert_close(kernel(shifted), kernel(X), rtol=1e-8)


def test_points_that_coincide_have_kernel_value_one():
    X = np.array([[1234.5678, -9e5], [0.1, 0.2]])
    for kernel in (k.Gaussian(0.01), k.Laplace(0.01), k.Matern(0.01, 1.5), k.Matern(0.01, 2.5)):
        np.testing.assert_array_equal(np.diag(kernel(X)), [1.0, 1.0])
        np.testing.assert_array_equal(np.diag(kernel(X, X.copy())), [1.0, 1.0])


def test_one_far_outlier_does_not_blur_the_other_pairs():
    X = np.vstack([draw(14, 12, 2), [[1e7, -1e7]]])
    for kernel in (k.Gaussian(0.5), k.Laplace(0.5), k.Matern(0.5, 1.5), k.Matern(0.5, 2.5)):
        expected = np.array([[kernel.pair(x, z) for z in X] for x in X])
        assert_close(kernel(X), expected, rtol=1e-9)


def test_a_point_at_the_end_of_the_number_range_has_kernel_value_zero():
    for size in (1e153, 1.2e154, 1e200):
        ends = np.array([[size], [-size]])
        np.testing.assert_array_equal(k.Gaussian(1.0)(ends), np.eye(2))
        np.testing.assert_array_equal(k.Laplace(1.0)(ends), np.eye(2))
    X = np.array([[0.0], [1e200]])
    for kernel in (k.Gaussian(1.0), k.Laplace(1.0), k.Matern(1.0, 1.5), k.Matern(1.0, 2.5)):
        np.testing.assert_array_equal(kernel(X), np.eye(2))


RADIAL = [
    sw.kernels.Gaussian(),
    sw.kernels.Laplace(),
    *(sw.kernels.Matern(1.0, smoothness) for smoothness in (0.5, 1.5, 2.5)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", RADIAL, ids=str)
def test_what_is_far_below_rounding_is_zero_and_never_subnormal(kernel, dtype):
    """Processors multiply subnormal numbers up to twenty times slower, in products of two kernels as well."""
    tiny = np.finfo(dtype).tiny
    x = np.geomspace(1e-3, 1e4, 700).astype(dtype)[:, None]
    values = kernel(x, x)
    assert values.dtype == dtype
    assert np.all((values == 0) | (values > np.sqrt(tiny)))
    assert np.mean(values == 0) > 0.1
    product = (kernel * kernel)(x, x)
    assert np.all((product == 0) | (product >= tiny))
    u = -0.5 * (x.astype(float) - x.T.astype(float)) ** 2
    written_out = kernel.decay(u.copy())
    assert not values[written_out < 0.5 * np.sqrt(tiny)].any()
    kept = written_out > 1e6 * np.sqrt(tiny)  # a Matern kernel is its exponential times up to 1e5
    close = 1e-9 if dtype is np.float64 else 1e-3  # of exponents up to 350 and 45
    assert np.allclose(values[kept], written_out[kept], rtol=close, atol=0)


@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 30),
    size=st.floats(-3, 3),
    kernel=st.sampled_from(RADIAL),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_a_profile_told_a_bound_is_the_profile(seed, n, size, kernel, dtype):
    """The bound on distances only saves looking: whoever looks finds the same."""
    rng = np.random.default_rng(seed)
    x, z = (10.0**size * rng.standard_normal((n, 2)).astype(dtype) for _ in range(2))
    origin = x.mean(axis=0)
    left, right = kernel.prepare(x, origin), kernel.prepare(z, origin)
    u = np.minimum(left[0] @ right[1].T, 0.0)
    assert float(u.min()) >= radial._lowest(left[0], right[1]) * (1 + 1e-12)
    u = u.astype(left[2].dtype)
    assert np.allclose(kernel.block(left, right), kernel.profile(u), rtol=1e-6, atol=1e-7)
    assert kernel.profile(np.empty((0, 3))).shape == (0, 3)


@given(seed=st.integers(0, 2**32 - 1), factor=st.floats(1e-3, 1e3))
def test_sums_products_and_scalings_act_entry_by_entry(seed, factor):
    X, Z = draw(seed, 5, 1), draw(seed + 1, 4, 1)
    first, second = k.Sobolev(order=1), k.Gaussian(length_scale=0.3)
    one, two = reference.gram(reference.sobolev(1), X, Z), reference.gram(reference.gaussian(0.3), X, Z)
    assert_close((first + second)(X, Z), one + two)
    assert_close((first * second)(X, Z), one * two)
    assert_close((factor * first)(X, Z), factor * one)
    assert_close((first * factor)(X, Z), factor * one)
    assert_close((first + 2.0)(X, Z), one + 2.0)
    both = factor * (first + second) * second + first
    assert_close(both(X, Z), factor * (one + two) * two + one)
    assert_close(both.diagonal(X), np.diag(both(X)))
    assert both.pair(X[0], Z[0]) == pytest.approx(both(X, Z)[0, 0], rel=1e-12)


def test_python_s_sum_adds_kernels():
    X = draw(3, 6, 2)
    parts = [k.Gaussian(0.7), k.Linear(), np.float64(0.5) * k.Laplace(0.4)]
    assert_close(sum(parts)(X), sum(part(X) for part in parts))


@pytest.mark.parametrize("other", [gp.RBF(), np.ones(2), np.ones((2, 2)), math.exp], ids=lambda o: type(o).__name__)
def test_what_is_no_kernel_is_refused_on_either_side(other):
    """Numpy would go through an array entry by entry, and scikit-learn take our kernel for a number."""
    ours = k.Gaussian(0.3)
    for join, part in (lambda a, b: a + b, "sum"), (lambda a, b: a * b, "product"):
        with pytest.raises(TypeError, match=f"(?s)each part of a {part} must be a kernel, .* a scikit-learn kernel"):
            join(ours, other)
        with pytest.raises(TypeError, match=r"a scikit-learn kernel|take a stopwise kernel for a number"):
            as_kernel(join(other, ours))


@pytest.mark.parametrize("degree", [1, 2, 3, 6])
def test_a_polynomial_kernel_on_the_line_has_rank_degree_plus_one(degree):  # E4
    values = np.linalg.eigvalsh(k.Polynomial(degree=degree)(draw(8, 30, 1, -1, 1)))[::-1]
    assert values[degree] > 1e-9 * values[0]
    assert np.all(np.abs(values[degree + 1 :]) < 1e-13 * values[0])


def test_equal_settings_make_equal_kernels_that_hash_alike():
    assert k.Gaussian(length_scale=2.0) == k.Gaussian(2.0)
    assert hash(k.Sobolev(order=1) + k.Linear()) == hash(k.Sobolev(order=1) + k.Linear())
    assert k.Sobolev(order=1) != k.Sobolev(order=2)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sobolev1", k.Sobolev(order=1)),
        ("sobolev2", k.Sobolev(order=2)),
        ("polynomial2", k.Polynomial(degree=2)),
        ("polynomial7", k.Polynomial(degree=7)),
        ("linear", k.Linear()),
    ],
)
def test_a_name_stands_for_its_kernel(name, expected):
    assert as_kernel(name) == expected


@pytest.mark.parametrize(("name", "smoothness"), [("matern12", 0.5), ("matern32", 1.5), ("matern52", 2.5)])
def test_a_named_matern_kernel_has_its_smoothness(name, smoothness):
    kernel = as_kernel(name)
    assert isinstance(kernel, k.Matern)
    assert kernel.smoothness == smoothness


def test_scikit_learn_kernels_are_taken_as_they_are():
    X, Z = draw(9, 6, 2), draw(10, 4, 2)
    foreign = 2.0 * gp.RBF(0.6) + gp.Matern(length_scale=0.8, nu=1.5)
    ours = 2.0 * k.Gaussian(0.6) + k.Matern(0.8, 1.5)
    assert_close(as_kernel(foreign)(X, Z), foreign(X, Z))
    assert_close(as_kernel(foreign)(X, Z), ours(X, Z))
    assert_close(as_kernel(foreign).diagonal(X), ours.diagonal(X))


@pytest.mark.parametrize(
    "noisy",
    [
        gp.RBF(0.5) + gp.WhiteKernel(0.25),
        gp.WhiteKernel(0.25) + gp.RBF(0.5),
        1.0 * gp.WhiteKernel(4.0) + (gp.WhiteKernel(2.0) * gp.RBF(1.0) + gp.RBF(0.5)),
        (gp.RBF(0.5 * math.sqrt(2.0)) + gp.WhiteKernel(3.0)) ** 2,
    ],
)
def test_white_noise_of_a_scikit_learn_kernel_is_noise_and_not_signal(noisy):
    X = draw(11, 5, 1)
    X[3] = X[1]  # two observations of one place share the signal, and no noise
    kernel, signal = as_kernel(noisy), k.Gaussian(0.5)
    assert_close(kernel(X), signal(X))
    assert_close(kernel(X, X.copy()), signal(X))
    assert_close(kernel.diagonal(X), np.ones(5))
    assert kernel.pair(X[0], X[0]) == 1.0
    assert "White" not in kernel.name


@pytest.mark.parametrize("noise", [gp.WhiteKernel(), 2.0 * gp.WhiteKernel(), gp.RBF() * gp.WhiteKernel()])
def test_a_kernel_of_noise_alone_is_refused(noise):
    with pytest.raises(ValueError, match=r"noise alone.*add a kernel of the signal"):
        as_kernel(noise)


def test_a_fit_with_a_white_kernel_is_the_fit_without_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=80)
    plain, noisy = (
        sw.KernelRidgeRegressor(kernel).fit(X, y) for kernel in (gp.RBF(0.3), gp.RBF(0.3) + gp.WhiteKernel(0.09))
    )
    assert_close(noisy.predict(X), plain.predict(X))
    assert noisy.noise_std_ == plain.noise_std_ == pytest.approx(0.3, rel=0.2)


def test_a_callable_is_asked_for_whole_blocks():
    def inverse_multiquadric(X, Z):
        return 1 / np.sqrt(1 + np.sum((X[:, None, :] - Z[None, :, :]) ** 2, axis=2))

    X, Z = draw(12, 5, 2), draw(13, 3, 2)
    kernel = as_kernel(inverse_multiquadric)
    expected = reference.gram(lambda x, z: 1 / math.sqrt(1 + reference.distance(x, z, 1.0) ** 2), X, Z)
    assert_close(kernel(X, Z), expected)
    assert_close(kernel.diagonal(X), np.ones(5))


def test_a_known_period_is_a_season_beside_a_trend():
    rng = np.random.default_rng(0)
    month = np.arange(120.0)
    trend, season = 3 * np.tanh((month - 60) / 30), np.sin(2 * np.pi * month / 12) + np.cos(6 * np.pi * month / 12)
    X, y = month[:, None], trend + season + 0.5 * rng.standard_normal(120)
    both = k.Matern(60.0, 2.5) + k.PeriodicSobolev.of_period(12.0)
    model = sw.KernelRidgeRegressor(both).fit(X, y)
    plain = sw.KernelRidgeRegressor("matern52").fit(X, y)
    risks = [np.mean((m.predict(X) - trend - season) ** 2) for m in (model, plain)]
    assert risks[0] < 0.5 * risks[1]
    assert model.solver_ == "dense"
    with pytest.raises(ValueError, match='solver="krylov"'):
        sw.KernelRidgeRegressor(both, solver="line").fit(X, y)
    with pytest.raises(ValueError, match="period"):
        k.PeriodicSobolev.of_period(0.0)
