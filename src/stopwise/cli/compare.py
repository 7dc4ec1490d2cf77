"""stopwise compare: every rule on one path, and cross-validated ridge."""

from pathlib import Path
from typing import Any

import click

from stopwise.cli import options
from stopwise.cli.fit import one_covariate
from stopwise.cli.output import Notes, emit_json, print_facts, print_table
from stopwise.cli.table_options import Columns, Writing, read_table, table_options
from stopwise.examples import EXAMPLES
from stopwise.io import atomic_path
from stopwise.tables import input_files, shown
from stopwise.views.comparison import Comparison
from stopwise.views.comparison import compare as compare_rules
from stopwise.views.facts import length_scale, number, plain


def _draw(comparison: Comparison, figure: Path) -> None:
    axes = options.optional("stopwise.plot", "--figure").compare(comparison)
    with atomic_path(figure) as temporary:
        axes.figure.savefig(temporary, format=figure.suffix.lstrip(".") or "png", dpi=150, bbox_inches="tight")


def as_object(comparison: Comparison, target: str, figure: Path | None, notes: Notes) -> dict[str, Any]:
    """A comparison as one JSON object."""
    model = comparison.model
    rows = [{key: plain(value) for key, value in row.items()} for row in comparison.table()]
    return {
        "rows": comparison.n_rows,
        "holdout_rows": comparison.n_holdout,
        "target": target,
        "kernel": model.kernel_.name,
        "length_scale": plain(length_scale(model.kernel_)),
        "noise_std": plain(model.noise_std_),
        "rules": rows,
        "seconds": round(comparison.seconds, 3),
        "warnings": notes.lines,
        "figure": str(figure) if figure else None,
    }


@click.command(epilog=options.DATA_HELP)
@click.argument("data", type=options.FILE, required=False)
@click.option("--example", type=click.Choice(sorted(EXAMPLES)), help="Compare on simulated data instead of a file.")
@table_options
@options.model_options
@click.option("--holdout", type=click.FloatRange(0, 0.9), default=0.0, help="The share of rows to measure errors on.")
@click.option("--figure", type=options.FILE, help="Draw the comparison here (.png, .svg, .pdf).")
@options.output_options
def compare(data: Path | None, holdout: float, figure: Path | None, as_json: bool, quiet: bool, **given: Any) -> None:
    """Where each rule stops on one path, beside cross-validated ridge: stop, error and cost."""
    options.check_outputs([] if data is None else input_files(data), figure)
    options.check_landmarks(given["solver"], given["landmarks"])
    if figure:
        options.optional("stopwise.plot", "--figure")
    notes = Notes(quiet=quiet or as_json)
    columns, writing = Columns.taken(given), Writing.taken(given)
    with notes.progress("reading"), notes.listening():
        training = read_table(data, given.pop("example"), columns, writing).training
    for note in training.notes:
        notes.add(note)
    if training.of_classes:
        raise click.UsageError(f"compare is for a target of numbers, and '{shown(training.roles.target)}' holds text")
    kernel = options.kernel_for(given["kernel"], given["length_scale"], one_covariate(training))
    settings = {"kernel": kernel, "solver": given["solver"]}
    settings |= {"noise_std": options.noise_for(given["noise_std"]), "fit_intercept": given["intercept"]}
    with notes.progress("comparing"), notes.listening():
        matrix = columns.encoder().fit(training.table, training.target).transform(training.table)
        comparison = compare_rules(matrix, training.target, holdout=holdout, seed=given["seed"], **settings)
        if figure:
            _draw(comparison, figure)
    result = as_object(comparison, training.roles.target, figure, notes)
    if as_json:
        emit_json(result)
    elif not quiet:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    held = f", {result['holdout_rows']:,} held out" if result["holdout_rows"] else ""
    facts = [("data", f"{result['rows']:,} rows{held}"), ("kernel", shown(result["kernel"]))]
    facts += [("noise level", number(result["noise_std"])), ("time", f"{number(result['seconds'], 3)} s")]
    print_facts(f"Rules for '{shown(result['target'])}'", facts)
    headings = ["rule", "steps", "step_sum", "degrees of freedom", "leave-one-out", "held-out", "seconds", "more fits"]
    lines = [
        [
            row["rule"],
            "" if row["iteration"] is None else f"{row['iteration']:,}",
            number(row["step_sum"]),
            number(row["degrees_of_freedom"]),
            number(row["rmse_loo"]),
            "" if row["rmse_holdout"] is None else number(row["rmse_holdout"]),
            f"{row['seconds']:.3f}",
            str(row["fits"]),
        ]
        for row in result["rules"]
    ]
    print_table(headings, lines)
