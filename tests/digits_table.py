"""A table of the digits that kernels of every backend keep: ``python tests/digits_table.py --points 200``.

For each set of formulas, in each backend, it shows the largest error in units of the last place, and the formula with
this error. The sets are those of `test_cancellation` and `test_accurate_formulas`: naive formulas at hostile points,
the expressions of Hamming's chapter 3, formulas of tensors, functions that arrays store, and the laws at random points.
Values and gradients come from one kernel, and from one for each. CUDA's kernels run in Numba's simulator, at every
eighth point.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import mpmath
import numpy as np
import sympy

import sympy_tensordiff as td

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "codegen")]

BACKENDS = ("numpy", "numba", "llvm", "c", "jax", "cuda")
SLOW = 8
"""The simulator and gcc run every eighth of the laws' points, and every second formula of tensors."""


class Case(NamedTuple):
    """A formula: its set and name, the arguments, the results, arrays for the arguments, and the exact results."""

    group: str
    name: str
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    arrays: tuple[np.ndarray, ...]
    exact: tuple[list[Any], ...]
    by_entry: bool
    """Whether errors are relative to each entry, or to the largest of a result."""


def points_of_formulas() -> Iterator[Case]:
    """Yield the naive formulas and Hamming's expressions, at their points."""
    import test_cancellation as own

    for group, table in (("hostile points", own.HOSTILE), ("Hamming", own.HAMMING)):
        for formula, points in table:
            at = [point if isinstance(point, tuple) else (point, 0) for point in points]
            arrays = tuple(np.array(column, float) for column in zip(*at, strict=True))
            wanted = tuple([own.exact(form, point, 800) for point in at] for form in (formula, formula.diff(own.s)))
            results = own.table(formula), own.slopes(formula)
            yield Case(group, str(formula), (own.x, own.y), results, arrays, wanted, True)


def tensors() -> Iterator[Case]:
    """Yield the formulas of tensors, in both types."""
    import test_accurate_formulas as own

    for name, (formula, function, makers) in own.TENSORS.items():
        arguments = tuple(makers)
        for dtype in own.TYPES if name != "Bessel" else own.TYPES[:1]:
            arrays = [make(float(np.finfo(dtype).eps)).astype(dtype) for make in makers.values()]
            with mpmath.workdps(400):
                lists = [[mpmath.mpf(float(a)) for a in array] for array in arrays]
                slopes = [own.slopes(function, lists, position) for position in range(len(lists))]
                wanted = ([function(*lists)], *slopes)
            shaped = tuple(a.reshape(3, 3) if a.size == 9 else a for a in arrays)
            results = (formula, *td.gradient(formula, arguments))
            yield Case(f"tensors, {dtype.__name__}", name, arguments, results, shaped, wanted, False)


def stored() -> Iterator[Case]:
    """Yield the functions that arrays store, with their gradients and products with Hessians, in both types."""
    import test_accurate_formulas as own

    for name, (function, *exact) in own.STORED.items():
        value = function(own.x)
        results = value, td.gradient(td.sum(value), own.x), td.hvp(td.sum(value), own.x, own.y)
        for dtype in own.TYPES:
            points = own.tails(name, dtype)
            with mpmath.workdps(400):
                wanted = tuple([one(mpmath.mpf(float(at))) for at in points] for one in exact)
            arrays = points, np.ones_like(points)
            yield Case(f"stored, {dtype.__name__}", name, (own.x, own.y), results, arrays, wanted, True)


def laws(count: int) -> Iterator[Case]:
    """Yield the laws at `count` random points, in both types."""
    import test_accurate_formulas as own

    for name, (formula, draw) in own.LAWS.items():
        table = td.TensorComprehension(formula.subs(own.s, own.x[own.i]), (own.i, own.n))
        slopes = td.gradient(td.IndexedSum(formula.subs(own.s, own.x[own.i]), (own.i, 0, own.n - 1)), own.x)
        functions = sympy.lambdify(own.s, formula, "mpmath"), own.derivative_in_multiple_precision(name, formula)
        for dtype in own.TYPES:
            points = draw(np.random.default_rng(0), count).astype(dtype)
            with mpmath.workdps(150):
                wanted = tuple([function(mpmath.mpf(float(at))) for at in points] for function in functions)
            yield Case(f"laws, {dtype.__name__}", name, (own.x,), (table, slopes), (points,), wanted, True)


