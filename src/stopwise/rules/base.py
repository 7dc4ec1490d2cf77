"""What a rule is, and what it answers with."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, ClassVar, Literal, Protocol, cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.checks import is_finite
from stopwise._support.html_table import html_table
from stopwise.filters import CutOff, Filter, SteppedFilter
from stopwise.path import Path

Reading = Literal["local", "literal", "global"]


class Reason(Enum):
    """Why a path was stopped where it was."""

    CROSSING = "the complexity crossed its threshold"
    MINIMUM = "the risk estimate is smallest here, or as small as the data can tell"
    THRESHOLD = "the residual fell to its threshold"
    FIXED = "the stop was given"
    ZERO = "no step is justified: the estimate is the constant function"
    CAP = "the path ended before the rule asked to stop"
    BUDGET = "the spectrum is not settled within its budget"


@dataclass(frozen=True)
class Evidence:
    """What decided: the rule by its name and the numbers that it compared. A field that does not apply is None.

    Errors and residuals are squared and in problem units (y centred and scaled); losses, `hilbert_radius` and
    `noise_std` are in the units of y.
    """

    rule: str | None = None
    """The rule that decided, which may be another than the one asked for: see `Rule.without_rows`."""
    criterion: float | None = None
    """The estimated error at the stop."""
    lowest: float | None = None
    """The smallest estimated error on the path, and where it is:"""
    lowest_step_sum: float | None = None
    standard_error: float | None = None
    """Of the difference between the two errors: what the data cannot tell."""
    allowance: float | None = None
    """How many such standard errors were allowed."""
    constant: float | None = None
    hilbert_radius: float | None = None
    radius_capped: bool | None = None
    """Whether the estimated radius hit its cap."""
    noise_std: float | None = None
    critical_step_sum: float | None = None
    """Where on the continuous clock the complexity crosses its threshold."""
    radius: float | None = None
    complexity: float | None = None
    threshold: float | None = None
    """Both sides of the inequality at the stop (for the discrepancy rule: what the residual is compared with)."""
    next_radius: float | None = None
    next_complexity: float | None = None
    next_threshold: float | None = None
    """The same one step later."""
    residual: float | None = None
    """The mean squared residual that the discrepancy rule compares."""
    asked_step_sum: float | None = None
    """A stop that was given, where it lies beyond the limit of the path."""
    held_out: int | None = None
    """How many rows were held out, and the others:"""
    train_rows: Array | None = None


@dataclass(frozen=True)
class Certainty:
    """What arithmetic may have lost: how the path was computed, and how far the stop can be from that of exact work."""

    engine: str
    settled: bool = True
    """Whether the loss is within the tolerance asked for."""
    regret: float | None = None
    """A bound on (error estimate here - error estimate at the exact stop) / error estimate; None where unknown."""
    bracket: tuple[float, float] | None = None
    """Clock readings between which the exact stop lies."""
    products: int | None = None
    """Products with the kernel matrix."""
    columns: int | None = None
    """Columns of the Krylov space."""
    estimate_residual: float | None = None
    """|K a - f| / |y|: how far weights and fitted values are from belonging together."""
    landmarks: int | None = None
    captured: float | None = None
    """The share of the trace that the landmarks see."""
    grown_until: str | None = None
    """Why no more landmarks were taken."""


@dataclass(frozen=True)
class Stop:
    """Where to stop, why, and the evidence. `iteration` is None for filters without steps."""

    iteration: int | None
    step_sum: float
    reason: Reason
    evidence: Evidence = Evidence()
    certainty: Certainty | None = None

    @property
    def details(self) -> dict[str, Any]:
        """Evidence and certainty as one dictionary, without what does not apply."""
        parts = (self.evidence,) if self.certainty is None else (self.evidence, self.certainty)
        named = [(each.name, getattr(part, each.name)) for part in parts for each in fields(part)]
        return {name: value for name, value in named if value is not None}

    @property
    def constant_stood(self) -> bool:
        """Whether the constant fit was taken though a later error is smaller by more than the allowance."""
        return self.reason is Reason.ZERO and self.beyond_allowance

    @property
    def beyond_allowance(self) -> bool:
        """Whether the error at the stop is above the smallest by more than the allowance."""
        seen = self.evidence
        if seen.criterion is None or seen.lowest is None or seen.standard_error is None or seen.allowance is None:
            return False
        return seen.criterion - seen.lowest > (1 + 1e-6) * seen.allowance * seen.standard_error

    @property
    def crossing(self) -> float:
        """The clock reading that decided: of the crossing itself where there is one, else of the stop."""
        found = self.evidence.critical_step_sum
        return self.step_sum if found is None else found

    def _repr_html_(self) -> str:
        """How a notebook shows it: where, why, and the numbers that were compared."""
        steps = "" if self.iteration is None else f"{in_steps(self.iteration)}, "
        known = {name: value for name, value in self.details.items() if name != "train_rows"}
        rows = [(name.replace("_", " "), f"{v:.6g}" if isinstance(v, float) else str(v)) for name, v in known.items()]
        return html_table(f"Stopped at {steps}step_sum {self.step_sum:.6g}: {self.reason.value}.", (), rows)

    def with_evidence(self, **more: Any) -> Stop:
        """The same stop with more evidence."""
        return replace(self, evidence=replace(self.evidence, **more))


def rounded(count: int) -> str:
    """A count as people read it: whole below a million, two digits above."""
    return f"{count:,}" if count < 1_000_000 else f"{count:.1e}".replace("e+", "e").replace("e0", "e")


def in_steps(iteration: int) -> str:
    """So many steps, in words."""
    return f"{rounded(iteration)} step{'' if iteration == 1 else 's'}"


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
    kernel_scale: float = 1.0
    """The kernel's mean diagonal before centring: what a penalty is small or large against."""
    subjects: Array | None = None
    """For each row the number, from 0, of the group that `fit` was given for it."""
    order: Array | None = None
    """Rows in the order of their only covariate; None where there are several: the order given."""


