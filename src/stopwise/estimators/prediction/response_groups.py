"""Several responses that do not share a kernel: one fit for each group of them that does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from sklearn.base import clone

from stopwise._support.arrays import Array
from stopwise._support.torch import is_tensor, torch
from stopwise.estimators.fitted import Fitted, fitted_of
from stopwise.path import Path

M = TypeVar("M")
Read: TypeAlias = Callable[[Fitted], Any]
"""A part of what a fit has learned."""


@dataclass(frozen=True)
class ResponseGroups:
    """The fits, and for each of them the columns of y that it is for."""

    fits: tuple[Fitted, ...]
    columns: tuple[tuple[int, ...], ...]

    @property
    def order(self) -> Array:
        """For each column of y its place where the groups stand one after another."""
        return np.argsort([column for group in self.columns for column in group])

    def in_order(self, values: Sequence[Sequence[Any]]) -> list[Any]:
        """From one entry for each response of each group to one for each column of y."""
        flat = [value for group in values for value in group]
        return [flat[at] for at in self.order]

    def for_columns(self, values: Sequence[Any]) -> list[Any]:
        """From one value for each group to one for each column of y."""
        return self.in_order([[value] * len(at) for value, at in zip(values, self.columns, strict=True)])

    def joined(self, values: Sequence[Any]) -> Any:
        """From arrays or tensors (m, q, ...) of each group to one for all columns of y."""
        if is_tensor(values[0]):
            return torch().cat(list(values), 1)[:, self.order.tolist()]
        return np.concatenate(values, axis=1)[:, self.order]

    @property
    def paths(self) -> list[Path]:
        """The path of each response."""
        return self.in_order([[fit.path.column(j) for j in range(len(fit.stops))] for fit in self.fits])

    @property
    def slopes(self) -> Array | None:
        """Slopes (d, q) of linear parts; zero for a response without one, None where none has one."""
        if all(fit.slopes is None for fit in self.fits):
            return None
        empty = [np.zeros((fit.covariates.shape[1], len(fit.stops))) for fit in self.fits]
        slopes = [none if fit.slopes is None else fit.slopes for fit, none in zip(self.fits, empty, strict=True)]
        return cast(Array, self.joined(slopes))

    def map(self, change: Callable[[Fitted], Fitted]) -> ResponseGroups:
        """Every fit changed."""
        return ResponseGroups(tuple(change(fit) for fit in self.fits), self.columns)

    def at_home(self) -> ResponseGroups:
        """Everything on the host."""
        return self.map(Fitted.at_home)


# ---- parts of what every group learned, put together ----------------------------------------------------------------

Each: TypeAlias = Callable[[ResponseGroups, Read], Any]


def common(groups: ResponseGroups, read: Read) -> Any:
    """What is the same for all."""
    return read(groups.fits[0])


def by_fit(groups: ResponseGroups, read: Read) -> list[Any]:
    """What a fit has one of: a list with an entry for each response."""
    return groups.for_columns([read(fit) for fit in groups.fits])


def one_each(groups: ResponseGroups, read: Read) -> list[Any] | None:
    """What a fit has a list of, with an entry for each response; None where there is none."""
    lists = [read(fit) for fit in groups.fits]
    return None if any(each is None for each in lists) else groups.in_order(lists)


def numbers(groups: ResponseGroups, read: Read) -> Array:
    """The same of numbers."""
    return np.array(one_each(groups, read))


def by_row(groups: ResponseGroups, read: Read) -> Any:
    """Rows and their weights, one table for all; a list with an entry for each response where rows differ."""
    rows, tables = [fit.covariates for fit in groups.fits], [read(fit) for fit in groups.fits]
    if not all(np.array_equal(rows[0], each) for each in rows[1:]):
        return by_fit(groups, read)
    return rows[0] if tables[0] is rows[0] else groups.joined(tables)


# ---- from an estimator ----------------------------------------------------------------------------------------------


def groups_of(model: object) -> ResponseGroups | None:
    """The groups of a fitted estimator; None where one fit is for all responses."""
    held = cast(object, fitted_of(model))
    return held if isinstance(held, ResponseGroups) else None


def common_of(model: object) -> Fitted:
    """A fit that knows what all responses of an estimator share: columns and their names, range and encoding of X."""
    held = groups_of(model)
    return fitted_of(model) if held is None else held.fits[0]


def response_names(model: object) -> tuple[str, ...] | None:
    """What the responses of a fitted estimator are called; None where y had no names."""
    groups = groups_of(model)
    if groups is None:
        return fitted_of(model).response_names
    names = one_each(groups, lambda fit: fit.response_names)
    return None if names is None else tuple(names)


def parts_of(model: M, groups: ResponseGroups) -> list[M]:
    """An estimator like this one for each group, holding the fit of its responses; kept as long as the groups are."""
    held: tuple[ResponseGroups, list[M]] | None = vars(model).get("_of_groups")
    if held is None or held[0] is not groups:
        held = groups, [clone(model) for _ in groups.fits]
        for at, (part, fitted) in enumerate(zip(held[1], groups.fits, strict=True)):
            vars(part)["_fitted"] = fitted
            if at > 0:
                vars(part)["_told"] = fitted  # of rows far off the first one tells
        vars(model)["_of_groups"] = held
    return held[1]
