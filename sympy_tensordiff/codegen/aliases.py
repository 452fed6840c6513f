"""Temporaries that hold the entries of another array, perhaps with the other sign: what they copy is read instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from sympy_tensordiff.codegen.copies import copied
from sympy_tensordiff.codegen.loops import (
    Add,
    AddAt,
    Contraction,
    If,
    Kernel,
    Let,
    Loop,
    Operand,
    Program,
    Statement,
    Step,
    Store,
)
from sympy_tensordiff.codegen.scalars import Load, Operation, Scalar
from sympy_tensordiff.codegen.walk import array_shapes, uses
from sympy_tensordiff.integer.affine import Affine

Aliases = Mapping[str, tuple[str, int]]
"""For an array, the one whose entries it holds, and the sign: 1 or -1."""


def without_aliases(program: Program) -> Program:
    """The program without temporaries ``t[i, j] = ±a[i, j]`` that loops or products of matrices read.

    Law: every result is the same; what ``a`` holds is never changed after it has been filled.
    """
    shapes = array_shapes(program)
    written = Counter(step.array for step in program.kernels)
    temporaries = {array.name for array in program.temporaries}
    others = {
        name
        for step in program.kernels
        if not isinstance(step, Kernel | Contraction)
        for name in (step.array, *uses(step).arrays)
    }
    aliases: dict[str, tuple[str, int]] = {}
    steps: list[Step] = []
    for step in program.kernels:
        found = _copied(step) if step.array in temporaries - others and written[step.array] == 1 else None
        if found is not None and written[found[0]] <= 1 and shapes[found[0]] == shapes[step.array]:
            name, sign = found
            first, before = aliases.get(name, (name, 1))
            aliases[step.array] = first, sign * before
        else:
            steps.append(_reading(step, aliases) if aliases else step)
    return replace(
        program,
        kernels=tuple(steps),
        temporaries=tuple([array for array in program.temporaries if array.name not in aliases]),
        notes=tuple([note for note in program.notes if note.partition(":")[0] not in aliases]),
    )


def _copied(step: Step) -> tuple[str, int] | None:
    """The array that a kernel copies entry by entry, and the sign of the copies."""
    found = copied(step)
    if found is None or found[0] not in (1, -1):
        return None
    assert isinstance(step, Kernel)
    factor, load = found
    return (load.array, int(factor)) if load.index == tuple(map(Affine.variable, step.axes)) else None


def _reading(step: Step, aliases: Aliases) -> Step:
    """A step that reads other arrays in the place of their copies."""
    if isinstance(step, Kernel):
        return replace(step, body=tuple([_statement(statement, aliases) for statement in step.body]))
    if isinstance(step, Contraction):
        signs = [aliases.get(operand.array, ("", 1))[1] for operand in (step.left, step.right)]
        left, right = (
            Operand(aliases.get(operand.array, (operand.array, 1))[0], operand.labels)
            for operand in (step.left, step.right)
        )
        return replace(step, left=left, right=right, factor=signs[0] * signs[1] * step.factor)
    return step


def _statement(statement: Statement, aliases: Aliases) -> Statement:
    if isinstance(statement, Loop | If):
        return replace(statement, body=tuple([_statement(inner, aliases) for inner in statement.body]))
    if isinstance(statement, Let | Add | Store | AddAt):
        return replace(statement, value=_value(statement.value, aliases))
    return statement


def _value(value: Scalar, aliases: Aliases) -> Scalar:
    if isinstance(value, Load) and value.array in aliases:
        name, sign = aliases[value.array]
        load = Load(name, value.index)
        return load if sign == 1 else Operation("neg", (load,))
    if isinstance(value, Operation):
        arguments = tuple([_value(argument, aliases) for argument in value.arguments])
        if value.function == "neg" and isinstance(arguments[0], Operation) and arguments[0].function == "neg":
            return arguments[0].arguments[0]
        return Operation(value.function, arguments)
    return value
