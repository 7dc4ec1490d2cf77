"""One setting for threads: limits on BLAS nest, overlap and end where they began, and n_jobs reaches every part."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

import stopwise as sw
import stopwise.estimators.prediction.host as prediction
from problems import KERNELS
from stopwise._support.threads import SMALL, blas_for, blas_threads
from stopwise.estimators.prediction.host import Tile
from stopwise.selection.learning import Evidence


def blas() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def three_to_begin_with():
    """Whatever the machine has, BLAS starts with three threads, so that nothing is right by chance."""
    with threadpool_limits(3, user_api="blas"):
        yield
        assert blas() == {3}


def test_of_limits_inside_each_other_the_smallest_counts():
    with blas_threads(2):
        assert blas() == {2}
        with blas_threads(1):
            assert blas() == {1}
            with blas_threads(4), blas_threads(None):
                assert blas() == {1}
        assert blas() == {2}
    assert blas() == {3}


def test_limits_that_overlap_in_two_threads_end_where_they_began():
    """The first in leaves before the last out: what each of them saw must not be what stays."""
    inside, out = threading.Event(), threading.Event()

    def other():
        with blas_threads(1):
            inside.set()
            out.wait(10)

    thread = threading.Thread(target=other)
    with blas_threads(2):
        thread.start()
        assert inside.wait(10)
        assert blas() == {2}
    out.set()
    thread.join()
    assert blas() == {3}
    with blas_threads(1):
        assert blas() == {1}


def test_a_limit_ends_with_an_error():
    with pytest.raises(ValueError, match="within"), blas_threads(1):
        raise ValueError("within")
    assert blas() == {3}


def seen_in(module, name, monkeypatch):
    """The threads BLAS had at each call of a function."""
    seen, original = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a, **k: (seen.append(blas()), original(*a, **k))[1])
    return seen


@pytest.mark.parametrize(("n_jobs", "expected"), [(1, {1}), (2, {2}), (None, {3})])
def test_n_jobs_rules_the_eigendecomposition(n_jobs, expected, monkeypatch):
    seen, original = [], scipy.linalg.eigh

    def alone(*arguments, **options):
        """The eigendecomposition on one thread: three of them on two cores mostly wait for each other."""
        seen.append(blas())
        with threadpool_limits(1, user_api="blas"):
            return original(*arguments, **options)

    monkeypatch.setattr(scipy.linalg, "eigh", alone)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SMALL + 1, 2))
    given = {"solver": "dense", "rule": "critical", "noise_std": 1.0}
    y = x[:, 0] + rng.standard_normal(SMALL + 1)
    sw.KernelGradientRegressor(KERNELS["gaussian"], n_jobs=n_jobs, **given).fit(x, y)
    assert seen
    assert seen[0] == expected
    assert blas() == {3}


def test_small_matrices_and_the_choice_of_a_kernel_take_one_thread(monkeypatch):
    whole, choice = seen_in(scipy.linalg, "eigh", monkeypatch), seen_in(Evidence, "__call__", monkeypatch)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 3))
    sw.KernelGradientRegressor().fit(x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(120))
    assert whole
    assert choice
    assert {frozenset(threads) for threads in whole + choice} == {frozenset({1})}
    assert (blas_for(SMALL), blas_for(SMALL + 1)) == (1, None)


def test_the_bins_that_tell_a_line_s_spectrum_take_one_thread(monkeypatch):
    """Beside other processes two threads waited for each other up to a hundred times as long as one computes."""
    bins = seen_in(np.linalg, "eigvalsh", monkeypatch)
    x = np.linspace(0, 1, 320)[:, None]
    sw.KernelGradientRegressor("sobolev1", solver="line").fit(x, np.sin(6 * x[:, 0]))
    assert bins
    assert set(map(frozenset, bins)) == {frozenset({1})}


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_predictions_on_threads_are_the_product_with_the_whole_matrix(kernel, outputs):
    rng = np.random.default_rng(4)
    new, training = rng.standard_normal((157, 3)), rng.standard_normal((83, 3))
    dual_coef = rng.standard_normal(83 if outputs is None else (83, outputs))
    expected = KERNELS[kernel](new, training) @ dual_coef
    close = 1e-12 * np.abs(expected).max()
    for columns, entries in ((500, 250_000), (17, 500), (83, 1), (1, 40)):
        tile = Tile(columns, entries)
        one, *more = (
            prediction.predict_in_tiles(KERNELS[kernel], new, training, dual_coef, n_jobs=jobs, tile=tile)
            for jobs in (1, 2, 5)
        )
        assert np.allclose(one, expected, rtol=0, atol=close)
        for other in more:
            assert np.allclose(other, one, rtol=0, atol=close)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_n_jobs_rules_predictions_and_new_fits_on_the_same_rows(n_jobs, monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 2))
    model = sw.KernelGradientRegressor(KERNELS["gaussian"], solver="nystrom", n_jobs=n_jobs, n_landmarks=30)
    model.fit(x, x[:, 0])
    seen = seen_in(sw.kernels.Gaussian, "block", monkeypatch)
    for work in (
        lambda: model.predict(x, return_std=True),
        lambda: model.partial_fit(x, x[:, 0]),
        lambda: sw.KernelGradientRegressor(KERNELS["gaussian"], n_jobs=n_jobs).fit(x, x[:, 0]).predict(x),
    ):
        seen.clear()
        work()
        assert seen
        assert all(max(threads) <= n_jobs for threads in seen)
        assert blas() == {3}


def test_somebody_elses_function_is_called_from_one_thread():
    """A function with a scratch buffer of its own once gave wrong predictions without a word."""
    callers = set()

    def kernel(a, b):
        callers.add(threading.get_ident())
        return np.exp(-np.abs(a[:, :1] - b[:, 0]))

    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 1))
    model = sw.KernelGradientRegressor(kernel, rule="gcv").fit(x, x[:, 0] + rng.standard_normal(60))
    callers.clear()
    model.predict(np.linspace(-1, 1, 20_000)[:, None])  # in five tiles
    assert callers == {threading.get_ident()}


def test_an_error_in_one_tile_calls_off_the_others(monkeypatch):
    calls = []

    def fail(self, rows, columns=None):
        calls.append(rows)
        time.sleep(0.01)
        raise MemoryError("no room")

    monkeypatch.setattr(prediction.CrossKernel, "tile", fail)
    new, training = np.zeros((4000, 1)), np.zeros((50, 1))
    with pytest.raises(MemoryError, match="no room"):
        prediction.predict_in_tiles(KERNELS["gaussian"], new, training, np.ones(50), n_jobs=2, tile=Tile(entries=500))
    assert len(calls) < 100


def test_no_rows_are_no_predictions():
    values = prediction.predict_in_tiles(KERNELS["gaussian"], np.empty((0, 1)), np.zeros((5, 1)), np.ones(5), n_jobs=2)
    assert values.shape == (0,)


def test_precomputed_rows_are_predicted_in_tiles_too():
    rng = np.random.default_rng(5)
    cross, dual_coef = rng.standard_normal((40, 30)), rng.standard_normal(30)
    values = prediction.predict_in_tiles(
        sw.kernels.Precomputed(), cross, np.zeros((30, 30)), dual_coef, n_jobs=3, tile=Tile(7, 50)
    )
    assert np.allclose(values, cross @ dual_coef, rtol=0, atol=1e-12)
