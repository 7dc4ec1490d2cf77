"""stopwise fit: from a table to a stopped curve, and why it stopped there."""

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from stopwise._support.arrays import Array
from stopwise.cli import options
from stopwise.cli.fit_cluster import fit_in_chunks
from stopwise.cli.output import Notes, emit_json, print_facts
from stopwise.estimators import KernelGradientRegressor, KernelRidgeRegressor
from stopwise.examples import EXAMPLES, load_example
from stopwise.io import atomic_path, write_model
from stopwise.rules.explanation import explain
from stopwise.tables import Training, prepare, quoted, read_whole, shown
from stopwise.views.facts import Model, describe, number


def read(data: Path | None, example: str | None, target: str | None, separator: str | None, **given: Any) -> Training:
    """The training table from a file or an example."""
    if (data is None) == (example is None):
        raise click.UsageError("give a table to fit, DATA, or --example motorcycle")
    if example is not None:
        simulated = load_example(example)
        table, target = pa.Table.from_pandas(simulated.frame, preserve_index=False), target or simulated.target
    else:
        assert data is not None
        table = read_whole(data, separator)
    columns = table.column_names
    if target is None:
        raise click.UsageError(f"name the column to predict with --target; the columns are {quoted(columns, 10)}")
    if len(columns) == 1 and (mark := next((s for s in ";\t|" if s in columns[0]), None)):
        raise click.UsageError(
            f"the table has one column; if its fields are separated by {mark!r}, say so with --separator"
        )
    for option in ("features", "exclude"):
        given[option] = options.names_among(given[option], columns)
    return prepare(table, target, **given)


def _estimator(matrix: Array, rule: str, filter: str, given: dict[str, Any]) -> Model:
    settings: dict[str, Any] = {
        "kernel": options.kernel_for(given["kernel"], given["length_scale"], matrix),
        "rule": rule,
        "noise_std": options.noise_for(given["noise_std"]),
        "fit_intercept": given["intercept"],
        "solver": given["solver"],
        "n_landmarks": given["landmarks"] or "auto",
        "random_state": given["seed"],
    }
    return KernelRidgeRegressor(**settings) if filter == "ridge" else KernelGradientRegressor(filter=filter, **settings)


def _write(model: Model, training: Training, out: Path | None, report: Path | None, notes: Notes) -> None:
    with contextlib.ExitStack() as files:
        if out:
            write_model(model, files.enter_context(atomic_path(out)), training.columns)
        if report:
            options.optional("stopwise.pages", "--report").write(
                model,
                files.enter_context(atomic_path(report)),
                X=training.features,
                y=training.target,
                target=training.columns.target,
                command=" ".join(["stopwise", *sys.argv[1:]]),
                warnings=list(notes.lines),
            )


@click.command(epilog=options.DATA_HELP)
@click.argument("data", type=options.FILE, required=False)
@click.option("--example", type=click.Choice(sorted(EXAMPLES)), help="Fit simulated data instead of a file.")
@options.table_options
@options.model_options
@click.option("--rule", type=click.Choice(options.RULES), default="auto", show_default=True, help="When to stop.")
@click.option(
    "--filter", type=click.Choice(options.FILTERS), default="descent", show_default=True, help="What to stop."
)
@click.option("--out", type=options.FILE, help="Save the model here (.stopwise).")
@click.option("--report", type=options.FILE, help="Write an HTML report here.")
@options.output_options
def fit(data: Path | None, out: Path | None, report: Path | None, as_json: bool, quiet: bool, **given: Any) -> None:
    """Fit a curve and stop where the data say.

    \b
    stopwise fit --example motorcycle
    stopwise fit data.csv --target y --out model.stopwise --report report.html
    stopwise fit FOLDER --target y --solver dask --landmarks 500
    """
    started = time.perf_counter()
    options.check_outputs(data, out, report)
    if report:
        options.optional("stopwise.pages", "--report")
    notes = Notes(quiet=quiet or as_json)
    table = {name: given.pop(name) for name in ("example", "target", "separator", "features", "exclude", "missing")}
    written = {"model": str(out) if out else None, "report": str(report) if report else None}
    if given["solver"] == "dask":
        estimator = _estimator(np.zeros((1, 2)), given["rule"], given["filter"], given)
        model, result = fit_in_chunks(estimator, data, out, report, table, notes)
        _tell(model, result | {"warnings": notes.lines, **written}, as_json, quiet)
        return
    with notes.progress("reading"):
        training = read(data, max_levels=given.pop("max_levels"), **table)
    for note in training.notes:
        notes.add(note)
    with notes.progress(f"fitting {len(training.target):,} rows"), notes.listening():
        estimator = _estimator(training.features.to_numpy(), given["rule"], given["filter"], given)
        model = estimator.fit(training.features, training.target)
    with notes.progress("writing"), notes.listening():
        _write(model, training, out, report, notes)
        facts = describe(model)
    result = {"rows": len(training.target), "features": list(training.columns.features)}
    result |= {"target": training.columns.target, **facts, "seconds": round(time.perf_counter() - started, 3)}
    _tell(model, result | {"warnings": notes.lines, **written}, as_json, quiet)


def _tell(model: Model, result: dict[str, Any], as_json: bool, quiet: bool) -> None:
    if as_json:
        emit_json(result)
    elif not quiet:
        print_summary(result, explain(model))


def print_summary(result: dict[str, Any], why: str) -> None:
    """The short account of a fit."""
    count = len(result["features"])
    kernel = shown(result["kernel"])
    if result["length_scale"] is not None:
        kernel += f", length scale {number(result['length_scale'])}"
    steps = f"{number(result['iteration'])} steps, " if result["iteration"] is not None else ""
    facts = [
        ("data", f"{result['rows']:,} rows, {count} feature{'' if count == 1 else 's'} ({quoted(result['features'])})"),
        ("kernel", kernel),
        ("noise level", number(result["noise_std"])),
        ("radius", number(result["hilbert_radius"])),
        ("stop", f"{steps}step_sum {number(result['step_sum'])} (rule {result['rule']})"),
        ("why", why),
        ("complexity", f"{number(result['degrees_of_freedom'])} degrees of freedom"),
        ("error", f"root mean square {number(result['rmse_fit'])}, leave-one-out {number(result['rmse_loo'])}"),
        ("solver", result["solver"]),
    ]
    if result.get("landmarks"):
        low, high = result["bracket"]
        seen = f"{result['landmarks']:,} landmarks that capture {100 * result['captured']:.4g} % of the trace"
        facts.append(("bracket", f"step_sum {number(low)} to {number(high)}, with {seen}"))
    if result["seconds"] is not None:
        facts.append(("time", f"{number(result['seconds'], 3)} s"))
    facts += [(name, shown(result[name], 300)) for name in ("model", "report") if result[name]]
    print_facts(f"Fitted '{shown(result['target'])}'", facts)
