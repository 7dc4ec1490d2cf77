"""The one door to pyarrow."""

import importlib
from typing import Any


def arrow(what: str, module: str = "pyarrow") -> Any:
    """Arrow, or an error that names the extra which brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise ImportError(f"{what} needs pyarrow: pip install 'stopwise[parquet]'") from problem
