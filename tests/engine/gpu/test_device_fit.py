"""Whole fits with torch on the CPU: the same stop and the same fit as numpy, for arrays and for tensors."""

import pickle

import numpy as np
import pytest

import stopwise as sw

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'stopwise[torch]'")
pytestmark = pytest.mark.torch

from stopwise._support.torch import MissingDevice  # noqa: E402
from stopwise.engine.gpu.device_store import DeviceBasis  # noqa: E402
from stopwise.engine.solvers import gpu_solver as cuda  # noqa: E402
from stopwise.engine.solvers.dense_solver import Plan  # noqa: E402
from stopwise.kernels.forms import NoForm  # noqa: E402
from stopwise.problem import make_problem  # noqa: E402

FIT = {"float64": 1e-8, "float32": 1e-4, "auto": 1e-4}
CRITICAL = {"rule": sw.rules.Critical(hilbert_radius=5.0), "noise_std": 0.3}


@pytest.fixture
def on_cpu(monkeypatch):
    """solver="cuda" with torch's CPU in the place of the GPU."""
    monkeypatch.setattr(cuda, "DEVICE", "cpu")


def data(rng, n=400, d=3):
    x = rng.uniform(-2, 2, size=(n, d))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + 0.3 * rng.normal(size=n)


def model(solver="cuda", **settings):
    settings = {"kernel": sw.kernels.Gaussian(1.2)} | CRITICAL | settings
    return sw.KernelGradientRegressor(solver=solver, **settings)


def gap(value, truth):
    return np.linalg.norm(np.asarray(value) - np.asarray(truth)) / np.linalg.norm(np.asarray(truth))


@pytest.mark.parametrize("precision", FIT)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_stop_and_fit_are_those_of_the_dense_solver(rng, on_cpu, precision, weighted, intercept):
    x, y = data(rng)
    weights = rng.integers(1, 4, len(y)).astype(float) if weighted else None
    dense = model("dense", fit_intercept=intercept).fit(x, y, weights)
    fitted = model(precision=precision, fit_intercept=intercept, tol=1e-6).fit(x, y, weights)
    assert fitted.solver_ == "cuda"
    assert fitted.stop_.details["settled"]
    assert fitted.n_iter_ == dense.n_iter_
    assert gap(fitted.path_.fit(), dense.path_.fit()) < FIT[precision]
    assert gap(fitted.predict(x[:50]), dense.predict(x[:50])) < FIT[precision]


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": sw.kernels.Matern(1.5, 1.5)},
        {"kernel": sw.kernels.Laplace(2.0), "rule": "gcv"},
        {"rule": "sure", "filter": "flow"},
        {"rule": sw.rules.Critical(hilbert_radius="self"), "noise_std": "auto"},
        {"rule": sw.rules.Minimax(), "noise_std": "auto"},
        {"noise_std": "nearest-neighbour"},
        {"rule": sw.rules.HoldOut(0.5)},
    ],
    ids=str,
)
def test_every_rule_decides_on_the_device_as_on_the_host(rng, on_cpu, settings):
    x, y = data(rng, 300)
    dense = model("dense", **settings).fit(x, y)
    fitted = model(precision="float64", tol=1e-4, **settings).fit(torch.from_numpy(x), torch.from_numpy(y))
    assert fitted.step_sum_ == pytest.approx(dense.step_sum_, rel=2e-3)
    assert gap(fitted.path_.fit(), dense.path_.fit()) < 1e-3


def test_ridge_and_several_responses_run_on_the_device(rng, on_cpu):
    x, y = data(rng, 200)
    both = np.column_stack([y, 100 * x[:, 2] + y])
    settings = {"kernel": sw.kernels.Gaussian(1.2), "rule": "gcv"}
    dense = sw.KernelRidgeRegressor(solver="dense", **settings).fit(x, both)
    fitted = sw.KernelRidgeRegressor(solver="cuda", precision="float64", **settings).fit(x, both)
    assert np.allclose(fitted.alpha_, dense.alpha_, rtol=1e-2)
    assert gap(fitted.predict(x[:20]), dense.predict(x[:20])) < 1e-3


