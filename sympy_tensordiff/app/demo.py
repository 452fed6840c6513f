"""The demonstration: the paper's function becomes four derivatives, a CUDA kernel and checked numbers.

Everything that the package does is called here the way a user calls it, so this is also the
shortest tour through it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import numpy as np

import sympy_tensordiff as td
from sympy_tensordiff.app.checks import (
    TOLERANCE,
    Array,
    Comparison,
    central_difference,
    directions,
    random_entries,
)
from sympy_tensordiff.app.page import Page
from sympy_tensordiff.app.progress import Progress
from sympy_tensordiff.app.section6 import PAPER_SIZES, Problem, Sizes, inputs, problem

ENTRIES = 20


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
        Where the report and the progress line go; standard output and standard error otherwise.
    """
    page = Page(sys.stdout if output is None else output)
    task = problem(sizes)
    gradients = show_formulas(page, task, sizes)
    show_kernel(page, task, gradients)
    progress = Progress(5 + len(task.variables) * (ENTRIES + 1) + ENTRIES, errors)
    arrays = inputs(sizes, seed)
    good = run_on_cpu(page, progress, task, gradients, arrays, seed, repeats)
    good &= run_on_gpu(page, progress, task, gradients, arrays, repeats)
    page.say("All checks passed." if good else "A CHECK FAILED: see the lines marked FAIL.")
    return good


def show_formulas(page: Page, task: Problem, sizes: Sizes) -> tuple[Any, ...]:
    """The function and its derivatives, which are returned."""
    rows, columns, terms = sizes
    page.title(f"The function of section 6, I = {rows}, J = {columns}, K = {terms}")
    page.formula("f", task.function)
    begin = time.perf_counter()
    gradients = tuple(td.vjp(task.function, task.variables, task.cotangent))
    seconds = time.perf_counter() - begin
    page.title(f"Its four derivatives, from one reverse sweep ({seconds * 1e3:.0f} ms)")
    for variable, gradient in zip(task.variables, gradients, strict=True):
        page.formula(f"d{variable}", gradient)
    return gradients


def show_kernel(page: Page, task: Problem, gradients: Sequence[Any]) -> None:
    """The CUDA kernel of the last derivative."""
    name = f"d{task.variables[-1]}"
    page.title(f"The CUDA kernel of {name}, as td.generate_code(..., 'cuda') prints it")
    page.say(str(td.generate_code((*task.variables, task.cotangent), gradients[-1], "cuda")))


def run_on_cpu(
    page: Page,
    progress: Progress,
    task: Problem,
    gradients: tuple[Any, ...],
    arrays: tuple[Array, ...],
    seed: int,
    repeats: int,
) -> bool:
    """Compile with Numba, check against central differences, print the times."""
    page.title("On the CPU (numba)")
    progress.step("compiling f for the CPU")
    function, first = built(task.variables, task.function, "numba", arrays[:-1])
    progress.step("compiling the derivatives for the CPU")
    backward, second = built((*task.variables, task.cotangent), gradients, "numba", arrays)
    progress.step("timing")
    times = best_time(function, arrays[:-1], repeats), best_time(backward, arrays, repeats)
    progress.clear()
    report_times(page, (first, second), times)
    values = function(*arrays[:-1])
    inside = bool(np.all((values >= 0.1) & (values <= 10)))
    page.say(f"f lies in {values.min():.3f} ... {values.max():.3f}  {verdict(inside)}")
    derivatives = backward(*arrays)
    good = inside
    for position, variable in enumerate(task.variables):
        rng = np.random.default_rng([seed, position])
        found = compare(progress, function, arrays, str(variable), position, derivatives[position], rng)
        progress.clear()
        good &= report_comparisons(page, str(variable), found)
    page.say()
    return good


