"""Interior splitting: loops over periodic axes run without remainders and guards except at the ends.

A loop that reads at ``Mod(i + 1, n)`` divides in each iteration, and is not vectorised. It is cut into a short part
before the interior, the interior, where ``i + 1`` is less than ``n``, and a short part behind it (loop splitting).
Guards on the variable, and on the axes around it, are bounds of the interior as well; terms that have no points in a
part are left out of it. If a guard on the outer axes fails, the original loop runs.

Guards alone are cut off only where several of them are around functions: loops with masks are as fast otherwise (0.9 to
1.05 of the time of seven stencils), and compile in half the time.
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


class Guards(NamedTuple):
    """The guards in a loop body as conditions on the loop: lower and upper bounds of its variable, and conditions that
    are the same in all iterations.

    ``zeros`` are the quotients that are 0 between the bounds.
    """

    lows: list[Affine]
    highs: list[Affine]
    outer: list[Constraint]
    zeros: list[Quotient | SymbolicQuotient]


def interior(
    loop: Loop, fresh: Callable[[str], str], lengths: Lengths, is_dear: Callable[[If], bool]
) -> tuple[Statement, ...] | None:
    """Return an innermost loop as several loops: an interior without tests, where all guards are true, and the loops
    before and after it. None if this does not pay: it needs several guards of costly statements (`is_dear`), or
    quotients to remove.

    ``lengths`` are those of the axes of arrays.

    >>> from sympy_tensordiff.codegen.ir.nests import span
    >>> from sympy_tensordiff.codegen.ir.scalars import Load
    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> left, right = (Set(Name("s"), Load("x", (i + k,)), "sum") for k in (-1, 1))
    >>> body = (If((Constraint("ge", i - 1),), (left,)), If((Constraint("ge", n - i - 2),), (right,)))
    >>> parts = interior(span("i", Affine(), n, body), lambda name: name, {}, lambda test: True)
    >>> [(str(part.lows[-1].form), str(part.highs[-1].form), len(part.body)) for part in parts]
    [('0', '0', 1), ('1', 'n - 2', 2), ('n - 1', 'n - 1', 1)]
    """
    if loop.step != 1 or loop.bind or any(loops(loop.body)) or runs_less_often(loop, MIN_VECTOR_ROW):
        return None
    found = guards(loop, lengths)
    is_worth = found.zeros or sum(isinstance(s, If) and is_dear(s) for s in loop.body) > 1
    if not is_worth or not (found.lows or found.highs) or weight(loop.body) > MOST_WEIGHT:
        return None
    begin: list[Statement] = []
    parts = _parts(loop, found, begin, fresh, lengths)
    if not found.outer:
        return (*begin, *parts)
    outside = Name(fresh("outside"))
    flag = Set(outside, FALSE), Set(outside, Operation("not", (condition_of(found.outer),)), "any")
    is_outside = Constraint("ge", Affine.variable(outside.name) - 1)
    return *begin, If(tuple(found.outer), parts), *flag, If((is_outside,), (loop,))


def guards(loop: Loop, lengths: Lengths) -> Guards:
    """Return conditions under which no guard in the body of `loop` needs a test: bounds of the loop variable, and
    loop-invariant conditions. Quotients that are 0 within the bounds are returned, too, since remainders are plain
    indices there.
    """
    found = Guards([], [], [], [])
    variable, highs = Affine.variable(loop.variable), [bound.form.substitute(lengths) for bound in loop.highs]
    set_inside = {s.name for s in statements(loop.body) if isinstance(s, Set)}
    for part in dict.fromkeys(part for form in forms(loop.body) for part in quotients_in(form)):
        rest, last = part.form - variable, part.divisor - 1 - (part.form - variable)
        atoms = rest.atoms() | last.atoms()
        is_shift = atoms.isdisjoint({loop.variable, *set_inside}) and not data_entries([rest, last])
        if is_shift and any((last.substitute(lengths) - high).is_constant for high in highs):
            found.zeros.append(part)
            found.lows.append(-1 * rest)
            found.highs.append(last)
    for row in dict.fromkeys(row for test in loop.body if isinstance(test, If) for row in test.conditions):
        atoms, factor = row.form.atoms(), row.form.coefficient(loop.variable)
        if row.kind != "ge" or not set_inside.isdisjoint(atoms) or data_entries([row.form]):
            continue
        if loop.variable not in atoms:
            found.outer.append(row)
        elif abs(factor) == 1 and loop.variable not in row.form.hidden():
            rest = variable - row.form * factor
            (found.lows if factor > 0 else found.highs).append(rest)
    return found


def _parts(
    loop: Loop, found: Guards, begin: list[Statement], fresh: Callable[[str], str], lengths: Lengths
) -> tuple[Statement, ...]:
    """Return the loops before, inside and after the interior of `loop`, where all guards in `found` are true and are
    not tested.

    Statements that compute the ends are added to `begin`.
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
    fails_before = [Constraint("ge", variable - low) for low in lows if len(lows) == 1]
    fails_behind = [Constraint("ge", high - variable) for high in highs if len(highs) == 1]
    after = [*found.outer, *(Constraint("ge", variable - low) for low in found.lows)]
    within = [*after, *(Constraint("ge", high - variable) for high in found.highs)]
    parts = []
    if first:
        parts.append(_loop_between(loop, [], [first[0] - 1], found.outer, fails_before))
    inside = _loop_between(loop, first, last, within, [])
    zeros = Renaming({}, forms={part: Affine() for part in found.zeros})
    parts.append(replace(inside, body=zeros.body(inside.body)))
    if last:
        parts.append(_loop_between(loop, [*first, last[0] + 1], [], after, fails_behind))
    tight = [
        replace(part, lows=_tightest(part.lows, 1, lengths), highs=_tightest(part.highs, -1, lengths)) for part in parts
    ]
    return tuple([part for part in tight if part.body and not _is_empty(part, lengths)])


