"""Random functions and their derivatives as programs of array libraries, by any number of seeds.

    $ PYTHONPATH=.:tests python tests/codegen/random_arrays.py 0 1000
    $ PYTHONPATH=.:tests python tests/codegen/random_arrays.py 0 1000 maps jax torch

The kinds of functions are drawn by turns, or one is named. NumPy's values are compared with the exact interpreter's
where it has them, and those of the libraries with NumPy's, in one type or the other, at sizes of 1 and at empty axes
among others. CuPy is NumPy under its name. JAX, which compiles for each shape, is called at one drawn size; it
executes one function of eight operation by operation.
"""

from __future__ import annotations

import signal
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from fuzz.equality import assert_equal
from fuzz.extrema import DRAWS, IDX, VARIABLES, WEIGHTS, Programs
from fuzz.function_checks import GENERATORS, data_of
from fuzz.recurrences import VARIABLES as OF_RECURRENCES
from fuzz.recurrences import RecurrenceGenerator, m, n
from fuzz.second_orders import MADE

import sympy_tensordiff as td
from sympy_tensordiff.codegen.run.array_functions import ArrayFunction
from sympy_tensordiff.errors import IndexExpressionError, OutOfShapeError, TensorDiffError, UnsupportedError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing.values import call_arguments, random_values, shape_of, to_double

LIBRARIES = ("cupy", "jax", "torch")
TOLERANCES = {"float64": 1e-12, "float32": 2e-4}
"""Errors relative to the largest entry, or to 1 where that is less."""
MOST_SECONDS = 60


class Problem(NamedTuple):
    """Results to compute, and calls: the arrays of the arguments and the exact results, or None."""

    arguments: list[Any]
    results: tuple[Any, ...]
    calls: list[tuple[Sequence[Any], Sequence[Any] | None]]


def imitate_cupy() -> None:
    """Install NumPy and SciPy under CuPy's names."""
    from scipy import special

    scipy, cupyx = types.ModuleType("cupyx.scipy"), types.ModuleType("cupyx")
    scipy.special, cupyx.scipy = special, scipy
    sys.modules |= {"cupy": np, "cupyx": cupyx, "cupyx.scipy": scipy, "cupyx.scipy.special": special}


def of_generated(kind: str, seed: int) -> Problem:
    """A function and its pullbacks, at all sizes drawn for it."""
    made = GENERATORS[kind](seed)
    cotangent = td.TensorSymbol("cotangent", shape_of(made.function))
    pulled = td.vjp(made.function, tuple(made.variables), cotangent) if made.variables else ()
    results = (td.simplify_deltas(made.function), *pulled)
    inputs = (*results, *made.variables, cotangent)
    low, high = (-1, 1) if kind == "tensors" else (-2, 2)
    draws = [(draw, True) for draw in made.draws]
    if kind == "tensors" and made.sizes:
        draws += [({size: n for size in made.sizes}, False) for n in (1, 9, 17)]
    calls = []
    for draw, is_exact in draws:
        given = data_of(made, draw, seed) if is_exact else {}
        values = random_values(inputs, draw, seed, given=given, low=low, high=high)
        arguments, arrays = call_arguments(inputs, values)
        exact = [to_double(evaluate(result, values)) for result in results] if is_exact else None
        calls.append((arrays, exact))
    return Problem(arguments, results, calls)


def of_second_orders(kind: str, seed: int) -> Problem:
    """A function, its gradient and a product with its Hessian; index arrays select among the entries."""
    made = MADE[kind](seed)
    slopes = td.gradient(made.function, made.variables)
    along = tuple(td.TensorSymbol(f"along_{n}", shape_of(v)) for n, v in enumerate(made.variables))
    results = (made.function, *slopes, *td.hvp(made.function, made.variables, along))
    inputs = (*results, *made.variables, *along)
    values = random_values(inputs, made.sizes, seed, given={a: np.array(v) for a, v in made.data.items()})
    arguments, arrays = call_arguments(inputs, values)
    return Problem(arguments, results, [(arrays, [to_double(evaluate(result, values)) for result in results])])


