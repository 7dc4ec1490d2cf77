"""Progress of long work, for whoever asks for it: one line on standard error, live on a terminal."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console


def console(*, err: bool = False) -> Console:
    """A console that colours on a terminal only, and wraps lines there only."""
    from rich.console import Console

    class Mild(Console):
        def on_broken_pipe(self) -> None:
            """Rich would end the process with code 1; whoever prints decides what a reader who left means."""
            raise BrokenPipeError(errno.EPIPE, "nobody reads this any more")

    made = Mild(stderr=err, highlight=False, markup=False, emoji=False, soft_wrap=True)
    return made if made.is_terminal else Mild(stderr=err, highlight=False, markup=False, emoji=False, width=10_000)


_open: ContextVar[Progress | None] = ContextVar("progress", default=None)
"""The outermost progress that is shown here, if any."""


def say(text: str) -> None:
    """A line that stays, where progress is shown from the start."""
    outer = _open.get()
    if outer is not None and not outer._patience:
        outer._out.print(text)


class Progress:
    """What is being done, and for how long by now; says nothing at all unless `verbose`.

    One inside another hands its words on to the outer one. Silent for `patience` seconds; then, on a terminal, a live
    line, and elsewhere a line when the words have changed, after 1, 2, 4, ... seconds, so that a log stays short.
    """

    def __init__(self, verbose: int | bool, what: str = "fitting", patience: float = 0.0) -> None:
        self.verbose, self.what, self._patience = bool(verbose), what, patience
        self._started, self._said = time.monotonic(), ""
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._outer = _open.get()
        if self.verbose and self._outer is None:
            self._out = console(err=True)
            _open.set(self)
            if not self._patience:
                self._add_line()
            self._done = threading.Event()
            with contextlib.suppress(RuntimeError):  # no thread is to be had: the work goes on without a word
                thread = threading.Thread(target=self._run, daemon=True)
                thread.start()
                self._thread = thread
        return self

    def __exit__(self, *problem: object) -> None:
        if _open.get() is self:
            _open.set(None)
        if self._thread is not None:
            self._done.set()
            self._thread.join()
        if self._said:
            self._add_line()

    def show(self, what: str) -> None:
        """What is being done now."""
        (self._outer or self).what = what

    def _line(self) -> str:
        return f"{self.what} ... {time.monotonic() - self._started:.0f} s"

    def _add_line(self) -> None:
        """Where lines are added, the present words unless they were the last."""
        if not self._out.is_terminal and self.what != self._said:
            self._said = self.what
            self._out.print(f"{self.what} ...")

    def _run(self) -> None:
        from rich.text import Text

        if self._done.wait(self._patience):
            return
        if self._out.is_terminal:
            with self._out.status(Text(self._line())) as status:
                while not self._done.wait(0.25):
                    status.update(Text(self._line()))
            return
        self._add_line()
        pause = 1.0
        while not self._done.wait(pause):
            self._add_line()
            pause *= 2
