"""Local complexity and critical radius: where does variance overtake bias?

RWY14: Rhat(eps) = [(1/n) sum_j min(lambda_j, eps^2)]^(1/2); the critical radius is the smallest eps > 0 with
Rhat(eps) <= R eps^2 / (c sigma) (E7 for the sign, R the Hilbert radius). On the clock eta = 1/eps^2 this reads
eta d(eta) <= n R^2 / (c sigma)^2 with d(eta) = sum_j min(1, eta lambda_j): strictly increasing and piecewise
quadratic, so it is solved by a sort and one quadratic.
"""

import math
from typing import cast

import numpy as np

from stopwise._support.arrays import Array, ArrayLike
from stopwise._support.checks import is_finite, positive, real_array
from stopwise.filters import TWO_E as TWO_E
from stopwise.spectrum import Density, spread_density

_ROUNDING = 1e-8
"""By how much a trace may fall short of the eigenvalues given, relative to their sum: single precision or better."""


def as_density(eigenvalues: ArrayLike, n_samples: float | None, trace: float | None) -> Density:
    """Leading eigenvalues given by a caller, checked, with the rest bounded from the trace."""
    values = real_array(eigenvalues, "eigenvalues")
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"eigenvalues must be a non-empty one-dimensional array, got shape {values.shape}")
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        raise ValueError(f"eigenvalues must be finite and at least 0; got {float(values[wrong][0])!r}")
    count = float(values.size) if n_samples is None else positive(n_samples, "n_samples")
    if not count >= 1:
        raise ValueError(f"n_samples must be at least 1, got {count:g}")
    known = _sum(values)
    return spread_density(np.sort(values)[::-1], known if trace is None else _checked_trace(trace, known), count)


def _sum(values: Array) -> float:
    with np.errstate(over="ignore"):
        total = float(values.sum())
    if not math.isfinite(total):
        raise ValueError(f"the eigenvalues (up to {values.max():g}) add up past what a float holds: rescale the kernel")
    return total


def _checked_trace(trace: object, known: float) -> float:
    if not is_finite(trace):
        raise ValueError(f"trace must be a finite number, got {trace!r}")
    if trace < known * (1 - _ROUNDING):
        raise ValueError(f"trace must be at least the sum of the eigenvalues given, {known:g}; got {float(trace):g}")
    return float(trace)


def check_noise(noise_std: float) -> float:
    """A noise level that the rule can divide by."""
    return positive(noise_std, "noise_std", ": for data without noise run to the end with rule=sw.rules.Fixed(...)")


def local_complexity_of(density: Density, radius: ArrayLike) -> Array:
    """Rhat(radius) of a density, for one or many radii."""
    # The largest radius whose square is a float: no eigenvalue is larger.
    squared = np.minimum(np.asarray(radius, dtype=np.float64), 1.3e154)[..., None] ** 2
    return cast(Array, np.sqrt(density.total(np.minimum(density.values, squared)) / density.n_samples))


def local_complexity(
    eigenvalues: ArrayLike, radius: ArrayLike, *, n_samples: float | None = None, trace: float | None = None
) -> Array | float:
    """Local empirical Rademacher complexity, RWY14 eq. (6); `radius` may be an array."""
    radii = real_array(radius, "radius")
    if np.any(~(radii >= 0)):
        raise ValueError(f"radius must be at least 0, got {float(radii[~(radii >= 0)].flat[0])!r}")
    value = local_complexity_of(as_density(eigenvalues, n_samples, trace), radii)
    return float(value) if value.ndim == 0 else value


def step_sum_at(density: Density, target: float) -> float:
    """The eta with eta * d(eta) = target, exactly; infinite where the spectrum is zero or the target overflows."""
    return float(step_sums_at(density, np.array([target]))[0])


