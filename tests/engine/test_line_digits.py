"""The line's passes against 50 digits, on designs for which double precision has no dense answer."""

from __future__ import annotations

import numpy as np
import pytest

import line_reference
import stopwise as sw
from stopwise.engine.line.fits import fit_at, posterior_variance
from stopwise.engine.line.merged_rows import merge_rows
from stopwise.engine.line.repeated_solves import LineProduct
from stopwise.engine.line.transitions import state_space

KERNELS = [
    sw.kernels.Sobolev(1),
    sw.kernels.Sobolev(2),
    sw.kernels.Sobolev(2, anchored=False),
    sw.kernels.Matern(0.2, smoothness=0.5),
    sw.kernels.Matern(0.2, smoothness=1.5),
    sw.kernels.Matern(0.3, smoothness=2.5),
]
DESIGNS = ["even", "pairs", "cluster", "uneven"]


def places(design, n, gap, rng):
    """n places of [0, 1]: the closest of all but the even ones are `gap` apart."""
    if design == "even":
        return (np.arange(n) + 0.5) / n
    if design == "pairs":
        x = rng.random(n // 2)
        return np.unique(np.concatenate([x, x + gap]))
    if design == "cluster":
        return np.unique(np.concatenate([0.3 + gap * np.arange(n // 2), rng.random(n // 2)]))
    steps = 10 ** rng.uniform(np.log10(gap), 0, n)  # gaps of every size, twelve (or nine) powers of ten
    return np.unique(np.cumsum(steps) / steps.sum())


def problem(kernel, design, n):
    rng = np.random.default_rng(50)
    x = places(design, n, 1e-12 if state_space(kernel).size == 1 else 1e-9, rng)
    return x, np.sin(6 * x) + 0.3 * rng.standard_normal(len(x)), rng.random(20)


def agrees_with_fifty_digits(kernel, design, n, penalty):
    x, y, new = problem(kernel, design, n)
    exact = line_reference.by_states(kernel, x, y, penalty, new)
    rows, space = merge_rows(x, y[:, None]), state_space(kernel)
    fit = fit_at(rows, space, penalty, intercept=True)
    line, dual = LineProduct(space, rows.covariate), fit.dual[:, 0]
    level = (fit.fitted[:, 0] - line.own(dual)).mean()
    spread = posterior_variance(rows, space, penalty, new, intercept=True)
    np.testing.assert_allclose(fit.residuals[:, 0, 0], exact.residuals, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fit.leverage_left[:, 0], 1 - exact.leverages, rtol=1e-9)
    np.testing.assert_allclose(1 - fit.leverage_left[:, 0], exact.leverages, rtol=1e-9)
    assert fit.log_determinant[0] == pytest.approx(exact.log_determinant, rel=1e-11)
    np.testing.assert_allclose(line.at(new, dual)[:, 0] + level, exact.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.sqrt(spread), np.sqrt(exact.variance), rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_reference_by_states_is_that_of_the_whole_matrix(kernel):
    x, y, new = problem(kernel, "uneven", 30)
    states, whole = (solve(kernel, x, y, 1e-5, new[:2]) for solve in (line_reference.by_states, line_reference.dense))
    for name, value in vars(whole).items():
        np.testing.assert_allclose(vars(states)[name], value, rtol=1e-15)


@pytest.mark.parametrize("penalty", [1e-5, 10.0])
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gaps_of_a_trillionth_lose_nothing_against_fifty_digits(kernel, design, penalty):
    agrees_with_fifty_digits(kernel, design, 60, penalty)


@pytest.mark.deep
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_ten_thousand_rows_lose_nothing_against_fifty_digits(kernel, design):
    agrees_with_fifty_digits(kernel, design, 10_000, 1e-3)
