"""The demonstration: the paper's function of section 6 becomes four derivatives, a CUDA kernel and checked numbers.

``f[i, j] = exp(-Sum_k ((a[i, k] + b[j, k])**2 * c[i, i] + d[i + k]**3))``

Everything that the package does is called here the way a user calls it, so this is also the
shortest tour through it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO, TypeAlias

import numpy as np
import numpy.typing as npt
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.app.page import Page

Array: TypeAlias = npt.NDArray[np.float64]
Sizes: TypeAlias = tuple[int, int, int]

PAPER_SIZES: Sizes = (300, 300, 64)
ENTRIES = 20
"""So many entries of each derivative are checked."""
# Both parts of the exponent stay within +-EXPONENT, so f lies in exp(-2.2) ... exp(2.2).
EXPONENT = 1.1
# The step balances truncation (step**2) against rounding (1e-16 / step) in double precision.
STEP = 1e-5
# What a central difference with this step can promise for f of order 1; a wrong derivative is
# off by far more.
TOLERANCE = 1e-7


class Problem(NamedTuple):
    """The function ``f``, its four variables and the cotangent ``df``."""

    function: Any
    variables: tuple[Any, ...]
    cotangent: Any


def problem(sizes: Sizes = PAPER_SIZES) -> Problem:
    """The function with extents ``sizes = (I, J, K)``.

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
    """Random ``a, b, c, d, df``, scaled so that f lies within 0.1 ... 10 at any size.

    The entries of c and d keep away from 0, where their derivatives vanish and a relative error
    of a difference quotient says nothing.
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
    signs = rng.choice(np.array([-1.0, 1.0]), shape)
    return np.asarray(signs * rng.uniform(0.5, 1.0, shape))


# ---------------------------------------------------------------------------- the report


def run(
    sizes: Sizes = PAPER_SIZES,
    *,
    seed: int = 0,
    repeats: int = 7,
    output: TextIO | None = None,
    errors: TextIO | None = None,
) -> bool:
    """Run the demonstration and return whether every check held.

    Parameters
    ----------
    sizes : (int, int, int)
        The extents I, J and K of the function.
    seed : int
        Seed of the random inputs and of the entries checked.
    repeats : int
        How often each kernel is timed; the best is printed.
    output, errors : text streams, optional
        Where the report and what is under way go; standard output and standard error otherwise.
    """
    page, progress = Page(sys.stdout if output is None else output), Page(sys.stderr if errors is None else errors)
    task = problem(sizes)
    gradients = show_formulas(page, task, sizes)
    name = f"d{task.variables[-1]}"
    page.title(f"The CUDA kernel of {name}, as td.generate_code(..., 'cuda') prints it")
    page.say(str(td.generate_code((*task.variables, task.cotangent), gradients[-1], "cuda")))
    arrays = inputs(sizes, seed)
    page.title("On the CPU (numba)")
    function, backward = compiled(page, progress, task, gradients, arrays, "numba", repeats)
    good = check(page, progress, task, function, backward, arrays, seed)
    reason = no_gpu()
    if reason:
        page.say(f"On the GPU: not run, {reason}.\n")
    else:
        page.title("On the GPU (numba.cuda)")
        _, there = compiled(page, progress, task, gradients, arrays, "cuda", repeats)
        good &= compare(page, task, backward(*arrays), there(*arrays))
    page.say("All checks passed." if good else "A CHECK FAILED: see the lines marked FAIL.")
    return good


def show_formulas(page: Page, task: Problem, sizes: Sizes) -> tuple[Any, ...]:
    """The function and its derivatives, which are returned."""
    page.title("The function of section 6, I = {}, J = {}, K = {}".format(*sizes))
    page.formula("f", task.function)
    begin = time.perf_counter()
    gradients = tuple(td.vjp(task.function, task.variables, task.cotangent))
    seconds = time.perf_counter() - begin
    page.title(f"Its four derivatives, from one reverse sweep ({seconds * 1e3:.0f} ms)")
    for variable, gradient in zip(task.variables, gradients, strict=True):
        page.formula(f"d{variable}", gradient)
    return gradients


def compiled(
    page: Page,
    progress: Page,
    task: Problem,
    gradients: tuple[Any, ...],
    arrays: tuple[Array, ...],
    backend: str,
    repeats: int,
) -> list[Callable[..., Any]]:
    """The function and all derivatives on a backend, each with a line of its times."""
    built: list[Callable[..., Any]] = []
    both = {"f": (task.variables, task.function), "four derivatives": ((*task.variables, task.cotangent), gradients)}
    for name, (arguments, expression) in both.items():
        progress.say(f"compiling {name} by {backend}")
        begin = time.perf_counter()
        built.append(td.lambdify(arguments, expression, backend))
        times = []
        for _ in range(repeats + 1):
            built[-1](*arrays[: len(arguments)])
            times.append(time.perf_counter() - begin)
            begin = time.perf_counter()
        first, *steps = times
        note = "best, copies included" if backend == "cuda" else "best"
        page.say(f"{name + ':':<18}compiled in {first:5.2f} s, one step {min(steps) * 1e3:8.2f} ms ({note})")
    return built


def check(
    page: Page,
    progress: Page,
    task: Problem,
    function: Callable[..., Array],
    backward: Callable[..., Any],
    arrays: tuple[Array, ...],
    seed: int,
) -> bool:
    """Whether f is in its range and all derivatives agree with central differences; a line of each."""
    values = function(*arrays[:-1])
    good = bool(np.all((values >= 0.1) & (values <= 10)))
    page.say(f"f lies in {values.min():.3f} ... {values.max():.3f}  {verdict(good)}")
    for position, (variable, derivative) in enumerate(zip(task.variables, backward(*arrays), strict=True)):
        progress.say(f"checking d{variable}")
        found = relative_errors(function, arrays, position, derivative, np.random.default_rng([seed, position]))
        where = max(found, key=lambda name: found[name])
        passed = found[where] <= TOLERANCE
        good &= passed
        page.say(
            f"d{variable}: largest relative error {found[where]:.1e}, {where}, of {len(found)} differences; "
            f"{TOLERANCE:.0e} allowed  {verdict(passed)}"
        )
    page.say()
    return good


def relative_errors(
    function: Callable[..., Array],
    arrays: tuple[Array, ...],
    position: int,
    derivative: Array,
    rng: np.random.Generator,
) -> dict[str, float]:
    """The derivative by one variable against central differences: along one direction, and of `ENTRIES` entries.

    Of a square variable as many diagonal entries are taken besides: c is read on its diagonal
    only, and elsewhere formula and difference must both be exactly 0.
    """
    *variables, cotangent = arrays
    shape = variables[position].shape
    entries = [tuple(map(int, rng.integers(shape))) for _ in range(ENTRIES)]
    if shape == shape[:1] * 2:
        entries += [(int(m),) * 2 for m in rng.integers(shape[0], size=ENTRIES)]
    directions = {"along a random direction": rng.standard_normal(shape)}
    for entry in entries:
        unit = np.zeros(shape)
        unit[entry] = 1.0
        directions[f"of entry {entry}"] = unit
    result = {}
    for name, direction in directions.items():
        difference = central_difference(function, variables, position, direction, cotangent)
        result[name] = relative_error(float(np.sum(derivative * direction)), difference)
    return result


def central_difference(
    function: Callable[..., Array], arguments: list[Array], position: int, direction: Array, cotangent: Array
) -> float:
    """The derivative of ``sum(cotangent * function(*arguments))`` along ``direction`` of one argument."""
    ahead, behind = list(arguments), list(arguments)
    ahead[position] = arguments[position] + STEP * direction
    behind[position] = arguments[position] - STEP * direction
    # The difference is taken before the sum: entries that do not move cancel without a rounding error.
    return float(np.sum(cotangent * (function(*ahead) - function(*behind))) / (2 * STEP))


def relative_error(formula: float, difference: float) -> float:
    """``|formula - difference| / max(|formula|, |difference|)``, 0 where both are exactly 0, infinity for NaN."""
    scale = max(abs(formula), abs(difference))
    error = abs(formula - difference) / scale if scale else 0.0
    return float("inf") if np.isnan(formula + difference) else error


def no_gpu() -> str:
    """Why nothing runs on a GPU here; empty where one is there."""
    try:
        from numba import config, cuda
    except ImportError as error:
        return f"numba.cuda cannot be imported ({error})"
    if config.ENABLE_CUDASIM:
        return "numba's CUDA simulator is on and there is no device behind it"
    return "" if cuda.is_available() else "no CUDA device is available"


def compare(page: Page, task: Problem, here: tuple[Array, ...], there: tuple[Array, ...]) -> bool:
    """Whether the derivatives on the GPU are those on the CPU; a line of each."""
    good = True
    for variable, wanted, found in zip(task.variables, here, there, strict=True):
        error = float(np.abs(wanted - found).max() / np.abs(wanted).max())
        good &= error <= TOLERANCE
        page.say(f"d{variable}: largest difference from the CPU {error:.1e}  {verdict(error <= TOLERANCE)}")
    page.say()
    return good


def verdict(good: bool) -> str:
    """``ok`` or ``FAIL``."""
    return "ok" if good else "FAIL"
