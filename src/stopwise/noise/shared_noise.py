"""Noise that rows share: neighbours along one covariate, or the rows of a group or block.

Such noise is estimated together with the stop, so these say what is wanted and a solver answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stopwise.kernels import Kernel, Matern, Sobolev
from stopwise.noise.estimator import NoiseEstimator, Sample
from stopwise.path import Path


@dataclass(frozen=True)
class AR1(NoiseEstimator):
    """Noise that neighbours along one covariate share: correlation exp(-gap / length), AR(1) on an even design.

    Length, level and stop maximise the likelihood of curve plus noise, exactly, in O(n). `noise_std_` is the level of
    independent noise that would blur the curve as much: the standard deviation times sqrt((1 + rho) / (1 - rho)), rho
    the correlation of neighbours. A curve must be smoother than such noise to be told from it; noise shared over more
    than a twentieth of the covariate's range counts as curve.
    """

    name: ClassVar[str] = "ar1"
    correlated: ClassVar[bool] = True

    def kernel_for(self, given: Kernel | None) -> Kernel | None:
        if given is None:
            return Sobolev(2, interval="auto")
        if given.needs_scale:
            raise ValueError(
                f"noise_std=AR1() needs the length scale of {given.name} as a number: it is not chosen from rows that "
                'share noise; or leave kernel="auto", a cubic spline'
            )
        smooth = (isinstance(given, Sobolev) and given.order == 2) or (
            isinstance(given, Matern) and given.smoothness > 1
        )
        if not smooth:
            raise ValueError(
                "noise_std=AR1() goes with the kernels sobolev2, matern32 and matern52 on one covariate, got "
                f"{given.name}: a rougher curve cannot be told from noise that neighbours share"
            )
        return given

    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        raise ValueError(
            'noise_std=AR1() is estimated along one covariate together with the stop: use solver="line" (or "auto") '
            'and rule="auto" or Fixed(...)'
        )


@dataclass(frozen=True)
class LeftOutTogether(NoiseEstimator):
    """Noise that rows of a group or block share, from groups or blocks left out whole.

    What `noise_std="auto"` is where `fit` is given `groups`, or `LeaveBlockOut` a size: the standard deviation of one
    row's noise, its own and what it shares with others. Estimates that take rows as independent count that as signal.
    """

    name: ClassVar[str] = "left-out-together"
    needs_sets: ClassVar[bool] = True

    def estimate_from(self, sample: Sample | None, path: Path | None = None) -> float:
        raise ValueError(
            "noise_std=LeftOutTogether() needs rows that belong together: fit(..., groups=), or "
            "rule=LeaveBlockOut(size)"
        )