def run_on_gpu(
    page: Page,
    progress: Progress,
    task: Problem,
    gradients: tuple[Any, ...],
    arrays: tuple[Array, ...],
    repeats: int,
) -> bool:
    """The same derivatives on the GPU against those of the CPU, or one line that there is none."""
    reason = no_gpu()
    if reason:
        page.say(f"On the GPU: not run, {reason}.\n")
        return True
    page.title("On the GPU (numba.cuda)")
    arguments = (*task.variables, task.cotangent)
    progress.step("compiling f for the GPU")
    function, first = built(task.variables, task.function, "cuda", arrays[:-1])
    progress.step("compiling the derivatives for the GPU")
    backward, second = built(arguments, gradients, "cuda", arrays)
    times = best_time(function, arrays[:-1], repeats), best_time(backward, arrays, repeats)
    progress.clear()
    report_times(page, (first, second), times, ", copies included")
    good = True
    on_cpu = td.lambdify(arguments, gradients, "numba")(*arrays)
    for variable, here, there in zip(task.variables, on_cpu, backward(*arrays), strict=True):
        error = float(np.abs(here - there).max() / np.abs(here).max())
        good &= error <= TOLERANCE
        page.say(f"d{variable}: largest difference from the CPU {error:.1e}  {verdict(error <= TOLERANCE)}")
    page.say()
    return good


def no_gpu() -> str:
    """Why nothing runs on a GPU here; empty where one is there."""
    try:
        from numba import config, cuda
    except ImportError as error:
        return f"numba.cuda cannot be imported ({error})"
    if config.ENABLE_CUDASIM:
        return "numba's CUDA simulator is on and there is no device behind it"
    return "" if cuda.is_available() else "no CUDA device is available"


def built(
    arguments: tuple[Any, ...], expression: Any, backend: str, arrays: tuple[Array, ...]
) -> tuple[Callable[..., Any], float]:
    """The compiled callable, and the seconds until its first result was there."""
    begin = time.perf_counter()
    function = td.lambdify(arguments, expression, backend)
    function(*arrays)
    return function, time.perf_counter() - begin


def best_time(function: Callable[..., Any], arrays: tuple[Array, ...], repeats: int) -> float:
    """The shortest of ``repeats`` runs, in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function(*arrays)
        times.append(time.perf_counter() - begin)
    return min(times)


def compare(
    progress: Progress,
    function: Callable[..., Array],
    arrays: tuple[Array, ...],
    name: str,
    position: int,
    derivative: Array,
    rng: np.random.Generator,
) -> list[Comparison]:
    """The derivative by one variable against differences: one direction, `ENTRIES` entries.

    Of a square variable as many diagonal entries are taken besides: c is read on its diagonal
    only, and elsewhere formula and difference must both be exactly 0.
    """
    *variables, cotangent = arrays
    shape = variables[position].shape
    entries = random_entries(shape, ENTRIES, rng)
    if len(shape) == 2 and name == "c":
        entries += [(m, m) for (m,) in random_entries(shape[:1], ENTRIES, rng)]
    result = []
    for what, direction in directions(name, shape, entries, rng):
        progress.step(f"checking d{name}")
        difference = central_difference(function, variables, position, direction, cotangent)
        result.append(Comparison(what, float(np.sum(derivative * direction)), difference))
    return result


def report_times(page: Page, compiling: tuple[float, float], running: tuple[float, float], note: str = "") -> None:
    """Two lines: compile time and best time per step, of f and of all derivatives."""
    for what, first, step in zip(("f", "four derivatives"), compiling, running, strict=True):
        page.say(f"{what + ':':<18}compiled in {first:5.2f} s, one step {step * 1e3:8.2f} ms (best{note})")


def report_comparisons(page: Page, name: str, found: list[Comparison]) -> bool:
    """One line for the variable, one more for each comparison that failed."""
    along, *entries = found
    worst = max(entries, key=lambda comparison: comparison.relative_error)
    zeros = sum(e.formula == e.difference == 0 for e in entries)
    note = f" ({zeros} of them exactly 0)" if zeros else ""
    good = all(comparison.good for comparison in found)
    page.say(
        f"d{name}: relative error {along.relative_error:.1e} along a random direction, at most "
        f"{worst.relative_error:.1e} in {len(entries)} entries{note}, {TOLERANCE:.0e} allowed  {verdict(good)}"
    )
    for comparison in found:
        if not comparison.good:
            page.say(f"  {comparison.what}: formula {comparison.formula!r}, difference {comparison.difference!r}  FAIL")
    return good


def verdict(good: bool) -> str:
    """``ok`` or ``FAIL``."""
    return "ok" if good else "FAIL"
