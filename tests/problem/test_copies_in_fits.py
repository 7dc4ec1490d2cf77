"""Copies, whole-number weights and equal weights change nothing, whichever solver makes the fit."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import stopwise as sw

SOLVERS = ["dense", "factor", "preconditioned", "krylov", "line", "nystrom"]
each_solver = pytest.mark.parametrize("solver", [*SOLVERS, pytest.param("cuda", marks=pytest.mark.torch)])


@pytest.fixture(autouse=True)
def on_cpu(request, monkeypatch):
    """solver="cuda" with torch's CPU in the place of the GPU."""
    if "cuda" in request.node.name:
        pytest.importorskip("torch", reason="torch is not installed: pip install 'stopwise[torch]'")
        monkeypatch.setattr("stopwise.engine.solvers.gpu_solver.DEVICE", "cpu")


def sample(seed=3, n=60, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    return X, np.sin(6 * X[:, 0]) + noise * rng.normal(size=n), rng


def fitted(solver, X, y, weights=None, **settings):
    kernel = "sobolev1" if solver == "line" else sw.kernels.Laplace(0.4)
    settings = {"nystrom": {"n_landmarks": 25}, "preconditioned": {"tol": 0.5}}.get(solver, {}) | settings
    rule = sw.rules.Critical(hilbert_radius="self") if solver in ("krylov", "line", "cuda") else "auto"
    return sw.KernelRidgeRegressor(kernel, rule=rule, solver=solver, **settings).fit(X, y, sample_weight=weights)


def assert_same(one, other, tolerance=1e-8):
    new = np.linspace(0, 1, 23)[:, None]
    assert one.noise_std_ == pytest.approx(other.noise_std_, rel=tolerance)
    np.testing.assert_allclose(one.predict(new), other.predict(new), rtol=tolerance, atol=tolerance)
    assert float(one.path_.degrees_of_freedom()) == pytest.approx(
        float(other.path_.degrees_of_freedom()), rel=tolerance
    )


@each_solver
def test_a_table_written_down_again_and_equal_weights_are_the_table(solver):
    X, y, _ = sample()
    plain = fitted(solver, X, y)
    twice = np.repeat(np.arange(60), 2)
    assert_same(plain, fitted(solver, X[twice], y[twice]))
    assert_same(plain, fitted(solver, X, y, np.full(60, 2.0)))
    assert_same(plain, fitted(solver, X, y, np.full(60, 0.3)))


@each_solver
def test_some_copies_are_a_weight_and_weights_have_no_unit(solver):
    X, y, rng = sample()
    some = np.append(np.arange(60), rng.permutation(60)[:12])
    weights = np.bincount(some).astype(float)
    assert_same(fitted(solver, X[some], y[some]), fitted(solver, X, y, weights))
    uneven = rng.uniform(0.5, 2, size=60)
    assert_same(fitted(solver, X, y, uneven), fitted(solver, X, y, 7 * uneven))
    precise = rng.uniform(0.2, 1, size=60) ** -2.0
    assert_same(fitted(solver, X, y, precise / precise.mean()), fitted(solver, X, y, 1000 * precise))
    assert_same(fitted(solver, X, y, uneven), fitted(solver, X[some], y[some], (uneven / weights)[some]))


def test_copies_do_not_make_the_noise_look_small():
    X, y, rng = sample(n=400)
    plain = sw.KernelGradientRegressor().fit(X, y)
    some = rng.permutation(np.append(np.arange(400), rng.permutation(400)[:80]))
    copied = sw.KernelGradientRegressor().fit(X[some], y[some])
    assert copied.noise_std_ == pytest.approx(plain.noise_std_, rel=0.05)
    assert float(copied.path_.degrees_of_freedom()) == pytest.approx(float(plain.path_.degrees_of_freedom()), rel=0.5)


@pytest.mark.filterwarnings("ignore::stopwise.estimators.doubts.TrustWarning")
@pytest.mark.parametrize("solver", ["dense", "factor", "line", "preconditioned"])
def test_a_row_given_hundreds_of_times_does_not_decide_the_stop(solver):
    """A sensor's zeros, 627 of 1,000 rows, beside a smooth truth without noise: by its weight it would outweigh all."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(373, 1))
    X[0] = 0.0
    y = np.cos(3 * X[:, 0])
    y[0] = 0.0
    rows, new = np.append(np.arange(373), np.zeros(627, dtype=int)), np.linspace(0.2, 0.9, 50)[:, None]
    settings = {"tol": 0.5} if solver == "preconditioned" else {}
    model = sw.KernelRidgeRegressor(sw.kernels.Matern(0.5), solver=solver, **settings).fit(X[rows], y[rows])
    assert len(model.X_fit_) == 373
    np.testing.assert_allclose(model.predict(new), np.cos(3 * new[:, 0]), atol=0.05)


@pytest.mark.parametrize("kind", ["binary", "poisson"])
def test_chance_ties_are_what_the_same_responses_moved_a_little_are(kind):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, size=(1000, 1)) / 9.0
    y = (rng.uniform(size=1000) < X[:, 0]) if kind == "binary" else rng.poisson(1 + 4 * X[:, 0])
    y = y.astype(float)
    tied = sw.KernelGradientRegressor().fit(X, y)
    moved = sw.KernelGradientRegressor().fit(X, y + 1e-6 * rng.normal(size=1000))
    assert len(tied.X_fit_) < 150
    assert tied.noise_std_ == pytest.approx(moved.noise_std_, rel=0.02)
    new = np.linspace(0, 1, 10)[:, None]
    np.testing.assert_allclose(tied.predict(new), moved.predict(new), atol=0.02)
    for of in ("new", "mean"):
        widths = [np.diff(model.predict_interval(new, of=of))[:, 0] for model in (tied, moved)]
        np.testing.assert_allclose(*widths, rtol=0.05)


def test_a_new_response_on_rows_that_were_copies_parts_them():
    X, y, rng = sample()
    some = np.append(np.arange(60), np.arange(20))
    model = sw.KernelRidgeRegressor(sw.kernels.Laplace(0.4)).fit(X[some], y[some])
    assert len(model.X_fit_) == 60
    other = y[some] + rng.normal(size=80)
    refitted = model.refit(other)
    fresh = sw.KernelRidgeRegressor(sw.kernels.Laplace(0.4)).fit(X[some], other)
    np.testing.assert_allclose(refitted.predict(X), fresh.predict(X), rtol=1e-6)
    again = refitted.fit(X[some], y[some]).refit(2 * y[some])
    np.testing.assert_allclose(again.predict(X), 2 * model.fit(X[some], y[some]).predict(X), rtol=1e-6)


def test_an_oracle_and_a_precomputed_matrix_know_which_rows_became_one():
    X, y, _ = sample()
    some = np.append(np.arange(60), np.arange(20))
    truth = np.sin(6 * X[:, 0])
    kernel = sw.kernels.Laplace(0.4)
    oracle = sw.KernelRidgeRegressor(kernel, rule=sw.rules.Oracle(truth[some])).fit(X[some], y[some])
    weights = np.bincount(some).astype(float)
    weighted = sw.KernelRidgeRegressor(kernel, rule=sw.rules.Oracle(truth)).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(oracle.predict(X), weighted.predict(X), rtol=1e-8)
    gram = kernel(X)
    held = sw.KernelRidgeRegressor("precomputed", rule="gcv").fit(gram[np.ix_(some, some)], y[some])
    direct = sw.KernelRidgeRegressor(kernel, rule="gcv").fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(held.predict(gram[:, some]), direct.predict(X), rtol=1e-6)


@pytest.mark.parametrize(("n", "d", "rate"), [(150, 3, 2.0), (200, 8, 0.1), (150, 20, 0.05)])
def test_a_precomputed_matrix_knows_copies_whose_rows_differ_by_rounding(n, d, rate):
    """Of a table given twice most copies were missed, and noise of .5 told as .003 to .013."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    twice = rng.permutation(np.tile(np.arange(n), 2))
    model = sw.KernelGradientRegressor("precomputed").fit(rbf_kernel(X[twice], gamma=rate), y[twice])
    once = sw.KernelGradientRegressor("precomputed").fit(rbf_kernel(X, gamma=rate), y)
    assert len(model.dual_coef_) == n
    assert model.noise_std_ == pytest.approx(once.noise_std_, rel=1e-6)
    new = rng.normal(size=(20, d))
    found, expected = model.predict(rbf_kernel(new, X[twice], gamma=rate)), once.predict(rbf_kernel(new, X, gamma=rate))
    np.testing.assert_allclose(found, expected, atol=1e-6)
