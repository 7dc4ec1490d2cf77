"""Rows left out alone by their unit vectors, against refits without each of them."""

from __future__ import annotations

import numpy as np
import pytest

from stopwise._support.torch import has_torch
from stopwise.engine.operators.centring import centred, centred_gram
from stopwise.engine.solves.preconditioned import Preconditioned
from stopwise.engine.solves.preconditioner import stand_in_of
from stopwise.engine.solves.products import unit_system
from stopwise.engine.solves.products.product_system import Equations, RawGram
from stopwise.engine.solves.products.unit_system import UnitSystem
from stopwise.engine.solves.systems import KNOWN
from stopwise.kernels import Gaussian, Laplace

if has_torch():
    import torch

NO_TORCH = pytest.mark.skipif(not has_torch(), reason="torch is not installed")
KINDS = ["numpy", pytest.param("torch", marks=[pytest.mark.torch, NO_TORCH])]
N = 160


class Setting:
    """A small problem with weights and two responses; products are counted."""

    def __init__(self, kind="numpy", *, intercept=True, kernel=None, counts=None, noise=0.2):
        generator = np.random.default_rng(5)
        self.kind, self.intercept, self.counts = kind, intercept, counts
        x = generator.uniform(-1, 1, (N, 2))
        self.gram = (Laplace(1.0) if kernel is None else kernel)(x)
        smooth = np.column_stack([np.sin(4 * x[:, 0]), x[:, 1] ** 2])
        self.y = smooth + noise * generator.normal(size=(N, 2))
        self.w = generator.uniform(0.5, 3.0, N)
        self.products = 0

    def take(self, values):
        return np.array(values) if self.kind == "numpy" else torch.from_numpy(np.array(values))

    def system(self, rank=N // 4):
        gram = self.take(self.gram)

        def product(block):
            self.products += 1
            return gram @ block

        raw = RawGram(product, lambda rows: gram[:, rows] + 0.0, gram.diagonal() + 0.0)
        settings = {"intercept": self.intercept, "rank": rank, "seed": 0}
        return UnitSystem(Equations(raw, self.take(self.y), self.take(np.sqrt(self.w)), **settings), self.counts)

    def refitted(self, row, penalty):
        """What the response at a row is over its prediction from all others, times the root of its weight."""
        weights = self.w.copy()
        count = 1.0 if self.counts is None else self.counts[row]
        weights[row] *= 1 - 1 / count
        kept = np.flatnonzero(weights > 0)
        system = self.gram[np.ix_(kept, kept)] + penalty * np.diag(1 / weights[kept])
        if not self.intercept:
            return np.sqrt(self.w[row]) * (self.y[row] - self.gram[row, kept] @ np.linalg.solve(system, self.y[kept]))
        bordered = np.ones((len(kept) + 1, len(kept) + 1))
        bordered[:-1, :-1], bordered[-1, -1] = system, 0.0
        solved = np.linalg.solve(bordered, np.vstack([self.y[kept], np.zeros(2)]))
        return np.sqrt(self.w[row]) * (self.y[row] - self.gram[row, kept] @ solved[:-1] - solved[-1])

    def exact(self, rows, penalty):
        return np.array([self.refitted(row, penalty) for row in rows])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [10.0, 1e-2, 1e-5, 1e-9])
def test_residuals_are_those_of_refits_without_each_row(kind, intercept, penalty):
    setting = Setting(kind, intercept=intercept)
    system = setting.system()
    exact = setting.exact(system.rows_left_out, penalty)
    found = system.left_out(penalty)
    assert sorted(system.rows_left_out) == list(range(N))
    assert np.all(np.abs((found**2).sum(0) / (exact**2).sum(0) - 1) <= KNOWN)
    assert np.abs(found - exact).max() < 1e-3 * np.abs(exact).max()


def test_of_a_row_that_stands_for_several_observations_one_is_left_out():
    counts = np.random.default_rng(0).integers(1, 4, N).astype(float)
    setting = Setting(counts=counts)
    system = setting.system()
    exact = setting.exact(system.rows_left_out, 0.1)
    assert np.abs(system.left_out(0.1) - exact).max() < 1e-3 * np.abs(exact).max()


