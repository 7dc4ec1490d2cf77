"""Bad input gets a right answer, or an error that says the bound, the value and the remedy; never NaN."""

import math
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import reference
import stopwise as sw

ESTIMATORS = [sw.KernelGradientRegressor, sw.KernelRidgeRegressor]
RULES = ["critical", "minimax", "sure", "gcv", "loo", "discrepancy", "holdout", "auto"]
NOISES = ["hall-marron", "rice", "gsjs", "nearest-neighbour", "spectral-tail", "gcv", "evidence"]
LAPLACE = sw.kernels.Laplace(length_scale=0.5)
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)


def sample(n=20, n_features=1):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, n_features))
    return X, np.sin(5 * X[:, 0]) + 0.2 * rng.normal(size=n)


def spoiled(array, value):
    out = np.array(array, dtype=float)
    out.flat[3] = value
    return out


# --- values -----------------------------------------------------------------------------------------------


@each_estimator
@pytest.mark.parametrize(("value", "words"), [(math.nan, "NaN"), (math.inf, "infinity"), (-math.inf, "infinity")])
def test_missing_and_infinite_values_are_named(estimator, value, words):
    X, y = sample()
    with pytest.raises(ValueError, match=f"X contains {words}"):
        estimator().fit(spoiled(X, value), y)
    with pytest.raises(ValueError, match=f"y contains {words}"):
        estimator().fit(X, spoiled(y, value))
    with pytest.raises(ValueError, match=f"X contains {words}"):
        estimator().fit(X, y).predict(spoiled(X, value))


@each_estimator
@pytest.mark.parametrize("written", [np.asarray, np.ndarray.tolist, pd.DataFrame])
def test_an_infinite_value_is_named_by_its_place_with_a_remedy(estimator, written):
    X, y = sample(n_features=2)
    wrong = written(spoiled(X, -math.inf))
    with pytest.raises(ValueError, match="infinity") as in_fit:
        estimator().fit(wrong, y)
    with pytest.raises(ValueError, match=r"infinity \(inf in row 3, counted from 0\): .*finite.*Leave that row out"):
        estimator().fit(X, spoiled(y, math.inf))
    if written is pd.DataFrame:
        assert "the column '1' holds infinity in 1 rows (row 2 first): a value must be finite" in str(in_fit.value)
        return
    assert "infinity (-inf in row 1, column 1, counted from 0): an entry must be finite. Leave" in str(in_fit.value)
    with pytest.raises(ValueError, match=re.escape(str(in_fit.value))):
        estimator().fit(X, y).predict(wrong)


@each_estimator
@pytest.mark.parametrize(("n", "words"), [(0, r"0 sample.*minimum of 2"), (1, r"1 sample.*minimum of 2")])
def test_fewer_than_two_rows_are_too_few(estimator, n, words):
    X, y = sample()
    with pytest.raises(ValueError, match=words):
        estimator().fit(X[:n], y[:n])


@each_estimator
@pytest.mark.parametrize("rule", RULES)
def test_two_rows_are_enough(estimator, rule):
    X, y = sample()
    prediction = estimator(LAPLACE, rule=rule, noise_std=0.2).fit(X[:2], y[:2]).predict(X)
    assert np.all(np.isfinite(prediction))
    assert np.all(np.abs(prediction - y[:2].mean()) <= np.abs(y[0] - y[1]))


@each_estimator
def test_no_columns_are_too_few(estimator):
    with pytest.raises(ValueError, match=r"0 feature.*minimum of 1"):
        estimator().fit(np.empty((20, 0)), np.zeros(20))


@each_estimator
def test_lengths_that_differ_are_both_named(estimator):
    X, y = sample()
    with pytest.raises(ValueError, match=r"inconsistent.*\[20, 19\]"):
        estimator().fit(X, y[:19])


@each_estimator
def test_a_flat_array_of_covariates_is_told_how_to_become_a_column(estimator):
    X, y = sample()
    with pytest.raises(ValueError, match=r"Expected 2D array(.|\n)*reshape\(-1, 1\)"):
        estimator().fit(X[:, 0], y)