def test_tensors_in_give_tensors_out_and_the_rows_stay_tensors(rng, on_cpu):
    x, y = data(rng)
    arrays, tensors = model().fit(x, y), model().fit(torch.from_numpy(x), torch.from_numpy(y))
    assert isinstance(tensors.X_fit_, torch.Tensor)
    assert isinstance(tensors.path_.spectrum.basis, DeviceBasis)
    assert tensors.n_iter_ == arrays.n_iter_
    new = x[:30] / 2
    mean, std = tensors.predict(torch.from_numpy(new), return_std=True)
    assert isinstance(mean, torch.Tensor)
    assert isinstance(std, torch.Tensor)
    assert mean.dtype == torch.float64
    expected = arrays.predict(new, return_std=True)
    assert isinstance(expected[0], np.ndarray)
    assert gap(mean, expected[0]) < 1e-6
    assert gap(std, expected[1]) < 1e-6
    assert tensors.predict(torch.from_numpy(new).float()).dtype == torch.float32


@pytest.mark.parametrize("weighted", [False, True])
def test_standard_deviations_are_those_of_the_dense_solver(rng, on_cpu, weighted):
    x, y = data(rng)
    weights = rng.integers(1, 4, len(y)).astype(float) if weighted else None
    dense = model("dense").fit(x, y, weights)
    fitted = model(precision="float64", tol=1e-6).fit(x, y, weights)
    new = x[:40] / 2
    for interval in (None, "new"):
        ours, truth = (each.predict(new, return_std=True, interval=interval)[1] for each in (fitted, dense))
        assert gap(ours, truth) < 1e-3


def test_shuffled_rows_give_the_same_stop(rng, on_cpu):
    x, y = data(rng)
    order = rng.permutation(len(y))
    rule = {"rule": "gcv", "noise_std": "auto", "precision": "float64"}
    first, second = model(**rule).fit(x, y), model(**rule).fit(x[order], y[order])
    assert first.step_sum_ == pytest.approx(second.step_sum_, rel=1e-9)


def test_a_kernel_is_chosen_for_tensors_from_a_sample_of_rows(rng, on_cpu):
    x, y = data(rng, 120)
    x = np.column_stack([x, np.ones(len(x))])
    fitted = sw.KernelGradientRegressor(solver="cuda", relevance=False).fit(torch.from_numpy(x), torch.from_numpy(y))
    arrays = sw.KernelGradientRegressor(solver="cuda", relevance=False).fit(x, y)
    assert fitted.kernel_ == arrays.kernel_
    assert fitted.X_fit_.shape == (120, 3)
    assert gap(fitted.predict(torch.from_numpy(x[:9])), arrays.predict(x[:9])) < 1e-5


def test_a_fitted_model_moves_to_the_host_and_survives_pickling_and_saving(rng, on_cpu, tmp_path):
    x, y = data(rng, 200)
    fitted = model().fit(torch.from_numpy(x), torch.from_numpy(y))
    before = fitted.predict(x[:20])
    sw.save(fitted, tmp_path / "model.stopwise")
    copies = [pickle.loads(pickle.dumps(fitted)), sw.load(tmp_path / "model.stopwise"), fitted.to("cpu")]
    for copy in copies:
        assert isinstance(copy.X_fit_, np.ndarray)
        assert not isinstance(copy.path_.spectrum.basis, DeviceBasis)
        assert gap(copy.predict(x[:20]), before) < 1e-5
        assert np.isfinite(copy.predict(x[:20], return_std=True)[1]).all()
    moved = copies[0].to("cuda")
    assert gap(moved.predict(x[:20]), before) < 1e-5


def test_tensors_are_taken_and_given_by_the_other_solvers_too(rng):
    x, y = data(rng, 80)
    arrays = model("dense").fit(x, y)
    tensors = model("dense").fit(torch.from_numpy(x), torch.from_numpy(y))
    assert gap(tensors.predict(torch.from_numpy(x[:9])), arrays.predict(x[:9])) < 1e-12
    inside = np.abs(x[:, :1]) / 2
    line = sw.KernelGradientRegressor("sobolev1", rule="gcv").fit(inside, y)
    assert isinstance(line.predict(torch.from_numpy(inside[:9])), torch.Tensor)


