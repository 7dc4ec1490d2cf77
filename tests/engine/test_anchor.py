"""One factor answers at all penalties near it: what it says is what a factor at each of them says."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

import stopwise as sw
from stopwise.engine.operators import Dense
from stopwise.engine.operators.centring import centred_gram
from stopwise.engine.solvers import solve_places, solves_solver
from stopwise.engine.solves import anchor
from stopwise.engine.solves.anchor import AnchorSystem
from stopwise.engine.solves.factor import factor
from stopwise.engine.solves.half_held import HalfHeld
from stopwise.engine.solves.inverse_entries import InverseEntries
from stopwise.engine.solves.resolvent_space import GrowingSpace
from stopwise.engine.solves.shifted_descent import as_resolvents
from stopwise.filters import GradientFlow, Ridge
from stopwise.kernels import Matern
from stopwise.problem import Problem

RATIOS = [0.25, 0.5, 1.0, 1.7, 4.0]


class Setting:
    """A small problem with two responses, weights and counts or not; everything in float64 beside it."""

    def __init__(self, *, n=600, intercept=True, weighted=True, dtype=np.float64):
        generator = np.random.default_rng(7)
        x = generator.uniform(-1, 1, (n, 3))
        self.gram = Matern(0.6, smoothness=1.5)(x)
        self.counts = generator.integers(1, 4, n).astype(float) if weighted else None
        weights = self.counts * generator.uniform(0.5, 2.0, n) if weighted else None
        roots = np.ones(n) if weights is None else np.sqrt(weights)
        self.n_samples = float((roots**2).sum())
        self.constant = roots / np.sqrt(self.n_samples) if intercept else None
        y = np.column_stack([np.sin(4 * x[:, 0]), x[:, 1] ** 2]) + 0.2 * generator.normal(size=(n, 2))
        self.responses = roots[:, None] * (y - np.average(y, axis=0, weights=weights) if intercept else y)
        self.matrix = centred_gram(self.gram.copy(), roots, self.constant)
        self.held = HalfHeld(
            lambda rows, columns: self.gram[np.ix_(rows, columns)],
            np.diagonal(self.gram),
            generator.permutation(n),
            weights=weights,
            centred=intercept,
            dtype=dtype,
        )
        self.dense = Dense(self.gram, weights=weights, centred=intercept)

    def factor(self, penalty):
        return factor(lambda: self.matrix.copy(), penalty, self.constant)

    def system(self, penalty, monkeypatch, sample=600, points=4):
        """Anchored at a penalty, with so many rows in the sample."""
        monkeypatch.setattr(anchor, "EVERY_ROW", 0)
        monkeypatch.setattr(anchor, "LEAST_LEFT_OUT", sample)
        monkeypatch.setattr(AnchorSystem, "_most_points", points)
        system = AnchorSystem(self.held, self.responses, self.counts)
        system.expect(penalty, 1e-4)
        system.at(penalty)
        return system


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_mean_row_is_in_float64_whatever_holds_the_matrix(dtype, weighted):
    """Dual weights grow as the penalty falls; in float32 an intercept was off by more than the fit's error."""
    setting = Setting(weighted=weighted, dtype=dtype)
    for _ in range(2):  # as it was made first, and anew in float64
        assert np.allclose(setting.held.mean_row, setting.dense.mean_row, rtol=0, atol=1e-14)
        setting.held.in_float64()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_matrix_shares_a_square_with_its_factor(dtype, weighted, intercept):
    setting = Setting(weighted=weighted, intercept=intercept, dtype=dtype)
    held, digits = setting.held, {np.float64: 1e-11, np.float32: 1e-4}[dtype]
    block = np.random.default_rng(0).normal(size=(600, 3))
    for _ in range(2):  # before there is a factor, and after
        for part in (block, block[:, :1]):
            assert np.allclose(held.multiply(part), setting.dense.multiply(part), atol=digits)
        assert np.allclose(held.diagonal, setting.dense.diagonal, atol=digits)
        assert held.trace == pytest.approx(setting.dense.trace, rel=digits)
        made = held.factor(0.1)
    assert np.allclose(made.inverse(block), setting.factor(0.1).inverse(block), atol=1e3 * digits)
    assert np.allclose(made.inverse_diagonal(), setting.factor(0.1).inverse_diagonal(), rtol=10 * digits)
    assert held.square.nbytes == 600 * 600 * np.dtype(dtype).itemsize


