"""Rules that compare: where they stop, why, and the evidence they leave, against plain sums and loops."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import reference
import stopwise as sw
from bare_paths import FILTERS, STEP, VALUES, bare
from stopwise.rules.base import Data, clock_grid
from stopwise.rules.critical import estimated_radius
from stopwise.spectrum import Basis

# --- the paper's rule -------------------------------------------------------------------------------------------


def growing(norm, start=2.0):
    """A path whose debiased squared norm at the stop of radius r is norm(r)^2, and whose first radius is `start`."""
    return SimpleNamespace(
        density=SimpleNamespace(trace=1.0),
        energy=4 * start**2,
        n_samples=4.0,
        debiased_squared_norm=lambda r, noise_std: norm(r) ** 2,
    )


def test_an_estimated_radius_grows_until_it_feeds_itself():
    def told(norm, start=2.0):
        return estimated_radius(growing(norm, start), 0.1, lambda radius: radius)

    assert told(lambda r: min(3 * r, 50.0)) == (50.0, False)
    assert told(lambda r: 0.5 * r) == (2.0, False)
    # without end: held at a hundred million times the start, which is itself allowed
    assert told(lambda r: 3 * r) == (2e8, True)
    assert told(lambda r: 2e8) == (2e8, False)
    # ever more slowly: given up, not capped
    radius, capped = told(lambda r: 1.1 * r)
    assert not capped
    assert 2.0 < radius < 2e8
    nothing = growing(lambda r: 3 * r)
    nothing.density.trace = 0.0
    assert estimated_radius(nothing, 0.1, lambda radius: radius) == (0.0, False)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("radius", [2.0, "auto", "self"])
def test_the_critical_rule_makes_no_step_without_spectrum_or_response(name, radius):
    rule = sw.rules.Critical(constant=3.0, hilbert_radius=radius)
    for path in (bare(name, [0.0, 0.0]), bare(name, coefficients=np.zeros(5))):
        stop = rule.select(path, 0.1)
        assert (stop.step_sum, stop.reason) == (0.0, sw.Reason.ZERO)
        assert stop.iteration == (0 if isinstance(FILTERS[name], sw.filters.SteppedFilter) else None)
        assert stop.details == {"constant": 3.0, "hilbert_radius": 0.0}


def test_a_crossing_at_the_very_limit_is_a_crossing():
    path = bare("flow", [1.0])
    for radius, reason in ((1e9, sw.Reason.CROSSING), (1.1e9, sw.Reason.CAP)):
        stop = sw.rules.Critical(constant=1.0, hilbert_radius=radius).select(path, 1.0)
        assert (stop.step_sum, stop.reason) == (path.step_sum_limit, reason)
        assert stop.details["critical_step_sum"] == radius**2


def threshold_and_complexity(values, step_sum, radius, sigma, constant):
    return radius / (constant * sigma * step_sum), reference.local_complexity(values, 1 / math.sqrt(step_sum))


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("sigma", [0.02, 0.3, 1.1])
def test_the_evidence_of_a_given_radius_is_in_the_units_of_the_response(name, sigma):
    path = bare(name, horizon=1.0, scale=2.5)
    stop = sw.rules.Critical(constant=1.5, hilbert_radius=5.0).select(path, sigma)
    details = stop.details
    assert stop.step_sum > 0
    assert details["hilbert_radius"] == pytest.approx(5.0, rel=1e-14)
    assert details["noise_std"] == pytest.approx(2.5 * sigma, rel=1e-14)
    assert details["constant"] == 1.5
    assert details["radius_capped"] is False
    expected = threshold_and_complexity(VALUES, stop.step_sum, 2.0, sigma, 1.5)
    assert (details["threshold"], details["complexity"]) == pytest.approx(expected, rel=1e-12)
    assert details["radius"] == pytest.approx(1 / math.sqrt(stop.step_sum), rel=1e-14)


SLOW = np.array([0.0, 0.0, 0.1, 1.0, 3.0])
"""Coefficients in the small eigenvalues alone: the norm of the estimate grows late."""


def squared_norms(path, clock):
    values, gain = path.spectrum.eigenvalues, path.filter.gain(path.spectrum.eigenvalues, clock)
    return [sum(g**2 * c**2 / v for g, c, v in zip(row, path.coefficients, values, strict=True)) / 5 for row in gain]


@pytest.mark.parametrize("coefficients", [np.ones(5), SLOW], ids=["even", "slow"])
@pytest.mark.parametrize("name", ["descent", "nu-method"])
def test_the_norm_of_the_estimate_decides_as_a_loop_over_iterates_does(name, coefficients):
    path = bare(name, coefficients=coefficients, scale=2.5)
    clock = path.filter.step_sum(np.arange(450))
    norms, seen = squared_norms(path, clock), set()
    for sigma in np.geomspace(0.02, 4, 60):
        stop = sw.rules.Critical(hilbert_radius="self").select(path, sigma)
        expected = reference.self_consistent_stop(VALUES, clock, norms, sigma)
        if expected is None:
            assert stop.iteration > 440
            continue
        assert stop.iteration == expected
        assert stop.reason is (sw.Reason.CROSSING if expected else sw.Reason.ZERO)
        seen.add(expected)
        if not expected:
            assert stop.details == {"constant": 1.2, "hilbert_radius": 0.0}
            continue
        assert stop.details["hilbert_radius"] == pytest.approx(2.5 * math.sqrt(norms[expected]), rel=1e-9)
        for prefix, t in (("", expected), ("next_", expected + 1)):
            there = threshold_and_complexity(VALUES, clock[t], math.sqrt(norms[t]), sigma, 1.2)
            found = stop.details[f"{prefix}threshold"], stop.details[f"{prefix}complexity"]
            assert found == pytest.approx(there, rel=1e-9)
    assert {0, 1} <= seen or coefficients is SLOW
    assert len(seen) > 1


@pytest.mark.parametrize("coefficients", [np.ones(5), SLOW], ids=["even", "slow"])
@pytest.mark.parametrize("name", ["ridge", "flow"])
def test_along_a_filter_without_steps_the_norm_meets_the_complexity(name, coefficients):
    path, reasons = bare(name, coefficients=coefficients), set()
    for sigma in np.geomspace(0.02, 4, 30):
        stop = sw.rules.Critical(hilbert_radius="self").select(path, sigma)
        reasons.add(stop.reason)
        if stop.reason is sw.Reason.CROSSING:
            norm = math.sqrt(squared_norms(path, np.array([stop.step_sum]))[0])
            assert stop.details["hilbert_radius"] == pytest.approx(norm, rel=1e-9)
            assert stop.details["complexity"] == pytest.approx(norm / (1.2 * sigma * stop.step_sum), rel=1e-6)
            assert stop.details["next_threshold"] == stop.details["threshold"]
        else:
            assert stop.step_sum == {sw.Reason.ZERO: 0.0, sw.Reason.CAP: clock_grid(path)[-1]}[stop.reason]
    assert {sw.Reason.CROSSING, sw.Reason.ZERO} <= reasons


def test_a_norm_that_equals_the_complexity_still_holds():
    """One eigenvalue of one, fitted whole by the first step: travel and budget are both one there."""
    path = bare(sw.filters.GradientDescent(1.0), [1.0], [1.0])
    stop = sw.rules.Critical(constant=1.0, hilbert_radius="self").select(path, 1.0)
    assert (stop.iteration, stop.reason) == (1, sw.Reason.CROSSING)
    assert stop.details["complexity"] == stop.details["threshold"] == 1.0


@pytest.mark.parametrize("name", FILTERS)
def test_noise_too_small_to_matter_lets_the_norm_run_to_the_cap(name):
    path = bare(name)
    stop = sw.rules.Critical(hilbert_radius="self").select(path, 1e-9)
    last = clock_grid(path)[-1]
    assert (stop.step_sum, stop.reason) == (last, sw.Reason.CAP)
    assert stop.details["hilbert_radius"] == pytest.approx(math.sqrt(squared_norms(path, np.array([last]))[0]))


@pytest.mark.parametrize(("n_samples", "trace"), [(None, None), (40, None), (40, 3.9)])
@pytest.mark.parametrize(("radius", "constant"), [(1.0, 2 * math.e), (3.0, 1.7)])
def test_the_stopping_time_counts_samples_trace_radius_and_constant(n_samples, trace, radius, constant):
    """Unseen eigenvalues share the trace that is left; given in any order, as whole numbers too."""
    given = [0.3, 1, 0.7, 0.9]
    left = 0.0 if trace is None else trace - 2.9
    values = np.array([1.0, 0.9, 0.7, 0.3, *[left / 36] * (0 if n_samples is None else 36)])
    for noise_std in (0.15, 0.3, 1.0):
        settings = {"hilbert_radius": radius, "constant": constant, "n_samples": n_samples, "trace": trace}
        stop = sw.stopping_time(given, 0.5, noise_std, **settings)
        assert stop.iteration == reference.stopping_time(values, [0.5] * 5000, noise_std, radius, constant)


# --- rules on the residual and the risk -------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("intercept", [False, True])
def test_the_residual_falls_to_the_noise_less_the_degree_of_an_intercept(name, intercept):
    path = replace(bare(name, coefficients=[3.0, 2.0, 1.0, 0.5, 0.3]), intercept=intercept)
    threshold = 0.3**2 * (0.8 if intercept else 1.0)

    def residual(step_sum):
        left = path.filter.shrinkage(VALUES, step_sum)
        return sum((s * c) ** 2 for s, c in zip(left, path.coefficients, strict=True)) / 5

    stop = sw.rules.Discrepancy().select(path, 0.3)
    assert stop.reason is sw.Reason.THRESHOLD
    assert stop.details["threshold"] == pytest.approx(threshold, rel=1e-14)
    assert stop.details["residual"] == pytest.approx(residual(stop.step_sum), rel=1e-9)
    before = (
        path.filter.step_sum(stop.iteration - 1)
        if isinstance(path.filter, sw.filters.SteppedFilter)
        else stop.step_sum * (1 - 1e-9)
    )
    assert residual(stop.step_sum) <= threshold * (1 + 1e-9)
    assert residual(float(before)) > threshold
    early = sw.rules.Discrepancy().select(path, 9.0)
    assert (early.step_sum, early.reason) == (0.0, sw.Reason.ZERO)
    assert early.details == pytest.approx({"residual": residual(0.0), "threshold": 81 * threshold / 0.09})


def test_a_residual_equal_to_the_noise_is_down_to_it():
    """All in powers of two, so that equal is equal."""
    path = bare("cutoff", [1.0, 0.5, 0.25, 0.125], [4.0, 2.0, 1.0, 1.0])
    assert sw.rules.Discrepancy().select(path, 0.5).step_sum == clock_grid(path)[3]
    whole = bare("ridge", [1.0, 0.5], [2.0, 2.0])
    assert sw.rules.Discrepancy().select(whole, 2.0).reason is sw.Reason.ZERO


def test_a_residual_that_never_falls_to_the_noise_ends_at_the_cap():
    path = bare("ridge", [1.0, 0.0], [1.0, 1.0])
    stop = sw.rules.Discrepancy().select(path, 0.1)
    assert (stop.step_sum, stop.reason) == (path.step_sum_cap, sw.Reason.CAP)
    assert stop.details["residual"] == pytest.approx(0.5, rel=1e-5)


def known_truth(outputs, scale=2.5):
    """Three of six eigenvectors, so that part of the truth lies outside; the responses in problem units."""
    rng = np.random.default_rng(4)
    vectors = np.linalg.qr(rng.normal(size=(6, 6)))[0][:, :3]
    y, truth = rng.normal(size=(6, outputs) if outputs else 6), rng.normal(size=6)
    path = bare("ridge", [1.5, 0.6, 0.2], vectors.T @ y, scale=scale)
    spectrum = replace(path.spectrum, basis=Basis(vectors), n_samples=6.0)
    return replace(path, spectrum=spectrum, energy=(y**2).sum(axis=0)), vectors, y, truth


@pytest.mark.parametrize("outputs", [0, 2])
def test_the_oracle_measures_the_error_that_was_made(outputs):
    path, vectors, y, truth = known_truth(outputs)
    rule = sw.rules.Oracle(truth)
    readings = np.array([0.0, 0.4, 7.0])
    errors = rule.criterion(path, readings)
    for row, reading in zip(errors, readings, strict=True):
        hat = vectors @ np.diag([reading * v / (1 + reading * v) for v in (1.5, 0.6, 0.2)]) @ vectors.T
        for got, response in zip(np.atleast_1d(row), np.atleast_2d(y.T), strict=True):
            assert got == pytest.approx(np.mean((hat @ response - truth / 2.5) ** 2), rel=1e-12)
    if not outputs:
        assert rule.criterion(path, np.asarray(0.4)) == pytest.approx(errors[1], rel=1e-14)


def test_the_worst_case_is_the_largest_of_all_eigenvalues():
    path = bare("ridge", scale=2.5)
    rule = sw.rules.Minimax(hilbert_radius=5.0)
    for reading in (0.0, 0.4, 7.0):
        left = 1 / (1 + reading * VALUES)
        expected = reference.minimax_risk(VALUES, left, 0.3, 2.0)
        assert rule.criterion(path, 0.3, 2.0, np.asarray(reading)) == pytest.approx(expected, rel=1e-12)
    stop = rule.select(path, 0.3)
    assert stop.details["hilbert_radius"] == pytest.approx(5.0, rel=1e-14)
    assert stop.details["radius_capped"] is False
    clock = np.geomspace(1e-2, 1e4, 4000)
    risks = [reference.minimax_risk(VALUES, 1 / (1 + s * VALUES), 0.3, 2.0) for s in clock]
    assert stop.step_sum == pytest.approx(clock[int(np.argmin(risks))], rel=0.005)
    assert stop.details["criterion"] == pytest.approx(min(risks), rel=1e-4)


def test_the_worst_case_estimates_its_radius_as_a_loop_does():
    path = bare("flow", coefficients=[3.0, 2.0, 1.0, 0.5, 0.3], scale=2.5)
    stop = sw.rules.Minimax().select(path, 0.2)
    radius, grown = 0.0, math.sqrt(np.sum(path.coefficients**2) / 5 / VALUES.sum())
    while grown > radius * (1 + 1e-10):
        radius = grown
        at = 1 / reference.critical_radius(VALUES, 0.2, radius, constant=1.2) ** 2
        gain = 1 - np.exp(-at * VALUES)
        grown = max(radius, math.sqrt(max(0.0, np.sum(gain**2 * (path.coefficients**2 - 0.04) / VALUES) / 5)))
    assert stop.details["hilbert_radius"] == pytest.approx(2.5 * radius, rel=1e-8)
    assert stop.details["radius_capped"] is False


def test_a_fixed_stop_may_lie_at_zero_and_at_the_limit_but_not_beyond():
    for name in ("ridge", "descent"):
        path = bare(name, values=[1.0, 0.5])
        limit = path.step_sum_limit
        for asked, reached, reason in (
            (0, 0.0, "FIXED"),
            (0.5, 0.5, "FIXED"),
            (limit, limit, "FIXED"),
            (2 * limit, limit, "CAP"),
        ):
            stop = sw.rules.Fixed(step_sum=asked).select(path)
            assert (stop.step_sum, stop.reason.name) == (reached, reason)
            assert stop.details == ({"asked_step_sum": asked} if reason == "CAP" else {})
            assert stop.iteration == (reached / STEP if name == "descent" else None)


@pytest.mark.parametrize("given", [{}, {"iteration": 3, "step_sum": 1.0}], ids=["neither", "both"])
def test_a_fixed_stop_is_given_in_one_way(given):
    with pytest.raises(ValueError, match=r"^Fixed needs exactly one of iteration and step_sum$"):
        sw.rules.Fixed(**given)


# --- hold-out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["random", "odd-even", "halves"])
def test_both_parts_of_a_split_have_at_least_one_row(split):
    for n_rows, fraction, held in ((2, 0.5, 1), (2, 0.01, 1), (2, 0.99, 1), (3, 0.01, 1), (3, 0.99, 2), (10, 0.35, 3)):
        train, test = sw.rules.HoldOut(fraction, split=split).rows(n_rows, seed=1)
        assert len(test) == held
        assert sorted([*train, *test]) == list(range(n_rows))
    with pytest.raises(ValueError, match="hold-out needs at least 2 rows, got 1"):
        sw.rules.HoldOut(split=split).rows(1, seed=1)


@pytest.mark.parametrize("refit", [True, False])
def test_a_held_out_stop_is_taken_to_the_path_of_all_rows_or_stays(refit):
    part = bare(sw.filters.GradientDescent(0.1))
    held = SimpleNamespace(path=part, error=lambda s: (s - 1.32) ** 2)
    rule = sw.rules.HoldOut(0.25, refit=refit)
    stop = rule.select(bare("descent"), data=Data(8, split=lambda train, test: held, seed=5))
    assert stop.step_sum == pytest.approx(1.25 if refit else 1.3, rel=1e-14)
    assert stop.iteration == (5 if refit else 13)
    assert stop.reason is sw.Reason.MINIMUM
    assert stop.details["criterion"] == pytest.approx(0.02**2, rel=1e-9)
    assert stop.details["held_out"] == 2
    assert stop.details["train_rows"].tolist() == rule.rows(8, 5)[0].tolist()
    with pytest.raises(ValueError, match=r"^the rule HoldOut needs rows to hold out"):
        rule.select(bare("descent"), data=Data(8))
