"""The memory that a loop over different kernels takes: of each while it is held, and what is left when it is not.

Run with ``python benchmarks/memory.py``; see README.md in this folder.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def resident() -> float:
    """The memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def kernels(backend: str) -> Callable[[int], Any]:
    """Return a function that makes the kernel of a number, calls it, and returns it."""
    import numpy as np

    import sympy_tensordiff as td

    i, n = td.indices("i n")
    x = td.TensorSymbol("x", n)

    def made(number: int) -> Any:
        function = td.lambdify([x], td.IndexedSum(td.sin(number * x[i]) + number, (i, 0, n - 1)), backend)
        function(np.ones(4))
        return function

    return made


def measure(backend: str, count: int) -> str:
    """The memory and the time of each of ``count`` kernels, after some that warm up."""
    make = kernels(backend)
    for number in range(2, 5):
        make(number)
    gc.collect()
    before, start = resident(), time.perf_counter()
    for number in range(5, 5 + count):
        make(number)
    seconds = (time.perf_counter() - start) / count
    gc.collect()
    between = resident()
    functions = [make(number) for number in range(5 + count, 5 + 2 * count)]
    gc.collect()
    per_function = (resident() - between) / len(functions)
    again = (between - before) / count
    return f"{per_function:6.3f} MB each that is held, {again:6.3f} MB each that is not, {seconds:6.3f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.backend:
        print(measure(options.backend, options.count))
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"SYMPY_TENSORDIFF_CACHE": folder}
        states = [(f"{name}, {state}", name) for name in ("llvm", "numba") for state in ("compiled", "from disk")]
        for name, backend in (("numpy", "numpy"), *states):
            command = [sys.executable, __file__, "--count", str(options.count), "--backend", backend]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            print(f"{name:17} {done.stdout}", end="", flush=True)


if __name__ == "__main__":
    main()
