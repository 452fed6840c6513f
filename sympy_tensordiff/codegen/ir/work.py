"""Estimates of the work of kernels for numeric sizes, in constant time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from sympy_tensordiff.codegen.ir.loops import If, Loop, Statement
from sympy_tensordiff.codegen.ir.programs import ContractionStep, Correlation, Program, Trapezoid
from sympy_tensordiff.codegen.ir.scalars import ELEMENTARY, Bound, Operation
from sympy_tensordiff.codegen.ir.sizes import solve_sizes
from sympy_tensordiff.codegen.ir.steps import extents
from sympy_tensordiff.codegen.ir.walk import array_shapes, function_name, scalars

ELEMENTARY_WORK = 20
"""The number of additions that take as long as an elementary function."""

LIBRARY_SPEED = 10
"""The number of multiplications in BLAS that take as long as one in a loop."""


class _ZeroData(int):
    """A stand-in for integer arrays in estimates: every entry is 0."""

    def __getitem__(self, place: Any) -> _ZeroData:
        return self


NOMINAL_SIZE = 64
"""The number that stands for each size whose value is unknown."""


def nominal_work(program: Program) -> int:
    """Return the approximate number of operations and reads of `program` if each size is `NOMINAL_SIZE`."""
    names = {a.name for a in program.arguments if a.kind == "integer"} | {
        s.name for s in solve_sizes(program.arguments)
    }
    values = dict.fromkeys(names, NOMINAL_SIZE)
    for size in program.sizes:
        lows, highs = ([form.evaluate(values) for form in forms] for forms in (size.lows, size.highs))
        values[size.name] = max(lows) if lows else min(highs)
    return sum(kernel_work(program, values).values())


def kernel_work(program: Program, sizes: Mapping[str, int], convolution_speed: int = LIBRARY_SPEED) -> dict[str, int]:
    """Return a dictionary from the function names of the steps of ``program`` to their approximate numbers of
    operations and reads at these ``sizes``. `LIBRARY_SPEED` multiplications of a matrix product count as one operation,
    and so do ``convolution_speed`` multiplications of a convolution.

    Loops whose ranges depend on axes or other loops count as in the middle of those; guarded statements count as if the
    guard held.
    """
    values: dict[str, Any] = {a.name: _ZeroData() for a in program.arguments if a.dtype == "integer"} | dict(sizes)
    shapes = array_shapes(program)
    found = {}
    for kernel in program.nests:
        work = 1
        for axis, extent in zip(kernel.axes, kernel.box(shapes), strict=True):
            length = max(extent.evaluate(values), 0)
            work *= length
            values[axis] = length // 2
        found[function_name(kernel)] = work * _body_work(kernel.body, values)
    for step in program.kernels:
        if isinstance(step, ContractionStep | Trapezoid | Correlation):
            lengths = (dict(step.labels) if isinstance(step, Correlation) else extents(step, shapes)).values()
            points = prod(max(extent.evaluate(values), 0) for extent in lengths)
            found[function_name(step)] = points // (
                convolution_speed if isinstance(step, Correlation) else LIBRARY_SPEED
            )
    return found


def _body_work(body: Iterable[Statement], values: dict[str, Any]) -> int:
    """Return the approximate number of operations of the statements ``body``, at least 1. ``values`` maps sizes and
    outer loop variables to their values. Each inner loop variable is added with the middle of its range as value.
    """
    total = 0
    for statement in body:
        if isinstance(statement, Loop):
            try:
                low = max(-_bound_value(bound, values, -1) for bound in statement.lows)
                high = min(_bound_value(bound, values, 1) for bound in statement.highs)
            except ZeroDivisionError:  # guarded by a condition that fails for these sizes
                continue
            values[statement.variable] = (low + high) // 2
            total += max(high - low + 1, 0) * _body_work(statement.body, values)
        elif isinstance(statement, If):
            total += _body_work(statement.body, values)
        else:
            total += sum(_operation_work(scalar) for scalar in scalars([statement]))
    return max(total, 1)


def _bound_value(bound: Bound, values: Mapping[str, Any], sign: int) -> int:
    """Return ``sign*bound`` at the ``values`` of its variables, rounded down to an integer. ``sign`` is 1 or -1; with
    -1 the result is minus the bound rounded up.
    """
    return sign * bound.form.evaluate(values) // bound.divisor


def _operation_work(scalar: Any) -> int:
    """Return the cost of one scalar operation, in units of a simple one."""
    return ELEMENTARY_WORK if isinstance(scalar, Operation) and scalar.function in ELEMENTARY else 1
