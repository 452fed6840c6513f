"""Loop interchange for sums over rows: the loop over the last axis moves inside of the sum.

Where a summation index runs down a column, memory is read in strides, and no processor
vectorises that. With the last axis innermost instead, and one accumulator for each of its
entries, the reads run along rows: several times as fast. So do sums of few terms along a window that
moves with the row. Other reductions are scans (`scans`), which make one pass along the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TypeAlias

from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.loops import (
    If,
    Loop,
    Set,
    Statement,
    defines,
    is_accumulator,
    is_addition,
    is_let,
    is_scatter,
)
from sympy_tensordiff.codegen.ir.programs import Kernel, Scatter
from sympy_tensordiff.codegen.ir.rare_loops import condition_of_loop
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, Load, Name
from sympy_tensordiff.codegen.ir.walk import (
    dependences,
    forms,
    head_forms,
    rewrite,
    scalars,
    statements,
)
from sympy_tensordiff.codegen.ir.walk import loops as inner_loops
from sympy_tensordiff.codegen.schedule.scans import PrefixScan, find_scans, may_have_scans
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import data_entries


def most_steps(loop: Loop) -> int | None:
    """Return the greatest number of iterations of `loop`, if its bounds show that this is a constant; else None."""
    pairs = product(loop.lows, loop.highs)
    spans = [high.form - low.form for low, high in pairs if low.divisor == high.divisor == 1]
    return min((max(span.constant + 1, 0) for span in spans if span.is_constant), default=None)


Bounds: TypeAlias = tuple[Bound, ...]


def interchange_bounds(loop: Loop, axis: str) -> tuple[Loop, Bounds, Bounds] | None:
    """Return ``(loop, lower bounds, upper bounds)`` for interchanging `loop` with the loop over `axis` around it:
    `loop` without its bounds that depend on `axis`, and the bounds of `axis` that replace them. For the axis i and a
    loop over j, ``j <= i`` is replaced by ``i >= j``.

    None if a bound cannot be solved for `axis`, or if `loop` would have no lower or no upper bound.
    """
    variable, place = Affine.variable(loop.variable), Affine.variable(axis)
    ends: tuple[list[Bound], list[Bound]] = [], []
    remaining: tuple[list[Bound], list[Bound]] = [], []
    for side, found in enumerate((loop.lows, loop.highs)):
        for bound in found:
            factor = bound.form.coefficient(axis)
            if axis not in bound.form.atoms():
                remaining[side].append(bound)
            elif abs(factor) == 1 and bound.divisor == 1 and axis not in bound.form.hidden():
                # variable >= axis + rest is axis <= variable - rest, and so on.
                ends[side ^ (factor == 1)].append(Bound((variable - bound.form) * factor + place))
            else:
                return None
    if not all(remaining):
        return None
    return replace(loop, lows=tuple(remaining[0]), highs=tuple(remaining[1])), tuple(ends[0]), tuple(ends[1])


def guard_bounds(test: If, axis: str) -> tuple[tuple[Constraint, ...], Bounds, Bounds] | None:
    """Return ``(conditions, lower bounds, upper bounds)`` to replace the guard `test` when the loop over `axis` is
    moved inside of it: its conditions without ``axis``, and those on ``axis`` as bounds of this loop, such as ``i >=
    1``. None if a condition on ``axis`` is not such a bound.
    """
    others: list[Constraint] = []
    ends: tuple[list[Bound], list[Bound]] = [], []
    place = Affine.variable(axis)
    for row in test.conditions:
        factor = row.form.coefficient(axis)
        if axis not in row.form.atoms():
            others.append(row)
        elif row.kind == "ge" and abs(factor) == 1 and axis not in row.form.hidden():
            ends[factor < 0].append(Bound(place - row.form * factor))
        else:
            return None
    return tuple(others), tuple(ends[0]), tuple(ends[1])


def with_guards_inside(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """Return `body` with each guard around loops moved into these loops: ``if p >= 1: for i: s += x[p - 1, i]`` becomes
    a loop with the test inside. The loops are then at the top level.

    Guards around values that loops use stay, and so do those that read data.
    """
    found: list[Statement] = []
    for statement in body:
        inside = statement.body if isinstance(statement, If) else ()
        loops = [part for part in inside if isinstance(part, Loop)]
        if not loops or any(map(is_let, inside)) or data_entries(head_forms(statement)):
            found.append(statement)
            continue
        assert isinstance(statement, If)
        for part in inside:
            if is_accumulator(part):
                found.append(part)
            elif isinstance(part, Loop):
                found.append(replace(part, body=(replace(statement, body=part.body),)))
            else:
                found.append(replace(statement, body=(part,)))
    return tuple(found)


MOVING = 16
"""A moving window of fewer steps than this is one for all entries of a row; the terms of others are added per entry.

