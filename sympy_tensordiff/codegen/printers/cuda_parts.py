"""Long sums of few entries on CUDA in two stages: kernels for parts of the sums, and kernels that add these.

The loop of a sum is cut into parts, which are an axis of an array. How many parts there are and how long they are is
computed from the sizes, as other sizes are, before any kernel runs. So both stages are kernels like all others, nothing
is added atomically, and the same values are added in the same order in every run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sympy_tensordiff.codegen.identifiers import unique
from sympy_tensordiff.codegen.loops import (
    Accumulator,
    Add,
    Array,
    Bound,
    Kernel,
    Let,
    Loop,
    Program,
    Scatter,
    Size,
    Statement,
    Step,
    Store,
)
from sympy_tensordiff.codegen.printers.cuda_blocks import (
    THREADS,
    known_bounds,
    only_inner,
    shared_statements,
    with_joined_sums,
)
from sympy_tensordiff.codegen.scalars import Load, Name, Scalar
from sympy_tensordiff.codegen.schedule.cuda import COMBINED
from sympy_tensordiff.codegen.schedule.nests import ZERO, span
from sympy_tensordiff.codegen.walk import all_names, array_shapes, own_names, rewrite, statements, subexpressions
from sympy_tensordiff.integer.affine import Affine, quotient
from sympy_tensordiff.integer.extrema import greatest, least
from sympy_tensordiff.integer.products import quotient_by, times

BLOCKS = 4 * 132
"""So many blocks of 256 threads with 64 registers are in work at a time on 132 multiprocessors."""

LEAST_ROUNDS = 96
"""What a thread adds up in a part, at least: writing and reading the parts costs as much as a few products."""

LEAST_ROUNDS_OF_BLOCKS = 16 * THREADS
"""What a block adds up in a part, at least."""

SHORT = 24
"""Loops of fewer rounds stay whole, if there are others: compilers unroll them."""


class Stages(NamedTuple):
    """A program whose long sums are computed in two stages."""

    program: Program
    rounds: Mapping[str, Mapping[str, Affine] | None]
    """Of the arrays of parts, how many rounds the loops that are cut have; None where a thread fills each entry."""
    whole: Mapping[str, str]
    """The arrays of parts, and those whose entries are made of them."""


def in_stages(program: Program) -> Stages:
    """The program in which kernels that are long sums of few entries have a first stage.

    Law: every result is the same, but for the order in which the terms of a sum are added.
    """
    taken, shapes = all_names(program), array_shapes(program)
    steps: list[Step] = []
    sizes, temporaries = list(program.sizes), list(program.temporaries)
    rounds: dict[str, dict[str, Affine] | None] = {}
    whole: dict[str, str] = {}
    for step in program.kernels:
        found = _in_parts(with_joined_sums(step), shapes[step.array], taken) if isinstance(step, Kernel) else None
        if found is None:
            steps.append(step)
            continue
        first, *_ = found.kernels
        steps += found.kernels
        sizes += found.sizes
        temporaries.append(found.array)
        rounds[first.array] = found.rounds
        whole[first.array] = step.array
    new = replace(program, kernels=tuple(steps), sizes=tuple(sizes), temporaries=tuple(temporaries))
    return Stages(new, rounds, whole)


def describe_parts(program: Program) -> str | None:
    """Whose sums are cut into parts, in a line of ``.plan``."""
    arrays = list(in_stages(program).whole.values())
    return f"in parts, of up to {BLOCKS} blocks in all: {', '.join(arrays)}" if arrays else None


class _Parts(NamedTuple):
    """The two kernels of a sum, the array between them, and what is computed before; rounds as in `Stages`."""

    kernels: tuple[Kernel, Kernel]
    array: Array
    sizes: tuple[Size, ...]
    rounds: dict[str, Affine] | None


def _in_parts(kernel: Kernel, shape: tuple[Affine, ...], taken: set[str]) -> _Parts | None:
    """Both stages of a kernel; None where its sum has a loop that cannot be cut, or is cut in no call."""
    if isinstance(kernel, Scatter) or len(kernel.body) != 3:
        return None
    start, outer, store = kernel.body
    if not isinstance(start, Accumulator) or start.reduction not in COMBINED or not isinstance(outer, Loop):
        return None
    chain = [outer]
    while isinstance(inner := only_inner(chain[-1]), Loop):
        chain.append(inner)
    own = set(own_names(kernel))
    lengths = {id(loop): _rounds(loop, own) for loop in chain}
    # Values along the last axis lie side by side: these stay together.
    values = [s.value for s in statements([outer]) if isinstance(s, Let | Add)]
    free = [loop for loop in chain if lengths[id(loop)] is not None]
    free.sort(key=lambda loop: (_is_short(lengths[id(loop)]), _place(values, loop.variable)))
    if not free:
        return None
    loop, total = free[0], lengths[id(free[0])]
    assert total is not None
    others = [length for one in chain if one is not loop and (length := lengths[id(one)]) is not None]
    is_across = _is_across(kernel, shape, values, chain[-1])
    count = _count(kernel, shape, total, times(*others), is_across)
    if count.is_constant and count.constant < 2:
        return None
    name, *names = (unique(f"{kernel.array}_{wish}", taken) for wish in ("parts", "count", "length"))
    part = unique("part", taken | own)
    number, sizes = count, list[Size]()
    if not count.is_constant:
        number = Affine.variable(names[0])
        sizes.append(Size(names[0], (count, Affine.of(1))))
    length = quotient_by(total + number - 1, number)
    if not length.is_constant:
        sizes.append(Size(names[1], (length,)))
        length = Affine.variable(names[1])
    taken.update((name, *names))
    low = loop.lows[0].form + times(Affine.variable(part), length)
    cut = replace(loop, lows=(Bound(low),), highs=(*loop.highs, Bound(low + length - 1)))

    def change(statement: Statement, _: object) -> tuple[Statement, ...]:
        is_cut = isinstance(statement, Loop) and statement.variable == loop.variable
        return (replace(cut, body=statement.body) if is_cut and isinstance(statement, Loop) else statement,)

    axes = (part, *kernel.axes)
    first = Kernel(name, axes, (start, *rewrite([outer], change), Store(Name(start.name))))
    read = Add(start.name, Load(name, tuple(map(Affine.variable, axes))), start.reduction)
    second = replace(kernel, body=(start, span(part, ZERO, number, [read]), store))
    return _Parts(
        (first, second), Array(name, (number, *shape)), tuple(sizes), None if is_across else {loop.variable: length}
    )


def _count(kernel: Kernel, shape: Sequence[Affine], total: Affine, inner: Affine, is_across: bool) -> Affine:
    """How many parts a loop of ``total`` rounds has at most, with as many ``inner`` ones in each; may be none."""
    shared, own = shared_statements(kernel), set(own_names(kernel))
    loops = [loop for loop in (shared[0].along, shared[0].across) if loop is not None] if shared else []
    has_blocks = bool(loops) and all(known_bounds(loop, own) for loop in loops) and not is_across
    places, rounds = (BLOCKS, LEAST_ROUNDS_OF_BLOCKS) if has_blocks else (BLOCKS * THREADS, LEAST_ROUNDS)
    if inner.is_constant:
        enough = [quotient(total, max(1, rounds // max(1, inner.constant)))]
    else:
        enough = [total, quotient(times(total, inner), rounds)]
    return least([*enough, quotient_by(Affine.of(places), greatest([times(*shape), Affine.of(1)]))])


def _rounds(loop: Loop, own: set[str]) -> Affine | None:
    """How many rounds a loop has at most, where these are the same for all entries; None where they are not."""
    bounds = (*loop.lows, *loop.highs)
    if len(loop.lows) > 1 or loop.lows[0].divisor > 1 or any(not own.isdisjoint(b.form.atoms()) for b in bounds):
        return None
    return least([quotient(high.form, high.divisor) + 1 for high in loop.highs]) - loop.lows[0].form


def _is_short(length: Affine | None) -> bool:
    return length is not None and length.is_constant and length.constant < SHORT


def _is_across(kernel: Kernel, shape: Sequence[Affine], values: Sequence[Scalar], inner: Loop) -> bool:
    """Whether enough entries side by side read what lies nearer than what the rounds of the innermost loop read."""
    if not kernel.axes or (shape[-1].is_constant and shape[-1].constant < THREADS):
        return False
    return _place(values, kernel.axes[-1]) > _place(values, inner.variable)


def _place(values: Sequence[Scalar], variable: str) -> int:
    """How far behind in the index of a read a variable stands: entries along the last axis lie side by side."""
    loads = [node for value in values for node in subexpressions(value) if isinstance(node, Load)]
    places = [at - len(load.index) for load in loads for at, form in enumerate(load.index) if variable in form.atoms()]
    return max(places, default=-1 - sum(len(load.index) for load in loads))
