"""Library calls as loop nests, for a backend that has no library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    Apply,
    Bound,
    Contraction,
    Kernel,
    Let,
    Loop,
    Program,
    Statement,
    Step,
    Store,
)
from sympy_tensordiff.codegen.scalars import Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.steps import Shapes, extents
from sympy_tensordiff.codegen.walk import array_shapes, outer_names
from sympy_tensordiff.integer.affine import Affine


def calls_in_loops(program: Program) -> Program:
    """The program with a kernel, one instance per entry, for each contraction and each logarithm of a sum."""
    shapes = array_shapes(program)
    taken = outer_names(program)
    steps: list[Step] = []
    for step in program.kernels:
        if isinstance(step, Contraction):
            step = _contraction(step, shapes, taken)
        elif isinstance(step, Apply) and step.function == "logsumexp":
            step = _logsumexp(step, shapes[step.operand], taken)
        steps.append(step)
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
    loop = _loops([(names[label], known[label]) for label in summed], Add(total, Operation("mul", tuple(loads))))
    axes = tuple([names[label] for label in step.output])
    return Kernel(step.array, axes, (Accumulator(total), loop, Store(_multiple(Name(total), step))))


def _logsumexp(step: Apply, shape: Sequence[Affine], taken: set[str]) -> Kernel:
    """The kernel of ``log(sum(exp))``, which runs over the axes that are summed twice: for their maximum first."""
    own: set[str] = set()

    def fresh(wish: str) -> str:
        own.add(name := unique(wish, taken, own))
        return name

    axes, greatest, total, shift = [fresh(f"i{n}") for n in range(len(shape))], *map(fresh, ("s", "t", "shift"))
    kept = [n for n in range(len(shape)) if n not in step.options]
    largest = Name(greatest)
    # The difference is nan where the greatest entry is infinite, or nan itself.
    is_finite = Operation("eq", (Operation("add", (largest, Operation("neg", (largest,)))), Number(0)))

    def reduced(value: Callable[[Load], Add]) -> Statement:
        again = {n: fresh(f"k{n}") for n in step.options}
        index = tuple([Affine.variable(again.get(n, axis)) for n, axis in enumerate(axes)])
        return _loops([(again[n], shape[n]) for n in step.options], value(Load(step.operand, index)))

    def power(entry: Load) -> Scalar:
        return Operation("exp", (Operation("add", (entry, Operation("neg", (Name(shift),)))),))

    body = (
        Accumulator(greatest, "max"),
        reduced(lambda entry: Add(greatest, entry, "max")),
        Let(shift, Operation("select", (is_finite, largest, Number(0)))),
        Accumulator(total),
        reduced(lambda entry: Add(total, power(entry))),
        Store(_multiple(Operation("add", (Operation("log", (Name(total),)), Name(shift))), step)),
    )
    order = step.axes or range(len(kept))
    return Kernel(step.array, tuple([axes[kept[n]] for n in order]), body)


def _loops(extents: Sequence[tuple[str, Affine]], inner: Statement) -> Statement:
    """A statement in loops over whole axes, the first outermost."""
    for name, extent in reversed(extents):
        inner = Loop(name, (Bound(Affine.of(0)),), (Bound(extent - 1),), (inner,))
    return inner


def _multiple(value: Scalar, step: Contraction | Apply) -> Scalar:
    return value if step.factor == 1 else Operation("mul", (Number(step.factor), value))
