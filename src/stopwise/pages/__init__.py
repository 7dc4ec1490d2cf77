"""The report: one HTML file that shows a fit, says why it stopped there, and lets the reader stop elsewhere."""

import os
from collections.abc import Sequence
from pathlib import Path

from stopwise.pages.page import render
from stopwise.views.facts import Model

__all__ = ["render", "write"]


def write(
    model: Model,
    path: str | os.PathLike[str],
    *,
    X: object = None,
    y: object = None,
    target: str | Sequence[str] | None = None,
    command: str | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Write the report of a fitted model: self-contained, no network, bounded in size whatever the number of rows.

    Parameters
    ----------
    model : estimator
        Fitted: a regressor or a classifier; several responses get a menu.
    path : path
        The file to write.
    X, y : arrays or frames, optional
        The training data. A fit of squares keeps its rows and needs neither; a classifier, and any other loss, keeps
        no responses, and without both its page has no left-out rows and no effects.
    target : str, or one for each response, optional
        What the response is called; by default y's own name, if it has one.
    command : str, optional
        The command that reproduces the fit, quoted for a shell.
    warnings : sequence of str
        What a reader should know.
    """
    page = render(model, X=X, y=y, target=target, command=command, warnings=warnings)
    Path(path).write_text(page, encoding="utf-8", errors="replace", newline="\n")
