"""What a rule is, and what it answers with."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Literal, Protocol, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.checks import is_finite
from stopwise.filters import Filter, SteppedFilter
from stopwise.path import Path

Reading = Literal["local", "literal", "global"]


class Reason(Enum):
    """Why a path was stopped where it was."""

    CROSSING = "the complexity crossed its threshold"
    MINIMUM = "the risk estimate is smallest here"
    THRESHOLD = "the residual fell to the noise level"
    FIXED = "the stop was given"
    ZERO = "no step is justified: the estimate is the constant function"
    CAP = "the limit of step_sum was reached"
    BUDGET = "the spectrum is not settled within its budget"


@dataclass(frozen=True)
class Stop:
    """Where to stop, why, and the evidence. `iteration` is None for filters without steps."""

    iteration: int | None
    step_sum: float
    reason: Reason
    details: dict[str, Any] = field(default_factory=dict)

    def with_details(self, **more: Any) -> Stop:
        """The same stop with more evidence."""
        return replace(self, details={**self.details, **more})


class HeldOut(Protocol):
    """A path on part of the rows and its predictions on the rest."""

    @property
    def path(self) -> Path:
        """The path on the training rows."""

    def error(self, step_sum: Array) -> Array:
        """Mean squared error on the held-out rows at each clock reading, problem units."""


@dataclass(frozen=True)
class Data:
    """What a rule may need beyond the path: rows that can be split, and seeds."""

    n_rows: int
    split: Callable[[Array, Array], HeldOut] | None = None
    seed: int = 0
    groups: Callable[[], Any] | None = None
    """For each row the number of its distinct covariates, or None where no two rows share theirs."""
    replicates: Callable[[], Any] | None = None
    """For each of those numbers, how many different responses its rows have."""
    kernel_scale: float = 1.0
    """The kernel's mean diagonal before centring: what a penalty is small or large against."""


class Rule(ABC):
    """When to stop along any path. Subclasses are frozen dataclasses; to add one, write `select`."""

    name: ClassVar[str]
    needs_noise: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = False
    """True where single residuals and leverages are read, which costs a pass over all rows at each reading."""
    one_sided: ClassVar[bool] = False
    """True where an unfinished spectrum can only make the stop early (given `bound` as density)."""

    @abstractmethod
    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        """The stop on this path (one response, problem units), with its reason and evidence."""

    def without_rows(self) -> Rule:
        """The rule that stands in where reading every row at each reading is too dear; most need none."""
        return self

    def _noise(self, noise_std: float | None) -> float:
        if noise_std is None:
            raise ValueError(f"the rule {type(self).__name__} needs a noise level: give noise_std")
        if not is_finite(noise_std) or noise_std < 0:
            raise ValueError(f"noise_std must be finite and at least 0, got {noise_std!r}")
        # Beside responses of size 1 no larger noise says more, and its square would overflow.
        return min(float(noise_std), 1e150)


def stop_at(filter: Filter, step_sum: float, reason: Reason, **details: Any) -> Stop:
    """A Stop at the last reachable clock reading not past `step_sum`."""
    if isinstance(filter, SteppedFilter):
        iteration = int(filter.iteration(step_sum))
        reached = float(filter.step_sum(iteration))
        if iteration == 0 and reason in (Reason.CROSSING, Reason.MINIMUM, Reason.THRESHOLD):
            reason = Reason.ZERO
        return Stop(iteration, reached, reason, details)
    if step_sum == 0 and reason in (Reason.CROSSING, Reason.MINIMUM, Reason.THRESHOLD):
        reason = Reason.ZERO
    return Stop(None, float(step_sum), reason, details)


def clock_grid(path: Path, ratio: float = 1.1) -> Array:
    """Reachable clock readings from nothing to everything, evenly spaced on a log scale; zero first."""
    cap = path.step_sum_cap
    if cap == 0:
        return np.zeros(1)
    largest = path.spectrum.largest_bound
    start = 1e-3 / largest
    count = max(2, math.ceil(math.log(cap / start) / math.log(ratio)))
    grid = np.geomspace(start, cap, count)
    if path.filter.name == "cutoff":
        grid = 1.0 / path.spectrum.eigenvalues[path.spectrum.eigenvalues > 1 / cap]
        grid = np.unique(grid) * (1 + 1e-12)
    if isinstance(path.filter, SteppedFilter):
        counts = np.unique(path.filter.iteration(grid))
        small = np.arange(0.0, min(64.0, counts.max(initial=0.0)) + 1)
        grid = path.filter.step_sum(np.unique(np.concatenate([small, counts])))
        return cast(Array, np.unique(grid[np.isfinite(grid)]))
    return np.concatenate([[0.0], grid])