def test_a_matrix_that_is_no_gram_matrix_is_refused():
    lopsided = np.arange(9.0).reshape(3, 3)
    with pytest.raises(ValueError, match="must be symmetric"):
        HalfHeld(lambda rows, columns: lopsided[np.ix_(rows, columns)], np.diagonal(lopsided), np.arange(3))
    with pytest.raises(ValueError, match="NaN or infinity"):
        HalfHeld(lambda rows, columns: np.full((len(rows), len(columns)), np.nan), np.ones(3), np.arange(3))


@pytest.mark.parametrize("rows", [np.arange(400, 600), np.arange(5, 300, 2)], ids=["last", "others"])
@pytest.mark.parametrize("ratio", RATIOS)
def test_two_rules_bracket_entries_of_an_inverse_and_the_value_between_is_far_nearer(ratio, rows):
    setting = Setting(intercept=False, weighted=False)
    made = setting.factor(0.05)
    entries = InverseEntries(made.lower, rows, 0.05)
    exact = np.diagonal(np.linalg.inv(setting.matrix + ratio * 0.05 * np.eye(600)))[rows]
    widths = []
    for _ in range(4):
        value, first, second = entries.at((ratio - 1) * 0.05)
        low, high = np.minimum(first, second), np.maximum(first, second)
        slack = 1e-6 * exact + 1e-9
        assert np.all(low <= exact + slack)
        assert np.all(exact <= high + slack)
        assert np.abs((value - exact).mean()) <= (high - low).mean() / 3 + slack.mean()
        widths.append(float(((high - low) / exact).max()))
        entries.extend()
    root = np.sqrt(ratio)
    rate = ((root - 1) / (root + 1)) ** 2
    assert all(after <= 3 * rate * before + 1e-6 for before, after in itertools.pairwise(widths))


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_space_of_solves_at_one_penalty_holds_ridge_at_others(ratio):
    setting = Setting()
    space = GrowingSpace(setting.factor(0.05), setting.responses, setting.n_samples)
    exact = setting.factor(ratio * 0.05).inverse(setting.responses)
    sizes = np.linalg.norm(setting.responses, axis=0)
    for _ in range(14):
        found, left = space.ridge(ratio * 0.05)
        assert np.all(ratio * 0.05 * np.linalg.norm(found - exact, axis=0) <= 1.01 * left * sizes + 1e-12)
        space.extend()
    assert left < 1e-4


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_left_out_as_by_a_factor_at_each_penalty(weighted, intercept, dtype, monkeypatch):
    setting = Setting(weighted=weighted, intercept=intercept, dtype=dtype)
    system = setting.system(0.05, monkeypatch, sample=150)
    for ratio in RATIOS:
        exact = setting.factor(0.05 * ratio).left_out(setting.responses, setting.counts)[system.rows_left_out]
        found = system.left_out(0.05 * ratio)
        assert found.shape == (150, 2)
        assert np.allclose((found**2).mean(0), (exact**2).mean(0), rtol=5e-4)
        assert np.allclose(found, exact, rtol=5e-3, atol=1e-4)
    assert system.tally.products == 1  # one factor


def test_a_penalty_out_of_reach_gets_a_factor_of_its_own(monkeypatch):
    setting = Setting()
    system = setting.system(0.05, monkeypatch, sample=150, points=1)
    exact = setting.factor(1e-4).left_out(setting.responses, setting.counts)[system.rows_left_out]
    assert np.allclose(system.left_out(1e-4), exact, rtol=1e-9)
    assert (system.tally.products, system.factored) == (2, 1e-4)