def step_sums_at(density: Density, targets: Array) -> Array:
    """`step_sum_at` for many targets on one spectrum."""
    keep = density.values > 0
    if not keep.any():
        return np.full(np.shape(targets), math.inf)
    order = np.argsort(-density.values[keep], kind="stable")
    values, counts = density.values[keep][order], density.multiplicities[keep][order]
    above = np.concatenate([[0.0], np.cumsum(counts)])
    left = np.append(np.cumsum((values * counts)[::-1])[::-1], 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        at_break = (above[1:] + left[1:] / values) / values  # eta d(eta) at eta = 1/values[k], where k+1 are saturated
        k = np.searchsorted(at_break, targets, side="right")
        saturated, tail = above[k], left[k]
        # tail eta^2 + saturated eta = target, in the form that does not cancel.
        root = np.sqrt(saturated) * np.sqrt(saturated + 4 * tail * (targets / saturated))
        inner = np.where(tail == 0, targets / saturated, 2 * targets / (saturated + root))
        eta = np.where(saturated == 0, np.sqrt(targets) / np.sqrt(np.where(tail == 0, 1.0, tail)), inner)
    return cast(Array, np.where(np.isposinf(targets), math.inf, eta))


def critical_target(n_samples: float, noise_std: float, hilbert_radius: float, constant: float) -> float:
    """n R^2 / (c sigma)^2, the level that eta d(eta) must not pass."""
    ratio = hilbert_radius / (constant * noise_std) if constant * noise_std > 0 else math.inf
    return n_samples * ratio * ratio if ratio < 1e150 else math.inf


def critical_step_sum(
    eigenvalues: ArrayLike,
    noise_std: float,
    *,
    hilbert_radius: float = 1.0,
    constant: float = TWO_E,
    n_samples: float | None = None,
    trace: float | None = None,
) -> float:
    """The largest step_sum that RWY14's inequality allows, 1 / critical_radius^2."""
    density = as_density(eigenvalues, n_samples, trace)
    return _critical(density, density.n_samples, noise_std, positive(hilbert_radius, "hilbert_radius"), constant)


def _critical(density: Density, n_samples: float, noise_std: float, hilbert_radius: float, constant: float) -> float:
    target = critical_target(n_samples, check_noise(noise_std), hilbert_radius, positive(constant, "constant"))
    if not np.any(density.values > 0):
        raise ValueError("all eigenvalues are zero: there is no positive critical radius; the kernel explains nothing")
    step_sum = step_sum_at(density, target)
    if not 0 < step_sum < math.inf:
        raise ValueError(
            f"the critical step_sum is beyond what a float holds (noise_std {noise_std!r}): rescale y, noise_std "
            "and hilbert_radius together"
        )
    return step_sum


def critical_radius(
    eigenvalues: ArrayLike,
    noise_std: float,
    *,
    n_samples: float | None = None,
    trace: float | None = None,
    hilbert_radius: float = 1.0,
    constant: float = TWO_E,
) -> float:
    """The smallest eps > 0 with Rhat(eps) <= R eps^2 / (c sigma): RWY14 eq. (7), exact (E7)."""
    step_sum = critical_step_sum(
        eigenvalues, noise_std, hilbert_radius=hilbert_radius, constant=constant, n_samples=n_samples, trace=trace
    )
    return 1 / math.sqrt(step_sum)


def population_critical_radius(
    eigenvalues: ArrayLike, n_samples: float, noise_std: float, *, constant: float = 40.0, trace: float | None = None
) -> float:
    """The smallest eps > 0 with constant * R_K(eps) <= eps^2 / sigma, for the kernel's own eigenvalues (E8).

    Give leading eigenvalues and the trace (the integral of k(x, x)); the infinitely many others count through it.
    """
    values = real_array(eigenvalues, "eigenvalues")
    density = as_density(values, None, None)
    left = 0.0 if trace is None else _checked_trace(trace, _sum(values)) - _sum(values)
    count = positive(n_samples, "n_samples")
    target = critical_target(count, check_noise(noise_std), 1.0, positive(constant, "constant"))
    if left > 0 and target < math.inf:
        # Infinitely many unseen eigenvalues, each negligible, add their whole sum to every minimum. So do finitely many
        # that no allowed clock reading saturates: left eta^2 <= target bounds it, whatever the others add.
        unseen = math.sqrt(left) / math.sqrt(target)
        counts = np.append(density.multiplicities, left / unseen)
        density = Density(np.append(density.values, unseen), counts, density.n_samples)
    return 1 / math.sqrt(_critical(density, count, noise_std, 1.0, constant))


def bound_before_stop(step_sum: ArrayLike) -> Array:
    """RWY14 Theorem 1(a): error <= 4 / (e eta_t) for every t up to the stop (radius 1)."""
    return cast(Array, 4 / (math.e * np.asarray(step_sum, dtype=np.float64)))


def bound_at_stop(radius: float) -> float:
    """RWY14 Theorem 1(b): error at the stop <= 12 * critical_radius^2."""
    return 12 * radius**2


def ridge_bound_before_stop(inverse_penalty: ArrayLike) -> Array:
    """RWY14, ridge proposition (a): error <= 2 / nu."""
    return cast(Array, 2 / np.asarray(inverse_penalty, dtype=np.float64))


def risk_lower_bound(
    eigenvalues: ArrayLike,
    step_sum: ArrayLike,
    noise_std: float,
    *,
    n_samples: float | None = None,
    trace: float | None = None,
) -> Array:
    """What the lemmas behind Theorem 1(c) do prove (E5): risk >= sigma^2/(4n) sum_j min(1, (eta lambda_j)^2).

    The printed form, sigma^2/4 * eta * Rhat, is false; with unseen eigenvalues only the known ones count.
    """
    values = np.asarray(eigenvalues, dtype=np.float64)
    density = as_density(values, n_samples, trace)
    scaled = np.asarray(step_sum, dtype=np.float64)[..., None] * values
    return cast(Array, check_noise(noise_std) ** 2 / (4 * density.n_samples) * np.minimum(1.0, scaled**2).sum(axis=-1))
