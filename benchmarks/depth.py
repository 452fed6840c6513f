"""Times over depth: building, `vjp`, the NumPy module and a call, for chains and nets of comprehensions.

Run with ``python benchmarks/depth.py``; see README.md in this folder.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
import sympy

import sympy_tensordiff as td

i, k = td.indices("i k")
SIZE = 6


def chain(depth: int) -> tuple[object, tuple[object, ...]]:
    """``h[i]`` becomes ``sin(h[i]) + h[i]*w[i]``."""
    x, w = td.TensorSymbol("x", SIZE), td.TensorSymbol("w", SIZE)
    h = x
    for _ in range(depth):
        h = td.TensorComprehension(sympy.sin(h[i]) + h[i] * w[i], (i, SIZE))
    return h, (x, w)


def net(depth: int) -> tuple[object, tuple[object, ...]]:
    """``tanh(W h)`` with a matrix for each layer."""
    x = td.TensorSymbol("x", SIZE)
    weights = tuple(td.TensorSymbol(f"W{layer}", (SIZE, SIZE)) for layer in range(depth))
    h = x
    for W in weights:
        h = td.TensorComprehension(sympy.tanh(td.IndexedSum(W[i, k] * h[k], (k, 0, SIZE - 1))), (i, SIZE))
    return h, (x, *weights)


def fibonacci(depth: int) -> tuple[object, tuple[object, ...]]:
    """Each layer reads the two before: as a tree it has exponential size."""
    x, w = td.TensorSymbol("x", SIZE), td.TensorSymbol("w", SIZE)
    a, b = x, w
    for _ in range(depth):
        a, b = b, td.TensorComprehension(sympy.sin(a[i]) * b[i] + w[i], (i, SIZE))
    return b, (x, w)


FAMILIES = {"chain": chain, "net": net, "fibonacci": fibonacci}


def measure(family: str, depth: int, backend: str) -> None:
    """One line of seconds."""
    marks = [time.perf_counter()]
    f, variables = FAMILIES[family](depth)
    marks.append(time.perf_counter())
    df = td.TensorSymbol("df", SIZE)
    gradients = td.vjp(f, variables, df)
    marks.append(time.perf_counter())
    function = td.lambdify((*variables, df), gradients, backend)
    marks.append(time.perf_counter())
    random = np.random.default_rng(0)
    arrays = [random.uniform(-0.5, 0.5, [int(e) for e in v.shape]) for v in (*variables, df)]
    for _ in range(2):
        function(*arrays)
        marks.append(time.perf_counter())
    parts = ["build", "vjp", "lambdify", "first call", "second call"]
    seconds = [after - before for before, after in itertools.pairwise(marks)]
    print(f"{family:<10} {depth:>6}  " + "  ".join(f"{p} {s:8.3f} s" for p, s in zip(parts, seconds, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--depths", nargs="*", type=int, default=[500, 1000, 2000])
    parser.add_argument("--backend", default="numpy", help="numpy (default) or numba")
    options = parser.parse_args()
    for family in options.families:
        for depth in options.depths:
            measure(family, depth, options.backend)


if __name__ == "__main__":
    main()
