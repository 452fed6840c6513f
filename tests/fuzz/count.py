"""Count the executions of the innermost bodies of a program without computing any value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from sympy_tensordiff.codegen.ir.loops import If, Loop, Statement
from sympy_tensordiff.codegen.ir.programs import (
    Apply,
    CofactorTangent,
    ContractionStep,
    Kernel,
    Program,
    Scatter,
    Solve,
    Step,
)
from sympy_tensordiff.codegen.ir.walk import array_shapes, bounds, statements
from sympy_tensordiff.integer.affine import Affine


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
    iterations = _count_kernel(step, shape, values) if isinstance(step, Kernel) else _multiplications(step, shapes)
    return KernelCount(step.array, iterations, stores)


def _multiplications(step: Step, shapes: Mapping[str, Sequence[int]]) -> int:
    """About how many multiplications a library call makes, for arrays of these shapes."""
    if isinstance(step, CofactorTangent):
        return int(5 * shapes[step.left.array][0] ** 3)
    if isinstance(step, ContractionStep | Solve):
        lengths: dict[int, int] = {}
        for op in step.operands[::-1]:  # the axes of factors are longer than those of their matrix
            for label, length in zip(op.labels, shapes[op.array], strict=True):
                lengths.setdefault(label, length)
        total = prod(lengths.values())
        if not isinstance(step, Solve) or step.factored:
            return total
        return total + prod(lengths[label] for label in step.left.labels) * lengths[step.left.labels[-1]] // 3
    assert isinstance(step, Apply)
    if step.function == "factors":
        return int(prod(shapes[step.operand]) * shapes[step.operand][-1] // 3)
    return int(
        prod(shapes[step.operand][:-2])
        * shapes[step.operand][-1] ** (3 if step.function != "cofactor" else 2 * step.options[0] + 1)
    )


def _count_kernel(kernel: Kernel, shape: list[int], values: dict[str, int]) -> int:
    steering = {
        variable
        for statement in statements(kernel.body)
        for form in _forms_that_steer(statement)
        for variable in form.atoms()
    }

    def of_axis(axis: int) -> int:
        if axis == len(shape):
            return _count_block(kernel.body, values, steering)
        return _summed(kernel.axes[axis], range(shape[axis]), lambda: of_axis(axis + 1), values, steering)

    return of_axis(0)


def _forms_that_steer(statement: Statement) -> Iterator[Affine]:
    """The bounds of a loop, what a condition compares."""
    if isinstance(statement, Loop):
        yield from (bound.form for bound in bounds(statement))
    elif isinstance(statement, If):
        yield from (row.form for row in statement.conditions)


def _summed(
    variable: str, span: range, inside: Callable[[], int], values: dict[str, int], steering: Collection[str]
) -> int:
    """Return the count ``inside`` of a loop for all its values, from one if no loop or condition depends on it."""
    if variable not in steering:
        return len(span) * inside() if span else 0
    total = 0
    for value in span:
        values[variable] = value
        total += inside()
    return total


def _count_block(body: tuple[Statement, ...], values: dict[str, int], steering: Collection[str]) -> int:
    total = 0
    for statement in body:
        if isinstance(statement, Loop):
            total += _count_loop(statement, values, steering)
        elif isinstance(statement, If) and all(row.holds(values) for row in statement.conditions):
            total += _count_block(statement.body, values, steering)
    return total


def _count_loop(loop: Loop, values: dict[str, int], steering: Collection[str]) -> int:
    low = max(-(-bound.form.evaluate(values) // bound.divisor) for bound in loop.lows)
    high = min(bound.form.evaluate(values) // bound.divisor for bound in loop.highs)
    span = range(low, high + 1)
    if not _holds_loop(loop.body):
        return len(span)
    return _summed(loop.variable, span, lambda: _count_block(loop.body, values, steering), values, steering)


def _holds_loop(body: tuple[Statement, ...]) -> bool:
    return any(isinstance(s, Loop) or (isinstance(s, If) and _holds_loop(s.body)) for s in body)
