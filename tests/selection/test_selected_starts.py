"""Selection hands the penalty that it has read on some rows to the solver that looks for the stop on all rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stopwise as sw
from stopwise.engine.solvers import solves_solver
from stopwise.problem import make_problem
from stopwise.selection.choice import choose_kernel, choose_kernels

SMOOTH = sw.kernels.Gaussian("auto")


def data(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, np.column_stack([np.sin(4 * X[:, 0]) + 0.3 * rng.normal(size=n), X[:, 1] ** 2 + 0.1 * rng.normal(size=n)])


@pytest.fixture
def asked(monkeypatch):
    """How often all pairs of some rows were asked for a start."""
    calls, made = [], solves_solver._starts_by_all_pairs
    monkeypatch.setattr(solves_solver, "_starts_by_all_pairs", lambda *given: calls.append(given) or made(*given))
    return calls


@pytest.mark.parametrize(("given", "weighted"), [(None, False), (SMOOTH, False), (SMOOTH, True)])
def test_a_start_is_the_penalty_of_the_smallest_left_out_error_for_each_response(weighted, given):
    """All rows are looked at here, so all eigenpairs say the same but for the grid of ratios."""
    X, Y = data()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X)) if weighted else None
    weights = weights if weights is None else weights / weights.mean()
    problem = make_problem(X, 1e3 * Y + 7.0, weights, intercept=True, seed=0)
    chosen = choose_kernel(problem, given, "auto")
    for j, start in enumerate(chosen.starts):
        dense = sw.KernelRidgeRegressor(chosen.kernel, solver="dense").fit(X, Y[:, j], sample_weight=weights)
        lowest = dense.stop_.evidence
        assert abs(math.log(start.penalties[0] * lowest.lowest_step_sum / len(X))) < 1.2  # two steps of the grid
        share = math.sqrt(lowest.lowest) * float(dense.path_.scale) / Y[:, j].std()
        assert start.error == pytest.approx(share, rel=0.05)


def test_responses_with_kernels_of_their_own_have_their_own_starts():
    X, Y = data()
    Y = np.column_stack([Y, Y[:, 0] + Y[:, 1]])
    problem = make_problem(X, Y, None, intercept=True, seed=0)
    shared = choose_kernel(problem, SMOOTH, "auto")
    for chosen in choose_kernels(problem, SMOOTH, "auto", linear=False):
        assert len(chosen.starts) == len(chosen.responses) == chosen.problem.responses.shape[1]
    assert shared.among([2, 0]).starts == (shared.starts[2], shared.starts[0])


def test_where_selection_does_not_know_the_solver_asks(asked):
    X, Y = data()
    constant = make_problem(X, np.column_stack([Y[:, 0], np.ones(len(X))]), None, intercept=True, seed=0)
    assert choose_kernel(constant, SMOOTH, "auto").starts is None
    noiseless = make_problem(X, np.sin(X[:, :1]), None, intercept=True, seed=0)
    assert choose_kernel(noiseless, SMOOTH, "auto").starts is None  # better and better without end
    assert choose_kernel(constant, sw.kernels.Gaussian(0.5), "auto").starts is None
    sw.KernelRidgeRegressor(sw.kernels.Gaussian(0.5), solver="factor").fit(X, Y[:, 0])
    assert len(asked) == 1


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.StopwiseWarning")
@pytest.mark.parametrize("solver", ["factor", "preconditioned"])
def test_the_solver_starts_where_selection_ended(solver, asked):
    X, Y = data()
    model = sw.KernelRidgeRegressor("matern", solver=solver).fit(X, Y)
    assert not asked
    for j, stop in enumerate(model.stop_):
        kernel = model.kernel_[j] if isinstance(model.kernel_, list) else model.kernel_
        dense = sw.KernelRidgeRegressor(kernel, solver="dense").fit(X, Y[:, j])
        assert stop.evidence.lowest == pytest.approx(dense.stop_.evidence.lowest, rel=2e-3)


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.StopwiseWarning")
def test_new_responses_and_other_kernels_are_asked_anew(asked):
    X, Y = data()
    model = sw.KernelRidgeRegressor("matern", solver="factor").fit(X, Y[:, 0])
    assert not asked
    model.refit(Y[:, 1])
    assert len(asked) == 1
    model.set_params(kernel=model.kernel_).fit(X, Y[:, 0])
    assert len(asked) == 2
