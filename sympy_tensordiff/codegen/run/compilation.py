"""A compilation as its user sees it: Ctrl-C ends it, and one line on the terminal names it where it takes long."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

NOTICE = "SYMPY_TENSORDIFF_NOTICE"
"""The environment variable that is ``off`` where nothing is to be said."""

PATIENCE = 2.0
"""Seconds without a word."""


@contextlib.contextmanager
def undivided(forget: Callable[[], None]) -> Iterator[None]:
    """Raise what Ctrl-C raises within, even where a library drops it; ``forget`` then removes what was begun.

    LLVM calls Python back when it has an object, and Python drops what is raised there: Numba then misses the object,
    which is an error without a cause to the caller.
    """
    raised: list[BaseException] = []
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield  # Ctrl-C raises nothing here
        return

    def note(number: int, frame: FrameType | None) -> None:
        try:
            previous(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        signal.signal(signal.SIGINT, note)
        yield
    except BaseException as error:
        if not raised or error is raised[0]:
            raise
    finally:
        signal.signal(signal.SIGINT, previous)
        if raised:
            forget()
    if raised:
        raise raised[0]


@contextlib.contextmanager
def noticed(work: str) -> Iterator[None]:
    """Name the work on the terminal, if it takes long; elsewhere say nothing."""
    if os.environ.get(NOTICE) == "off" or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    text = f"sympy_tensordiff: {work}, once ({NOTICE}=off silences this)"
    timer = threading.Timer(PATIENCE, print, [text], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
