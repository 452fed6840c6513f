"""Times of the paper's section 6: one `vjp` for four variables, and the kernels of its derivatives.

Run with ``python benchmarks/section6.py``; see README.md in this folder.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import sympy_tensordiff as td
from sympy_tensordiff.app.demo import PAPER_SIZES, inputs, problem


def times(function: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each of ``repeats`` runs, after one that warms up."""
    function()
    result = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        result.append(time.perf_counter() - begin)
    return result


def report(what: str, seconds: list[float]) -> None:
    best, middle = min(seconds) * 1e3, statistics.median(seconds) * 1e3
    print(f"{what:<44} best {best:9.3f} ms   median {middle:9.3f} ms   of {len(seconds)}")


def time_vjp(repeats: int) -> None:
    """The four derivatives, at the paper's small extents and at the large ones."""
    for sizes in ((3, 4, 5), PAPER_SIZES):
        task = problem(sizes)
        seconds = times(lambda task=task: td.vjp(task.function, task.variables, task.cotangent), repeats)
        report(f"vjp by a, b, c, d, I, J, K = {sizes}", seconds)


def time_kernels(repeats: int, backends: list[str]) -> None:
    """f and its four derivatives, compiled."""
    task = problem(PAPER_SIZES)
    gradients = td.vjp(task.function, task.variables, task.cotangent)
    arrays = inputs(PAPER_SIZES)
    arguments = (*task.variables, task.cotangent)
    for backend in backends:
        forward = td.lambdify(task.variables, task.function, backend)
        report(f"{backend}: f", times(lambda forward=forward: forward(*arrays[:-1]), repeats))
        backward = td.lambdify(arguments, gradients, backend)
        report(f"{backend}: four derivatives", times(lambda backward=backward: backward(*arrays), repeats))
        for variable, gradient in zip(task.variables, gradients, strict=True):
            alone = td.lambdify(arguments, gradient, backend)
            report(f"{backend}: d{variable} alone", times(lambda alone=alone: alone(*arrays), repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=50, help="runs of the vjp (default 50)")
    parser.add_argument("--kernel-repeats", type=int, default=10, help="runs of each kernel (default 10)")
    parser.add_argument("--backends", nargs="*", default=["numba", "numpy"], help="numba, numpy, cuda")
    options = parser.parse_args()
    time_vjp(options.repeats)
    time_kernels(options.kernel_repeats, options.backends)


if __name__ == "__main__":
    main()
