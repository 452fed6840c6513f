"""Limits of the machine: products of matrices by BLAS, and streams through memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from benchmarks.row import Work


@dataclass
class Limits:
    """The best rates seen in a run."""

    flops: float = 0.0  # per second
    bandwidth: float = 0.0  # bytes per second, of arrays that no cache holds

    def seconds(self, work: Work, itemsize: int, stream: float) -> float:
        """The additions and multiplications at the rate of BLAS, or the bytes at that of a stream of as many bytes."""
        return max(work.flops / self.flops, work.elements * itemsize / max(stream, self.bandwidth))

    def measure(self, dtype: str, *, n: int, length: int) -> None:
        """Called for each row, so that a busy moment does not decide."""
        self.flops = max(self.flops, products(dtype, n))
        self.bandwidth = max(self.bandwidth, stream(dtype, length))


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def triad(out: Any, left: Any, right: Any, factor: Any) -> None:
    for n in numba.prange(out.size):
        out[n] = left[n] + factor * right[n]


def products(dtype: str, n: int) -> float:
    """Additions and multiplications per second, in a product of two matrices."""
    random = np.random.default_rng(0)
    left, right = (random.standard_normal((n, n)).astype(dtype) for _ in range(2))
    product = np.empty_like(left)
    return 2 * n**3 / fastest(lambda: np.matmul(left, right, out=product))


def stream(dtype: str, length: int) -> float:
    """Bytes per second, of two vectors read and one written."""
    out, left, right = np.ones((3, max(length, 64)), dtype)
    return 3 * out.nbytes / fastest(lambda: triad(out, left, right, out.dtype.type(3)))


def fastest(call: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of the fastest call, after one that warms up."""
    call()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return max(min(seconds), 1e-9)
