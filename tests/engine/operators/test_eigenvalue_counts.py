"""On the line the inverse of K is a chain of springs: solves without cancellation, and exact counts of eigenvalues."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stopwise as sw
from stopwise.engine.operators import Dense
from stopwise.engine.operators import tridiagonal as springs
from stopwise.engine.operators.eigenvalue_counts import count_below
from stopwise.engine.operators.running_sums import COUNTED_ROWS, Line

chains = {"seed": st.integers(0, 10_000), "n": st.integers(1, 40), "spread": st.integers(0, 12), "wall": st.booleans()}


def draw_chain(seed: int, n: int, spread: int, wall: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    stiffness = 10.0 ** rng.uniform(-spread / 2, spread, n)
    stiffness[0] *= wall
    return rng.random(n) + 0.1, stiffness


def stiffness_matrix(stiffness) -> mpmath.matrix:
    """f'Sf = sum of stiffness_i (f_i - f_{i-1})^2, in 50 digits."""
    n = len(stiffness)
    out = mpmath.zeros(n, n)
    for i, s in enumerate(mpmath.mpf(float(v)) for v in stiffness):
        out[i, i] += s
        if i:
            out[i - 1, i - 1] += s
            out[i, i - 1] = out[i - 1, i] = -s
    return out


@settings(deadline=None)
@given(**chains)
def test_a_solve_on_a_chain_of_any_stiffness_keeps_its_digits(seed, n, spread, wall):
    masses, stiffness = draw_chain(seed, n, spread, wall)
    right = np.random.default_rng(seed + 1).standard_normal((n, 2))
    with mpmath.workdps(50):
        matrix = stiffness_matrix(stiffness) + mpmath.diag([mpmath.mpf(float(m)) for m in masses])
        exact = mpmath.lu_solve(matrix, mpmath.matrix([mpmath.mpf(float(v)) for v in right[:, 0]]))
        exact = np.array([float(v) for v in exact])
    assert np.abs(springs.solve(masses, stiffness, right)[:, 0] - exact).max() <= 1e-13 * np.abs(exact).max() * n


@settings(deadline=None)
@given(**chains)
def test_stretches_taken_together_give_the_recurrence(seed, n, spread, wall):
    masses, stiffness = draw_chain(seed, n, spread, wall)
    carried = [masses[0] + stiffness[0]]
    for mass, spring in zip(masses[1:], stiffness[1:], strict=True):
        carried.append(mass + spring * carried[-1] / (carried[-1] + spring))
    assert springs.carried_masses(masses, stiffness) == pytest.approx(carried, rel=1e-13)


@settings(deadline=None)
@given(**chains)
def test_counts_are_those_of_eigenvalues_in_fifty_digits(seed, n, spread, wall):
    _, stiffness = draw_chain(seed, min(n, 12), spread, wall)
    with mpmath.workdps(50):
        values = sorted(float(v) for v in mpmath.eigsy(stiffness_matrix(stiffness), eigvals_only=True))
    positive = np.array(values[0 if wall else 1 :])
    thresholds = np.concatenate([positive * (1 - 1e-9), positive * (1 + 1e-9), [positive[-1:].sum() * 9 + 1]])
    couplings = np.append(0.0, stiffness[1:])
    expected = [np.count_nonzero(positive < t) + (not wall) for t in thresholds]
    assert count_below(stiffness, couplings, thresholds).tolist() == expected


def test_a_pivot_of_exactly_zero_is_counted_like_its_neighbours():
    # [[1, 1], [1, 1]] shifted by 1 has zero on its diagonal; its eigenvalues are 0 and 2
    pivots, couplings = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    assert count_below(pivots, couplings, np.array([0.5, 1.0, 1.5, 2.5])).tolist() == [1, 1, 1, 2]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("anchored", [False, True])
def test_sums_over_counted_cells_hold_the_exact_ones(anchored, centred, weighted):
    rng = np.random.default_rng(4)
    n = COUNTED_ROWS + 100
    x = rng.random((n, 1))
    x[:40] = x[40:80]  # ties
    kernel = sw.kernels.Sobolev(1, anchored=anchored)
    weights = rng.integers(1, 4, n).astype(float) if weighted else None
    exact = Dense(kernel(x), weights=weights, centred=centred).eigh()[0]
    exact = exact[exact > 1e-15]
    counting = Line(kernel, x, weights=weights, centred=centred).counting
    assert counting.refine(1e-3)
    assert not counting.refine(1.01e-3)
    assert counting.refine(1.01e-3, again=True)
    cells = counting.cells
    assert cells.above.tolist() == [np.count_nonzero(exact > edge) for edge in cells.edges]
    assert exact[0] <= cells.largest(exact[0] * 0.999, exact[0]) <= exact[0] * 1.2
    assert cells.largest(exact[0], 0.0) == exact[0]
    for clock in np.geomspace(1, 1e5, 11):
        truth = np.minimum(clock * exact, 1).sum()
        low, middle, high = (
            d.total(np.minimum(clock * d.values, 1)) for d in (cells.lower, cells.density, cells.upper)
        )
        assert low <= truth * (1 + 1e-12)
        assert truth <= high * (1 + 1e-12)
        if clock == pytest.approx(1e3):
            assert high <= 1.03 * low
            assert middle == pytest.approx(truth, rel=5e-3)


RULES = {
    "radius": sw.rules.Critical(hilbert_radius=3.0),
    "self": sw.rules.Critical(hilbert_radius="self"),
    "gcv": sw.rules.GCV(),
    "sure": sw.rules.SURE(),
    "minimax": sw.rules.Minimax(),
    "discrepancy": sw.rules.Discrepancy(),
}


@pytest.mark.parametrize("model", [sw.KernelGradientRegressor, sw.KernelRidgeRegressor])
@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize(("seed", "anchored", "intercept"), [(0, True, True), (1, False, True), (2, True, False)])
def test_counted_eigenvalues_settle_the_stop_of_dense(rule, model, seed, anchored, intercept):
    rng = np.random.default_rng(seed)
    x = rng.random((700, 1))
    y = (seed + 1) * np.sin(9 * x[:, 0]) + 0.5 * rng.standard_normal(len(x))
    settings_ = {"rule": RULES[rule], "noise_std": 0.5, "fit_intercept": intercept}
    kernel = sw.kernels.Sobolev(1, anchored=anchored)
    dense = model(kernel, solver="dense", **settings_).fit(x, y)
    line = model(kernel, solver="line", **settings_).fit(x, y)
    low, high = line.stop_.details["bracket"]
    assert line.stop_.details["settled"]
    assert line.stop_.details["columns"] < 60
    assert low <= dense.step_sum_ * (1 + 1e-9)
    assert dense.step_sum_ <= high * (1 + 1e-9)
    if rule == "radius":
        assert line.step_sum_ <= dense.step_sum_
    at = dense.step_sum_
    assert line.path_.fit(at) == pytest.approx(dense.path_.fit(at), abs=1e-5)
    assert line.path_.degrees_of_freedom(at) == pytest.approx(dense.path_.degrees_of_freedom(at), rel=5e-3)


def test_a_constant_response_on_the_line_is_no_error():
    x = np.random.default_rng(0).random((COUNTED_ROWS + 10, 1))
    fitted = sw.KernelGradientRegressor(sw.kernels.Sobolev(1), rule=RULES["radius"], noise_std=0.1, solver="line")
    assert fitted.fit(x, np.full(len(x), 3.0)).predict(x) == pytest.approx(3.0)
