"""Safe in company: what callers, other threads and later batches do never changes a model behind one's back."""

import threading
import warnings

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from stopwise.exceptions import StopwiseWarning


@pytest.fixture
def rows(rng):
    X = rng.uniform(0.1, 0.9, size=(80, 1))
    return X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=80)


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "dense"},
        {"solver": "krylov", "kernel": "gaussian"},
        {"solver": "line", "kernel": "sobolev1"},
        {"solver": "nystrom", "kernel": "gaussian", "n_landmarks": 20},
    ],
    ids=lambda s: s["solver"],
)
def test_a_model_owns_what_it_keeps(rows, settings):
    X, y = rows
    Z = X.copy()
    model = sw.KernelGradientRegressor(**settings).fit(X, y)
    before = model.predict(Z, return_std=True)
    X *= 0
    y *= 0
    np.testing.assert_array_equal(model.predict(Z, return_std=True), before)


def test_a_frame_edited_later_changes_nothing(rows):
    X, y = rows
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 0] ** 2})
    model = sw.KernelGradientRegressor("gaussian").fit(frame, y)
    new = frame.copy()
    before = model.predict(new)
    frame.iloc[:, :] = 0.0
    np.testing.assert_array_equal(model.predict(new), before)


def test_landmarks_edited_later_change_nothing(rows):
    X, y = rows
    points = X[:15].copy()
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.3), solver="nystrom", n_landmarks=points).fit(X, y)
    before = model.predict(X)
    points *= 0
    np.testing.assert_array_equal(model.predict(X), before)
    model.refit(-y)
    np.testing.assert_allclose(model.predict(X), -before, atol=1e-8)


def test_a_large_array_may_be_told_not_to_be_copied(rows):
    X, y = rows
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(0.3), copy_X=False).fit(X, y)
    assert np.shares_memory(model.X_fit_, X)
    assert not np.shares_memory(model.set_params(copy_X=True).fit(X, y).X_fit_, X)


class Interrupt(sw.kernels.Gaussian):
    """A kernel whose evaluation is interrupted, as by Ctrl-C."""

    def block(self, left, right):
        raise KeyboardInterrupt


def test_an_interrupted_fit_leaves_the_model_as_it_was(rows):
    X, y = rows
    model = sw.KernelGradientRegressor("gaussian").fit(X, y)
    before = model.predict(X)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(kernel=Interrupt(1.0)).fit(np.c_[X, X], -y)
    assert model.n_features_in_ == 1
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_column_that_starts_to_vary_in_a_later_batch_is_heard(rng):
    X = np.c_[rng.normal(size=400), np.r_[np.zeros(100), rng.normal(size=300)]]
    y = X.sum(axis=1) + 0.05 * rng.normal(size=400)
    model = sw.KernelGradientRegressor()
    for part in np.array_split(np.arange(400), 4):
        model.partial_fit(X[part], y[part])
    assert model.score(X, y) > 0.98


def test_a_first_batch_of_one_row_is_no_lasting_harm(rng):
    X = rng.normal(size=(300, 2))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = sw.KernelGradientRegressor("gaussian").partial_fit(X[:1], y[:1])
    model.partial_fit(X[1:], y[1:])
    assert model.score(X, y) > 0.98


def test_parameters_set_between_batches_are_heard_or_said_to_come_too_late(rng):
    X = rng.normal(size=(1200, 2))
    y = np.sin(X[:, 0])
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(1.0)).partial_fit(X[:100], y[:100])
    model.set_params(kernel=sw.kernels.Laplace(2.0)).partial_fit(X[100:200], y[100:200])
    assert model.kernel_ == sw.kernels.Laplace(2.0)
    model.partial_fit(X[200:], y[200:])
    with pytest.warns(StopwiseWarning, match="too late"):
        model.set_params(kernel=sw.kernels.Gaussian(3.0)).partial_fit(X[:10], y[:10])


def test_a_column_that_varies_only_after_all_is_settled_is_spoken_of(rng):
    X = np.c_[rng.normal(size=1100), np.zeros(1100)]
    model = sw.KernelGradientRegressor("gaussian").partial_fit(X, X[:, 0])
    with pytest.warns(StopwiseWarning, match="did not vary"):
        model.partial_fit(X[:5] + 1, X[:5, 0])


