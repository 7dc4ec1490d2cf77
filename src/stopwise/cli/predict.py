"""stopwise predict: a table through a model, batch by batch; memory does not grow with the file."""

import contextlib
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
import pandas as pd
import pyarrow as pa

from stopwise._support.arrays import Array
from stopwise._support.progress import Progress
from stopwise.cli import options
from stopwise.cli.output import Notes, print_facts
from stopwise.cli.prediction_writers import JsonSink, Sink, file_sink
from stopwise.estimators.prediction.training_range import Mask, outside
from stopwise.exceptions import ExtrapolationWarning
from stopwise.io import Saved, read_model
from stopwise.kernels import Sobolev
from stopwise.tables import MISSING, Columns, Numeric, Source, TableError, find_sources, quoted, shown
from stopwise.views.facts import parts

_BATCH = 16_384
"""Rows predicted at once: 130 kB a column, whatever the size of the file."""


def columns_of(saved: Saved, sources: list[Source]) -> Columns:
    """The columns a model wants, checked against every file: a missing one is named."""
    model = saved.model
    if saved.table is not None:
        columns = cast(Columns, saved.table)
    elif hasattr(model, "feature_names_in_"):
        columns = Columns(None, tuple(Numeric(str(name), np.nan) for name in model.feature_names_in_))
    else:
        names = sources[0].names()
        if len(names) != model.n_features_in_:
            raise TableError(
                f"this model knows its features by position, so the table must have {model.n_features_in_} columns; it "
                f"has {len(names)}"
            )
        columns = Columns(None, tuple(Numeric(name, np.nan) for name in names))
    for source in sources:
        present = set(source.names())
        absent = [name for name in columns.names if name not in present]
        if absent:
            raise TableError(f"{shown(source.path, 300)} lacks columns the model was fitted to: {quoted(absent)}")
    return columns


@dataclass
class Tally:
    """What was met on the way."""

    rows: int = 0
    outside: int = 0
    missing: int = 0
    unseen: int = 0
    unpredicted: int = 0
    features: Counter[str] = field(default_factory=Counter)

    def sentences(self) -> list[str]:
        """What a reader should know, in words."""
        lines = []
        if self.outside:
            where = ", ".join(f"'{shown(name)}' ({count:,})" for name, count in self.features.most_common(5))
            count = f"{self.outside:,} of {self.rows:,} rows"
            lines.append(f"{count} lie outside the range of the training data (extrapolation): {where}")
        if self.unseen:
            lines.append(f"{self.unseen:,} rows have text never seen in training; its features are all 0 there")
        if self.missing:
            lines.append(f"{self.missing:,} rows have missing values")
        if self.unpredicted:
            lines.append(f"{self.unpredicted:,} rows have no prediction")
        return lines


class Predictor:
    """A model, the columns it wants, and a count of what it met."""

    def __init__(self, saved: Saved, columns: Columns, *, std: bool, missing: str) -> None:
        self.model, self.columns, self.std, self.missing = saved.model, columns, std, missing
        self.ranges: Array = self.model.feature_range_
        self.names, self.tally = columns.features, Tally()

    def predict(self, batch: pa.RecordBatch) -> dict[str, Array]:
        """Predictions (and their standard deviations) for a batch, NaN where there is none."""
        X, gaps, unseen = self.columns.encode(batch, fill=self.missing == "median")
        if self.missing == "refuse" and gaps.any():
            row = self.tally.rows + int(np.argmax(gaps)) + 1
            raise TableError(
                f"row {row:,} has a missing value: choose --missing drop (no prediction) or --missing median"
            )
        usable = np.asarray(~np.isnan(X).any(axis=1))
        self._count(X, gaps, unseen, usable)
        usable[usable] = self._in_domain(X[usable])
        self.tally.unpredicted += int((~usable).sum())
        return self._columns(X, usable)

    def _count(self, X: Array, gaps: Mask, unseen: Mask, usable: Mask) -> None:
        self.tally.rows += len(X)
        self.tally.missing += int(gaps.sum())
        self.tally.unseen += int(unseen.sum())
        beyond = outside(self.ranges, X)
        self.tally.outside += int((beyond.any(axis=1) & usable).sum())
        for column in np.flatnonzero(beyond.any(axis=0)):
            self.tally.features[self.names[column]] += int(beyond[:, column].sum())

    def _in_domain(self, X: Array) -> Mask:
        """Rows where the kernel is defined at all: a Sobolev kernel ends where its interval does."""
        inside = np.ones(len(X), dtype=bool)
        for part in parts(self.model.kernel_):
            if isinstance(part, Sobolev) and X.shape[1] == 1:
                left, right = cast(tuple[float, float], part.interval)
                inside &= (X[:, 0] >= left) & (X[:, 0] <= right)
        return inside

    def _named(self, X: Array) -> Any:
        names = getattr(self.model, "feature_names_in_", None)
        return X if names is None else pd.DataFrame(X, columns=pd.Index(names, dtype=object))

    def _columns(self, X: Array, usable: Mask) -> dict[str, Array]:
        outputs = 1 if self.model.dual_coef_.ndim == 1 else self.model.dual_coef_.shape[1]
        values = np.full((2 if self.std else 1, len(X), outputs), np.nan)
        if usable.any():
            found = self.model.predict(self._named(X[usable]), return_std=self.std)
            for kind, part in enumerate(found if self.std else (found,)):
                values[kind, usable] = np.reshape(part, (-1, outputs))
        ends = [""] if outputs == 1 else [f"_{column + 1}" for column in range(outputs)]
        kinds = ("prediction", "std")[: len(values)]
        return {f"{kind}{end}": values[k, :, j] for j, end in enumerate(ends) for k, kind in enumerate(kinds)}


