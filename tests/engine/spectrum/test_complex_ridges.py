"""A filter as a sum of ridges at complex readings."""

import numpy as np
import pytest

from stopwise.engine.spectrum.complex_ridges import as_complex_ridges
from stopwise.filters import CutOff, GradientDescent, GradientFlow, NuMethod, Ridge

LARGEST = 0.7
FILTERS = {
    "flow": (GradientFlow(), 1e-5),
    "descent": (GradientDescent(), 1e-5),
    "steps of a given size": (GradientDescent(0.3), 1e-5),
    "nu-method": (NuMethod(), 0.05),
    "ridge": (Ridge(), 1e-15),
}


@pytest.mark.parametrize("step_sum", [0.0, 0.9, 2.1, 30.0, 1e3, 1e8])
@pytest.mark.parametrize("name", FILTERS)
def test_the_sum_follows_the_filter_from_nothing_fitted_to_all(name, step_sum):
    filter, error = FILTERS[name]
    bound = filter.bind(LARGEST)
    at = float(bound.snap(step_sum))
    ridges = as_complex_ridges(bound, at, LARGEST)
    values = np.append(0.0, np.minimum(np.geomspace(1e-6, 1e14, 2_000) / max(at, 1e-3), LARGEST))
    found, aim = ridges.sum(ridges.shrinkage(values)), bound.shrinkage(values, at)
    assert found[0] == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(found, aim, rtol=0, atol=error)


def test_a_jump_is_met_in_the_mean_with_weights_that_rounding_survives():
    ridges = as_complex_ridges(CutOff(), 100.0, LARGEST)
    values = np.geomspace(1e-5, LARGEST, 2_000)
    gaps = ridges.sum(ridges.shrinkage(values)) - CutOff().shrinkage(values, 100.0)
    assert np.sqrt(np.mean(gaps**2)) < 0.1
    assert np.abs(ridges.weights).max() < 1e5
