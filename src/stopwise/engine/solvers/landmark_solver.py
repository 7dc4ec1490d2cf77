"""The solver on landmarks: one pass over rows, an m-by-m eigenproblem, and a stop that carries its bracket."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from stopwise._support.arrays import Array
from stopwise._support.memory import free_bytes, gibibytes
from stopwise.engine.landmarks.decomposition import Decomposition, bracket_stop, decompose
from stopwise.engine.landmarks.features import FeatureRows, Landmarks, Stream, make_landmarks, moments_of
from stopwise.engine.landmarks.landmark_left_out import Smoother, left_out_squares, lowest_in_few_passes
from stopwise.engine.landmarks.row_sample import RowSample
from stopwise.engine.landmarks.sampling import Choice, Index, Uniform, as_points
from stopwise.engine.solvers.plan import Landmarked, Plan, Solution
from stopwise.filters import Ridge
from stopwise.kernels import Kernel
from stopwise.path import Path
from stopwise.problem import Problem
from stopwise.rules import Certainty, Data, LeaveOneOut, Reason, Stop, minimise
from stopwise.rules.prudent import LeftOut
from stopwise.spectrum import Basis

FIRST_SIZE = 128
BUDGET_BYTES = 2**30
"""What n_landmarks="auto" may take for its m-by-m matrices."""
_MATRICES = 6
_GROWTH = 4
"""How many times more landmarks a further pass takes."""
BUDGET_OPERATIONS = 6e12
"""And for one pass over rows in memory, of 3 n m^2 operations: about two minutes on two cores."""


class RowSource(Protocol):
    """Rows that can be drawn from and passed over, wherever they are; responses come in problem units."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    def take(self, rows: Index) -> Array:
        """The covariates of these rows."""

    def stream(self, landmarks: Landmarks) -> Stream:
        """The moments of all rows in one pass."""

    def left_out(self, smoother: Smoother) -> Array:
        """Sum over rows of squared leave-one-out residuals at each stop: a second pass."""

    def attach(self, landmarks: Landmarks, parts: Decomposition) -> tuple[Decomposition, dict[str, Any]]:
        """The decomposition with eigenvectors by row and what else a path wants of rows, where they are kept."""


@dataclass(frozen=True)
class HeldRows:
    """Rows in memory."""

    problem: Problem

    @property
    def n_rows(self) -> int:
        return self.problem.n_rows

    def take(self, rows: Index) -> Array:
        return self.problem.covariates[rows]

    def stream(self, landmarks: Landmarks) -> Stream:
        problem = self.problem
        moments = moments_of(landmarks, problem.covariates, problem.responses, problem.weights, problem.counts)
        return Stream(landmarks, moments, problem.offset, problem.scale, problem.intercept, problem.seed)

    def left_out(self, smoother: Smoother) -> Array:
        problem = self.problem
        return left_out_squares(smoother, problem.covariates, problem.responses, problem.weights, problem.counts)

    def attach(self, landmarks: Landmarks, parts: Decomposition) -> tuple[Decomposition, dict[str, Any]]:
        problem, root = self.problem, self.problem.root_weights
        rows = FeatureRows(landmarks, problem.covariates, root, parts.mean)
        by_row = {"response": problem.weighted_responses, "root_weights": root, "counts": problem.counts}
        return parts.with_rows(rows), by_row


class NystromSolver:
    """Landmarks stand for all rows; what they miss of the trace is known and brackets the stop."""

    name = "nystrom"

    def __init__(self, n_landmarks: Landmarked) -> None:
        self.n_landmarks = n_landmarks

    def solve(self, problem: Problem, plan: Plan) -> Solution:
        most = max(FIRST_SIZE, int(np.sqrt(BUDGET_OPERATIONS / (3 * problem.n_rows))))
        return solve_source(HeldRows(problem), plan, self.n_landmarks, problem.seed, self.name, most)


def solve_source(
    source: RowSource, plan: Plan, n_landmarks: Landmarked, seed: int, name: str, most: int | None = None
) -> Solution:
    """A fit from any source of rows with the landmarks asked for; "auto" takes at most `most`."""
    if isinstance(n_landmarks, str):
        return _grow(source, plan, seed, name, most or source.n_rows)
    landmarks = landmarks_among(source, plan.kernel, n_landmarks, seed, plan.dtype)
    return solve_stream(source.stream(landmarks), plan, name, source)


def landmarks_among(
    source: RowSource, kernel: Kernel, n_landmarks: Landmarked, seed: int, dtype: npt.DTypeLike
) -> Landmarks:
    """The landmarks asked for: points as given, so many of the rows, or some drawn in another way."""
    points = as_points(n_landmarks)
    if points is None:
        choice = n_landmarks if isinstance(n_landmarks, Choice) else Uniform(int(cast(int, n_landmarks)))
        _check_memory(min(choice.count, source.n_rows))
        points = choice.points(kernel, source.n_rows, source.take, seed)
    return make_landmarks(kernel, points.astype(dtype, copy=False))


