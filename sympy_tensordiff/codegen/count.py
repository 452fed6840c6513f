"""How often the innermost bodies of a program run, counted without computing any value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sympy_tensordiff.codegen.loops import If, Kernel, Loop, Program, Scatter, Statement, Step
from sympy_tensordiff.codegen.steps import multiplications
from sympy_tensordiff.codegen.walk import array_shapes


@dataclass(frozen=True, slots=True)
class KernelCount:
    """The work of one kernel: executions of innermost loop bodies (guards passed), and entries written.

    Of a library call the iterations are the multiplications that it makes, about.
    """

    array: str
    iterations: int
    stores: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The work of a program, kernel by kernel and in total."""

    kernels: tuple[KernelCount, ...]

    @property
    def iterations(self) -> int:
        return sum(kernel.iterations for kernel in self.kernels)

    @property
    def stores(self) -> int:
        return sum(kernel.stores for kernel in self.kernels)


def count(program: Program, sizes: Mapping[str, int]) -> Counts:
    """The innermost iterations and stores of ``program`` for numeric ``sizes`` (integer arguments among them).

    An iteration is one execution of a loop body that holds no other loop. One that a guard inside
    the body keeps from doing anything counts all the same: it has been run through. A kernel
    without any loop has no iterations, only stores.
    """
    values = dict(sizes)
    for size in program.sizes:
        candidates = [form.evaluate(values) for form in size.lows or size.highs]
        values[size.name] = max(candidates) if size.lows else min(candidates)
    shapes = {name: [f.evaluate(values) for f in shape] for name, shape in array_shapes(program).items()}
    return Counts(tuple([_count_step(step, shapes, values) for step in program.kernels]))


def _count_step(step: Step, shapes: dict[str, list[int]], values: dict[str, int]) -> KernelCount:
    shape = shapes[step.array]
    if isinstance(step, Scatter):
        shape = [extent.evaluate(values) for extent in step.extents]
    stores = 1
    for extent in shape:
        stores *= max(extent, 0)
    iterations = _count_axes(step, shape, 0, values) if isinstance(step, Kernel) else multiplications(step, shapes)
    return KernelCount(step.array, iterations, stores)


def _count_axes(kernel: Kernel, shape: list[int], axis: int, values: dict[str, int]) -> int:
    if axis == len(shape):
        return _count_block(kernel.body, values)
    total = 0
    for value in range(shape[axis]):
        values[kernel.axes[axis]] = value
        total += _count_axes(kernel, shape, axis + 1, values)
    return total


def _count_block(body: tuple[Statement, ...], values: dict[str, int]) -> int:
    total = 0
    for statement in body:
        if isinstance(statement, Loop):
            total += _count_loop(statement, values)
        elif isinstance(statement, If) and all(row.holds(values) for row in statement.conditions):
            total += _count_block(statement.body, values)
    return total


def _count_loop(loop: Loop, values: dict[str, int]) -> int:
    low = max(-(-bound.form.evaluate(values) // bound.divisor) for bound in loop.lows)
    high = min(bound.form.evaluate(values) // bound.divisor for bound in loop.highs)
    if not _holds_loop(loop.body):
        return max(high - low + 1, 0)
    total = 0
    for value in range(low, high + 1):
        values[loop.variable] = value
        total += _count_block(loop.body, values)
    return total


def _holds_loop(body: tuple[Statement, ...]) -> bool:
    return any(isinstance(s, Loop) or (isinstance(s, If) and _holds_loop(s.body)) for s in body)
