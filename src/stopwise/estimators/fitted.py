"""Everything a fit has learned, in one frozen piece: an estimator holds all of it or none."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stopwise._support.arrays import Array
from stopwise._support.torch import on_host
from stopwise.engine.gpu.device_store import DeviceBasis
from stopwise.engine.landmarks.decomposition import Spread
from stopwise.engine.landmarks.features import Stream
from stopwise.engine.solvers.plan import Landmarked, Plan, Solution
from stopwise.estimators.intake import Columns, Intake
from stopwise.estimators.prediction.training_range import extrapolation, largest_gaps
from stopwise.exceptions import ExtrapolationWarning
from stopwise.kernels import Kernel, PeriodicSobolev, Precomputed
from stopwise.kernels.base import parts
from stopwise.path import Path
from stopwise.problem import Trend
from stopwise.rules import Rule, Stop
from stopwise.selection.choice import Chosen
from stopwise.selection.result import Selection
from stopwise.spectrum import Basis
from stopwise.tables.names import shown

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class LearnedFunction(Columns):
    """What learned states share: a sum of kernels at rows beside a constant, the stops, and the columns that X had.

    Arrays that hold one entry (or column) per response do so for a single response too.
    """

    kernel: Kernel
    selection: Selection | None
    solver: str
    stops: tuple[Stop, ...]
    rule: Rule
    """The rule asked for; `Stop.evidence` names the one that decided."""
    covariates: Array
    """Rows that predictions weigh: all, or landmarks; a tensor where they are on a device."""
    dual_coef: Array
    intercept: Array
    single: bool
    """Whether y was one column."""
    features: Array | None = None
    """Columns of X that the kernel sees; None for all."""
    n_given: int = 0
    """How many training rows were given; 0 where a file of an earlier version does not say."""
    kept_rows: Array | None = None
    """Training rows that count, of those given; None for all."""
    feature_range: Array | None = None
    """Smallest and largest value of each feature, (2, d); None for a precomputed kernel."""
    slopes: Array | None = None
    """Of an unpenalised linear part, (d, q) for the columns of `features`, units of y."""

    @property
    def one_stop(self) -> bool:
        """Whether values per stop are handed out as a single one."""
        raise NotImplementedError

    @property
    def step_sums(self) -> Array:
        """The clock reading of each stop."""
        return np.array([stop.step_sum for stop in self.stops])

    def pick(self, values: Sequence[T]) -> T | list[T]:
        """One value per stop: the only one, or a list."""
        return values[0] if self.one_stop else list(values)

    def natural(self, values: Array) -> Array:
        """Predictions (m, q), or probabilities (m, classes), from what `values` (m, q) the sum of kernels has."""
        raise NotImplementedError

    def beside_kernel(self, X: Array) -> Array:
        """What is added to k(X, rows) @ dual_coef at rows as the kernel takes them: intercept and linear part."""
        return self.intercept if self.slopes is None else cast(Array, self.intercept + X @ self.slopes)

    def shaped(self, values: Array) -> Array:
        """Predictions (m, q) as they are handed out: (m,) where y was one column."""
        return cast(Array, values[:, 0] if self.single else values)

    @property
    def columns(self) -> list[str]:
        """Names of the features, or their numbers."""
        return [str(name) for name in (range(self.n_features) if self.feature_names is None else self.feature_names)]

    def to_features(self, X: Array) -> Array:
        """Checked covariates as the kernel takes them."""
        if isinstance(self.kernel, Precomputed):
            return X if self.kept_rows is None else cast(Array, X[:, self.kept_rows])
        X = X.astype(np.dtype(str(self.covariates.dtype).removeprefix("torch.")), copy=False)
        X = X if self.features is None else X[:, self.features]
        self.kernel.check(X)
        return X

    def extrapolation(self, X: Array) -> str | None:
        """What to say of new rows outside the range of the training data; of numbers nothing for periodic kernels."""
        told = []
        if self.feature_range is not None and not any(isinstance(part, PeriodicSobolev) for part in parts(self.kernel)):
            gaps = np.zeros(self.n_features)
            used = slice(None) if self.features is None else self.features
            gaps[used] = largest_gaps(on_host(self.covariates))
            told = [extrapolation(self.feature_range, gaps, X, self.feature_names)]
        if self.recipe is not None:
            told += [
                f"{count} of {len(X)} rows hold {what} never seen in training, in column '{shown(name)}': they are "
                "predicted as none of its levels, and how far off that may be no interval knows"
                for name, what, count in self.recipe.unknown_text(X)
            ]
        return "; ".join(text for text in told if text) or None


@dataclass(frozen=True, kw_only=True)
class Fitted(LearnedFunction):
    """The learned state of a fit of squares, with the path along its filter."""

    path: Path
    noise_std: Array
    row_of: Array | None = None
    """For every training row given the row that it became (copies became one), -1 for none; None for the same."""
    subjects: Array | None = None
    """For each row the number of its group; None where no groups were given."""
    mean_row: Array | None = None
    trend: Trend | None = None
    """An unpenalised linear part, if one was chosen; `mean_row` then has a row for each of its columns."""
    spread: Spread | None = None
    stream: Stream | None = None
    waiting: Intake | None = None
    """Rows of a fit in batches that are too few to settle kernel and landmarks by; kept until they are enough."""
    device: str | None = None
    precision: str | None = None
    shared_noise: bool = False
    """Whether neighbours share noise, so that no interval that takes rows as independent holds."""

    @property
    def one_stop(self) -> bool:
        """Whether y was one column."""
        return self.single

    def natural(self, values: Array) -> Array:
        """The same: squares have no link."""
        return values

    @property
    def own_path(self) -> Path:
        """The path as people see it: of one response where y was one column."""
        return self.path.column(0) if self.single else self.path

    @property
    def hilbert_radii(self) -> list[float]:
        """The radius each stop was decided with, or the estimate's own norm; units of y."""
        return [_radius(stop, self.path.column(j)) for j, stop in enumerate(self.stops)]

    @property
    def critical_radii(self) -> list[float]:
        """1 / sqrt of the clock reading that decided."""
        return [1 / math.sqrt(stop.crossing) if stop.crossing > 0 else math.inf for stop in self.stops]

    def centred_block(self, X: Array, block: Array) -> Array:
        """k(X, rows) (m, n) less what the intercept and a linear part make up for, times the root of the weights.

        Those directions have terms of their own, and eigenvalue zero here.
        """
        path = self.path
        root = np.ones(block.shape[1]) if path.root_weights is None else path.root_weights
        if self.trend is not None and self.mean_row is not None and path.fixed is not None:
            block = (block - self.trend.at(X) @ self.mean_row) * root
            return cast(Array, block - (block @ path.fixed) @ path.fixed.T)
        block = (block if self.mean_row is None else block - self.mean_row) * root
        if path.intercept:
            constant = root / np.sqrt(path.n_samples)
            block = block - np.outer(block @ constant, constant)
        return block

    def at_home(self) -> Fitted:
        """The same with everything on the host: to be pickled, saved, or used without a GPU."""
        home = {each.name: on_host(getattr(self, each.name)) for each in fields(self)}
        basis = self.path.spectrum.basis
        if isinstance(basis, DeviceBasis):
            held = Basis(np.asarray(basis.rows), basis.rotation)
            home["path"] = replace(self.path, spectrum=replace(self.path.spectrum, basis=held))
        return Fitted(**(home | {"device": None}))


