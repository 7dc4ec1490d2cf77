"""Which engine "auto" takes on a device, and by which costs."""

import numpy as np
import pytest

import stopwise as sw
from stopwise.engine.solvers import solver_choice
from stopwise.engine.solves.costs import DEVICE, HOST, engine_costs
from stopwise.problem import make_problem

GAUSSIAN, LAPLACE, PRODUCT = sw.kernels.Gaussian(1.0), sw.kernels.Laplace(1.0), sw.kernels.ProductLaplace(1.0)

# Kernel entries a second on one H200, blocks of sixteen columns: the table of docs/benchmarks.md.
MEASURED = [
    (GAUSSIAN, 10, 1.9e12),
    (GAUSSIAN, 100, 5.9e11),
    (GAUSSIAN, 300, 2.4e11),
    (LAPLACE, 10, 6.8e11),
    (PRODUCT, 10, 7.9e11),
    (PRODUCT, 26, 3.4e11),
    (sw.kernels.ProductMatern(1.0), 10, 5.1e11),
    (sw.kernels.ProductMatern(1.0), 26, 1.9e11),
]


@pytest.mark.parametrize(("kernel", "n_features", "rate"), MEASURED)
def test_products_on_a_device_are_counted_with_the_rate_of_their_kernel(kernel, n_features, rate):
    assert DEVICE.fusing(kernel, n_features).entry == pytest.approx(1 / rate, rel=0.25)


def test_a_kernel_seen_through_powers_costs_what_it_costs_itself():
    map_of_each = {"centre": 0.0, "spread": 1.0, "power": 0.5, "low": -2.0, "high": 2.0}
    warped = sw.kernels.Warped(PRODUCT, **{name: (value,) * 3 for name, value in map_of_each.items()})
    assert DEVICE.fusing(warped, 3) == DEVICE.fusing(PRODUCT, 3)


@pytest.mark.parametrize("rates", [HOST, DEVICE])
def test_a_preconditioner_has_as_many_columns_as_there_is_room_for(rates):
    assert rates.columns(10**5, free=1e15) == rates.rank
    assert rates.columns(400, free=1e15) == 100
    tight = rates.columns(10**6, free=1e10)
    assert 1 < tight < rates.rank
    assert 20 * 10**6 * tight <= 1e10
    assert rates.columns(10**6, free=0.0) == 1


@pytest.fixture
def on_a_large_device(monkeypatch):
    """A device with 150 GB free, of which nothing is taken: engines are chosen, not run."""
    monkeypatch.setattr(solver_choice, "has_torch", lambda: True)
    monkeypatch.setattr(solver_choice, "has_gpu", lambda: True)
    monkeypatch.setattr(solver_choice.cuda, "device_for", lambda rows: "cuda")
    monkeypatch.setattr(solver_choice, "device_free_bytes", lambda device: 150e9)


def chosen(n_rows, n_features, kernel, **settings):
    """The engine for a table of that shape, of which no row is looked at."""
    X = np.broadcast_to(np.arange(n_features, dtype=float), (n_rows, n_features))
    problem = make_problem(X, np.broadcast_to(0.0, (n_rows, 1)), None, intercept=True, seed=0)
    plan = sw.KernelGradientRegressor(**settings).plan(kernel)
    return solver_choice._automatic(problem, plan)[0]


@pytest.mark.usefixtures("on_a_large_device")
def test_solves_serve_a_million_rows_and_more_on_a_device_and_landmarks_where_a_product_takes_too_long():
    assert chosen(40_000, 10, GAUSSIAN) == "factor"
    assert chosen(1_311_539, 11, LAPLACE) == "preconditioned"
    assert chosen(10**7, 10, GAUSSIAN) == "nystrom"
    assert chosen(2 * 10**6, 60, PRODUCT) == "nystrom"
    # The paper's rule asks for the eigenvalues above its threshold: a Krylov space has them.
    assert chosen(10**7, 10, GAUSSIAN, rule="critical") == "cuda"


def test_solves_that_hold_no_matrix_take_time_as_the_square_of_the_rows_once_products_decide():
    few, many = (engine_costs(n, DEVICE.fusing(LAPLACE, 10), has_room=False) for n in (3 * 10**6, 6 * 10**6))
    assert many["preconditioned"] / few["preconditioned"] == pytest.approx(4, rel=0.05)