def test_refit_takes_a_new_response_as_a_tensor(rng, on_cpu):
    x, y = data(rng, 150)
    fitted = model().fit(torch.from_numpy(x), torch.from_numpy(y)).refit(torch.from_numpy(-y))
    assert gap(fitted.predict(x[:9]), model().fit(x, -y).predict(x[:9])) < 1e-4


@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        (torch.ones(5), torch.ones(5), "Expected 2D"),
        (torch.ones(5, 2), torch.ones(4), "one entry"),
        (torch.full((5, 2), torch.nan), torch.ones(5), "NaN or infinity"),
        (torch.ones(5, 2), torch.full((5,), torch.inf), "NaN or infinity"),
        (torch.ones(1, 2), torch.ones(1), "minimum of 2"),
        (torch.ones(5, 2, dtype=torch.complex64), torch.ones(5), "Complex"),
    ],
)
def test_bad_tensors_are_refused_in_words(on_cpu, x, y, told):
    with pytest.raises(ValueError, match=told):
        model().fit(x, y)


def test_a_kernel_without_a_device_form_is_refused_with_a_remedy(rng, on_cpu):
    with pytest.raises(NoForm, match='solver="krylov"'):
        model(kernel="sobolev1").fit(rng.random((20, 1)), rng.normal(size=20))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_asking_for_a_gpu_where_there_is_none_names_what_is_missing(rng):
    x, y = data(rng, 20)
    with pytest.raises(MissingDevice, match=r'needs an NVIDIA GPU.*solver="krylov"'):
        model().fit(x, y)
    with pytest.raises(MissingDevice, match="needs an NVIDIA GPU"):
        model("dense").fit(x, y).to("cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_auto_says_that_it_used_the_cpu(rng, monkeypatch, capsys):
    monkeypatch.setattr(cuda, "ROWS", 100)
    monkeypatch.setattr("stopwise.engine.solvers.solver_choice.DENSE_ROWS", 50)
    x, y = data(rng, 120)
    assert model("auto", verbose=1).fit(x, y).solver_ == "krylov"
    assert "on the CPU (torch sees no GPU)" in capsys.readouterr().err


def test_memory_is_planned_before_the_start_and_told_when_it_cannot_fit(rng, on_cpu, monkeypatch):
    monkeypatch.setattr("stopwise._support.memory.free_bytes", lambda: 1000)
    x, y = data(rng, 50)
    with pytest.raises(MemoryError, match=r'needs .* GiB on cpu for 50 rows .* are free: .* solver="nystrom"'):
        model().fit(x, y)


def test_the_plan_counts_rows_blocks_and_columns(rng):
    x, y = data(rng, 1000)
    problem = make_problem(x, y[:, None], None, intercept=True, seed=0)
    place = cuda.OnGpu(torch.device("cpu"), "float32")
    assert place.working_bytes(problem) > 8 * 1000 * 64
    plan = Plan(sw.kernels.Gaussian(), model()._filter(), sw.rules.GCV(), sw.noise.Evidence())
    assert place.column_limit(problem, plan) == 1000


def test_few_rows_nearly_without_noise_are_left_out_with_all_their_digits(rng, on_cpu):
    """From products in float32 leverages near 1 have none left: the stop was at twice the smallest left-out error."""
    x = rng.uniform(-1, 1, size=(150, 2))
    y = np.sin(3 * x[:, 0]) + x[:, 1] ** 2
    kernel = sw.kernels.Matern(2.0, smoothness=2.5)
    dense, there = (sw.KernelRidgeRegressor(kernel, solver=solver).fit(x, y) for solver in ("dense", "cuda"))
    errors = dense.path_.leave_one_out_error(np.array([dense.step_sum_, there.step_sum_]))
    assert there.stop_.certainty.settled
    assert errors[1] <= 1.002 * errors[0]
