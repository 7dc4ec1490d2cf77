"""Kernels where rows share their noise, against leaving groups out by hand."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import stopwise as sw
from stopwise.estimators.doubts import TrustWarning
from stopwise.problem import make_problem
from stopwise.rules import DependentRowsWarning
from stopwise.selection.dependent_rows import LONGER_SCALES, judge, longer


def in_groups(seed, columns=1, n_groups=60, size=6):
    """Rows of a group stand at one place and share .4 of their noise; each has .1 of its own."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    X = rng.uniform(size=(n_groups, columns))[groups]
    truth = np.sin(6 * X[:, 0])
    return X, truth, truth + 0.4 * rng.normal(size=n_groups)[groups] + 0.1 * rng.normal(size=len(groups)), groups


def test_a_longer_scale_of_every_kernel_that_has_one_is_tried():
    kernels = list(longer([sw.kernels.Gaussian((0.1, 0.2)), sw.kernels.Linear()]))
    assert kernels == [*(sw.kernels.Gaussian((0.1 * f, 0.2 * f)) for f in LONGER_SCALES), sw.kernels.Linear()]


def test_errors_are_those_of_ridge_fitted_to_the_other_groups_at_its_best_penalty():
    X, _, y, groups = in_groups(0, n_groups=12, size=3)
    problem = make_problem(X, y[:, None], None, intercept=True, seed=0)
    kernels = [sw.kernels.Gaussian(0.3), sw.kernels.Laplace(0.1)]
    judged = judge(replace(problem, subjects=groups), kernels)
    for kernel, found in zip(kernels, judged.errors, strict=True):
        errors = []
        for penalty in np.geomspace(1e-6, 1e6, 400):
            total = 0.0
            for group in range(12):
                rest, own = groups != group, groups == group
                inverse = np.linalg.inv(kernel(X[rest]) + penalty * np.eye(rest.sum()))
                level = inverse.sum(axis=0) @ y[rest] / inverse.sum()
                total += np.sum((y[own] - level - kernel(X[own], X[rest]) @ inverse @ (y[rest] - level)) ** 2)
            errors.append(total / 36 / np.var(y))
        assert min(errors) * (1 - 1e-6) <= found <= 1.02 * min(errors)  # penalties by factors of three


@pytest.mark.parametrize(("columns", "n_groups"), [(1, 20), (1, 60), (3, 50)])
def test_the_kernel_does_not_follow_noise_that_groups_share(columns, n_groups):
    """A kernel chosen by single rows takes what a group shares for signal: .16 of squared error."""
    ratios = []
    for seed in range(3):
        X, truth, y, groups = in_groups(seed, columns, n_groups)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DependentRowsWarning)
            model = sw.KernelGradientRegressor().fit(X, y, groups=groups)
            warnings.simplefilter("ignore", TrustWarning)  # of scales that would be shorter still
            alone = sw.KernelGradientRegressor().fit(X, y)
        ratios.append([np.mean((each.predict(X) - truth) ** 2) for each in (model, alone)])
        assert model.selection_.chosen["kernel"] == model.selection_[0]["kernel"]
        assert "left out together as well as any" in model.selection_.reason
        assert model.noise_std_ == pytest.approx(np.hypot(0.4, 0.1), rel=0.35)
    together, alone = np.mean(ratios, axis=0)
    assert together < 0.6 * alone


def test_without_shared_noise_groups_cost_little():
    ratios = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, groups = rng.uniform(size=(120, 2)), np.repeat(np.arange(30), 4)
        truth = np.sin(6 * X[:, 0]) * X[:, 1]
        y = truth + 0.2 * rng.normal(size=120)
        models = sw.KernelGradientRegressor().fit(X, y, groups=groups), sw.KernelGradientRegressor().fit(X, y)
        ratios.append([np.mean((each.predict(X) - truth) ** 2) for each in models])
    together, alone = np.mean(ratios, axis=0)
    assert together < 1.3 * alone


def test_several_responses_of_groups_are_judged_together_and_constant_ones_not_at_all():
    X, _, y, groups = in_groups(1, n_groups=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)
        model = sw.KernelRidgeRegressor().fit(X, np.column_stack([y, np.ones(len(y)), -2 * y]), groups=groups)
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted[:, 1], 1.0)
    np.testing.assert_allclose(predicted[:, 2], -2 * predicted[:, 0], atol=0.05)


def test_a_report_a_notebook_and_a_file_show_what_was_judged(tmp_path):
    X, _, y, groups = in_groups(2, columns=2, n_groups=20, size=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)
        model = sw.KernelGradientRegressor().fit(X, y, groups=groups)
    sw.report(model, tmp_path / "report.html", X=X, y=y)
    assert "left out together as well as any" in model.selection_._repr_html_()
    sw.save(model, tmp_path / "model.stopwise")
    loaded = sw.load(tmp_path / "model.stopwise")
    assert loaded.selection_.reason == model.selection_.reason
    assert loaded.noise_std_ == model.noise_std_
    scales = [row["length_scale"] for row in model.selection_.features]
    np.testing.assert_allclose(scales, model.kernel_.core.scales)


def test_kernels_that_a_linear_part_leaves_nothing_of_are_judged_too():
    """At long length scales beside slopes the kernel's eigenvalues are rounding, and only no step is left to judge."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(500, 2)), np.repeat(np.arange(50), 10)
    y = 3 * X[:, 0] + 0.5 * rng.normal(size=50)[groups] + 0.3 * rng.normal(size=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)
        model = sw.KernelGradientRegressor().fit(X, y, groups=groups)
    assert model.linear_coef_ is not None
    np.testing.assert_allclose(model.predict(X), 3 * X[:, 0], atol=0.5)
    problem = replace(make_problem(X, y[:, None], None, intercept=True, seed=0).with_trend(), subjects=groups)
    judged = judge(problem, [sw.kernels.Gaussian(1e9)])
    slopes = np.column_stack([np.ones(500), X])
    left, rows = [], problem.random_rows(400)
    for group in range(50):
        rest, own = rows[groups[rows] != group], rows[groups[rows] == group]
        left.append(y[own] - slopes[own] @ np.linalg.lstsq(slopes[rest], y[rest], rcond=None)[0])
    assert judged.freedom[0] < 1e-6
    part = problem.subset(rows, sw.kernels.Constant()).with_trend()
    variance = np.mean(part.responses**2) * float(problem.scale[0]) ** 2
    assert judged.errors[0] == pytest.approx(np.mean(np.concatenate(left) ** 2) / variance, rel=1e-8)
