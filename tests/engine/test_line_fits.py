"""The line's passes against dense algebra in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import stopwise as sw
from stopwise.engine.line.fits import fit_at, posterior_variance
from stopwise.engine.line.merged_rows import merge_rows
from stopwise.engine.line.repeated_solves import LineProduct
from stopwise.engine.line.transitions import state_space

KERNELS = [
    sw.kernels.Sobolev(1),
    sw.kernels.Sobolev(1, anchored=False),
    sw.kernels.Sobolev(2),
    sw.kernels.Sobolev(2, anchored=False),
    sw.kernels.Laplace(0.2),
    sw.kernels.Matern(0.2, smoothness=0.5),
    sw.kernels.Matern(0.2, smoothness=1.5),
    sw.kernels.Matern(0.3, smoothness=2.5),
]


class Dense:
    """The same answers from the whole matrix, row by row."""

    def __init__(self, gram, y, weights, penalty, intercept):
        n = len(y)
        self.noise = np.diag(penalty / weights)
        self.inverse = np.linalg.inv(gram + self.noise)
        ones = np.ones(n)
        self.image = self.inverse @ ones
        self.total = ones @ self.image
        self.projected = self.inverse - intercept * np.outer(self.image, self.image) / self.total
        self.constant = intercept * (self.image @ y) / self.total
        self.dual = self.projected @ y
        self.residuals = self.noise @ self.dual
        self.leverages = 1 - np.diag(self.noise @ self.projected)
        root = np.sqrt(weights)
        _, self.log_determinant = np.linalg.slogdet(np.eye(n) + root[:, None] * gram * root / penalty)
        if intercept:
            self.log_determinant += np.log(self.total * penalty / weights.sum())
        self.intercept = intercept

    def predict(self, cross, prior):
        spread = prior - np.einsum("ij,jk,ik->i", cross, self.inverse, cross)
        return cross @ self.dual + self.constant, spread + self.intercept * (1 - cross @ self.image) ** 2 / self.total


def random_problem(rng, largest):
    n = int(rng.integers(2, largest))
    x = rng.random(n) if rng.random() < 0.7 else np.round(rng.random(n), 2)
    if rng.random() < 0.3:
        x = x**3
    weights = np.ones(n) if rng.random() < 0.4 else rng.uniform(0.2, 4, n)
    y = np.sin(rng.uniform(1, 20) * x)[:, None] + rng.uniform(0.01, 1) * rng.standard_normal((n, 2))
    return x, y, weights, 10 ** rng.uniform(-2, 2), bool(rng.random() < 0.6)


def agrees_with_dense(kernel, rng, largest):
    x, y, weights, penalty, intercept = random_problem(rng, largest)
    rows, space = merge_rows(x, y, weights), state_space(kernel)
    fit = fit_at(rows, space, np.array([penalty, 3 * penalty]), intercept=intercept)
    dense = Dense(kernel(x[:, None], x[:, None]), y, weights, penalty, intercept)
    new = rng.random(20)
    mean, variance = dense.predict(kernel(new[:, None], x[:, None]), kernel.diagonal(new[:, None]))
    prediction = LineProduct(space, rows.covariate).at(new, fit.dual[:, 0]) + dense.constant
    spread = posterior_variance(rows, space, penalty, new, intercept=intercept)
    size = np.abs(y).max()
    np.testing.assert_allclose(y - rows.by_row(fit.fitted[:, 0]), dense.residuals, atol=1e-9 * size)
    taken = np.bincount(rows.place_of, weights=dense.leverages)
    np.testing.assert_allclose(1 - fit.leverage_left[:, 0], taken, atol=1e-9)
    assert fit.degrees_of_freedom[0] == pytest.approx(dense.leverages.sum() - intercept, abs=1e-9 * len(x))
    assert fit.log_determinant[0] == pytest.approx(dense.log_determinant, abs=1e-9 * len(x))
    energy = penalty * (y * dense.dual).sum(axis=0)
    np.testing.assert_allclose(fit.scaled_energy()[0], energy, rtol=1e-8, atol=1e-9 * size**2)
    np.testing.assert_allclose(prediction, mean, atol=1e-9 * size)
    np.testing.assert_allclose(np.sqrt(spread), np.sqrt(variance), atol=1e-9)
    norms = (dense.dual * (kernel(x[:, None], x[:, None]) @ dense.dual)).sum(axis=0)
    np.testing.assert_allclose((fit.dual * fit.fitted).sum(axis=0)[0], norms, rtol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_fits_leverages_evidence_and_predictions_are_those_of_the_whole_matrix(kernel):
    rng = np.random.default_rng(19)
    for _ in range(8):
        agrees_with_dense(kernel, rng, 120)


@pytest.mark.deep
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_two_hundred_problems_of_up_to_400_rows_agree_with_the_whole_matrix(kernel):
    rng = np.random.default_rng(1919)
    for _ in range(200):
        agrees_with_dense(kernel, rng, 401)


def test_rows_written_twice_are_rows_of_weight_two():
    rng = np.random.default_rng(2)
    x, y = rng.random(30), rng.standard_normal((30, 1))
    space = state_space(sw.kernels.Matern(0.3, smoothness=1.5))
    twice = fit_at(merge_rows(np.tile(x, 2), np.tile(y, (2, 1))), space, 0.3, intercept=True)
    weighted = fit_at(merge_rows(x, y, np.full(30, 2.0)), space, 0.3, intercept=True)
    np.testing.assert_allclose(twice.fitted, weighted.fitted, atol=1e-12)
    np.testing.assert_allclose(twice.log_determinant, weighted.log_determinant, rtol=1e-12)


def test_several_length_scales_share_a_pass():
    from stopwise.engine.line.transitions import Stationary

    rng = np.random.default_rng(3)
    rows = merge_rows(rng.random(200), rng.standard_normal((200, 1)))
    rates, penalties = np.array([3.0, 10.0, 40.0]), np.array([0.1, 1.0, 10.0])
    together = fit_at(rows, Stationary(3, rates), penalties, intercept=True)
    for j, (rate, penalty) in enumerate(zip(rates, penalties, strict=True)):
        alone = fit_at(rows, Stationary(3, float(rate)), penalty, intercept=True)
        np.testing.assert_allclose(together.fitted[:, j], alone.fitted[:, 0], atol=1e-12)
        np.testing.assert_allclose(together.log_determinant[j], alone.log_determinant[0], rtol=1e-12)