class Learner(Protocol):
    """An estimator: its parameters, and what it learned in one piece."""

    solver: str
    n_landmarks: Landmarked
    relevance: bool | str
    fit_intercept: bool
    n_jobs: int | None
    _fitted: object

    @property
    def in_double(self) -> bool:
        """Whether rows and products on the processor are in float64."""

    def random_seed(self) -> int:
        """The seed that `random_state` stands for."""

    def kernel_parameter(self) -> Kernel | None:
        """The kernel as given; None for "auto"."""

    def plan(self, kernel: Kernel) -> Plan:
        """Everything the parameters ask for, with the kernel settled."""

    def _validate_params(self) -> None: ...


def fitted_of(model: object) -> Fitted:
    """What a fitted estimator has learned; scikit-learn's NotFittedError otherwise."""
    check_is_fitted(model)
    return cast(Fitted, cast(Learner, model)._fitted)


def tell_of_extrapolation(model: object, fitted: LearnedFunction, rows: Any) -> None:
    """Warn once per fit of rows far from those it was made from."""
    held = vars(model)
    if fitted.feature_range is None or held.get("_told") is fitted or not len(rows):
        return
    text = fitted.extrapolation(on_host(rows))
    if text is not None:
        held["_told"] = fitted
        warnings.warn(text, ExtrapolationWarning, stacklevel=5)


def make_fitted(rows: Intake, chosen: Chosen, plan: Plan, solution: Solution, feature_range: Array | None) -> Fitted:
    """The state that a solution amounts to."""
    check_numbers(solution.dual_coef, solution.intercept, solution.noise_std)
    return Fitted(
        solver=solution.solver,
        path=solution.path,
        stops=tuple(solution.stops),
        rule=plan.rule,
        noise_std=np.asarray(solution.noise_std, dtype=np.float64),
        covariates=solution.fit_covariates,
        dual_coef=solution.dual_coef,
        intercept=np.asarray(solution.intercept, dtype=np.float64),
        single=rows.single,
        row_of=rows.row_of if solution.train_rows is None else None,
        subjects=rows.subjects if solution.train_rows is None else None,
        mean_row=solution.mean_row,
        trend=solution.trend,
        slopes=solution.slopes,
        spread=solution.spread,
        stream=None if solution.stream is None else solution.stream.in_given_weights(rows.weight_unit),
        device=solution.device,
        precision=solution.precision,
        shared_noise=plan.noise.correlated,
        **of_rows(rows, chosen, plan.kernel, solution.train_rows, feature_range),
    )


def check_numbers(*learned: object) -> None:
    """Numbers that overflowed never pass for an answer."""
    if any(isinstance(values, np.ndarray) and not np.all(np.isfinite(values)) for values in learned):
        raise ValueError("the fit overflows: its weights are not finite; rescale y (and a given noise_std) or X")


def of_rows(
    rows: Intake, chosen: Chosen, kernel: Kernel, used: Array | None, feature_range: Array | None
) -> dict[str, Any]:
    """What every fit keeps of its rows and its kernel; `used`: the rows that predictions weigh, None for all."""
    kept, precomputed = rows.kept_rows, isinstance(kernel, Precomputed)
    if precomputed and used is not None:
        kept = used if kept is None else kept[used]
    return {
        "kernel": kernel,
        "selection": chosen.table,
        "features": chosen.features,
        "n_given": rows.n_given,
        "kept_rows": kept,
        "feature_range": None if precomputed else feature_range,
        **rows.about_columns,
    }


def _radius(stop: Stop, path: Path) -> float:
    if stop.evidence.hilbert_radius is not None:
        return float(stop.evidence.hilbert_radius)
    return float(path.scale * math.sqrt(float(path.squared_hilbert_norm(np.asarray(stop.step_sum)))))
