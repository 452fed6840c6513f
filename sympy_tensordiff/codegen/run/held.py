"""Generated modules last as long as a callable holds them; then Python's and Numba's tables let them go.

A module is found under its name by whoever asks for its text, and Numba keeps what it has compiled in tables of the
whole process, from which it reaches the module again: so neither would ever go by itself.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import signal
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

KEPT = 32
"""So many modules stay that were asked for last: the same expression is often compiled again."""


class Held:
    """What callables have as long as they need a module."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        weakref.finalize(self, _release, module).atexit = False


_holds: weakref.WeakValueDictionary[str, Held] = weakref.WeakValueDictionary()
_latest: deque[Held] = deque(maxlen=KEPT)


def hold(module: ModuleType, own: bool = False) -> Held:
    """What keeps a module, and what is compiled of it; one that is the ``own`` of a callable goes with that."""
    held = _holds.get(module.__name__)
    if held is None or held.module is not module:
        held = _holds[module.__name__] = Held(module)
    if not own:
        _latest.append(held)
    return held


def forget(module: ModuleType) -> None:
    """Let the next who asks for the text of a module get another one."""
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


def _release(module: ModuleType) -> None:
    """Take a module out of the tables of the process."""
    held = _holds.get(module.__name__)
    if held is not None and held.module is module:  # asked for in this moment
        return
    forget(module)
    place = module.__spec__.origin if module.__spec__ is not None else None
    linecache.cache.pop(place or "", None)
    if hasattr(sys.modules.get("numba.core.registry"), "cpu_target"):  # Numba is there, and not being imported
        for dispatcher in _compiled(module):
            # Numba's own finalizer, which waits for a dispatcher that its table keeps.
            dispatcher._make_finalizer()()
            dispatcher._reset_overloads()


def _compiled(module: ModuleType) -> Iterator[Any]:
    """What Numba has compiled for the functions of a module, those that take the place of others included."""
    from numba.core import registry, types

    typing = registry.cpu_target.typing_context
    for function in [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]:
        kind = None
        with contextlib.suppress(ValueError, TypeError):  # a function that Numba has not seen
            kind = typing.resolve_value_type(function)
        if isinstance(kind, types.Dispatcher) and isinstance(kind.dispatcher, registry.CPUDispatcher):
            yield kind.dispatcher
        elif isinstance(kind, types.Function):
            for template in kind.templates:
                cached = getattr(template, "_impl_cache", {}).values()  # of overloads: an implementation and its use
                found = [entry[0] for entry in cached if isinstance(entry, tuple)]
                yield from (one for one in found if isinstance(one, registry.CPUDispatcher))
                for table in ("_impl_cache", "_compiled_overloads"):
                    getattr(template, table, {}).clear()
            getattr(kind, "_impl_keys", {}).clear()


# ---------------------------------------------------------------------------- Ctrl-C
# Ctrl-C inside of a compilation: the call raises it, and nothing half compiled is used again.


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


# ---------------------------------------------------------------------------- work that takes long
# One line on a terminal about work that takes more than two seconds.


NOTICE = "SYMPY_TENSORDIFF_NOTICE"
"""The environment variable that is ``off`` where nothing is to be said."""

PATIENCE = 2.0
"""Seconds without a word."""


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
