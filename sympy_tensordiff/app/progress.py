"""A progress line on standard error, without dependencies."""

from __future__ import annotations

import sys
from typing import TextIO


class Progress:
    """Counts ``total`` steps on one line.

    On a terminal the line is rewritten in place; elsewhere (a file, a pipe) each stage gets a
    line of its own once, so that a log stays readable.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self.stream = sys.stderr if stream is None else stream
        self.done = 0
        self._stage = ""
        self._width = 0

    @property
    def rewrites(self) -> bool:
        """Whether the line is rewritten in place."""
        return self.stream.isatty()

    def step(self, stage: str) -> None:
        """One more step, of the stage named (said before the step begins)."""
        self.done += 1
        text = f"[{self.done}/{self.total}] {stage}"
        if self.rewrites:
            self.stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif stage != self._stage:
            self.stream.write(text + "\n")
        self._stage = stage
        self.stream.flush()

    def clear(self) -> None:
        """The line taken away, where it stands on a terminal."""
        if self.rewrites:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()
        self._width = 0
