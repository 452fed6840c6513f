"""Products of matrices as loop nests, for a backend that may have no library."""

from __future__ import annotations

from dataclasses import replace

from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    Bound,
    Contraction,
    Kernel,
    Loop,
    Program,
    Statement,
    Store,
)
from sympy_tensordiff.codegen.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.steps import Shapes, extents
from sympy_tensordiff.codegen.walk import array_shapes, outer_names
from sympy_tensordiff.integer.affine import Affine


def calls_in_loops(program: Program) -> Program:
    """The program with a kernel, one instance per entry, for each contraction."""
    shapes, taken = array_shapes(program), outer_names(program)
    steps = [_contraction(s, shapes, taken) if isinstance(s, Contraction) else s for s in program.kernels]
    return replace(program, kernels=tuple(steps))


def _contraction(step: Contraction, shapes: Shapes, taken: set[str]) -> Kernel:
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
    inner: Statement = Add(total, Operation("mul", tuple(loads)))
    for label in reversed(summed):
        inner = Loop(names[label], (Bound(Affine.of(0)),), (Bound(known[label] - 1),), (inner,))
    value: Scalar = Name(total)
    if step.factor != 1:
        value = Operation("mul", (Number(step.factor), value))
    return Kernel(step.array, tuple([names[label] for label in step.output]), (Accumulator(total), inner, Store(value)))
