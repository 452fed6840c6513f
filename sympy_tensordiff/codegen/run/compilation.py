"""Interruptible compilations: Ctrl-C stops them, and a line on the terminal announces those that take long."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

NOTICE = "SYMPY_TENSORDIFF_NOTICE"
"""The environment variable that disables announcements with the value ``off``."""

ANNOUNCE_AFTER_SECONDS = 2.0
"""The seconds after which a compilation is announced."""


@contextlib.contextmanager
def cancel_safely(forget: Callable[[], None]) -> Iterator[None]:
    """Context manager: after Ctrl-C inside, call ``forget`` to discard partial results, and raise `KeyboardInterrupt`
    again, even if a library has suppressed it.

    LLVM calls Python back when it has an object, and Python drops errors raised in callbacks: Numba then misses the
    object and raises an unrelated error.
    """
    raised: list[BaseException] = []
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield  # Ctrl-C raises nothing here
        return

    def note(number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C: call the handler that was set before, and record the exception that it raises before raising
        it again.

        ``number`` and ``frame`` are the signal and the interrupted code.
        """
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
def announce_if_slow(work: str) -> Iterator[None]:
    """Context manager: print a note about ``work`` on the terminal if the block takes long."""
    if os.environ.get(NOTICE) == "off" or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    text = f"sympy_tensordiff: {work}, once ({NOTICE}=off silences this)"
    timer = threading.Timer(ANNOUNCE_AFTER_SECONDS, print, [text], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