def _is_empty(loop: Loop, lengths: Lengths) -> bool:
    """Whether `loop` has no iterations for any sizes."""
    gaps = [_gap(low, high, lengths) for low in loop.lows for high in loop.highs]
    return any(gap is not None and gap < 0 for gap in gaps)


def _gap(low: Bound, high: Bound, lengths: Lengths) -> int | None:
    """Return ``high - low`` if that is a constant; else None."""
    gap = (high.form - low.form).substitute(lengths)
    return gap.constant if gap.is_constant and low.divisor == high.divisor == 1 else None


def _loop_between(
    loop: Loop,
    lows: Sequence[Affine],
    highs: Sequence[Affine],
    holds: Sequence[Constraint],
    fails: Sequence[Constraint],
) -> Loop:
    """Return `loop` restricted to a part of its range by the further bounds `lows` and `highs`. Guards in `holds` are
    true there and dropped; statements with a guard in `fails` are removed.
    """
    body: list[Statement] = []
    for statement in loop.body:
        if not isinstance(statement, If):
            body.append(statement)
        elif not any(row in fails for row in statement.conditions):
            rest = tuple([row for row in statement.conditions if row not in holds])
            body += [replace(statement, conditions=rest)] if rest else statement.body
    new_lows, new_highs = (*loop.lows, *map(Bound, lows)), (*loop.highs, *map(Bound, highs))
    return replace(loop, lows=new_lows, highs=new_highs, body=tuple(body))


def _tightest(bounds: Iterable[Bound], sign: int, lengths: Lengths) -> tuple[Bound, ...]:
    """Return lower bounds (upper ones for ``sign=-1``) without redundant ones: ``i`` is dropped if there is ``i
    + 1``.
    """
    found: list[Bound] = []
    for bound in bounds:
        gaps = [_gap(bound, other, lengths) for other in found]
        if any(gap is not None and gap * sign >= 0 for gap in gaps):
            continue
        found = [other for other, gap in zip(found, gaps, strict=True) if gap is None]
        found.append(bound)
    return tuple(found)
