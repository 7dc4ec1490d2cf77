"""Any smooth filter at one clock reading as a sum of ridges at complex readings: what is linear in it, in closed form.

exp(-x) is sum_k c_k / (1 + x / z_k) to 3 10^-N with N poles z_k, the nodes of a parabola around the negative axis
(Trefethen, Weideman & Schmelzer 2006). In conjugate pairs they are half as many sums of which the real part is taken.
Fitted to the filter itself, few steps of descent are followed as well as many. Ridge at the complex reading
step_sum / z_k is ridge: rows are left out of it by the same formula. No pole asks for more of the spectrum than the
filter does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stopwise._support.arrays import Array
from stopwise.filters import Filter, Ridge

_POLES = 12
"""In conjugate pairs: flow and long descents are followed to 7e-6 of the responses."""
_FAINT = 1e-6
"""Directions of the fit that are fainter than it is accurate are left alone: its weights stay small."""
_GRID = 600
_NEAR = 1e-4
"""Of step_sum times the eigenvalue: nothing is fitted below."""


@dataclass(frozen=True)
class ComplexRidges:
    """A filter is the real part of sum_k weights_k / (1 + readings_k * eigenvalue)."""

    readings: Array
    weights: Array

    def shrinkage(self, eigenvalues: Array) -> Array:
        """S of each ridge, (eigenvalues, ridges)."""
        return 1 / (1 + np.outer(eigenvalues, self.readings))

    def sum(self, each: Array) -> Array:
        """What the filter makes of something that each ridge was asked for, (..., ridges), and that is linear in it."""
        return np.real(each @ self.weights)


def as_complex_ridges(filter: Filter, step_sum: float, largest: float) -> ComplexRidges:
    """A filter at one reading, on eigenvalues up to the largest. What no kernel sees is left whole: S(0) = 1."""
    if isinstance(filter, Ridge) or step_sum == 0:
        return ComplexRidges(np.array([step_sum], dtype=np.complex128), np.ones(1, dtype=np.complex128))
    angles = np.pi * np.arange(1, _POLES, 2) / _POLES
    poles = _POLES * (0.1309 - 0.1194 * angles**2 + 0.25j * angles)
    furthest = max(step_sum * largest, 10 * _NEAR)
    eigenvalues = np.minimum(np.geomspace(_NEAR, furthest, _GRID) / step_sum, largest)
    ridges = ComplexRidges(step_sum / poles, poles)
    each = ridges.shrinkage(eigenvalues)
    # The first weight's real part is what the others leave of one.
    apart = np.hstack([each.real[:, 1:] - each.real[:, :1], -each.imag])
    aim = filter.shrinkage(eigenvalues, step_sum) - each.real[:, 0]
    found = np.linalg.lstsq(apart, aim, rcond=_FAINT)[0]
    real, imaginary = found[: len(poles) - 1], found[len(poles) - 1 :]
    return ComplexRidges(ridges.readings, np.append(1 - real.sum(), real) + 1j * imaginary)