# --- constants and ties -----------------------------------------------------------------------------------


@each_estimator
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("value", [0.0, 3.7, -1e12])
def test_a_constant_response_is_predicted_as_that_constant(estimator, rule, value):
    X, _ = sample()
    model = estimator(rule=rule).fit(X, np.full(20, value))
    np.testing.assert_allclose(model.predict(X + 0.1), value, rtol=1e-12)
    assert model.noise_std_ == 0


@each_estimator
@pytest.mark.parametrize("noise_std", NOISES)
def test_a_constant_response_has_no_noise(estimator, noise_std):
    X, _ = sample()
    model = estimator(noise_std=noise_std).fit(X, np.full(20, 3.7))
    assert model.noise_std_ == 0
    np.testing.assert_allclose(model.predict(X), 3.7, rtol=1e-12)


@each_estimator
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", ["auto", LAPLACE, sw.kernels.Linear(), "sobolev1"], ids=str)
def test_a_constant_covariate_leaves_the_mean(estimator, rule, kernel):
    _, y = sample()
    model = estimator(kernel, rule=rule).fit(np.full((20, 1), 0.63), y)
    np.testing.assert_allclose(model.predict(np.full((3, 1), 0.63)), y.mean(), rtol=1e-9)


@each_estimator
@pytest.mark.parametrize("noise_std", NOISES)
def test_a_constant_covariate_leaves_the_spread_as_noise(estimator, noise_std):
    _, y = sample()
    model = estimator(LAPLACE, noise_std=noise_std).fit(np.full((20, 1), 0.63), y)
    assert model.noise_std_ == pytest.approx(np.std(y, ddof=1), rel=1e-9)


@each_estimator
@pytest.mark.parametrize("noise_std", NOISES)
@pytest.mark.parametrize("rule", RULES)
def test_duplicated_rows_get_one_finite_prediction(estimator, rule, noise_std):
    X, y = sample()
    tied = np.repeat(X[:10], 2, axis=0)
    prediction = estimator(LAPLACE, rule=rule, noise_std=noise_std).fit(tied, y).predict(tied)
    assert np.all(np.isfinite(prediction))
    np.testing.assert_allclose(prediction[::2], prediction[1::2], rtol=1e-12)
    assert np.all(np.abs(prediction) < 3)


@each_estimator
@pytest.mark.parametrize("rule", RULES)
def test_a_response_without_noise_is_reproduced(estimator, rule):
    """y = x through a Gaussian kernel: nothing to stop for, and weights that would lose all digits if let grow."""
    X, _ = sample()
    model = estimator(sw.kernels.Gaussian(0.3), rule=rule).fit(X, X[:, 0])
    np.testing.assert_allclose(model.predict(X), X[:, 0], atol=0.01)
    np.testing.assert_allclose(model.predict(X), model.path_.fit(), atol=1e-5)


# --- types ------------------------------------------------------------------------------------------------


@each_estimator
def test_text_columns_are_told_to_be_encoded(estimator):
    X, y = sample()
    words = np.column_stack([X[:, 0].astype(object), ["red", "blue"] * 10])
    with pytest.raises(ValueError, match=r"could not convert string.*'red'.*numbers.*encode"):
        estimator().fit(words, y)
    with pytest.raises(ValueError, match=r"could not convert string.*numbers.*encode"):
        estimator().fit(X, np.array(["low", "high"] * 10))
    with pytest.raises(ValueError, match=r"could not convert string.*numbers.*encode"):
        estimator().fit(X, y).predict(np.array([["low"]]))


@each_estimator
def test_sparse_covariates_are_told_to_become_dense(estimator):
    X, y = sample()
    with pytest.raises(TypeError, match=r"Sparse data.*dense.*toarray"):
        estimator().fit(scipy.sparse.csr_matrix(X), y)


