"""Designs, spectra and integrals that experiments rest on, against slower ways to the same numbers."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

import reference
import stopwise as sw
from stopwise.experiments import bounds, classes, rates
from stopwise.experiments.random_design import integrated_square, make_design
from stopwise.experiments.setting import (
    correlated_noise,
    descent,
    equispaced,
    fig_setting,
    generator,
    grid_coefficients,
    grid_eigenvalues,
    heavy_noise,
    tent,
)
from stopwise.experiments.tally import pick


def test_grid_eigenvalues_and_coefficients_are_those_of_the_dense_matrix():
    setting = fig_setting(40)
    np.testing.assert_allclose(grid_eigenvalues(40), setting.spectrum.eigenvalues, rtol=1e-10)
    dense = setting.spectrum.basis.coordinates(setting.truth)
    np.testing.assert_allclose(grid_coefficients(setting.truth) ** 2, dense**2, atol=1e-12)


def test_the_limit_agrees_with_the_dense_path_where_both_can_be_had():
    rows = [t.row(0) for t in rates.limit(0.25)]
    (risk,) = pick(rows, quantity="risk of this truth", n=100)
    assert risk.mean == pytest.approx(0.033356, abs=5e-7)
    (radius,) = pick(rows, quantity="squared critical radius", n=1000)
    assert math.sqrt(radius.mean) == pytest.approx(0.26407993, abs=5e-9)


@pytest.mark.parametrize("kernel", classes.KERNELS)
def test_population_eigenvalues_are_the_limit_of_the_grid(kernel):
    x = (np.arange(1500) + 0.5) / 1500
    values = np.linalg.eigvalsh(classes.KERNELS[kernel](x[:, None]) / 1500)[::-1]
    kept = classes.RANKS.get(kernel, 6)
    np.testing.assert_allclose(classes.population(kernel)[:kept], values[:kept], rtol=2e-4, atol=1e-9)


@pytest.mark.parametrize("kernel", classes.RANKS)
def test_polynomial_features_multiply_to_the_kernel(kernel):
    x = np.linspace(0, 1, 7)
    phi = classes.features(classes.RANKS[kernel] - 1, x)
    np.testing.assert_allclose(phi @ phi.T, classes.KERNELS[kernel](x[:, None]), rtol=1e-13)


@pytest.mark.parametrize("kernel", classes.KERNELS)
def test_the_truths_of_the_classes_have_norm_one(kernel):
    """The squared norm is the limit of y' Gram^+ y from below as points are added."""
    x = equispaced(60)
    values, vectors = np.linalg.eigh(classes.KERNELS[kernel](x[:, None]))
    inside = (vectors.T @ classes.truth_of(kernel, x))[values > 1e-9 * values[-1]]
    assert (inside**2 / values[values > 1e-9 * values[-1]]).sum() == pytest.approx(1.0, rel=0.03)


def test_squares_of_piecewise_linear_functions_are_integrated_exactly(rng):
    knots, values = np.sort(rng.uniform(size=9)), rng.normal(size=9)
    slow = sum(quad(lambda u: np.interp(u, knots, values) ** 2, a, b)[0] for a, b in pairwise(knots))
    assert float(integrated_square(knots, values)) == pytest.approx(slow, rel=1e-10)


def test_the_population_risk_is_the_mean_of_population_errors():
    rng = np.random.default_rng(11)
    design = make_design(rng, 15, descent(1.0))
    responses = design.setting.draw(rng, 20_000)
    realised = design.population_errors(np.full(20_000, 3.0), responses)
    spread = realised.std(ddof=1) / math.sqrt(20_000)
    assert abs(realised.mean() - design.population_risk(3.0)) < 4 * spread


