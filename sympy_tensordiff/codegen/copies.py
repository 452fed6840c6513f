"""A kernel that only copies a product of matrices is left out: the product fills the array itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from sympy_tensordiff.codegen.loops import Contraction, Kernel, Program, Scatter, Step, Store
from sympy_tensordiff.codegen.scalars import Load, Number, Operation, Scalar
from sympy_tensordiff.codegen.walk import array_shapes, uses
from sympy_tensordiff.integer.affine import Affine

Factor: TypeAlias = "int | Fraction | float"


def without_copies(program: Program) -> Program:
    """The program in which no kernel does nothing but move a product's axes and multiply with a number."""
    shapes = array_shapes(program)
    written = Counter(step.array for step in program.kernels)
    readers = Counter(name for step in program.kernels for name in uses(step).arrays)
    products = {step.array: n for n, step in enumerate(program.kernels) if isinstance(step, Contraction)}
    temporaries = {array.name for array in program.temporaries}
    steps = list(program.kernels)
    gone: dict[str, Kernel] = {}
    for step in program.kernels:
        found = copied(step)
        if found is None or found[1].array not in products or found[1].array not in temporaries:
            continue
        assert isinstance(step, Kernel)
        factor, load = found
        index = [form.terms[0][0] for form in load.index]
        if written[step.array] > 1 or readers[load.array] > 1 or sorted(index) != sorted(step.axes):
            continue
        if any(
            shapes[load.array][index.index(axis)] != extent
            for axis, extent in zip(step.axes, shapes[step.array], strict=True)
        ):
            continue
        product = steps[products[load.array]]
        assert isinstance(product, Contraction)
        output = tuple([product.output[index.index(axis)] for axis in step.axes])
        steps[products[load.array]] = replace(product, array=step.array, output=output, factor=factor * product.factor)
        gone[load.array] = step
    if not gone:
        return program
    return replace(
        program,
        kernels=tuple([step for step in steps if not any(step is copy for copy in gone.values())]),
        temporaries=tuple([array for array in program.temporaries if array.name not in gone]),
        notes=tuple([_renamed(note, gone) for note in program.notes]),
    )


def _renamed(note: str, gone: Mapping[str, Kernel]) -> str:
    """A note on the array that a product fills now."""
    name, mark, text = note.partition(":")
    return f"{gone[name].array}{mark}{text}" if name in gone else note


def copied(step: Step) -> tuple[Factor, Load] | None:
    """The factor and the load of a kernel that does nothing else; each index is a variable."""
    if not isinstance(step, Kernel) or isinstance(step, Scatter) or len(step.body) > 1:
        return None
    store = step.body[0]
    if not isinstance(store, Store):
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