@pytest.mark.parametrize(("penalty", "steps"), [(1.0, 4), (1e-4, 5), (1e-7, 8), (1e-10, 15)])
@pytest.mark.parametrize("kernel", [Laplace(1.0), Gaussian(0.7)], ids=lambda kernel: kernel.name)
def test_a_few_steps_do_at_any_penalty(kernel, penalty, steps):
    """A quarter of the rows a block: four steps span everything but for rounding, down to the smallest penalty read."""
    setting = Setting(kernel=kernel, noise=0.0)
    system = setting.system()
    system.expect(penalty, 1e-4)
    found = system.left_out(penalty)
    assert setting.products <= 4 * steps + 1
    error = np.maximum(1e-4 * np.sqrt(np.mean(system.responses**2, axis=0)), np.sqrt(np.mean(found**2, axis=0)))
    assert np.all(system.unsolved(penalty) <= 2 * KNOWN * error)  # rows of later blocks may have larger leverages


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("penalty", [1e-2, 1e-5])
def test_residuals_of_unfinished_solves_are_off_by_no_more_than_they_say(most, penalty, monkeypatch):
    setting = Setting()
    system = setting.system(rank=20)
    at = system.at

    def stopped(penalty, tol=1e-6):
        solver = at(penalty, tol)
        return Preconditioned(solver.multiply, solver.stand_in, penalty, solver.centre, most_products=most)

    monkeypatch.setattr(system, "at", stopped)
    off = np.sqrt(np.mean((system.left_out(penalty) - setting.exact(system.rows_left_out, penalty)) ** 2, axis=0))
    assert np.all(off <= system.unsolved(penalty))
    assert np.all(off > 0)


def test_more_rows_follow_until_all_are_left_out_and_none_is_solved_for_twice(monkeypatch):
    monkeypatch.setattr(unit_system, "LEAST_LEFT_OUT", 50)
    setting = Setting()
    system = setting.system()
    sizes, found = [], []
    while True:
        found.append(system.left_out(0.1))
        sizes.append(len(system.rows_left_out))
        before = setting.products
        system.left_out(0.1)
        assert setting.products == before
        if not system.grow():
            break
    assert sizes == [50, 100, 160]
    assert np.array_equal(found[2][:100], found[1])
    assert system.weight == pytest.approx(setting.w.sum())
    once = Setting()
    monkeypatch.setattr(unit_system, "LEAST_LEFT_OUT", N)
    assert np.abs(once.system().left_out(0.1) - found[2]).max() < 1e-4 * np.abs(found[2]).max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 30])
@pytest.mark.parametrize("penalty", [1.0, 1e-3, 1e-6])
def test_quadratic_forms_of_the_inverse_are_between_the_two_ends_told(kind, steps, penalty):
    setting = Setting(kind)
    q = setting.take(np.sqrt(setting.w / setting.w.sum()))
    roots = setting.take(np.sqrt(setting.w))
    features = centred_gram(setting.take(setting.gram), roots, None)
    matrix = centred_gram(setting.take(setting.gram), roots, q)
    values, vectors = np.linalg.eigh(np.asarray(features))
    half = setting.take(vectors[:, -20:] * np.sqrt(values[-20:]))
    solver = Preconditioned(
        lambda b: matrix @ b,
        stand_in_of(half, half.T @ half, q),
        penalty,
        lambda b: centred(b, q),
        most_products=steps,
    )
    block = np.random.default_rng(1).normal(size=(N, 12))
    found = solver.quadratic_forms(setting.take(block), lambda least, short: False)
    inner = block - np.outer(np.asarray(q), np.asarray(q) @ block)
    exact = (inner * np.linalg.solve(np.asarray(matrix) + penalty * np.eye(N), inner)).sum(0)
    assert np.all(found.least <= exact * (1 + 1e-9))
    assert np.all(exact <= (found.least + found.short) * (1 + 1e-9))
    if steps == 30:
        assert np.all(found.short <= 1e-3 * exact)
