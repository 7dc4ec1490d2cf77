"""A random sample of rows that merges: those with the smallest keys, in whatever order and parts rows come.

A key is a hash of a row's covariates and, for rows that are alike, of which one of them it is. So rows in memory, in
batches and on several machines give the same sample, and the sample of a union is found in the samples of its parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.torch import row_keys
from stopwise.copies import row_hashes

SAMPLE_ROWS = 4_096
"""Rows that are kept: left-out errors of so many tell a stop from another to a few thousandths of the error."""


@dataclass(frozen=True)
class RowSample:
    """Keys in ascending order with covariates (k, d), responses (k, q), weights and counts of observations (k,)."""

    keys: Array
    covariates: Array
    responses: Array
    weights: Array
    counts: Array

    def __post_init__(self) -> None:
        lengths = [len(column) for column in self._columns()]
        if len(set(lengths)) > 1:
            raise ValueError(f"a sample of rows needs as many keys as rows, got parts of {lengths} rows")

    def __len__(self) -> int:
        return len(self.keys)

    def __add__(self, other: RowSample) -> RowSample:
        both = [np.concatenate(parts) for parts in zip(self._columns(), other._columns(), strict=True)]
        return RowSample(*both)._smallest()

    def _columns(self) -> tuple[Array, ...]:
        return self.keys, self.covariates, self.responses, self.weights, self.counts

    def _smallest(self) -> RowSample:
        order = np.lexsort((self.weights, *self.responses.T, self.keys))[:SAMPLE_ROWS]
        return RowSample(*(column[order] for column in self._columns()))

    def mapped(self, factor: Array, shift: Array) -> RowSample:
        return replace(self, responses=self.responses * factor + shift)

    def reweighted(self, by: float) -> RowSample:
        return replace(self, weights=self.weights * by)


def sample_rows(covariates: Array, responses: Array, weights: Array | None, counts: Array | None) -> RowSample:
    """The sample of these rows; a row of weight zero is not there. Without `counts` each row is one observation."""
    keys = _keys(covariates)
    there = np.arange(len(keys)) if weights is None else np.flatnonzero(weights)
    few = there if len(there) <= SAMPLE_ROWS else there[np.argpartition(keys[there], SAMPLE_ROWS)[: SAMPLE_ROWS + 1]]
    few = there[keys[there] <= keys[few].max()] if few.size else few  # ties at the edge are settled by what they hold
    ones = np.ones(len(few))
    return RowSample(
        keys[few],
        np.asarray(covariates[few], dtype=np.float64),
        np.asarray(responses[few], dtype=np.float64),
        ones if weights is None else weights[few].astype(np.float64),
        ones if counts is None else counts[few].astype(np.float64),
    )._smallest()


def _keys(covariates: Array) -> Array:
    """A key for each row; the second of two rows that are alike gets another than the first."""
    alike = row_hashes(covariates)
    order = np.argsort(alike, kind="stable")
    places = np.arange(len(order))
    again = alike[order] == np.roll(alike[order], 1)
    again[:1] = False
    which = np.empty_like(places)
    which[order] = places - np.maximum.accumulate(np.where(again, 0, places))
    # Two rounds more than there are entries: the last columns' bits are spread as well as the first's.
    return cast(Array, row_keys((which, which, which), alike))