def test_threads_that_add_rows_lose_none(rng):
    X = rng.normal(size=(280, 2))
    y = X[:, 0]
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(1.0), n_landmarks=X[:10].copy(), n_jobs=1)
    model.partial_fit(X[:10], y[:10])
    parts = np.array_split(np.arange(10, 280), 14)
    threads = [threading.Thread(target=model.partial_fit, args=(X[part], y[part])) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.path_.n_samples == 280


def test_predictions_beside_a_fit_are_of_one_model_or_the_other(rng):
    X = rng.normal(size=(60, 2))
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(1.0), n_jobs=1).fit(X, X[:, 0])
    seen, done = [], threading.Event()

    def look():
        while not done.is_set():
            seen.append(model.predict(X[:3]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        looker = threading.Thread(target=look)
        looker.start()
        answers = [model.predict(X[:3])]
        kernels = [sw.kernels.Gaussian(scale) for scale in (0.5, 2.0, 4.0)]
        answers += [model.set_params(kernel=kernel).fit(X, X[:, 0]).predict(X[:3]) for kernel in kernels]
        done.set()
        looker.join()
    for value in seen:
        assert any(np.array_equal(value, answer) for answer in answers)


def test_columns_in_another_order_do_not_merge(rng):
    X = rng.normal(size=(40, 2))
    first, second = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(X, columns=["b", "a"])

    def part(frame):
        settings = {"n_landmarks": X[:5].copy(), "solver": "nystrom"}
        return sw.KernelGradientRegressor(sw.kernels.Gaussian(1.0), **settings).partial_fit(frame, X[:, 0])

    with pytest.raises(ValueError, match=r"same columns in the same order.*'a', 'b'.*'b', 'a'"):
        part(first).merge(part(second))


def test_refit_wants_a_response_for_each_row(rng):
    X = rng.normal(size=(60, 2))
    weights = np.ones(60)
    weights[0] = 0
    model = sw.KernelGradientRegressor("gaussian").fit(X, X[:, 0], sample_weight=weights)
    with pytest.raises(ValueError, match="one entry for each"):
        model.refit(np.zeros(180))
    model.refit(X[:, 1])


def test_a_large_offset_costs_no_more_than_its_digits(rng):
    X = rng.uniform(size=(200, 1))
    y = 5 * np.sin(6 * X[:, 0])
    with pytest.warns(StopwiseWarning, match="lost its digits"):
        model = sw.KernelGradientRegressor("gaussian").fit(X, y + 2e14)
    assert model.score(X, y + 2e14) > 0.99
    quiet = sw.KernelGradientRegressor("gaussian").fit(X, y + 1e9)
    assert quiet.score(X, y + 1e9) > 0.999


def test_one_sentinel_does_not_silence_a_covariate(rng):
    X, Z = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=200)
    X[5, 0] = -9999
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StopwiseWarning)
        model = sw.KernelGradientRegressor().fit(X, y)
    assert model.score(Z, np.sin(2 * Z[:, 0]) + 0.5 * Z[:, 1]) > 0.9


@pytest.mark.parametrize("solver", ["dense", "factor", "preconditioned", "krylov", "nystrom", "line"])
def test_a_fill_value_of_any_size_costs_its_own_row_alone(solver, rng):
    """What others write for a gap, 9.97e36, moved the origin of differences so far that none was left."""
    X, Z = rng.uniform(size=(200, 1)), rng.uniform(size=(200, 1))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    X[5] = 9.96921e36
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StopwiseWarning)
        model = sw.KernelGradientRegressor(sw.kernels.Matern(0.3), solver=solver).fit(X, y)
    assert model.score(Z, np.sin(6 * Z[:, 0])) > 0.95


def test_a_column_that_loses_its_digits_is_not_dropped_in_silence(rng):
    X = np.c_[rng.uniform(size=100) + 5e14, rng.normal(size=100)]
    with pytest.warns(StopwiseWarning, match="column 0 of X has lost its digits"):
        sw.KernelGradientRegressor("gaussian").fit(X, X[:, 1])


def test_two_threads_write_the_same_bytes_each_time_and_one_thread_nearly_the_same(rng, tmp_path):
    X = rng.normal(size=(1200, 3))  # several tiles for each thread
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=1200)
    rule = sw.rules.Critical(hilbert_radius=5.0)

    def fitted(n_jobs):
        kernel = sw.kernels.Gaussian(1.0)
        model = sw.KernelGradientRegressor(kernel, solver="krylov", rule=rule, noise_std=0.3, n_jobs=n_jobs)
        return model.fit(X, y)

    for name in ("one", "two", "three"):
        sw.save(fitted(2), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == (tmp_path / "three").read_bytes()
    alone, together = fitted(1), sw.load(tmp_path / "one")
    assert alone.n_iter_ == together.n_iter_
    np.testing.assert_allclose(together.predict(X), alone.predict(X), rtol=0, atol=1e-11 * np.abs(y).max())
