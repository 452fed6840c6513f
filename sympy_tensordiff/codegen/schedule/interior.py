"""Interior splitting: the inner part of a loop runs without guards and remainders, its ends are loops of their own.

A loop that reads at ``Mod(i + 1, n)`` divides in each iteration, and one that tests ``i >= 1`` needs masks in its
vectors. It is cut into a part before the interior, the interior, where all tests on the variable hold and ``i + 1`` is
less than ``n``, and a part behind it (loop splitting). Tests and remainders of the axes around it are one condition
for the whole row: where it fails, a copy of the original loop runs. Terms that have no points in a part are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from sympy_tensordiff.codegen.ir.facts import condition_of
from sympy_tensordiff.codegen.ir.loops import If, Loop, Set, Statement
from sympy_tensordiff.codegen.ir.nests import FALSE
from sympy_tensordiff.codegen.ir.rename import Renaming
from sympy_tensordiff.codegen.ir.scalars import Bound, Ends, Name, Operation
from sympy_tensordiff.codegen.ir.walk import forms, loops, statements, weight
from sympy_tensordiff.codegen.schedule.rows import MIN_VECTOR_ROW, runs_less_often
from sympy_tensordiff.integer.affine import Affine, Constraint, Quotient, Variable
from sympy_tensordiff.integer.indirect import data_entries
from sympy_tensordiff.integer.products import SymbolicQuotient, quotients_in

Lengths: TypeAlias = Mapping[Variable, Affine]

MOST_WEIGHT = 250
"""Loops of more operations and reads than this are not written several times."""

WIDEST_END = 16
"""The ends of an axis, where remainders are computed and guards are tested, have at most so many entries."""


class Guards(NamedTuple):
    """The guards in a loop body as conditions on the loop: the lower and upper bounds ``lows`` and ``highs`` of its
    variable, and the conditions ``outer`` that are the same in all iterations.

    ``zeros`` are the quotients that are 0 between the bounds, ``outer_zeros`` those that are 0 where ``outer`` holds,
    and ``implied`` the conditions that hold in all iterations.
    """

    lows: list[Affine]
    highs: list[Affine]
    outer: list[Constraint]
    zeros: list[Quotient | SymbolicQuotient]
    outer_zeros: list[Quotient | SymbolicQuotient]
    implied: list[Constraint]


class LoopContext(NamedTuple):
    """The context in which a loop is cut: the loops ``around`` it, and ``lengths``, which maps names of axis lengths
    such as ``x.shape[0]`` to forms.

    ``is_costly(guard)`` says whether the guarded statements are costly, ``proves(row, known)`` whether constraints
    imply another.
    """

    lengths: Lengths
    is_costly: Callable[[If], bool]
    around: Sequence[Loop] = ()
    proves: Callable[[Constraint, Sequence[Constraint]], bool] = lambda row, known: False


def interior(loop: Loop, fresh: Callable[[str], str], context: LoopContext) -> tuple[Statement, ...] | None:
    """Split an innermost loop into up to three: an interior, where all guards are true and not tested, and the loops
    before and after it. Return the new statements; None if there are no guards or quotients to remove, or if the loop
    is too short or too large.

    ``fresh`` returns new names; ``context`` has the loops around it.

    Guards that fail in more than a few iterations are removed if their statements are costly: otherwise vectors with
    masks take less time.

    >>> from sympy_tensordiff.codegen.ir.nests import span
    >>> from sympy_tensordiff.codegen.ir.scalars import Load
    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> left, right = (Set(Name("s"), Load("x", (i + k,)), "sum") for k in (-1, 1))
    >>> body = (If((Constraint("ge", i - 1),), (left,)), If((Constraint("ge", n - i - 2),), (right,)))
    >>> parts = interior(span("i", Affine(), n, body), lambda name: name, LoopContext({}, lambda test: False))
    >>> [(str(part.lows[-1].form), str(part.highs[-1].form), len(part.body)) for part in parts]
    [('0', '0', 1), ('1', 'n - 2', 2), ('n - 1', 'n - 1', 1)]
    """
    if loop.step != 1 or loop.bind or any(loops(loop.body)) or runs_less_often(loop, MIN_VECTOR_ROW):
        return None
    found = guards(loop, context)
    if not any(found) or weight(loop.body) > MOST_WEIGHT:
        return None
    begin: list[Statement] = []
    parts = _parts(loop, found, begin, fresh, context.lengths)
    if not found.outer:
        return (*begin, *parts)
    others = [s for s in loop.body if not _never_holds(s, found.outer, context.lengths)]
    if not others:
        return *begin, If(tuple(found.outer), parts)
    outside = Name(fresh("outside"))
    flag = Set(outside, FALSE), Set(outside, Operation("not", (condition_of(found.outer),)), "any")
    is_outside = Constraint("ge", Affine.variable(outside.name) - 1)
    whole = replace(loop, body=tuple(others))
    rest: tuple[Statement, ...] = (whole,)
    if found.zeros:
        rest = _parts(whole, found._replace(outer=[], outer_zeros=[]), begin, fresh, context.lengths)
    return *begin, If(tuple(found.outer), parts), *flag, If((is_outside,), rest)


def guards(loop: Loop, context: LoopContext) -> Guards:
    """Return the conditions under which iterations of `loop` need no guards and no remainders (the interior of the
    loop). ``context`` has the loops around `loop`.

    They are bounds of the loop variable, loop-invariant conditions, and quotients that are 0 in the interior. Guards
    that stay in the loop are left out.
    """
    found = Guards([], [], [], [], [], [])
    variable = Affine.variable(loop.variable)
    lengths, outer = context.lengths, list[Constraint]()
    known = [row for one in (*context.around, loop) for row in _bounds(one)]
    set_inside = {s.name for s in statements(loop.body) if isinstance(s, Set)}
    for part in dict.fromkeys(part for form in forms(loop.body) for part in quotients_in(form)):
        axis = _periodic_axis(part, (loop, *context.around), lengths)
        if axis is None or not set_inside.isdisjoint(part.form.atoms() | _divisor(part).atoms()):
            continue
        last = part.divisor - 1 - part.form
        if axis == loop.variable:
            found.zeros.append(part)
            found.lows.append(variable - part.form)
            found.highs.append(last + variable)
        else:
            found.outer_zeros.append(part)
            outer += [Constraint("ge", part.form), Constraint("ge", last)]
    tests = [test for test in loop.body if isinstance(test, If)]
    costly = {row for test in tests if context.is_costly(test) for row in test.conditions}
    for row in dict.fromkeys(row for test in tests for row in test.conditions):
        atoms, factor = row.form.atoms(), row.form.coefficient(loop.variable)
        if row.kind != "ge" or not set_inside.isdisjoint(atoms) or data_entries([row.form]):
            continue
        if context.proves(row, known):
            found.implied.append(row)
        elif loop.variable not in atoms:
            outer.append(row)
        elif abs(factor) == 1 and loop.variable not in row.form.hidden():
            rest = variable - row.form * factor
            gaps = [_gap(end, Bound(rest), lengths) for end in (loop.lows if factor > 0 else loop.highs)]
            if row in costly or any(gap is not None and abs(gap) <= WIDEST_END for gap in gaps):
                (found.lows if factor > 0 else found.highs).append(rest)
    for row in outer:
        if not _follows(row, [*known, *found.outer], lengths):
            found.outer[:] = [*(other for other in found.outer if not _follows(other, [row], lengths)), row]
    return found


def _periodic_axis(part: Quotient | SymbolicQuotient, around: Sequence[Loop], lengths: Lengths) -> str | None:
    """Return the variable of the first loop in `around` along which the quotient `part` is 0 except near the ends: i
    for ``(i + 1)//n`` with ``0 <= i < n``. None if there is no such loop.

    `lengths` has the values of sizes.
    """
    divisor = _divisor(part)
    if data_entries([part.form, divisor]):
        return None
    for loop in around:
        variable = Affine.variable(loop.variable)
        if part.form.coefficient(loop.variable) != 1 or loop.variable in part.form.hidden() | divisor.atoms():
            continue
        for high in loop.highs:
            gap = (divisor - 1 - (part.form - variable) - high.form).substitute(lengths)
            if gap.is_constant and high.divisor == 1 and abs(gap.constant) <= WIDEST_END:
                return loop.variable
    return None


def _divisor(part: Quotient | SymbolicQuotient) -> Affine:
    """Return the divisor of the quotient ``part`` as a form."""
    return part.divisor if isinstance(part.divisor, Affine) else Affine.of(part.divisor)


def _bounds(loop: Loop) -> list[Constraint]:
    """Return the lower and upper bounds of the variable of `loop` as constraints. Bounds with a divisor other than 1
    are left out.
    """
    variable = Affine.variable(loop.variable)
    lows = [Constraint("ge", variable - bound.form) for bound in loop.lows if bound.divisor == 1]
    return lows + [Constraint("ge", bound.form - variable) for bound in loop.highs if bound.divisor == 1]


def _follows(row: Constraint, facts: Iterable[Constraint], lengths: Lengths) -> bool:
    """Return whether `row` follows from one of the `facts` because they differ by a constant only, as ``i >= 1`` from
    ``i >= 2``. Axis lengths are first replaced by their values in ``lengths``.
    """
    gaps = ((row.form - fact.form).substitute(lengths) for fact in facts)
    return row.kind == "ge" and any(gap.is_constant and gap.constant >= 0 for gap in gaps)


def _fails(row: Constraint, facts: Iterable[Constraint], lengths: Lengths) -> bool:
    """Return whether `row`, an inequality, is false because one of the `facts` contradicts it. Variables for axis
    lengths are replaced by their values in ``lengths`` before.
    """
    return row.kind == "ge" and _follows(row.negation(), facts, lengths)


def _never_holds(statement: Statement, outer: Sequence[Constraint], lengths: Lengths) -> bool:
    """Return whether `statement` is a guard whose condition is false wherever one of the constraints `outer` is
    violated. `lengths` has the values of sizes.
    """
    return isinstance(statement, If) and all(_follows(row, statement.conditions, lengths) for row in outer)


def _parts(
    loop: Loop, found: Guards, begin: list[Statement], fresh: Callable[[str], str], lengths: Lengths
) -> tuple[Statement, ...]:
    """Cut `loop` into three loops, before, inside and after its interior: the range in which all guards in `found` are
    true and need no test. Return the loops.

    Statements that compute the ends of the interior are appended to `begin`, in variables that ``fresh`` names.
    ``lengths`` maps variables for lengths of axes to extents.
    """
    variable = Affine.variable(loop.variable)
    sides = (found.lows, 1), (found.highs, -1)
    lows, highs = ([b.form for b in _tightest(map(Bound, forms), sign, lengths)] for forms, sign in sides)
    first, last = lows[:1], highs[:1]
    if len(lows) > 1:
        first = [Affine.variable(name := fresh(f"{loop.variable}_first"))]
        begin.append(Set(Name(name), Ends(tuple(map(Bound, lows)))))
    if len(highs) > 1:
        last = [Affine.variable(name := fresh(f"{loop.variable}_stop")) - 1]
        begin.append(Set(Name(name), Ends((), tuple(map(Bound, highs)))))
    known = [*found.outer, *found.implied, *_bounds(loop)]
    after = [*known, *(Constraint("ge", variable - low) for low in found.lows)]
    inside = [*after, *(Constraint("ge", high - variable) for high in found.highs)]
    zeros = dict.fromkeys(found.outer_zeros, Affine())
    parts = []
    if first:
        before = [*known, *(Constraint("ge", low - 1 - variable) for low in lows if len(lows) == 1)]
        parts.append(_loop_between(loop, [], [first[0] - 1], before, zeros, lengths))
    zeros_inside = zeros | dict.fromkeys(found.zeros, Affine())
    parts.append(_loop_between(loop, first, last, inside, zeros_inside, lengths))
    if last:
        after += [Constraint("ge", variable - high - 1) for high in highs if len(highs) == 1]
        parts.append(_loop_between(loop, [*first, last[0] + 1], [], after, zeros, lengths))
    return tuple([part for part in parts if part.body and not _is_empty(part, lengths)])


def _is_empty(loop: Loop, lengths: Lengths) -> bool:
    """Return whether `loop` has no iterations, whatever the sizes are. ``lengths`` has the values of axis lengths."""
    gaps = [_gap(low, high, lengths) for low in loop.lows for high in loop.highs]
    return any(gap is not None and gap < 0 for gap in gaps)


def _gap(low: Bound, high: Bound, lengths: Lengths) -> int | None:
    """Return the number ``high - low``, after the axis lengths in ``lengths`` are replaced by their values; None if the
    difference is not a constant.
    """
    gap = (high.form - low.form).substitute(lengths)
    return gap.constant if gap.is_constant and low.divisor == high.divisor == 1 else None


def _loop_between(
    loop: Loop,
    lows: Sequence[Affine],
    highs: Sequence[Affine],
    facts: Sequence[Constraint],
    zeros: Mapping[Quotient | SymbolicQuotient, Affine],
    lengths: Lengths,
) -> Loop:
    """Return `loop` with the additional bounds `lows` and `highs`, and with its body simplified: guards that the
    constraints `facts` decide are removed, and the quotients `zeros` are replaced by their values.

    A guard is removed alone if `facts` imply its conditions, with its body if they contradict one. ``lengths`` maps
    names of axis lengths to forms.
    """
    body: list[Statement] = []
    for statement in loop.body:
        if not isinstance(statement, If):
            body.append(statement)
        elif not any(_fails(row, facts, lengths) for row in statement.conditions):
            rest = tuple([row for row in statement.conditions if not _follows(row, facts, lengths)])
            body += [replace(statement, conditions=rest)] if rest else statement.body
    new_lows = _tightest((*loop.lows, *map(Bound, lows)), 1, lengths)
    new_highs = _tightest((*loop.highs, *map(Bound, highs)), -1, lengths)
    simple = Renaming({}, forms=zeros).body(tuple(body)) if zeros else tuple(body)
    return replace(loop, lows=new_lows, highs=new_highs, body=simple)


def _tightest(bounds: Iterable[Bound], sign: int, lengths: Lengths) -> tuple[Bound, ...]:
    """Return lower bounds (for ``sign`` 1) or upper bounds (-1) without redundant ones: the lower bound ``i`` is
    dropped if there is ``i + 1``. ``lengths`` maps variables for lengths of axes to extents.
    """
    found: list[Bound] = []
    for bound in bounds:
        gaps = [_gap(bound, other, lengths) for other in found]
        if any(gap is not None and gap * sign >= 0 for gap in gaps):
            continue
        found = [other for other, gap in zip(found, gaps, strict=True) if gap is None]
        found.append(bound)
    return tuple(found)
