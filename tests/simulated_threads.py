"""CUDA's simulator with one thread of Python: the threads of a kernel that never wait run one after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np


def one_after_another() -> None:
    """Change Numba's simulator, which starts a thread of Python for each thread of a device and asks all in turns.

    Kernels with barriers still run so.
    """
    simulator = import_module("numba.cuda.simulator.kernel")
    arrays = import_module("numba.cuda.simulator.cudadrv.devicearray")
    kernel_class = simulator.FakeCUDAKernel
    original = kernel_class.__call__

    @cache
    def waits(function: Callable[..., Any]) -> bool:
        """Whether there is a barrier in a kernel, or in a function that it calls."""
        found = [function]
        for one in found:
            named = [one.__globals__.get(name) for name in one.__code__.co_names]
            found += [called.fn for called in named if isinstance(called, kernel_class) and called.fn not in found]
        return any("syncthreads" in one.__code__.co_names for one in found)

    def run(kernel: Any, *args: Any) -> Any:
        running = simulator._get_kernel_context()
        if running is not None and kernel.fn.__globals__.get("cuda") is running:
            return kernel.fn(*args)  # called by a kernel of its own module
        if kernel._device or waits(kernel.fn):
            return original(kernel, *args)
        thread: Any = threading.current_thread()
        grid, block = simulator.normalize_kernel_dimensions(kernel.grid_dim, kernel.block_dim)
        plain = [arg._ary if isinstance(arg, arrays.FakeCUDAArray) else arg for arg in args]
        module = simulator.FakeCUDAModule(grid, block, kernel.dynshared_size)
        with simulator._push_kernel_context(module), simulator.swapped_cuda_module(kernel.fn, module):
            for thread.blockIdx in (simulator.Dim3(*at) for at in np.ndindex(*grid)):
                for thread.threadIdx in (simulator.Dim3(*at) for at in np.ndindex(*block)):
                    kernel.fn(*plain)

    kernel_class.__call__ = run
