"""Random functions and their pullbacks as CUDA kernels, by any number of seeds.

    $ NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1 python tests/codegen/random_cuda.py 0 1000
    $ python tests/codegen/random_cuda.py 0 1000
    $ PYTHONPATH=tests python tests/codegen/random_cuda.py 0 1000 compiled

The first runs them in the simulator, the second assembles them for compute capability 8.0, 9.0 and 10.0, the third runs
their files in CUDA C++ with blocks and threads on the processor.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import assembler
import in_cuda
import numpy as np
from fuzz import random_function
from fuzz.equality import assert_equal
from fuzz.function_checks import data_of

import sympy_tensordiff as td
from sympy_tensordiff.codegen.run.cache import load_source
from sympy_tensordiff.errors import NotInCError, UnsupportedError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.values import call_arguments, to_double

CAPABILITIES = ((8, 0), (9, 0), (10, 0))
MOST_POINTS = 400
"""Larger results are left out: a thread of the simulator is one of Python."""


def derived(seed):
    """A random function with all that was drawn for it, and the function and its pullbacks as results."""
    made = random_function(seed, "ranges" if seed % 2 else "maps", kinks=seed % 5 == 0, depth=1 + seed // 4 % 2)
    cotangent = td.TensorSymbol("cotangent", made.function.shape)
    return made, (td.simplify_deltas(made.function), *td.vjp(made.function, tuple(made.variables), cotangent))


def in_simulator(arguments, results):
    return td.lambdify(arguments, results, "cuda")


def simulate(seed, make=in_simulator, rtol=1e-6):
    """One text for all sizes that were drawn: the exact interpreter says what its kernels have to give."""
    made, results = derived(seed)
    function, runs = None, 0
    for draw in made.draws:
        values = random_values(results, draw, seed, given=data_of(made, draw, seed))
        exact = [evaluate(result, values) for result in results]
        if sum(map(np.size, exact)) > MOST_POINTS:
            continue
        arguments, arrays = call_arguments(results, values)
        function = function or make(arguments, results)
        for got, right in zip(function(*arrays), exact, strict=True):
            assert_equal(got, to_double(right), f"seed {seed} at {draw}", rtol)
        runs += 1
    return runs


def run_compiled(seed, folder):
    """The same through CUDA C++, in both types and orders of threads by turns."""
    dtype, rtol = (("float64", 1e-6), ("float32", 1e-2))[seed // 2 % 2]

    def make(arguments, results):
        function = in_cuda.compiled(arguments, results, folder, f"seed_{seed}", dtype)
        function.order = (1, -1)[seed // 4 % 2]
        return function

    return simulate(seed, make, rtol)


def assemble(seed, folder):
    """The kernels for one architecture and type after the other; how many there are."""
    made, results = derived(seed)
    values = random_values(results, made.draws[0], seed, given=data_of(made, made.draws[0], seed))
    arguments, _ = call_arguments(results, values)
    function = td.lambdify(arguments, results, "cuda")
    module = load_source(function.source, "test")
    kernels = assembler.kernels(module)
    for number, kernel in enumerate(kernels):
        turn = seed + number
        dtype = ("float32", "float64")[turn % 2]
        machine = assembler.assemble(module, function.program, kernel, dtype, CAPABILITIES[turn % 3], folder)
        assert not machine.is_spilled and not machine.has_local_memory, f"seed {seed}: {kernel} for {dtype}"
        assert dtype == "float64" or not machine.has_doubles, f"seed {seed}: {kernel} has double precision"
    return len(kernels)


def too_slow(*_):
    raise TimeoutError("takes longer than a minute")


def main(first, stop, compiled=""):
    counts, is_simulated = Counter(), "NUMBA_ENABLE_CUDASIM" in os.environ
    signal.signal(signal.SIGALRM, too_slow)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, stop):
            signal.alarm(60)
            try:
                run = run_compiled if compiled else assemble
                found = simulate(seed) if is_simulated else run(seed, Path(folder))
            except (UnsupportedError, NotInCError, TimeoutError) as error:
                counts["left out"] += 1
                print(f"seed {seed} is left out: {error}")
            except Exception as error:
                counts["wrong"] += 1
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
            else:
                counts["functions"] += 1
                signal.alarm(0)
                counts["calls" if is_simulated or compiled else "kernels"] += found
    print(dict(counts))
    return counts["wrong"]


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:3]), *sys.argv[3:]) else 0)
