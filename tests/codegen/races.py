"""A watch on the memory of the simulator: threads that meet at an entry, or wait where others do not come by."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from simulated_threads import ARRAYS


class Race(AssertionError):
    """Two threads of which one writes what the other writes or reads, with no barrier between them."""


class Watched:
    """An array whose entries know the threads that come by; ``turns`` are kept apart by barriers."""

    def __init__(self, array: Any, has_turns: bool) -> None:
        self.array, self.dtype, self.has_turns = array, array.dtype, has_turns
        self.visits: dict[Any, dict[Any, bool]] = defaultdict(dict)

    def note(self, place: Any, writes: bool) -> None:
        thread: Any = threading.current_thread()
        block, own = tuple(thread.blockIdx), tuple(thread.threadIdx)
        at = place if isinstance(place, tuple) else int(place)
        visits = self.visits[(at, block, thread.turn) if self.has_turns else at]
        known = visits.get((block, own))
        if known is None or (writes and not known):
            if any(other != (block, own) and (writes or wrote) for other, wrote in visits.items()):
                raise Race(f"threads meet at entry {at} of {'shared' if self.has_turns else 'an array in'} memory")
            visits[block, own] = writes

    def __getitem__(self, place: Any) -> Any:
        self.note(place, False)
        return self.array[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        self.note(place, True)
        self.array[place] = value


@contextmanager
def watched() -> Iterator[None]:
    """In the simulator, raise `Race` where threads of a kernel meet."""
    kinds = {"global": lambda array: Watched(array, False), "shared": lambda array: Watched(array, True)}
    with pytest.MonkeyPatch.context() as patch:
        for kind, watch in kinds.items():
            patch.setitem(ARRAYS, kind, watch)
        yield
