"""The schedules of kernels on a device: loops that are bound to the coordinates of threads and blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sympy_tensordiff.codegen.loops import Accumulator, Add, If, Kernel, Loop, Statement
from sympy_tensordiff.codegen.scalars import Load, Name, Operation
from sympy_tensordiff.codegen.schedule.nests import ZERO, explicit, span
from sympy_tensordiff.codegen.walk import Around, rewrite
from sympy_tensordiff.integer.affine import Affine, Row

COMBINED = {"sum": "block_sum", "max": "block_max", "min": "block_min"}
"""The functions that combine the values of all threads, by reductions: those whose order does not matter."""

THREAD = ("cuda.threadIdx.x", "cuda.threadIdx.y")
"""The coordinates of a thread in its block."""


def thread_nest(kernel: Kernel, box: Sequence[Affine]) -> tuple[Statement, ...]:
    """A kernel with one thread for each entry."""
    return _bound(kernel, box, "grid", explicit(kernel.body, _entry(kernel)))


def block_nest(
    kernel: Kernel, box: Sequence[Affine], bound: Mapping[int, Mapping[int, str]], fresh: Callable[[str], str]
) -> tuple[Statement, ...]:
    """A kernel with one block for each entry, whose threads share the rounds of loops and combine what they have.

    Parameters
    ----------
    kernel : Kernel
    box : sequence of Affine
        The extents of its axes.
    bound : mapping
        By the identities of statements of its body, the coordinates of the loops in them, by theirs.
    fresh : callable
        Makes names.
    """
    found: list[Statement] = []
    for statement in kernel.body[:-1]:
        inner = bound.get(id(statement))
        found += [statement] if inner is None else _shared(statement, inner, found, fresh)
    alone = tuple([Row("eq", Affine.variable(coordinate)) for coordinate in THREAD])
    return _bound(kernel, box, "block", explicit([*found, If(alone, kernel.body[-1:])], _entry(kernel)))


def _shared(
    statement: Statement, bound: Mapping[int, str], before: Sequence[Statement], fresh: Callable[[str], str]
) -> Iterable[Statement]:
    """A statement of which each thread has some rounds, and a part of what is declared before it."""
    assert isinstance(statement, Loop | If)
    outside = {one.name for one in before if isinstance(one, Accumulator)}
    parts: dict[str, Add] = {}

    def part(one: Statement, _: Around) -> tuple[Statement, ...]:
        if isinstance(one, Add) and one.name in outside:
            parts[one.name] = replace(
                one, name=parts[one.name].name if one.name in parts else fresh(f"{one.name}_part")
            )
            return (parts[one.name],)
        return (one,)

    inside = rewrite(_with_coordinates([statement], bound), part)
    yield from [Accumulator(add.name, add.reduction) for add in parts.values()]
    yield from inside
    for name, add in parts.items():
        yield Add(name, Operation(COMBINED[add.reduction], (Name(add.name),)), add.reduction)


def _with_coordinates(body: Iterable[Statement], bound: Mapping[int, str]) -> tuple[Statement, ...]:
    """Loops bound to coordinates, which are given by the identities of the loops."""
    found = []
    for one in body:
        new = replace(one, body=_with_coordinates(one.body, bound)) if isinstance(one, Loop | If) else one
        found.append(replace(new, bind=bound.get(id(one), "")) if isinstance(new, Loop) else new)
    return tuple(found)


def _entry(kernel: Kernel) -> Load:
    return Load(kernel.array, tuple(map(Affine.variable, kernel.axes)))


def _bound(kernel: Kernel, box: Sequence[Affine], kind: str, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Statements in loops over the axes: the last one along x, the one before along y, the others along z."""
    for number, (axis, extent) in enumerate(zip(reversed(kernel.axes), reversed(box), strict=True)):
        body = (replace(span(axis, ZERO, extent, body), bind=f"{kind}.{'xyz'[min(number, 2)]}"),)
    return body
