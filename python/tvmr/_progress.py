"""Shows the progress of a run as text: in a terminal, in a notebook, or as occasional lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


def display(wanted: bool | None) -> Display | None:
    """The display for the option `progress`: in terminals and notebooks unless it is False, elsewhere only if it is True."""
    if wanted is False:
        return None
    if _is_notebook():
        # A notebook shows standard output below the cell, and understands a carriage return.
        return Display(sys.stdout, clear="\r", pause=0.5)
    # A program without standard streams has none.
    if sys.stderr is None:
        return None
    if sys.stderr.isatty():
        return Display(sys.stderr, clear="\r\x1b[2K", pause=0.1)
    return Display(sys.stderr, clear=None, pause=2.0) if wanted else None


def _is_notebook() -> bool:
    """Does this run in Jupyter's kernel?"""
    try:
        shell = sys.modules["IPython"].get_ipython()
    except (KeyError, AttributeError):
        return False
    return shell is not None and hasattr(shell, "kernel")


class Display:
    """A line that is written again and again; or, where lines cannot be cleared, one after the other."""

    def __init__(self, stream: TextIO, clear: str | None, pause: float) -> None:
        self._stream = stream
        self._clear = clear
        self._pause = pause
        self._last = time.monotonic()
        self._width = 0

    def progress(self, done: int, wanted: int, text: str) -> None:
        """Shows how far the run is."""
        now = time.monotonic()
        if now < self._last + self._pause:
            return
        self._last = now
        self._write(f"{done} of {wanted} trials: {text}" if text else f"{done} of {wanted} trials")

    def _write(self, line: str) -> None:
        if self._clear is None:
            print(line, file=self._stream, flush=True)
            return
        # Blanks cover the rest of a longer line before.
        print(self._clear + line.ljust(self._width), end="", file=self._stream, flush=True)
        self._width = len(line)

    def end(self) -> None:
        """Clears the line."""
        if self._clear is not None and self._width:
            print(self._clear + " " * self._width + self._clear, end="", file=self._stream, flush=True)
            self._width = 0
