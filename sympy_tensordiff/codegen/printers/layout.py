"""The order of axes in memory: what an innermost loop reads lies side by side.

A loop over points, the rows of a matrix with three columns, reads every third number, which keeps it
from working on vectors; so does one that runs down a column. A temporary is therefore kept with its axes
in the order in which it is read, where that gains more than it costs where it is filled. What is still
read in strides, again and again by a loop around, is copied once with that axis last. Loops and last
axes of few steps count as unrolled: the loop around them is the innermost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import (
    Add,
    AddAt,
    Array,
    If,
    Kernel,
    Let,
    Loop,
    Program,
    Scatter,
    Statement,
    Step,
    Store,
)
from sympy_tensordiff.codegen.printers.rows import has_few_steps, is_short, row_plan
from sympy_tensordiff.codegen.scalars import Load, Operation, Scalar
from sympy_tensordiff.codegen.walk import all_names, uses
from sympy_tensordiff.integer.affine import Affine

T = TypeVar("T")

Visit = Callable[[Load, str | None, tuple[str, ...]], Load]
"""Gets a read, the variable of the innermost loop around it and those of all long ones; gives what takes its place."""


def in_reading_order(program: Program) -> Program:
    """``program`` with temporaries and copies in the order in which they are read, if it may keep copies."""
    if not program.copies:
        return program
    return _with_copies(_with_turned_temporaries(program))


# ---------------------------------------------------------------------------- temporaries


def _with_turned_temporaries(program: Program) -> Program:
    gains: dict[str, Counter[int]] = {a.name: Counter() for a in program.temporaries if _is_turnable(program, a)}
    prover = Prover(program)
    for kernel in program.nests if gains else ():
        if kernel.array in gains and row_plan(kernel, prover) is not None:
            del gains[kernel.array]  # where it is filled, its last axis is the right one
        for load, variable, _ in _reads(kernel, prover):
            place = _place(load, variable)
            if place is not None and load.array in gains:
                gains[load.array][place] += 1
            if kernel.array in gains and variable == kernel.axes[-1]:
                last = len(load.index) - 1
                gains[kernel.array].update(m for m, axis in enumerate(kernel.axes) if _place(load, axis) == last)
    orders = {}
    for array in program.temporaries:
        votes, rank = gains.get(array.name, Counter()), len(array.shape)
        if votes and (best := max(range(rank), key=lambda m: (votes[m], m))) != rank - 1:
            orders[array.name] = _last(best, rank)
    return _turned(program, prover, orders) if orders else program


def _is_turnable(program: Program, array: Array) -> bool:
    """Whether a temporary is filled by one kernel, and read by kernels only."""
    filling = [step for step in program.kernels if step.array == array.name]
    if len(array.shape) < 2 or len(filling) != 1 or type(filling[0]) is not Kernel:
        return False
    return not any(array.name in uses(step).arrays for step in program.kernels if not isinstance(step, Kernel))


def _turned(program: Program, prover: Prover, orders: dict[str, list[int]]) -> Program:
    """The program with the axes of temporaries in other orders."""

    def visit(load: Load, *_: object) -> Load:
        return replace(load, index=_permuted(load.index, orders[load.array])) if load.array in orders else load

    kernels: list[Step] = []
    for step in program.kernels:
        if isinstance(step, Kernel):
            body = _visited(step, prover, visit).body
            axes = _permuted(step.axes, orders[step.array]) if step.array in orders else step.axes
            step = replace(step, axes=axes, body=body)
        kernels.append(step)
    temporaries = tuple(
        [replace(a, shape=_permuted(a.shape, orders[a.name])) if a.name in orders else a for a in program.temporaries]
    )
    notes = [f"{name}: axis {order[-1]} last, along which loops read it" for name, order in orders.items()]
    return replace(program, temporaries=temporaries, kernels=tuple(kernels), notes=(*program.notes, *notes))


# ---------------------------------------------------------------------------- copies


def _with_copies(program: Program) -> Program:
    prover = Prover(program)
    taken = all_names(program)
    copies: dict[tuple[str, int], Array] = {}
    kernels: list[Step] = []
    first: list[Step] = []
    temporaries = list(program.temporaries)
    own = {array.name for array in (*program.temporaries, *program.outputs)}
    for step in program.kernels:
        fresh: list[Step] = []

        def visit(load: Load, variable: str | None, around: tuple[str, ...], fresh: list[Step] = fresh) -> Load:
            place, rank = _place(load, variable), len(load.index)
            if place is None or place == rank - 1 or not _is_repeated(load, around):
                return load
            order = _last(place, rank)
            copy = copies.get((load.array, place))
            if copy is None:
                name = unique(f"{load.array}_turned", taken)
                copy = Array(name, _permuted(prover.shapes[load.array], order))
                copies[load.array, place] = copy
                taken.add(name)
                temporaries.append(copy)
                # Arguments are copied before all else: nothing comes between kernels that may run together.
                (fresh if load.array in own else first).append(_copying(copy, load.array, order, taken))
            return Load(copy.name, _permuted(load.index, order))

        kernel = _visited(step, prover, visit) if type(step) is Kernel else step
        kernels += [*fresh, kernel]
    if not copies:
        return program
    notes = [
        f"{copy.name}: a copy of {array} with axis {place} last, along which loops read it"
        for (array, place), copy in copies.items()
    ]
    return replace(
        program,
        temporaries=tuple(temporaries),
        kernels=(*first, *kernels),
        notes=(*program.notes, *notes),
    )


def _is_repeated(load: Load, around: Sequence[str]) -> bool:
    """Whether a long loop around a read repeats it, and no axis is read at one place only."""
    used = {name for form in load.index for name in form.atoms()}
    return not used.issuperset(around) and not any(form.is_constant for form in load.index)


def _copying(copy: Array, array: str, order: Sequence[int], taken: set[str]) -> Kernel:
    """The kernel that copies an array with its axes in another order."""
    axes = [unique(f"i{n}", taken) for n in range(len(order))]
    index = {place: Affine.variable(axis) for place, axis in zip(order, axes, strict=True)}
    return Kernel(copy.name, tuple(axes), (Store(Load(array, tuple([index[m] for m in range(len(order))]))),))


# ---------------------------------------------------------------------------- reads


def _reads(kernel: Kernel, prover: Prover) -> list[tuple[Load, str | None, tuple[str, ...]]]:
    """What `Visit` gets for all reads."""
    found: list[tuple[Load, str | None, tuple[str, ...]]] = []

    def visit(load: Load, variable: str | None, around: tuple[str, ...]) -> Load:
        found.append((load, variable, around))
        return load

    _visited(kernel, prover, visit)
    return found


def _visited(kernel: Kernel, prover: Prover, visit: Visit) -> Kernel:
    """The kernel with each read replaced by what ``visit`` gives for it."""
    extents = kernel.box(prover.shapes)
    axes = tuple([axis for axis, extent in zip(kernel.axes, extents, strict=True) if not is_short(extent)])
    planned = not isinstance(kernel, Scatter) and row_plan(kernel, prover) is not None
    row = kernel.axes[-1] if planned else None

    def value(node: Scalar, around: tuple[str, ...]) -> Scalar:
        if isinstance(node, Load):
            return visit(node, row or (around[-1] if around else None), around)
        if isinstance(node, Operation):
            return replace(node, arguments=tuple([value(argument, around) for argument in node.arguments]))
        return node

    def block(body: Sequence[Statement], around: tuple[str, ...]) -> tuple[Statement, ...]:
        result: list[Statement] = []
        for statement in body:
            if isinstance(statement, Loop):
                inner = around if has_few_steps(statement) else (*around, statement.variable)
                statement = replace(statement, body=block(statement.body, inner))
            elif isinstance(statement, If):
                statement = replace(statement, body=block(statement.body, around))
            elif isinstance(statement, Let | Add | Store | AddAt):
                statement = replace(statement, value=value(statement.value, around))
            result.append(statement)
        return tuple(result)

    return replace(kernel, body=block(kernel.body, axes))


def _place(load: Load, variable: str | None) -> int | None:
    """The axis along which a read runs, entry by entry, with ``variable``; None where there is no such."""
    if variable is None:
        return None
    places = [m for m, form in enumerate(load.index) if variable in form.atoms()]
    if len(places) != 1:
        return None
    form = load.index[places[0]]
    return places[0] if abs(form.coefficient(variable)) == 1 and variable not in form.hidden() else None


def _last(place: int, rank: int) -> list[int]:
    """The axes with one of them last."""
    return [m for m in range(rank) if m != place] + [place]


def _permuted(items: Sequence[T], order: Sequence[int]) -> tuple[T, ...]:
    return tuple([items[m] for m in order])
