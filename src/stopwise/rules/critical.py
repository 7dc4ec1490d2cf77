"""The paper's rule: stop where local complexity crosses its threshold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import is_finite, is_number
from stopwise.complexity import TWO_E, as_density, check_noise, critical_target, local_complexity_of, step_sum_at
from stopwise.filters import GradientDescent, SteppedFilter
from stopwise.path import Path
from stopwise.rules.base import Data, Reason, Rule, Stop, clock_grid, stop_at
from stopwise.rules.search import first_true
from stopwise.spectrum import Density, known_spectrum

SELF_CONSTANT = 1.2
"""The constant of the inequality to which the exact worst case over the ball corresponds."""
RADIUS_ROUNDS, RADIUS_CAP = 60, 1e8
"""Rounds in which a radius may grow, and how far at the most, relative to where it starts."""


def check_radius(value: object, words: tuple[str, ...]) -> None:
    """Raise unless a Hilbert radius is a positive number or one of the given words."""
    if isinstance(value, str) and value in words:
        return
    known = ", ".join(f'"{word}"' for word in words)
    if not is_number(value):
        raise ValueError(f"hilbert_radius must be a positive number or one of {known}; got {value!r}")
    if not (is_finite(value) and value > 0):
        raise ValueError(f"hilbert_radius must be positive and finite, got {value!r}")


def estimated_radius(path: Path, noise_std: float, stop: Callable[[float], float]) -> tuple[float, bool]:
    """The radius of the truth read off the path, problem units, and whether its cap was hit.

    R <- max(R, sqrt N(stop(R))) from R = sd(y) / sqrt(trace), N the debiased squared norm (clipped at zero), whose
    mean never exceeds the squared radius of the truth.
    """
    if path.density.trace == 0:
        return 0.0, False
    start = math.sqrt(float(path.energy) / path.n_samples / path.density.trace)
    radius = start
    for _ in range(RADIUS_ROUNDS):
        squared = float(path.debiased_squared_norm(stop(radius), noise_std))
        grown = max(radius, math.sqrt(max(squared, 0.0)))
        if grown <= radius * (1 + 1e-10):
            return radius, False
        if grown > RADIUS_CAP * start:
            return RADIUS_CAP * start, True
        radius = grown
    return radius, False


def radius_for(given: float | str, path: Path, noise_std: float, constant: float) -> tuple[float, bool]:
    """A rule's Hilbert radius, given in the units of y or estimated, and whether the estimate hit its cap."""
    if not isinstance(given, str):
        return given / float(path.scale), False

    def stop(radius: float) -> float:
        target = critical_target(path.n_samples, noise_std, radius, constant)
        return min(step_sum_at(path.density, target), path.step_sum_cap)

    return estimated_radius(path, noise_std, stop)


