"""The stopping time of RWY14 as a plain function of eigenvalues."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise._support.arrays import ArrayLike
from stopwise.complexity import TWO_E, as_density, check_noise
from stopwise.filters import GradientDescent
from stopwise.path import Path
from stopwise.rules.base import Stop
from stopwise.rules.critical import Critical
from stopwise.spectrum import Spectrum


def stopping_time(
    eigenvalues: ArrayLike,
    schedule: Any,
    noise_std: float,
    *,
    hilbert_radius: float = 1.0,
    constant: float = TWO_E,
    n_samples: float | None = None,
    trace: float | None = None,
) -> Stop:
    """T-hat of RWY14 for descent with this schedule: the last iterate before the crossing, with its evidence."""
    density = as_density(eigenvalues, n_samples, trace)
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    spectrum = Spectrum(
        eigenvalues=values,
        basis=None,
        trace=density.trace,
        n_samples=density.n_samples,
        density=density,
        bound=density,
        largest_bound=float(values[0]),
    )
    path = Path(spectrum, GradientDescent(schedule).bind(float(values[0])), np.zeros_like(values), np.asarray(1.0))
    rule = Critical(constant=constant, hilbert_radius=hilbert_radius)
    return rule.select(path, check_noise(noise_std))
