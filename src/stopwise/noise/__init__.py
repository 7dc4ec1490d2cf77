"""Noise-level estimators: how loud is the noise?

Each has `estimate(X, y, *, path=None)` and answers a standard deviation in the units of y. Some look at the rows, some
read a spectrum (they need `path`).
"""

from __future__ import annotations

from collections.abc import Mapping

from stopwise._support.checks import did_you_mean, is_number
from stopwise.noise.estimator import Known, NoiseEstimator, Sample, sample_of
from stopwise.noise.from_path import Evidence, ResidualGCV, SpectralTail
from stopwise.noise.from_rows import GasserSrokaJennen, HallMarron, NearestNeighbour, Rice, noise_levels
from stopwise.noise.marginal_likelihood import noise_share
from stopwise.noise.shared_noise import AR1, LeftOutTogether

__all__ = [
    "AR1",
    "Evidence",
    "GasserSrokaJennen",
    "HallMarron",
    "Known",
    "LeftOutTogether",
    "NearestNeighbour",
    "NoiseEstimator",
    "ResidualGCV",
    "Rice",
    "Sample",
    "SpectralTail",
    "as_noise",
    "noise_levels",
    "noise_share",
    "sample_of",
]

_ALL = (HallMarron, Rice, GasserSrokaJennen, NearestNeighbour, SpectralTail, ResidualGCV, Evidence)
_NAMED: Mapping[str, NoiseEstimator] = {cls.name: cls() for cls in _ALL} | {"auto": Evidence()}
"""Estimators by the names that `noise_std=` takes."""


def as_noise(noise_std: object) -> NoiseEstimator:
    """A noise estimator from an instance, a name, or a number (known)."""
    if isinstance(noise_std, NoiseEstimator):
        return noise_std
    if isinstance(noise_std, str):
        if noise_std in _NAMED:
            return _NAMED[noise_std]
        names = ", ".join(f'"{name}"' for name in _NAMED)
        got = f"{noise_std!r}{did_you_mean(noise_std, _NAMED)}"
        raise ValueError(f"noise_std must be a positive number, one of {names}, or a sw.noise instance; got {got}")
    if is_number(noise_std):
        return Known(noise_std)
    raise TypeError(f"noise_std must be a number, a name or a sw.noise instance; got {type(noise_std).__name__}")
