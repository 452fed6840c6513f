"""Sums that the threads of a block share: warps add up theirs without memory, blocks those of their warps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sympy_tensordiff.codegen.ir.loops import (
    Alloc,
    Barrier,
    If,
    Loop,
    Set,
    Statement,
    accumulator,
    add,
    is_accumulator,
    let,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.nests import ZERO, exactly
from sympy_tensordiff.codegen.ir.programs import Kernel
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, Load, Name
from sympy_tensordiff.codegen.ir.steps import Shapes
from sympy_tensordiff.codegen.ir.walk import (
    added,
    forms,
    live_statements,
    loops,
    rewrite,
    scalars,
    statements,
    subexpressions,
    used_names,
)
from sympy_tensordiff.codegen.schedule.blocks import THREADS, WARP, BlockNest, NameMaker, exchange, names_in
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient
from sympy_tensordiff.integer.extrema import minimum_of
from sympy_tensordiff.integer.products import quotient_by


@dataclass(frozen=True, slots=True)
class SharedLoop:
    """A sum whose loop the threads of a GPU block share: each of ``threads`` threads adds some of the terms, and then
    they add up their partial sums.

    With a ``width``, the x axis runs over as many neighbouring entries, and the y axis over the iterations. Entries
    along ``axis`` are neighbours. A thread computes all entries along the short axis ``jam``.
    """

    variable: str
    threads: Affine
    width: int
    axis: str
    jam: str = ""
    length: Affine | None = None
    """The number of iterations; None in parts."""

    @property
    def is_across(self) -> bool:
        """Return whether neighbouring threads along x compute neighbouring entries of the result. Otherwise they
        compute terms of the sum of one entry.
        """
        return self.width > 0


MAX_JAMMED = 8
"""The most entries along an axis whose sums one thread adds up together."""


def is_jammable(kernel: Kernel, extent: Affine) -> bool:
    """Return whether one thread should compute all entries of a kernel along its last axis, of length `extent`, in
    common loops: the entries are few and share reads, and no loop depends on the axis.
    """
    if not extent.is_constant or not 2 <= extent.constant <= MAX_JAMMED:
        return False
    varying, inside = _varying(kernel), list(loops(kernel.body))
    heads = [s for s in statements(kernel.body) if isinstance(s, Loop | If)]
    if any(_names_in(replace(head, body=())) & varying for head in heads):
        return False
    reads = {node for s in statements(inside) if isinstance(s, Set) for node in subexpressions(s.value)}
    return any(isinstance(node, Load) and not names_in(node.index) & varying for node in reads)


def _names_in(statement: Statement) -> set[str]:
    """Return the names of all scalars and integers in a statement."""
    return names_in(forms([statement])) | used_names(statement)


def _varying(kernel: Kernel) -> set[str]:
    """Return the names of the integers and scalars that differ between entries along the last axis: the axis itself,
    and what is computed from it.
    """
    found, before = {kernel.axes[-1]}, 0
    own = [s for s in statements(kernel.body) if isinstance(s, Set) and isinstance(s.target, Name)]
    while len(found) > before:
        before = len(found)
        found |= {s.name for s in own if _names_in(s) & found}
    return found


class _Jam:
    """Rewrites statements so that one thread computes all entries along a short axis: each statement that depends on
    the axis is copied once per entry (unroll-and-jam).
    """

    def __init__(self, kernel: Kernel, axis: str, shapes: Shapes, fresh: NameMaker) -> None:
        self.varying: set[str] = _varying(kernel) if axis else set()
        count = shapes[kernel.array][-1].constant if axis else 1
        scalars = sorted(self.varying - {axis})
        self.entries = [
            Renaming({name: fresh(f"{name}_{number}") for name in scalars}, forms={axis: Affine.of(number)})
            for number in range(count)
        ]

    def unrolled(self, body: Sequence[Statement]) -> list[Statement]:
        """Return the statements `body` with the short last axis of the result unrolled: each statement that depends on
        this axis is written once per entry.
        """
        return list(rewrite(body, lambda statement, _: self.copies(statement)))

    def copies(self, statement: Statement) -> tuple[Statement, ...]:
        """Return one copy of ``statement`` for each entry along the short axis, to unroll the loop over this axis.

        A loop or guard is returned once, since its body contains the copies; so is a statement that is the same for all
        entries.
        """
        if isinstance(statement, Set):
            touched = _names_in(statement) | {statement.name}
            if isinstance(statement.target, Load):
                touched |= names_in(statement.target.index)
            if touched & self.varying:
                return tuple([entry.statement(statement) for entry in self.entries])
        return (statement,)


def iterations_of_thread(body: Sequence[Statement], variable: str, count: Affine, t: Affine) -> tuple[Statement, ...]:
    """Return `body` in which the loop over `variable` has only the iterations t, t + count, t + 2*count, ... of the
    thread `t`, one of `count` threads.
    """

    def with_own_iterations(statement: Statement, _: object) -> tuple[Statement, ...]:
        """Divide a loop over ``variable`` among ``count`` threads: return the loop in which thread ``t`` runs the
        iterations number t, ``t + count``, ``t + 2*count``, and so on. Other statements are unchanged.
        """
        if not isinstance(statement, Loop) or statement.variable != variable:
            return (statement,)
        step = count.constant if count.is_constant else count
        first, *others = statement.lows
        own = Affine.variable(statement.variable)
        rows = tuple([Constraint("ge", low.divisor * own - low.form) for low in others])
        inner = (If(rows, statement.body),) if rows else statement.body
        return (replace(statement, lows=(Bound(first.form + t),), body=inner, step=step),)

    return rewrite(body, with_own_iterations)


def tree_reduction(places: Sequence[Callable[[Affine], Load]], t: Affine, count: Affine, start: Set) -> list[Statement]:
    """Return the statements by which `count` threads combine their partial results pairwise, in log2(count) rounds.
    ``place(t)``, for each ``place`` in `places`, is the array entry with the result of thread `t`; the total ends up in
    ``place(0)``.

    ``start`` is the statement that initialises the accumulator: it determines the reduction, such as a sum.
    """
    body: list[Statement] = [Barrier()]
    is_power = count.is_constant and count.constant & (count.constant - 1) == 0
    step = (1 << (count.constant - 1).bit_length() if count.is_constant else THREADS) // 2
    while step:
        both = [Constraint("ge", (step - 1) - t), *([] if is_power else [Constraint("ge", count - 1 - t - step)])]
        adds = [Set(place(t), place(t + step), reduction_of(start)) for place in places]
        body += [If(tuple(both), tuple(adds)), Barrier()]
        step //= 2
    return body[:-1]


def threads_of_sum(length: Affine) -> Affine:
    """Return the number of threads that share a sum of `length` terms: 8 from 8 terms on, 16 from 16, 32 from 32, and
    32 more for every 256 terms, up to `THREADS`. It is 0 for fewer than 8 terms.
    """
    steps = ((8, 8, 1), (8, 16, 1), (16, 32, 1), (WARP, 8 * WARP, THREADS // WARP - 1))
    parts = [threads * minimum_of([quotient(length, terms), Affine.of(most)]) for threads, terms, most in steps]
    return sum(parts, ZERO)


def totals(
    parts: Mapping[str, str],
    places: Mapping[str, Callable[[Affine], Load]],
    t: Affine,
    count: Affine,
    start: Set,
    fresh: NameMaker,
) -> list[Statement]:
    """Return GPU statements that sum up the partial sums of `count` neighbouring threads, of which ``t`` is one, and
    give each of them the totals. ``parts`` maps the names of totals to those of partial sums.

    ``places`` maps partial sums to their entries in shared memory; ``start`` is the statement that initialises a total.

    The threads of a warp exchange their sums, and store them for the other warps. ``fresh`` returns new names.
    """
    reduction = reduction_of(start)
    is_warp = count.is_constant and count.constant <= WARP
    own = {name: name if is_warp else fresh(f"{part}_of_warp") for name, part in parts.items()}
    body: list[Statement] = [exchange(own[name], part, count, reduction) for name, part in parts.items()]
    if is_warp:
        return body
    first = fresh("first")
    body += [Set(places[name](t), Name(warp)) for name, warp in own.items()]
    body += [Barrier(), *(accumulator(name, reduction) for name in parts)]
    adds = tuple([add(name, places[name](Affine.variable(first)), reduction) for name in parts])
    return [*body, Loop(first, (Bound(ZERO),), (Bound(count - 1),), adds, WARP)]


def sum_nest(kernel: Kernel, shared_loop: SharedLoop, shapes: Shapes, fresh: NameMaker) -> BlockNest:
    """Return the loop nest of `kernel` for the GPU in which the threads of a block share the iterations of its sum, as
    ``shared_loop`` says, and then add up their partial sums. ``shapes`` maps arrays to shapes; ``fresh`` returns new
    names.
    """
    number = next(
        n for n, s in enumerate(kernel.body) if shared_loop.variable in {loop.variable for loop in loops([s])}
    )
    outer = kernel.body[number]
    before, after = kernel.body[:number], kernel.body[number + 1 :]
    start = next(s for s in before if is_accumulator(s) and s.name in added([outer]))
    jam = _Jam(kernel, shared_loop.jam, shapes, fresh)
    starts = jam.copies(start)
    x, y = fresh("x"), fresh("y")
    partial = {s.name: fresh("partial") for s in starts if isinstance(s, Set)}
    count = shared_loop.threads
    box = [pair for pair in zip(kernel.axes, shapes[kernel.array], strict=True) if pair[0] != shared_loop.jam]
    box.sort(key=lambda pair: pair[0] == shared_loop.axis)
    height = quotient_by(Affine.of(THREADS), count) if box else Affine.of(1)
    is_alone = not shared_loop.is_across and height == Affine.of(1)
    t = Affine.variable(y if shared_loop.is_across else x)
    e = ZERO if is_alone else Affine.variable(x if shared_loop.is_across else y)

    def place(name: str, thread: Affine) -> Load:
        """Return the entry of a shared array in which ``thread`` stores its partial sum of the total ``name``."""
        return Load(partial[name], (thread, e) if shared_loop.is_across else (e, thread))

    rows = [Constraint("ge", extent - 1 - Affine.variable(axis)) for axis, extent in box[:1]]
    inside = () if is_alone else tuple(rows)
    lets = [s for s in before if s is not start]
    first = jam.unrolled(
        [*live_statements(lets, used_names(outer)), *iterations_of_thread([outer], shared_loop.variable, count, t)]
    )
    body: list[Statement] = [*starts, *([If(inside, tuple(first))] if inside else first)]
    places = {name: functools.partial(place, name) for name in partial}
    last = jam.unrolled([*live_statements(lets, {n for s in after for n in used_names(s)}), *after])
    if shared_loop.is_across:
        body += [Set(places[name](t), Name(name)) for name in partial]
        body += tree_reduction([*places.values()], t, count, start)
        last = [*(let(name, places[name](ZERO)) for name in partial), *last]
    else:
        parts = {name: fresh(f"{name}_part") for name in partial}
        body = [*Renaming(parts).body(tuple(body)), *totals(parts, places, t, count, start, fresh)]
    body.append(If((*inside, Constraint("eq", t)), tuple(last)))
    width, height = (Affine.of(shared_loop.width), count) if shared_loop.is_across else (count, height)
    read = {node.array for node in scalars(body) if isinstance(node, Load)}
    names = [name for name in partial.values() if name in read]
    shared = tuple([Alloc(name, (exactly(height), exactly(width)), kernel.array) for name in names])
    blocks, entries = (tuple(box), ()) if is_alone else ((), tuple(box))
    along = "" if is_alone else "x" if shared_loop.is_across else "y"
    return BlockNest(tuple(body), (x, width), (y, height), shared, blocks, entries, along)
