"""Landmarks: equal to the dense solver where they are all rows, never late where they are not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stopwise as sw
from stopwise.complexity import local_complexity_of
from stopwise.engine.landmarks.decomposition import concentrated_density, decompose, filled_density
from stopwise.engine.landmarks.features import make_landmarks, moments_of
from stopwise.engine.landmarks.sampling import Leverage, Uniform, draw_rows, leverage_scores
from stopwise.spectrum import spread_density

KERNELS = [
    sw.kernels.Gaussian(0.3),
    sw.kernels.Gaussian(3.0),
    sw.kernels.Laplace(0.5),
    sw.kernels.Matern(0.4, 2.5),
    sw.kernels.Polynomial(3),
    sw.kernels.Gaussian(0.5) + sw.kernels.Linear(),
]
SETTINGS = [(True, False), (True, True), (False, False), (False, True)]


def data(seed, n=160, d=2, noise=0.3):
    rng = np.random.default_rng(seed)
    covariates = rng.uniform(size=(n, d))
    return covariates, 3 + np.sin(5 * covariates[:, 0]) + covariates[:, -1] ** 2 + noise * rng.standard_normal(n)


def nystrom(kernel, m, cls=sw.KernelGradientRegressor, **settings):
    return cls(kernel, solver="nystrom", n_landmarks=m, **settings)


# ---- all rows as landmarks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize(("intercept", "weighted"), SETTINGS)
def test_with_every_row_a_landmark_the_path_is_the_dense_one(kernel, intercept, weighted):
    covariates, y = data(1)
    weights = np.random.default_rng(2).integers(1, 4, len(y)).astype(float) if weighted else None
    new = data(3, 40)[0]
    settings = {"fit_intercept": intercept, "noise_std": 0.3, "rule": sw.rules.Critical(hilbert_radius=2.0)}
    dense = sw.KernelGradientRegressor(kernel, solver="dense", **settings).fit(covariates, y, weights)
    landmarks = nystrom(kernel, len(y), **settings).fit(covariates, y, weights)
    for step_sum in (1.0, 1e2, 1e4, 1e6):
        assert np.abs(dense.path_.fit(step_sum) - landmarks.path_.fit(step_sum)).max() <= 1e-8
    assert landmarks.stop_.iteration == dense.stop_.iteration
    assert landmarks.stop_.details["settled"]
    for ours, theirs in zip(landmarks.predict(new, return_std=True), dense.predict(new, return_std=True), strict=True):
        assert np.abs(ours - theirs).max() <= 1e-8


@pytest.mark.parametrize("rule", ["sure", "gcv", "minimax", "discrepancy", "loo", "critical"])
def test_with_every_row_a_landmark_each_rule_stops_where_the_dense_solver_does(rule):
    covariates, y = data(4)
    dense = sw.KernelRidgeRegressor(sw.kernels.Laplace(0.5), rule=rule, solver="dense").fit(covariates, y)
    landmarks = nystrom(sw.kernels.Laplace(0.5), len(y), sw.KernelRidgeRegressor, rule=rule).fit(covariates, y)
    assert landmarks.step_sum_ == pytest.approx(dense.step_sum_, rel=1e-5)
    assert landmarks.noise_std_ == pytest.approx(dense.noise_std_, rel=1e-6)
    assert landmarks.hilbert_radius_ == pytest.approx(dense.hilbert_radius_, rel=1e-5)


def test_several_responses_get_a_stop_each():
    covariates, y = data(5)
    both = np.column_stack([y, 100 * np.cos(7 * covariates[:, 0])])
    fitted = nystrom(sw.kernels.Matern(0.4, 1.5), 50).fit(covariates, both)
    for column in range(2):
        alone = nystrom(sw.kernels.Matern(0.4, 1.5), 50).fit(covariates, both[:, column])
        assert fitted.stop_[column].iteration == alone.stop_.iteration
        np.testing.assert_allclose(fitted.predict(covariates)[:, column], alone.predict(covariates), rtol=1e-9)


def test_fitted_values_at_training_rows_are_predictions():
    covariates, y = data(6)
    fitted = nystrom(sw.kernels.Gaussian(0.3), 40).fit(covariates, y)
    np.testing.assert_allclose(fitted.path_.fit(), fitted.predict(covariates), atol=1e-9)


def test_weights_are_frequencies():
    covariates, y = data(7, 80)
    weights = np.random.default_rng(8).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    kernel, points = sw.kernels.Matern(0.4, 1.5), covariates[:20]
    weighted = nystrom(kernel, points).fit(covariates, y, weights)
    repeated = nystrom(kernel, points).fit(covariates[rows], y[rows])
    assert weighted.stop_.iteration == repeated.stop_.iteration
    np.testing.assert_allclose(weighted.predict(covariates), repeated.predict(covariates), atol=1e-9)
    np.testing.assert_allclose(weighted.stop_.evidence.lowest, repeated.stop_.evidence.lowest, rtol=1e-9)


# ---- fewer landmarks: bounds and brackets ---------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32 - 1),
    kernel=st.sampled_from([sw.kernels.Gaussian, sw.kernels.Laplace, sw.kernels.Matern]),
    scale=st.floats(0.05, 1.0),
    radius=st.floats(0.1, 100.0),
    noise=st.floats(0.01, 3.0),
    intercept=st.booleans(),
)
def test_for_nested_landmarks_the_stop_rises_to_the_exact_one_and_never_passes_it(
    seed, kernel, scale, radius, noise, intercept
):
    covariates, y = data(seed, 60)
    rule = sw.rules.Critical(hilbert_radius=radius)
    settings = {"rule": rule, "noise_std": noise, "fit_intercept": intercept}
    exact = sw.KernelRidgeRegressor(kernel(scale), solver="dense", **settings).fit(covariates, y).step_sum_
    before = 0.0
    for m in (1, 3, 10, 30, 59, 60):
        fitted = nystrom(kernel(scale), m, sw.KernelRidgeRegressor, **settings).fit(covariates, y)
        low, high = fitted.stop_.details["bracket"]
        assert before * (1 - 1e-9) <= fitted.step_sum_ <= exact * (1 + 1e-9)
        assert low * (1 - 1e-9) <= exact <= high * (1 + 1e-9)
        before = fitted.step_sum_
    assert before == pytest.approx(exact, rel=1e-8)


@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.booleans())
def test_the_two_extreme_spectra_enclose_the_complexity(seed, m, intercept):
    covariates, y = data(seed, 40)
    kernel = sw.kernels.Laplace(0.3)
    gram = kernel(covariates) / len(y)
    if intercept:
        centre = np.eye(len(y)) - 1 / len(y)
        gram = centre @ gram @ centre
    exact = np.linalg.eigvalsh(gram)
    parts = decompose(moments_of(make_landmarks(kernel, covariates[:m]), covariates, y[:, None]), centred=intercept)
    for radius in np.geomspace(1e-4, 2.0, 40):
        truth = np.sqrt(np.minimum(np.maximum(exact, 0), radius**2).sum() / len(y))
        assert local_complexity_of(parts.least, radius) <= truth * (1 + 1e-9)
        assert local_complexity_of(parts.most, radius) >= truth * (1 - 1e-9)
    assert parts.spectrum.trace >= exact.sum() * (1 - 1e-12)


def test_the_filled_spectrum_is_the_spread_one_while_the_level_lies_below_what_is_seen():
    values = np.array([0.5, 0.25])
    filled, spread = filled_density(values, 1.0, 102), spread_density(values, 1.0, 102)
    np.testing.assert_allclose(filled.values, spread.values)
    np.testing.assert_allclose(filled.multiplicities, spread.multiplicities)


def test_the_filled_spectrum_raises_small_values_to_a_common_level():
    filled = filled_density(np.array([0.5, 0.001]), 1.0, 6)
    np.testing.assert_allclose(filled.values, [0.5, 0.1])
    np.testing.assert_allclose(filled.multiplicities, [1, 5])
    assert filled.trace == pytest.approx(1.0)
    assert concentrated_density(np.array([0.5, 0.1]), 1.0, 6).values[0] == pytest.approx(0.9)


@pytest.mark.deep
def test_at_20000_rows_the_bracket_of_1000_landmarks_holds_the_exact_stop():
    covariates, y = data(9, 20_000)
    settings = {"rule": sw.rules.Critical(hilbert_radius=2.0), "noise_std": 0.3, "schedule": 1.0, "tol": 0.0}
    kernel = sw.kernels.Matern(0.3, 1.5)
    exact = sw.KernelGradientRegressor(kernel, solver="krylov", **settings).fit(covariates, y)
    fitted = nystrom(kernel, 1000, **settings).fit(covariates, y)
    low, high = fitted.stop_.details["bracket"]
    assert low <= exact.step_sum_ <= high


# ---- choosing landmarks ---------------------------------------------------------------------------------------------


def test_fewer_landmarks_are_the_first_of_more():
    for n_rows in (50, 3_000_000):
        np.testing.assert_array_equal(draw_rows(n_rows, 50, 1)[:20], draw_rows(n_rows, 20, 1))
    assert np.unique(draw_rows(3_000_000, 5000, 2)).size == 5000


def test_leverage_scores_find_the_rows_that_stand_alone():
    rng = np.random.default_rng(10)
    crowd, alone = rng.normal(0, 0.05, size=(400, 2)), rng.uniform(2, 9, size=(8, 2))
    rows = np.concatenate([crowd, alone])
    scores = leverage_scores(sw.kernels.Gaussian(0.5), rows, crowd[:30], 5.0)
    assert scores[-8:].min() > scores[:400].max()


def test_leverage_landmarks_capture_more_of_the_trace_where_rows_are_crowded():
    rng = np.random.default_rng(11)
    covariates = np.concatenate([rng.normal(0, 0.02, size=(900, 2)), rng.uniform(-3, 3, size=(100, 2))])
    y = np.sin(covariates[:, 0])
    captured = [
        nystrom(sw.kernels.Gaussian(0.5), choice).fit(covariates, y).stop_.details["captured"]
        for choice in (Uniform(60), Leverage(60))
    ]
    assert captured[1] > captured[0]


def test_auto_grows_until_the_bracket_is_settled_and_says_so():
    covariates, y = data(12, 600)
    fitted = nystrom(sw.kernels.Gaussian(1.0), "auto", rule=sw.rules.Critical(), noise_std=0.3).fit(covariates, y)
    assert fitted.stop_.details["grown_until"] == "settled"
    assert fitted.stop_.details["landmarks"] < 600
    assert fitted.stop_.details["captured"] > 0.99


def test_auto_says_when_memory_ended_its_growth(monkeypatch):
    monkeypatch.setattr("stopwise.engine.solvers.landmark_solver.BUDGET_BYTES", 8 * 6 * 100**2)
    covariates, y = data(13, 300)
    fitted = nystrom(sw.kernels.Laplace(0.05), "auto").fit(covariates, y)
    assert fitted.stop_.details["grown_until"] == "memory budget"
    assert fitted.stop_.details["landmarks"] == 100
    assert "as many as the memory budget allows" in sw.explain(fitted)
    bracketed = nystrom(sw.kernels.Laplace(0.05), "auto", rule=sw.rules.Critical()).fit(covariates, y)
    assert bracketed.stop_.reason is sw.Reason.BUDGET


def test_auto_says_when_time_ended_its_growth(monkeypatch):
    covariates, y = data(13, 300)
    monkeypatch.setattr("stopwise.engine.solvers.landmark_solver.BUDGET_OPERATIONS", 3 * 300 * 170**2 + 1)
    fitted = nystrom(sw.kernels.Laplace(0.05), "auto").fit(covariates, y)
    assert fitted.stop_.details["grown_until"] == "time budget"
    assert fitted.stop_.details["landmarks"] == 170


def test_auto_takes_no_more_landmarks_than_left_out_rows_ask_for(monkeypatch):
    monkeypatch.setattr("stopwise.engine.solvers.landmark_solver.FIRST_SIZE", 5)
    covariates, y = data(12, 900)
    counts = [nystrom(sw.kernels.Gaussian(scale), "auto").fit(covariates, y).stop_.certainty for scale in (1.0, 0.02)]
    assert counts[0].grown_until == "settled"
    assert counts[0].landmarks < 100
    assert counts[1].landmarks == 900


# ---- what landmarks cannot do ---------------------------------------------------------------------------------------


def test_rules_and_noise_that_need_rows_say_so():
    covariates, y = data(14, 50)
    with pytest.raises(ValueError, match="HoldOut needs rows"):
        nystrom(sw.kernels.Gaussian(0.3), 10, rule="holdout").fit(covariates, y)
    with pytest.raises(ValueError, match="NearestNeighbour needs single rows"):
        nystrom(sw.kernels.Gaussian(0.3), 10, noise_std=sw.noise.NearestNeighbour()).fit(covariates, y)
    with pytest.raises(ValueError, match="precomputed matrix cannot"):
        nystrom("precomputed", 10).fit(sw.kernels.Gaussian(0.3)(covariates), y)


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((0, 2)), np.array([[np.nan, 0.0]])])
def test_landmarks_given_as_points_must_be_a_finite_matrix(bad):
    covariates, y = data(15, 30)
    with pytest.raises(ValueError, match="landmarks"):
        nystrom(sw.kernels.Gaussian(0.3), bad).fit(covariates, y)


def test_leverages_of_many_rows_are_made_in_tiles_and_never_held_whole(monkeypatch):
    covariates, y = data(15, 300)
    fitted = nystrom(sw.kernels.Gaussian(1.0), 40).fit(covariates, y)
    held = fitted.path_.leave_one_out()
    monkeypatch.setattr("stopwise.spectrum.KEPT_ENTRIES", 0)
    again = nystrom(sw.kernels.Gaussian(1.0), 40).fit(covariates, y)
    assert np.allclose(again.path_.leave_one_out(), held, rtol=1e-12)
    assert "vectors" not in vars(again.path_.spectrum.basis)


def test_leave_one_out_takes_a_second_pass_and_agrees_with_the_path():
    covariates, y = data(16)
    fitted = nystrom(sw.kernels.Laplace(0.5), 60, sw.KernelRidgeRegressor, rule="loo").fit(covariates, y)
    here = fitted.path_.leave_one_out_error(np.array([0.97, 1.0, 1.03]) * fitted.step_sum_)
    assert here[1] <= here.min()
    assert fitted.stop_.details["criterion"] == pytest.approx(here[1], rel=1e-9)


def test_float32_stays_within_its_rounding():
    covariates, y = data(17)
    kernel, rule = sw.kernels.Matern(0.4, 1.5), sw.rules.Fixed(iteration=200)
    exact = nystrom(kernel, 40, rule=rule).fit(covariates, y).predict(covariates)
    coarse = nystrom(kernel, 40, rule=rule, precision="float32").fit(covariates, y).predict(covariates)
    assert np.abs(exact - coarse).max() < 1e-3


@pytest.mark.parametrize("given", [10**7, sw.landmarks.Leverage(10**7)])
def test_landmarks_whose_matrices_do_not_fit_are_refused_in_words(given, monkeypatch):
    monkeypatch.setattr("stopwise.engine.solvers.landmark_solver.free_bytes", lambda: 10**6)
    x = np.linspace(0, 1, 400)[:, None]
    with pytest.raises(MemoryError, match=r"^400 landmarks need about .* for their matrices .* take fewer of them"):
        nystrom(sw.kernels.Gaussian(0.3), given).fit(x, x[:, 0])
