"""Tables with text, dates, booleans and gaps as rows of numbers: scikit-learn's transformer contract."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from stopwise._support.checks import calling_level
from stopwise.tables.dates import PARTS, check_parts
from stopwise.tables.describing import Choices, describe
from stopwise.tables.encodings import OTHER, Floats
from stopwise.tables.frames import as_table, is_frame
from stopwise.tables.names import listed, quoted, shown
from stopwise.tables.recipe import Encoded, FeatureMatrix, Recipe
from stopwise.tables.table import Table, TableError

MAX_LEVELS = 100
"""Levels a text column may have before the rarest are pooled. In a kernel a level costs a column of memory and nothing
else: any two levels are equally far apart, however many there are."""


@dataclass(eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a pandas, polars or Arrow frame as rows of numbers.

    Numbers stay as they are and booleans become 0 and 1. Text and categories become one 0/1 feature per level. Dates
    become days since 1970 and, where the dates show them, the year, the week and the day as circles (sine and cosine).
    A gap among numbers is filled by the median, with a 0/1 feature beside it where the gap itself says something about
    y; a gap among text is a level of its own. A level never seen in training is 0 in all features of its column.

    An array must hold finite numbers and passes through unchanged: what a gap in it would mean, only a frame can say.

    Parameters
    ----------
    dates : tuple of str
        What to keep of dates, of "trend", "year", "week" and "day". Cycles that the dates do not span are left out.
    max_levels : int
        Levels of text that get a feature of their own.
    many : {"pool", "drop", "error"}
        What to do with text of more levels: "pool" keeps the commonest and makes one level of the others, "drop" leaves
        the column out. Text that names rows (more than half of the rows hold a value of their own) is left out by both.
    missing : {"impute", "error"}
        What to do with gaps.

    Attributes
    ----------
    recipe_ : Recipe
        How each column that is used becomes features; None for an array.
    groups_ : list of tuple of int
        Features that share a length scale: the levels of one column, the sine and cosine of one cycle.
    left_out_ : dict
        Columns that are not used, and why.
    pooled_ : dict
        How many levels were pooled, by column.
    n_features_in_, feature_names_in_
        The columns of the frame.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "dates": [tuple, list],
        "max_levels": [Interval(Integral, 1, None, closed="left")],
        "many": [StrOptions({"pool", "drop", "error"})],
        "missing": [StrOptions({"impute", "error"})],
    }

    _: KW_ONLY
    dates: tuple[str, ...] = PARTS
    max_levels: int = MAX_LEVELS
    many: str = "pool"
    missing: str = "impute"

    def fit(self, X: object, y: object = None) -> Self:
        """Learn levels, medians, cycles and which gaps speak of y (a number or a class per row, or several)."""
        self._validate_params()
        check_parts(tuple(self.dates))
        if not is_frame(X):
            X = validate_data(self, X, dtype=np.float64, ensure_min_samples=1)
            self.recipe_, self.left_out_, self.pooled_ = None, {}, {}
            self.groups_: list[tuple[int, ...]] = [(j,) for j in range(self.n_features_in_)]
            return self
        table = _checked(self, X, reset=True)
        choices = Choices(tuple(self.dates), self.max_levels, self.many)
        encodings, left_out, pooled = describe(table, _responses(y, len(table)), choices)
        if not encodings:
            raise TableError(f"no feature is left: {_reasons(left_out)}")
        recipe = Recipe(tuple(encodings))
        self._refuse_gaps(recipe, table)
        self.recipe_, self.left_out_, self.pooled_, self.groups_ = recipe, left_out, pooled, recipe.groups
        self._say()
        return self

    def _say(self) -> None:
        """Warn of columns that were left out, or whose levels were pooled."""
        if self.left_out_:
            warnings.warn(f"columns left out: {_reasons(self.left_out_)}", UserWarning, stacklevel=calling_level())
        for name, count in self.pooled_.items():
            rarest = "rarest level" if count == 1 else f"{count:,} rarest levels"
            warnings.warn(
                f"the {rarest} of '{shown(name)}' and any new one count as '{OTHER}': it has more than "
                f"{self.max_levels}",
                UserWarning,
                stacklevel=calling_level(),
            )

    def transform(self, X: object) -> Floats:
        """The features of a frame with the columns of the fit, (n_rows, n_features).

        The matrix remembers which columns share a length scale, so that a pipeline fits the model of the frame itself.
        """
        encoded = self.encode(X)
        if self.recipe_ is None:
            return encoded.matrix
        matrix = encoded.matrix.view(FeatureMatrix)
        matrix.groups = self.recipe_.shared_scales
        return matrix

    def encode(self, X: object) -> Encoded:
        """The features, and where gaps and levels never seen were met."""
        check_is_fitted(self, "groups_")
        if not is_frame(X):
            return self._pass_through(X)
        table = _checked(self, X, reset=False)
        if self.recipe_ is None:
            raise TableError("this encoder was fitted to an array: transform takes arrays too")
        self._refuse_gaps(self.recipe_, table)
        return self.recipe_.encode(table)

    def _pass_through(self, X: object) -> Encoded:
        if self.recipe_ is not None:
            raise TypeError(
                f"the columns of this encoder have names: pass a frame with {quoted(self.feature_names_in_)}, "
                f"not {type(X).__name__}"
            )
        matrix = validate_data(self, X, dtype=np.float64, reset=False)
        none = np.zeros(len(matrix), dtype=bool)
        return Encoded(matrix, none, none)

    def _refuse_gaps(self, recipe: Recipe, table: Table) -> None:
        if self.missing != "error":
            return
        holes = {name: int(table.columns[name].missing.sum()) for name in recipe.names}
        found = [name for name, count in holes.items() if count]
        if found:
            raise TableError(
                f"missing values in {quoted(found)} ({holes[found[0]]:,} of {len(table):,} rows in the first), and "
                'missing="error": fill them, drop those rows, or choose missing="impute"'
            )

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """One name per feature, such as "colour=red"; no two are the same."""
        check_is_fitted(self, "groups_")
        if self.recipe_ is not None:
            return np.array(self.recipe_.features, dtype=object)
        return np.array(list(_check_feature_names_in(self, input_features)), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _checked(encoder: TableEncoder, X: object, *, reset: bool) -> Table:
    """The frame as a table, its names and their number kept or compared as scikit-learn does."""
    table = as_table(X)
    if isinstance(X, Table):
        if reset:
            encoder.n_features_in_ = len(table.names)
            encoder.feature_names_in_ = np.array(table.names, dtype=object)
        absent = [name for name in encoder.feature_names_in_ if name not in table.columns]
        if absent:
            raise TableError(f"the table lacks columns of the fit: {quoted(absent)}")
    else:
        validate_data(encoder, X, reset=reset, skip_check_array=True)
        if reset and not hasattr(encoder, "feature_names_in_"):
            encoder.feature_names_in_ = np.array(table.names, dtype=object)
    if not table.columns:
        raise TableError("the table has no columns, and a minimum of 1 is required")
    if not len(table):
        raise TableError("the table has 0 rows, and a minimum of 1 is required")
    return table


def _responses(y: object, n_rows: int) -> Floats | None:
    """Responses (n, q) as numbers, classes as a column of 0/1 each; None where there are none."""
    if y is None:
        return None
    values = np.asarray(y)
    if len(values) != n_rows:
        raise ValueError(f"y must have a response for each of the {n_rows} rows, got {len(values)}")
    if values.dtype.kind not in "fiub":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            _, codes = np.unique(values.astype(str), return_inverse=True)
            values = codes.reshape(n_rows, -1)[:, :1] == np.arange(codes.max() + 1)
    return cast(Floats, values.reshape(n_rows, -1).astype(np.float64))


def _reasons(left_out: Mapping[str, str]) -> str:
    return listed([f"'{shown(name)}' ({why})" for name, why in left_out.items()])
