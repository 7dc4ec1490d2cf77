"""Which columns matter: how much worse left-out rows are predicted when one column is shuffled among them.

Rows are left out a fifth at a time. Kernel and clock reading are the fit's; a squared-loss fit is stood for by ridge on
the same clock, as in its intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import scipy.linalg
from sklearn.base import clone

from stopwise._support.arrays import Array
from stopwise.estimators.fitted import Fitted, fitted_of
from stopwise.estimators.loss_fit import LossFitted
from stopwise.estimators.prediction.host import predict_rows
from stopwise.estimators.prediction.posterior import Free
from stopwise.rules import Fixed
from stopwise.views.facts import Model
from stopwise.views.shown_rows import ShownRows
from stopwise.views.source_columns import SourceColumn

_FOLDS = 5
"""Rows are left out a fifth at a time: five fits, each to four fifths of the rows."""
_ROWS, _SHUFFLES, _ENTRIES = 1_000, 5, 150_000_000
"""Rows that take part, shuffles of each column, and kernel entries that all of them may cost together (seconds): with
many columns there are fewer shuffles, then fewer rows."""
_LEAST_ROWS = 20
"""Of fewer, a fifth is fewer than four rows."""
_CHEAP_FEATURES = 50
"""Features up to which a kernel entry costs its exponential; with more, their products cost as much again."""


@dataclass(frozen=True)
class Importance:
    """The rise of the left-out error when a column is shuffled, and its standard deviation over the shuffles.

    Of a squared-loss fit the root mean squared error, units of y; of another loss the mean loss of a row.
    """

    column: int
    rise: float
    deviation: float


Fold: TypeAlias = tuple[Array, Callable[[Array], Array]]
"""Rows left out of a fit to the others, and that fit's values f (m, q) at any rows of features."""


@dataclass(frozen=True)
class LeftOutRows:
    """Rows of which each was predicted by a fit without it: by a fifth of them at a time."""

    rows: ShownRows
    folds: tuple[Fold, ...]
    losses: Callable[[Array, Array], Array]
    """Loss of each row from its response and value."""
    squared: bool

    @property
    def values(self) -> Array:
        """f at every row, from the fit without it, (n, q)."""
        order = np.argsort(np.concatenate([rows for rows, _ in self.folds]))
        return np.concatenate([values(self.rows.features[rows]) for rows, values in self.folds])[order]

    def error(self, change: Callable[[Array], Array] | None = None) -> float:
        """The error over all rows, each left out, after a change to their features."""
        total = 0.0
        for rows, values in self.folds:
            features = self.rows.features[rows]
            found = values(features if change is None else change(features))
            total += float(self.rows.weights[rows] @ self.losses(self.rows.responses[rows, 0], found))
        mean = total / float(self.rows.weights.sum())
        return float(np.sqrt(mean)) if self.squared else mean


def left_out_rows(model: Model, rows: ShownRows, response: int, n_columns: int) -> LeftOutRows | None:
    """Fits without a fifth of some rows each; None where rows are too few to leave out."""
    fitted = fitted_of(model)
    width = 1 + rows.features.shape[1] / _CHEAP_FEATURES
    most = int(min(_ROWS, np.sqrt(_ENTRIES / (max(n_columns, 1) * width))))
    rng = np.random.default_rng(0)
    order = rng.permutation(len(rows))[:most]
    some = rows.take(np.sort(order))
    if getattr(fitted, "classes", None) is not None:
        order = rng.permutation(len(some))
        order = order[np.argsort(some.responses[order, 0], kind="stable")]  # every fold has its share of every class
        parts: Sequence[Array] = [order[i::_FOLDS] for i in range(_FOLDS)]
    else:
        parts = np.array_split(rng.permutation(len(some)), _FOLDS)
    if len(some) < _LEAST_ROWS or not some.features.size:
        return None
    some = ShownRows(some.features, some.responses[:, response : response + 1], some.weights)
    fit = _under_loss if isinstance(fitted, LossFitted) else _ridge
    others = (some.take(np.setdiff1d(np.arange(len(some)), part)) for part in parts)
    folds = tuple((part, fit(model, rest, response)) for part, rest in zip(parts, others, strict=True))
    if isinstance(fitted, LossFitted):
        return LeftOutRows(some, folds, lambda y, f: fitted.loss.guarded(y, f, len(some)), False)
    return LeftOutRows(some, folds, lambda y, f: cast(Array, (y - f[:, 0]) ** 2), True)