def _batches(sources: list[Source], columns: Columns) -> Iterator[pa.RecordBatch]:
    for source in sources:
        for batch in source.batches(columns.types, _BATCH):
            for first in range(0, batch.num_rows, _BATCH):
                yield batch.slice(first, _BATCH)


def _stream(predictor: Predictor, sources: list[Source], sink: Sink, progress: Progress) -> None:
    empty = True
    for batch in _batches(sources, predictor.columns):
        sink.write(predictor.predict(batch))
        progress.show(f"{predictor.tally.rows:,} rows predicted")
        empty = False
    if empty:
        raise TableError("the table has no rows to predict")


@click.command(epilog=options.DATA_HELP)
@click.argument("model", type=options.FILE)
@click.argument("data", type=options.FILE)
@click.option("--std", is_flag=True, help="Add the standard deviation of the estimated mean.")
@click.option("--out", type=options.FILE, help="Write predictions here (.csv, .parquet) instead of standard output.")
@click.option(
    "--missing", type=click.Choice(MISSING), default="refuse", show_default=True, help="Rows with missing values."
)
@options.separator_option
@options.output_options
def predict(
    model: Path,
    data: Path,
    std: bool,
    out: Path | None,
    missing: str,
    separator: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Predict every row of a table with a saved model.

    The columns the model was fitted to are required, others are ignored. With --json and no --out the predictions are
    part of the object. --missing drop leaves the prediction of such a row empty; median fills gaps as in training.
    """
    started = time.perf_counter()
    options.check_outputs(data, out)
    options.check_outputs(model, out)
    notes, saved, sources = Notes(quiet or as_json), read_model(model), find_sources(data, separator)
    predictor = Predictor(saved, columns_of(saved, sources), std=std, missing=missing)
    with contextlib.ExitStack() as files:
        table = JsonSink(files) if as_json and out is None else None
        sink: Sink = files.enter_context(file_sink(out)) if table is None else table
        progress = files.enter_context(notes.progress("predicting"))
        with warnings.catch_warnings():
            # Counted over the whole file here, rather than batch by batch.
            warnings.simplefilter("ignore", ExtrapolationWarning)
            _stream(predictor, sources, sink, progress)
        if table is not None:
            _finish(predictor, notes, table, model, out, started, as_json=True)
    if table is None:
        _finish(predictor, notes, None, model, out, started, as_json=as_json)


def _finish(
    predictor: Predictor,
    notes: Notes,
    sink: JsonSink | None,
    model: Path,
    out: Path | None,
    started: float,
    *,
    as_json: bool,
) -> None:
    tally = predictor.tally
    for line in tally.sentences():
        notes.add(line)
    result: dict[str, Any] = {"rows": tally.rows, "outside": tally.outside, "outside_by_feature": dict(tally.features)}
    result |= {"missing": tally.missing, "unseen_text": tally.unseen, "unpredicted": tally.unpredicted}
    result |= {"model": str(model), "out": str(out) if out else None, "warnings": notes.lines}
    result |= {"seconds": round(time.perf_counter() - started, 3)}
    if as_json:
        arrays = dict.fromkeys(sink.arrays) if sink is not None else {}
        (sink or JsonSink(contextlib.ExitStack())).emit(result | arrays, sys.stdout)
    elif not notes.quiet and out is not None:
        facts = [("rows", f"{tally.rows:,}"), ("written to", shown(out, 300)), ("time", f"{result['seconds']:.3g} s")]
        print_facts("Predicted", facts)
