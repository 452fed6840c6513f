"""Ctrl-C inside of a compilation: the call raises it, and nothing half compiled is used again."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


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
