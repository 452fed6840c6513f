"""CUDA's simulator with one thread of Python: the threads of a block run one after another, up to each barrier."""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

ARRAYS: dict[str, Callable[[Any], Any]] = dict.fromkeys(("global", "shared"), lambda array: array)
"""What kernels get in the place of arrays in each kind of memory."""


class Shared:
    """The shared arrays of one block, by the lines that declare them."""

    def __init__(self) -> None:
        self.arrays: dict[int, Any] = {}

    def array(self, shape: Any, dtype: Any) -> Any:
        """The array that the threads of the block share."""
        return self.arrays.setdefault(sys._getframe(1).f_lineno, ARRAYS["shared"](np.full(shape, np.nan, dtype)))


@cache
def with_pauses(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """A kernel with barriers, or with functions that have some, as a generator; None for one without."""
    known, names = function.__globals__, function.__code__.co_names
    device = [name for name in names if getattr(known.get(name), "_device", False) and known[name].fn is not function]
    called = {name: with_pauses(known[name].fn) for name in device}
    paused = {f"{name}_with_pauses": inner for name, inner in called.items() if inner is not None}
    if "syncthreads" not in names and not paused:
        return None
    known |= paused
    lines = inspect.getsource(function).splitlines()
    text = "\n".join(lines[next(n for n, line in enumerate(lines) if line.startswith("def ")) :])
    scope: dict[str, Any] = {}
    text = text.replace("cuda.syncthreads()", "yield")
    for name in sorted(called, key=len, reverse=True):
        if called[name] is not None:
            text = re.sub(rf"\b{name}\(", f"yield from {name}_with_pauses(", text)
    exec(text, known, scope)
    return scope[function.__name__]  # type: ignore[no-any-return]


def run_block(function: Callable[..., Any], block: Any, args: Any) -> None:
    """Run the threads of a block in turns, from one barrier to the next."""
    thread: Any = threading.current_thread()
    dim = import_module("numba.cuda.simulator.kernel").Dim3
    places = [dim(*at) for at in np.ndindex(*block)]
    waiting = [(place, function(*args)) for place in places]
    thread.turn = 0
    while waiting:
        count, running, waiting = len(waiting), waiting, []
        for thread.threadIdx, one in running:
            if next(one, one) is not one:
                waiting.append((thread.threadIdx, one))
        assert len(waiting) in (0, count), "a barrier is not reached by all threads of a block"
        thread.turn += 1


def one_after_another() -> None:
    """Change Numba's simulator, which starts a thread of Python for each thread of a device and asks all in turns.

    A kernel with barriers is a generator here, which yields at each. Shared arrays start as nan.
    """
    simulator = import_module("numba.cuda.simulator.kernel")
    arrays = import_module("numba.cuda.simulator.cudadrv.devicearray")
    kernel_class = simulator.FakeCUDAKernel
    original = kernel_class.__call__

    def run(kernel: Any, *args: Any) -> Any:
        running = simulator._get_kernel_context()
        if running is not None and kernel.fn.__globals__.get("cuda") is running:
            return kernel.fn(*args)  # called by a kernel of its own module
        if kernel._device:
            return original(kernel, *args)
        thread: Any = threading.current_thread()
        grid, block = simulator.normalize_kernel_dimensions(kernel.grid_dim, kernel.block_dim)
        plain = [ARRAYS["global"](arg._ary) if isinstance(arg, arrays.FakeCUDAArray) else arg for arg in args]
        module = simulator.FakeCUDAModule(grid, block, kernel.dynshared_size)
        with simulator._push_kernel_context(module), simulator.swapped_cuda_module(kernel.fn, module):
            paused = with_pauses(kernel.fn)
            for thread.blockIdx in (simulator.Dim3(*at) for at in np.ndindex(*grid)):
                if paused is not None:
                    module._shared = Shared()
                    run_block(paused, block, plain)
                    continue
                for thread.threadIdx in (simulator.Dim3(*at) for at in np.ndindex(*block)):
                    kernel.fn(*plain)

    kernel_class.__call__ = run
