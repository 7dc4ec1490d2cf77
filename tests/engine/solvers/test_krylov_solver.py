"""The matrix-free engine gives what the dense route gives, with an error that is known."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stopwise as sw
import stopwise.engine.solvers.krylov_solver as krylov_module
from problems import KERNELS
from stopwise.engine.operators import Dense
from stopwise.engine.operators import tiles as tiled
from stopwise.engine.operators.running_sums import Line
from stopwise.engine.operators.tiles import Tiled
from stopwise.engine.solvers.krylov_solver import UnsettledWarning
from stopwise.engine.spectrum.block_krylov import BlockKrylov, NumpyStore


def draw_problem(seed: int, n: int, design: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    if design == "ties":
        x = np.round(x, 1)
    elif design == "grid":
        x = np.column_stack([np.linspace(-1, 1, n)] * 3) + 0.01 * x
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.4 * rng.standard_normal(n)
    return x, y


def make(solver: str, kernel, rule, filter_: str, **more):
    settings_ = {"rule": rule, "noise_std": 0.4, "solver": solver, "random_state": 3, **more}
    if filter_ == "ridge":
        return sw.KernelRidgeRegressor(kernel, **settings_)
    return sw.KernelGradientRegressor(kernel, filter=filter_, **settings_)


quick = settings(deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(seed=st.integers(0, 10_000), n=st.integers(30, 200), blocks=st.integers(1, 6), width=st.integers(1, 6))
def test_an_unfinished_spectrum_never_stops_late(seed, n, blocks, width):
    x, y = draw_problem(seed, n, "random")
    gram = KERNELS["laplace"](x)
    operator = Dense(gram)
    space = BlockKrylov(operator, NumpyStore(n, n, operator.centre), y[:, None], width, seed=seed)
    for _ in range(blocks):
        space.grow()
    bound = space.spectrum().bound
    exact = np.linalg.eigvalsh(gram / n)[::-1].clip(0)
    from stopwise.complexity import critical_target, step_sum_at

    target = critical_target(n, 0.4, 3.0, 2 * math.e)
    early = step_sum_at(bound, target)
    late = sw.critical_step_sum(exact, 0.4, hilbert_radius=3.0)
    assert early <= late * (1 + 1e-9)
    ritz = space.spectrum().eigenvalues
    assert np.all(ritz <= exact[: ritz.size] * (1 + 1e-9) + 1e-14)


@pytest.mark.parametrize("by_columns", [True, False])
def test_tiles_threads_and_row_order_change_nothing_but_rounding(by_columns, monkeypatch):
    if by_columns:
        monkeypatch.setattr(krylov_module.KrylovSolver, "columns", krylov_module.ColumnBounds(200))
    x, y = draw_problem(5, 300, "random")
    kernel, v = KERNELS["matern32"], np.random.default_rng(0).standard_normal((300, 5))
    whole = Dense(kernel(x)).multiply(v)
    for rows in (7, 64, 1000):
        for jobs in (1, 2, 3):
            assert np.allclose(Tiled(kernel, x, tile_rows=rows, n_jobs=jobs).multiply(v), whole, atol=1e-14)
    order = np.random.default_rng(1).permutation(300)
    rule = sw.rules.Critical(hilbert_radius=5.0)
    plain = make("krylov", kernel, rule, "descent").fit(x, y)
    mixed = make("krylov", kernel, rule, "descent").fit(x[order], y[order])
    assert plain.n_iter_ == mixed.n_iter_
    assert np.allclose(plain.path_.fit()[order], mixed.path_.fit(), atol=1e-8)


@pytest.mark.parametrize("anchored", [True, False])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("centred", [True, False])
def test_running_sums_on_a_line_equal_the_matrix(anchored, order, weighted, centred):
    rng = np.random.default_rng(order)
    x = np.round(rng.random((200, 1)), 2)
    weights = rng.integers(1, 4, 200).astype(float) if weighted else None
    kernel = sw.kernels.Sobolev(order, anchored=anchored)
    line = Line(kernel, x, weights=weights, centred=centred)
    dense = Dense(kernel(x), weights=weights, centred=centred)
    block = rng.standard_normal((200, 3))
    assert np.allclose(line.multiply(block), dense.multiply(block), atol=1e-14)
    assert line.trace == pytest.approx(dense.trace, rel=1e-12)
    if order == 1:
        assert line.square_sum == pytest.approx(dense.square_sum, rel=1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("rule", ["sure", "loo", sw.rules.Critical(hilbert_radius=4.0)], ids=str)
def test_the_line_solver_stops_and_predicts_like_dense(order, rule):
    rng = np.random.default_rng(7)
    x = np.round(rng.random((700, 1)), 3)
    y = np.sin(9 * x[:, 0]) + 0.3 * rng.standard_normal(700)
    kernel = sw.kernels.Sobolev(order, anchored=False)
    dense = make("dense", kernel, rule, "descent", noise_std=0.3).fit(x, y)
    line = make("line", kernel, rule, "descent", noise_std=0.3).fit(x, y)
    assert line.step_sum_ == pytest.approx(dense.step_sum_, rel=0.01)
    new = rng.random((50, 1))
    at_same = line.path_.fit(dense.step_sum_)
    assert np.allclose(at_same, dense.path_.fit(), atol=1e-5)
    assert np.allclose(line.predict(new), dense.predict(new), atol=2e-3)


def test_a_breakdown_with_nothing_left_is_a_normal_end():
    x, y = draw_problem(1, 150, "random")
    model = make("krylov", sw.kernels.Linear(), "gcv", "ridge").fit(x, y)
    assert model.stop_.details["settled"]
    assert len(model.eigenvalues_) < 150


def test_a_breakdown_with_trace_left_goes_on():
    # Two orthogonal groups: the response lives in the first, the probes must find the second.
    gram = np.zeros((60, 60))
    gram[:30, :30] = KERNELS["gaussian"](np.linspace(0, 3, 30))
    gram[30:, 30:] = np.eye(30)
    operator = Dense(gram)
    space = BlockKrylov(operator, NumpyStore(60, 60, operator.centre), np.eye(60)[:, :1], 1, seed=0)
    while space.grow():
        pass
    assert space.spectrum().trace == pytest.approx(operator.trace, rel=1e-10)


def test_an_unsettled_stop_warns_with_its_bracket(monkeypatch):
    import stopwise.engine.solvers.krylov_solver as module

    x, y = draw_problem(2, 300, "random")
    monkeypatch.setattr(module.Host, "column_limit", lambda self, problem, plan: 24)
    with pytest.warns(UnsettledWarning, match="the exact one lies where this space cannot tell"):
        model = make("krylov", KERNELS["laplace"], "sure", "descent").fit(x, y)
    assert model.stop_.reason is sw.Reason.BUDGET
    assert not model.stop_.details["settled"]
    assert math.isinf(model.stop_.certainty.bracket[1])
    assert "not settled within its budget, and the exact stop may lie elsewhere." in sw.explain(model)


def test_an_unsettled_stop_from_a_bound_is_not_too_late_and_says_no_more_than_that(monkeypatch):
    x, y = draw_problem(1, 500, "random")
    rule, kernel = sw.rules.Critical(hilbert_radius=50.0), KERNELS["laplace"]
    exact = make("dense", kernel, rule, "flow").fit(x, y).stop_.step_sum
    monkeypatch.setattr(krylov_module.Host, "column_limit", lambda self, problem, plan: 32)
    with pytest.warns(UnsettledWarning, match="lies not before step_sum .* may be wrong") as warned:
        model = make("krylov", kernel, rule, "flow").fit(x, y)
    least = float(re.search(r"not before step_sum ([\d.e+]+),", str(warned[0].message))[1])
    assert least <= exact * 1.001
    low, high = model.stop_.certainty.bracket
    assert f"the exact stop lies between step_sum {low:.4g} and {high:.4g}." in sw.explain(model)
    assert low <= exact


def test_auto_chooses_by_size_and_kernel(capsys):
    x, y = draw_problem(3, 60, "random")
    model = sw.KernelGradientRegressor(KERNELS["gaussian"], rule="gcv", verbose=1).fit(x, y)
    assert model.solver_ == "dense"
    assert "solver='dense'" in capsys.readouterr().err


def test_auto_takes_landmarks_where_all_pairs_would_take_hours(monkeypatch, capsys):
    import stopwise.engine.solvers.solver_choice as module

    x, y = draw_problem(3, 80, "random")
    monkeypatch.setattr(module, "DENSE_ROWS", 20)
    monkeypatch.setattr(module, "KRYLOV_ROWS", 50)
    model = sw.KernelGradientRegressor(KERNELS["gaussian"], rule="gcv", verbose=1, n_landmarks=40).fit(x, y)
    assert model.solver_ == "nystrom"
    assert "landmarks" in capsys.readouterr().err


def test_a_matrix_that_cannot_fit_is_not_attempted(monkeypatch):
    x, y = draw_problem(4, 60, "random")
    monkeypatch.setattr("stopwise.engine.solvers.dense_solver.free_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match="solver="):
        sw.KernelGradientRegressor(KERNELS["gaussian"], rule="gcv", solver="dense").fit(x, y)


def weighted_operator(kernel, seed, weighted, centred, **more):
    rng = np.random.default_rng(seed)
    x, weights = rng.normal(size=(140, 3)), rng.integers(1, 4, 140).astype(float) if weighted else None
    operator = Tiled(KERNELS[kernel], x, weights=weights, centred=centred, **more)
    return operator, Dense(KERNELS[kernel](x), weights=weights, centred=centred)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("centred", [True, False])
def test_values_from_columns_are_those_of_nystroms_approximation(centred, weighted, kernel):
    operator, whole = weighted_operator(kernel, 2, weighted, centred)
    matrix, rows = whole.normalized_gram(), np.random.default_rng(3).permutation(140)[:50]
    shift = tiled._SHIFT * np.trace(matrix[np.ix_(rows, rows)])
    inverse = np.linalg.inv(matrix[np.ix_(rows, rows)] + shift * np.eye(50))
    expected = np.linalg.eigvalsh(matrix[:, rows] @ inverse @ matrix[rows])[::-1][:50]
    values, exact = operator.values_from_columns(rows), whole.eigh()[0]
    close = 2 * tiled._SLACK * exact[0] * np.trace(whole.gram) / np.trace(matrix * 140)
    assert np.allclose(values, expected, rtol=0, atol=close)
    assert np.all(values <= exact[:50] + 1e-14 * exact[0])
    assert np.all(np.diff(values) <= 0)
    assert values.sum() > 0.3 * exact.sum()  # 50 of 140 columns of a matrix that may be close to diagonal


@quick
@given(
    seed=st.integers(0, 10_000), kernel=st.sampled_from(sorted(KERNELS)), scale=st.floats(-6, 3), n=st.integers(2, 90)
)
def test_values_from_columns_never_exceed_eigenvalues(seed, kernel, scale, n):
    """Wide and narrow kernels, ties, as few rows as one and as many as there are: rounding is taken off."""
    rng = np.random.default_rng(seed)
    x = 10.0**scale * rng.normal(size=(n, 2))
    x[rng.integers(n)] = x[0]
    rows = rng.permutation(n)[: rng.integers(1, n + 1)]
    centred = bool(rng.integers(2))
    values = Tiled(KERNELS[kernel], x, centred=centred).values_from_columns(rows)
    gram = KERNELS[kernel](x)
    exact = np.maximum(Dense(gram, centred=centred).eigh()[0], 0.0)
    rounding = 1e-15 * np.trace(gram) / n  # of dense's own eigenvalues, which centring may have left little of
    assert np.all(np.isfinite(values))
    assert np.all(values <= exact[: values.size] + 1e-13 * exact[0] + rounding)


def test_a_bound_from_columns_makes_the_stop_later_and_not_too_late(monkeypatch):
    """Capped after two products, the stop is dense's or earlier, and nearer to it than without the columns."""
    x, y = draw_problem(1, 500, "random")
    rule, kernel = sw.rules.Critical(hilbert_radius=50.0), KERNELS["laplace"]
    dense = make("dense", kernel, rule, "descent").fit(x, y)
    monkeypatch.setattr(krylov_module.Host, "column_limit", lambda self, problem, plan: 32)
    with pytest.warns(UnsettledWarning):
        plain = make("krylov", kernel, rule, "descent").fit(x, y)
    monkeypatch.setattr(krylov_module.KrylovSolver, "columns", krylov_module.ColumnBounds(0))
    with pytest.warns(UnsettledWarning):
        sharper = make("krylov", kernel, rule, "descent").fit(x, y)
    crossings = [model.stop_.details["critical_step_sum"] for model in (plain, sharper, dense)]
    assert crossings[0] < 0.9 * crossings[1]
    assert crossings[1] <= crossings[2]
    assert sharper.stop_.details["columns"] == plain.stop_.details["columns"]


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("centred", [True, False])
def test_lifted_values_lie_between_ritz_values_and_eigenvalues(kernel, centred):
    """The Nystrom approximation from the space is below the matrix, and above its compression."""
    rng = np.random.default_rng(11)
    operator = Dense(KERNELS[kernel](rng.normal(size=(150, 3))), centred=centred)
    eigenvalues = operator.eigh()[0]
    start = operator.centre(rng.standard_normal((150, 1)))
    space = BlockKrylov(operator, NumpyStore(150, 150, operator.centre), start, 5, seed=1)
    gained = 0.0
    for _ in range(8):
        if not space.grow():
            break
        values, vectors, _ = space.ritz()
        lifted = space._lifted(values, vectors)
        close = 1e-11 * eigenvalues[0]
        assert np.all(lifted <= eigenvalues[: lifted.size] + close)
        assert np.all(lifted >= values[: lifted.size] - close)
        gained = max(gained, float((lifted - values[: lifted.size]).sum()))
        written_out = vectors[:, : lifted.size]
        image = operator.multiply(space.store.held[:, : values.size] @ written_out)
        nystrom = image @ np.linalg.pinv(written_out.T @ space._projected @ written_out, rcond=1e-12) @ image.T
        assert np.allclose(lifted, np.linalg.eigvalsh(nystrom)[::-1][: lifted.size], rtol=0, atol=1e-7 * eigenvalues[0])
    assert gained > 1e-3 * eigenvalues[0]
