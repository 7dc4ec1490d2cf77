"""The one door to matplotlib."""

from typing import Any


def library() -> Any:
    """matplotlib, or an error that names the extra."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'figures need matplotlib: pip install "stopwise[report]"', name="matplotlib"
        ) from None
    return matplotlib
