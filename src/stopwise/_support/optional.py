"""The one door to libraries that an extra brings: imported here or nowhere, or an error says how to get them."""

import importlib
from typing import Any


def optional(module: str, what: str, extra: str, more: str = "") -> Any:
    """A module, or an error that says what needs it and which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        name = problem.name or module
        words = f"{what} needs {name}: pip install 'stopwise[{extra}]'{more}"
        raise type(problem)(words, name=name) from problem


def arrow(what: str, module: str = "pyarrow") -> Any:
    """Arrow, or a module of it."""
    return optional(module, what, "parquet")


def openpyxl(what: str) -> Any:
    """The library of spreadsheets."""
    return optional("openpyxl", what, "excel")


def matplotlib() -> Any:
    """The library of figures."""
    return optional("matplotlib", "drawing", "report")
