"""Rules that minimise an estimate of risk along the path, and the oracle that knows it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.checks import is_finite
from stopwise.filters import Ridge
from stopwise.noise.marginal_likelihood import evidence
from stopwise.path import Path
from stopwise.rules.base import Data, Reading, Reason, Rule, Stop, stop_at
from stopwise.rules.critical import SELF_CONSTANT, check_radius, radius_for
from stopwise.rules.search import check_reading, first_true, minimise


@dataclass(frozen=True)
class SURE(Rule):
    """Stein's unbiased risk estimate, (1/n)(n sigma^2 + |S y|^2 - 2 sigma^2 tr S) (Mallows' C_L)."""

    reading: Reading = "global"
    name: ClassVar[str] = "sure"
    needs_noise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_reading(self.reading)

    def criterion(self, path: Path, sigma: float | Array, step_sum: Array) -> Array:
        """The estimate of the risk at each clock reading; an intercept costs one degree of freedom.

        On a path of several responses `sigma` may be one number for each, and there is a column for each.
        """
        free = path.beside_responses(path.n_samples - path.degrees_of_freedom(step_sum) - path.n_fixed)
        return cast(Array, path.mean_squared_residual(step_sum) + sigma**2 * (1 - 2 * free / path.n_samples))

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        sigma = self._noise(noise_std)
        return minimise(path, lambda s: self.criterion(path, sigma, s), self.reading)


class _OfPath(Rule):
    """A rule that minimises what can be asked of the path alone, in the field `reading`."""

    reading: Reading

    def __post_init__(self) -> None:
        check_reading(self.reading)

    @abstractmethod
    def criterion(self, path: Path, step_sum: Array) -> Array:
        """What is minimised, at each clock reading."""

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        return minimise(path, lambda s: self.criterion(path, s), self.reading)


@dataclass(frozen=True)
class GCV(_OfPath):
    """Generalised cross-validation, RES / (tr S / n)^2."""

    reading: Reading = "global"
    name: ClassVar[str] = "gcv"
    divides_by_freedom: ClassVar[bool] = True

    def criterion(self, path: Path, step_sum: Array) -> Array:
        return path.gcv(step_sum)


@dataclass(frozen=True)
class LeaveOneOut(_OfPath):
    """Mean squared leave-one-out residual by the leverage shortcut: exact for ridge, an approximation elsewhere."""

    reading: Reading = "global"
    name: ClassVar[str] = "loo"
    needs_rows: ClassVar[bool] = True
    divides_by_freedom: ClassVar[bool] = True

    def criterion(self, path: Path, step_sum: Array) -> Array:
        return path.leave_one_out_error(step_sum)


@dataclass(frozen=True)
class MarginalLikelihood(Rule):
    """Where y ~ N(0, s^2 (I + step_sum K)) is most likely, s^2 profiled out; other filters stop at ridge's reading.

    See `stopwise.noise.marginal_likelihood`.
    """

    name: ClassVar[str] = "evidence"

    def criterion(self, path: Path, step_sum: Array) -> Array:
        """-2 log likelihood at each clock reading, up to a constant."""
        return evidence(path, step_sum)

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        ridge = path.along(Ridge())
        found = minimise(ridge, lambda s: self.criterion(ridge, s))
        return stop_at(path.filter, found.step_sum, found.reason, criterion=found.evidence.criterion)


@dataclass(frozen=True)
class Minimax(Rule):
    """The exact worst-case risk over the Hilbert ball, R^2 max_j lambda_j S_j^2 + (sigma^2/n) sum_j gain_j^2.

    `hilbert_radius`: a number in the units of y, or "auto" (estimated from the path).
    """

    hilbert_radius: float | Literal["auto"] = "auto"
    reading: Reading = "global"
    name: ClassVar[str] = "minimax"
    asks_worst_eigenvalue: ClassVar[bool] = True
    needs_noise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_reading(self.reading)
        check_radius(self.hilbert_radius, ("auto",))

    def criterion(self, path: Path, sigma: float | Array, radius: float | Array, step_sum: Array) -> Array:
        """The largest risk that any truth in the ball of this radius (problem units) has."""
        values = path.density.values
        worst = path.beside_responses((values * path.filter.shrinkage(values, step_sum) ** 2).max(axis=-1))
        spread = path.beside_responses(path.squared_gain_sum(step_sum) / path.n_samples)
        return cast(Array, radius**2 * worst + sigma**2 * spread)

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        sigma = self._noise(noise_std)
        radius, capped = radius_for(self.hilbert_radius, path, sigma, SELF_CONSTANT)
        stop = minimise(path, lambda s: self.criterion(path, sigma, radius, s), self.reading)
        return stop.with_evidence(hilbert_radius=radius * path.scale, radius_capped=capped)


@dataclass(frozen=True)
class Discrepancy(Rule):
    """The first iterate whose mean squared residual is at most sigma^2 (discrepancy principle)."""

    name: ClassVar[str] = "discrepancy"
    needs_traces: ClassVar[bool] = False
    needs_noise: ClassVar[bool] = True

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        sigma = self._noise(noise_std)
        threshold = sigma**2 * (1 - path.n_fixed / path.n_samples)
        start = float(path.mean_squared_residual(np.asarray(0.0)))
        if start <= threshold:
            return stop_at(path.filter, 0.0, Reason.ZERO, residual=start, threshold=threshold)
        at = first_true(path, lambda s: path.mean_squared_residual(s) <= threshold)
        at, reason = (path.step_sum_cap, Reason.CAP) if at is None else (at, Reason.THRESHOLD)
        residual = float(path.mean_squared_residual(np.asarray(at)))
        return stop_at(path.filter, at, reason, residual=residual, threshold=threshold)


@dataclass(frozen=True)
class Oracle(_OfPath):
    """The stop that the realised error against the truth asks for; for experiments, since it needs the truth.

    `truth`: f* at the training rows, in the units of y.
    """

    truth: Any = field(repr=False)
    reading: Reading = "global"
    name: ClassVar[str] = "oracle"
    needs_traces: ClassVar[bool] = False
    needs_truth: ClassVar[bool] = True

    def for_rows(self, rows: Array) -> Rule:
        return replace(self, truth=np.asarray(self.truth)[rows])

    def criterion(self, path: Path, step_sum: Array) -> Array:
        """||f_t - f*||_n^2, realised (an intercept adds a constant that is left out)."""
        inside, outside = path.truth_coefficients(np.asarray(self.truth, dtype=np.float64) / path.scale)
        gain = path.filter.gain(path.spectrum.eigenvalues, step_sum)
        if path.coefficients.ndim == 2:
            # (g ytilde - ftilde)^2 multiplied out: the square itself would be readings x eigenvalues x responses.
            cross = gain @ (path.coefficients.T * inside).T
            return cast(
                Array, (gain**2 @ path.coefficients**2 - 2 * cross + inside @ inside + outside) / path.n_samples
            )
        return cast(Array, (((gain * path.coefficients - inside) ** 2).sum(axis=-1) + outside) / path.n_samples)


@dataclass(frozen=True)
class Fixed(Rule):
    """Stop where told: after so many iterations, or at a clock reading."""

    iteration: int | None = None
    step_sum: float | None = None
    name: ClassVar[str] = "fixed"
    needs_traces: ClassVar[bool] = False
    reads_clock_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if (self.iteration is None) == (self.step_sum is None):
            raise ValueError("Fixed needs exactly one of iteration and step_sum")
        given = self.iteration if self.iteration is not None else self.step_sum
        name = "step_sum" if self.iteration is None else "iteration"
        if not is_finite(given) or cast(float, given) < 0:
            raise ValueError(f"a fixed stop must be a finite number of at least 0, got {name}={given!r}")
        if self.iteration is not None and self.iteration != int(self.iteration):
            raise ValueError(f"iteration must be a whole number, got {self.iteration!r}")

    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        at, limit = float(path.step_sums(self.step_sum, self.iteration)), path.step_sum_limit
        if at > limit:
            return stop_at(path.filter, limit, Reason.CAP, asked_step_sum=at)
        return stop_at(path.filter, at, Reason.FIXED)
