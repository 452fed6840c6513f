"""Library calls as loop nests, for a backend that has no library."""

from __future__ import annotations

from dataclasses import replace

from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    Bound,
    Contraction,
    Kernel,
    Load,
    Loop,
    Name,
    Number,
    Operation,
    Program,
    Scalar,
    Statement,
    Store,
)
from sympy_tensordiff.codegen.steps import Shapes, extents
from sympy_tensordiff.codegen.walk import array_shapes, outer_names
from sympy_tensordiff.integer.affine import Affine


def contractions_in_loops(program: Program) -> Program:
    """The program with a kernel for each contraction: one instance per entry, which sums the products."""
    shapes = array_shapes(program)
    taken = outer_names(program)
    steps = [_kernel(step, shapes, taken) if isinstance(step, Contraction) else step for step in program.kernels]
    return replace(program, kernels=tuple(steps))


def _kernel(step: Contraction, shapes: Shapes, taken: set[str]) -> Kernel:
    known = extents(step, shapes)
    summed = [label for label in sorted(known) if label not in step.output]
    own: set[str] = set()
    names: dict[int, str] = {}
    for letter, labels in (("i", step.output), ("k", summed)):
        for n, label in enumerate(labels):
            names[label] = unique(f"{letter}{n}", taken, own)
            own.add(names[label])
    total = unique("s", taken, own)
    loads = [
        Load(operand.array, tuple([Affine.variable(names[label]) for label in operand.labels]))
        for operand in (step.left, step.right)
    ]
    body: tuple[Statement, ...] = (Add(total, Operation("mul", tuple(loads))),)
    for label in reversed(summed):
        body = (Loop(names[label], (Bound(Affine.of(0)),), (Bound(known[label] - 1),), body),)
    value: Scalar = Name(total)
    if step.factor != 1:
        value = Operation("mul", (Number(step.factor), value))
    axes = tuple([names[label] for label in step.output])
    return Kernel(step.array, axes, (Accumulator(total), *body, Store(value)))
