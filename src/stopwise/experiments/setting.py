"""The problems that experiments draw from: design, kernel, truth, noise."""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from scipy.signal import lfilter

from stopwise._support.arrays import Array
from stopwise.engine.operators import Dense
from stopwise.engine.spectrum.eigenpairs import dense_spectrum
from stopwise.filters import Filter, GradientDescent
from stopwise.kernels import Kernel, Sobolev
from stopwise.path import Path, make_path
from stopwise.schedules import Constant
from stopwise.spectrum import Density, Spectrum, known_spectrum

FIG3_SIZES = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300)
MIN = Sobolev(1)
"""The kernel min(x, z) of the paper's figures."""
Noise = Callable[[np.random.Generator, int, int], Array]


def tent(x: Array) -> Array:
    """RWY14's truth |x - 1/2| - 1/2; its slope is -1 or 1, so its Hilbert norm under the min kernel is 1."""
    return cast(Array, np.abs(x - 0.5) - 0.5)


def equispaced(n: int) -> Array:
    """x_i = i / n, i = 1, ..., n (E14)."""
    return np.arange(1, n + 1) / n


def generator(seed: int, experiment: str, *numbers: int) -> np.random.Generator:
    """The random numbers of one part of one experiment: the same in whatever company it is run."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(experiment.encode()), *numbers]))


def gaussian_noise(rng: np.random.Generator, n: int, trials: int) -> Array:
    """Independent standard normal noise, a column for each trial."""
    return rng.standard_normal((trials, n)).T


def heavy_noise(rng: np.random.Generator, n: int, trials: int) -> Array:
    """Student's t with 3 degrees of freedom, scaled to variance 1."""
    return cast(Array, rng.standard_t(3, (trials, n)).T / math.sqrt(3))


def correlated_noise(rng: np.random.Generator, n: int, trials: int) -> Array:
    """A stationary first-order autoregression along the design: correlation 1/2 between neighbours, variance 1."""
    fresh = rng.standard_normal((trials, n)).T * math.sqrt(0.75)
    fresh[0] /= math.sqrt(0.75)
    return cast(Array, lfilter([1.0], [1.0, -0.5], fresh, axis=0))


@dataclass(frozen=True)
class Setting:
    """Rows, kernel and truth of a simulation, with the spectrum that all its trials share."""

    x: Array
    truth: Array
    kernel: Kernel = MIN
    noise_std: float = 1.0
    noise: Noise = gaussian_noise

    @property
    def n(self) -> int:
        return len(self.x)

    @cached_property
    def gram(self) -> Array:
        """The raw kernel matrix."""
        return self.kernel(self.x[:, None])

    @cached_property
    def spectrum(self) -> Spectrum:
        """All eigenpairs of Gram / n."""
        return dense_spectrum(Dense(self.gram))

    def draw(self, rng: np.random.Generator, trials: int) -> Array:
        """Responses, a column for each trial."""
        return cast(Array, self.truth[:, None] + self.noise_std * self.noise(rng, self.n, trials))

    def path(self, filter: Filter, responses: Array | None = None) -> Path:
        """The path of given responses; without any, that of the truth itself (for exact risks)."""
        return make_path(self.spectrum, filter, self.truth if responses is None else responses)


def fig_setting(n: int, *, kernel: Kernel = MIN, noise_std: float = 1.0) -> Setting:
    """RWY14's simulations: equispaced design, tent truth, Gaussian noise."""
    x = equispaced(n)
    return Setting(x, tent(x), kernel, noise_std)


def descent(alpha: float) -> GradientDescent:
    """Gradient descent with a constant step."""
    return GradientDescent(Constant(alpha))


def grid_eigenvalues(n: int) -> Array:
    """The min kernel on x = i/n in closed form: 1 / (4 n^2 sin^2((2k - 1) pi / (4n + 2)))."""
    k = np.arange(1, n + 1)
    return cast(Array, 1 / (4 * n**2 * np.sin((2 * k - 1) * np.pi / (4 * n + 2)) ** 2))


def grid_coefficients(values: Array) -> Array:
    """Values at x = i/n in the eigenbasis of the min kernel there, (n,) -> (n,), by one Fourier transform.

    The eigenvectors are 2 / sqrt(2n + 1) * sin((2k - 1) pi i / (2n + 1)): odd frequencies of length 4n + 2.
    """
    n = len(values)
    padded = np.zeros(4 * n + 2)
    padded[1 : n + 1] = values
    return cast(Array, -np.fft.rfft(padded)[1 : 2 * n : 2].imag * 2 / math.sqrt(2 * n + 1))


def grid_path(n: int, filter: Filter) -> Path:
    """The path of the tent under the min kernel on x = i/n, at any n: eigenvalues alone, in closed form."""
    return bare_path(grid_eigenvalues(n), n, filter, grid_coefficients(tent(equispaced(n))))


def bare_path(eigenvalues: Array, n: int, filter: Filter, coefficients: Array | None = None) -> Path:
    """A path on eigenvalues alone, the identity for eigenvectors left out: for sums over a spectrum."""
    density = Density(eigenvalues, np.ones_like(eigenvalues), float(n))
    spectrum = known_spectrum(eigenvalues, density, float(eigenvalues.max()) * (1 + 1e-12))
    inside = np.zeros_like(eigenvalues) if coefficients is None else coefficients
    energy = 1.0 if coefficients is None else float((inside**2).sum())
    return Path(spectrum, filter.bind(spectrum.largest_bound), inside, np.asarray(energy))
