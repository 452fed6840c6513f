"""Scalar operations of our kernels compared with those that JAX counts of its own compiled functions.

``python -m benchmarks.operations`` compares the rows, ``--random 200`` the random functions of
``tests/cost_judge``: gradient, product with the Hessian and, of a vector, the Hessian. Every function that needs more
than twice as many operations here as in JAX's best form is listed; the exit code is then 1. No time is measured.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import inputs
from benchmarks.libraries import Jax, first_line
from benchmarks.row import ByHand
from benchmarks.rows import ROWS

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
generate, judge, oracle = (importlib.import_module(f"cost_judge.{name}") for name in ("generate", "judge", "oracle"))

MOST = 2.0
"""Operations of ours for one of JAX's that are listed."""

CALL = re.compile(r"= \(?\w\d+\[([\d,]*)\].* custom-call\(.*custom_call_target=\"(\w+)\"")


@dataclass(frozen=True)
class Comparison:
    """Operations of one result, ours and JAX's, and our largest array compared with its temporary memory in numbers."""

    name: str
    ours: int
    theirs: int
    largest: int
    memory: int

    @property
    def ratio(self) -> float:
        return self.ours / max(self.theirs, 1)

    @property
    def line(self) -> str:
        return (
            f"{self.name:44} {self.ours:>13} here {self.theirs:>13} in JAX  {self.ratio:8.2f}   "
            f"memory {self.largest:>10} here {self.memory:>10}"
        )


def counted(function: Callable[..., Any], arrays: Sequence[Any]) -> tuple[int, int]:
    """The operations of a compiled function of JAX, and the numbers that it stores for a while.

    JAX counts no operation of a call of LAPACK: those of factorizations and triangular solutions are added.
    """
    jax = importlib.import_module("jax")
    compiled = jax.jit(function).lower(*arrays).compile()
    analysis = compiled.cost_analysis()
    analysis = analysis[0] if isinstance(analysis, list) else analysis
    total = analysis.get("flops", 0.0) + analysis.get("transcendentals", 0.0)
    for shape, target in CALL.findall(compiled.as_text()):
        lengths = [int(length) for length in shape.split(",") if length]
        if "getrf" in target:
            total += 2 * prod(lengths) * lengths[-1] / 3
        elif "potrf" in target:
            total += prod(lengths) * lengths[-1] / 3
        elif "trsm" in target:
            total += prod(lengths) * lengths[-2]
    return int(total), compiled.memory_analysis().temp_size_in_bytes // arrays[0].dtype.itemsize


def of_rows(patterns: Sequence[str]) -> Iterator[Comparison]:
    """The rows that match one of the patterns; of JAX the form with the fewest operations."""
    library = Jax()
    for name, row in ROWS.items():
        forms = [peer.formulation for peer in row.peers if peer.library == "jax"]
        forms = [one for one in forms if not isinstance(one, ByHand)]
        if not forms or not any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            continue
        arrays = inputs(row, row.sizes, "float64")
        best = min(counted(library._derivative(one), arrays) for one in forms)
        program = oracle.executed(*row.ours(row.sizes))
        ours = oracle.figures(program, {})
        yield Comparison(name, ours.operations, best[0], ours.memory, best[1])


def of_functions(number: int, seed: int) -> Iterator[Comparison]:
    """Derivatives of so many random functions."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    for one in range(seed, seed + number):
        function = generate.random_function(one)
        try:
            yield from _of_function(function, jax)
        except Exception as error:
            print(f"{function.name}: {type(error).__name__}: {first_line(error)}", flush=True)


def _of_function(function: Any, jax: Any) -> Iterator[Comparison]:
    arrays = function.arrays(judge.SIZES)
    names = list(arrays)
    tangent = np.ones_like(arrays[function.wrt])

    def value(x: Any, others: Any) -> Any:
        return function.of_arrays(jax.numpy, {**dict(zip(names, others, strict=True)), function.wrt: x})

    def product(x: Any, others: Any, v: Any) -> Any:
        return jax.jvp(lambda y: jax.grad(value)(y, others), (x,), (v,))[1]

    theirs = {
        "gradient": lambda x, others, v: jax.grad(value)(x, others),
        "hvp": product,
        "hessian": lambda x, others, v: jax.hessian(value)(x, others),
    }
    symbols = function.symbols()
    given = judge.arguments(function, symbols)
    for result, expression in judge.derivatives(function, symbols).items():
        if result != "function":
            ours = oracle.figures(oracle.executed(given, expression), judge.SIZES)
            call = theirs[result]
            found = counted(
                lambda *flat, call=call: call(flat[0], flat[2:], flat[1]),
                [arrays[function.wrt], tangent, *arrays.values()],
            )
            kind = " in index notation" if function.indexed else ""
            name = f"{function.name}{kind}, {result} by {function.wrt}"
            yield Comparison(name, ours.operations, found[0], ours.memory, found[1])


def main(given: Sequence[str] | None = None) -> int:
    """Run the command; 1 where something needs more than twice as many operations."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations", description=__doc__)
    parser.add_argument("--rows", nargs="*", default=["*"], metavar="PATTERN", help="names or patterns, as *-hvp")
    parser.add_argument("--random", type=int, default=0, help="so many random functions in the place of the rows")
    parser.add_argument("--seed", type=int, default=0, help="of the first of them")
    parser.add_argument("--all", action="store_true", help="list all, not only what needs more than twice as many")
    options = parser.parse_args(given)
    work = of_functions(options.random, options.seed) if options.random else of_rows(options.rows)
    found = []
    for one in work:
        found.append(one)
        if options.all or one.ratio > MOST:
            print(one.line, flush=True)
    ratios = np.array([max(one.ratio, 1e-3) for one in found])
    more = int((ratios > MOST).sum())
    print(f"{len(found)} results, {more} with more than {MOST:g} times as many operations as in JAX", end="")
    print(f"; geometric mean {np.exp(np.log(ratios).mean()):.2f}" if found else "")
    return int(more > 0)


if __name__ == "__main__":
    sys.exit(main())
