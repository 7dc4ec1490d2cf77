"""Noise levels against plain loops, ties included, and against noise whose size is known."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import stopwise as sw
from stopwise.engine.operators import Dense
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.noise import sample_of
from stopwise.noise.marginal_likelihood import evidence, evidence_slope
from stopwise.path import make_path

ON_ROWS = {
    "hall-marron": sw.noise.HallMarron(),
    "rice": sw.noise.Rice(),
    "gsjs": sw.noise.GasserSrokaJennen(),
    "nearest neighbour": sw.noise.NearestNeighbour(),
}
seeds = st.integers(0, 2**32 - 1)


def sample(seed, n, n_features=1, tied=False):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 2, size=(n, n_features))
    if tied:
        X = X[rng.integers(0, max(4, n // 2), size=n)]
        X[:4] = np.linspace(-1, 1, 4)[:, None]
    return X, np.sin(3 * X[:, 0]) + 0.5 * rng.normal(size=n)


def path_of(K, y):
    n = len(y)
    return make_path(dense_spectrum(Dense(n * K)), sw.filters.Ridge(), y)


@given(seed=seeds, n=st.integers(4, 30), tied=st.booleans())
def test_rice_compares_neighbours_on_the_line(seed, n, tied):
    X, y = sample(seed, n, tied=tied)
    assert sw.noise.Rice().estimate(X, y) == pytest.approx(reference.rice(X[:, 0], y), rel=1e-9)


@given(seed=seeds, n=st.integers(4, 30), tied=st.booleans())
def test_gasser_sroka_jennen_compares_with_the_line_through_both_neighbours(seed, n, tied):
    X, y = sample(seed, n, tied=tied)
    expected = reference.gasser_sroka_jennen(X[:, 0], y)
    assert sw.noise.GasserSrokaJennen().estimate(X, y) == pytest.approx(expected, rel=1e-9)


@given(seed=seeds, n=st.integers(6, 30), n_features=st.integers(1, 3), bandwidth=st.floats(0.3, 3))
def test_hall_marron_divides_by_the_trace_of_its_smoother(seed, n, n_features, bandwidth):
    X, y = sample(seed, n, n_features)
    given_width = sw.noise.HallMarron(bandwidth=bandwidth).estimate(X, y)
    assert given_width == pytest.approx(reference.hall_marron(X, y, bandwidth), rel=1e-8)
    expected = reference.hall_marron(X, y, reference.rule_of_thumb_bandwidth(X))
    assert sw.noise.HallMarron().estimate(X, y) == pytest.approx(expected, rel=1e-8)


@given(seed=seeds, n=st.integers(13, 30), n_features=st.integers(1, 3), detrend=st.booleans())
def test_nearest_neighbours_are_compared_after_a_linear_trend(seed, n, n_features, detrend):
    X, y = sample(seed, n, n_features)
    estimate = sw.noise.NearestNeighbour(detrend=detrend).estimate(X, y)
    assert estimate == pytest.approx(reference.nearest_neighbour(X, y, detrend), rel=1e-9)


@given(seed=seeds, n=st.integers(4, 20))
def test_the_spectral_tail_is_the_mean_square_beyond_the_leading_vectors(seed, n):
    X, y = sample(seed, n)
    K = reference.gram(reference.laplace(0.5), X) / n
    path = path_of(K, y)
    for leading in (0, 1, n // 2, n - 1):
        expected = reference.spectral_tail(K, y, leading)
        estimate = sw.noise.SpectralTail(leading=leading).estimate(X, y, path=path)
        assert estimate**2 == pytest.approx(expected**2, rel=1e-9, abs=1e-13 * np.sum(y**2))
    assert sw.noise.SpectralTail().estimate(X, y, path=path) == pytest.approx(
        reference.spectral_tail(K, y, n // 2), rel=1e-9
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_evidence_maximises_the_marginal_likelihood_times_the_share_of_noise(seed):
    X, y = sample(seed, 25)
    K = reference.gram(reference.gaussian(0.6), X) / 25
    expected = reference.evidence(K, y, np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 4000)]))
    assert sw.noise.Evidence().estimate(X, y, path=path_of(K, y)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("columns", [2, 4])
def test_noise_alone_is_not_told_as_a_curve_through_all_rows(columns):
    """Rows that are far apart cannot tell: the likelihood alone took it for .01 to .02 in six of ten tables."""
    levels = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(120, columns)), rng.normal(size=120)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            levels.append(sw.KernelGradientRegressor().fit(X, y).noise_std_)
    assert min(levels) > 0.4
    assert 0.8 < np.median(levels) < 1.1


@pytest.mark.parametrize("seed", range(5))
def test_the_gcv_residual_divides_by_what_the_fit_left_free(seed):
    X, y = sample(seed, 25)
    K = reference.gram(reference.gaussian(0.6), X) / 25
    expected = reference.residual_of_gcv(K, y, np.geomspace(1e-2, 1e6, 500))
    assert sw.noise.ResidualGCV().estimate(X, y, path=path_of(K, y)) == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [sw.noise.Rice(), sw.noise.GasserSrokaJennen(), sw.noise.HallMarron(), sw.noise.NearestNeighbour(detrend=False)],
    ids=repr,
)
def test_the_variance_estimate_is_unbiased_where_the_truth_is_constant(estimator, tied):
    """Each estimate is a quadratic form of y: its mean over noise is its mean over sqrt(n) times the unit vectors."""
    n = 17
    X, _ = sample(5, n, tied=tied)
    signs = [(3.0 + sign * math.sqrt(n) * unit) for sign in (1, -1) for unit in np.eye(n)]
    estimates = [estimator.estimate_from(sample_of(X, y)) ** 2 for y in signs]
    assert np.mean(estimates) == pytest.approx(1.0, rel=1e-10)


@pytest.mark.parametrize("name", ON_ROWS)
def test_fully_tied_covariates_leave_the_spread_about_the_mean(name):
    y = np.array([1.0, 3.0, 2.0, 6.0])
    X = np.full((4, 1), 7.0)
    assert ON_ROWS[name].estimate(X, y) == pytest.approx(np.std(y, ddof=1), rel=1e-12)


@pytest.mark.parametrize("name", ON_ROWS)
@pytest.mark.parametrize("factor", [1e-300, 1e-5, 1e5, 1e300])
def test_an_estimate_is_in_the_units_of_the_response(name, factor):
    X, y = sample(11, 40)
    assert ON_ROWS[name].estimate(X, factor * y) == pytest.approx(factor * ON_ROWS[name].estimate(X, y), rel=1e-10)


@pytest.mark.parametrize("name", ON_ROWS)
def test_neither_the_order_of_the_rows_nor_a_shift_matters(name):
    X, y = sample(12, 40, tied=True)
    order = np.random.default_rng(1).permutation(40)
    estimate = ON_ROWS[name].estimate(X, y)
    assert ON_ROWS[name].estimate(X[order], y[order]) == pytest.approx(estimate, rel=1e-9)
    assert ON_ROWS[name].estimate(X + 100, y - 50) == pytest.approx(estimate, rel=1e-6)


@pytest.mark.parametrize("name", ["rice", "gsjs", "nearest neighbour", "evidence", "gcv", "spectral tail"])
def test_noise_of_known_size_is_recovered(name):
    rng = np.random.default_rng(3)
    X = np.sort(rng.uniform(size=400))[:, None]
    y = np.sin(6 * X[:, 0]) + 0.5 * rng.normal(size=400)
    if name in ON_ROWS:
        estimate = ON_ROWS[name].estimate(X, y)
    else:
        kernel = sw.kernels.Gaussian(length_scale=0.2)
        on_path = {
            "evidence": sw.noise.Evidence(),
            "gcv": sw.noise.ResidualGCV(),
            "spectral tail": sw.noise.SpectralTail(),
        }
        estimate = on_path[name].estimate(X, y, path=path_of(kernel(X) / 400, y))
    assert estimate == pytest.approx(0.5, rel=0.1)


def test_a_known_level_is_taken_at_its_word():
    assert sw.noise.Known(2.5).estimate(np.zeros((3, 1)), np.arange(3.0)) == 2.5


@pytest.mark.parametrize("estimator", [sw.noise.Rice(), sw.noise.GasserSrokaJennen()], ids=repr)
def test_estimators_on_a_line_say_what_to_use_on_several_covariates(estimator):
    with pytest.raises(ValueError, match=r"1 covariate, got 2.*NearestNeighbour"):
        estimator.estimate(np.zeros((5, 2)), np.arange(5.0))


@pytest.mark.parametrize("estimator", [sw.noise.SpectralTail(), sw.noise.ResidualGCV(), sw.noise.Evidence()], ids=repr)
def test_estimators_on_a_spectrum_ask_for_the_path(estimator):
    with pytest.raises(ValueError, match=r"spectrum.*path="):
        estimator.estimate(np.zeros((5, 1)), np.arange(5.0))


@pytest.mark.parametrize("seed", range(3))
def test_the_slope_of_the_evidence_is_that_of_its_values(seed):
    X, y = sample(seed, 25)
    path = path_of(reference.gram(reference.gaussian(0.6), X) / 25, y)
    for ratio in (0.3, 20.0, 1e4):
        steps = np.exp(np.array([-1e-4, 1e-4])) * ratio
        by_values = np.diff(evidence(path, steps)).item() / 2e-4
        assert evidence_slope(path, ratio) == pytest.approx(by_values, rel=1e-6, abs=1e-7)