def _check_memory(count: int) -> None:
    """Raise MemoryError where the matrices of so many landmarks do not fit."""
    needed, free = 8.0 * _MATRICES * count**2, free_bytes()
    if needed > free:
        raise MemoryError(
            f"{count} landmarks need about {gibibytes(needed)} for their matrices and {gibibytes(free)} is free: take "
            "fewer of them (n_landmarks)"
        )


def _grow(source: RowSource, plan: Plan, seed: int, name: str, most: int) -> Solution:
    """More landmarks until they change little, memory or time is spent, or every row is one.

    As many as are affordable last, and before them a quarter, a sixteenth and so on: a pass costs as the square of
    their number, so that all before the last cost a fifteenth of it.
    """
    limits = {"all rows": source.n_rows, "memory budget": int(np.sqrt(BUDGET_BYTES / (8 * _MATRICES)))}
    limits["time budget"] = most
    limit = min(limits, key=limits.__getitem__)
    sizes = [limits[limit]]
    while sizes[0] > _GROWTH * FIRST_SIZE:
        sizes.insert(0, sizes[0] // _GROWTH)
    solution = solve_source(source, plan, sizes.pop(0), seed, name)
    enough = _enough(None, solution, plan.tol)
    while sizes and not enough:
        before, solution = solution, solve_source(source, plan, sizes.pop(0), seed, name)
        enough = _enough(before, solution, plan.tol)
    return replace(solution, stops=[_grown(stop, "settled" if enough else limit) for stop in solution.stops])


def _enough(before: Solution | None, now: Solution, tol: float) -> bool:
    """Whether more landmarks would change little: a bracket is settled, or a left-out error fell by at most tol."""

    def each(stop: Stop, earlier: Stop | None) -> bool:
        assert stop.certainty is not None
        error = stop.evidence.lowest
        if stop.certainty.bracket is not None or error is None:
            return stop.certainty.settled
        return (
            earlier is not None and earlier.evidence.lowest is not None and earlier.evidence.lowest <= (1 + tol) * error
        )

    earlier = [None] * len(now.stops) if before is None else before.stops
    return all(each(stop, other) for stop, other in zip(now.stops, earlier, strict=True))


def _grown(stop: Stop, reached: str) -> Stop:
    """A stop that says why no more landmarks were taken."""
    assert stop.certainty is not None
    certainty = replace(stop.certainty, grown_until=reached)
    open_ended = certainty.bracket is not None and not certainty.settled
    return replace(stop, reason=Reason.BUDGET if open_ended else stop.reason, certainty=certainty)


def solve_stream(stream: Stream, plan: Plan, name: str, source: RowSource | None = None) -> Solution:
    """Spectrum, path, noise, stops and weights from moments alone; the source serves a second pass if it is there."""
    _needs_no_rows(plan)
    given, stream = stream, replace(stream, moments=stream.moments.of_mean_weight_one())
    moments, unit, landmarks = stream.moments, stream.unit, stream.landmarks
    parts = decompose(moments, centred=stream.intercept)
    by_row: dict[str, Any] = {}
    if source is not None:
        parts, by_row = source.attach(landmarks, parts)
    mean = moments.response_sum / moments.weight if stream.intercept else np.zeros_like(unit)
    offset = stream.shift + unit * mean
    path = parts.path(plan.filter, intercept=stream.intercept, scale=unit, offset=offset, **by_row)
    decisions = _Decisions(stream, plan, parts, mean, source, moments.n_observations / given.moments.weight)
    decided = [decisions.decide(path.column(j), j) for j in range(len(unit))]
    stops = [stop for stop, _ in decided]
    sums = np.array([stop.step_sum for stop in stops])
    theta = parts.feature_weights(path.filter, sums) * unit
    return Solution(
        path=path.stopped_at(tuple(float(s) for s in sums)),
        stops=stops,
        noise_std=np.array([sigma for _, sigma in decided]) * unit,
        fit_covariates=landmarks.points,
        dual_coef=landmarks.projection @ theta,
        intercept=offset - parts.mean @ theta if stream.intercept else np.zeros(len(unit)),
        solver=name,
        mean_row=parts.mean @ landmarks.inverse if stream.intercept else None,
        spread=parts.spread(landmarks, path.filter, sums, stream.intercept),
        stream=given,
    )


def _needs_no_rows(plan: Plan) -> None:
    if plan.rule.needs_all_pairs:
        raise ValueError(
            f"the rule {plan.rule.name} needs all eigenpairs, and landmarks keep only sums over rows: fit all rows, or "
            'fewer of them, with fit(X, y) and solver="dense"'
        )
    if plan.noise.needs_rows and plan.noise_given is None:
        raise ValueError(
            f"the noise estimator {type(plan.noise).__name__} needs single rows, and landmarks keep only sums over "
            'rows: give noise_std a number, or "evidence", "gcv" or "tail"; or use solver="dense" or "krylov"'
        )
    if plan.rule.splits_rows:
        raise ValueError(
            'the rule HoldOut needs rows to hold out, and landmarks keep only sums over rows: use rule="loo", '
            '"gcv" or the default; or solver="dense" or "krylov"'
        )


def _noise(plan: Plan, path: Path) -> float:
    """The noise level in the units of y; zero where a single row is all there is to read it off."""
    if plan.noise_given is not None:
        return plan.noise_given
    if plan.noise.needs_path and path.n_samples <= path.n_fixed:
        return 0.0
    return plan.noise.estimate(None, None, path=path)


@dataclass(frozen=True)
class _Decisions:
    """Stops of single responses, whose means are `mean`; `weight_unit`: see `Smoother`."""

    stream: Stream
    plan: Plan
    parts: Decomposition
    mean: Array
    source: RowSource | None
    weight_unit: float

    def decide(self, path: Path, column: int) -> tuple[Stop, float]:
        """The stop of one response with its bracket, and the noise level (problem units).

        Rules are shown sums, and the default a sample of rows: both merge, so that rows at hand, in batches or on a
        cluster lead to the same stop. An oracle knows the truth by row and gets the rows.
        """
        plan, parts, moments = self.plan, self.parts, self.stream.moments
        if not plan.rule.needs_truth:
            path = replace(path, spectrum=replace(path.spectrum, basis=None), response=None)
        sigma = _noise(plan, path) / float(self.stream.unit[column])
        data = Data(moments.n_rows, seed=self.stream.seed, kernel_scale=moments.diagonal_sum / moments.weight)
        regret: float | None = None
        bracket: tuple[float, float] | None = None
        if isinstance(plan.rule, LeaveOneOut):
            stop = self._leave_one_out(plan.rule, path, column).with_evidence(rule=plan.rule.name)
            bracket, settled = (stop.step_sum, stop.step_sum), parts.captured >= 1 - max(plan.tol, 1e-9)
        elif plan.rule.left_out_allowance is not None and moments.sample is not None:
            path = self._sampled(path, moments.sample, column)
            stop = plan.rule.decide(path, sigma, data)
            errors = LeftOut(path.along(Ridge()))
            regret = errors.regret(stop.step_sum, stop.evidence.lowest_step_sum or 0.0)
            settled = regret <= plan.tol
        else:
            stop = plan.rule.decide(path, sigma, data)
            bracket, settled = bracket_stop(path, plan.rule, sigma, data, stop, parts, plan.tol)
        certainty = Certainty(
            engine="nystrom",
            settled=settled,
            regret=regret,
            bracket=bracket,
            landmarks=len(self.stream.landmarks.points),
            captured=parts.captured,
        )
        return replace(stop, certainty=certainty), sigma

    def _sampled(self, path: Path, sample: RowSample, column: int) -> Path:
        """The path of one response with the rows of the stream's sample in place of all."""
        roots = np.sqrt(sample.weights)
        rows = FeatureRows(self.stream.landmarks, sample.covariates, roots, self.parts.mean)
        return replace(
            path,
            spectrum=replace(path.spectrum, basis=Basis(rows @ self.parts.row_rotation)),
            response=roots * (sample.responses[:, column] - float(self.mean[column])),
            root_weights=roots,
            counts=sample.counts,
        )

    def _leave_one_out(self, rule: LeaveOneOut, path: Path, column: int) -> Stop:
        """Leave-one-out on all rows of the source, a second pass for each set of stops looked at."""
        source, stream, parts, n = self.source, self.stream, self.parts, path.n_samples
        if source is None:
            raise ValueError(
                "the rule LeaveOneOut needs a second pass over the rows, and rows given in batches are not kept: use "
                'rule="gcv" or the default, or fit all rows at once'
            )

        def criterion(step_sums: Array) -> Array:
            gains = path.filter.gain(path.spectrum.eigenvalues, np.atleast_1d(step_sums)).T
            smoother = Smoother(
                stream.landmarks,
                parts.mean,
                parts.row_rotation,
                gains,
                gains * path.coefficients[:, None],
                column,
                float(self.mean[column]),
                n,
                stream.intercept,
                self.weight_unit,
            )
            return source.left_out(smoother) / n

        few = rule.reading == "global"
        return lowest_in_few_passes(path, criterion) if few else minimise(path, criterion, rule.reading)