def importances(left: LeftOutRows, columns: Sequence[SourceColumn]) -> list[Importance]:
    """Every column's, the most important first."""
    plain, rng = left.error(), np.random.default_rng(1)
    shuffles = int(np.clip(_ENTRIES // max(len(left.rows) ** 2 * len(columns), 1), 1, _SHUFFLES))
    out = []
    for j, column in enumerate(columns):
        index = list(column.features)

        def shuffled(features: Array, index: list[int] = index) -> Array:
            changed = features.copy()
            changed[:, index] = features[rng.permutation(len(features))][:, index]
            return changed

        varies = np.ptp(left.rows.features[:, index], axis=0).any()
        rises = [left.error(shuffled) - plain for _ in range(shuffles)] if varies else [0.0]
        out.append(Importance(j, float(np.mean(rises)), float(np.std(rises))))
    return sorted(out, key=lambda each: -each.rise)


def _ridge(model: Model, rows: ShownRows, response: int) -> Callable[[Array], Array]:
    """Kernel ridge at the fit's kernel and clock, with its unpenalised constant and linear part."""
    fitted = cast(Fitted, fitted_of(model))
    X, y = fitted.to_features(rows.features), rows.responses[:, 0]
    clock = max(float(fitted.stops[response].step_sum), 1e-300)
    root, n = np.sqrt(rows.weights), float(rows.weights.sum())
    gram = fitted.kernel(X).astype(np.float64) * root * root[:, None]
    gram[np.diag_indices_from(gram)] += n / clock
    factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    free = Free(fitted.path.intercept, fitted.trend, 1.0)
    unpenalised = free.at(X)
    both = np.column_stack([y, unpenalised])
    solved = root[:, None] * scipy.linalg.cho_solve(factor, root[:, None] * both, check_finite=False)
    level = np.linalg.lstsq(unpenalised.T @ solved[:, 1:], unpenalised.T @ solved[:, 0], rcond=None)[0]
    dual = solved[:, 0] - solved[:, 1:] @ level

    def values(features: Array) -> Array:
        at = fitted.to_features(features)
        return cast(Array, (fitted.kernel(at, X) @ dual + free.at(at) @ level)[:, None])

    return values


def _under_loss(model: Any, rows: ShownRows, response: int) -> Callable[[Array], Array]:
    """The same estimator with its kernel and stop given."""
    fitted = cast(LossFitted, fitted_of(model))
    again = clone(model).set_params(kernel=fitted.kernel)
    if fitted.stops[0].iteration is None:
        again.set_params(rule=Fixed(step_sum=float(fitted.stops[0].step_sum)))
    used = slice(None) if fitted.features is None else fitted.features
    y = rows.responses[:, 0] if fitted.classes is None else fitted.classes[rows.responses[:, 0].astype(int)]
    again.fit(rows.features[:, used], y, sample_weight=rows.weights)
    made = fitted_of(again)
    return lambda features: predict_rows(made, features[:, used], model.n_jobs)


@dataclass(frozen=True)
class Ranking:
    """The columns of a fit by how much they matter to one response, and the left-out rows that tell."""

    left: LeftOutRows | None
    found: list[Importance]
    n_columns: int

    def leading(self, most: int) -> list[int]:
        """The most important columns, in order; the first ones where left-out rows could not tell."""
        ordered = [each.column for each in self.found] or list(range(self.n_columns))
        return ordered[:most]

    @property
    def strong(self) -> list[int]:
        """Columns without which left-out rows are predicted worse."""
        return [each.column for each in self.found if each.rise > 0 and np.isfinite(each.rise)]


def ranking(model: Model, rows: ShownRows | None, columns: Sequence[SourceColumn], response: int = 0) -> Ranking:
    """How much each column matters to one response; unknown without rows."""
    left = None if rows is None or not columns else left_out_rows(model, rows, response, len(columns))
    return Ranking(left, [] if left is None else importances(left, columns), len(columns))