@each_estimator
def test_complex_numbers_are_refused(estimator):
    X, y = sample()
    with pytest.raises(ValueError, match="Complex data not supported"):
        estimator().fit(X + 1j, y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        estimator().fit(X, y + 1j)


@each_estimator
@pytest.mark.parametrize("dtype", [object, np.int32, np.uint8, np.float32, bool])
def test_numbers_of_any_type_are_read_as_floats(estimator, dtype):
    X, y = sample()
    X, y = (X * 50).astype(dtype), (y * 50 + 100).astype(dtype)
    expected = estimator(sw.kernels.Laplace(9.0)).fit(X.astype(float), y.astype(float)).predict(X.astype(float))
    tolerance = 1e-4 if dtype is np.float32 else 1e-10
    np.testing.assert_allclose(estimator(sw.kernels.Laplace(9.0)).fit(X, y).predict(X), expected, rtol=tolerance)


# --- magnitudes -------------------------------------------------------------------------------------------


@each_estimator
@pytest.mark.parametrize("factor", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "critical"])
def test_a_response_of_any_magnitude_gets_the_same_fit_in_its_own_units(estimator, rule, factor):
    X, y = sample()
    plain = estimator(LAPLACE, rule=rule).fit(X, y)
    scaled = estimator(LAPLACE, rule=rule).fit(X, factor * y)
    np.testing.assert_allclose(scaled.predict(X) / factor, plain.predict(X), rtol=1e-5)
    assert scaled.noise_std_ / factor == pytest.approx(plain.noise_std_, rel=1e-6)
    given = estimator(LAPLACE, rule=rule, noise_std=0.2 * factor).fit(X, factor * y)
    expected = estimator(LAPLACE, rule=rule, noise_std=0.2).fit(X, y)
    np.testing.assert_allclose(given.predict(X) / factor, expected.predict(X), rtol=1e-5)


@each_estimator
@pytest.mark.parametrize("noise_std", NOISES)
@pytest.mark.parametrize("factor", [1e-300, 1e300])
def test_a_noise_level_of_any_magnitude_is_estimated(estimator, noise_std, factor):
    X, y = sample()
    plain = estimator(LAPLACE, noise_std=noise_std).fit(X, y).noise_std_
    assert estimator(LAPLACE, noise_std=noise_std).fit(X, factor * y).noise_std_ / factor == pytest.approx(
        plain, rel=1e-5
    )


@each_estimator
def test_a_unit_ball_is_much_too_small_or_large_for_an_extreme_response_and_the_rule_stays_finite(estimator):
    X, y = sample()
    huge = estimator(LAPLACE, rule="critical").fit(X, 1e300 * y)
    assert huge.stop_.reason is sw.Reason.ZERO or huge.step_sum_ < 1e-200
    np.testing.assert_allclose(huge.predict(X) / 1e300, y.mean(), rtol=1e-9)
    tiny = estimator(LAPLACE, rule="critical").fit(X, 1e-300 * y)
    assert tiny.stop_.reason is sw.Reason.CAP
    np.testing.assert_allclose(tiny.predict(X) / 1e-300, y, atol=0.02)


# --- settings ---------------------------------------------------------------------------------------------


@each_estimator
@pytest.mark.parametrize("value", [0, 0.0, -1.0, math.nan, math.inf])
def test_a_noise_level_must_be_positive(estimator, value):
    X, y = sample()
    with pytest.raises(ValueError, match=rf"noise_std must be a positive, finite.*got {value!r}.*auto"):
        estimator(noise_std=value).fit(X, y)
    with pytest.raises(ValueError, match=rf"noise_std.*positive.*got {value!r}"):
        sw.noise.Known(value)
    with pytest.raises(ValueError, match=rf"noise_std.*positive.*got {value!r}"):
        sw.critical_radius([1.0, 0.5], value)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ([0.1, 0.2], r"non-increasing.*0\.2.*above.*0\.1.*descending"),
        (5.0, r"bound.*step size is 5,.*1/lambda_1.*= 1.*smaller step"),
        (-0.1, r"bound.*positive.*at most min\(1, 1/lambda_1\).*-0\.1"),
        (0.0, r"bound.*positive.*0\.0"),
        ([0.5, -0.1], r"bound.*positive.*-0\.1"),
        ([0.5, 0.25, 0.0], r"infinite travel.*last step is 0.*end with a positive"),
        (math.nan, r"bound.*finite.*nan"),
        ("fast", r"schedule must be .*number.*'fast'"),
    ],
    ids=str,
)
def test_steps_that_are_not_valid_name_the_broken_condition(schedule, words):
    X, y = sample()
    with pytest.raises(ValueError, match=words):
        sw.KernelGradientRegressor(LAPLACE, schedule=schedule).fit(X, y)


