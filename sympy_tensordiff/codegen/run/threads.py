"""Kernels on several cores: which ones, and when Numba's threads may be used.

A kernel runs its first axis in blocks, and no sum is divided: results do not depend on the number
of threads. (From those of the serial kernel they may differ in their last bits, since a compiler
orders the vectors of additions in a loop as it likes.) Numba's pool of threads may not survive a
fork, and some of its pools take one caller at a time; so calls wait for each other, and a process
that was forked after the pool had begun runs the serial code.

BLAS has threads of its own. Two pools take each other's cores: a thread that has nothing to do spins for some
milliseconds before it sleeps. So products of matrices run on Numba's threads, too, a panel on each, and BLAS
is told to use one thread meanwhile, where the whole program is one compiled function with such products.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from math import prod
from typing import Any

from sympy_tensordiff.codegen.emit.matrix_products import needs_no_copies
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import If, Loop, Statement
from sympy_tensordiff.codegen.ir.programs import Contraction, Correlation, Program, Trapezoid, kernels_of
from sympy_tensordiff.codegen.ir.scalars import ELEMENTARY, Bound, Operation
from sympy_tensordiff.codegen.ir.steps import extents, is_compiled_whole
from sympy_tensordiff.codegen.ir.walk import array_shapes, function_name, scalars
from sympy_tensordiff.codegen.schedule.fusion import runs_in_blocks

PARALLEL_WORK = 10_000_000
"""A kernel of about so many operations, 0.1 to 2.5 ms, is worth other cores, and compiling for them.

Measured on two idle cores of an AMD EPYC, in ms on one and on two, for kernels of about so many operations; for 10**7
also after a pause of 3 ms, in which the threads fall asleep:

====================  ============  ============  ============  =============
kernel                10**6         3 * 10**6     10**7         after a pause
====================  ============  ============  ============  =============
2*x + y*x             0.061, 0.069  0.190, 0.114  1.825, 0.849  1.772, 1.219
sin(x)                0.098, 0.092  0.277, 0.184  0.892, 0.567  0.991, 0.782
sums of squares       0.019, 0.022  0.040, 0.029  0.124, 0.072  0.238, 0.212
====================  ============  ============  ============  =============

On a busy machine the thread that gets no core is waited for: 24 ms in half of the calls, of whatever size, 72 at most.
"""

FURTHER_WORK = PARALLEL_WORK // 4
"""Beside such a kernel, so many are."""

_lock = threading.Lock()
_owner: int | None = None


def blockable(program: Program) -> frozenset[str]:
    """The functions of the steps that can run in blocks, of a program whose kernels run together where they can."""
    prover, is_whole = Prover(program), is_compiled_whole(program)
    steps = [step for step in program.kernels if is_whole or not isinstance(step, Contraction)]
    return frozenset(function_name(step) for step in steps if runs_in_blocks(step, prover))


def large_steps(program: Program, sizes: Mapping[str, int]) -> frozenset[str]:
    """The functions of the steps that are worth several cores, if there are any.

    None where these are products of matrices only, as they lie: BLAS runs them on all cores as well as it can.
    """
    work = kernel_work(program, sizes)
    works = {
        step: sum(work.get(function_name(one), 0) for one in kernels_of(step) or [step]) for step in program.kernels
    }
    large = [step for step, found in works.items() if found >= PARALLEL_WORK]
    if all(isinstance(step, Contraction) and needs_no_copies(step) for step in large):
        return frozenset()
    if importlib.import_module("numba").config.NUMBA_NUM_THREADS < 2:
        return frozenset()
    return frozenset(function_name(step) for step, found in works.items() if found >= FURTHER_WORK)


def has_compiled_products(program: Program) -> bool:
    """Whether compiled code calls BLAS."""
    compiled = Contraction | Trapezoid if is_compiled_whole(program) else Trapezoid
    return any(isinstance(step, compiled) for step in program.kernels)


def guarded(
    run: Callable[..., None], serial: Callable[[], Callable[..., None]], has_products: bool = True
) -> Callable[..., None]:
    """``run``, one caller at a time, or what ``serial`` gives where the threads belong to another process.

    ``has_products``: whether products of matrices are compiled, too, for Numba's threads. Where Python calls a library
    between kernels, that keeps its threads; where nothing calls BLAS, there is no need to load it.
    """

    def call(*values: Any) -> None:
        start_pool()
        if _owner != os.getpid():
            serial()(*values)
            return
        with _lock, _blas().limit(limits=1, user_api="blas") if has_products else nullcontext():
            run(*values)

    return call


def start_pool() -> None:
    """Start Numba's threads, which code from disk expects to be there; they belong to this process."""
    global _owner
    if _owner is None:
        _owner = os.getpid()
        importlib.import_module("numba").get_num_threads()


@functools.cache
def _blas() -> Any:
    """The controller of the libraries of BLAS."""
    importlib.import_module("scipy.linalg.cython_blas")  # what compiled code calls
    return importlib.import_module("threadpoolctl").ThreadpoolController()


# ---------------------------------------------------------------------------- work of a kernel
# About how much each kernel computes, for numeric sizes: in no time, however large they are.


ELEMENTARY_WORK = 20
"""An elementary function takes about as long as so many additions."""

LIBRARY_SPEED = 10
"""As many multiplications of a library for matrices take as long as one in a loop."""


class _Unknown(int):
    """Stands for data in bounds: 0, and so are all its entries."""

    def __getitem__(self, place: Any) -> _Unknown:
        return self


def kernel_work(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """About how many operations and reads each kernel makes, by the name of its function.

    Loops whose ranges depend on axes and other loops count as in the middle of those; what stands behind
    a condition counts as if that held.
    """
    values: dict[str, Any] = {a.name: _Unknown() for a in program.arguments if a.dtype == "integer"} | dict(sizes)
    shapes = array_shapes(program)
    found = {}
    for kernel in program.nests:
        work = 1
        for axis, extent in zip(kernel.axes, kernel.box(shapes), strict=True):
            length = max(extent.evaluate(values), 0)
            work *= length
            values[axis] = length // 2
        found[function_name(kernel)] = work * _block(kernel.body, values)
    for step in program.kernels:
        if isinstance(step, Contraction | Trapezoid | Correlation):
            lengths = (dict(step.labels) if isinstance(step, Correlation) else extents(step, shapes)).values()
            points = prod(max(extent.evaluate(values), 0) for extent in lengths)
            found[function_name(step)] = points // LIBRARY_SPEED
    return found


def _block(body: Iterable[Statement], values: dict[str, Any]) -> int:
    total = 0
    for statement in body:
        if isinstance(statement, Loop):
            try:
                low = max(-_floor(bound, values, -1) for bound in statement.lows)
                high = min(_floor(bound, values, 1) for bound in statement.highs)
            except ZeroDivisionError:  # it stands behind a condition that does not hold for these sizes
                continue
            values[statement.variable] = (low + high) // 2
            total += max(high - low + 1, 0) * _block(statement.body, values)
        elif isinstance(statement, If):
            total += _block(statement.body, values)
        else:
            total += sum(_weight(scalar) for scalar in scalars([statement]))
    return max(total, 1)


def _floor(bound: Bound, values: Mapping[str, Any], sign: int) -> int:
    return sign * bound.form.evaluate(values) // bound.divisor


def _weight(scalar: Any) -> int:
    return ELEMENTARY_WORK if isinstance(scalar, Operation) and scalar.function in ELEMENTARY else 1