@dataclass(frozen=True)
class Critical(Rule):
    """Stop at the last iterate before Rhat(eta^-1/2) > R / (c sigma eta) (RWY14, stopping rule; E10: zero is allowed).

    Parameters
    ----------
    constant : "auto" or float
        c. "auto": what the filter's own proof gives, 2e for descent, flow and nu-method, 4 for ridge (E13); 1.2 with
        `hilbert_radius="self"`.
    hilbert_radius : float, "auto" or "self"
        R, in the units of y. 1 in the paper. "auto": estimated from the path. "self": the norm of the estimate itself,
        at each point of the path; for ridge with c = 1 and a softened complexity that is empirical Bayes.
    """

    constant: float | Literal["auto"] = "auto"
    hilbert_radius: float | Literal["auto", "self"] = 1.0
    name: ClassVar[str] = "critical"
    needs_noise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_radius(self.hilbert_radius, ("auto", "self"))
        named = isinstance(self.constant, str) and self.constant == "auto"
        if not named and not (is_finite(self.constant) and cast(float, self.constant) > 0):
            raise ValueError(f'constant must be "auto" or a positive number, got {self.constant!r}')

    @property
    def one_sided(self) -> bool:  # type: ignore[override]
        return not isinstance(self.hilbert_radius, str)

    def resolved_constant(self, path: Path) -> float:
        """c as it is used on this path."""
        if self.constant != "auto":
            return float(self.constant)
        return SELF_CONSTANT if self.hilbert_radius == "self" else path.filter.default_constant

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        sigma, constant = self._noise(noise_std), self.resolved_constant(path)
        if path.step_sum_cap == 0 or float(path.energy) == 0:
            return stop_at(path.filter, 0.0, Reason.ZERO, constant=constant, hilbert_radius=0.0)
        if self.hilbert_radius == "self":
            return self._select_self(path, sigma, constant)
        radius, capped = radius_for(self.hilbert_radius, path, sigma, constant)
        # With radius and noise given, the largest complexity that the known eigenvalues allow: never late.
        density = path.spectrum.bound if self.one_sided else path.density
        critical = step_sum_at(density, critical_target(path.n_samples, sigma, radius, constant))
        limit = path.step_sum_limit
        reason = Reason.CROSSING if critical <= limit else Reason.CAP
        stop = stop_at(path.filter, min(critical, limit), reason)
        if isinstance(path.filter, SteppedFilter) and stop.reason is Reason.CROSSING and stop.iteration is not None:
            after = float(path.filter.step_sum(stop.iteration + 1))
            if after < (1 - 1e-9) * critical:  # the steps are more than can be counted
                stop = replace(stop, reason=Reason.CAP)
        evidence = _evidence(path, density, stop, sigma, radius, radius, constant)
        return stop.with_evidence(critical_step_sum=critical, radius_capped=capped, **evidence)

    def _select_self(self, path: Path, sigma: float, constant: float) -> Stop:
        def holds(step_sum: Array) -> Array:
            budget = path.n_samples * path.squared_hilbert_norm(step_sum) / max(constant * sigma, 1e-300) ** 2
            return np.asarray(step_sum * path.complexity_sum(step_sum) <= budget)

        grid = clock_grid(path)[1:]
        if not grid.size or not holds(grid).any():
            return stop_at(path.filter, 0.0, Reason.ZERO, constant=constant, hilbert_radius=0.0)
        start = float(grid[int(np.argmax(holds(grid)))])
        crossed = first_true(path, lambda s: ~holds(s), after=start)
        if crossed is None:
            stop = stop_at(path.filter, float(grid[-1]), Reason.CAP)
        elif isinstance(path.filter, SteppedFilter):
            before = float(path.filter.iteration(crossed)) - 1
            stop = stop_at(path.filter, float(path.filter.step_sum(before)), Reason.CROSSING)
        else:
            stop = stop_at(path.filter, crossed, Reason.CROSSING)
        norm = math.sqrt(float(path.squared_hilbert_norm(stop.step_sum)))
        after = norm if crossed is None else math.sqrt(float(path.squared_hilbert_norm(crossed)))
        return stop.with_evidence(**_evidence(path, path.density, stop, sigma, norm, after, constant))


def _evidence(
    path: Path, density: Density, stop: Stop, sigma: float, radius: float, next_radius: float, constant: float
) -> dict[str, Any]:
    """Complexity, threshold and radius at the stop and after it: what was compared."""
    step_after = stop.step_sum
    if isinstance(path.filter, SteppedFilter) and stop.iteration is not None:
        step_after = float(path.filter.step_sum(stop.iteration + 1))
    out: dict[str, Any] = {"constant": constant, "hilbert_radius": radius * path.scale, "noise_std": sigma * path.scale}
    for prefix, at, norm in (("", stop.step_sum, radius), ("next_", step_after, next_radius)):
        eps = 1 / math.sqrt(at) if at > 0 else math.inf
        out[f"{prefix}radius"] = eps
        out[f"{prefix}complexity"] = float(local_complexity_of(density, min(eps, 1e150)))
        scale = constant * sigma * at
        out[f"{prefix}threshold"] = norm / scale if scale > 0 else math.inf
    return out


def stopping_time(
    eigenvalues: ArrayLike,
    schedule: object,
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
    spectrum, filter = known_spectrum(values, density, float(values[0])), GradientDescent(schedule)
    path = Path(spectrum, filter.bind(spectrum.largest_bound), np.zeros_like(values), np.asarray(1.0))
    rule = Critical(constant=constant, hilbert_radius=hilbert_radius)
    return rule.select(path, check_noise(noise_std))
