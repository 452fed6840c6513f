"""Schedule primitives: split, interchange, unroll-and-jam and others, each of which reorders a nest.

Whether a primitive is legal and gains is found out on kernels (`rows`, `scans`, `short_rows`, `sums`); `cpu` is the
recipe that asks for each in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import comb
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement, is_let
from sympy_tensordiff.codegen.ir.nests import FALSE, double, real, span, with_scalars
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import (
    INFINITY,
    Bound,
    Ends,
    Identity,
    IndexValue,
    Load,
    Name,
    Number,
    Operation,
    Scalar,
)
from sympy_tensordiff.codegen.ir.walk import rewrite_scalar, subexpressions, with_values
from sympy_tensordiff.codegen.schedule.rows import RowPlan, RowPlanner, guard_bounds, interchange_bounds
from sympy_tensordiff.codegen.schedule.scans import PrefixScan, index_form
from sympy_tensordiff.codegen.schedule.short_rows import contains_loop
from sympy_tensordiff.integer.affine import Affine, Constraint, quotient

NameMaker: TypeAlias = Callable[[str], str]
"""Makes an unused name like the given one."""


def split(loop: Loop, size: int, outer: str) -> Loop:
    """Return `loop` in blocks of `size` iterations: an outer loop, whose variable ``outer`` is the first value of a
    block, around a loop over the block.

    >>> blocks = split(span("i", Affine(), Affine.variable("n")), 512, "first")
    >>> (inner,) = blocks.body
    >>> blocks.step, [str(bound.form) for bound in (*inner.lows, *inner.highs)]
    (512, ['first', 'n - 1', 'first + 511'])
    """
    first = Affine.variable(outer)
    inner = replace(loop, lows=(Bound(first),), highs=(*loop.highs, Bound(first + (size - 1))))
    return Loop(outer, loop.lows, loop.highs, (inner,), size)


def sink(row: Loop, plan: RowPlan) -> tuple[Statement, ...]:
    """Return the statements of a kernel with `row`, the loop over its last axis, moved inside of the sums that `plan`
    names (loop interchange).

    A scalar that one loop along the row makes and another one uses has an entry for each value, in an array of its
    name, which begins with the first value of the loop (scalar expansion).
    """
    found: list[Statement] = []
    for segment in plan.segments:
        if segment.kind == "row":
            found += segment.body
        elif segment.kind == "sum":
            found += _with_row_inside(row, plan.planner, segment.body)
        else:
            found += _loop_along_row(row, segment.body)
    entry = (Affine.variable(row.variable) - row.lows[0].form,)
    return with_scalars(found, {name: Load(name, entry) for name in plan.expanded})


def _with_row_inside(row: Loop, planner: RowPlanner, body: Sequence[Statement]) -> list[Statement]:
    """Return `body` with the loop `row` moved inward: it is put around only those innermost statements that depend on
    the position in the row, inside of other loops and guards.
    """
    found: list[Statement] = []
    leaf: list[Statement] = []
    for statement in body:
        if not planner.varies(statement):
            found.append(statement)
        elif isinstance(statement, Loop | If):
            found += _loop_along_row(row, leaf)
            leaf, inner = [], row
            if isinstance(statement, Loop) and (window := interchange_bounds(statement, row.variable)) is not None:
                statement, lows, highs = window
                inner = replace(row, lows=(*row.lows, *lows), highs=(*row.highs, *highs))
            if isinstance(statement, If) and (guard := guard_bounds(statement, row.variable)) is not None:
                conditions, lows, highs = guard
                inner = replace(row, lows=(*row.lows, *lows), highs=(*row.highs, *highs))
                if not conditions:
                    found += _with_row_inside(inner, planner, statement.body)
                    continue
                statement = replace(statement, conditions=conditions)
            found.append(replace(statement, body=tuple(_with_row_inside(inner, planner, statement.body))))
        else:
            leaf.append(statement)
    return [*found, *_loop_along_row(row, leaf)]


def _loop_along_row(row: Loop, body: Sequence[Statement]) -> list[Statement]:
    """Return ``[loop]``: the loop `row` with the statements ``body`` instead of its own, where factors that are
    constant in the loop come first in each product. Return [] for an empty body.
    """
    own = {statement.name for statement in body if is_let(statement)}

    def varies(value: Scalar) -> bool:
        """Return whether `value` may differ between the entries of a row: it depends on the variable of the loop
        ``row``, or on a scalar that is computed in this loop.
        """
        for part in subexpressions(value):
            indices = part.index if isinstance(part, Load) else [part.form] if isinstance(part, IndexValue) else ()
            if any(row.variable in form.atoms() for form in indices) or (isinstance(part, Name) and part.name in own):
                return True
        return False

    def invariants_first(value: Scalar) -> Scalar:
        """Return a product with its loop-invariant factors first; other values unchanged."""
        if not isinstance(value, Operation) or value.function != "mul":
            return value
        return Operation("mul", tuple(sorted(value.arguments, key=varies)))

    return [replace(row, body=with_values(body, invariants_first))] if body else []


def carry(
    row: Loop, last: Affine, scan: PrefixScan, others: Collection[str], fresh: NameMaker
) -> tuple[Statement, ...]:
    """Return statements that compute the prefix scan ``scan``, such as a running sum, along a row in one loop: each
    entry continues from the value of the previous one.

    ``last`` is the last index of the row, ``others`` are the names of scans already computed. ``fresh`` returns new
    names.

    If each entry adds one exponential, these are computed for the whole row first, in vectors.
    """
    loop, axis = scan.loop, (Affine.variable(row.variable),)
    carried = {acc.name: Name(fresh(f"{acc.name}_so_far")) for acc in scan.accumulators}
    entries = carried | {name: Load(name, axis) for name in others}
    end = fresh(f"{loop.variable}_{'low' if scan.downward else 'stop'}")
    here, lows, highs = Affine.variable(end), Ends(loop.lows), Ends((), loop.highs)
    if scan.downward:
        first, moved = highs, Set(Name(end), lows, "min")
        rest, before = replace(loop, highs=(Bound(here - 1),)), replace(loop, lows=(Bound(here), *loop.lows))
    else:
        first, moved = lows, Set(Name(end), highs, "max")
        rest, before = replace(loop, lows=(Bound(here),)), replace(loop, highs=(Bound(here - 1), *loop.highs))
    begin: list[Statement] = [Set(carried[acc.name], acc.value) for acc in scan.accumulators]
    totals = [*(Name(fresh(f"moment{order}")) for order in range(len(scan.moments))), *carried.values()]
    begin += [Set(total, Number(0)) for total in totals[:-1]] if scan.moments else []
    if scan.moments:
        added = [Set(total, value, "sum") for total, value in zip(totals, scan.moments, strict=False)]
        rest, before = (replace(part, body=(*added, *part.body)) for part in (rest, before))
    new, terms = with_scalars([rest], entries), list[Statement]()
    if scan.shifts and not scan.conditions and not scan.moments and _adds_one(row, last, scan):
        ((name, total),) = carried.items()
        (add,) = Renaming({}, forms={loop.variable: axis[0]}).body(loop.body)
        assert isinstance(add, Set) and not isinstance(add.value, Ends | Identity)
        terms.append(replace(row, body=with_scalars([Set(Load(name, axis), folded(add.value))], entries)))
        new = (Set(total, Load(name, axis), "sum"),)
    body: list[Statement] = [*new, moved]
    if scan.shifts:
        # Entries that data or congruences leave out are followed by larger steps; inequalities keep a range.
        is_range = all(test.kind == "ge" and row.variable not in test.form.hidden() for test in scan.conditions)
        step = (-1 if scan.downward else 1) if is_range else 0
        shift = _changes(scan.shifts, "shift", INFINITY, entries, fresh, row.variable, step)
        once, again = _rescale(totals, shift.values, shift.change, with_scalars([before], entries), fresh)
        place = _changes(scan.places, "place", Number(0), entries, fresh, row.variable, step)
        begin += [*shift.begin, *place.begin, *with_scalars(once, entries)]
        moved_totals = with_scalars(_move(totals, place.change, fresh), entries)
        before_use, after_use = [*shift.before_use, *place.before_use], [*shift.after_use, *place.after_use]
        moves = [*before_use, *moved_totals, *again, *after_use]
        body = [*_where_shifts_exist(row, scan, moves), *body]
    if scan.growth:
        ((name, total),) = carried.items()
        body = [*_grow(scan, Name(end), Set(Name(end), first), total, with_scalars(scan.growth, entries)), *body]
    body += [Set(Load(name, axis), running) for name, running in carried.items()]
    inside: list[Statement] = [If(scan.conditions, tuple(body))] if scan.conditions else body
    return (Set(Name(end), first), *begin, *terms, replace(row, body=tuple(inside), step=-1 if scan.downward else 1))


def _where_shifts_exist(row: Loop, scan: PrefixScan, moves: Sequence[Statement]) -> Sequence[Statement]:
    """Return ``moves``, statements that update the `scan` along ``row`` and read its shifts, behind the condition that
    the scan has terms at the entry. Without shifts at neighbours of the entry, such as ``m[i - 1]``, which may not
    exist for the first entries, return ``moves`` unchanged.
    """
    here = Affine.variable(row.variable)
    parts = [part for pairs in (scan.shifts, scan.places) for _, part in pairs]
    reads = [form for part in parts for one in subexpressions(part) if isinstance(one, Load) for form in one.index]
    if all(form == here or row.variable not in form.atoms() for form in reads):
        return moves
    bounds = [(low, high) for low in scan.loop.lows for high in scan.loop.highs]
    ends = [high.form - low.form for low, high in bounds if low.divisor == high.divisor == 1]
    return [If(tuple([Constraint("ge", end) for end in ends]), tuple(moves))] if ends else moves


def _grow(scan: PrefixScan, end: Name, begin: Set, total: Name, growth: Sequence[Statement]) -> list[Statement]:
    """Return statements that move the running sum `total` of `scan` on to the next entry of a row. If this entry has
    one more term, they run ``growth``, which multiplies `total` by the factor that all earlier terms gain. If it has
    several more, they set `total` to 0 and run ``begin``, which resets the index ``end`` of the next term.
    """
    (near,), far = (scan.loop.lows, scan.loop.highs) if scan.downward else (scan.loop.highs, scan.loop.lows)
    sign, here = (-1 if scan.downward else 1), Affine.variable(end.name)
    steps = (here - near.form - 1) if scan.downward else (near.form - here)
    had_terms = [Constraint("ge", (near.form - bound.form) * sign - 1) for bound in far]
    return [
        If((Constraint("eq", steps), *had_terms), tuple(growth)),
        If((Constraint("ge", steps - 1),), (Set(total, Number(0)), begin)),
    ]


def _adds_one(row: Loop, last: Affine, scan: PrefixScan) -> bool:
    """Return whether the `scan` along the loop `row` has one term at the first entry, and exactly one more at each
    further entry. A scan that runs downwards begins at the entry ``last``.
    """
    loop, here = scan.loop, (Bound(Affine.variable(row.variable)),)
    if scan.downward:
        return loop.lows == here and loop.highs == (Bound(last),)
    return loop.highs == here and loop.lows == row.lows


class _Difference(NamedTuple):
    """Code for the difference between the values of a sum ``Sum c*p`` at one entry of a row and at the previous entry.

    The statements ``begin`` run before the row, ``before_use`` before and ``after_use`` after each use of an entry;
    ``change`` is the difference, and ``values`` are the scalars ``(new p, old p)``.
    """

    begin: list[Statement]
    before_use: list[Statement]
    after_use: list[Statement]
    change: Scalar
    values: list[tuple[Name, Name]]


def _changes(
    pairs: Sequence[tuple[Scalar, Scalar]],
    name: str,
    start: Scalar,
    entries: Mapping[str, Name | Load],
    fresh: NameMaker,
    axis: str,
    step: int,
) -> _Difference:
    """Return code that computes how much a sum ``Sum c*p`` changes from one entry of a row to the next. `pairs` are its
    pairs ``(c, p)``; `entries` maps accumulators to the scalars or reads that replace them in the code.

    New variables are called ``name``.

    Before the first entry, the first p is `start`, and the others are 0.

    If each p is the index `axis` of the entry, the change is the same for all entries: ``Sum c*step``, and no variables
    are needed. With `step` 0 the entries may be any distance apart.
    """
    if step and all(part == IndexValue(Affine.variable(axis)) for _, part in pairs):
        steady = [folded(Operation("mul", (Number(step), c))) for c, _ in pairs]
        return _Difference([], [], [], folded(Operation("add", tuple(steady))), [])
    begin, here, keep = list[Statement](), list[Statement](), list[Statement]()
    terms, parts = list[Scalar](), list[tuple[Name, Name]]()
    for c, part in pairs:
        scale, new, old = Name(fresh("scale")), Name(fresh(name)), Name(fresh(f"{name}_so_far"))
        begin.append(Set(old, Number(0) if parts else start))
        here += with_scalars([Set(new, part), *([] if c == Number(1) else [Set(scale, c)])], entries)
        keep.append(Set(old, new))
        gap = Operation("add", (new, Operation("neg", (old,))))
        terms.append(gap if c == Number(1) else Operation("mul", (scale, gap)))
        parts.append((new, old))
    change = Operation("add", tuple(terms)) if len(terms) > 1 else (*terms, Number(0))[0]
    return _Difference(begin, here, keep, change, parts)


def folded(value: Scalar) -> Scalar:
    """Return `value` without operations on indices that cancel, and without zeros and ones that have no effect: ``x``
    for ``x*exp(-(i - i)*y)``.

    >>> here = IndexValue(Affine.variable("i"))
    >>> gap = Operation("add", (here, Operation("neg", (here,))))
    >>> folded(Operation("mul", (Name("x"), Operation("exp", (Operation("mul", (gap, Name("y"))),)))))
    Name(name='x')
    """
    zero, one = Number(0), Number(1)

    def fold(part: Scalar) -> Scalar:
        """Return the operation ``part`` in its simplest form; any other scalar unchanged."""
        if not isinstance(part, Operation) or part.function not in ("add", "mul", "neg", "exp"):
            return part
        if part.function == "exp":
            return one if part.arguments[0] == zero else part
        if (form := index_form(part)) is not None:
            return Number(form.constant) if form.is_constant else IndexValue(form)
        if part.function == "neg":
            return part
        if part.function == "mul" and zero in part.arguments:
            return zero
        neutral = zero if part.function == "add" else one
        left = tuple([argument for argument in part.arguments if argument != neutral])
        return Operation(part.function, left) if len(left) > 1 else (*left, neutral)[0]

    return rewrite_scalar(value, fold)


def _move(totals: Sequence[Name], change: Scalar, fresh: NameMaker) -> list[Statement]:
    """Return the statements that update the running sums ``Sum_j w[j]*(p - q[j])**n``, stored in `totals` for n = 0, 1,
    ..., when p grows by ``change``.

    By the binomial theorem, the new sums follow from the old ones alone.
    """
    step = Name(fresh("step"))
    result: list[Statement] = [Set(step, change)]
    for order in range(len(totals) - 1, 0, -1):
        terms = [
            Operation("mul", (Number(comb(order, lower)), totals[lower], *[step] * (order - lower)))
            for lower in range(order)
        ]
        result.append(Set(totals[order], Operation("add", (totals[order], *terms))))
    return result if len(totals) > 1 else []


_SMALLEST_SUM, _MAX_ROOT = 1e-30, 1e15
"""Running sums are multiplied by factors above 1, up to the square of the latter, while they are greater than the
former: in single precision, terms below 1e-38 are lost."""


def _rescale(
    totals: Sequence[Name],
    parts: Sequence[tuple[Name, Name]],
    change: Scalar,
    terms: Sequence[Statement],
    fresh: NameMaker,
) -> tuple[list[Statement], list[Statement]]:
    """Return statements that update the running sums `totals` of ``exp(u[j] + m)`` along a row when the shift ``m``
    changes by ``change``: ``(once, moves)``, to run before the row and at each entry. They multiply by ``exp(change)``
    or, if that loses digits, sum again by ``terms``.

    `parts` are pairs ``(new, old)`` of terms of ``m``; without them, ``change`` is the same for all entries.

    A part is one term of m, a maximum for example; ``fresh`` returns new names.
    """
    root, again, moved = Name(fresh("root")), Name(fresh("again")), Name(fresh("moved"))
    # While the sums are far from underflow, terms that did underflow are negligible, and large factors lose no digits.
    grows = [Operation("lt", (Number(_SMALLEST_SUM), Operation("abs", (total,)))) for total in totals]
    is_safe = Operation("le", (root, Number(1))), Operation("and", (Operation("le", (root, Number(_MAX_ROOT))), *grows))
    are_finite = [Operation("lt", (Operation("abs", (total,)), INFINITY)) for total in totals]
    # Multiplied by its root twice: the factor alone may be 0 where its product with a large sum is not.
    factor = Set(root, Operation("exp", (Operation("mul", (Number(Fraction(1, 2)), change)),)))
    rescaled: list[Statement] = [
        *_flagged(again, Operation("not", (Operation("and", (Operation("or", is_safe), *are_finite)),))),
        *(Set(total, Operation("mul", (total, root, root))) for total in totals),
        If((_is_set(again),), (*(Set(total, Number(0)) for total in totals), *terms)),
    ]
    if not parts:
        return [factor], rescaled
    differ = [Operation("ne", pair) for pair in parts]
    # A shift that stays the same, as a maximum so far mostly does, takes no function.
    is_moved = differ[0] if len(differ) == 1 else Operation("or", tuple(differ))
    return [], [*_flagged(moved, is_moved), If((_is_set(moved),), (factor, *rescaled))]


def _flagged(flag: Name, condition: Scalar) -> tuple[Set, Set]:
    """Return two statements, the initialisation ``flag = 0`` and an update, which together set the integer `flag` to 1
    if `condition` holds in some iteration.
    """
    return Set(flag, FALSE), Set(flag, condition, "any")


def _is_set(flag: Name) -> Constraint:
    """Return the constraint that the integer `flag` is set, ``flag >= 1``."""
    return Constraint("ge", Affine.variable(flag.name) - 1)


def rfactor(loop: Loop, count: int, fresh: NameMaker) -> tuple[Statement, ...]:
    """Return statements that compute the reduction `loop` with ``count`` accumulators, each for every ``count``-th
    term, and combine them after the loop: an operation need not wait for the previous one. ``fresh`` returns new names.

    The reduction is the one statement of the loop, into a scalar.

    >>> value = Load("x", (Affine.variable("i"),))
    >>> loop = span("i", Affine(), Affine.variable("n"), [Set(Name("m"), value, "max")])
    >>> found = rfactor(loop, 2, lambda name: name)
    >>> [type(statement).__name__ for statement in found], found[1].step
    (['Set', 'Loop', 'Set', 'Loop'], 2)
    """
    (add,) = loop.body
    assert isinstance(add, Set) and isinstance(add.target, Name) and not isinstance(add.value, Ends)
    chains = [add.target, *(Name(fresh(f"{add.target.name}_{n}")) for n in range(1, count))]
    inside = [
        Set(chain, value, add.reduction)
        for chain, value in zip(chains, _at_next_iterations(loop, add.value, count), strict=True)
    ]
    before, main, rest = _in_steps(loop, count, inside, fresh)
    joined = [Set(add.target, chain, add.reduction) for chain in chains[1:]]
    return (*before, *(Set(chain, add.target) for chain in chains[1:]), main, *joined, *rest)


def jam(loop: Loop, count: int, fresh: NameMaker) -> tuple[Statement, ...]:
    """Unroll `loop`, each iteration of which adds terms to a whole row of sums, so that `count` iterations share one
    pass over the row (unroll-and-jam). Return the new statements.

    The row of sums is read and written once for them; the terms are added in the order in which they were.

    >>> term = Load("x", (Affine.variable("i"), Affine.variable("j")))
    >>> add = Set(Load("s", (Affine.variable("j"),)), term, "sum")
    >>> row = span("j", Affine(), Affine.variable("m"), [add])
    >>> (outer,) = jam(span("i", Affine(), Affine.of(4), [row]), 2, lambda name: name)
    >>> outer.step, [str(term.index[0]) for term in outer.body[0].body[0].value.arguments[1:]]
    (2, ['i', 'i + 1'])
    """
    (row,) = loop.body
    assert isinstance(row, Loop)
    (add,) = row.body
    assert isinstance(add, Set) and not isinstance(add.value, Ends)
    total = Operation("add", (add.target, *_at_next_iterations(loop, add.value, count)))
    before, main, rest = _in_steps(loop, count, [replace(row, body=(Set(add.target, total),))], fresh)
    return (*before, main, *rest)


def _at_next_iterations(loop: Loop, value: Scalar, count: int) -> list[Scalar]:
    """Return `value` at the iterations i, i + 1, ..., i + count - 1 of `loop`."""
    moved = [Affine({loop.variable: 1}, n) for n in range(count)]
    return [Renaming({}, forms={loop.variable: form}).value(value) for form in moved]


def _in_steps(
    loop: Loop, count: int, inside: Sequence[Statement], fresh: NameMaker
) -> tuple[list[Statement], Loop, list[Statement]]:
    """Split ``loop`` into a loop in steps of ``count`` with the body ``inside`` and a loop over the remaining
    iterations. Return ``(statements that compute the ends, the first loop, a list with the second loop)``.

    ``fresh`` returns a new name.
    """
    before: list[Statement] = []
    low, stop = loop.lows[0].form, loop.highs[0].form + 1
    if len(loop.lows) > 1 or loop.lows[0].divisor > 1:
        low = Affine.variable(name := fresh(f"{loop.variable}_low"))
        before.append(Set(Name(name), Ends(loop.lows)))
    if len(loop.highs) > 1 or loop.highs[0].divisor > 1:
        stop = Affine.variable(name := fresh(f"{loop.variable}_stop"))
        before.append(Set(Name(name), Ends((), loop.highs)))
    main = replace(span(loop.variable, low, stop - (count - 1), inside), step=count)
    done = low + count * quotient(stop - low, count)
    is_known = (stop - low).is_constant and (stop - low).constant >= 0
    lows = (Bound(done),) if is_known else (Bound(low), Bound(done))
    rest = Loop(loop.variable, lows, (Bound(stop - 1),), loop.body)
    return before, main, [] if is_known and done == stop else [rest]


def split_sums(loop: Loop, sums: Sequence[str], size: int, fresh: NameMaker) -> tuple[Statement, ...]:
    """Return statements that compute the sums `sums` of `loop` in parts of `size` terms each, and add the parts to
    totals in double precision, for accuracy.

    A part has the terms of one iteration if the loop contains other loops. ``fresh`` returns new names.
    """
    totals, parts = ({name: Name(fresh(f"{name}_{what}")) for name in sums} for what in ("total", "part"))
    begin: list[Statement] = [Set(parts[name], Number(0)) for name in sums]
    end: list[Statement] = [add_part(totals[name], parts[name]) for name in sums]
    if contains_loop(loop.body):
        outer = replace(loop, body=(*begin, *with_scalars(loop.body, parts), *end))
    else:
        outer = split(loop, size, fresh(f"{loop.variable}_low"))
        outer = replace(outer, body=(*begin, *with_scalars(outer.body, parts), *end))
    zeros = [Set(totals[name], double(Number(0))) for name in sums]
    whole = [Set(Name(name), Operation("add", (Name(name), real(totals[name])))) for name in sums]
    return (*zeros, outer, *whole)


def add_part(total: Name, part: Name) -> Set:
    """Return the statement ``total += part``, which adds a partial sum to its total in double precision."""
    return Set(total, Operation("add", (total, double(part))))


def localise(body: Sequence[Statement], arrays: frozenset[str]) -> tuple[Statement, ...]:
    """Return the statements ``body`` without the first index in each read of ``arrays``, because only one row of these
    arrays is stored.
    """
    return Renaming({}, arrays).body(tuple(body))
