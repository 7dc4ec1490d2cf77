"""stopwise info: what is in a model file."""

from pathlib import Path
from typing import Any

import click

from stopwise.cli import options
from stopwise.cli.fit import print_summary
from stopwise.cli.output import print_facts, tell
from stopwise.estimators.fitted import Fitted
from stopwise.estimators.prediction.response_groups import common_of
from stopwise.io import Saved, read_model
from stopwise.rules.explanation import explain
from stopwise.tables import shown
from stopwise.views.facts import describe


def facts_of(saved: Saved, path: Path) -> dict[str, Any]:
    """A model file as one JSON object."""
    model = saved.model
    fitted = common_of(model)
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "schema": saved.schema,
        "versions": saved.versions,
        "estimator": type(model).__name__,
        "rows": fitted.n_given or None,
        "kept_rows": len(fitted.covariates),
        "features": fitted.columns,
        "columns": None if fitted.recipe is None else fitted.recipe.names,
        "target": None if saved.table is None else saved.table.target,
        **describe(model),
        "why": explain(model),
    }


@click.command()
@click.argument("model", type=options.FILE)
@options.output_options
def info(model: Path, as_json: bool, quiet: bool) -> None:
    """Say what a model file holds."""
    saved = read_model(model)
    facts = facts_of(saved, model)
    tell(facts, lambda: _print(facts, _rows(saved)), as_json=as_json, quiet=quiet)


def _rows(saved: Saved) -> str:
    """How many rows were given, and how many predictions weigh where that is another number."""
    fitted = common_of(saved.model)
    given, kept = fitted.n_given, len(fitted.covariates)
    if given == kept:
        return f"{given:,} rows"
    row_of = fitted.row_of if isinstance(fitted, Fitted) else None
    merged = row_of is not None and row_of.min() >= 0 and row_of.max() == kept - 1
    known = f"{given:,} rows" if given else "rows of unknown number"
    return f"{known} ({f'{kept:,} after merging copies' if merged else f'predictions weigh {kept:,}'})"


def _print(facts: dict[str, Any], rows: str) -> None:
    summary = {**facts, "target": facts["target"] or "response", "report": None, "seconds": None}
    print_summary(summary, facts["why"], rows)
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    about = [("kind", facts["estimator"]), ("schema", str(facts["schema"])), ("size", f"{facts['bytes']:,} bytes")]
    print_facts("File", [*about, ("made by", shown(versions, 200))])
