"""Options that commands share, and what their words mean."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from mimetypes import MimeTypes
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
from click.shell_completion import CompletionItem

from stopwise._support.arrays import Array
from stopwise.cli.streams import is_stream
from stopwise.estimators.regressors import SOLVERS
from stopwise.filters import _NAMED as NAMED_FILTERS
from stopwise.kernels import Kernel, Sobolev, Stationary, as_kernel
from stopwise.rules import _NAMED as NAMED_RULES
from stopwise.tables import FORMATS, input_files, shown

F = TypeVar("F", bound=Callable[..., Any])
RULES = tuple(sorted(NAMED_RULES))
FILTERS = tuple(NAMED_FILTERS)
KERNELS = (
    *("auto", "gaussian", "laplace", "matern12", "matern32", "matern52", "sobolev1", "sobolev2"),
    *("periodicsobolev1", "periodicsobolev2", "linear", "polynomial2", "polynomial3"),
)
FILE = click.Path(path_type=Path)


def _complete_kernel(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in KERNELS if name.startswith(incomplete)]


def stacked(options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


output_options = stacked(
    [
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines."),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors."),
    ]
)
model_options = stacked(
    [
        click.option("--kernel", default="auto", shell_complete=_complete_kernel, help=", ".join(KERNELS)),
        click.option("--length-scale", help="A number, or one per feature with commas."),
        click.option("--noise-std", default="auto", help="A number, or how to estimate it."),
        click.option("--intercept/--no-intercept", default=True, help="Leave the constant free."),
        click.option("--solver", type=click.Choice(SOLVERS), default="auto"),
        click.option(
            "--landmarks", type=click.IntRange(1), help="How many rows stand for all, for solvers nystrom and dask."
        ),
        click.option("--seed", type=click.IntRange(0), default=0),
    ]
)
DATA_HELP = f"DATA is {FORMATS}."


def names_among(given: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Column names as given; one that is no column is read as several with commas."""
    names: list[str] = []
    for name in given:
        split = [part.strip() for part in name.split(",")]
        names += split if name not in columns and all(part in columns for part in split) else [name]
    return names


def kernel_for(name: str, length_scale: str | None, covariate: Array | None) -> Kernel | Literal["auto"]:
    """The kernel meant by the options; a Sobolev kernel is stretched over one covariate that leaves [0, 1]."""
    kernel: Kernel | Literal["auto"] = "auto" if name == "auto" else as_kernel(name)
    if name == "precomputed":
        raise click.UsageError("a precomputed kernel takes a matrix, not a table: use the Python library")
    if length_scale is not None:
        if not isinstance(kernel, Stationary):
            raise click.UsageError("--length-scale needs --kernel gaussian, laplace or matern*")
        scales = [float(part) for part in length_scale.split(",")]
        kernel = kernel.with_length_scale(scales[0] if len(scales) == 1 else scales)
    if isinstance(kernel, Sobolev) and covariate is not None and (covariate.min() < 0 or covariate.max() > 1):
        kernel = dataclasses.replace(kernel, interval="auto").resolved(covariate[:, None])
    return kernel


def noise_for(text: str) -> float | str:
    """A number where it is one, else the name of an estimator."""
    try:
        return float(text)
    except ValueError:
        return text


def landmarks_for(given: dict[str, Any], *, squares: bool) -> int | Literal["auto"]:
    """How many landmarks; under squares "auto" solves without any, so that a number would be ignored."""
    if given["landmarks"] is not None and squares and given["solver"] == "auto":
        raise click.UsageError("--landmarks is for --solver nystrom or dask, and --solver is auto: say which")
    return given["landmarks"] or "auto"


def check_agreement(data: Path | None, given: dict[str, Any], *outputs: Path | None) -> None:
    """Options that contradict each other, and outputs that cannot be: said before anything is read."""
    if data is not None and given["example"] is not None:
        raise click.UsageError(f"DATA and --example are both given: fit either {str(data)!r} or the example")
    check_outputs([] if data is None else input_files(data), *outputs)
    solver = given["solver"]
    if given["landmarks"] is not None and solver not in ("auto", "nystrom", "dask"):
        raise click.UsageError(f"--landmarks is for --solver nystrom or dask, and --solver is {solver}: leave one out")


_SAYING_NOTHING = (None, "application/octet-stream")
"""Kinds of endings that nobody knows, and of those that are bytes of whatever kind, such as .bin."""


def check_named(path: Path | None, what: str, *endings: str, needed: bool = False) -> None:
    """An output is what its name says, or is refused before the work; pipes, devices and most endings say nothing.

    `needed`: where the ending decides what is written, it must be one of these.
    """
    if str(path) == "-":
        raise click.UsageError(
            f"- is standard output, and {what} is written to a file: name one ending in {endings[0]}"
        )
    if path is None or is_stream(path) or path.suffix.lower() in endings:
        return
    if needed or any(kind not in _SAYING_NOTHING for kind in MimeTypes().guess_type(path.name)):
        said = path.suffix or "no ending"
        raise click.UsageError(f"{what} is written as {' or '.join(endings)}, and '{shown(path.name)}' ends in {said}")


def check_outputs(inputs: Sequence[Path], *outputs: Path | None) -> None:
    """Outputs must differ from every input and from one another, and their folders must exist: said before the work.

    Links count as what they lead to. A pipe or device is nothing to be destroyed.
    """
    named = [path for path in outputs if path is not None and not is_stream(path)]
    for path in named:
        if path.exists() and any(os.path.samefile(path, file) for file in inputs if file.exists()):
            raise click.UsageError(f"{path} is the input: name another file to write to")
        if not path.absolute().parent.is_dir():
            raise click.UsageError(f"the folder {path.absolute().parent} does not exist: make it first")
        if path.is_dir():
            raise click.UsageError(f"{path} is a folder: name a file")
    if len({os.path.realpath(path) for path in named}) < len(named):
        raise click.UsageError("two outputs have the same name")
