"""Sums over all eigenvalues from probes: pooling independent estimates, and calibrating them to what is known."""

from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.spectrum import Density


def pooled(runs: list[list[Density]]) -> tuple[Density, tuple[Density, ...]]:
    """The mean of independent estimates (each with its own leave-one-group-out replicas), and replicas of that mean."""

    def mean(parts: list[Density]) -> Density:
        if len(parts) == 1:
            return parts[0]
        counts = np.concatenate([part.multiplicities for part in parts]) / len(parts)
        return Density(np.concatenate([part.values for part in parts]), counts, parts[0].n_samples)

    whole = [run[0] for run in runs]
    replicas = [mean([*whole[:r], replica, *whole[r + 1 :]]) for r, run in enumerate(runs) for replica in run[1:]]
    return mean(whole), tuple(replicas)


def calibrated(values: Array, counts: Array, targets: list[float]) -> Array:
    """Multiplicities moved as little as possible so that sum of 1, lambda, lambda^2 are what is known of them.

    The regression estimator of survey sampling; constraints that would turn a multiplicity negative are dropped, the
    highest power first.
    """
    if not values.size:
        return counts
    unit = float(values.max())
    if unit <= 0 or targets[1] <= 0:
        return counts
    powers = np.stack([(values / unit) ** k for k in range(len(targets))])
    wanted = np.array([target / unit**k for k, target in enumerate(targets)])
    for use in ([0, 1, 2], [0, 1], [1]):
        rows = [k for k in use if k < len(targets)]
        matrix = (powers[rows] * counts) @ powers[rows].T
        gap = wanted[rows] - powers[rows] @ counts
        solution = np.linalg.lstsq(matrix, gap, rcond=1e-12)[0]
        moved = counts * (1 + solution @ powers[rows])
        if np.all(moved >= 0.2 * counts) or rows == [1]:
            return cast(Array, np.maximum(moved, 0.0))
    return counts
