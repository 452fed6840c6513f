"""Kernels on several cores: which kernels are worth it, and safe use of Numba's thread pool.

A kernel runs blocks of its first axis in parallel, and no sum is divided: results do not depend on the number of
threads. (They may differ from those of the serial kernel in the last bits, since compilers reorder vectorised sums.)
Numba's thread pool may not survive a fork, and some of its pools allow one caller at a time; so calls wait for each
other, and a process that was forked after the pool was started runs the serial code.

BLAS has threads of its own. Two pools compete for cores: an idle thread spins for some milliseconds before it sleeps.
So matrix products run on Numba's threads, too, a panel on each, and BLAS is limited to one thread meanwhile, if the
whole program is one compiled function with such products.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from sympy_tensordiff.codegen.emit.matrix_products import needs_no_copies
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import ContractionStep, Program, Trapezoid, kernels_of
from sympy_tensordiff.codegen.ir.steps import is_compiled_whole
from sympy_tensordiff.codegen.ir.walk import function_name
from sympy_tensordiff.codegen.ir.work import kernel_work
from sympy_tensordiff.codegen.schedule.fusion import runs_in_blocks

PARALLEL_WORK = 10_000_000
"""The number of operations from which a kernel, of 0.1 to 2.5 ms, runs on several cores.

Measured on two idle cores of an AMD EPYC, in ms on one and on two, by number of operations; for 10**7 also after a
pause of 3 ms, in which the threads fall asleep:

====================  ============  ============  ============  =============
kernel                10**6         3 * 10**6     10**7         after a pause
====================  ============  ============  ============  =============
2*x + y*x             0.061, 0.069  0.190, 0.114  1.825, 0.849  1.772, 1.219
sin(x)                0.098, 0.092  0.277, 0.184  0.892, 0.567  0.991, 0.782
sums of squares       0.019, 0.022  0.040, 0.029  0.124, 0.072  0.238, 0.212
====================  ============  ============  ============  =============

A multiplication of a convolution counts as one operation: 3.5 * 10**7 take 5.4 ms on one core, 2.9 on two. Those of a
matrix product count less: BLAS has threads of its own, and ``mttkrp`` took 5.6 ms for 4.0 with them limited to one.

On a busy machine, calls wait for the thread that gets no core: 24 ms in half of the calls of any size, 72 at most.
"""

ADDITIONAL_PARALLEL_WORK = PARALLEL_WORK // 4
"""The number of operations from which further kernels run on several cores, if one has `PARALLEL_WORK`."""

_lock = threading.Lock()
_owner: int | None = None


def blockable(program: Program) -> frozenset[str]:
    """Return the names of those functions of ``program`` that can compute a block of rows of their result, so that
    several cores can share the work. The kernels of ``program`` must be fused already.
    """
    prover, is_whole = Prover(program), is_compiled_whole(program)
    steps = [step for step in program.kernels if is_whole or not isinstance(step, ContractionStep)]
    return frozenset(function_name(step) for step in steps if runs_in_blocks(step, prover))


def large_steps(program: Program, sizes: Mapping[str, int]) -> frozenset[str]:
    """Return the names of the functions of ``program`` that should run on several cores, because they have enough work
    at these sizes. Empty if there is one core only, or if all large functions are matrix products, which BLAS runs on
    all cores itself.

    Also empty if these are only matrix products without copies: BLAS uses all cores for them itself.
    """
    work = kernel_work(program, sizes, convolution_speed=1)
    works = {
        step: sum(work.get(function_name(one), 0) for one in kernels_of(step) or [step]) for step in program.kernels
    }
    large = [step for step, found in works.items() if found >= PARALLEL_WORK]
    if all(isinstance(step, ContractionStep) and needs_no_copies(step) for step in large):
        return frozenset()
    if thread_count() < 2:
        return frozenset()
    return frozenset(function_name(step) for step, found in works.items() if found >= ADDITIONAL_PARALLEL_WORK)


def thread_count() -> int:
    """Return the number of threads that Numba uses. On one core it is 1; then Numba, which takes 0.3 s to import, is
    not imported.
    """
    given = os.environ.get("NUMBA_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if "numba" not in sys.modules and (given or str(cores)) == "1":
        return 1
    count: int = importlib.import_module("numba").config.NUMBA_NUM_THREADS
    return count


def has_compiled_products(program: Program) -> bool:
    """Return whether the compiled code of a program calls BLAS."""
    compiled = ContractionStep | Trapezoid if is_compiled_whole(program) else Trapezoid
    return any(isinstance(step, compiled) for step in program.kernels)


def with_threads(
    run: Callable[..., None], serial: Callable[[], Callable[..., None]], has_products: bool = True
) -> Callable[..., None]:
    """Return a function that calls ``run`` under a lock, since only one call at a time may use the pool of threads. In
    a forked process, which has no pool, it calls the function that ``serial()`` returns instead. ``has_products`` says
    whether ``run`` calls BLAS.

    BLAS is limited to one thread. A library that Python calls between kernels keeps its threads; without any call of
    BLAS, it is not loaded.
    """

    def call_locked(*values: Any) -> None:
        """Call ``run``, the compiled function, with the arguments ``values``, and let no other thread call it
        meanwhile. A forked process has no thread pool; there, call the serial version instead.
        """
        start_pool()
        if _owner != os.getpid():
            serial()(*values)
            return
        with _lock, _blas().limit(limits=1, user_api="blas") if has_products else nullcontext():
            run(*values)

    return call_locked


def start_pool() -> None:
    """Start Numba's thread pool, which compiled code loaded from disk needs, unless this was done before. Record the id
    of this process, since a process forked from it has no such threads.
    """
    global _owner
    if _owner is None:
        _owner = os.getpid()
        importlib.import_module("numba").get_num_threads()


@functools.cache
def _blas() -> Any:
    """Return the object that sets the number of BLAS threads (threadpoolctl)."""
    importlib.import_module("scipy.linalg.cython_blas")  # what compiled code calls
    return importlib.import_module("threadpoolctl").ThreadpoolController()