def computed(backend: str, case: Case) -> list[np.ndarray]:
    """Return the results of a case in one backend."""
    if backend == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    with np.errstate(all="ignore"):
        if backend != "c":
            found = td.lambdify(case.arguments, case.results, backend)(*case.arrays)
            return [np.asarray(one) for one in found]
        import in_c

        from sympy_tensordiff.codegen.program import build_program

        program, dtype = build_program(case.arguments, case.results), case.arrays[0].dtype
        files, refused = in_c.sources({"f": program}, dtype=dtype.name)
        if refused:
            raise NotImplementedError(refused["f"])
        with tempfile.TemporaryDirectory() as folder:
            library = in_c.build(files, Path(folder), "-O2")
            return [np.asarray(one) for one in in_c.Function(library, "f", program, dtype)(*case.arrays)]


def parts(case: Case) -> Iterator[Case]:
    """Yield the case, and one case for each of its results alone: a kernel of several results may compute one of them
    from another, which it stores.
    """
    yield case
    for result, exact in zip(case.results, case.exact, strict=True) if len(case.results) > 1 else ():
        yield case._replace(results=(result,), exact=(exact,))


def error_of(case: Case, found: Sequence[np.ndarray]) -> float:
    """Return the largest error of the results of a case, in units of the last place."""
    dtype = case.arrays[0].dtype
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    worst = 0.0
    for values, wanted in zip(found, case.exact, strict=True):
        largest = max(abs(one) for one in wanted)
        for value, one in zip(np.ravel(values).tolist(), wanted, strict=True):
            size = abs(one) if case.by_entry else largest
            if size < tiny / eps:  # digits are lost to underflow
                off = abs(value) / (tiny / eps) if np.isfinite(value) else np.inf
            else:
                off = float(abs(mpmath.mpf(value) - one) / size) / eps if np.isfinite(value) else np.inf
            worst = max(worst, off)
    return worst


def thinned(case: Case, step: int) -> Case:
    """Return a law's case with every `step`-th point."""
    arrays = tuple(array[::step] for array in case.arrays)
    return case._replace(arrays=arrays, exact=tuple(one[::step] for one in case.exact))


def as_on_device(name: str) -> None:
    """Let the function of `math` with this name return infinity or NaN, as NumPy and devices do, where it raises."""
    function = getattr(math, name)
    other = getattr(np, {"acos": "arccos", "asin": "arcsin", "atanh": "arctanh", "pow": "power"}.get(name, name))

    def compiled(*args: float) -> float:
        try:
            return float(function(*args))
        except (OverflowError, ValueError):
            with np.errstate(all="ignore"):
                return float(other(*map(np.float64, args)))

    setattr(math, name, compiled)


def errors(backend: str, cases: Sequence[Case]) -> list[tuple[str, str, float | str]]:
    """Return the set, the name and the error of each case, or why the backend refuses it."""
    found: list[tuple[str, str, float | str]] = []
    for name in ("exp", "expm1", "cosh", "sinh", "pow", "sqrt", "log", "log1p", "sin", "cos", "tan", "acos", "asin"):
        if backend == "cuda":
            as_on_device(name)
    for number, case in enumerate(cases):
        if backend == "cuda" and case.group.startswith("laws"):
            case = thinned(case, SLOW)
        if backend == "cuda" and case.group.startswith("tensors") and number % 2:
            continue
        try:
            worst = max(error_of(one, computed(backend, one)) for one in parts(case))
            found.append((case.group, case.name, worst))
        except (NotImplementedError, td.errors.TensorDiffError) as refused:
            found.append((case.group, case.name, str(refused).splitlines()[0]))
    return found


def in_simulator(cases: Sequence[Case]) -> list[tuple[str, str, float | str]]:
    """Return `errors` of CUDA's kernels, in a process with Numba's simulator."""
    os.environ |= {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(errors, "cuda", cases).result()


def main() -> int:
    """Print the table; return 1 if an error is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="+", default=BACKENDS, choices=BACKENDS)
    parser.add_argument("--points", type=int, default=24, help="of each law (default 24)")
    parser.add_argument("--limit", type=float, default=8, help="errors above are listed (default 8)")
    parser.add_argument("--only", default="", help="sets whose names contain this")
    options = parser.parse_args()
    cases = [*points_of_formulas(), *tensors(), *stored(), *laws(options.points)]
    cases = [case for case in cases if options.only in case.group]
    is_wrong = False
    for backend in options.backends:
        found = in_simulator(cases) if backend == "cuda" else errors(backend, cases)
        for group in dict.fromkeys(case.group for case in cases):
            own = [(error, name) for of, name, error in found if of == group and not isinstance(error, str)]
            refused = [name for of, name, error in found if of == group and isinstance(error, str)]
            worst = max(own, default=(0.0, ""))
            line = f"{backend:6} {group:18} {len(own):3} formulas, worst {worst[0]:8.3g} ulp: {worst[1]}"
            print(line + (f"; refused: {', '.join(refused)}" if refused else ""), flush=True)
            for error, name in sorted(own, reverse=True):
                if error > options.limit:
                    is_wrong = True
                    print(f"         above: {error:.3g} {name}")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
