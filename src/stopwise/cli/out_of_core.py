"""Folders of Parquet or CSV files, never loaded whole: files become chunks, chunks become sums on a cluster."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from stopwise._support.dask import Client, Future, connected, dask
from stopwise._support.optional import arrow
from stopwise.cli.options import names_among
from stopwise.cli.output import Notes
from stopwise.cli.table_options import Columns, Writing
from stopwise.engine.cluster.chunks import Chunks, Layout, PartitionError, Rows, count_rows, rows_of_table
from stopwise.estimators.dask_collections import fit_chunks
from stopwise.estimators.fitted import fitted_of
from stopwise.tables import Asked, Numbers, Recipe, Roles
from stopwise.tables.reading.parquet import ParquetSource
from stopwise.tables.reading.sniffing import Dialect, sniff
from stopwise.tables.reading.text_source import TextFile, TextSource
from stopwise.views.facts import describe, plain

CHUNK_ROWS, BLOCK_BYTES = 262_144, 32 * 2**20
"""Of a chunk: rows of Parquet, bytes of text. A chunk of ten columns takes some 20 MB, and a worker holds a few."""


def fit_in_chunks(
    estimator: Any,
    data: Path | None,
    columns: Columns,
    writing: Writing,
    notes: Notes,
) -> tuple[Any, dict[str, Any]]:
    """The fitted model and what the command prints of it."""
    if data is None or columns.target is None:
        raise click.UsageError("--solver dask reads files in chunks: give a folder (or file) and --target")
    if writing.missing not in (None, "refuse"):
        raise click.UsageError("--solver dask refuses missing values: fill or drop them before")
    for option, value in (("--as", writing.kinds), ("--gap", writing.gaps), ("--sheet", writing.sheet)):
        if value:
            raise click.UsageError(f"{option} is for tables read whole, and --solver dask reads chunks: leave one out")
    started = time.perf_counter()
    roles = Roles(columns.target, columns.features, columns.exclude, columns.id_column)
    with notes.listening():
        model = fit_folder(estimator, data, roles, writing=writing.asked(), show=not notes.quiet)
    seconds, details = time.perf_counter() - started, model.stop_.details
    recipe = cast(Recipe, fitted_of(model).recipe)
    return model, {
        "rows": fitted_of(model).n_given,
        "features": recipe.features,
        "target": roles.target,
        "table": None,
        "encoded": recipe.sentence,
        **describe(model),
        "seconds": round(seconds, 3),
        **{name: plain(details.get(name)) for name in ("landmarks", "bracket", "captured", "settled")},
    }


def fit_folder(
    estimator: Any, folder: str | Path, roles: Roles, *, writing: Asked | None = None, show: bool = False
) -> Any:
    """The estimator, fitted to all files of a folder (or one file) on the connected dask client, or a local cluster.

    With `show` the dashboard's address and dask's progress bar appear on standard error.
    """
    asked = replace(writing or Asked(), expected={roles.target})
    files = _files(Path(folder), asked.given.separator)
    with connected(estimator.n_jobs) as client:
        if show:
            sys.stderr.write(f"dask dashboard: {client.dashboard_link}\n")
        make = _parquet_chunks if files[0].suffix in (".parquet", ".pq") else _csv_chunks
        precision = "float64" if estimator.in_double else "float32"
        layout = Layout(None, (roles.target,), precision=precision)
        chunks = make(files, layout, roles, asked, client)
        fitted, sample = fit_chunks(estimator, chunks, client, _show_progress if show else None)
        medians = zip(chunks.layout.features or (), np.median(sample.covariates, axis=0), strict=True)
        recipe = Recipe(tuple(Numbers(name, float(median)) for name, median in medians))
        estimator._fitted = replace(fitted, columns_in=tuple(recipe.names), recipe=recipe)
    return estimator


def _show_progress(future: Future) -> None:
    with contextlib.redirect_stdout(sys.stderr):
        dask("distributed").progress(future, notebook=False)
    sys.stderr.write("\n")


def _files(folder: Path, separator: str | None) -> list[Path]:
    """The files of a folder that can be read, all of one kind."""
    known = {".parquet", ".pq", ".csv", ".tsv"} | ({".txt"} if separator else set())
    found = [folder] if folder.is_file() else sorted(p for p in folder.iterdir() if p.suffix in known)
    kinds = {".parquet" if path.suffix == ".pq" else path.suffix for path in found}
    if not found:
        raise ValueError(f"{folder} holds no .parquet, .csv or .tsv files")
    if len(kinds) > 1 or not kinds <= known:
        seen = ", ".join(sorted(kinds))
        raise ValueError(f"{folder} must hold files of one kind, .parquet, .csv or .tsv; it has {seen}")
    return found


def _chosen(columns: Sequence[str], numeric: set[str], roles: Roles) -> tuple[str, ...]:
    """The feature columns, which must hold numbers, as the target must."""
    features, exclude = names_among(roles.features, columns), names_among(roles.exclude, columns)
    chosen = replace(roles, features=features, exclude=exclude).chosen(columns)
    text = [name for name in [*chosen, roles.target] if name not in numeric]
    if text:
        raise ValueError(
            f"the column {text[0]!r} is not numbers, and files read in chunks need numbers: leave it out with "
            "--exclude, or load the table whole (without --solver dask), which turns text and dates into features"
        )
    return tuple(chosen)


# ---- Parquet --------------------------------------------------------------------------------------------------------


def read_parquet(path: str, groups: list[int], layout: Layout, label: str) -> Rows:
    """Checked rows of some row groups of a file."""
    file = _parquet().ParquetFile(path)
    schema = file.schema_arrow
    for name, expected in layout.dtypes or ():
        if name not in schema.names:
            raise PartitionError(f"{label} has no column {name!r}: it has {', '.join(map(repr, schema.names))}")
        if str(schema.field(name).type) != expected:
            raise PartitionError(
                f"{label}: column {name!r} is {schema.field(name).type} and the first file has {expected}"
            )
    table = file.read_row_groups(groups, columns=[name for name, _ in layout.dtypes or ()], use_threads=False)
    return rows_of_table(table.to_pandas(), replace(layout, dtypes=None), label)


def _parquet_chunks(files: list[Path], asked: Layout, roles: Roles, writing: Asked, client: Client) -> Chunks:
    schema = _parquet().read_schema(files[0])
    kinds = {field.name: field.type for field in schema}
    numeric = {name for name, kind in kinds.items() if _is_number(kind)}
    numbering = ParquetSource(files[0], files[0].name).row_names()
    chosen = _chosen(schema.names, numeric, replace(roles, row_names=numbering))
    dtypes = tuple((name, str(kinds[name])) for name in [*chosen, roles.target])
    layout = replace(asked, features=chosen, dtypes=dtypes, n_features=len(chosen))
    read = dask().delayed(read_parquet, pure=False)
    parts: list[Any] = []
    labels, lengths = [], []
    for path in files:
        for groups, rows in _row_groups(path):
            labels.append(f"partition {len(parts)} ({path.name}, row groups {groups[0]}-{groups[-1]})")
            parts.append(read(str(path.absolute()), groups, layout, labels[-1]))
            lengths.append(rows)
    return Chunks(tuple(parts), tuple(labels), tuple(lengths), layout, single=True)


def _parquet() -> Any:
    return arrow("reading Parquet", "pyarrow.parquet")


def _is_number(kind: Any) -> bool:
    pa = arrow("reading Parquet")
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _row_groups(path: Path) -> list[tuple[list[int], int]]:
    """Neighbouring row groups of a file, together about as many rows as a chunk should have."""
    meta = _parquet().read_metadata(path)
    out: list[tuple[list[int], int]] = []
    for group in range(meta.num_row_groups):
        rows = meta.row_group(group).num_rows
        if out and out[-1][1] + rows <= CHUNK_ROWS:
            out[-1] = ([*out[-1][0], group], out[-1][1] + rows)
        elif rows:
            out.append(([group], rows))
    return out


# ---- CSV ------------------------------------------------------------------------------------------------------------


def _frame(lines: bytes | Path, dialect: Dialect, rows: int | None = None) -> Any:
    pd = importlib.import_module("pandas")
    return pd.read_csv(
        io.BytesIO(lines) if isinstance(lines, bytes) else lines,
        sep=r"\s+" if dialect.layout.separator == " " else dialect.layout.separator,
        decimal=dialect.decimal,
        encoding=dialect.layout.encoding,
        nrows=rows,
    )


def read_csv(block: bytes, header: bytes, dialect: Dialect, names: tuple[str, ...], layout: Layout, label: str) -> Rows:
    """Checked rows of a block of lines; the first block of a file begins with its header."""
    table = _frame(block if block.startswith(header) else header + block, dialect)
    if tuple(map(str, table.columns)) != names:
        raise PartitionError(f"{label} has the columns {list(table.columns)} and the first file has {list(names)}")
    return rows_of_table(table, layout, label)


def _csv_chunks(files: list[Path], asked: Layout, roles: Roles, writing: Asked, client: Client) -> Chunks:
    dialect = sniff(files[0], writing.given, writing.expected)
    first = _frame(files[0], dialect, 1000)
    names = tuple(map(str, first.columns))
    numeric = {name for name in names if first[name].dtype.kind in "fiub"}
    unnamed = TextSource(TextFile(files[0], dialect.layout), files[0].name, dialect, "").row_names() is not None
    chosen = _chosen(names, numeric, replace(roles, row_names=names[0] if unnamed and not dialect.row_names else None))
    layout = replace(asked, features=chosen, n_features=len(chosen))
    read, read_bytes = dask().delayed(read_csv, pure=False), dask("dask.bytes").read_bytes
    parts: list[Any] = []
    labels: list[str] = []
    for path in files:
        with path.open("rb") as handle:
            header = handle.readline()
        _, blocks = read_bytes(str(path.absolute()), delimiter=b"\n", blocksize=BLOCK_BYTES, sample=False)
        for number, block in enumerate(blocks[0]):
            labels.append(f"partition {len(parts)} ({path.name}, block {number})")
            parts.append(read(block, header, dialect, names, layout, labels[-1]))
    return Chunks(tuple(parts), tuple(labels), tuple(count_rows(parts, client)), layout, single=True)
