"""`stopwise reproduce`: run, show progress, write, and say what holds."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from stopwise.experiments.figure_files import save_figures
from stopwise.experiments.runner import EXPERIMENTS, Outcome, run, tasks_of, write
from stopwise.experiments.task import Config, Task

_INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _numbers(kind: type[int] | type[float]) -> Callable[[str], tuple[float, ...]]:
    """Takes numbers separated by commas."""

    def convert(text: str) -> tuple[float, ...]:
        try:
            return tuple(kind(part) for part in text.split(","))
        except ValueError:
            raise click.BadParameter(f"{text!r} is not a list of numbers separated by commas") from None

    return convert


@click.command("reproduce", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[NAMES]...")
@click.option("--trials", type=click.IntRange(2), default=10_000, show_default=True, help="Trials of each simulation.")
@click.option("--n", "sizes", type=_numbers(int), metavar="NUMBERS", default=None, help="Sample sizes, e.g. 50,100.")
@click.option("--alpha", "alphas", type=_numbers(float), metavar="NUMBERS", default=None, help="Steps, e.g. 0.25,1.")
@click.option("--out", type=_FOLDER, default=Path("results"), show_default=True, help="Folder.")
@click.option("--jobs", type=int, default=-1, show_default=True, help="Processes; -1 for one a core.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def reproduce(
    names: tuple[str, ...],
    trials: int,
    sizes: tuple[int, ...] | None,
    alphas: tuple[float, ...] | None,
    out: Path,
    jobs: int,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Re-run the paper's experiments and say which claims hold.

    NAMES are some of path, rates, rules, ridge, classes, bounds, robustness, boosting; all without any.
    """
    chosen = names or tuple(EXPERIMENTS)
    try:
        config = Config(trials=trials, seed=seed, sizes=sizes, alphas=alphas)
        work = tasks_of(chosen, config)
        if jobs == 0:
            raise ValueError("jobs must be 1 or more, or -1 for one a core; got 0")
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    with _progress(sum(task.trials for task in work), shown=not (quiet or as_json)) as tick:
        outcome = run(chosen, config, jobs=jobs, tick=tick)
    if not outcome.rows:
        raise click.ClickException("interrupted before anything was finished: nothing was written")
    files = write(outcome, config, out)
    drawn, note = save_figures(outcome, out)
    _say(outcome, config, [*files, *drawn], note, as_json=as_json, quiet=quiet)
    if outcome.interrupted:
        sys.exit(_INTERRUPTED)


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[Task], None]]:
    """A bar of trials done and time left, on standard error."""
    done = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("trials"))
    columns = (*done, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown, transient=True) as bar:
        line = bar.add_task("starting", total=total)

        def tick(task: Task) -> None:
            bar.update(line, advance=task.trials, description=f"{task.experiment:<10}")

        yield tick


def _say(outcome: Outcome, config: Config, files: list[Path], note: str | None, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        summary = {
            "experiments": list(outcome.finished),
            "trials": config.trials,
            "seed": config.seed,
            "interrupted": outcome.interrupted,
            "seconds": round(outcome.seconds, 2),
            "claims": [asdict(claim) for claim in outcome.claims],
            "files": [str(file) for file in files],
            "note": note,
        }
        click.echo(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    if outcome.interrupted:
        kept = ", ".join(outcome.finished) or "no experiment whole"
        click.echo(f"Interrupted. Kept what was finished ({kept}); rows say how many trials they stand for.", err=True)
    if note is not None:
        click.echo(note, err=True)
    if quiet:
        return
    console = Console()
    if outcome.claims:
        console.print(_table(outcome))
    console.print(f"{len(files)} files in {files[0].parent} ({outcome.seconds:.0f} s)")


def _table(outcome: Outcome) -> Table:
    table = Table(title="What the experiments say", show_lines=True)
    for column in ("claim", "where", "seen", "verdict"):
        table.add_column(column, overflow="fold")
    for claim in outcome.claims:
        colour = "green" if claim.verdict == "holds" else "red" if claim.verdict == "does not hold" else "yellow"
        table.add_row(claim.claim, claim.where, claim.seen, f"[{colour}]{claim.verdict}[/{colour}]")
    return table
