"""Noise that neighbours share: the line's likelihood is the dense one, and the stop no longer follows it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.problems import wave_in_shared_noise

import stopwise as sw
from stopwise.engine.line.fits import fit_at
from stopwise.engine.line.merged_rows import merge_rows
from stopwise.engine.line.scores import evidence, shared_noise
from stopwise.engine.line.transitions import Spline, WithSharedNoise, state_space

KERNELS = [
    sw.kernels.Sobolev(2),
    sw.kernels.Sobolev(2, anchored=False),
    sw.kernels.Matern(0.3, 1.5),
    sw.kernels.Matern(0.3, 2.5),
]


def dense_parts(kernel, x, rate, level, nugget):
    """C and P of curve plus noise, and the restricted likelihood's determinant, as the formulas stand."""
    apart = np.abs(x[:, None] - x)
    matrix = kernel(x[:, None]) + level * (np.exp(-rate * apart) + nugget * np.eye(len(x)))
    inverse, ones = np.linalg.inv(matrix), np.ones(len(x))
    total = ones @ inverse @ ones
    return matrix, inverse - np.outer(inverse @ ones, inverse @ ones) / total, total


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.name} {getattr(k, 'anchored', '')}")
def test_fit_and_likelihood_are_the_dense_ones(kernel):
    rng = np.random.default_rng(0)
    x, y = np.sort(rng.random(40)), rng.normal(size=(40, 1))
    space = state_space(kernel)
    unit = 1.0 if isinstance(space, Spline) else space.rate
    rates, levels = np.array([3.0, 20.0]), np.array([0.5, 0.01])
    combined = WithSharedNoise(space, rates / unit, levels)
    fit = fit_at(merge_rows(x, y), combined, 1e-3 * levels, intercept=True)
    for j in range(2):
        matrix, projected, total = dense_parts(kernel, x, rates[j], levels[j], 1e-3)
        dual = projected @ y[:, 0]
        assert np.max(np.abs(fit.dual[:, j, 0] - dual)) < 1e-10 * np.abs(dual).max()
        assert fit.energy[j, 0] == pytest.approx(y[:, 0] @ dual, rel=1e-10)
        free = 39 * np.log(y[:, 0] @ dual / 39) + np.linalg.slogdet(matrix)[1] + np.log(total / 40)
        assert 40 * evidence(fit)[j, 0] == pytest.approx(free, abs=1e-8)


def test_no_other_correlation_is_likelier():
    X, truth, noise = wave_in_shared_noise(0, 0.7, 120)
    y, space = (truth + noise)[:, None], state_space(sw.kernels.Sobolev(2))
    found = shared_noise(merge_rows(X[:, 0], y), space, 0, intercept=True)

    def cost(rho, level):
        matrix, projected, total = dense_parts(sw.kernels.Sobolev(2), X[:, 0], -np.log(rho) * 120, level, 1e-6)
        return 119 * np.log(y[:, 0] @ projected @ y[:, 0]) + np.linalg.slogdet(matrix)[1] + np.log(total)

    least = cost(found.correlation, found.penalty)
    for rho in (found.correlation - 0.03, found.correlation + 0.03):
        assert cost(rho, found.penalty) > least - 1e-3
    for factor in (0.8, 1.25):
        assert cost(found.correlation, factor * found.penalty) > least - 1e-3
    assert found.noise_std == pytest.approx(0.3, rel=0.3)


def test_a_stop_that_knows_of_shared_noise_does_not_follow_it():
    risks = []
    for seed in range(5):
        X, truth, noise = wave_in_shared_noise(seed, 0.8)
        one = sw.KernelRidgeRegressor(noise_std=sw.noise.AR1()).fit(X, truth + noise)
        other = sw.KernelRidgeRegressor(one.kernel_).fit(X, truth + noise)
        best = sw.KernelRidgeRegressor(one.kernel_, rule=sw.rules.Oracle(truth)).fit(X, truth + noise)
        risks.append([np.mean((m.predict(X) - truth) ** 2) for m in (one, other, best)])
        assert one.solver_ == "line"
    knowing, following, oracle = np.mean(risks, axis=0)
    assert knowing < 1.5 * oracle
    assert following > 2 * knowing


def test_independent_noise_keeps_its_level_and_descent_its_clock():
    X, truth, noise = wave_in_shared_noise(3, 0.0)
    model = sw.KernelGradientRegressor(sw.kernels.Matern(0.5, 2.5), noise_std=sw.noise.AR1()).fit(X, truth + noise)
    assert model.noise_std_ == pytest.approx(0.3, rel=0.2)
    assert np.mean((model.predict(X) - truth) ** 2) < 0.01


def test_a_model_with_shared_noise_is_saved_and_explained(tmp_path):
    X, truth, noise = wave_in_shared_noise(1, 0.8)
    model = sw.KernelRidgeRegressor(noise_std=sw.noise.AR1()).fit(X, truth + noise)
    sw.save(model, tmp_path / "m.stopwise")
    assert np.array_equal(sw.load(tmp_path / "m.stopwise").predict(X), model.predict(X))
    assert "marginal-likelihood" in sw.explain(model)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"kernel": "sobolev1"}, "cannot be told from noise that neighbours share"),
        ({"kernel": sw.kernels.Laplace(1.0)}, "got laplace"),
        ({"kernel": sw.kernels.Gaussian(1.0)}, "sobolev2, matern32 and matern52"),
        ({"kernel": "matern52"}, "needs the length scale"),
        ({"rule": "sure"}, 'goes with rule="auto"'),
        ({"solver": "dense"}, 'use solver="line"'),
    ],
)
def test_what_cannot_be_told_from_shared_noise_is_refused(settings, match):
    X, truth, noise = wave_in_shared_noise(0, 0.5, 60)
    with pytest.raises(ValueError, match=match):
        sw.KernelRidgeRegressor(noise_std=sw.noise.AR1(), **settings).fit(X, truth + noise)


def test_repeated_places_and_standard_deviations_are_refused():
    X, truth, noise = wave_in_shared_noise(0, 0.5, 60)
    with pytest.raises(ValueError, match="some places repeat"):
        sw.KernelRidgeRegressor(noise_std=sw.noise.AR1()).fit(np.repeat(X[:30], 2, axis=0), truth + noise)
    model = sw.KernelRidgeRegressor(noise_std=sw.noise.AR1()).fit(X, truth + noise)
    with pytest.raises(ValueError, match="as independent"):
        model.predict(X, return_std=True)
