"""The demonstration: the function of section 6 of the paper, its four derivatives compiled, checked and timed.

``f[i, j] = exp(-Sum_k ((a[i, k] + b[j, k])**2 * c[i, i] + d[i + k]**3))``
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TextIO, TypeAlias

import numpy as np
import numpy.typing as npt
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.app.forms import TextOutput
from sympy_tensordiff.testing.differences import Point

Array: TypeAlias = npt.NDArray[np.float64]
Sizes: TypeAlias = tuple[int, int, int]

PAPER_SIZES: Sizes = (300, 300, 64)
# Both parts of the exponent are within +-EXPONENT, so f is between exp(-2.2) and exp(2.2).
EXPONENT = 1.1
# The accuracy of a central difference for f of order 1; the error of a wrong derivative is far greater.
TOLERANCE = 1e-7


class Problem(NamedTuple):
    """The function ``f`` of the demonstration, with its four variables and the cotangent ``df``."""

    function: Any
    variables: tuple[Any, ...]
    cotangent: Any


def problem(sizes: Sizes = PAPER_SIZES) -> Problem:
    """Return the `Problem` of the demonstration: the function ``f`` with its variables and cotangent, of extents
    ``sizes = (I, J, K)``.

    >>> problem((3, 4, 5)).variables
    (a, b, c, d)
    """
    rows, columns, terms = sizes
    i, j, k = td.indices("i j k")
    a = td.TensorSymbol("a", (rows, terms))
    b = td.TensorSymbol("b", (columns, terms))
    c = td.TensorSymbol("c", (rows, rows))
    d = td.TensorSymbol("d", rows + terms - 1)
    body = (a[i, k] + b[j, k]) ** 2 * c[i, i] + d[i + k] ** 3
    total = td.IndexedSum(body, (k, 0, terms - 1))
    f = td.TensorComprehension(sympy.exp(-total), (i, rows), (j, columns))
    return Problem(f, (a, b, c, d), td.TensorSymbol("df", (rows, columns)))


def inputs(sizes: Sizes = PAPER_SIZES, seed: int = 0) -> tuple[Array, ...]:
    """Return random arrays for the variables a, b, c, d and the cotangent df of the demonstration; c and d are scaled
    so that f is between 0.1 and 10 for any sizes.

    The entries of c and d are not close to 0, where their derivatives vanish and the relative error of a difference
    quotient is meaningless.
    """
    rows, columns, terms = sizes
    rng = np.random.default_rng(seed)
    a = rng.uniform(-0.3, 0.3, (rows, terms))
    b = rng.uniform(-0.3, 0.3, (columns, terms))
    c = _away_from_zero(rng, (rows, rows))
    d = _away_from_zero(rng, (rows + terms - 1,))
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] + 2 * a @ b.T
    c *= EXPONENT / np.abs(np.diag(c)[:, None] * squares).max()
    cubes = np.convolve(d**3, np.ones(terms), mode="valid")
    d *= np.cbrt(EXPONENT / np.abs(cubes).max())
    return a, b, c, d, rng.standard_normal((rows, columns))


def _away_from_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return an array of ``shape`` with random numbers from ``rng``, of absolute value 0.5 to 1 and random sign."""
    signs = rng.choice(np.array([-1.0, 1.0]), shape)
    return np.asarray(signs * rng.uniform(0.5, 1.0, shape))


# ---------------------------------------------------------------------------- the report