Time of sums over a moving index, with the loop over the window outside and inside, by the number of its steps, for rows
of 2,000 entries: 9 0.63, 13 0.48, 17 1.66, 23 1.29, 31 1.65; for 20,000 entries 17 1.88, for 30,000 9 0.35.
"""


def windowed(loop: Loop, axis: str) -> Loop:
    """Return `loop`, over a short window that moves with `axis`, such as ``for i in range(p - 2, p + 1)``, as a loop
    that begins at 0. Other loops are unchanged.

    >>> from sympy_tensordiff.codegen.ir.loops import let
    >>> from sympy_tensordiff.codegen.ir.scalars import Load
    >>> i, p, last = Affine.variable("i"), Affine.variable("p"), Bound(Affine.of(99))
    >>> body = (let("v", Load("x", (i,))),)
    >>> found = windowed(Loop("i", (Bound(Affine.of(0)), Bound(p - 2)), (last, Bound(p)), body), "p")
    >>> [str(bound.form) for bound in (*found.lows, *found.highs)], str(found.body[0].value.index[0])
    (['0', '-p + 2', '2', '-p + 101'], 'i + p - 2')
    """
    (lows, low_ends), (highs, high_ends) = (
        ([b for b in side if axis not in b.form.atoms()], [b for b in side if axis in b.form.atoms()])
        for side in (loop.lows, loop.highs)
    )
    if len(low_ends) != 1 or len(high_ends) != 1 or any(b.divisor > 1 for b in (*loop.lows, *loop.highs)):
        return loop
    first, width = low_ends[0].form, high_ends[0].form - low_ends[0].form
    whole = most_steps(replace(loop, lows=tuple(lows), highs=tuple(highs)))
    if not width.is_constant or width.constant + 1 >= MOVING or (whole is not None and whole <= width.constant + 1):
        return loop
    lows, highs = ([Bound(b.form - first) for b in side] for side in (lows, highs))
    moved = Renaming({}, forms={loop.variable: Affine.variable(loop.variable) + first}).body(loop.body)
    return replace(loop, lows=(Bound(Affine()), *lows), highs=(Bound(width), *highs), body=moved)


def with_guard_for_bounds(loop: Loop, axis: str) -> Loop | None:
    """Return `loop` with the bounds that contain `axis` turned into a guard in its body, so that the loop over the axis
    can be moved inside. None if no lower or no upper bound would remain, if the step is not 1, or if such a bound has a
    divisor.

    ``for i in range(max(0, p - n + 1), min(n, p + 1))`` then runs over all i.

    >>> i, p, n = Affine.variable("i"), Affine.variable("p"), Affine.variable("n")
    >>> lows, highs = (Bound(Affine()), Bound(p - n + 1)), (Bound(n - 1), Bound(p))
    >>> found = with_guard_for_bounds(Loop("i", lows, highs, ()), "p")
    >>> found.lows, found.highs, found.body[0].conditions
    ((Bound(form=0, divisor=1),), (Bound(form=n - 1, divisor=1),), (i + n - p - 1 >= 0, -i + p >= 0))
    """
    (lows, low_ends), (highs, high_ends) = (
        ([b for b in side if axis not in b.form.atoms()], [b for b in side if axis in b.form.atoms()])
        for side in (loop.lows, loop.highs)
    )
    if not lows or not highs or loop.step != 1 or any(bound.divisor > 1 for bound in (*low_ends, *high_ends)):
        return None
    i = Affine.variable(loop.variable)
    rows = (*(Constraint("ge", i - b.form) for b in low_ends), *(Constraint("ge", b.form - i) for b in high_ends))
    return replace(loop, lows=tuple(lows), highs=tuple(highs), body=(If(rows, loop.body),))


# ---------------------------------------------------------------------------- loops over rows


SHORT = 8
"""How many steps a loop has at most that is unrolled rather than the innermost.

Half and twice as much change no text of the benchmarks.
"""


STRIP = 512
"""Entries of a long row that are computed together, so that their sums stay in the nearest cache.

