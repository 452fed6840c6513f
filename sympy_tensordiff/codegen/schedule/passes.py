"""The passes of each backend over a program before it is printed, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from sympy_tensordiff.codegen.ir.programs import Program, Recurrence
from sympy_tensordiff.codegen.ir.steps import is_compiled_step, lower_vector_products, uncompiled_arrays
from sympy_tensordiff.codegen.schedule.correlations import with_correlations
from sympy_tensordiff.codegen.schedule.device_loops import with_numbers_in_memory
from sympy_tensordiff.codegen.schedule.diagonals import with_stored_sums
from sympy_tensordiff.codegen.schedule.joined_scatters import with_joined_scatters
from sympy_tensordiff.codegen.schedule.layout import in_reading_order
from sympy_tensordiff.codegen.schedule.split import split_deep, split_large

Pass: TypeAlias = Callable[[Program], Program]


def with_undivided_extrema(program: Program) -> Program:
    """Return `program` without the scheduling rule that computes a maximum or minimum in several accumulators: LLVM
    vectorises such a loop itself.
    """
    return replace(program, rules_off=program.rules_off | {"rfactor"})


# To NumPy and CUDA, the order of axes in memory matters little.
_COMPILED: tuple[Pass, ...] = (
    with_correlations,
    with_stored_sums,
    split_deep,
    split_large,
    in_reading_order,
)

PASSES: Mapping[str, tuple[Pass, ...]] = {
    "numpy": (with_joined_scatters, split_deep, split_large),
    **dict.fromkeys(("cupy", "jax", "torch"), (with_joined_scatters, split_deep)),
    "cuda": (split_deep, split_large),
    "numba": _COMPILED,
    "llvm": (*_COMPILED, with_undivided_extrema),
    "c": (lower_vector_products, with_correlations, split_deep, split_large, in_reading_order),
}

SPLITS = frozenset({split_deep, split_large})
"""Passes for the sake of compilers, which a plan does not show."""


def prepared(program: Program, backend: str, splits: bool = True) -> Program:
    """Return `program` after all scheduling passes for `backend`. With ``splits=False``, expressions and kernels that
    are too large for compilers are not split.
    """
    for one in PASSES[backend]:
        program = one(program) if splits or one not in SPLITS else program
    if backend == "cuda":
        steps = [with_numbers_in_memory(step) if isinstance(step, Recurrence) else step for step in program.kernels]
        program = replace(program, kernels=tuple(steps))
    if any(isinstance(step, Recurrence) for step in program.kernels):
        steps = [
            replace(step, body=prepared(step.body, _backend_of(step, backend), splits))
            if isinstance(step, Recurrence)
            else step
            for step in program.kernels
        ]
        program = replace(program, kernels=tuple(steps))
    return program


def _backend_of(step: Recurrence, backend: str) -> str:
    """Return the backend for the time steps of a recurrence: `backend` if it can compile them, else NumPy."""
    if backend == "numba":
        return "numpy" if uncompiled_arrays(step.body) else backend
    return "numpy" if backend == "llvm" and not is_compiled_step(step) else backend
