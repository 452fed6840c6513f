"""The table cases, and functions of practice, as programs of array libraries: a table of calls that equal NumPy's.

    $ PYTHONPATH=.:tests python tests/codegen/table_arrays.py
    $ PYTHONPATH=.:tests python tests/codegen/table_arrays.py --practice FOLDER --only "tersoff" "ewald*"
    $ PYTHONPATH=.:tests python tests/codegen/table_arrays.py --cases 0::4

A table case is called with its value and all pullbacks at its own sizes, at 1, at 5 and at empty axes; a function of
practice with its value, gradient and product with the Hessian at its own sizes, at 1 and at empty axes. Each call is
made in both types; JAX compiles. A call that NumPy's function refuses, as axes of 1 under a stencil, is not counted.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cases
import numpy as np
from exact_checks import call_arguments, pullback_problem
from random_arrays import LIBRARIES, TOLERANCES, Caller, Problem, assert_near, imitate_cupy, without_entries

import sympy_tensordiff as td
from sympy_tensordiff.codegen.run.array_functions import ArrayFunction
from sympy_tensordiff.errors import TensorDiffError, UnsupportedError
from sympy_tensordiff.testing.values import shape_of

Call = tuple[str, Sequence[Any]]
MOST_SECONDS = 120


def of_case(name: str) -> tuple[Problem, list[Call]]:
    """The value and all pullbacks of a table case, and its calls."""
    case = cases.build(name)
    options = dict(case.sizes), 3, dict(case.values), case.low, case.high
    cotangent, values = pullback_problem(case.function, case.variables, *options)
    results = case.function, td.vjp(case.function, tuple(case.variables), cotangent)
    arguments, arrays = call_arguments((case.function, cotangent, *case.variables), values)
    problem = Problem(list(arguments), results, [(arrays, None)])
    return problem, [("own sizes", arrays), *((f"sizes {k}", found) for k in (1, 5) for found in at_size(problem, k))]


def at_size(problem: Problem, size: int) -> Iterator[list[Any]]:
    """Arrays of a call all of whose symbolic sizes are equal, made of those of the first call."""
    sizes = set().union(*(axis.free_symbols for one in problem.arguments for axis in shape_of(one)))
    if not sizes:
        return
    arrays: list[Any] = []
    for argument, array in zip(problem.arguments, problem.calls[0][0], strict=True):
        shape = [int(axis.subs(dict.fromkeys(sizes, size))) for axis in shape_of(argument)]
        if min(shape, default=0) < 0 or (shape and not np.size(array)):
            return
        if shape:
            array = np.resize(array, shape)
            array = array % size if array.dtype.kind == "i" else array
        arrays.append(size if argument in sizes else array)
    yield arrays


def of_practice(module: Any, build: Any) -> tuple[Problem, list[Call]]:
    """The value, gradient and product with the Hessian of a function of practice, and its calls."""
    case = module.Case("", "", **build())
    slopes = td.gradient(case.f, tuple(case.wrt))
    along = tuple(module.symbol_like(one) for one in case.wrt)
    results = (case.f, *slopes, *td.hvp(case.f, tuple(case.wrt), along))
    positions = [next(k for k, one in enumerate(case.args) if one == wrt) for wrt in case.wrt]
    calls = []
    for number, sizes in enumerate([*case.small, dict.fromkeys(case.small[0], 1)]):
        try:
            arrays = module.arrays(case, sizes, number)
        except ValueError:  # a negative extent, such as n - 2 at 1
            continue
        draw = np.random.default_rng(number)
        arrays += [draw.normal(size=np.shape(arrays[k])) for k in positions]
        what = f"sizes {'own' if number < len(case.small) else 1}"
        calls.append((what, [float(one) if np.ndim(one) == 0 and not isinstance(one, int) else one for one in arrays]))
    return Problem([*case.args, *along], results, [(calls[0][1], None)]), calls


def typed(arrays: Sequence[Any], dtype: str) -> list[Any]:
    """The arrays of a call in one type; integers stay as they are."""
    real = np.dtype(dtype).type
    found = [one.astype(dtype) if isinstance(one, np.ndarray) and one.dtype.kind == "f" else one for one in arrays]
    return [real(one) if isinstance(one, float) else one for one in found]


def check(problem: Problem, calls: Sequence[Call], libraries: Sequence[str], counts: Counter[Any]) -> list[str]:
    """Compare all calls in all libraries; count those that are equal, and return what is wrong."""
    numpy = td.lambdify(problem.arguments, problem.results, "numpy")
    built: Any = td.lambdify(problem.arguments, problem.results, libraries[0])
    made = {
        one: Caller(ArrayFunction(built.program, one, built.functions, built._build), one, True) for one in libraries
    }
    wrong = []
    for what, arrays in (*calls, *(("empty axes", found) for found in without_entries(problem))):
        for dtype, tolerance in TOLERANCES.items():
            given = typed(arrays, dtype)
            try:
                wanted = numpy(*given)
            except (TensorDiffError, ValueError):
                counts["NumPy", dtype, what] += 1
                continue
            for library, function in made.items():
                try:
                    assert_near(function(given), wanted, f"{library} in {dtype}, {what}", tolerance)
                except Exception as error:
                    wrong.append(f"{library} in {dtype}, {what}: {type(error).__name__}: {str(error)[:250]}")
                else:
                    counts[library, dtype, what] += 1
    return wrong


def problems(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """The names of the functions to check, each with what builds it and its calls."""
    if options.cases != "none":
        chosen = slice(*(int(part) if part else None for part in options.cases.split(":")))
        for name in list(cases.names())[chosen]:
            yield name, lambda name=name: of_case(name)
    if options.practice:
        sys.path.insert(0, options.practice)
        module = importlib.import_module("practice")
        for path in sorted(Path(options.practice).glob("cases_*.py")):
            importlib.import_module(path.stem)
        for name, _, _, build, _ in module.CASES:
            yield name, lambda build=build: of_practice(module, build)


def table(counts: Mapping[Any, int]) -> str:
    """The table of calls: a row for a library and a type, a column for a kind of sizes."""
    columns = sorted({what for _, _, what in counts})
    lines = ["| | " + " | ".join(columns) + " |", "|" + "---|" * (len(columns) + 1)]
    for library, dtype in sorted({key[:2] for key in counts}):
        head = f"{'refused by ' * (library == 'NumPy')}{library}, {dtype}"
        lines.append(f"| {head} | " + " | ".join(str(counts[library, dtype, what]) for what in columns) + " |")
    return "\n".join(lines)


def _ring(*_: Any) -> None:
    raise TimeoutError(f"takes longer than {MOST_SECONDS} seconds of processor time")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="a slice of the table cases, such as 0:100 or ::4; or: none")
    parser.add_argument("--practice", help="a folder with functions of practice")
    parser.add_argument("--only", nargs="*", default=["*"], help="names, or patterns")
    parser.add_argument("--libraries", nargs="*", default=[one for one in LIBRARIES if one == "cupy" or find_spec(one)])
    options = parser.parse_args()
    options.cases = options.cases or ":"
    imitate_cupy()
    if find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
    counts: Counter[Any] = Counter()
    wrong = done = refused = 0
    signal.signal(signal.SIGPROF, _ring)
    for name, build in problems(options):
        if not any(fnmatch.fnmatch(name, pattern) for pattern in options.only):
            continue
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        begin = time.process_time()
        try:
            with np.errstate(all="ignore"):
                found = check(*build(), options.libraries, counts)
        except (UnsupportedError, TimeoutError) as error:
            refused += 1
            print(f"{name} is left out: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        done += 1
        wrong += bool(found)
        print(
            f"{name}: {'wrong' if found else 'equal'}, {time.process_time() - begin:.1f} s",
            *found,
            sep="\n  ",
            flush=True,
        )
    print(table(counts))
    print(f"{done} functions, {wrong} with something wrong, {refused} left out")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
