"""stopwise fit: from a table to a stopped curve, and why it stopped there."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from stopwise._support.arrays import Array
from stopwise._support.optional import optional
from stopwise.cli import options
from stopwise.cli.out_of_core import fit_in_chunks
from stopwise.cli.output import Notes, print_facts, tell
from stopwise.cli.table_options import Columns, Writing, read_table, table_options
from stopwise.estimators import KernelGradientClassifier, KernelGradientRegressor, KernelRidgeRegressor
from stopwise.examples import EXAMPLES
from stopwise.io import atomic_path, write_model
from stopwise.rules import LeaveBlockOut
from stopwise.rules.explanation import explain
from stopwise.tables import EncodedFrame, FittedTable, Kind, Recipe, Training, quoted, shown
from stopwise.views.facts import Model, describe, number

LOSSES = ("squared", "huber", "quantile", "poisson")


def _estimator(training: Training | None, given: dict[str, Any]) -> Model:
    of_classes = training is not None and training.of_classes
    settings: dict[str, Any] = {
        "kernel": options.kernel_for(given["kernel"], given["length_scale"], one_covariate(training)),
        "rule": given["rule"],
        "fit_intercept": given["intercept"],
        "n_landmarks": options.landmarks_for(given, squares=given["loss"] == "squared" and not of_classes),
        "random_state": given["seed"],
    }
    if of_classes:
        for name, default in (("loss", "squared"), ("solver", "auto"), ("noise_std", "auto")):
            if given[name] != default:
                option = f"--{name.replace('_', '-')}"
                raise click.UsageError(f"{option} is for a target of numbers, and the target holds text")
        return KernelGradientClassifier(**settings)
    ridge, loss, quantile = given["filter"] == "ridge", given["loss"], given["quantile"]
    if ridge and loss != "squared":
        raise click.UsageError("--filter ridge is for squares: leave out one of --filter and --loss")
    settings |= {"noise_std": options.noise_for(given["noise_std"]), "solver": given["solver"]}
    if ridge:
        return KernelRidgeRegressor(**settings)
    quantile = 0.5 if quantile is None else quantile
    return KernelGradientRegressor(filter=given["filter"], loss=loss, quantile=quantile, **settings)


def one_covariate(training: Training | None) -> Array | None:
    """The covariate of a table that has one column of numbers; None for any other."""
    if training is None or len(training.table.names) > 1:
        return None
    (column,) = training.table.columns.values()
    return column.as_numbers if column.kind is Kind.NUMBER and not column.missing.any() else None


def _write(
    model: Model, table: FittedTable, out: Path | None, report: Path | None, notes: Notes, **rows: object
) -> None:
    """The files that were asked for, all or none; `rows`: X and y, where they are in memory."""
    with contextlib.ExitStack() as files:
        if out:
            write_model(model, files.enter_context(atomic_path(out)), table)
        if report:
            optional("stopwise.pages", "--report", "report").write(
                model,
                files.enter_context(atomic_path(report)),
                target=table.target,
                command=shlex.join(["stopwise", *sys.argv[1:]]),
                warnings=list(notes.lines),
                **rows,
            )


@click.command(epilog=options.DATA_HELP)
@click.argument("data", type=options.FILE, required=False)
@click.option("--example", type=click.Choice(sorted(EXAMPLES)), help="Fit simulated data instead of a file.")
@table_options
@options.model_options
@click.option("--rule", type=click.Choice(options.RULES), default="auto", help="When to stop.")
@click.option("--filter", type=click.Choice(options.FILTERS), default="descent", help="What to stop.")
@click.option("--loss", type=click.Choice(LOSSES), default="squared", help="How far a fit is from the target.")
@click.option(
    "--quantile", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="For --loss quantile.  [default: 0.5]"
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
    options.check_agreement(data, given, out, report)
    options.check_named(out, "a model", ".stopwise")
    options.check_named(report, "a report", ".html", ".htm")
    if given["quantile"] is not None and given["loss"] != "quantile":
        raise click.UsageError(f"--quantile is for --loss quantile, and --loss is {given['loss']}: leave one out")
    if report:
        optional("stopwise.pages", "--report", "report")
    notes = Notes(quiet=quiet or as_json)
    columns, writing = Columns.taken(given), Writing.taken(given)
    written = {"model": str(out) if out else None, "report": str(report) if report else None}
    if given["solver"] == "dask":
        model, result = fit_in_chunks(_estimator(None, given), data, columns, writing, notes)
        _write(model, FittedTable(result["target"]), out, report, notes)
        result |= {"warnings": notes.lines, **written}
        tell(result, lambda: print_summary(result, explain(model)), as_json=as_json, quiet=quiet)
        return
    training, found = read_table(data, given["example"], columns, writing, notes)
    with notes.progress(f"fitting {len(training.target):,} rows"), notes.listening(training.rows):
        estimator = _estimator(training, given)
        recipe = cast(Recipe, columns.encoder().fit(training.table, training.target).recipe_)
        frame = EncodedFrame(recipe.encode(training.table).matrix, tuple(training.table.names), recipe)
        model = estimator.fit(frame, training.target)
    with notes.progress("writing"), notes.listening(training.rows):
        table = FittedTable(training.roles.target, training.roles.id)
        _write(model, table, out, report, notes, X=frame, y=training.target)
        facts = describe(model)
    result = {"rows": len(frame), "features": recipe.features, "target": training.roles.target, **facts}
    result |= {"seconds": round(time.perf_counter() - started, 3), "warnings": notes.lines, **written}
    result |= {"table": found, "encoded": recipe.sentence}
    tell(result, lambda: print_summary(result, explain(model)), as_json=as_json, quiet=quiet)


def print_summary(result: dict[str, Any], why: str, rows: str | None = None) -> None:
    """A fit for people; `rows`: how many there were, where a number does not say it."""
    rows = f"{result['rows']:,} rows" if rows is None else rows
    count = len(result["features"])
    slopes = max(np.ravel(result["unpenalised"] or 0)) - 1
    kernel = shown(", ".join(np.ravel(result["kernel"]))) + (" and a linear part" if slopes > 0 else "")
    if result["length_scale"] is not None:
        kernel += f", length scale {number(result['length_scale'])}"
    unit = "step" if result["iteration"] == 1 else "steps"
    steps = "" if result["iteration"] is None else f"{number(result['iteration'])} {unit}, "
    if result.get("loss") is not None:
        quality = [("loss", result["loss"]), ("error", f"left-out loss {number(result['left_out_loss'])} a row")]
        if result["classes"]:
            slope, temperature = number(result["calibration_slope"], 3), number(result["temperature"], 3)
            quality.append(("classes", shown(", ".join(result["classes"]), 300)))
            quality.append(("calibration", f"slope {slope} on left-out rows, temperature {temperature}"))
    else:
        some = f" of {number(result['loo_rows'])} rows" if isinstance(result["loo_rows"], int) else ""
        together = LeaveBlockOut.name in np.ravel(result["rule"])
        left_out = f"{'blocks or groups left out' if together else 'leave-one-out'} {number(result['rmse_loo'])}{some}"
        quality = [
            ("noise level", number(result["noise_std"])),
            ("radius", number(result["hilbert_radius"])),
            ("error", f"root mean square {number(result['rmse_fit'])}, {left_out}"),
        ]
    beside = f", beside {slopes} of the linear part" if slopes > 0 else ""
    named = ("table", "table"), ("columns", "encoded")
    facts = [
        *((label, shown(result[key], 300)) for label, key in named if result.get(key)),
        ("data", f"{rows}, {count} feature{'' if count == 1 else 's'} ({quoted(result['features'])})"),
        ("kernel", kernel),
        ("stop", f"{steps}step_sum {number(result['step_sum'])} (rule {result['rule']})"),
        ("why", why),
        ("complexity", f"{number(result['degrees_of_freedom'])} degrees of freedom{beside}"),
        *quality,
        ("solver", result["solver"]),
    ]
    if result.get("landmarks"):
        ends = result["bracket"]
        seen = f"{result['landmarks']:,} that capture {100 * result['captured']:.4g} % of the trace"
        between = "" if ends is None else f"; the stop lies between step_sum {number(ends[0])} and {number(ends[1])}"
        facts.append(("landmarks", seen + between))
    if result["seconds"] is not None:
        facts.append(("time", f"{number(result['seconds'], 3)} s"))
    facts.append(("model", shown(result["model"] or "not saved: add --out model.stopwise to keep it", 300)))
    facts += [("report", shown(result["report"], 300))] if result["report"] else []
    print_facts(f"Fitted '{shown(result['target'])}'", facts)
