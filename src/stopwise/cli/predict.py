"""stopwise predict: a table through a model, batch by batch; memory does not grow with the file."""

import contextlib
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.progress import Progress
from stopwise.cli import options
from stopwise.cli.output import Notes, Tally, print_facts, tell
from stopwise.cli.prediction_writers import WRITTEN, Cells, JsonWriter, Writer, check_writable, file_writer
from stopwise.cli.streams import is_stream
from stopwise.cli.table_options import Writing, writing_options
from stopwise.estimators.fitted import Fitted
from stopwise.estimators.loss_fit import LossFitted
from stopwise.estimators.prediction.response_groups import common_of
from stopwise.estimators.prediction.training_range import Mask, outside
from stopwise.exceptions import ExtrapolationWarning
from stopwise.io import read_model
from stopwise.kernels import Sobolev
from stopwise.kernels.base import parts
from stopwise.tables import (
    EncodedFrame,
    FittedTable,
    Kind,
    Numbers,
    Recipe,
    Table,
    TableError,
    Tables,
    input_files,
    open_tables,
    quoted,
    shown,
    told_apart,
)
from stopwise.tables.encodings import as_text
from stopwise.views.effects import predictor


def known_columns(fitted: Fitted) -> Recipe | None:
    """How a model's columns become features; None where it knows their number alone."""
    if fitted.recipe is not None or fitted.feature_names is None:
        return fitted.recipe
    return _numbers([str(name) for name in fitted.feature_names])


def _numbers(names: list[str]) -> Recipe:
    """Columns of numbers, with nothing to fill gaps by."""
    return Recipe(tuple(Numbers(name, np.nan) for name in names))


def columns_of(known: Recipe | None, n_features: int, tables: Tables) -> Recipe:
    """The columns a model wants, checked against every file: a missing one is named."""
    if known is None:
        names = tables.names()
        if len(names) != n_features:
            raise TableError(
                f"this model knows its features by position, so the table must have {n_features} columns; it has "
                f"{len(names)}"
            )
        known = _numbers(names)
    for source in tables.sources:
        present = set(source.names())
        absent = [name for name in known.names if name not in present]
        if absent:
            raise TableError(f"{source.label} lacks columns the model was fitted to: {quoted(absent)}")
    return known