Half and twice as many take 0.96 to 1.13 of the time of the seven benchmarks that change.
"""

MAX_UNROLLED_STEPS = 4
"""A window of no more steps than this is as fast unrolled as entry by entry of a row.

Of 2, the Gaussian benchmark takes 1.13 of the time.
"""

_MAX_SHORT_WINDOW = 64
"""How many steps a loop has at most whose vectors cost more to add up than to fill.

Of 32, FIR takes 1.05 of the time.
"""


MIN_VECTOR_ROW = 32
"""How many entries a row has at least that is filled several times for the sake of its vectors.

Half and twice as much change no text of the benchmarks.
"""


def run_of(load: Load, variable: str | None) -> tuple[int, int] | None:
    """Return ``(axis, stride)`` of `load`, a read of an array: the axis whose index contains `variable`, and the
    absolute value of its coefficient, ``(1, 2)`` for ``x[k, 2*i + 1]`` and i. None unless exactly one index contains
    it, linearly.
    """
    axes = [axis for axis, form in enumerate(load.index) if variable in form.atoms()]
    if variable is None or len(axes) != 1 or variable in load.index[axes[0]].hidden():
        return None
    return axes[0], abs(load.index[axes[0]].coefficient(variable))


CACHE_LINE = 8
"""The entries of a cache line in double precision."""


def cache_lines(load: Load, variable: str) -> int:
    """Return by how many entries the read ``load`` advances in memory per iteration over `variable`, counted up to the
    8 of a cache line: 1 for contiguous reads, 8 for entries far apart, 0 if the read does not depend on the variable.
    """
    if not any(variable in form.atoms() for form in load.index):
        return 0
    run = run_of(load, variable)
    return min(run[1], CACHE_LINE) if run is not None and run[0] == len(load.index) - 1 else CACHE_LINE


def is_short(extent: Affine, most: int = SHORT) -> bool:
    """Return whether `extent`, a length or number of iterations, is a constant of at most `most`."""
    return extent.is_constant and extent.constant <= most


def has_few_steps(loop: Loop, most: int = SHORT) -> bool:
    """Return whether `loop` has at most `most` iterations, so that it is unrolled."""
    if len(loop.lows) != 1 or len(loop.highs) != 1 or loop.lows[0].divisor != 1 or loop.highs[0].divisor != 1:
        return False
    return is_short(loop.highs[0].form - loop.lows[0].form + 1, most)


def runs_less_often(loop: Loop, times: int) -> bool:
    """Return whether `loop` provably has fewer than `times` iterations."""
    steps = most_steps(loop)
    return steps is not None and steps < times


@dataclass
class Segment:
    """A group of consecutive statements of a kernel that is computed row by row, with its ``kind``: "row" statements
    run once per row, "entry" statements for each entry of the row, and a "sum" is a loop that contains the loop along
    the row.
    """

    kind: str
    body: list[Statement] = field(default_factory=list)


@dataclass
class RowPlan:
    """A plan to compute a kernel row by row, along its last axis: its body cut into ``segments``, its prefix ``scans``,
    and the scalars ``expanded`` to local arrays with one value per entry of the row.
    """

    planner: RowPlanner
    segments: list[Segment]
    expanded: frozenset[str]
    scans: tuple[PrefixScan, ...] = ()
    """The scans, which run before the last segment."""


def row_plan(kernel: Kernel, prover: Prover) -> RowPlan | None:
    """Return a plan to move the loop over the last axis of `kernel` inside of its sums or, failing that, to continue
    its sums from entry to entry. None if neither is possible and useful.
    """
    return sums_plan(kernel, prover) or scans_plan(kernel)


def sums_plan(kernel: Kernel, prover: Prover, extent: Affine | None = None) -> RowPlan | None:
    """Return a plan to move the loop over the last axis of `kernel` inside of its sums, so that memory is read
    contiguously; None if that is illegal or gains nothing, or if the axis is short or may be empty. ``extent`` is the
    length of this axis, if the axes of `kernel` are in another order than those of its array.
    """
    if not kernel.axes or not keeps_order_in_rows(kernel):
        return None
    extent = kernel.box(prover.shapes)[-1] if extent is None else extent
    body = rewrite(
        with_guards_inside(kernel.body),
        lambda s, _: (windowed(s, kernel.axes[-1]) if isinstance(s, Loop) else s,),
    )
    plan = RowPlanner(replace(kernel, body=body), not extent.is_constant or extent.constant >= MIN_VECTOR_ROW).plan()
    return None if plan is None or is_short(extent) or not prover.proves(Constraint("ge", extent - 1)) else plan


def scans_plan(kernel: Kernel) -> RowPlan | None:
    """Return a plan to compute sums of `kernel` from entry to entry along its last axis, each continued from the one
    before (prefix scans); None if it has no such sums.
    """
    if not kernel.axes or isinstance(kernel, Scatter) or not may_have_scans(kernel):
        return None
    return RowPlanner(kernel, is_long=False).plan_of_scans()


def keeps_order_in_rows(kernel: Kernel) -> bool:
    """Return whether the loop over the last axis of `kernel` can become the innermost one without reordering the
    additions to any entry: each entry added to has this axis as an index.
    """
    last = Affine.variable(kernel.axes[-1])
    return all(last in part.index for part in statements(kernel.body) if is_scatter(part))


def runs_in_strips(kernel: Kernel, prover: Prover) -> bool:
    """Return whether `kernel` is to be computed in strips of its only axis, so that partial results fit the cache. It
    is if the loop over that axis can move inside of the sums, and there are no scans.
    """
    plan = row_plan(kernel, prover)
    return len(kernel.axes) == 1 and plan is not None and not plan.scans


class RowPlanner:
    """Decides which sums of a kernel should have the loop over its last axis (along a row) moved inside, so that memory
    is read contiguously.
    """

    def __init__(self, kernel: Kernel, is_long: bool) -> None:
        self.kernel = kernel
        self.is_long = is_long
        self.axis = kernel.axes[-1]

    @cached_property
    def depends(self) -> dict[str, frozenset[str]]:
        """The integers on which each scalar of the kernel depends, see `dependences`."""
        return dependences(self.kernel)

    def plan(self) -> RowPlan | None:
        """Return the plan to run the kernel row by row: its statements in segments that run once for the row, for each
        of its entries, or as a sum with the loop along the row inside. None if it is not worthwhile to move that loop
        into any sum.
        """
        segments: list[Segment] = []
        pending = Segment("entry")
        for statement in self.kernel.body:
            if not self.varies(statement):
                segments.append(Segment("row", [statement]))
            elif isinstance(statement, Loop) and (moved := self.worthwhile(statement)) is not None:
                segments += [pending, Segment("sum", [moved])]
                pending = Segment("entry")
            else:
                pending.body.append(statement)
        segments = [s for s in (*segments, pending) if s.body]
        if not any(segment.kind == "sum" for segment in segments):
            return None
        return RowPlan(self, segments, self.expanded(segments))

    def worthwhile(self, loop: Loop) -> Loop | None:
        """Return `loop` if it is worthwhile to move the loop over the last axis inside of it, perhaps with its bounds
        that depend on this axis replaced by a guard. None if that is illegal or gains nothing.

        Also None if it needs the guard and the kernel can be computed by prefix scans.
        """
        if self.is_worthwhile(loop):
            return loop
        is_scan = self.is_tied(loop) and self.plan_of_scans() is not None
        untied = with_guard_for_bounds(loop, self.axis) if self.is_tied(loop) and not is_scan else None
        return untied if untied is not None and self.is_worthwhile(untied) else None

    def is_worthwhile(self, loop: Loop) -> bool:
        """Return whether moving the loop over the last axis inside of `loop` is legal and makes more reads contiguous.
        A loop that rarely runs is left alone.
        """
        return condition_of_loop(loop) is None and self.is_movable(loop) and self.gain(loop) > 0

    def plan_of_scans(self) -> RowPlan | None:
        """Return the plan for a kernel with prefix scans along its last axis; None without any.

        A value that is the same for the whole row comes first if a scan may use it.
        """
        if not may_have_scans(self.kernel):
            return None
        fixed = [s for s in self.kernel.body if not self.varies(s)]
        same = {s.name: s in fixed for s in self.kernel.body if defines(s)}
        scans, body = find_scans(self.kernel, same)
        if not scans:
            return None
        used = {node.name for scan in scans for node in scalars(scan.loop.body) if isinstance(node, Name)}
        first = fixed if used & same.keys() else []
        segments = [Segment("row", first), Segment("entry", [s for s in body if s not in first])]
        names = frozenset(accumulator.name for scan in scans for accumulator in scan.accumulators)
        return RowPlan(self, [s for s in segments if s.body], names, tuple(scans))

    def varies(self, statement: Statement) -> bool:
        """Return whether ``statement`` differs between the entries of a row: whether a value, bound or condition in it,
        or in its body, depends on the index of the last axis.
        """
        for part in statements([statement]):
            if isinstance(part, Set) and (isinstance(part.target, Load) or self.axis in self.depends[part.name]):
                return True
            if isinstance(part, Loop | If) and self.is_tied(part):
                return True
        return False

    def is_tied(self, statement: Loop | If) -> bool:
        """Return whether the bounds or conditions of `statement` depend on the last axis: ``for j <= i`` for the axis
        i.
        """
        return any(self.axis in form.atoms() for form in head_forms(statement))

    def is_movable(self, statement: Loop | If) -> bool:
        """Return whether the loop over the last axis may be moved inside of `statement` (legal interchange)."""
        if isinstance(statement, If):
            if guard_bounds(statement, self.axis) is None:
                return False
        elif self.is_tied(statement) and not self.is_window(statement):
            return False
        # A window that has left its bounds runs where no entry of the row needs it: nothing may be read there.
        inside = statements(statement.body)
        if self.is_tied(statement) and data_entries(form for part in inside for form in head_forms(part)):
            return False
        varying = [inner for inner in statement.body if self.varies(inner)]
        nested = [inner for inner in varying if isinstance(inner, Loop | If)]
        if any(map(is_accumulator, varying)):
            return False
        if nested and any(map(is_let, varying)):
            return False
        return all(self.is_movable(inner) for inner in nested)

    def is_window(self, loop: Loop) -> bool:
        """Return whether `loop` has only a few iterations for each entry of the row, like a short window ``i <= j <= i
        + 2``.
        """
        found = interchange_bounds(loop, self.axis)
        steps = None if found is None else most_steps(found[0])
        return steps is not None and steps <= _MAX_SHORT_WINDOW

    def is_sum_over_window(self, loop: Loop) -> bool:
        """Return whether `loop` sums over a short window that is too long to unroll, and all reads that change along
        the row are contiguous along it. The loop along the row should then become the innermost loop.
        """
        nest = [loop, *inner_loops(loop.body)]
        if (
            not self.is_long
            or not all(map(self.is_window, nest))
            or all(has_few_steps(inner, MAX_UNROLLED_STEPS) for inner in nest)
        ):
            return False
        loads = [node for node in scalars([loop]) if isinstance(node, Load)]
        along = [node for node in loads if any(self.axis in form.atoms() for form in node.index)]
        return bool(along) and all(run_of(node, self.axis) == (len(node.index) - 1, 1) for node in along)

    def gain(self, loop: Loop) -> int:
        """Return the change of the number of contiguous reads in `loop` if the loop over the last axis becomes
        innermost; positive if there are more.
        """
        if self.is_sum_over_window(loop):
            return 1
        total = 0
        for inner in inner_loops([loop]):
            guarded = [part for s in inner.body if isinstance(s, If) for part in s.body]
            leaf = [s for s in (*inner.body, *guarded) if (is_let(s) or is_addition(s)) and self.varies(s)]
            # Unrolled around the row, data would be read again for each entry.
            selected = {name for entry in data_entries(forms(leaf)) for name in entry.atoms()}
            if has_few_steps(inner) and inner.variable not in selected:
                continue
            for node in scalars(leaf):
                if isinstance(node, Load):
                    outer = [form.atoms() for form in node.index[:-1]]
                    total += any(inner.variable in atoms for atoms in outer)
                    total -= any(self.axis in atoms for atoms in outer)
        return total

    def expanded(self, segments: Iterable[Segment]) -> frozenset[str]:
        """Return the scalars that must become local arrays with one value per entry of a row (scalar expansion): they
        differ along the row, and are computed in one of ``segments`` and used in another.
        """
        made: dict[str, int] = {}
        found: set[str] = set()
        for number, segment in enumerate(segments):
            for part in statements(segment.body):
                if defines(part) and self.axis in self.depends[part.name]:
                    made.setdefault(part.name, number)
                if is_addition(part) and made.get(part.name, number) != number:
                    found.add(part.name)
            for node in scalars(segment.body):
                if isinstance(node, Name) and made.get(node.name, number) != number:
                    found.add(node.name)
        return frozenset(found)