def test_steps_with_a_finite_sum_are_refused_when_made():
    with pytest.raises(ValueError, match=r"infinite travel.*at most 1.*got 2.*finite sum"):
        sw.schedules.PolynomialDecay(power=2)


@each_estimator
@pytest.mark.parametrize(
    ("setting", "error", "words"),
    [
        ({"rule": "best"}, ValueError, r"rule must be one of .*\"critical\".*'best'"),
        ({"rule": 3}, ValueError, r"rule must be one of .*got 3"),
        ({"noise_std": "loud"}, ValueError, r"noise_std.*\"rice\".*'loud'"),
        ({"noise_std": None}, TypeError, r"noise_std must be a number.*NoneType"),
        ({"kernel": "cubic"}, ValueError, r"unknown kernel 'cubic'.*\"sobolev1\""),
        ({"kernel": 3}, TypeError, r"kernel must be .*int"),
        ({"solver": "magic"}, ValueError, r"'solver'.*'dense'.*'magic'"),
        ({"precision": "half"}, ValueError, r"'precision'.*'float32'.*'half'"),
        ({"tol": -1}, ValueError, r"'tol'.*\[0(\.0)?, inf\).*-1"),
        ({"fit_intercept": "yes"}, ValueError, r"'fit_intercept'.*'yes'"),
        ({"kernel": sw.kernels.Gaussian([1.0, 2.0])}, ValueError, r"length_scale has 2 entries for 1 feature"),
    ],
    ids=str,
)
def test_a_setting_that_means_nothing_lists_what_does(estimator, setting, error, words):
    X, y = sample()
    with pytest.raises(error, match=words):
        estimator(**setting).fit(X, y)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sw.kernels.Gaussian(length_scale=0.0), r"length_scale must be positive.*0\.0"),
        (lambda: sw.kernels.Laplace(length_scale=-1.0), r"length_scale must be positive.*-1\.0"),
        (lambda: sw.kernels.Matern(smoothness=2.0), r"0\.5, 1\.5 or 2\.5.*2\.0"),
        (lambda: sw.kernels.Sobolev(order=3), r"order must be 1 or 2.*3"),
        (lambda: sw.kernels.Sobolev(interval=(1, 0)), r"left < right.*1\.0.*0\.0"),
        (lambda: sw.kernels.Polynomial(degree=0), r"degree.*at least 1.*0"),
        (lambda: -1.0 * sw.kernels.Linear(), r"factor.*positive.*-1\.0"),
        (lambda: sw.filters.NuMethod(nu=0.2), r"nu must be above 0\.5.*0\.2"),
        (lambda: sw.rules.HoldOut(fraction=1.5), r"fraction.*between 0 and 1.*1\.5"),
        (lambda: sw.rules.HoldOut(split="thirds"), r"split must be.*'thirds'"),
        (lambda: sw.rules.SURE(reading="first"), r"reading must be.*'first'"),
        (lambda: sw.rules.Critical(constant=-1.0), r"constant.*positive.*-1\.0"),
        (lambda: sw.rules.Critical(hilbert_radius=0.0), r"hilbert_radius.*positive.*0\.0"),
        (lambda: sw.rules.Minimax(hilbert_radius="self"), r"hilbert_radius.*\"auto\".*'self'"),
        (lambda: sw.rules.Fixed(), r"exactly one of iteration and step_sum"),
        (lambda: sw.rules.Fixed(iteration=-1), r"at least 0.*-1"),
        (lambda: sw.rules.Fixed(iteration=1.5), r"whole number.*1\.5"),
        (lambda: sw.noise.HallMarron(bandwidth=0.0), r"bandwidth.*positive.*0\.0"),
        (lambda: sw.critical_radius([0.0, 0.0], 1.0), r"all eigenvalues are zero.*no positive critical radius"),
        (lambda: sw.critical_radius([1.0, -0.1], 1.0), r"eigenvalues must be .*at least 0.*-0\.1"),
        (lambda: sw.critical_radius([], 1.0), r"eigenvalues must be .*non-empty"),
        (lambda: sw.critical_radius([1.0], 1.0, trace=0.5), r"trace must be at least .*1.*0\.5"),
        (lambda: sw.local_complexity([1.0], -0.5), r"radius must be at least 0.*-0\.5"),
    ],
    ids=range(23),
)
def test_a_part_that_cannot_be_is_refused_when_made(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# --- precomputed matrices and kernels on a line --------------------------------------------------------------


@each_estimator
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_an_indefinite_matrix_names_its_smallest_eigenvalue(estimator, fit_intercept):
    _, y = sample()
    gram = np.kron([[1.0, 2.0], [2.0, 1.0]], np.ones((10, 10)))  # eigenvalues of Gram / n: 1.5, -0.5, 0
    with pytest.raises(ValueError, match=r"not positive semi-definite.*smallest eigenvalue is -0\.5"):
        estimator("precomputed", fit_intercept=fit_intercept).fit(gram, y)


@each_estimator
def test_rounding_below_zero_is_not_taken_for_indefinite(estimator):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(20, 3))
    gram = features @ features.T
    assert np.linalg.eigvalsh(gram)[0] < 0
    model = estimator("precomputed").fit(gram, rng.normal(size=20))
    assert np.all(model.eigenvalues_ >= 0)


