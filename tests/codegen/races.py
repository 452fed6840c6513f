"""A watch on the memory of the simulator: threads that meet at an entry, or wait where others do not come by."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import pytest


class Race(AssertionError):
    """Two threads of which one writes what the other writes or reads, with no barrier between them."""


class Watched:
    """An array whose entries know the threads that come by; ``turns`` are kept apart by barriers."""

    def __init__(self, array: Any, has_turns: bool) -> None:
        self.array, self.dtype, self.has_turns = array, array.dtype, has_turns
        self.lock = threading.Lock()
        self.visits: dict[Any, dict[Any, bool]] = defaultdict(dict)

    def note(self, place: Any, writes: bool) -> None:
        thread: Any = threading.current_thread()
        block, own = tuple(thread.blockIdx), tuple(thread.threadIdx)
        at = tuple(np.atleast_1d(place).tolist())
        with self.lock:
            visits = self.visits[(at, block, thread.turn) if self.has_turns else at]
            if any(other != (block, own) and (writes or wrote) for other, wrote in visits.items()):
                raise Race(f"threads meet at entry {at} of {'shared' if self.has_turns else 'an array in'} memory")
            visits[block, own] = writes or visits.get((block, own), False)

    def __getitem__(self, place: Any) -> Any:
        self.note(place, False)
        return self.array[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        self.note(place, True)
        self.array[place] = value


@contextmanager
def watched() -> Iterator[None]:
    """In the simulator, raise `Race` where threads of a kernel meet."""
    simulator = import_module("numba.cuda.simulator.kernel")
    shared = import_module("numba.cuda.simulator.kernelapi").FakeCUDAShared
    fake = import_module("numba.cuda.simulator.cudadrv.devicearray").FakeCUDAArray
    wait = simulator.BlockThread.syncthreads

    def counted_wait(thread: Any) -> None:
        thread.turn += 1
        wait(thread)

    def in_shared(memory: Any, shape: Any, dtype: Any) -> Watched:
        line = sys._getframe(1).f_lineno
        return memory._allocations.setdefault(line, Watched(np.empty(shape, dtype), True))

    class Manager(simulator.BlockManager):
        def run(self, place: Any, *args: Any) -> None:
            turns = set()

            def function(*values: Any) -> None:
                thread: Any = threading.current_thread()
                thread.turn = 0
                original(*values)
                turns.add(thread.turn)

            original, self._f = self._f, function
            super().run(place, *args)
            if len(turns) > 1:
                raise Race("threads wait where others do not come by")

    def run(kernel: Any, *args: Any) -> Any:
        running = simulator._get_kernel_context()
        if running is not None:
            with simulator.swapped_cuda_module(kernel.fn, running):
                return kernel.fn(*args)
        grid, block = simulator.normalize_kernel_dimensions(kernel.grid_dim, kernel.block_dim)
        module = simulator.FakeCUDAModule(grid, block, kernel.dynshared_size)
        given = [Watched(arg._ary, False) if isinstance(arg, fake) else arg for arg in args]
        with simulator._push_kernel_context(module), simulator.swapped_cuda_module(kernel.fn, module):
            for place in np.ndindex(*grid):
                Manager(kernel.fn, grid, block, False).run(place, *given)
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulator.BlockThread, "syncthreads", counted_wait)
        patch.setattr(shared, "array", in_shared)
        patch.setattr(simulator.FakeCUDAKernel, "__call__", run)
        yield