def run(
    sizes: Sizes = PAPER_SIZES,
    *,
    cuda: bool = False,
    seed: int = 0,
    repeats: int = 7,
    output: TextIO | None = None,
    errors: TextIO | None = None,
) -> bool:
    """Run the demonstration, print its report on ``output`` and its progress on ``errors``, and return whether every
    check passed. Times are the best of ``repeats``; ``cuda`` adds a CUDA kernel.

    Parameters
    ----------
    sizes : (int, int, int)
        The extents I, J and K of the function.
    cuda : bool
        Whether to print a CUDA kernel, and run it if there is a device.
    seed : int
        Seed of the random inputs.
    repeats : int
        The number of timings of each kernel; the best is printed.
    output, errors : text streams, optional
        The streams of the report and of progress messages (default: standard output and standard error).
    """
    page = TextOutput(sys.stdout if output is None else output)
    progress = TextOutput(sys.stderr if errors is None else errors)
    task, arrays = problem(sizes), inputs(sizes, seed)
    page.title("The function of section 6 of Urban and van der Smagt, I = {}, J = {}, K = {}".format(*sizes))
    page.formula("f", task.function)
    begin = time.perf_counter()
    gradients = tuple(td.vjp(task.function, task.variables, task.cotangent))
    seconds = time.perf_counter() - begin
    page.title(f"One of its four derivatives, which one reverse sweep gives ({seconds * 1e3:.0f} ms)")
    page.formula("dd", gradients[-1])
    page.title("On the CPU (LLVM)")
    function, backward = compile_and_time(page, progress, task, gradients, arrays, "llvm", repeats)
    found = relative_errors(task, function, backward(*arrays), arrays, seed)
    all_passed = report_errors(page, "largest relative error, compared with central differences", task.variables, found)
    if cuda:
        page.title("The CUDA kernel of dd, as td.generate_code(..., 'cuda') prints it")
        page.write_line(str(td.generate_code((*task.variables, task.cotangent), gradients[-1], "cuda")))
        if reason := reason_without_gpu():
            page.write_line(f"On the GPU: not run, {reason}.")
        else:
            _, there = compile_and_time(page, progress, task, gradients, arrays, "cuda", repeats)
            pairs = zip(backward(*arrays), there(*arrays), strict=True)
            found = [float(np.abs(wanted - found).max() / np.abs(wanted).max()) for wanted, found in pairs]
            all_passed &= report_errors(page, "largest difference between GPU and CPU", task.variables, found)
    page.write_line("All checks passed." if all_passed else "A CHECK FAILED: see the lines marked FAIL.")
    return all_passed


def compile_and_time(
    page: TextOutput,
    progress: TextOutput,
    task: Problem,
    gradients: tuple[Any, ...],
    arrays: tuple[Array, ...],
    backend: str,
    repeats: int,
) -> list[Callable[..., Any]]:
    """Compile the function of ``task`` and its derivatives ``gradients`` for a backend, call them with ``arrays`` and
    print how long that takes. Return the compiled functions.

    The times of compiling and of a call (the best of ``repeats``) go to ``page``, and the name of what is being
    compiled to ``progress``.
    """
    built: list[Callable[..., Any]] = []
    both = {"f": (task.variables, task.function), "four derivatives": ((*task.variables, task.cotangent), gradients)}
    for name, (arguments, expression) in both.items():
        progress.write_line(f"compiling {name} by {backend}")
        begin = time.perf_counter()
        built.append(td.lambdify(arguments, expression, backend))
        times = []
        for _ in range(repeats + 1):
            built[-1](*arrays[: len(arguments)])
            times.append(time.perf_counter() - begin)
            begin = time.perf_counter()
        first, *steps = times
        note = "best, copies included" if backend == "cuda" else "best"
        page.write_line(f"{name + ':':<18}compiled in {first:5.2f} s, one step {min(steps) * 1e3:8.2f} ms ({note})")
    return built


def relative_errors(
    task: Problem, function: Callable[..., Array], derivatives: Sequence[Array], arrays: tuple[Array, ...], seed: int
) -> list[float]:
    """Return the relative error of each of ``derivatives``, the arrays of the derivatives of
    ``sum(cotangent*function)``, compared with central differences along a random direction. ``arrays`` are the inputs
    of ``function``, then the cotangent; ``task`` has the variables.
    """
    *values, cotangent = arrays
    found = []
    for position, derivative in enumerate(derivatives):
        direction = np.random.default_rng([seed, position]).standard_normal(derivative.shape)
        slope = Point(function, [*task.variables], values, task.variables[position]).slope(direction)
        found.append(float(abs(np.sum(derivative * direction) / np.sum(cotangent * slope.value) - 1)))
    return found


def report_errors(page: TextOutput, what: str, variables: Sequence[Any], found: Sequence[float]) -> bool:
    """Print on ``page`` the heading ``what`` and a line for each variable with its error in ``found``; return whether
    all errors are within the tolerance.
    """
    page.write_line(f"{what}; {TOLERANCE:.0e} is allowed:")
    for variable, error in zip(variables, found, strict=True):
        page.write_line(f"  d{variable} {error:.1e}  {'ok' if error <= TOLERANCE else 'FAIL'}")  # NaN fails
    return all(error <= TOLERANCE for error in found)


def reason_without_gpu() -> str:
    """Return why no kernel can run on a GPU, or "" if a GPU is available."""
    try:
        from numba import config, cuda
    except ImportError as error:
        return f"numba.cuda cannot be imported ({error})"
    if config.ENABLE_CUDASIM:
        return "numba's CUDA simulator is on and there is no device behind it"
    return "" if cuda.is_available() else "no CUDA device is available"
