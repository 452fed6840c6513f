"""The schedule of one kernel on a processor: which primitives rewrite its nest, in which order.

===============================  ==========================================================================
where                            do
===============================  ==========================================================================
sums gain along the last axis    `sink`, in strips where the row is the whole array
a reduction goes on along it     `carry`
functions of what data select    read a row first (`gathers_apart`)
a short last axis                jam: its entries together (`short_row`)
an extremum of short values      `rfactor`
a long sum that fills one entry  `split_sums`
sines and cosines                near angles first (`with_near_angles`)
reads that select, or repeat     once for each pass of their loop (`Once`)
===============================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sympy_tensordiff.codegen.facts import Prover
from sympy_tensordiff.codegen.loops import Alloc, Bound, Ends, If, Kernel, Loop, Scatter, Set, Statement
from sympy_tensordiff.codegen.scalars import Load, Name
from sympy_tensordiff.codegen.schedule.angles import with_near_angles
from sympy_tensordiff.codegen.schedule.nests import ZERO, exactly, explicit, extent, span, with_scalars
from sympy_tensordiff.codegen.schedule.once import Once, gathers_apart
from sympy_tensordiff.codegen.schedule.primitives import Fresh, carry, rfactor, sink, split, split_sums
from sympy_tensordiff.codegen.schedule.rows import STRIP, RowPlan, row_plan, runs_less_often
from sympy_tensordiff.codegen.schedule.short_rows import short_row
from sympy_tensordiff.codegen.schedule.sums import PART, long_sums
from sympy_tensordiff.codegen.walk import EXTREMA, forms, scalars
from sympy_tensordiff.integer.affine import Affine, Row

CHAINS = 8
"""As many maxima are computed side by side."""

CHAIN_WEIGHT = 8
"""Of values of no more operations and reads than this."""


@dataclass(frozen=True)
class Place:
    """Where a kernel runs.

    ``outer`` are axes of its array over which something around it loops. ``block`` are the first value of the first
    axis and one past the last, where a function fills a part of the array only. ``is_within``: it may run often.
    ``entries`` stand in the place of accumulators.
    """

    prover: Prover
    fresh: Fresh
    bare: frozenset[str] = frozenset()
    outer: tuple[str, ...] = ()
    block: tuple[str, str] | None = None
    is_within: bool = False
    entries: Mapping[str, Name | Load] = field(default_factory=dict)


@dataclass(frozen=True)
class Nest:
    """The arrays that a function makes for itself, and what runs then.

    ``bare`` are arrays of rank 0 which are scalars there.
    """

    arrays: tuple[Alloc, ...]
    body: tuple[Statement, ...]
    bare: frozenset[str] = frozenset()


def scheduled(kernel: Kernel, place: Place) -> Nest:
    """The nest of a kernel."""
    prover, axes, block = place.prover, kernel.axes, place.block
    plan = row_plan(kernel, prover)
    if plan is None and (apart := gathers_apart(kernel, place.fresh)) is not None:
        kernel, plan = apart
    has_short = plan is None and not (block and len(axes) == 1)
    short = short_row(kernel, prover, place.fresh) if has_short else None
    index = tuple(map(Affine.variable, (*place.outer, *axes)))
    target = Name(kernel.array) if kernel.array in place.bare else Load(kernel.array, index)
    spans = _axes(kernel, place)
    arrays: tuple[Alloc, ...] = ()
    body: tuple[Statement, ...]
    if short is not None:
        body = explicit(short.body, target)
        for number, store in enumerate(short.stores):
            body += explicit([store], Load(kernel.array, (*index[:-1], Affine.of(number))))
        spans = spans[:-1]
    elif plan is not None:
        assert isinstance(target, Load)
        arrays, body = _rows(kernel, plan, target, spans[-1], place)
        spans = spans[:-1]
    else:
        body = explicit(kernel.body, target)
    for loop in reversed(spans):
        body = (replace(loop, body=body),)
    body = with_scalars(body, place.entries)
    is_one = not (axes or place.outer or place.is_within)
    body = _refined(body, place.fresh, is_one)
    if plan is None or not plan.scans:
        body = _reading_once(body, kernel, place)
    return Nest(arrays, body, place.bare)


def _reading_once(body: Sequence[Statement], kernel: Kernel, place: Place) -> tuple[Statement, ...]:
    """A nest that reads entries before the loops that need them."""
    box = kernel.box(place.prover.shapes)
    inner, outer = box[len(box) - len(kernel.axes) :], zip(place.outer, box, strict=False)
    extents = {f"{kernel.array}.shape[{len(place.outer) + n}]": length for n, length in enumerate(inner)}
    ends = [(Affine.variable(axis), length) for axis, length in outer]
    if place.block is not None:
        ends += [(Affine.variable(name), inner[0] + 1) for name in place.block]
    rows = tuple(Row("ge", form) for value, length in ends for form in (value, length - value - 1))
    return Once(place.prover, place.fresh, extents, has_values=not place.is_within).body(body, rows)


def _axes(kernel: Kernel, place: Place) -> list[Loop]:
    """The loops over the axes of a kernel, outer ones first."""
    found = []
    for number, axis in enumerate(kernel.axes):
        first, stop = ZERO, extent(kernel.array, len(place.outer) + number)
        if isinstance(kernel, Scatter):
            stop = kernel.extents[number]
        if place.block is not None and not number:
            first, stop = map(Affine.variable, place.block)
        found.append(span(axis, first, stop))
    return found


def _rows(
    kernel: Kernel, plan: RowPlan, target: Load, row: Loop, place: Place
) -> tuple[tuple[Alloc, ...], tuple[Statement, ...]]:
    """The arrays and what runs for one row, or for all of one in strips."""
    in_strips = len(kernel.axes) == 1 and not plan.scans and not place.outer
    length, around = row.highs[0].form + 1, None
    if in_strips and place.block is not None:
        length -= row.lows[0].form
    elif in_strips:
        # The end of a strip is computed once: without, the row fir took 1.13 times as long in single precision.
        around, last = split(row, STRIP, place.fresh("first")), place.fresh("last")
        (inner,) = around.body
        assert isinstance(inner, Loop)
        length, row = Affine.of(STRIP), replace(inner, highs=(Bound(Affine.variable(last) - 1),))
        around = replace(around, body=(Set(Name(last), Ends((), inner.highs)),))
    arrays = [Alloc(name, (exactly(length),), kernel.array) for name in sorted(plan.expanded)]
    scans = [carried for scan in plan.scans for carried in carry(row, scan, target, place.fresh)]
    if scans:
        # They come in front of the last segment, and use what the others have made.
        first, rest = (replace(plan, segments=part) for part in (plan.segments[:-1], plan.segments[-1:]))
        body = (*sink(row, first, target), *scans, *sink(row, rest, target))
    else:
        body = sink(row, plan, target)
    return tuple(arrays), body if around is None else (replace(around, body=(*around.body, *body)),)


def _refined(body: Sequence[Statement], fresh: Fresh, is_one: bool) -> tuple[Statement, ...]:
    """What is done with loops wherever they are; ``is_one``: they run once in a call."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, If):
            found.append(replace(statement, body=_refined(statement.body, fresh, is_one)))
        elif not isinstance(statement, Loop):
            found.append(statement)
        elif is_extremum(statement):
            found += rfactor(statement, CHAINS, fresh)
        elif is_one and (sums := long_sums(statement)):
            for part in split_sums(statement, sums, PART, fresh):
                found.append(replace(part, body=_refined(part.body, fresh, False)) if isinstance(part, Loop) else part)
        elif len(near := with_near_angles(statement, fresh)) > 1:
            found += near
        else:
            found.append(replace(statement, body=_refined(statement.body, fresh, is_one)))
    return tuple(found)


def is_extremum(loop: Loop) -> bool:
    """Whether a loop, perhaps a long one, does nothing but compare short values with a maximum or a minimum."""
    add = loop.body[0]
    if len(loop.body) != 1 or not isinstance(add, Set) or add.reduction not in EXTREMA:
        return False
    if not isinstance(add.target, Name) or sum(1 for _ in scalars(loop.body)) > CHAIN_WEIGHT:
        return False
    return not runs_less_often(loop, CHAINS) and any(loop.variable in form.atoms() for form in forms(loop.body))