def of_extrema(kind: str, seed: int) -> Problem:
    """A program with maxima and masks, and its gradient."""
    function = Programs(seed, kind == "masked").function()
    generator = np.random.default_rng(seed)
    calls = []
    for size in DRAWS:
        arrays = [generator.normal(size=size) for _ in (*VARIABLES, WEIGHTS)]
        calls.append(([*arrays, generator.integers(0, size, size)], None))
    results = (function.written, *td.gradient(function.written, VARIABLES))
    return Problem([*VARIABLES, WEIGHTS, IDX], results, calls)


def of_recurrences(kind: str, seed: int) -> Problem:
    """A scalar of some recurrences and its gradient, for one, two and five times."""
    loss = RecurrenceGenerator(seed).loss()
    wrt = tuple(one for one in OF_RECURRENCES if one in loss.free_symbols) or OF_RECURRENCES[:1]
    draw, calls = np.random.default_rng(seed), []
    for steps in (1, 2, 5):
        shapes = [[int({n: 2, m: 3}.get(extent, steps)) for extent in one.shape] for one in OF_RECURRENCES]
        calls.append(([draw.integers(-2, 3, shape).astype(float) / 2 for shape in shapes], None))
    return Problem([*OF_RECURRENCES], (loss, *td.gradient(loss, wrt)), calls)


def of_programs(kind: str, seed: int) -> Problem:
    """A program of whole arrays, its gradient and a product with its Hessian."""
    from judges.array_programs import TD, random_program

    program = random_program(seed)
    loss, wrt = program.values(TD, program.symbols)[-1], program.symbols[program.wrt]
    slope, along = td.gradient(loss, wrt), td.TensorSymbol("along", wrt.shape)
    direction = np.random.default_rng(seed).normal(size=np.shape(program.arrays[program.wrt]))
    calls = [([*program.arrays, direction], None)]
    return Problem([*program.symbols, along], (loss, slope, td.hvp(loss, wrt, along)), calls)


KINDS: Mapping[str, Callable[[str, int], Problem]] = {
    **dict.fromkeys(GENERATORS, of_generated),
    **dict.fromkeys(MADE, of_second_orders),
    **dict.fromkeys(("extrema", "masked"), of_extrema),
    "recurrences": of_recurrences,
    **({"programs": of_programs} if find_spec("jax") else {}),
}


def leaves(results: Any) -> Iterator[Any]:
    """The arrays in a tuple of tuples."""
    for result in results if isinstance(results, (tuple, list)) else [results]:
        if isinstance(result, (tuple, list)):
            yield from leaves(result)
        else:
            yield np.asarray(result)


def assert_near(got: Any, wanted: Any, what: str, tolerance: float) -> None:
    for position, (one, other) in enumerate(zip(leaves(got), leaves(wanted), strict=True)):
        assert one.shape == other.shape, f"{what}: result {position} has shape {one.shape}, not {other.shape}"
        assert one.dtype == other.dtype, f"{what}: result {position} has type {one.dtype}, not {other.dtype}"
        scale = np.max(np.abs(other), initial=1, where=np.isfinite(other))
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        with np.errstate(invalid="ignore"):
            error = np.where(same, 0.0, np.abs(one / scale - other / scale))
        worst = float(np.max(error, initial=0))
        assert worst <= tolerance, f"{what}: result {position} is off by {worst:.2g} of {scale:.2g}"


def without_entries(problem: Problem) -> Iterator[list[Any]]:
    """Arrays of a call for each size of which the first axis of some argument is empty."""
    sizes = sorted({axis for one in problem.arguments for axis in getattr(one, "shape", ()) if axis.is_Symbol}, key=str)
    for size in sizes:
        arrays = []
        for argument, array in zip(problem.arguments, problem.calls[0][0], strict=True):
            shape = getattr(argument, "shape", ())
            if any(axis.has(size) and axis != size for axis in shape):
                break
            arrays.append(array[tuple(slice(0) if axis == size else slice(None) for axis in shape)] if shape else array)
        else:
            yield arrays


