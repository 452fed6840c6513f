"""Random functions and their pullbacks as CUDA kernels, by any number of seeds.

    $ NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1 python tests/codegen/random_cuda.py 0 1000
    $ python tests/codegen/random_cuda.py 0 1000
    $ PYTHONPATH=tests python tests/codegen/random_cuda.py 0 1000 compiled

The first runs them in the simulator, the second assembles them for compute capability 8.0, 9.0 and 10.0, the third runs
their files in CUDA C++ with blocks and threads on the processor, and has programs of `device_programs` and of whole
tensors, too.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import assembler
import in_cuda
import numpy as np
from device_programs import device_program
from fuzz import random_function
from fuzz.equality import assert_equal
from fuzz.function_checks import data_of
from fuzz.generate_tensors import random_tensors
from fuzz.languages import RandomFunction
from sympy import Symbol

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.programs import Program
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.run.cache import load_source
from sympy_tensordiff.errors import (
    NotInCError,
    TensorDiffError,
    UnsupportedError,
)
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.values import call_arguments, to_double

CAPABILITIES = ((8, 0), (9, 0), (10, 0))
MOST_POINTS = 400
"""Larger results are left out: a thread of the simulator is one of Python."""
UNIT = 10
"""The programs that are compiled at once."""


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


class Call(NamedTuple):
    """The arguments of a call and its results in NumPy; None for one that a file refuses by its code."""

    sizes: Mapping[Symbol, int]
    arguments: list[Any]
    expected: list[Any] | None


class Compiled(NamedTuple):
    """A program for a file in CUDA C++, with calls."""

    program: Program
    dtype: str
    calls: list[Call]


def drawn(seed: int, made: RandomFunction, cotangent: Any) -> Compiled:
    """A random function and its pullbacks at all sizes that were drawn, by the exact interpreter; and at larger ones,
    without data, by NumPy.
    """
    results = (td.simplify_deltas(made.function), *td.vjp(made.function, tuple(made.variables), cotangent))
    calls: list[Call] = []
    for draw in made.draws:
        values = random_values(results, draw, seed, given=data_of(made, draw, seed))
        exact = [evaluate(result, values) for result in results]
        arguments, arrays = call_arguments(results, values)
        if sum(map(np.size, exact)) <= MOST_POINTS:
            calls.append(Call(draw, arrays, [to_double(value) for value in exact]))
    if made.sizes and not made.data:
        chosen, function = random.Random(seed), td.lambdify(arguments, results, "numpy")
        for low, high in ((1, 1), (2, 5), (9, 40)):
            sizes = {size: chosen.randint(low, high) for size in made.sizes}
            try:
                values = random_values(results, sizes, seed, low=-1, high=1)
                _, arrays = call_arguments(results, values)
                calls.append(Call(sizes, arrays, list(function(*arrays))))
            except (TensorDiffError, ValueError, IndexError):
                pass  # reads are proved inside of their tensors at the sizes that were drawn only
    dtype = ("float64", "float32")[seed // 4 % 2]
    return Compiled(build_program(arguments, results, library=False, rows=False), dtype, calls)


def compiled_case(seed: int) -> Compiled:
    """The program of a seed: of all index maps, of ranges, of whole tensors, or of schedules for devices."""
    if seed % 4 == 3:
        return for_devices(seed)
    if seed % 4 == 2:
        made = random_tensors(seed, rank=seed // 4 % 3, kinks=seed % 5 == 0, depth=2 + seed // 4 % 2, symbolic=True)
    else:
        made = random_function(seed, ("maps", "ranges")[seed % 4], kinks=seed % 5 == 0, depth=1 + seed // 4 % 2)
    return drawn(seed, made, td.TensorSymbol("cotangent", getattr(made.function, "shape", ())))


def for_devices(seed: int) -> Compiled:
    """A program with the schedules of devices; its pullbacks by NumPy's loops, its values by NumPy itself."""
    made, dtype = device_program(seed), ("float64", "float32")[seed // 4 % 2]
    function = td.lambdify(made.arguments, made.results, "numpy")
    calls: list[Call] = []
    for sizes in made.sizes:
        given = made.given(sizes, seed, dtype)
        if not all(array.size for array in given):
            calls.append(Call(sizes, given, None))
            continue
        found = function(*given)
        found = list(found) if isinstance(found, tuple) else [found]
        arrays = {argument.name: array for argument, array in zip(made.arguments, given, strict=True)}
        for value, own in zip(made.values, found, strict=False):
            assert_equal(own, np.asarray(value.of(arrays)), f"seed {seed} in NumPy at {sizes}", 1e-9)
        calls.append(Call(sizes, given, found))
    return Compiled(build_program(made.arguments, made.results, library=False, rows=False), dtype, calls)


def compare(name: str, case: Compiled, library: Any, order: int) -> int:
    """Call a compiled program; the number of calls."""
    function = in_cuda.Function(library, name, case.program, case.dtype)
    function.order = order
    for sizes, arguments, expected in case.calls:
        if expected is None:
            known = {str(name): size for name, size in sizes.items()}
            results = [np.empty(0, case.dtype) for _ in case.program.outputs]
            assert function.code(arguments, known, results) == 1, f"{name} at {sizes} is not refused"
            continue
        for number, (got, right) in enumerate(zip(function(*arguments), expected, strict=True)):
            rtol = {"float64": 1e-6, "float32": 1e-2}[case.dtype]
            assert_equal(got, np.asarray(right), f"{name} result {number} at {sizes}", rtol)
    return len(case.calls)


def run_compiled(seeds: Sequence[int], folder: Path, counts: Counter[str]) -> None:
    """Compile the programs of several seeds as one unit and call them, in both types and orders of threads by turns."""
    cases, files = {}, {}
    for seed in seeds:
        name = f"seed_{seed}"
        try:
            with limit():
                case = compiled_case(seed)
                files[name] = in_cuda.source(case.program, name, dtype=case.dtype)
                cases[name] = case
        except (UnsupportedError, NotInCError, TimeoutError) as error:
            counts["left out"] += 1
            print(f"seed {seed} is left out: {str(error)[:200]}", flush=True)
        except Exception as error:
            counts["wrong"] += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:400]}", flush=True)
    if not files:
        return
    try:
        library = in_cuda.build(files, folder, "-O0")
    except AssertionError as error:
        counts["wrong"] += 1
        print(f"{', '.join(files)}: {error}", flush=True)
        return
    for name, case in cases.items():
        seed = int(name.removeprefix("seed_"))
        try:
            with limit():
                counts["calls"] += compare(name, case, library, (1, -1)[seed // 8 % 2])
            counts["programs"] += 1
            counts[case.dtype] += 1
            counts["with shared memory"] += "__shared__" in files[name]
        except (NotInCError, TimeoutError) as error:
            counts["left out"] += 1
            print(f"seed {seed} is left out: {error}", flush=True)
        except Exception as error:
            counts["wrong"] += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:400]}", flush=True)


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


