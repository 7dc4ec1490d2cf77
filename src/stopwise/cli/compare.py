"""stopwise compare: every rule on one path, beside cross-validated ridge (of classes: logistic regression)."""

from pathlib import Path
from typing import Any

import click

from stopwise._support.optional import optional
from stopwise.cli import options
from stopwise.cli.fit import one_covariate
from stopwise.cli.output import Notes, print_facts, print_table, tell
from stopwise.cli.table_options import Columns, Writing, read_table, table_options
from stopwise.examples import EXAMPLES
from stopwise.io import atomic_path
from stopwise.tables import shown
from stopwise.views.compared import Comparison
from stopwise.views.comparison import compare as compare_rules
from stopwise.views.facts import length_scale, number, plain


def _draw(comparison: Comparison, figure: Path) -> None:
    axes = optional("stopwise.plot", "--figure", "report").compare(comparison)
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
        "noise_std": plain(getattr(model, "noise_std_", None)),
        "rules": rows,
        "seconds": round(comparison.seconds, 3),
        "warnings": notes.lines,
        "figure": str(figure) if figure else None,
    }


@click.command(epilog=options.DATA_HELP, short_help="Say where each rule stops, beside ridge.")
@click.argument("data", type=options.FILE, required=False)
@click.option("--example", type=click.Choice(sorted(EXAMPLES)), help="Compare on simulated data instead of a file.")
@table_options
@options.model_options
@click.option("--holdout", type=click.FloatRange(0, 0.9), default=0.0, help="The share of rows to measure errors on.")
@click.option("--figure", type=options.FILE, help="Draw the comparison here (.png, .svg, .pdf).")
@options.output_options
def compare(data: Path | None, holdout: float, figure: Path | None, as_json: bool, quiet: bool, **given: Any) -> None:
    """Where each rule stops on one path, beside cross-validated ridge: stop, error and cost."""
    options.check_agreement(data, given, figure)
    options.check_named(figure, "a figure", ".png", ".svg", ".pdf", needed=True)
    if figure:
        optional("stopwise.plot", "--figure", "report")
    notes = Notes(quiet=quiet or as_json)
    columns, writing = Columns.taken(given), Writing.taken(given)
    training, _ = read_table(data, given["example"], columns, writing, notes)
    if training.of_classes and figure:
        raise click.UsageError(f"--figure is for a target of numbers, and '{shown(training.roles.target)}' holds text")
    kernel = options.kernel_for(given["kernel"], given["length_scale"], one_covariate(training))
    settings: dict[str, Any] = {"kernel": kernel, "fit_intercept": given["intercept"]}
    settings["n_landmarks"] = options.landmarks_for(given, squares=not training.of_classes)
    if not training.of_classes:
        settings |= {"solver": given["solver"], "noise_std": options.noise_for(given["noise_std"])}
    with notes.progress("comparing"), notes.listening(training.rows):
        matrix = columns.encoder().fit(training.table, training.target).transform(training.table)
        comparison = compare_rules(matrix, training.target, holdout=holdout, seed=given["seed"], **settings)
        if figure:
            _draw(comparison, figure)
    result = as_object(comparison, training.roles.target, figure, notes)
    tell(result, lambda: _print(result), as_json=as_json, quiet=quiet)


def _print(result: dict[str, Any]) -> None:
    held = f", {result['holdout_rows']:,} held out" if result["holdout_rows"] else ""
    facts = [("data", f"{result['rows']:,} rows{held}"), ("kernel", shown(result["kernel"]))]
    facts += [] if result["noise_std"] is None else [("noise level", number(result["noise_std"]))]
    print_facts(f"Rules for '{shown(result['target'])}'", [*facts, ("time", f"{number(result['seconds'], 3)} s")])
    known = [key for key in _HEADINGS if key in result["rules"][0]]
    shown_keys = [key for key in known if result["holdout_rows"] or not key.endswith("_holdout")]
    lines = [[row["rule"], *(_cell(key, row[key]) for key in shown_keys)] for row in result["rules"]]
    print_table(["rule", *(_HEADINGS[key] for key in shown_keys)], lines)


_HEADINGS = {
    "iteration": "steps",
    "step_sum": "step_sum",
    "degrees_of_freedom": "degrees of freedom",
    "rmse_loo": "leave-one-out",
    "left_out_loss": "left-out loss",
    "rmse_holdout": "held-out",
    "log_loss_holdout": "held-out loss",
    "accuracy_holdout": "held-out accuracy",
    "seconds": "seconds",
    "fits": "more fits",
}
"""Columns of the table by their keys, of which numbers have some and classes others."""


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}" if key == "seconds" else number(value)
