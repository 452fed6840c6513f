"""The order of axes in memory: what an innermost loop reads lies side by side.

A loop over points, the rows of a matrix with three columns, reads every third number, which keeps it
from working on vectors; so does one that runs down a column. What is read in strides, again and again by
a loop around, is therefore copied once with that axis last. Loops and last axes of few steps count as
unrolled: the loop around them is the innermost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import Array, Kernel, Loop, Program, Scatter, Statement, Step, Store
from sympy_tensordiff.codegen.printers.rows import has_few_steps, is_short, row_plan
from sympy_tensordiff.codegen.scalars import Load, Scalar
from sympy_tensordiff.codegen.walk import Around, all_names, rewrite, rewrite_scalar, with_parts
from sympy_tensordiff.integer.affine import Affine

T = TypeVar("T")

Visit = Callable[[Load, str | None, tuple[str, ...]], Load]
"""Gets a read, the variable of the innermost loop around it and those of all long ones; gives what takes its place."""


def in_reading_order(program: Program) -> Program:
    """``program`` with copies in the order in which they are read, if it may keep copies."""
    return _with_copies(program) if program.copies else program


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


def _visited(kernel: Kernel, prover: Prover, visit: Visit) -> Kernel:
    """The kernel with each read replaced by what ``visit`` gives for it."""
    extents = kernel.box(prover.shapes)
    axes = tuple([axis for axis, extent in zip(kernel.axes, extents, strict=True) if not is_short(extent)])
    planned = not isinstance(kernel, Scatter) and row_plan(kernel, prover) is not None
    row = kernel.axes[-1] if planned else None

    def change(statement: Statement, loops: Around) -> tuple[Statement, ...]:
        around = (*axes, *(s.variable for s in loops if isinstance(s, Loop) and not has_few_steps(s)))

        def read(node: Scalar) -> Scalar:
            return visit(node, row or (around[-1] if around else None), around) if isinstance(node, Load) else node

        return (with_parts(statement, lambda value: rewrite_scalar(value, read)),)

    return replace(kernel, body=rewrite(kernel.body, change))


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
