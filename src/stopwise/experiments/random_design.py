"""Uniform random designs under the min kernel: every error, in the sample and in the population, exactly integrated."""

from dataclasses import dataclass
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise.experiments.setting import Setting, tent
from stopwise.filters import Filter
from stopwise.path import Path


def integrated_square(knots: Array, values: Array) -> Array:
    """The integral of a squared piecewise linear function from its values at the knots: (k,) or (k, q)."""
    widths = np.diff(knots) / 3
    left, right = values[:-1], values[1:]
    return cast(Array, widths @ (left * left + left * right + right * right))


@dataclass(frozen=True)
class Design:
    """One random design with its path; fits are piecewise linear between `knots` (sample, kink of the truth, ends)."""

    setting: Setting
    path: Path

    @property
    def knots(self) -> Array:
        """Where a fit or the truth may bend."""
        return np.unique(np.concatenate([[0.0, 0.5, 1.0], self.setting.x]))

    def predictor(self, step_sum: float) -> Array:
        """The matrix that takes responses to the fit at the knots."""
        basis, values = self.path.spectrum.basis, self.path.spectrum.eigenvalues
        assert basis is not None
        cross = self.setting.kernel(self.knots[:, None], self.setting.x[:, None])
        weights = self.path.filter.weight(values, step_sum) / self.setting.n
        return cast(Array, (cross @ basis.rows * weights) @ basis.rows.T)

    def population_risk(self, step_sum: float) -> float:
        """E ||f - f*||^2 in L2(P), over the noise with the design fixed."""
        matrix, knots = self.predictor(step_sum), self.knots
        bias = integrated_square(knots, matrix @ self.setting.truth - tent(knots))
        spread = integrated_square(knots, matrix).sum()
        return float(bias + self.setting.noise_std**2 * spread)

    def population_errors(self, step_sums: Array, responses: Array) -> Array:
        """||f - f*||^2 in L2(P) of each column of responses, stopped at its own clock reading."""
        knots, out = self.knots, np.empty(len(step_sums))
        for at in np.unique(step_sums):
            columns = np.flatnonzero(step_sums == at)
            fits = self.predictor(float(at)) @ responses[:, columns]
            out[columns] = integrated_square(knots, fits - tent(knots)[:, None])
        return out


def make_design(rng: np.random.Generator, n: int, filter: Filter) -> Design:
    """n sorted points drawn uniformly from [0, 1], with the path of the tent."""
    x = np.sort(rng.uniform(size=n))
    setting = Setting(x, tent(x))
    return Design(setting, setting.path(filter))