@dataclass
class Predictor:
    """A model, the columns it wants, and a count of what it met."""

    model: Any
    recipe: Recipe
    std: bool
    missing: str
    id_column: str | None
    id_called: str | None
    """What the names of rows are called where they are written."""
    interval: float | None
    tally: Tally = field(default_factory=Tally)

    def predict(self, batch: Table, names: Table) -> dict[str, Cells]:
        """Predictions (and their standard deviations) for a batch, NaN where there is none, after the names of rows."""
        encoded = self.recipe.encode(batch)
        if self.missing == "refuse" and encoded.missing.any():
            row = self.tally.rows + int(np.argmax(encoded.missing)) + 1
            raise TableError(
                f"row {row:,} has a missing value: choose --missing impute or --missing drop (no prediction)"
            )
        usable = np.asarray(~np.isnan(encoded.matrix).any(axis=1))
        if self.missing == "drop":
            usable &= ~encoded.missing
        self._count(encoded.matrix, encoded.missing, encoded.unseen, usable)
        self.tally.unfilled += int((~usable).sum())
        inside = self._in_domain(encoded.matrix[usable])
        self.tally.undefined += int((~inside).sum())
        usable[usable] = inside
        return self._named_rows(names, self._columns(encoded.matrix, usable))

    def _named_rows(self, written: Table, columns: dict[str, Array]) -> dict[str, Cells]:
        if self.id_column is None:
            return cast("dict[str, Cells]", columns)
        cells = as_text(written.columns[self.id_column])
        names = told_apart([*columns, self.id_called or self.id_column])
        return {names[-1]: cast(Cells, cells.values), **columns}

    def _count(self, X: Array, gaps: Mask, unseen: Mask, usable: Mask) -> None:
        self.tally.rows += len(X)
        self.tally.missing += int(gaps.sum())
        self.tally.unseen += int(unseen.sum())
        beyond = outside(self.model.feature_range_, X) & usable[:, None]
        self.tally.outside += int(beyond.any(axis=1).sum())
        counts = dict(zip(self.recipe.features, beyond.sum(axis=0).tolist(), strict=True))
        self.tally.features.update({name: count for name, count in counts.items() if count})

    def _in_domain(self, X: Array) -> Mask:
        """Rows where the kernel is defined at all: a Sobolev kernel ends where its interval does."""
        inside = np.ones(len(X), dtype=bool)
        for part in parts(common_of(self.model).kernel):
            if isinstance(part, Sobolev) and X.shape[1] == 1:
                left, right = cast(tuple[float, float], part.interval)
                inside &= (X[:, 0] >= left) & (X[:, 0] <= right)
        return inside

    def _classes(self, X: Array, usable: Mask) -> dict[str, Array]:
        """The likeliest class of each row, and the probability of every class."""
        labels = [str(label) for label in self.model.classes_]
        p = np.full((len(X), len(labels)), np.nan)
        if usable.any():
            p[usable] = predictor(self.model)(X[usable])
        best = np.full(len(X), None, dtype=object)
        best[usable] = np.array(labels, dtype=object)[p[usable].argmax(axis=1)]
        names = told_apart(["prediction", *(f"probability {label}" for label in labels)])
        return dict(zip(names, [best, *p.T], strict=True))

    def _columns(self, X: Array, usable: Mask) -> dict[str, Array]:
        if hasattr(self.model, "classes_"):
            return self._classes(X, usable)
        outputs = 1 if self.model.dual_coef_.ndim == 1 else self.model.dual_coef_.shape[1]
        kinds = ["prediction", *(["std"] if self.std else []), *(["lower", "upper"] if self.interval else [])]
        values, encoded = np.full((len(kinds), len(X), outputs), np.nan), common_of(self.model).recipe is not None
        if usable.any():
            with warnings.catch_warnings():
                # Rows outside the range are counted over the whole file, and the columns were put in order by name.
                warnings.simplefilter("ignore", ExtrapolationWarning)
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                rows = EncodedFrame(X[usable], tuple(self.recipe.names), self.recipe) if encoded else X[usable]
                for kind, part in enumerate(self._parts(rows)):
                    values[kind, usable] = np.reshape(part, (-1, outputs))
        ends = [""] if outputs == 1 else [f"_{column + 1}" for column in range(outputs)]
        return {f"{kind}{end}": values[k, :, j] for j, end in enumerate(ends) for k, kind in enumerate(kinds)}

    def _parts(self, rows: Any) -> list[Array]:
        """Predictions, and deviations and the ends of intervals where they are asked for."""
        found = list(self.model.predict(rows, return_std=True)) if self.std else [self.model.predict(rows)]
        if self.interval:
            ends = self.model.predict_interval(rows, self.interval)
            found += [ends[..., 0], ends[..., 1]]
        return found


def _stream(predictor: Predictor, tables: Tables, writing: Writing, writer: Writer, progress: Progress) -> None:
    name, kinds = predictor.id_column, predictor.recipe.kinds
    reading = replace(writing.reading(tables.names()), kinds=kinds if name is None else {name: Kind.TEXT, **kinds})
    batches = tables.batches(tables.types(reading, list(reading.kinds)))
    pairs: Iterable[tuple[Table, Table]] = ((batch, batch) for batch in batches)
    if name is not None and reading.kinds[name] is not Kind.TEXT:  # a feature too: 00001 is the number 1, and a name
        as_written = replace(reading, kinds={name: Kind.TEXT}, words={})
        pairs = zip(batches, tables.batches(tables.types(as_written, [name])), strict=True)
    empty = True
    for batch, written in pairs:
        writer.write(predictor.predict(batch, written))
        progress.show(f"{predictor.tally.rows:,} rows predicted")
        empty = False
    if empty:
        raise TableError("the table has no rows to predict")