def test_the_fit_between_knots_is_the_kernel_expansion():
    rng = np.random.default_rng(12)
    design = make_design(rng, 9, descent(1.0))
    x, y = design.setting.x[:, None], design.setting.draw(rng, 1)
    omega = reference.descent_omega(reference.gram(reference.sobolev(1), x) / 9, y[:, 0], [1.0] * 4)[-1]
    expected = reference.gram(reference.sobolev(1), design.knots[:, None], x) @ omega / 3
    np.testing.assert_allclose(design.predictor(4.0) @ y[:, 0], expected, rtol=1e-10)


@pytest.mark.parametrize("noise", [heavy_noise, correlated_noise])
def test_unusual_noise_still_has_variance_one(noise):
    drawn = noise(generator(0, "noise"), 50, 40_000)
    assert np.mean(drawn**2) == pytest.approx(1.0, rel=0.03)


def test_correlated_noise_is_correlated_by_one_half_with_its_neighbour():
    drawn = correlated_noise(generator(0, "noise"), 20, 40_000)
    assert np.mean(drawn[4] * drawn[5]) == pytest.approx(0.5, abs=0.02)


def test_random_numbers_depend_on_seed_experiment_and_size_alone():
    first = generator(1, "rules", 10, 0).random(3)
    assert np.array_equal(first, generator(1, "rules", 10, 0).random(3))
    for other in (generator(2, "rules", 10, 0), generator(1, "rates", 10, 0), generator(1, "rules", 20, 0)):
        assert not np.array_equal(first, other.random(3))


def test_the_identity_kernel_breaks_the_printed_lower_bound():  # E5
    rows = [t.row(0) for t in bounds.identity_kernel()]
    ratios = {row.quantity: row.mean for row in rows if row.reading.startswith("descent")}
    assert ratios["risk / bound (c) with a square, smallest"] == pytest.approx(3.96e-4 / 5.0e-3, rel=1e-3)
    assert ratios["risk / bound (c) as printed, smallest"] < 1
    assert ratios["risk / bound (c) as proved, smallest"] >= 1
    (ridge,) = (r.mean for r in rows if r.reading.startswith("ridge") and "square" in r.quantity)
    assert ridge == pytest.approx((0.02 / 1.02) ** 2 / 5.0e-3, rel=1e-9)


def test_lower_bounds_are_those_of_the_slow_formulas():
    setting = fig_setting(20)
    path, clock = setting.path(descent(1.0)), np.array([2.0, 8.0])
    values = reference.eigenvalues(setting.gram / 20)
    hats = reference.hat_matrices(lambda unit: reference.descent_fits(setting.gram / 20, unit, [1.0] * 8), 20)
    risks = [reference.risk(hats[int(t)], setting.truth, 1.0) for t in clock]
    printed = [t / 4 * reference.local_complexity(values, t**-0.5) for t in clock]
    proved = [sum(min(1, (t * v) ** 2) for v in values) / 80 for t in clock]
    ratios = bounds.lower_ratios(path, setting.truth, clock)
    assert ratios["as printed"] == pytest.approx(min(np.divide(risks, printed)), rel=1e-9)
    assert ratios["as proved"] == pytest.approx(min(np.divide(risks, proved)), rel=1e-9)


def test_the_tent_has_hilbert_norm_one():
    assert tent(np.array([0.0, 0.5, 1.0])).tolist() == [0.0, -0.5, 0.0]
    path = fig_setting(400).path(descent(1.0))
    assert float(path.hilbert_norm(step_sum=1e9)) == pytest.approx(1.0, rel=1e-6)


def test_noise_levels_for_many_responses_are_those_for_each():
    setting = fig_setting(25)
    responses = setting.draw(generator(0, "levels"), 4)
    path = setting.path(descent(1.0), responses)
    for estimator in (*rates.QUICK, *rates.SLOW):
        together = sw.noise.noise_levels(estimator, setting.x[:, None], responses, path)
        single = [estimator.estimate(setting.x[:, None], y, path=path.column(j)) for j, y in enumerate(responses.T)]
        np.testing.assert_allclose(together, single, rtol=1e-12)