class Caller:
    """A function of a library on NumPy's arrays."""

    def __init__(self, function: ArrayFunction, library: str, compiled: bool) -> None:
        self.library = library
        integers = tuple(n for n, a in enumerate(function.program.arguments) if a.kind == "integer")
        self.function: Any = function
        if library == "jax" and compiled:
            import jax

            self.function = jax.jit(function, static_argnums=integers)

    def __call__(self, arrays: Sequence[Any]) -> Any:
        if self.library == "torch":
            import torch

            arrays = [torch.as_tensor(one) if isinstance(one, np.ndarray) else one for one in arrays]
        return self.function(*arrays)


def check(kind: str, seed: int, libraries: Sequence[str] = LIBRARIES) -> int:
    """Compare one function in all libraries; return the number of calls compared."""
    problem = KINDS[kind](kind, seed)
    numpy = td.lambdify(problem.arguments, problem.results, "numpy")
    built: Any = td.lambdify(problem.arguments, problem.results, libraries[0])
    made = {
        library: Caller(ArrayFunction(built.program, library, built.functions, built._build), library, seed % 8 != 7)
        for library in libraries
    }
    dtype = ("float64", "float32")[seed // 2 % 3 == 2]
    calls = [(arrays, exact, False) for arrays, exact in problem.calls]
    calls += [(arrays, None, True) for arrays in without_entries(problem)]
    drawn = np.random.default_rng(seed).choice(len(calls), 1)
    count = 0
    for number, (arrays, exact, is_empty) in enumerate(calls):
        what = f"call {number} with shapes {[np.shape(one) for one in arrays]}"
        able = {library: one for library, one in made.items() if library != "jax" or number in drawn}
        with np.errstate(all="ignore"):
            if exact is not None:
                for got, right in zip(numpy(*arrays), exact, strict=True):
                    assert_equal(got, right, f"NumPy at {what}", 1e-6)
            try:
                numpy(*arrays)
            except TensorDiffError as error:
                if is_empty or isinstance(error, OutOfShapeError):
                    continue
                raise
            count += compare(numpy, able, arrays, dtype, what)
    return count


def compare(numpy: Any, made: Mapping[str, Caller], arrays: Sequence[Any], dtype: str, what: str) -> int:
    typed = [one.astype(dtype) if isinstance(one, np.ndarray) and one.dtype.kind == "f" else one for one in arrays]
    if dtype == "float32":
        typed = [np.float32(one) if isinstance(one, float) else one for one in typed]
    wanted = numpy(*typed)
    for library, function in made.items():
        assert_near(function(typed), wanted, f"{library} in {dtype}, {what}", TOLERANCES[dtype])
    return len(made)


def _ring(*_: Any) -> None:
    raise TimeoutError(f"takes longer than {MOST_SECONDS} seconds of processor time")


def main(first: int, stop: int, *names: str) -> int:
    imitate_cupy()
    if find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
    kinds = [name for name in names if name in KINDS] or list(KINDS)
    libraries = [name for name in names if name in LIBRARIES]
    libraries = libraries or [name for name in LIBRARIES if name == "cupy" or find_spec(name)]
    counts: Counter[str] = Counter()
    signal.signal(signal.SIGPROF, _ring)
    for seed in range(first, stop):
        kind = kinds[seed % len(kinds)]
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        try:
            counts["calls"] += check(kind, seed, libraries)
        except (UnsupportedError, IndexExpressionError, TimeoutError) as error:
            counts["left out"] += 1
            print(f"{kind} {seed} is left out: {type(error).__name__}: {str(error)[:200]}", flush=True)
        except Exception as error:
            counts["wrong"] += 1
            print(f"{kind} {seed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        else:
            counts["functions"] += 1
        signal.setitimer(signal.ITIMER_PROF, 0)
        if seed % 64 == 63:
            print(seed, dict(counts), flush=True)
    print(dict(counts))
    return counts["wrong"]


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:3]), *sys.argv[3:]) else 0)
