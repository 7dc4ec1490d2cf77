"""The published path is plain functional descent, step by step, and stops where the theorem does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.loss_cases import problem

from stopwise.complexity import critical_radius
from stopwise.engine.loss_fits.functional_descent import published_fit, published_stop
from stopwise.kernels import Gaussian, Matern
from stopwise.losses import Logistic, Quantile, Squared
from stopwise.rules import Reason, Stop


@pytest.mark.parametrize("name", ["squared", "logistic", "exponential", "softmax", "huber"])
def test_iterates_are_those_of_function_space(name):
    given, gram = problem(name, Matern(1.5), 50, 0, intercept=False)
    f = np.zeros((50, given.loss.width))
    for steps in range(1, 61):
        f = f - 0.3 * (gram / 50) @ given.loss.slope(given.y, f)
        if steps in (1, 2, 7, 30, 60):
            iterate = published_fit(given, Stop(steps, 0.3 * steps, Reason.CROSSING))
            assert np.max(np.abs(iterate.fitted - f)) < 1e-10


def test_the_stop_is_the_theorems():
    values = 1 / np.arange(1, 101.0) ** 2
    stop = published_stop(Logistic(), values, 1.0)
    m, radius = 1 / (2 + 2 * math.cosh(1.0)), critical_radius(values, 0.5, constant=1.0)
    assert stop.iteration == math.floor(m / (8 * 0.25 * radius**2))
    assert stop.step_sum == 0.25 * stop.iteration


def test_squares_need_a_noise_level_and_quantiles_are_refused():
    values = 1 / np.arange(1, 101.0) ** 2
    with pytest.raises(ValueError, match="give noise_std"):
        published_stop(Squared(), values, 1.0)
    with pytest.raises(ValueError, match="has no such bounds"):
        published_stop(Quantile(0.5, 1.0), values, 1.0)


def test_a_published_fit_takes_the_steps_of_its_stop():
    given, _ = problem("logistic", Gaussian(1.0), 60, 1, intercept=False)
    stop = published_stop(given.loss, given.energies / 60, 1.0)
    f = np.zeros((60, 1))
    for _ in range(stop.iteration):
        f = f - stop.step_sum / stop.iteration / 60 * given.features @ given.features.T @ given.loss.slope(given.y, f)
    assert stop.iteration > 0
    assert np.max(np.abs(published_fit(given, stop).fitted - f)) < 1e-10
