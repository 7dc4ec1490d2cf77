"""Rows in batches and fits from several places: the same result as one fit."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stopwise as sw
from stopwise.estimators.prediction.response_groups import response_names
from stopwise.exceptions import StopwiseWarning

N = 150


def data(seed=1, n=N, level=3.0):
    rng = np.random.default_rng(seed)
    covariates = rng.uniform(size=(n, 2))
    return covariates, level + np.sin(5 * covariates[:, 0]) + covariates[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


def estimator(cls=sw.KernelGradientRegressor, **settings):
    return cls(sw.kernels.Matern(0.4, 1.5), solver="nystrom", n_landmarks=data(2, 30)[0], **settings)


def batches(seed, n=N):
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(1, n), int(rng.integers(0, 8)), replace=False))
    return np.split(rng.permutation(n), cuts)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.booleans())
def test_any_split_in_any_order_gives_the_single_fit(seed, intercept, weighted, several):
    covariates, y = data(3)
    y = np.column_stack([y, 40 * covariates[:, 1]]) if several else y
    weights = np.random.default_rng(4).uniform(0.5, 3, N) if weighted else np.ones(N)
    whole = estimator(fit_intercept=intercept).fit(covariates, y, weights)
    streamed = estimator(fit_intercept=intercept)
    for rows in batches(seed):
        streamed.partial_fit(covariates[rows], y[rows], weights[rows])
    assert np.array_equal(streamed.step_sum_, whole.step_sum_)
    assert np.abs(streamed.predict(covariates) - whole.predict(covariates)).max() <= 1e-8
    assert streamed.trace_ == pytest.approx(whole.trace_, rel=1e-12)


@pytest.mark.parametrize("factor", [1.0, 1000.0])
def test_weights_have_one_unit_in_a_fit_and_in_what_is_added_to_it(factor):
    covariates, y = data(3)
    weights = factor * np.linspace(0.1, 8.0, N)
    first, second = np.arange(N) < 60, np.arange(N) >= 60
    whole = estimator().fit(covariates, y, weights)
    given = covariates[first], y[first], weights[first]
    more = covariates[second], y[second], weights[second]
    merged = estimator().fit(*given).merge(estimator().fit(*more))
    again = estimator().fit(covariates[first], -y[first], weights[first]).refit(y[first]).partial_fit(*more)
    for model in (estimator().fit(*given).partial_fit(*more), merged, again):
        np.testing.assert_allclose(model.predict(covariates), whole.predict(covariates), rtol=1e-7)
        assert model.noise_std_ == pytest.approx(whole.noise_std_, rel=1e-6)


def test_copies_in_a_batch_do_not_choose_a_kernel_that_interpolates():
    covariates, y = data(8, 300)
    plain = sw.KernelRidgeRegressor(solver="nystrom").partial_fit(covariates, y)
    copied = sw.KernelRidgeRegressor(solver="nystrom").partial_fit(covariates, y).partial_fit(covariates[:9], y[:9])
    assert copied.noise_std_ == pytest.approx(plain.noise_std_, rel=0.1)
    np.testing.assert_allclose(copied.predict(covariates), plain.predict(covariates), atol=0.15)


@given(st.integers(0, 2**32 - 1), st.sampled_from([sw.KernelGradientRegressor, sw.KernelRidgeRegressor]))
def test_parts_fitted_apart_merge_to_the_single_fit(seed, cls):
    covariates, y = data(5)
    whole = estimator(cls).fit(covariates, y)
    parts = [estimator(cls).partial_fit(covariates[rows], y[rows]) for rows in batches(seed)]
    merged = parts[0]
    for part in parts[1:]:
        merged.merge(part)
    # Where an error is flat its smallest value is known to half the digits: the clock may differ there, sums may not.
    assert np.abs(merged.predict(covariates) - whole.predict(covariates)).max() <= 1e-7
    given = sw.rules.Fixed(step_sum=whole.step_sum_)
    apart = [estimator(cls, rule=given).partial_fit(covariates[rows], y[rows]) for rows in batches(seed)]
    for part in apart[1:]:
        apart[0].merge(part)
    exact = estimator(cls, rule=given).fit(covariates, y)
    assert np.abs(apart[0].predict(covariates) - exact.predict(covariates)).max() <= 1e-8
    at_once = estimator(cls).partial_fit(covariates, y)  # what keeps no rows knows the estimate's noise alone
    ours, theirs = (model.predict(covariates, return_std=True)[1] for model in (merged, at_once))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_level_far_from_zero_costs_no_digits_of_the_shape():
    covariates, y = data(6)
    near, far = estimator(), estimator()
    for rows in batches(7):
        near.partial_fit(covariates[rows], y[rows])
        far.partial_fit(covariates[rows], y[rows] + 1e6)
    np.testing.assert_allclose(far.predict(covariates) - 1e6, near.predict(covariates), atol=1e-6)


def test_partial_fit_continues_a_fit_on_landmarks():
    covariates, y = data(8)
    whole = estimator().fit(covariates, y)
    continued = estimator().fit(covariates[:60], y[:60]).partial_fit(covariates[60:], y[60:])
    assert np.abs(continued.predict(covariates) - whole.predict(covariates)).max() <= 1e-8


def test_batches_settle_nothing_before_enough_rows_are_seen():
    covariates, y = data(9, 400)
    streamed = sw.KernelGradientRegressor("gaussian")
    for rows in (slice(0, 1), slice(1, 100), slice(100, 400)):
        streamed.partial_fit(covariates[rows], y[rows])
    whole = sw.KernelGradientRegressor("gaussian").partial_fit(covariates, y)
    assert streamed.kernel_ == whole.kernel_
    np.testing.assert_allclose(streamed.predict(covariates), whole.predict(covariates), rtol=1e-8)


def test_a_saved_model_goes_on_streaming(tmp_path):
    covariates, y = data(10)
    whole = estimator().partial_fit(covariates[:70], y[:70])
    sw.save(whole, tmp_path / "half.stopwise")
    loaded = sw.load(tmp_path / "half.stopwise")
    for model in (whole, loaded):
        model.partial_fit(covariates[70:], y[70:])
    np.testing.assert_array_equal(loaded.predict(covariates), whole.predict(covariates))


@pytest.mark.parametrize("solver", ["dense", "nystrom"])
@pytest.mark.parametrize("weighted", [False, True])
def test_refit_gives_what_a_new_fit_on_the_same_rows_gives(solver, weighted):
    covariates, y = data(11)
    weights = np.random.default_rng(12).integers(0, 3, N).astype(float) if weighted else None
    other = np.cos(3 * y)
    fresh = estimator().set_params(solver=solver).fit(covariates, other, weights)
    again = estimator().set_params(solver=solver).fit(covariates, y, weights).refit(other)
    assert again.stop_.iteration == fresh.stop_.iteration
    np.testing.assert_allclose(again.predict(covariates), fresh.predict(covariates), atol=1e-9)
    np.testing.assert_allclose(again.noise_std_, fresh.noise_std_, rtol=1e-6)


def test_what_cannot_be_merged_says_what_is_different():
    covariates, y = data(13)
    model = estimator().partial_fit(covariates, y)
    elsewhere = sw.KernelGradientRegressor(sw.kernels.Matern(0.5, 1.5), n_landmarks=data(2, 30)[0])
    with pytest.raises(ValueError, match="same kernel and landmarks"):
        model.merge(elsewhere.partial_fit(covariates, y))
    with pytest.raises(ValueError, match="same fit_intercept"):
        model.merge(estimator(fit_intercept=False).partial_fit(covariates, y))
    with pytest.raises(ValueError, match="no sums to merge"):
        model.merge(sw.KernelGradientRegressor("gaussian", solver="dense").fit(covariates, y))
    with pytest.raises(ValueError, match="as many columns as before"):
        model.partial_fit(covariates, np.column_stack([y, y]))
    with pytest.raises(ValueError, match='solver="nystrom" makes'):
        estimator().set_params(solver="dense").partial_fit(covariates, y)
    with pytest.raises(ValueError, match="rows given in batches are not kept"):
        estimator(rule="loo").partial_fit(covariates, y)
    with pytest.raises(ValueError, match="refit needs the rows"):
        model.refit(y)


def test_responses_keep_their_names_in_a_merge():
    covariates, y = data(14)
    both = pd.DataFrame({"height": y, "width": -y})
    parts = [estimator().partial_fit(covariates[rows], both.iloc[rows]) for rows in np.array_split(np.arange(N), 2)]
    nameless = estimator().partial_fit(covariates, both.to_numpy())
    assert response_names(parts[0].merge(parts[1])) == ("height", "width")
    assert response_names(parts[0].merge(nameless)) == ("height", "width")
    assert response_names(nameless.merge(parts[0])) == ("height", "width")
    swapped, message = both[["width", "height"]], r"same order, \['height', 'width'\]; got \['width', 'height'\]"
    with pytest.raises(ValueError, match=message):
        parts[0].merge(estimator().partial_fit(covariates, swapped))
    with pytest.raises(ValueError, match=message):
        parts[0].partial_fit(covariates, swapped)
    assert response_names(parts[0].partial_fit(covariates, both.to_numpy())) == ("height", "width")


@pytest.mark.parametrize("merged", [False, True])
def test_batches_in_the_order_of_time_say_that_landmarks_are_elsewhere(merged):
    rng = np.random.default_rng(0)
    when, other = np.linspace(0, 10, 3000), rng.uniform(size=3000)
    X, y = pd.DataFrame({"other": other, "hours": when}), np.sin(3 * when) + 0.2 * rng.normal(size=3000)
    first, later = slice(0, 1000), slice(1000, 3000)
    points = X.to_numpy()[:1000:5]
    model, second = (sw.KernelGradientRegressor(sw.kernels.Gaussian(0.5), n_landmarks=points) for _ in range(2))
    model.partial_fit(X[first], y[first])
    with pytest.warns(StopwiseWarning, match="most rows so far lie outside the range of the landmarks in .*'hours'"):
        second.partial_fit(X[later], y[later])
    with pytest.warns(StopwiseWarning, match="'hours'"):
        model.merge(second) if merged else model.partial_fit(X[later], y[later])


@pytest.mark.parametrize("kernel", [sw.kernels.Matern(0.05), sw.kernels.PeriodicSobolev.of_period(1.0)])
def test_batches_from_everywhere_or_of_a_season_say_nothing(kernel):
    rng = np.random.default_rng(0)
    x = rng.permutation(1200) / 120 if kernel.name.startswith("matern") else np.arange(1200) / 120
    y = np.sin(2 * np.pi * x) + 0.2 * rng.normal(size=1200)
    model = sw.KernelGradientRegressor(kernel, n_landmarks=x[:200, None])
    for rows in np.split(np.arange(1200), 6):
        model.partial_fit(x[rows, None], y[rows])
    assert model.stop_.step_sum > 0
