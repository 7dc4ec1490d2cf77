"""Losses are what they say: convex, with true derivatives, and refused where they do not apply."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.loss_cases import CASES
from scipy.special import gammaln

from stopwise.losses import Huber, Logistic, Poisson, Quantile, Softmax, Squared, as_loss
from stopwise.losses.base import spread_of, weighted_quantile


@pytest.fixture(params=CASES)
def drawn(request):
    loss, draw = CASES[request.param]
    rng = np.random.default_rng(1)
    f = rng.normal(size=(40, loss.width))
    return loss, draw(rng, f[:, 0]), f


def test_the_slope_is_the_derivative_of_the_value(drawn):
    loss, y, f = drawn
    for c in range(loss.width):
        step = np.zeros(loss.width)
        step[c] = 1e-6
        found = (loss.value(y, f + step) - loss.value(y, f - step)) / 2e-6
        assert np.allclose(loss.slope(y, f)[:, c], found, atol=1e-6)


def test_the_logistic_curvature_keeps_its_digits_however_wrong_a_label_is():
    f = np.array([[-35.0], [-20.0], [0.5], [20.0], [35.0]])
    for label in (0.0, 1.0):
        found = Logistic().curvature(np.full(5, label), f)[:, 0, 0]
        np.testing.assert_allclose(found, 1 / (2 + 2 * np.cosh(f[:, 0])), rtol=1e-13)


def test_the_curvature_is_the_derivative_of_the_slope(drawn):
    loss, y, f = drawn
    if isinstance(loss, Huber):
        f = f[np.abs(np.abs(y - f[:, 0]) - loss.threshold) > 1e-3]
        y = y[: len(f)] if len(y) == len(f) else y[np.abs(np.abs(y - drawn[2][:, 0]) - loss.threshold) > 1e-3]
    for c in range(loss.width):
        step = np.zeros(loss.width)
        step[c] = 1e-6
        found = (loss.slope(y, f + step) - loss.slope(y, f - step)) / 2e-6
        assert np.allclose(loss.curvature(y, f)[:, :, c], found, atol=1e-6)


def test_values_are_convex_along_every_line(drawn):
    loss, y, f = drawn
    other = np.random.default_rng(2).normal(size=f.shape)
    middle = loss.value(y, (f + other) / 2)
    assert np.all(middle <= (loss.value(y, f) + loss.value(y, other)) / 2 + 1e-12)


def test_no_value_is_below_zero_but_the_quantiles(drawn):
    loss, y, f = drawn
    assert np.all(loss.value(y, f) >= -1e-12)


def test_probabilities_add_up_to_one_and_agree_with_the_value():
    loss = Softmax(4)
    f = np.random.default_rng(0).normal(size=(20, 3))
    p = loss.natural(f)
    assert np.allclose(p.sum(axis=1), 1)
    assert np.allclose(-np.log(p[:, 2]), loss.value(np.full(20, 2.0), f))


def test_curvature_lies_between_the_bounds_that_the_theorem_uses():
    for name in ("squared", "logistic", "exponential"):
        loss, draw = CASES[name]
        f = np.linspace(-1.5, 1.5, 31)[:, None]
        bounds = loss.convexity(1.5)
        bend = loss.curvature(draw(np.random.default_rng(0), f[:, 0]), f)
        assert bend.min() >= bounds.least - 1e-12
        assert bend.max() <= bounds.most + 1e-12


@pytest.mark.parametrize("loss", [Poisson(), Quantile(0.5, 1.0)])
def test_the_published_path_refuses_losses_without_curvature(loss):
    with pytest.raises(ValueError, match="bounded from above and away from 0"):
        loss.convexity(1.0)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.5, float("nan"), "half"])
def test_a_quantile_outside_of_0_and_1_is_refused(level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Quantile(level)


def test_negative_counts_are_refused_with_the_value():
    with pytest.raises(ValueError, match="got -2"):
        Poisson().check(np.array([1.0, -2.0]))


def test_a_count_costs_the_more_the_further_a_fit_overshoots_it():
    loss, f = Poisson(), np.array([[5.0], [600.0], [700.0], [1e6]])
    assert np.all(np.diff(loss.value(np.full(4, 7.0), f)) > 0)


def test_squares_see_counts_on_the_scale_of_the_link_without_bias_of_first_order():
    """E log(y + c) - log m is (c - 1/2) / m + O(1 / m^2): by the sum over all counts."""
    for mean in (10.0, 20.0, 40.0):
        y = np.arange(400.0)
        chance = np.exp(y * np.log(mean) - mean - gammaln(y + 1))
        bias = chance @ Poisson().targets(y, np.zeros(400))[:, 0] - np.log(mean)
        assert abs(bias) < 0.1 / mean


def test_names_and_instances_are_losses_of_their_kind_only():
    assert as_loss("squared", classes=False) == Squared()
    with pytest.raises(ValueError, match="logistic"):
        as_loss("squared", classes=True)


def test_spread_and_quantiles_count_weights_as_copies():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=50), rng.integers(1, 5, 50)
    copies = np.repeat(values, weights)
    assert spread_of(values, weights.astype(float)) == pytest.approx(spread_of(copies, np.ones(len(copies))))
    assert weighted_quantile(values, weights, 0.3) == weighted_quantile(copies, np.ones(len(copies)), 0.3)
