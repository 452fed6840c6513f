"""Conditions under which the entries of temporary arrays are used.

A library that differentiates a program multiplies the derivative of an entry that is not used by 0, which is nan where
the entry is singular, as ``1/r[i, j]`` is at ``i = j``. So such entries are computed from other arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TypeAlias

from sympy_tensordiff.codegen.emit.array_scalars import is_singular
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover, Read, axis_rows, condition_of, nonzero_forms, reads
from sympy_tensordiff.codegen.ir.programs import Kernel, Program, Scatter
from sympy_tensordiff.codegen.ir.scalars import IndexValue, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import loops, scalars
from sympy_tensordiff.integer.affine import Affine, Constraint

Condition: TypeAlias = "Constraint | Affine"
"""A constraint, or a form that is not 0."""


def conditions_of_use(program: Program, prover: Prover) -> dict[str, Scalar]:
    """Return for temporary arrays with singular entries the condition, in the axes of their kernels, under which the
    program uses an entry; arrays without a condition are left out.
    """
    unguarded = {array.name for array in program.outputs}
    common: dict[str, frozenset[Condition]] = {}
    """The conditions of all reads of an array so far."""
    result: dict[str, Scalar] = {}
    for step in reversed(program.kernels):
        if not isinstance(step, Kernel):
            unguarded.update(uses(step).arrays)
            continue
        own: list[Condition] = []
        if step.array not in unguarded and not isinstance(step, Scatter):
            names = {_axis(number): Affine.variable(name) for number, name in enumerate(step.axes)}
            known, axes = common.get(step.array, frozenset()), axis_rows(step, prover.shapes)
            own = sorted([_mapped(condition, names) for condition in known], key=str)
            own = [one for one in own if not isinstance(one, Constraint) or not prover.proves(one, axes)]
        if own and any(map(is_singular, scalars(step.body))):
            result[step.array] = _as_scalar(own)
        inner = {*step.axes, *(loop.variable for loop in loops(step.body))}
        for read in reads(step, prover.shapes):
            array, conditions = read.load.array, frozenset(_conditions(read, own, inner))
            common[array] = common[array] & conditions if array in common else conditions
    return result


def _axis(number: int) -> str:
    """Return the name that conditions on an array have for one of its axes."""
    return f"axis {number}"


def _mapped(condition: Condition, images: dict[str, Affine]) -> Condition:
    """Return a condition with its variables replaced; a form that is not 0 has the sign that is sorted last."""
    if isinstance(condition, Constraint):
        return condition._replace(form=condition.form.substitute(images))
    form = condition.substitute(images)
    return max(form, -form, key=str)


def _conditions(read: Read, known: list[Condition], inner: set[str]) -> Iterator[Condition]:
    """Yield the conditions of a read on the axes of its array. `inner` are the indices of the kernel, in which the
    conditions ``known`` hold.
    """
    images: dict[str, Affine] = {}
    for number, form in enumerate(read.load.index):
        names = form.atoms() & inner
        if len(names) == 1 and not form.compounds():
            (name,) = names
            if form.coefficient(name) == 1 and name not in images:
                images[name] = Affine.variable(_axis(number)) - (form - Affine.variable(name))
    for condition in chain(read.context, chain.from_iterable(map(nonzero_forms, read.choices)), known):
        form = condition.form if isinstance(condition, Constraint) else condition
        names = form.atoms() & inner
        if names and names <= images.keys() and not form.compounds():
            yield _mapped(condition, images)


def _as_scalar(conditions: list[Condition]) -> Scalar:
    """Return conditions, joined by "and", as a boolean scalar expression."""
    rows = [one for one in conditions if isinstance(one, Constraint)]
    forms = [one for one in conditions if isinstance(one, Affine)]
    parts = [*([condition_of(rows)] if rows else []), *(Operation("ne", (IndexValue(f), Number(0))) for f in forms)]
    return parts[0] if len(parts) == 1 else Operation("and", tuple(parts))
