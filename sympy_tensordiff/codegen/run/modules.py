"""The lifetime of generated modules: they are freed with the last callable that uses them.

Modules are registered by name, and Numba keeps compiled code in global tables that refer to them: so neither would be
freed by itself.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
import weakref
from collections import deque
from collections.abc import Iterator
from types import ModuleType
from typing import Any

RECENT = 32
"""The number of recently requested modules that stay alive: the same expression is often compiled again."""


class Lease:
    """A reference that keeps a loaded module alive: its compiled code is freed when the last lease of it is deleted."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        weakref.finalize(self, _release, module).atexit = False


_leases: weakref.WeakValueDictionary[str, Lease] = weakref.WeakValueDictionary()
_latest: deque[Lease] = deque(maxlen=RECENT)


def lease(module: ModuleType, own: bool = False) -> Lease:
    """Return the reference that keeps ``module`` and its compiled code in memory. With ``own``, the module serves a
    single callable, and is freed with it; otherwise it also stays in a list of recent modules.
    """
    found = _leases.get(module.__name__)
    if found is None or found.module is not module:
        found = _leases[module.__name__] = Lease(module)
    if not own:
        _latest.append(found)
    return found


def forget(module: ModuleType) -> None:
    """Remove a module from ``sys.modules``, so that the next request for its text loads a new one."""
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


def _release(module: ModuleType) -> None:
    """Remove a module from the global tables of Python and Numba, so that its memory is freed."""
    found = _leases.get(module.__name__)
    if found is not None and found.module is module:  # requested again in the meantime
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
    """Yield the Numba dispatchers of the functions in ``module``, including those of the implementations of overloads.
    Clear Numba's caches of these overloads on the way.
    """
    from numba.core import registry, types

    typing = registry.cpu_target.typing_context
    for function in [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]:
        kind = None
        with contextlib.suppress(ValueError, TypeError):  # a function that Numba has not compiled
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
