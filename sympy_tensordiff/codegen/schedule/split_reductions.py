"""Two-stage reductions on CUDA (split-K): kernels of partial sums, and kernels that add these.

Kernels have one thread for each entry. Where these are few, the loop of a sum is divided into parts, which are an axis
of an array: a part takes every m-th iteration, so that neighbouring threads read neighbouring entries. The number of
parts is computed from the sizes, as other sizes are, before any kernel runs. So all stages are kernels like all
others, no thread waits for another one, and the same values are added in the same order in every run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from sympy_tensordiff.codegen.ir.loops import (
    If,
    Loop,
    Set,
    Statement,
    is_accumulator,
    is_addition,
    is_let,
    let,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.nests import ZERO, span
from sympy_tensordiff.codegen.ir.programs import Array, Kernel, Program, Scatter, Size, Step, entrywise
from sympy_tensordiff.codegen.ir.rename import reserve_name, unique
from sympy_tensordiff.codegen.ir.scalars import Bound, Name
from sympy_tensordiff.codegen.ir.walk import (
    Around,
    added,
    all_names,
    array_shapes,
    declared,
    live_statements,
    own_names,
    rewrite,
    statements,
    used_names,
)
from sympy_tensordiff.codegen.schedule.blocks import THREADS, WARP
from sympy_tensordiff.codegen.schedule.diagonals import values_of
from sympy_tensordiff.codegen.schedule.joined_sums import FREE, split_off_definitions, with_joined_sums
from sympy_tensordiff.codegen.schedule.sectors import neighbours, sectors, width_of
from sympy_tensordiff.codegen.schedule.shared_sums import SharedLoop, is_jammable, threads_of_sum
from sympy_tensordiff.codegen.schedule.tiles import tiling, without_guard
from sympy_tensordiff.integer.affine import Affine, quotient
from sympy_tensordiff.integer.extrema import maximum_of, minimum_of
from sympy_tensordiff.integer.indirect import bound_of_data
from sympy_tensordiff.integer.products import quotient_by, times

SHORT = 24
"""Loops of fewer rounds stay whole, if there are others: compilers unroll them."""

SHORT_WORK = 32
"""The most terms of each thread of a block for which a sum has one launch, if their number is known: in the time of a
second launch, a thread adds about as many.
"""

MOST_PARTS = 256
"""The most parts of a sum that blocks of threads compute: twice as many as there are multiprocessors."""


class Stages(NamedTuple):
    """A program after long sums were split into two stages, partial sums and totals. ``whole`` maps each array of
    partial sums to the array of the totals.
    """

    program: Program
    whole: dict[str, str]


def _in_stages(program: Program, work: _Stages) -> Stages:
    """Return the program in which each long reduction is split for the GPU by `work`: one kernel computes partial sums,
    another one adds them up.
    """
    steps: list[Step] = []
    for step in program.kernels:
        for part in work.prepared_steps(step):
            kernel = with_joined_sums(part) if isinstance(part, Kernel) else None
            unguarded = kernel and without_guard(kernel, work.shapes)
            if kernel and unguarded and tiling(unguarded, work.shapes) is not None:
                steps += work.stages(unguarded, kernel.array)
                continue
            stages = work.stages(kernel, kernel.array) if kernel else []
            steps += stages if len(stages) > 1 else [part]
    new = [Array(name, work.shapes[name]) for name in (*work.values, *work.whole)]
    return Stages(replace(program, sizes=tuple(work.sizes)).with_steps(steps, new=new), work.whole)


class ChosenLoop(NamedTuple):
    """The loop of a long sum that GPU threads or blocks are to share: its number of iterations, the loops around it and
    inside of it, and how it is shared.
    """

    loop: Loop
    length: Affine
    others: list[tuple[Loop, Affine]]
    """The loops around it and inside, with their numbers of iterations."""
    width: int
    """The entries side by side that a block computes together; 0 if all of its threads share the same sums."""
    axis: str
    """The axis along which entries are side by side."""
    jam: str
    """The short axis whose entries a thread computes together; "" for none."""
    chunk: int
    """The consecutive iterations of a part of a product."""
    start: Set
    before: list[Statement]

    @property
    def is_across(self) -> bool:
        """Return whether neighbouring threads compute neighbouring entries of the result. Otherwise they compute
        neighbouring terms of the sum of one entry.
        """
        return self.width > 0

    @property
    def work(self) -> Affine:
        """The number of terms of the sum, over all of its loops."""
        return times(self.length, *(length for _, length in self.others))

    @property
    def threads(self) -> int:
        """The number of threads of a block that share one sum; the others compute neighbouring entries."""
        return 1 << ((THREADS // self.width).bit_length() - 1)


class _Stages:
    """Splits the long reductions of one program among blocks of GPU threads: a kernel for partial sums and, if needed,
    a second one that adds these up.
    """

    def __init__(self, program: Program) -> None:
        self.taken = all_names(program)
        self.shapes = array_shapes(program)
        self.sizes = list(program.sizes)
        self.whole: dict[str, str] = {}
        self.shared_loops: dict[str, SharedLoop] = {}
        self.values: list[str] = []
        """The arrays of values that scatters add."""
        self.levels: dict[str, int] = {}
        """How often the sum has been cut whose parts an axis numbers, by the axis."""

    def prepared_steps(self, step: Step) -> Sequence[Step]:
        """Return the steps that replace `step` before its long sums are split. For a scatter that adds sums, one kernel
        stores the sums, and a scatter adds them; for a sum with a matrix product in each term, one kernel stores the
        products, and one sums. Any other step is returned alone.
        """
        if not isinstance(step, Kernel):
            return [step]
        return self.with_values(step) if isinstance(step, Scatter) else self.with_stored_products(step)

    def with_stored_products(self, kernel: Kernel) -> list[Kernel]:
        """Split a sum over a matrix product, ``sum(b[i, k]*sum(A[i, j]*C[j, k], j), k)``, into two kernels: the first
        stores the product and can be tiled, the second sums. Return both in a list, or only `kernel` if there is no
        such product.
        """
        for number, loop in enumerate(kernel.body):
            if not isinstance(loop, Loop) or loop.step != 1 or loop.lows != (Bound(ZERO),) or len(loop.highs) > 1:
                continue
            high, known = loop.highs[0], {*own_names(kernel)}
            if high.divisor > 1 or not known.isdisjoint(map(str, high.form.atoms())):
                continue
            for at, (start, inner) in enumerate(pairwise(loop.body)):
                outside = declared([*kernel.body[:number], *loop.body[:at]]).keys()
                if not (is_accumulator(start) and isinstance(inner, Loop)) or outside & set(used_names(inner)):
                    continue
                assert isinstance(start, Set)
                name = reserve_name(f"{kernel.array}_{start.name}", self.taken)
                product = entrywise(name, (*kernel.axes, loop.variable), [start, inner], Name(start.name))
                self.shapes[name] = (*self.shapes[kernel.array], high.form + 1)
                if tiling(product, self.shapes) is None:
                    continue
                self.values.append(name)
                rest = (*loop.body[:at], let(start.name, product.entry), *loop.body[at + 2 :])
                body = (*kernel.body[:number], replace(loop, body=rest), *kernel.body[number + 1 :])
                return [product, replace(kernel, body=body)]
        return [kernel]

    def with_values(self, scatter: Scatter) -> list[Kernel]:
        """Split a scatter in which each entry gets one sum, such as a sum added to each diagonal entry, into two
        kernels: the first stores the sums, the second adds them to the entries. Return ``[scatter]`` if it is of
        another kind.
        """
        found = values_of(scatter, self.taken)
        if found is None:
            return [scatter]
        self.shapes[found[0].array] = scatter.extents
        self.values.append(found[0].array)
        return list(found)

    def chosen_loop(self, kernel: Kernel, number: int, outer: Loop | If, most: int) -> ChosenLoop | None:
        """Return the loop of the reduction ``outer``, statement ``number`` of the kernel's body, that GPU threads
        should share; None if there is none. Loops that have been split ``most`` times already do not count.
        """
        start, before = (
            _initial_assignment(kernel.body, outer),
            live_statements(kernel.body[:number], used_names(outer)),
        )
        if start is None or any(map(is_accumulator, before)):
            return None
        chain = [one for one in _chain(outer) if self.levels.get(one.variable, 0) < most]
        own = set(own_names(kernel))
        box = dict(zip(kernel.axes, kernel.box(self.shapes), strict=True))
        is_one = sum(isinstance(s, Loop | If) for s in kernel.body) == 1
        jam = kernel.axes[-1] if kernel.axes and is_one and is_jammable(kernel, box[kernel.axes[-1]]) else ""
        lengths: dict[str, Affine] = {}
        for loop in chain:
            # An inner loop may depend on the axes, and on loops around it that start at 0.
            outside = [one for one in chain if one.variable in lengths and one.lows == (Bound(ZERO),)]
            length = rounds(loop, own, box | {one.variable: lengths[one.variable] for one in outside})
            lengths |= {} if length is None else {loop.variable: length}
        free = [loop for loop in chain if loop.variable in lengths]
        if not free:
            return None
        # Neighbouring threads read neighbouring entries: rounds of the innermost loop, or else entries along the last
        # axis.
        values = [s.value for s in statements([outer]) if is_let(s) or is_addition(s)]
        free.sort(key=lambda loop: (_is_short(lengths[loop.variable]), sectors(values, {loop.variable: WARP})))
        box.pop(jam, None)
        axis = min(reversed(box), key=lambda one: sectors(values, neighbours(box, one)), default="")
        gains = bool(box) and sectors(values, neighbours(box, axis)) < sectors(values, {free[0].variable: WARP})
        width = width_of(box) if gains else 0
        others = [(one, lengths[one.variable]) for one in chain if one in free[1:]]
        return ChosenLoop(free[0], lengths[free[0].variable], others, width, axis, jam, 1, start, before)

    def parts(
        self,
        kernel: Kernel,
        number: int,
        outer: Loop | If,
        chosen: ChosenLoop,
        count: Affine,
        array: str,
        chunk: int = 1,
    ) -> tuple[Kernel, Kernel]:
        """Split the long reduction ``outer`` of ``kernel`` into two kernels (split-K): the first computes ``count``
        partial sums, the second adds them into ``array``. Return both.

        ``outer`` is statement ``number`` of the kernel's body. The iterations of the loop in ``chosen`` are divided:
        partial sum p has the chunks p, p + count, ... of ``chunk`` iterations each.
        """
        loop, start, before = chosen.loop, chosen.start, chosen.before
        shape, own = self.shapes[kernel.array], set(own_names(kernel))
        box = dict(zip(kernel.axes, kernel.box(self.shapes), strict=True))
        name, part = reserve_name(f"{kernel.array}_parts", self.taken), unique("part", self.taken | own)
        self.taken.add(part)
        self.levels[part] = self.levels.get(loop.variable, 0) + 1
        low = loop.lows[0].form + chunk * Affine.variable(part)
        first_of_chunk = unique(f"{loop.variable}_first", self.taken | own) if chunk > 1 else loop.variable

        def with_part_of_loop(statement: Statement, _: Around) -> tuple[Statement, ...]:
            """Return `statement`, if it is the loop that the enclosing method splits, restricted to the iterations of
            one partial sum: every ``count``-th iteration, or every ``count``-th chunk of ``chunk`` iterations. Other
            statements are unchanged.
            """
            if not isinstance(statement, Loop) or statement.variable != loop.variable:
                return (statement,)
            if chunk == 1:
                return (replace(statement, lows=(Bound(low),), step=count),)
            begin, whole = Affine.variable(first_of_chunk), at_extremes(statement, box)
            highs = (Bound(begin + (chunk - 1)), *statement.highs)
            lows = (Bound(begin), *(statement.lows if whole.lows != statement.lows else ()))
            rest = replace(statement, lows=lows, highs=highs)
            start_of_part = Bound(whole.lows[0].form + chunk * Affine.variable(part))
            return (Loop(first_of_chunk, (start_of_part,), whole.highs, (rest,), chunk * count),)

        is_first = chosen.is_across or chosen.jam
        order = (part, *kernel.axes) if is_first else (*kernel.axes, part)
        self.shapes[name] = (count, *shape) if is_first else (*shape, count)
        self.whole[name] = array
        first = entrywise(name, order, [*before, start, *rewrite([outer], with_part_of_loop)], Name(start.name))
        read = Set(start.target, first.entry, reduction_of(start))
        body = (*kernel.body[:number], span(part, ZERO, count, [read]), *kernel.body[number + 1 :])
        return first, replace(kernel, body=tuple(live_statements(body, set())))

    def size(self, wish: str, value: Affine, least: int = 1) -> Affine:
        """Return a new size with a name like ``wish`` and the value ``max(value, least)``, which the host computes
        before any kernel runs.
        """
        self.sizes.append(Size(reserve_name(wish, self.taken), (value, Affine.of(least))))
        return Affine.variable(self.sizes[-1].name)

    def stages(self, kernel: Kernel, array: str) -> list[Kernel]:
        """Split the long sums of `kernel` if this is useful: return kernels that compute partial sums, followed by the
        one that adds them up to `array`; else `kernel` alone. Loops that the threads of a block are to share are
        recorded in ``shared_loops``.
        """
        sums = [number for number, statement in enumerate(kernel.body) if isinstance(statement, Loop | If)]
        for number in sums if not isinstance(kernel, Scatter) and (len(sums) == 1 or len(kernel.axes) < 2) else ():
            outer = kernel.body[number]
            assert isinstance(outer, Loop | If)
            chosen = self.chosen_loop(kernel, number, outer, 2)
            if chosen is None or _is_short(chosen.length):
                continue
            shape, tile = self.shapes[kernel.array], 0
            plan = tiling(kernel, self.shapes) if len(sums) == 1 else None
            if plan is not None:
                # Parts are rounds of the outermost loop, or chunks of the only one.
                box, tile = dict(zip(kernel.axes, shape, strict=True)), plan.sums
                length = rounds(plan.loops[0], set(own_names(kernel)), box)
                if length is None:
                    return [kernel]
                chunk = 256 if len(plan.loops) == 1 else 1
                chosen = chosen._replace(loop=plan.loops[0], length=length, width=WARP, jam="", chunk=chunk)
            elif (found := self.in_parts_of_another_loop(kernel, number, chosen, array)) is not None:
                return found
            is_part = chosen.loop.variable in self.levels
            chunk, parts = self.part_count(shape, chosen, tile)
            is_few = (entries := times(*shape)).is_constant and entries.constant <= MOST_PARTS // 2
            if (chosen.is_across or is_few) and not is_part and parts != Affine.of(1):
                count = parts if parts.is_constant else self.size(f"{array}_count", parts)
                first, second = self.parts(kernel, number, outer, chosen, count, array, chunk)
                if plan is None:
                    self.shared_loops[first.array] = SharedLoop(
                        chosen.loop.variable, Affine.of(chunk), chosen.width, chosen.axis, chosen.jam
                    )
                return [first, *self.stages(second, array)]
            if plan is None and len(sums) == 1 and not (is_part and kernel.axes):
                self.share_loop(kernel, chosen, array)
        return [kernel]

    def part_count(self, shape: Sequence[Affine], chosen: ChosenLoop, tile: int) -> tuple[int, Affine]:
        """Return ``(chunk, parts)`` for splitting a sum over the ``chosen`` loop into ``parts`` partial sums that fill
        the GPU; each takes ``chunk`` consecutive iterations at a time.

        ``shape`` is the shape of the array of totals; ``tile`` is the number of sums that a block computes in tiles, or
        0.
        """
        if tile:
            chunk, at_once = chosen.chunk, tile
            enough = [quotient(chosen.length, chunk)]
        elif chosen.is_across:
            chunk, at_once = chosen.threads, chosen.width
            enough = [quotient(chosen.length + (chunk - 1), chunk), quotient(chosen.work, 8 * chunk)]
        else:
            chunk, enough, at_once = 256, [quotient(chosen.length + 255, 256), quotient(chosen.work, 2048)], 1
        if not tile and chosen.work.is_constant and chosen.work.constant <= SHORT_WORK * THREADS:
            return chunk, Affine.of(1)
        room = quotient_by(Affine.of(MOST_PARTS * at_once), maximum_of([times(*shape), Affine.of(1)]))
        parts = minimum_of([*enough, Affine.of(MOST_PARTS), room])
        return chunk, Affine.of(1) if parts.is_constant and parts.constant < 1 else parts

    def share_loop(self, kernel: Kernel, chosen: ChosenLoop, array: str) -> None:
        """Record that the threads of a block share the iterations of the loop `chosen` in `kernel`, unless one thread
        is enough. Names of new sizes are derived from `array`, the array that the kernel fills.
        """
        if chosen.loop.step != 1 or len(chosen.loop.lows) > 1:
            return
        # A block with a single sum has whole warps.
        least = 1 if any(axis != chosen.jam for axis in kernel.axes) else WARP
        threads = self.thread_count(chosen, array, least)
        if threads != Affine.of(1):
            self.shared_loops[kernel.array] = SharedLoop(
                chosen.loop.variable, threads, chosen.width, chosen.axis, chosen.jam, chosen.length
            )

    def thread_count(self, chosen: ChosenLoop, array: str, least: int = 1) -> Affine:
        """Return how many threads share one sum over the ``chosen`` loop, at least ``least``. If this depends on sizes,
        it is a new size, named after ``array``, that the host computes.
        """
        if chosen.is_across:
            return Affine.of(chosen.threads)
        threads = threads_of_sum(chosen.length)
        if not threads.is_constant:
            return self.size(f"{array}_threads", threads, least)
        return Affine.of(max(threads.constant, least))

    def in_parts_of_another_loop(
        self, kernel: Kernel, number: int, chosen: ChosenLoop, array: str
    ) -> list[Kernel] | None:
        """Split statement ``number`` of `kernel`, a sum over several long loops for few entries, over two levels of a
        GPU: blocks of threads divide one loop, and the threads of a block divide the loop ``chosen``. Return kernels
        that compute partial sums and add them up in ``array``; None if there is no second long loop, or too little
        work.
        """
        entries = times(*self.shapes[kernel.array])
        is_few = entries.is_constant and entries.constant <= 4 * MOST_PARTS
        long = [pair for pair in chosen.others if not _is_short(pair[1]) and pair[0].variable not in self.levels]
        if not long or not (chosen.is_across or is_few) or {chosen.loop.step, long[0][0].step} != {1}:
            return None
        loop, length = long[0]
        threads = self.thread_count(chosen, array)
        at_once = MOST_PARTS * (chosen.width or THREADS)
        room = quotient_by(
            Affine.of(at_once), maximum_of([times(entries, *([] if chosen.is_across else [threads])), Affine.of(1)])
        )
        count = minimum_of([length, room])
        if threads == Affine.of(1) or (count.is_constant and count.constant < 2):
            return None
        count = count if count.is_constant else self.size(f"{array}_count", count)
        outer = kernel.body[number]
        assert isinstance(outer, Loop | If)
        first, second = self.parts(kernel, number, outer, chosen._replace(loop=loop), count, array)
        self.shared_loops[first.array] = SharedLoop(
            chosen.loop.variable, threads, chosen.width, chosen.axis, chosen.jam
        )
        return [first, *self.stages(second, array)]


def in_blocks(program: Program) -> tuple[Stages, dict[str, SharedLoop]]:
    """Return the program with long sums distributed over the threads of GPU blocks, and a dictionary from array names
    to the loops that threads share.

    Law: every result is the same, but for the order in which the terms of a sum are added.
    """
    work = _Stages(program)
    return _in_stages(program, work), work.shared_loops


def _initial_assignment(body: Sequence[Statement], outer: Statement) -> Set | None:
    """Return the statement in `body` that initialises the accumulator of the loop `outer`. None unless the loop
    computes a single reduction whose terms may be combined in any order.
    """
    adds, others = added([outer]), [name for s in body if s is not outer for name in added([s])]
    starts = [s for s in body if is_accumulator(s) and s.name in adds and reduction_of(s) in FREE]
    return starts[0] if len(adds) == 1 == len(starts) and starts[0].name not in others else None


def _chain(statement: Statement) -> list[Loop]:
    """Return `statement` and the loops nested in it, as long as each contains nothing but the next loop and definitions
    of scalars.
    """
    found: list[Loop] = []
    while isinstance(statement, Loop | If):
        found += [statement] if isinstance(statement, Loop) else []
        _, rest = split_off_definitions(statement.body)
        if len(rest) != 1:
            break
        statement = rest[0]
    return found


def rounds(loop: Loop, own: set[str], box: Mapping[str, Affine] | None = None) -> Affine | None:
    """Return an upper bound of the number of iterations of `loop` that the host can compute without reading data; None
    if there is none.

    It holds for all values of the axes in ``box`` (a dictionary to their extents), and contains no variable in `own`.
    """
    loop = at_extremes(loop, box or {})
    if len(loop.lows) > 1 or loop.lows[0].divisor > 1:
        return None
    low = bound_of_data(loop.lows[0].form, -1)  # the host, which counts threads, reads no data
    highs = [(form, high.divisor) for high in loop.highs if (form := bound_of_data(high.form, 1)) is not None]
    if (
        low is None
        or not highs
        or any(not own.isdisjoint(form.atoms()) for form in (low, *(form for form, _ in highs)))
    ):
        return None
    return minimum_of([quotient(form, divisor) + 1 for form, divisor in highs]) - low


def at_extremes(loop: Loop, box: Mapping[str, Affine]) -> Loop:
    """Return a loop over the union of the ranges that `loop` has for all values of the axes in ``box`` (axes with
    extents): ``j < n`` instead of ``j <= i``.

    Bounds with an axis in an index of data, or below a division, keep it: data need not rise or fall with it.
    """
    for axis, extent in box.items():
        lows = tuple([_at_extreme(bound, axis, extent, 1) for bound in loop.lows])
        loop = replace(loop, lows=lows, highs=tuple([_at_extreme(bound, axis, extent, -1) for bound in loop.highs]))
    return loop


def _at_extreme(bound: Bound, axis: str, extent: Affine, sign: int) -> Bound:
    """Return `bound`, the lower bound of a loop (the upper one for ``sign=-1``), with `axis` replaced by 0 or by
    ``extent - 1``, whichever makes the loop longer.
    """
    if axis in bound.form.hidden():
        return bound
    end = ZERO if sign * bound.form.coefficient(axis) > 0 else extent - 1
    return replace(bound, form=bound.form.substitute({axis: end}))


def _is_short(length: Affine) -> bool:
    """Return whether `length` is a small constant, so that a sum over so few terms is not worth splitting."""
    return length.is_constant and length.constant < SHORT
