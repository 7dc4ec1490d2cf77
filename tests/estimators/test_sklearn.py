"""The scikit-learn contract: all of its checks, and the company estimators are seen in."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import stopwise as sw

ESTIMATORS = [sw.KernelGradientRegressor, sw.KernelRidgeRegressor]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)


# some checks fit a handful of rows, and the estimator rightly says that they are too few to choose a kernel by
@pytest.mark.filterwarnings("ignore::stopwise.estimators.doubts.TrustWarning")
@parametrize_with_checks([cls() for cls in ESTIMATORS])
def test_every_check_of_scikit_learn_passes(estimator, check):
    # some checks seed numpy's global generator themselves; put it back as it was
    state = np.random.get_state()  # noqa: NPY002
    try:
        check(estimator)
    finally:
        np.random.set_state(state)  # noqa: NPY002


@pytest.fixture
def wave(rng):
    X = rng.uniform(-2, 2, size=(60, 2))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=60)


def gaussian(estimator, **settings):
    return estimator(kernel=sw.kernels.Gaussian(length_scale=1.0), **settings)


@each_estimator
def test_a_pipeline_gives_what_its_parts_give(estimator, wave):
    X, y = wave
    pipeline = make_pipeline(StandardScaler(), gaussian(estimator)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(pipeline.predict(X), gaussian(estimator).fit(scaled, y).predict(scaled), rtol=1e-12)
    assert pipeline.score(X, y) > 0.8


@each_estimator
def test_a_grid_search_tries_kernels_and_rules(estimator, wave):
    X, y = wave
    grid = {
        "kernel": [sw.kernels.Gaussian(length_scale=1.0), sw.kernels.Gaussian(length_scale=1e-3), "laplace"],
        "rule": ["gcv", "sure"],
    }
    search = GridSearchCV(estimator(), grid, cv=3).fit(X, y)
    assert search.best_params_["kernel"] != sw.kernels.Gaussian(length_scale=1e-3)
    assert search.best_score_ > 0.7
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


@each_estimator
def test_the_same_fit_comes_back_from_a_clone_a_pickle_and_another_process(estimator, wave):
    X, y = wave
    model = gaussian(estimator, rule="holdout", random_state=3)
    copy = clone(model)
    assert copy is not model
    assert str(copy.get_params()) == str(model.get_params())
    here = model.fit(X, y).predict(X)
    np.testing.assert_array_equal(copy.fit(X, y).predict(X), here)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), here)
    away = joblib.Parallel(n_jobs=2)(joblib.delayed(fit_and_predict)(clone(model), X, y) for _ in range(2))
    np.testing.assert_allclose(away[0], here, rtol=1e-9)
    np.testing.assert_array_equal(away[0], away[1])


def fit_and_predict(model, X, y):
    return model.fit(X, y).predict(X)


@each_estimator
def test_cross_validation_and_target_transforms_work(estimator, wave):
    X, y = wave
    assert cross_val_score(gaussian(estimator), X, y, cv=3).mean() > 0.7
    transformed = TransformedTargetRegressor(gaussian(estimator), transformer=StandardScaler()).fit(X, 1e3 * y)
    assert transformed.score(X, 1e3 * y) > 0.8


@each_estimator
def test_columns_of_a_response_are_fitted_as_if_alone(estimator, wave):
    X, y = wave
    Y = np.column_stack([y, y**2, -3 * y])
    together = gaussian(estimator, rule="gcv").fit(X, Y)
    apart = MultiOutputRegressor(gaussian(estimator, rule="gcv")).fit(X, Y)
    np.testing.assert_allclose(together.predict(X), apart.predict(X), rtol=1e-8, atol=1e-8)
    assert [stop.step_sum for stop in together.stop_] == pytest.approx([m.stop_.step_sum for m in apart.estimators_])


@each_estimator
def test_pandas_columns_are_remembered_and_checked(estimator, wave):
    X, y = wave
    frame = pd.DataFrame(X, columns=["depth", "age"])
    model = gaussian(estimator).fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["depth", "age"]
    assert model.n_features_in_ == 2
    plain = gaussian(estimator).fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(frame), plain, rtol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["age", "depth"]])


@each_estimator
def test_set_output_of_a_scaler_reaches_the_estimator(estimator, wave):
    X, y = wave
    frame = pd.DataFrame(X, columns=["depth", "age"])
    pipeline = make_pipeline(StandardScaler(), gaussian(estimator)).set_output(transform="pandas")
    pipeline.fit(frame, y)
    assert list(pipeline[-1].feature_names_in_) == ["depth", "age"]
    plain = make_pipeline(StandardScaler(), gaussian(estimator)).fit(X, y)
    np.testing.assert_allclose(pipeline.predict(frame), plain.predict(X), rtol=1e-6)


@each_estimator
def test_constructor_arguments_are_kept_as_they_were_given(estimator):
    noise, kernel = sw.noise.Known(2.0), sw.kernels.Sobolev(order=1)
    model = estimator(kernel, noise_std=noise, rule="critical", tol=0.5)
    assert model.get_params()["noise_std"] is noise
    assert model.get_params()["kernel"] is kernel
    assert model.set_params(rule="gcv").rule == "gcv"


def test_the_ridge_estimator_has_a_penalty_and_no_step_count(wave):
    X, y = wave
    model = gaussian(sw.KernelRidgeRegressor).fit(X, y)
    assert model.alpha_ == pytest.approx(60 / model.inverse_penalty_, rel=1e-12)
    assert model.stop_.iteration is None
    assert not hasattr(model, "n_iter_")


@each_estimator
def test_the_documented_attributes_are_there_after_a_fit(estimator, wave):
    X, y = wave
    model = gaussian(estimator).fit(X, y)
    names = (
        "stop_ step_sum_ critical_radius_ noise_std_ hilbert_radius_ kernel_ eigenvalues_ trace_ solver_"
        " dual_coef_ intercept_ path_ n_features_in_"
    )
    missing = [name for name in names.split() if not hasattr(model, name)]
    assert missing == []
    assert model.trace_ == pytest.approx(model.eigenvalues_.sum(), rel=1e-10)
    centred = sw.kernels.Gaussian(length_scale=1.0)(X) / 60
    centred = centred - centred.mean(axis=0) - centred.mean(axis=1, keepdims=True) + centred.mean()
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(centred)[::-1], atol=1e-12)
