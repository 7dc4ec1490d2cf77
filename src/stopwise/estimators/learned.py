"""What every estimator shares: how its parameters are read, and public names for what a fit has learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from stopwise.engine.solvers.plan import Landmarked
from stopwise.estimators.fitted import fitted_of
from stopwise.estimators.notebook import StopDisplay
from stopwise.estimators.prediction.response_groups import Each, by_fit, by_row, common, groups_of, one_each
from stopwise.kernels import Kernel, as_kernel
from stopwise.kernels.stationary import Stationary
from stopwise.losses import Loss, Squared


def learned(read: Callable[[Any], Any], what: str, *, optional: bool = False, apart: Each = common) -> property:
    """A public name for a part of what was learned; an optional one is not there where its value is None.

    `apart` puts together what the fits of several responses hold, where these have kernels of their own.
    """

    def get(self: object) -> Any:
        groups = groups_of(self)
        try:
            value = read(fitted_of(self)) if groups is None else apart(groups, read)
        except AttributeError as error:
            loss = getattr(error.obj, "loss", None)
            if not isinstance(loss, Loss):
                raise
            raise AttributeError(
                f"this {type(self).__name__} was fitted under the {loss.name} loss, which leaves no such "
                f'attribute: {what} Fit with loss="squared" to have it, or ask `stop_` and `sw.explain` of this fit'
            ) from error
        if optional and value is None:
            raise AttributeError(f"this {type(self).__name__} has no such attribute: {what}")
        return value

    return property(get, doc=what)


def published_kernel(kernel: object) -> Kernel:
    """The kernel as given; a length scale that is left open is 1, as papers have it."""
    given = as_kernel(kernel)
    return given.with_length_scale(1.0) if isinstance(given, Stationary) and given.length_scale == "auto" else given


@dataclass(eq=False, repr=False)
class LearnedState(StopDisplay):
    """An estimator with a kernel, all of whose learned state is one frozen piece, `_fitted`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": "no_validation",
        "rule": "no_validation",
        "relevance": [StrOptions({"auto"}), "boolean"],
        "fit_intercept": ["boolean"],
        "n_landmarks": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    kernel: object = "auto"
    _: KW_ONLY
    rule: object = "auto"
    relevance: bool | str = "auto"
    fit_intercept: bool = True
    n_landmarks: Landmarked = "auto"
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    def kernel_parameter(self) -> Kernel | None:
        """The kernel as given; None for "auto"."""
        return None if isinstance(self.kernel, str) and self.kernel == "auto" else as_kernel(self.kernel)

    def random_seed(self) -> int:
        """The seed that `random_state` stands for; None is 0."""
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(cast(np.random.RandomState, self.random_state).randint(2**31 - 1))

    kernel_ = learned(lambda f: f.kernel, "The kernel; a list where responses have their own.", apart=by_fit)
    selection_ = learned(lambda f: f.selection, 'What "auto" tried; None for a kernel that was given.', apart=by_fit)
    X_fit_ = learned(lambda f: f.covariates, "The rows (or landmarks) that predictions weigh.", apart=by_row)
    solver_ = learned(lambda f: f.solver, "The solver that was used.", apart=by_fit)
    stop_ = learned(
        lambda f: f.pick(f.stops), "Where it stopped and why; a list for several responses.", apart=one_each
    )
    step_sum_ = learned(lambda f: f.pick(f.step_sums.tolist()), "The clock reading of the stop.", apart=one_each)
    loss_ = learned(lambda f: getattr(f, "loss", Squared()), "The loss, with every scale settled.")
    n_features_in_ = learned(lambda f: f.n_in, "How many columns X had.")
    feature_names_in_ = learned(lambda f: f.names_in, "Their names, where they had any.", optional=True)
    feature_range_ = learned(lambda f: f.feature_range, "Smallest and largest value of each column, (2, d).")

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags
