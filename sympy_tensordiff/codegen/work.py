"""About how much each kernel computes, for numeric sizes: in no time, however large they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from sympy_tensordiff.codegen.loops import Bound, Contraction, Correlation, If, Loop, Program, Statement
from sympy_tensordiff.codegen.scalars import ELEMENTARY, Operation
from sympy_tensordiff.codegen.steps import multiplications
from sympy_tensordiff.codegen.walk import array_shapes, function_name, scalars

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
    lengths = {name: [max(extent.evaluate(values), 0) for extent in shape] for name, shape in shapes.items()}
    for step in program.kernels:
        if isinstance(step, Contraction):
            found[function_name(step)] = multiplications(step, lengths) // LIBRARY_SPEED
        elif isinstance(step, Correlation):
            points = prod(max(extent.evaluate(values), 0) for _, extent in step.labels)
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
