"""Sums over all eigenvalues from probes: pooled estimates average, and calibration moves them as little as it can."""

import numpy as np
import pytest

from stopwise.engine.spectrum.probe_traces import calibrated, pooled
from stopwise.spectrum import Density


def density(rng, size=6):
    return Density(rng.uniform(0.01, 2, size), rng.uniform(0.5, 3, size), 20.0)


def sum_of(part):
    """Some sum over a spectrum that is not a power."""
    return float(part.total(np.minimum(part.values, 0.3)))


def test_one_run_is_its_own_mean(rng):
    run = [density(rng) for _ in range(4)]
    whole, replicas = pooled([run])
    assert whole is run[0]
    assert replicas == tuple(run[1:])


def test_a_sum_over_the_pooled_spectrum_is_the_mean_of_the_runs_sums(rng):
    runs = [[density(rng), density(rng)] for _ in range(3)]
    whole, _ = pooled(runs)
    assert sum_of(whole) == pytest.approx(np.mean([sum_of(run[0]) for run in runs]), rel=1e-13)
    assert whole.n_samples == 20.0


def test_a_replica_of_the_mean_leaves_one_group_of_one_run_out(rng):
    runs = [[density(rng), density(rng), density(rng)] for _ in range(3)]
    _, replicas = pooled(runs)
    assert len(replicas) == 6
    wholes = [sum_of(run[0]) for run in runs]
    expected = [(sum(wholes) - wholes[r] + sum_of(replica)) / 3 for r, run in enumerate(runs) for replica in run[1:]]
    np.testing.assert_allclose([sum_of(replica) for replica in replicas], expected, rtol=1e-13)


def moments(values, counts, size):
    return [float(counts @ values**k) for k in range(size)]


@pytest.mark.parametrize("size", [2, 3])
def test_calibrated_sums_are_what_is_known_of_them(rng, size):
    values, truth = rng.uniform(0.1, 3, 12), rng.uniform(1, 2, 12)
    counts = truth * rng.uniform(0.9, 1.1, 12)
    targets = moments(values, truth, size)
    moved = calibrated(values, counts, targets)
    np.testing.assert_allclose(moments(values, moved, size), targets, rtol=1e-10)


def test_calibration_moves_multiplicities_as_little_as_possible(rng):
    """Least sum of (change)^2 / multiplicity under the constraints, by a pseudo-inverse in scaled coordinates."""
    values, counts = rng.uniform(0.1, 3, 12), rng.uniform(1, 2, 12)
    targets = [1.02 * moment for moment in moments(values, counts, 3)]
    powers = np.stack([values**k for k in range(3)])
    gap = np.array(targets) - powers @ counts
    least = counts + np.sqrt(counts) * (np.linalg.pinv(powers * np.sqrt(counts)) @ gap)
    np.testing.assert_allclose(calibrated(values, counts, targets), least, rtol=1e-9)


def test_a_constraint_that_would_turn_a_multiplicity_negative_is_dropped_highest_power_first():
    values, counts = np.array([1.0, 0.5, 0.1]), np.ones(3)
    number, trace, squares = moments(values, counts, 3)
    moved = calibrated(values, counts, [number, trace, 3 * squares])
    np.testing.assert_allclose(moments(values, moved, 2), [number, trace], rtol=1e-12)
    assert np.all(moved >= 0.2 * counts)
    alone = calibrated(values, counts, [number, 0.3 * trace, squares])
    assert alone @ values == pytest.approx(0.3 * trace, rel=1e-12)
    assert np.all(alone > 0)


@pytest.mark.parametrize(
    ("values", "targets"),
    [([], [3.0, 1.0]), ([0.0, 0.0], [3.0, 1.0]), ([1.0, 0.5], [3.0, 0.0])],
    ids=["no eigenvalues", "all zero", "no trace"],
)
def test_where_nothing_can_be_calibrated_counts_stay(values, targets):
    counts = np.ones(len(values))
    np.testing.assert_array_equal(calibrated(np.array(values), counts, targets), counts)