@contextlib.contextmanager
def limit() -> Iterator[None]:
    """Raise TimeoutError after a minute, where `main` has set what the alarm does."""
    signal.alarm(60 if signal.getsignal(signal.SIGALRM) is too_slow else 0)
    try:
        yield
    finally:
        signal.alarm(0)


def main(first, stop, compiled=""):
    counts, is_simulated = Counter(), "NUMBA_ENABLE_CUDASIM" in os.environ
    signal.signal(signal.SIGALRM, too_slow)
    with tempfile.TemporaryDirectory() as folder:
        if compiled:
            for begin in range(first, stop, UNIT):
                run_compiled(range(begin, min(stop, begin + UNIT)), Path(folder), counts)
                if begin // UNIT % 10 == 9:
                    print(f"up to {begin + UNIT}: {dict(counts)}", flush=True)
            print(dict(counts))
            return counts["wrong"]
        for seed in range(first, stop):
            try:
                with limit():
                    found = simulate(seed) if is_simulated else assemble(seed, Path(folder))
            except (UnsupportedError, NotInCError, TimeoutError) as error:
                counts["left out"] += 1
                print(f"seed {seed} is left out: {error}")
            except Exception as error:
                counts["wrong"] += 1
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
            else:
                counts["functions"] += 1
                counts["calls" if is_simulated else "kernels"] += found
    print(dict(counts))
    return counts["wrong"]


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:3]), *sys.argv[3:]) else 0)
