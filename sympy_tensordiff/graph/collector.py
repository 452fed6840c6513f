"""Python's garbage collector, which is of no use while a graph grows."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """A context, or a decorator, in which the collector of reference cycles does not run.

    Nodes are many, live long and are in no cycles: the collector would visit all of them again and again,
    for a third of the time of a large sweep. It is as before afterwards, whatever happens.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