class Rule(ABC):
    """When to stop along any path. Subclasses are frozen dataclasses; to add one, write `select`."""

    name: ClassVar[str]
    needs_noise: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = False
    """True where single residuals and leverages are read, which costs a pass over all rows at each reading."""
    one_sided: ClassVar[bool] = False
    """True where an unfinished spectrum can only make the stop early (given `bound` as density)."""
    needs_traces: ClassVar[bool] = True
    """False where no sum over all eigenvalues is read."""
    needs_truth: ClassVar[bool] = False
    """True where the truth at each row is known to the rule."""
    divides_by_freedom: ClassVar[bool] = False
    """True where the criterion divides by the degrees of freedom that are left: unreadable near interpolation."""
    asks_worst_eigenvalue: ClassVar[bool] = False
    """True where the criterion is a maximum over eigenvalues, so that one unseen eigenvalue can change it."""
    needs_all_pairs: ClassVar[bool] = False
    """True where only all eigenpairs answer: errors of whole blocks of rows need what lies between these."""
    splits_rows: ClassVar[bool] = False
    """True where part of the rows is held out (`Data.split`)."""
    reads_clock_only: ClassVar[bool] = False
    """True where the stop was given: nothing but the filter's clock is read, and nothing is chosen on the rows."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()

    @property
    def block(self) -> int | None:
        """How many neighbouring rows the rule takes to share their noise; None for independent rows."""
        return None

    @property
    def left_out_allowance(self) -> float | None:
        """For a rule that asks for ridge's leave-one-out error alone: how many standard errors above the smallest it
        allows. None for other rules."""
        return None

    @abstractmethod
    def select(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        """The stop on this path (one response, problem units), with its reason and evidence."""

    def for_rows(self, rows: Array) -> Rule:
        """The rule for these of the rows it was made for: only one that knows something of each row changes."""
        return self

    def without_rows(self) -> Rule:
        """The rule that decides instead where single rows cannot be read; most need none."""
        return self

    @property
    def keeps_training_part(self) -> bool:
        """Whether the estimate stays the one from the rows that were not held out."""
        return False

    def decide(self, path: Path, noise_std: float | None = None, data: Data | None = None) -> Stop:
        """`select`, signed: the evidence names the rule that decided."""
        stop = self.select(path, noise_std, data)
        if not isinstance(stop, Stop):
            raise TypeError(
                f"{type(self).__name__}.select must return a Stop, as sw.rules.stop_at makes one; got {stop!r}"
            )
        return stop if stop.evidence.rule is not None else stop.with_evidence(rule=self.name)

    def _noise(self, noise_std: float | None) -> float:
        if noise_std is None:
            raise ValueError(f"the rule {type(self).__name__} needs a noise level: give noise_std")
        if not is_finite(noise_std) or noise_std < 0:
            raise ValueError(f"noise_std must be finite and at least 0, got {noise_std!r}")
        # Beside responses of size 1 no larger noise says more, and its square would overflow.
        return min(float(noise_std), 1e150)


def check_allowance(allowance: object) -> None:
    """Raise ValueError unless this is a number of standard errors that a stop may err more than the best."""
    if not (is_finite(allowance) and allowance >= 0):
        raise ValueError(f"allowance must be a number of at least 0 standard errors, got {allowance!r}")


def stop_at(filter: Filter, step_sum: float, reason: Reason, **evidence: Any) -> Stop:
    """A Stop at the last reachable clock reading not past `step_sum`, with fields of its `Evidence`."""
    iteration = None
    if isinstance(filter, SteppedFilter):
        iteration = int(filter.iteration(step_sum))
        step_sum = float(filter.step_sum(iteration))
    if step_sum == 0 and reason in (Reason.CROSSING, Reason.MINIMUM, Reason.THRESHOLD):
        reason = Reason.ZERO
    return Stop(iteration, float(step_sum), reason, Evidence(**evidence))


def clock_grid(path: Path, ratio: float = 1.1) -> Array:
    """Reachable clock readings from nothing to everything, evenly spaced on a log scale; zero first."""
    cap = path.step_sum_cap
    if cap == 0:
        return np.zeros(1)
    largest = path.spectrum.largest_bound
    start = 1e-3 / largest
    count = max(2, math.ceil(math.log(cap / start) / math.log(ratio)))
    grid = np.geomspace(start, cap, count)
    if isinstance(path.filter, CutOff):
        grid = 1.0 / path.spectrum.eigenvalues[path.spectrum.eigenvalues > 1 / cap]
        grid = np.unique(grid) * (1 + 1e-12)
    if isinstance(path.filter, SteppedFilter):
        counts = np.unique(path.filter.iteration(grid))
        small = np.arange(0.0, min(64.0, counts.max(initial=0.0)) + 1)
        grid = path.filter.step_sum(np.unique(np.concatenate([small, counts])))
        return cast(Array, np.unique(grid[np.isfinite(grid)]))
    return np.concatenate([[0.0], grid])


def coarse_pass(grid: Array) -> Array:
    """The part of the clock's grid that a first pass looks at: its ends and every 8th point."""
    return np.unique(np.concatenate([grid[:2], grid[2::8], grid[-1:]]))