@each_estimator
def test_a_matrix_that_is_not_square_or_not_symmetric_is_refused(estimator):
    _, y = sample()
    with pytest.raises(ValueError, match=r"square.*\(20, 19\)"):
        estimator("precomputed").fit(np.ones((20, 19)), y)
    with pytest.raises(ValueError, match=r"symmetric.*by up to 1 "):
        estimator("precomputed").fit(np.eye(20) + np.eye(20, k=1), y)


@each_estimator
def test_a_matrix_of_the_wrong_size_at_predict_names_both_sizes(estimator):
    X, y = sample()
    gram = LAPLACE(X)
    model = estimator("precomputed").fit(gram, y)
    with pytest.raises(ValueError, match=r"19.*20"):
        model.predict(gram[:, :19])
    with pytest.raises(ValueError, match=r"2 features.*1 feature"):
        estimator(LAPLACE).fit(X, y).predict(np.ones((3, 2)))


@each_estimator
@pytest.mark.parametrize("kernel", ["sobolev1", "sobolev2", sw.kernels.PeriodicSobolev(order=1)], ids=str)
def test_a_kernel_on_the_line_refuses_several_covariates(estimator, kernel):
    X, y = sample(n_features=2)
    with pytest.raises(ValueError, match=r"takes 1 covariate, got 2.*Gaussian"):
        estimator(kernel).fit(X, y)


@each_estimator
@pytest.mark.parametrize("kernel", ["sobolev1", "sobolev2"])
def test_a_kernel_on_an_interval_refuses_points_outside_it(estimator, kernel):
    X, y = sample()
    with pytest.raises(ValueError, match=r"lives on \[0, 1\].*runs from .* to 2\.8.*interval="):
        estimator(kernel).fit(3 * X, y)
    model = estimator(kernel).fit(X, y)
    with pytest.raises(ValueError, match=r"lives on \[0, 1\].*runs from -1\.9.*rescale"):
        model.predict(X - 2)
    stated = sw.kernels.Sobolev(order=int(kernel[-1]), interval=(0, 3))
    assert np.all(np.isfinite(estimator(stated).fit(3 * X, y).predict(3 * X)))