@pytest.mark.parametrize("weighted", [True, False])
def test_rows_beside_the_sample_are_guessed_and_their_error_is_told(weighted, monkeypatch):
    setting = Setting(weighted=weighted)
    system = setting.system(0.05, monkeypatch, sample=150)
    assert system.grow()
    assert (len(system.rows_left_out), system.weight) == (600, pytest.approx(setting.n_samples))
    means = []
    for ratio in (0.4, 1.0, 2.5):
        exact = setting.factor(0.05 * ratio).left_out(setting.responses, setting.counts)
        found = system.left_out(0.05 * ratio)
        assert np.sqrt(np.mean((found / exact - 1) ** 2)) < 0.05
        means.append((np.stack([found, exact]) ** 2).sum(1) / setting.n_samples)
    gaps = np.diff(np.stack(means), axis=0)  # of mean squares between penalties: guessed and exact
    assert np.abs(gaps[:, 0] - gaps[:, 1]).max() <= 3 * system.guessed()
    assert 0 < system.guessed() < 0.05 * np.min(means)
    assert system.grow()
    assert system.grow()
    assert not system.grow()
    exact = setting.factor(0.1).left_out(setting.responses, setting.counts)
    assert np.allclose((system.left_out(0.1) ** 2).sum(0), (exact**2).sum(0), rtol=1e-4)
    assert system.guessed() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("filter", [GradientFlow(), Ridge()])
def test_a_pole_that_is_at_hand_serves_where_it_is_fine_enough(filter):
    found = as_resolvents(filter, 1e4, 0.8, 1e-4, pole=2.0)
    assert (found.pole, found.error <= 1e-4) == (2.0, True)
    values = np.geomspace(1e-9, 0.8, 300)
    u = 1 / (1 + 1e4 * values / 2.0)
    gain = (1 - u) * np.polynomial.chebyshev.chebval(2 * u - 1, found.coefficients)
    assert np.abs(gain - filter.gain(values, 1e4)).max() <= 1.2e-4
    far = as_resolvents(filter, 1e4, 0.8, 1e-6, pole=1e-3)
    assert far.pole == as_resolvents(filter, 1e4, 0.8, 1e-6).pole


def test_single_precision_is_left_for_penalties_that_it_would_round_away(monkeypatch):
    setting = Setting(dtype=np.float32)
    finest = setting.held.finest
    assert setting.system(1.1 * finest, monkeypatch)._held.dtype == np.float32
    assert setting.system(0.9 * finest, monkeypatch)._held.dtype == np.float64
    assert setting.held.finest == 0


def test_where_double_precision_does_not_fit_penalties_that_need_it_are_not_read():
    setting = Setting(dtype=np.float32)
    system = AnchorSystem(setting.held, setting.responses, setting.counts, fits_double=False)
    assert system.affordable == setting.held.finest
    system.left_out(system.affordable)
    with pytest.raises(MemoryError, match="below the rounding of float32"):
        system.at(0.5 * system.affordable)


@pytest.mark.filterwarnings("ignore::stopwise.exceptions.StopwiseWarning")
@pytest.mark.parametrize("precision", ["auto", "float64"])
def test_a_fit_holds_one_square_and_makes_half_of_its_entries(precision, monkeypatch):
    n = 2_600
    monkeypatch.setattr(solves_solver, "START_ROWS", 200)
    monkeypatch.setattr(solve_places, "SINGLE_ROWS", 1_000)
    monkeypatch.setattr("stopwise.engine.solves.factor.BLOCK", 256)  # columns of an inverse at once
    monkeypatch.setattr(anchor, "EVERY_ROW", 0)
    monkeypatch.setattr(anchor, "LEAST_LEFT_OUT", 100)
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (n, 2))
    y = np.sin(3 * x[:, 0]) + 0.3 * generator.normal(size=n)
    made, gram = [], Problem.gram

    def counted(problem, kernel, rows=None, columns=None):
        found = gram(problem, kernel, rows, columns)
        made.append(found.size)
        return found

    monkeypatch.setattr(Problem, "gram", counted)
    kernel = Matern(0.5, smoothness=1.5)
    model = sw.KernelRidgeRegressor(kernel, solver="preconditioned", precision=precision, tol=0.05, n_jobs=1)
    tracemalloc.start()
    model.fit(x, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(made) < 0.5 * n**2 + 500 * n + 200**2  # half a tile of columns too many for each, and the start
    assert peak < ((4 if precision == "auto" else 8) + 8 * 0.6) * n**2  # the square, and a few tiles of columns
