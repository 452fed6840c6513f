"""Removal of arrays: copies of products, copies of other arrays, and arrays that no step reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from sympy_tensordiff.codegen.ir.dataflow import Dataflow, uses
from sympy_tensordiff.codegen.ir.loops import is_store
from sympy_tensordiff.codegen.ir.programs import (
    ContractionStep,
    Kernel,
    Operand,
    Program,
    Recurrence,
    Scatter,
    Step,
    entrywise,
)
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Load, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import filled_arrays, own_names, with_values
from sympy_tensordiff.integer.affine import Affine

Factor: TypeAlias = "int | Fraction | float"


def without_copies(program: Program) -> Program:
    """Return the program without kernels that only transpose or scale the result of a matrix product. The product
    writes to their array directly.
    """
    flow = Dataflow(program)
    products = {step.array: n for n, step in enumerate(program.kernels) if isinstance(step, ContractionStep)}
    steps = list(program.kernels)
    gone: dict[str, Kernel] = {}
    for step in program.kernels:
        found = copied(step)
        if found is None or found[1].array not in products or found[1].array not in flow.temporaries:
            continue
        assert isinstance(step, Kernel)
        factor, load = found
        index, shape = [form.terms[0][0] for form in load.index], flow.shapes[load.array]
        order = [index.index(axis) for axis in step.axes] if sorted(index) == sorted(step.axes) else []
        if len(order) < len(shape) or tuple([shape[n] for n in order]) != flow.shapes[step.array]:
            continue
        if len(flow.writers[step.array]) > 1 or flow.reader(load.array) is not step:
            continue
        product = steps[products[load.array]]
        assert isinstance(product, ContractionStep)
        output = tuple([product.output[n] for n in order])
        steps[products[load.array]] = replace(product, array=step.array, output=output, factor=factor * product.factor)
        gone[load.array] = step
    if not gone:
        return program
    program = replace(program, notes=tuple([_renamed(note, gone) for note in program.notes]))
    return program.with_steps([step for step in steps if not any(step is copy for copy in gone.values())], gone)


def _renamed(note: str, gone: Mapping[str, Kernel]) -> str:
    """Return `note`, a line ``"array: text"`` of the plan, with the name of a removed array replaced by that of the
    array to read instead. ``gone`` maps names of removed arrays to the kernels that fill these others. Other notes are
    unchanged.
    """
    name, mark, text = note.partition(":")
    return f"{gone[name].array}{mark}{text}" if name in gone else note


def copied(step: Step) -> tuple[Factor, Load] | None:
    """Return ``(factor, load)`` if the kernel `step` computes nothing but ``factor*load``, where each index of the read
    ``load`` is a plain variable, as in a transpose; else None.
    """
    if not isinstance(step, Kernel) or isinstance(step, Scatter) or len(step.body) > 1:
        return None
    store = step.body[0]
    if not is_store(store):
        return None
    value: Scalar = store.value
    factor: Factor = 1
    while isinstance(value, Operation) and value.function in ("neg", "mul"):
        if value.function == "neg":
            factor, value = -factor, value.arguments[0]
        elif isinstance(value.arguments[0], Number) and len(value.arguments) == 2:
            factor, value = factor * value.arguments[0].value, value.arguments[1]
        else:
            return None
    if not isinstance(value, Load) or any(form.constant or len(form.terms) != 1 for form in value.index):
        return None
    variables = [form.terms[0][0] for form in value.index]
    plain = [Affine.variable(v) for v in variables] == list(value.index)
    return (factor, value) if plain and all(isinstance(v, str) for v in variables) else None


# ---------------------------------------------------------------------------- arrays that no step reads
# Temporaries that no step reads: what was kept for a use that has found another array since.


def eliminate_dead_steps(program: Program) -> Program:
    """Return the program without temporaries that nothing reads, and without the steps that fill only these (dead-code
    elimination).

    Law: each step that is left fills a result, or an array that a later step reads.
    """
    needed = {array.name for array in program.outputs}
    remaining: list[Step] = []
    for step in reversed(program.kernels):
        if not needed.isdisjoint(filled_arrays(step)):
            if isinstance(step, Recurrence):
                step = replace(step, recorded=tuple([one for one in step.recorded if one.array in needed]))
            remaining.append(step)
            needed.update(uses(step).arrays)
    return program.with_steps(reversed(remaining), {array.name for array in program.temporaries} - needed)


# ---------------------------------------------------------------------------- arrays that are copies of others
# Temporaries that hold the entries of another array, perhaps with the other sign: what they copy is read instead.


Aliases = Mapping[str, tuple[str, int]]
"""The array whose entries an array copies, and the sign: 1 or -1."""


def without_aliases(program: Program) -> Program:
    """Remove temporaries that only copy another array, or its negative, such as ``t[i, j] = a[i, j]``, and those that
    an earlier step computes as well: kernels read ``a`` instead. Return the new program.

    Law: every result is the same; what ``a`` holds is never changed after it has been filled.
    """
    flow = Dataflow(program)
    others = {
        name
        for step in program.kernels
        if not isinstance(step, Kernel | ContractionStep)
        for name in (step.array, *uses(step).arrays)
    }
    aliases: dict[str, tuple[str, int]] = {}
    steps: list[Step] = []
    computed: dict[object, list[Step]] = {}
    for step in program.kernels:
        found, step = None, _reading(step, aliases) if aliases else step
        if type(step) in (Kernel, ContractionStep) and len(flow.writers[step.array]) == 1:
            before = computed.setdefault((flow.shapes[step.array], uses(step).arrays), [])
            if flow.writer(step.array) and step.array not in others:
                equal = (other.array for other in before if _unnamed(other) == _unnamed(step))
                found = _copied(step) or next(((name, 1) for name in equal), None)
            before.append(step)
        if found and len(flow.writers[found[0]]) <= 1 and flow.shapes[found[0]] == flow.shapes[step.array]:
            aliases[step.array] = found
        else:
            steps.append(step)
    return program.with_steps(steps, aliases)


def _unnamed(step: Step) -> Step:
    """Return `step` with numbers in place of its own names: equal steps compute the same array.

    The new names are not identifiers, so that no size or argument has one of them.
    """
    if isinstance(step, ContractionStep):
        labels = {label: n for n, label in enumerate(dict.fromkeys((*step.left.labels, *step.right.labels)))}
        left, right = (
            Operand(operand.array, tuple([labels[label] for label in operand.labels])) for operand in step.operands
        )
        return replace(step, array="", left=left, right=right, output=tuple([labels[label] for label in step.output]))
    assert isinstance(step, Kernel)
    names, entry = Renaming({name: f"<{n}>" for n, name in enumerate(own_names(step))}), step.body[-1]
    assert is_store(entry)
    return entrywise("", tuple(map(names.name, step.axes)), names.body(step.body[:-1]), names.value(entry.value))


def _copied(step: Step) -> tuple[str, int] | None:
    """Return ``(array, sign)`` for a kernel that only copies an array, or its negative, entry by entry; None for other
    steps.
    """
    found = copied(step)
    if found is None or found[0] not in (1, -1):
        return None
    assert isinstance(step, Kernel)
    factor, load = found
    return (load.array, int(factor)) if load.index == tuple(map(Affine.variable, step.axes)) else None


def _reading(step: Step, aliases: Aliases) -> Step:
    """Return `step` with reads of arrays in place of reads of their copies. ``aliases`` maps each copy to ``(array,
    sign)``.
    """
    if isinstance(step, Kernel):
        return replace(step, body=with_values(step.body, lambda value: _read(value, aliases)))
    if isinstance(step, ContractionStep):
        signs = [aliases.get(operand.array, ("", 1))[1] for operand in (step.left, step.right)]
        left, right = (
            Operand(aliases.get(operand.array, (operand.array, 1))[0], operand.labels)
            for operand in (step.left, step.right)
        )
        return replace(step, left=left, right=right, factor=signs[0] * signs[1] * step.factor)
    return step


def _read(value: Scalar, aliases: Aliases) -> Scalar:
    """Return ``value``, if it reads a copy of an array, as the read of the original array; other expressions are
    unchanged. ``aliases`` maps names of copies to ``(original array, sign)``: with the sign -1, the read is negated.

    Double negations are removed.
    """
    if isinstance(value, Load) and value.array in aliases:
        name, sign = aliases[value.array]
        load = Load(name, value.index)
        return load if sign == 1 else Operation("neg", (load,))
    if isinstance(value, Operation) and value.function == "neg":
        (inner,) = value.arguments
        return inner.arguments[0] if isinstance(inner, Operation) and inner.function == "neg" else value
    return value