@each_estimator
def test_a_kernel_function_must_return_finite_blocks(estimator):
    X, y = sample()
    with pytest.raises(ValueError, match=r"shape \(3,\) where \(20, 20\)"):
        estimator(lambda A, B: np.ones(3)).fit(X, y)
    with pytest.raises(ValueError, match=r"NaN or infinity"):
        estimator(lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X, y)


# --- what was not given ---------------------------------------------------------------------------------------


@each_estimator
def test_predicting_before_fitting_says_to_fit(estimator):
    with pytest.raises(NotFittedError, match=r"not fitted yet.*'fit'"):
        estimator().predict(np.zeros((2, 1)))


@each_estimator
def test_a_failed_fit_leaves_no_half_made_model(estimator):
    X, y = sample()
    model = estimator("sobolev1")
    with pytest.raises(ValueError, match="lives on"):
        model.fit(3 * X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@each_estimator
def test_a_rule_says_what_it_was_not_given(estimator):
    X, y = sample()
    path = estimator(LAPLACE).fit(X, y).path_
    for rule in (sw.rules.SURE(), sw.rules.Critical(), sw.rules.Minimax(), sw.rules.Discrepancy()):
        with pytest.raises(ValueError, match=rf"{type(rule).__name__} needs a noise level.*noise_std"):
            rule.select(path)
    with pytest.raises(ValueError, match=r"HoldOut needs rows"):
        sw.rules.HoldOut().select(path)
    with pytest.raises(ValueError, match=r"truth must be one value per training row, 20; got \(3,\)"):
        estimator(LAPLACE, rule=sw.rules.Oracle(np.zeros(3))).fit(X, y)
    with pytest.raises(TypeError, match="truth"):
        sw.rules.Oracle()


@each_estimator
def test_rules_that_count_iterations_refuse_filters_without_them(estimator):
    X, y = sample()
    settings = {} if estimator is sw.KernelRidgeRegressor else {"filter": "flow"}
    with pytest.raises(ValueError, match=r"no iterations: give step_sum"):
        estimator(rule=sw.rules.Fixed(iteration=3), **settings).fit(X, y)
    with pytest.raises(ValueError, match=r"literal.*filter with steps"):
        estimator(rule=sw.rules.SURE(reading="literal"), **settings).fit(X, y)


@each_estimator
def test_a_path_is_asked_for_one_point_that_exists(estimator):
    X, y = sample()
    path = estimator(LAPLACE).fit(X, y).path_
    with pytest.raises(ValueError, match=r"step_sum must be at least 0.*-1"):
        path.fit(-1.0)
    with pytest.raises(ValueError, match=r"not both|no iterations"):
        path.fit(1.0, iteration=2)


@each_estimator
def test_an_interval_that_is_unknown_is_refused(estimator):
    X, y = sample()
    with pytest.raises(ValueError, match=r"interval must be None or \"new\".*'wide'"):
        estimator(LAPLACE).fit(X, y).predict(X, interval="wide")


@each_estimator
def test_the_same_call_on_good_input_is_right(estimator):
    """So that none of the errors above comes from the sample itself."""
    X, y = sample()
    model = estimator(LAPLACE, rule=sw.rules.Fixed(step_sum=6.0), noise_std=0.2).fit(X, y)
    K = reference.centre(reference.gram(reference.laplace(0.5), X)) / 20
    if estimator is sw.KernelRidgeRegressor:
        expected = reference.ridge_fit(K, y - y.mean(), 6.0)
    else:
        expected = reference.descent_fits(K, y - y.mean(), [1.0] * 6)[-1]
    np.testing.assert_allclose(model.predict(X), expected + y.mean(), atol=1e-10)
