"""The report: one HTML file that shows a fit, says why it stopped there, and lets the reader stop elsewhere."""

import os
from collections.abc import Sequence
from pathlib import Path

from stopwise._support.arrays import ArrayLike
from stopwise.pages.page import render
from stopwise.views.facts import Model

__all__ = ["render", "write"]


def write(
    model: Model,
    path: str | os.PathLike[str],
    *,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    target: str | None = None,
    command: str | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Write the report of a fitted model: self-contained, no network, bounded in size whatever the number of rows.

    Parameters
    ----------
    model : estimator
        Fitted; of several responses the first is shown.
    path : path
        The file to write.
    X, y : arrays, optional
        The training data; without them, what the model itself kept.
    target : str, optional
        What the response is called.
    command : str, optional
        The command that reproduces the fit.
    warnings : sequence of str
        What a reader should know.
    """
    page = render(model, X=X, y=y, target=target, command=command, warnings=warnings)
    Path(path).write_text(page, encoding="utf-8", errors="replace", newline="\n")
