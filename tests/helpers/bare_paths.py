"""Paths of a few eigenvalues and coefficients, without rows: enough for everything that a rule reads from sums."""

import math

import numpy as np

import stopwise as sw
from stopwise.path import Path
from stopwise.spectrum import Density, Spectrum

STEP = 0.25
FILTERS = {
    "descent": sw.filters.GradientDescent(STEP),
    "nu-method": sw.filters.NuMethod(),
    "ridge": sw.filters.Ridge(),
    "flow": sw.filters.GradientFlow(),
    "cutoff": sw.filters.CutOff(),
}
VALUES = np.array([2.0, 0.9, 0.4, 0.1, 0.02])


def bare(filter="ridge", values=VALUES, coefficients=None, horizon=math.inf, scale=1.0):
    """A path of eigenvalues and coefficients alone."""
    values = np.asarray(values, dtype=float)
    density = Density(values, np.ones_like(values), float(len(values)))
    given = np.ones_like(values) if coefficients is None else np.asarray(coefficients, dtype=float)
    largest = float(values[0])
    spectrum = Spectrum(values, None, density.trace, float(len(values)), density, density, largest)
    bound = (FILTERS[filter] if isinstance(filter, str) else filter).bind(largest)
    return Path(spectrum, bound, given, (given**2).sum(axis=0), horizon=horizon, scale=scale)
