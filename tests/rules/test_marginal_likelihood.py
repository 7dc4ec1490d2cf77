"""Evidence along the clock is the Gaussian likelihood written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import stopwise as sw
from stopwise.kernels import Matern


def test_evidence_is_largest_where_the_gaussian_likelihood_written_out_is():
    generator = np.random.default_rng(5)
    x = generator.uniform(-1, 1, (60, 2))
    y = np.sin(3 * x[:, 0]) + 0.3 * generator.normal(size=60)
    kernel = Matern(0.8, smoothness=1.5)
    model = sw.KernelRidgeRegressor(kernel, rule="evidence", solver="dense", fit_intercept=False).fit(x, y)
    gram = kernel(x) / 60

    def minus_log_likelihood(log_step_sum):
        covariance = np.eye(60) + np.exp(log_step_sum) * gram
        scale = y @ np.linalg.solve(covariance, y) / 60
        return 60 * np.log(scale) + np.linalg.slogdet(covariance)[1]

    found = scipy.optimize.minimize_scalar(minus_log_likelihood, bounds=(-5, 15), method="bounded")
    assert np.log(model.step_sum_) == pytest.approx(found.x, abs=1e-3)
    assert model.stop_.evidence.rule == "evidence"


def test_descent_stops_at_the_reading_that_evidence_finds_for_ridge():
    generator = np.random.default_rng(6)
    x = generator.uniform(-1, 1, (80, 1))
    y = np.abs(x[:, 0]) + 0.3 * generator.normal(size=80)
    kernel = Matern(0.8, smoothness=1.5)
    ridge = sw.KernelRidgeRegressor(kernel, rule="evidence", solver="dense").fit(x, y)
    descent = sw.KernelGradientRegressor(kernel, rule=sw.rules.MarginalLikelihood(), solver="dense").fit(x, y)
    assert descent.step_sum_ <= ridge.step_sum_ <= 1.1 * descent.step_sum_
