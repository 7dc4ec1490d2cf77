"""stopwise fit --solver dask: tables read in chunks on a cluster, never whole."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from stopwise.cli.out_of_core import FolderFit, fit_folder
from stopwise.cli.output import Notes
from stopwise.cli.table_options import Columns, Writing
from stopwise.io import atomic_path, write_model
from stopwise.views.facts import describe, plain


def fit_in_chunks(
    estimator: Any,
    data: Path | None,
    out: Path | None,
    report: Path | None,
    columns: Columns,
    writing: Writing,
    notes: Notes,
) -> tuple[Any, dict[str, Any]]:
    """The fitted model and what the command prints of it; the model file is written whole or not at all."""
    if data is None or columns.target is None:
        raise click.UsageError("--solver dask reads files in chunks: give a folder (or file) and --target")
    if report is not None:
        raise click.UsageError("a report shows single rows, which --solver dask does not keep: leave --report out")
    if writing.missing not in (None, "refuse"):
        raise click.UsageError("--solver dask refuses missing values: fill or drop them before")
    started = time.perf_counter()
    exclude = [*_split(columns.exclude), *([columns.id_column] if columns.id_column is not None else [])]
    names = {"features": _split(columns.features), "exclude": exclude}
    with notes.listening():
        fitted = fit_folder(estimator, data, columns.target, writing=writing.asked(), show=not notes.quiet, **names)
    if out is not None:
        with atomic_path(out) as path:
            write_model(fitted.model, path, fitted.table)
    return fitted.model, _facts(fitted, time.perf_counter() - started)


def _split(names: tuple[str, ...]) -> list[str]:
    return [part.strip() for name in names for part in name.split(",")]


def _facts(fitted: FolderFit, seconds: float) -> dict[str, Any]:
    stop = fitted.model.stop_
    found: dict[str, Any] = {"rows": fitted.n_rows, "features": fitted.recipe.features}
    found |= {
        "target": fitted.table.target,
        "table": None,
        "columns": fitted.recipe.sentence,
        **describe(fitted.model),
        "seconds": round(seconds, 3),
    }
    for name in ("landmarks", "bracket", "captured", "settled"):
        found[name] = plain(stop.details.get(name))
    return found
