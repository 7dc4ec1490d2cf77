"""Thousands of fits, a thousand columns, a million rows, many processes and threads: nothing grows, nothing differs."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import many_fits
import stopwise as sw
from children import ENVIRONMENT
from hostile import KERNEL, X, watchdog, y

ESTIMATORS = [sw.KernelGradientRegressor, sw.KernelRidgeRegressor]
MEGABYTE = 2**20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.parametrize(
    ("kind", "count", "most"),
    [
        ("fits", 150, 3 * MEGABYTE),
        pytest.param("fits", 10_000, 8 * MEGABYTE, marks=pytest.mark.deep),
        ("refusals", 500, 2 * MEGABYTE),
    ],
)
def test_memory_does_not_grow_with_the_number_of_fits(kind, count, most):
    program = [sys.executable, many_fits.__file__, kind, str(count)]
    done = subprocess.run(program, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < most


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_thousand_columns_are_fitted(estimator):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(120, 1000))
    with watchdog(60):
        model = estimator().fit(wide, wide[:, 0] + 0.1 * rng.normal(size=120))
    prediction, std = model.predict(wide, return_std=True)
    assert np.isfinite(prediction).all()
    assert (std > 0).all()
    assert model.n_features_in_ == 1000


@pytest.mark.parametrize("kernel", [KERNEL, sw.kernels.Linear(), "auto"], ids=str)
def test_one_row_and_a_million_rows_are_predicted_alike(kernel):
    model = sw.KernelRidgeRegressor(kernel).fit(X, y)
    rows = np.random.default_rng(1).uniform(X.min(axis=0), X.max(axis=0), size=(10**6, 2))
    with watchdog(60):
        many = model.predict(rows)
    assert many.shape == (10**6,)
    for row in (0, 123_456, 10**6 - 1):
        np.testing.assert_allclose(model.predict(rows[row : row + 1]), many[row], rtol=1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", ["dense", "krylov", "nystrom"])
def test_a_pickled_model_is_the_same_model(estimator, solver):
    model = estimator(KERNEL, solver=solver, rule="gcv").fit(X, y)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(model, protocol))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert repr(again.stop_) == repr(model.stop_)


def predict(model, rows):
    return model.predict(rows)


def fit_and_predict(estimator, rows):
    return estimator.fit(X, y).predict(rows)


def test_other_processes_predict_and_fit_the_same():
    models = [
        estimator(KERNEL, rule="gcv", solver=s).fit(X, y) for estimator in ESTIMATORS for s in ("dense", "nystrom")
    ]
    there = joblib.Parallel(n_jobs=2)(joblib.delayed(predict)(model, X) for model in models)
    for model, prediction in zip(models, there, strict=True):
        np.testing.assert_array_equal(prediction, model.predict(X))
    again = joblib.Parallel(n_jobs=2)(joblib.delayed(fit_and_predict)(clone(model), X) for model in models)
    for model, prediction in zip(models, again, strict=True):
        np.testing.assert_allclose(prediction, model.predict(X), rtol=1e-9)
    scores = cross_val_score(models[0], X, y, cv=3, n_jobs=2)
    np.testing.assert_allclose(scores, cross_val_score(models[0], X, y, cv=3), rtol=1e-9)
    get_reusable_executor().shutdown(wait=True)


def test_a_hundred_threads_share_one_model():
    model = sw.KernelGradientRegressor(KERNEL).fit(X, y)
    expected = model.predict(X, return_std=True)
    with ThreadPoolExecutor(100) as pool:
        for found in pool.map(lambda _: model.predict(X, return_std=True), range(400)):
            np.testing.assert_array_equal(found, expected)
