"""Temporaries that hold the entries of another array, perhaps with the other sign: what they copy is read instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from sympy_tensordiff.codegen.copies import copied
from sympy_tensordiff.codegen.loops import Contraction, Kernel, Operand, Program, Step
from sympy_tensordiff.codegen.scalars import Load, Operation, Scalar
from sympy_tensordiff.codegen.walk import array_shapes, uses, with_values
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
        return replace(step, body=with_values(step.body, lambda value: _read(value, aliases)))
    if isinstance(step, Contraction):
        signs = [aliases.get(operand.array, ("", 1))[1] for operand in (step.left, step.right)]
        left, right = (
            Operand(aliases.get(operand.array, (operand.array, 1))[0], operand.labels)
            for operand in (step.left, step.right)
        )
        return replace(step, left=left, right=right, factor=signs[0] * signs[1] * step.factor)
    return step


def _read(value: Scalar, aliases: Aliases) -> Scalar:
    """What is read in the place of a copy; two signs are none."""
    if isinstance(value, Load) and value.array in aliases:
        name, sign = aliases[value.array]
        load = Load(name, value.index)
        return load if sign == 1 else Operation("neg", (load,))
    if isinstance(value, Operation) and value.function == "neg":
        (inner,) = value.arguments
        return inner.arguments[0] if isinstance(inner, Operation) and inner.function == "neg" else value
    return value
