"""Progress of long work: quiet by default, one live line on a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self


class Progress:
    """A line that says how far a fit is; does nothing unless `verbose`."""

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose
        self._status: Any = None
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if self.verbose:
            try:
                from rich.console import Console

                self._status = Console(stderr=True).status("starting")
                self._status.start()
            except ImportError:
                self._status = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.verbose:
            return
        if self._status is not None:
            self._status.console.print(text, highlight=False)
        else:
            sys.stderr.write(text + "\n")

    def show(self, text: str) -> None:
        """The live line."""
        if not self.verbose:
            return
        line = f"{text}, {time.monotonic() - self._started:.1f} s"
        if self._status is not None:
            self._status.update(line)
        else:
            sys.stderr.write(line + "\n")
