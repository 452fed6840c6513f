"""Count the work of a generated program at given sizes: scalar operations, allocated numbers, the largest array.

The loop nests are the ones that the default backend compiles, after its passes. Nothing here knows how the package
estimates a cost: trip counts are enumerated, and a call of a library costs what its algorithm is known to need.
`interpreter` executes the same nests entry by entry, and has to count the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.programs import (
    BLOCK,
    Apply,
    CofactorTangent,
    ConstantKernel,
    ContractionStep,
    Correlation,
    FusedKernels,
    Kernel,
    ProductStep,
    Program,
    Recurrence,
    Solve,
    Step,
    Trapezoid,
)
from sympy_tensordiff.codegen.ir.scalars import CONDITIONS, Ends, Identity, Number, Operation
from sympy_tensordiff.codegen.ir.walk import array_shapes, head_forms, parts, statements
from sympy_tensordiff.codegen.program import build_program
from sympy_tensordiff.codegen.schedule.fusion import fuse
from sympy_tensordiff.codegen.schedule.passes import prepared

ARITHMETIC = frozenset({"add", "mul", "max", "min", "and", "or"})
"""Operations of several operands, each of which is one operation less."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The cost of a program in a call.

    ``operations`` are scalar ones, in loops and in calls of a library, an evaluation of an elementary function among
    them counting as one; ``functions`` are these evaluations. ``largest`` is the number of entries of the
    largest array that is neither an argument nor a result, ``memory`` that of all of them together; ``arguments`` and
    ``results`` are the numbers of entries of those.
    """

    operations: int
    functions: int
    largest: int
    memory: int
    arguments: int
    results: int
    largest_argument: int = 0
    largest_result: int = 0


def executed(arguments: Sequence[Any], expression: Any, **options: Any) -> Program:
    """The program that `lambdify` compiles by default, without passes that only help a compiler."""
    program = build_program(arguments, expression, rows=True, trapezoids=True, tables=True, **options)
    program = prepared(program, "numba", splits=False)
    return fuse(program, Prover(program))


def figures(program: Program, sizes: Mapping[str, Any]) -> Figures:
    """The cost of a program at numeric ``sizes``, by the names of the symbols.

    If operations depend on the data in arrays of integers, ``sizes`` also has these arrays, by their names. The
    temporaries and results of one step of a recurrence are temporaries of the program.
    """
    values = values_of(program, sizes)
    shapes = shapes_of(program, values)
    bodies = {id(step): _body_figures(step, values) for step in program.kernels if isinstance(step, Recurrence)}
    counted = [
        _recurrence(step, bodies[id(step)], shapes) if isinstance(step, Recurrence) else _step(step, shapes, values)
        for step in program.kernels
    ]
    rows = {array.name: array for step in program.kernels if isinstance(step, FusedKernels) for array in step.rows}
    entries = {name: prod(shape) for name, shape in shapes.items()}
    entries |= {name: prod(form.evaluate(values) for form in array.shape) for name, array in rows.items()}
    remaining = [entries[array.name] for array in program.temporaries]
    passes = [one for found in bodies.values() for one in found]
    inner = sum(max((one.memory + one.results for one in found), default=0) for found in bodies.values())
    given = [entries[a.name] for a in program.arguments if a.kind == "array"]
    results = [entries[array.name] for array in program.outputs]
    return Figures(
        sum(one for one, _ in counted),
        sum(one for _, one in counted),
        max([*remaining, *(max(one.largest, one.largest_result) for one in passes)], default=0),
        sum(remaining) + inner,
        sum(given),
        sum(results),
        max(given, default=0),
        max(results, default=0),
    )


def values_of(program: Program, sizes: Mapping[str, int]) -> dict[str, Any]:
    """The values of all sizes of a program, those that the host computes among them."""
    values: dict[str, Any] = dict(sizes)
    for size in program.sizes:
        ends = [form.evaluate(values) for form in size.lows or size.highs]
        values[size.name] = max(ends) if size.lows else min(ends)
    return values


def shapes_of(program: Program, values: Mapping[str, Any]) -> dict[str, list[int]]:
    """The numeric shapes of all arrays."""
    return {name: [form.evaluate(values) for form in shape] for name, shape in array_shapes(program).items()}


Cost = tuple[int, int]


def _body_figures(step: Recurrence, values: Mapping[str, Any]) -> list[Figures]:
    """The cost of the body at each time, or that of all times once for each if no size in it changes."""
    length = step.length.evaluate(values)
    fixed = {name: form.evaluate(values) for name, form in step.integers}
    fixed |= {name: values[array] for name, array in step.constants if array in values}
    rows = {name: values[array] for name, array in step.rows if array in values}
    if not step.time and not rows:
        return [figures(step.body, fixed)] * length
    times = [{step.time: time} if step.time else {} for time in range(length)]
    return [
        figures(step.body, fixed | at | {name: array[time] for name, array in rows.items()})
        for time, at in enumerate(times)
    ]


def _recurrence(step: Recurrence, bodies: Sequence[Figures], shapes: Mapping[str, Sequence[int]]) -> Cost:
    """The cost of all times, with the additions to sums over time."""
    added = len(bodies) * sum(prod(shapes[one.array]) for one in step.recorded if one.kind == "sum")
    return sum(one.operations for one in bodies) + added, sum(one.functions for one in bodies)


def _step(step: Step, shapes: Mapping[str, list[int]], values: dict[str, Any]) -> Cost:
    if isinstance(step, ConstantKernel):  # once for all calls
        return 0, 0
    if isinstance(step, FusedKernels):
        parts = [_kernel(kernel, shapes, values) for kernel in step.kernels]
        return sum(a for a, _ in parts), sum(b for _, b in parts)
    if isinstance(step, Kernel):
        return _kernel(step, shapes, values)
    return call_operations(step, shapes, values), 0


# ---------------------------------------------------------------------------- calls of a library


def call_operations(step: Step, shapes: Mapping[str, list[int]], values: Mapping[str, Any]) -> int:
    """The additions and multiplications of a call on whole arrays."""
    if isinstance(step, Correlation):
        return 2 * prod(extent.evaluate(values) for _, extent in step.labels)
    if isinstance(step, Apply):
        return _apply(step, shapes[step.operand])
    assert isinstance(step, ProductStep)
    if isinstance(step, CofactorTangent):
        return 6 * shapes[step.left.array][0] ** 3  # an inverse and two products with it, far from singular matrices
    lengths: dict[int, int] = {}
    for operand in step.operands[::-1]:  # an array of factors has one row more than its matrix
        for label, length in zip(operand.labels, shapes[operand.array], strict=True):
            lengths.setdefault(label, length)
    if isinstance(step, Trapezoid):
        return _trapezoid(step, lengths, values)
    total = 2 * prod(lengths.values())
    if isinstance(step, ContractionStep):
        scaled = prod(lengths[label] for label in step.output) if step.factor != 1 else 0
        return scaled + (total if set(step.output) < lengths.keys() else total // 2)
    assert isinstance(step, Solve)
    n = lengths[step.left.labels[-1]]
    batch = prod(lengths[label] for label in step.left.labels[:-2])
    return total if step.factored else total + batch * 2 * n**3 // 3


def _trapezoid(step: Trapezoid, lengths: Mapping[int, int], values: Mapping[str, Any]) -> int:
    rows, terms = lengths[step.row], lengths[step.summed]
    others = prod(length for label, length in lengths.items() if label not in (step.row, step.summed))
    total = 0
    for row in range(rows):
        last = BLOCK * (row // BLOCK) + step.shift.evaluate(values) + (BLOCK - 1 if step.is_upper else 0)
        total += max(terms - max(last, 0), 0) if step.is_upper else max(min(last + 1, terms), 0)
    return 2 * total * others


def _apply(step: Apply, shape: Sequence[int]) -> int:
    batch, n = prod(shape[:-2]), shape[-1]
    if step.function == "factors":  # Cholesky's or LU
        return batch * n**3 // 3 * (1 if step.options and step.options[0] else 2)
    factorization = 0 if step.factored else 2 * n**3 // 3
    if step.function == "inv":
        return batch * (factorization + 4 * n**3 // 3)
    if step.function in ("det", "logdet", "logabsdet"):
        return batch * (factorization + n)
    assert step.function == "cofactor", step.function
    if step.options == (1,):  # the determinant times the inverse, far from singular matrices
        return batch * (2 * n**3 + n**2)
    # By a singular value decomposition, and products of its factors.
    return batch * (20 * n**3 + 2 * prod([n] * 2 * step.options[0] if step.options else [n] * 2))


# ---------------------------------------------------------------------------- loop nests


def _kernel(kernel: Kernel, shapes: Mapping[str, list[int]], values: dict[str, Any]) -> Cost:
    names = {name for s in statements(kernel.body) for form in head_forms(s) for name in form.atoms()}
    extents = [form.evaluate(values) for form in getattr(kernel, "extents", ())] or shapes[kernel.array]
    known: dict[Any, int] = {}

    def inside(axis: int) -> Cost:
        if axis == len(kernel.axes):
            return _block(kernel.body, values, names, known)
        return _repeated(kernel.axes[axis], range(extents[axis]), lambda: inside(axis + 1), values, names)

    return inside(0)


def _repeated(
    variable: str, span: range, inside: Callable[[], Cost], values: dict[str, Any], names: Collection[str]
) -> Cost:
    """The cost of all passes of a loop; one pass stands for all where no bound and no condition has its variable."""
    if not span:
        return 0, 0
    if variable not in names:
        operations, functions = inside()
        return len(span) * operations, len(span) * functions
    operations = functions = 0
    for value in span:
        values[variable] = value
        one, other = inside()
        operations, functions = operations + one, functions + other
    return operations, functions


def _block(body: Iterable[Statement], values: dict[str, Any], names: Collection[str], known: Mapping[Any, int]) -> Cost:
    """The cost of statements; what one of them has computed of the same operands, a later one does not compute."""
    operations = functions = 0
    known = dict(known)
    for statement in body:
        if isinstance(statement, Loop):
            one, other = _repeated(
                statement.variable,
                span_of(statement, values),
                lambda loop=statement: _block(loop.body, values, names, known),  # type: ignore[misc]
                values,
                names,
            )
        elif isinstance(statement, If):
            holds = all(row.holds(values) for row in statement.conditions)
            one, other = _block(statement.body, values, names, known) if holds else (0, 0)
        else:
            one, other = _set(statement, known)
        operations, functions = operations + one, functions + other
    return operations, functions


def span_of(loop: Loop, values: Mapping[str, Any]) -> range:
    """The values of a loop variable."""
    low = max(-(-bound.form.evaluate(values) // bound.divisor) for bound in loop.lows)
    high = min(bound.form.evaluate(values) // bound.divisor for bound in loop.highs)
    return range(low, high + 1, loop.step if isinstance(loop.step, int) and loop.step > 0 else 1)


def _set(statement: Statement, known: dict[Any, int]) -> Cost:
    assert isinstance(statement, Set), statement
    if isinstance(statement.value, Ends | Identity):
        return 0, 0
    operations = functions = 0
    numbers: dict[int, int] = {}
    for part in parts(statement.value):
        if isinstance(part, Operation):
            key: Any = (part.function, *(numbers[id(argument)] for argument in part.arguments))
        else:
            key = part
        is_new = key not in known
        numbers[id(part)] = known.setdefault(key, len(known))
        if is_new and isinstance(part, Operation):
            one, other = operation_cost(part)
            operations, functions = operations + one, functions + other
    is_taken = bool(statement.reduction)
    return operations + is_taken, functions


def operation_cost(operation: Operation) -> Cost:
    """The operations and evaluations of functions of one operation, its operands apart."""
    function, arguments = operation.function, operation.arguments
    if function in ARITHMETIC:
        return len(arguments) - 1 - (function == "mul" and Number(-1) in arguments), 0  # an addition takes the sign
    if function in ("neg", "infinity", "not"):  # part of an addition, a constant
        return 0, 0
    if function == "pow" and isinstance(arguments[1], Number):
        exponent = Fraction(arguments[1].value)
        if exponent.denominator <= 2 and abs(exponent) <= 64:
            whole = abs(exponent.numerator) // exponent.denominator
            squarings = max(whole.bit_length() - 1, 0) + max(bin(whole).count("1") - 1, 0)
            return squarings + (exponent < 0) + 2 * (exponent.denominator == 2) - (exponent == Fraction(1, 2)), 0
    if function in CONDITIONS or function in ("select", "abs", "sign", "floor", "ceil", "sqrt"):
        return 1, 0
    return 1, 1