def _id_column(asked: str | None, known: FittedTable | None, tables: Tables) -> str | None:
    """The column that names rows: the one asked for, or the one of the fit where it is there."""
    names = tables.names()
    if asked is None:
        return known.id if known is not None and known.id in names else None
    if asked not in names:
        raise TableError(f"no column named {quoted([asked])}; the columns are {quoted(names, 10)}")
    return asked


@click.command(epilog=options.DATA_HELP)
@click.argument("model", type=options.FILE)
@click.argument("data", type=options.FILE)
@click.option("--std", is_flag=True, help="Add the standard deviation of the curve.")
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Add the ends of intervals that cover this share of new observations (0.9): columns lower and upper.",
)
@click.option("--out", type=options.FILE, help=f"Write predictions here, {WRITTEN}, instead of standard output.")
@click.option("--id", "id_column", help="A column to carry through to the predictions.")
@writing_options
@options.output_options
def predict(
    model: Path,
    data: Path,
    std: bool,
    interval: float | None,
    out: Path | None,
    id_column: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Predict every row of a table with a saved model.

    The columns the model was fitted to are required, others are ignored. With --json and no --out the predictions are
    part of the object, and the names of rows are its "id". --missing impute fills gaps as in training, drop leaves the
    prediction of such a row empty.
    """
    started = time.perf_counter()
    writing = Writing.taken(given)
    options.check_outputs([model, *input_files(data)], out)
    if not is_stream(out):
        check_writable(cast(Path, out))
    elif as_json and out is not None:
        raise click.UsageError("--json and --out to a stream would both write there: leave one out")
    notes, saved = Notes(quiet or as_json), read_model(model)
    fitted = common_of(saved.model)
    known = known_columns(fitted)
    with open_tables(data, writing.asked(known.names if known else ())) as tables:
        if (std or interval) and isinstance(fitted, LossFitted):
            asked, loss = "--std" if std else "--interval", fitted.loss.name
            raise click.UsageError(f"{asked} is for models of --loss squared; this one has the loss {loss}")
        id_column, inside = _id_column(id_column, saved.table, tables), as_json and out is None
        predictor = Predictor(
            saved.model,
            columns_of(known, fitted.n_features, tables),
            std=std,
            missing=writing.gaps_are,
            id_column=id_column,
            id_called="id" if inside else id_column,
            interval=interval,
        )
        with contextlib.ExitStack() as files:
            arrays = JsonWriter(files) if inside else None
            writer = arrays or files.enter_context(file_writer(out))
            progress = files.enter_context(notes.progress("predicting"))
            with notes.listening():
                _stream(predictor, tables, writing, writer, progress)
            if arrays is not None:
                arrays.emit(_result(predictor, notes, model, None, started) | dict.fromkeys(arrays.arrays))
                return
    result = _result(predictor, notes, model, out, started)
    facts = [("rows", f"{result['rows']:,}"), ("written to", shown(out, 300)), ("time", f"{result['seconds']:.3g} s")]
    quiet = notes.quiet or is_stream(out)
    tell(result, lambda: print_facts("Predicted", facts), as_json=as_json, quiet=quiet)


def _result(predictor: Predictor, notes: Notes, model: Path, out: Path | None, started: float) -> dict[str, Any]:
    """What the command did as one JSON object; what a reader should know is said, too."""
    tally = predictor.tally
    for line in tally.sentences():
        notes.add(line)
    return {
        "rows": tally.rows,
        "outside": tally.outside,
        "outside_by_feature": dict(tally.features),
        "missing": tally.missing,
        "unseen_text": tally.unseen,
        "unpredicted": tally.unpredicted,
        "id_column": predictor.id_column,
        "model": str(model),
        "out": str(out) if out else None,
        "warnings": notes.lines,
        "seconds": round(time.perf_counter() - started, 3),
    }
