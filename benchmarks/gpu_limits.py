"""Limits of a GPU: products of matrices by a library, and a kernel that copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from benchmarks.gpu_libraries import Device
from benchmarks.limits import Limits, fastest


@cuda.jit  # type: ignore[untyped-decorator]
def copy(out: Any, array: Any) -> None:
    place, step = cuda.grid(1), cuda.gridsize(1)
    while place < array.size:
        out[place] = array[place]
        place += step


def bandwidth(dtype: str, length: int) -> float:
    """Bytes per second, of a vector read and one written."""
    array = cuda.to_device(np.ones(length, dtype))
    out = cuda.device_array(length, dtype)
    blocks = min(-(-length // 256), 65535)

    def call() -> None:
        copy[blocks, 256](out, array)
        cuda.synchronize()

    seconds = fastest(call)
    if not np.array_equal(out.copy_to_host(), array.copy_to_host()):
        raise AssertionError("the kernel that measures the bandwidth does not copy")
    return 2 * length * np.dtype(dtype).itemsize / seconds


def products(device: Device, dtype: str, n: int) -> float:
    """Additions and multiplications per second, in a product of two matrices; infinite without a library."""
    if device.owner is None:
        return float("inf")
    left, right = (device.owner.placed(np.ones((n, n), dtype)) for _ in range(2))

    def call() -> None:
        left @ right
        device.cuda.synchronize()

    return 2 * n**3 / fastest(call)


def measured(device: Device, dtype: str, n: int, length: int) -> Limits:
    """The limits of the card for one element type."""
    return Limits(products(device, dtype, n), bandwidth(dtype, length))
