"""Times over size: reading, the reverse sweep, simplifying and writing of random graphs of whole tensors.

Run with ``python benchmarks/growth.py``; see README.md in this folder.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import sympy_tensordiff as td
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.graph.nodes import reachable
from sympy_tensordiff.graph.write import write_all

SIZE = 5
WINDOW = 50


def expression(count: int) -> tuple[Any, tuple[Any, ...]]:
    """A scalar of about ``count`` operations on matrices, each on some that came shortly before, and its variables."""
    choice = random.Random(0)
    variables = tuple(td.TensorSymbol(f"x{n}", (SIZE, SIZE)) for n in range(4))
    nodes: list[Any] = list(variables)
    functions = (td.sin, td.cos, td.tanh, td.exp)
    operations: tuple[Callable[[Any, Any], Any], ...] = (
        lambda a, b: a + b, lambda a, b: 2 * a + b, lambda a, b: a * b, lambda a, b: a @ b, lambda a, b: a @ b.T,
        lambda a, b: choice.choice(functions)(a),
    )  # fmt: skip
    while len(nodes) < count:
        a, b = (nodes[-choice.randint(1, min(len(nodes), WINDOW))] for _ in range(2))
        nodes.append(choice.choice(operations)(a, b))
    total: Any = nodes[-1]
    for node in nodes[-WINDOW:-1]:
        total = total + node
    return td.sum(total), variables


def passes(count: int, results: bool) -> tuple[int, int, dict[str, float]]:
    """The nodes of a function, of it and its gradient, and the seconds of the first two passes, or of all four."""
    f, variables = expression(count)
    seconds = {}
    start = time.process_time()
    work = Differentiation(f)
    leaves = [work.leaf(variable) for variable in variables]
    seconds["read"] = time.process_time() - start
    start = time.process_time()
    nodes = work.pullbacks(leaves, work.graph.one)
    seconds["sweep"] = time.process_time() - start
    sizes = len(reachable(work.root)), len(reachable(work.root, *nodes))
    if results:
        start = time.process_time()
        nodes = work.simplified_all(nodes)
        seconds["simplify"] = time.process_time() - start
        start = time.process_time()
        write_all(work.reader, nodes)
        seconds["write"] = time.process_time() - start
    return *sizes, seconds


def table(counts: list[int], results: bool) -> None:
    """A line of seconds for each size, and how they grow from one to the next."""
    rows = [passes(count, results) for count in counts]
    for nodes, both, seconds in rows:
        times = "  ".join(f"{name} {value:8.3f} s" for name, value in seconds.items())
        print(f"{nodes:>7} nodes, with gradients {both:>7}  {times}")
    for (before, _, short), (after, _, long) in itertools.pairwise(rows):
        ratios = "  ".join(f"{name} {long[name] / short[name]:8.2f}  " for name in long)
        print(f"times {after / before:5.2f}                         {ratios}")


def cross_entropy() -> Any:
    """The third derivative of the cross-entropy of a softmax."""
    x, t = td.TensorSymbol("x", SIZE), td.TensorSymbol("t", SIZE)
    gradient = td.gradient(-td.sum(t * td.log(td.softmax(x))), x)
    return td.jacobian(td.jacobian(gradient, x), x)


def net(depth: int = 20) -> Any:
    """The gradients of a chain of layers ``tanh(W h)`` by all their weights."""
    h: Any = td.TensorSymbol("x", SIZE)
    weights = tuple(td.TensorSymbol(f"W{layer}", (SIZE, SIZE)) for layer in range(depth))
    for weight in weights:
        h = td.tanh(weight @ h)
    return td.gradient(td.sum(h), weights)


def best(function: Callable[[], Any], repeats: int = 9) -> float:
    """The shortest time of a call after one that warms up."""
    function()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=[12_500, 25_000, 50_000, 100_000])
    parser.add_argument("--results", nargs="*", type=int, default=[1_000, 2_000, 4_000, 8_000])
    options = parser.parse_args()
    table(options.sizes, results=False)
    table(options.results, results=True)
    print(f"third derivative of the cross-entropy {best(cross_entropy):.4f} s")
    print(f"gradients of 20 layers of tanh        {best(net):.4f} s")


if __name__ == "__main__":
    main()
