"""Loop order of reductions: the innermost loop reads contiguous memory, however the limits were written.

Of several summation indices, the one along which most reads are contiguous becomes the innermost loop. Loops of few
steps, which are unrolled, keep their places, and no function is called more often than in the order as written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from sympy_tensordiff.codegen.lower.plan import EnclosingLoops, Planner
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.fourier_motzkin import project
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.rows import Rows

CACHE_LINE = 8
"""The entries of a cache line in double precision: the cost of a read whose neighbours in a loop share no cache
line.
"""

UNROLLED = 8
"""A loop of no more steps than this is unrolled rather than the innermost."""


class Stride(NamedTuple):
    """The memory cost of a loop if it is the innermost one: how much memory its iterations read, up to a cache line for
    each read (``lines``), and, to compare loops with equal ``lines``, how far its axes are from the last axis of the
    arrays (``distance``).
    """

    lines: int
    distance: int


def in_memory_order(
    planner: Planner,
    variables: tuple[int, ...],
    rows: Rows,
    body: Node,
    context: EnclosingLoops,
    hints: Callable[[Affine], int],
) -> tuple[tuple[int, ...], Rows]:
    """Return ``(variables, constraints)`` of the reduction of `body` over `variables` in the range `rows`, with its
    loops in an order that reads memory contiguously, the innermost last. ``context`` has the loops around it;
    ``hints(extent)`` is the expected length of an axis.

    Each variable is bounded by those before it.

    Both are returned as they are where another order does not read fewer cache lines, calls functions more often, or
    has no bounds.
    """
    graph = planner.graph
    if len(variables) < 2 or not all(_is_plain(row, variables) for row in rows):
        return variables, rows
    inner = context.inside(variables, rows)
    extents = [_extent(planner, v, inner) for v in variables]
    places = [n for n, extent in enumerate(extents) if not (extent.is_constant and extent.constant <= UNROLLED)]
    parts = _own_parts(graph, body)
    is_coupled = any(part.op in BINDERS and len(part.free.intersection(variables)) > 1 for part in parts)
    if is_coupled and not any(part.op == "read" and len(part.free.intersection(variables)) > 1 for part in parts):
        return variables, rows  # only the array of an inner sum has several of the axes: in the order of these loops
    strides = {variables[n]: stride(parts, variables[n]) for n in places}
    wanted = sorted((variables[n] for n in places), key=lambda v: strides[v], reverse=True)
    if not places or strides[wanted[-1]].lines == strides[variables[places[-1]]].lines:
        return variables, rows
    new = list(variables)
    for place, v in zip(places, wanted, strict=True):
        new[place] = v
    lengths = {v: hints(extent) for v, extent in zip(variables, extents, strict=True)}
    if _calls(parts, new, lengths) > _calls(parts, variables, lengths):
        return variables, rows
    found = nested_rows(new, rows, (*planner.facts, *context.rows))
    return (variables, rows) if found is None else (tuple(new), found)


def stride(parts: Sequence[Node], v: int) -> Stride:
    """Return the memory cost of a loop over ``v`` as the innermost one around ``parts``, from the distances in memory
    between the entries that they read in successive iterations.
    """
    lines = distance = 0
    for part in parts:
        axes = [n for n, form in enumerate(part.data) if v in form.atoms()] if part.op == "read" else []
        if axes:
            last, (axis, *others) = len(part.data) - 1, axes
            step = abs(part.data[axis].coefficient(v)) * _entries_behind(part, axis)
            is_affine = not others and v not in part.data[axis].hidden()
            lines += min(step, CACHE_LINE) if is_affine else CACHE_LINE
            distance += last - axis
    return Stride(lines, distance)


def _entries_behind(read: Node, axis: int) -> int:
    """Return the distance in memory, in entries, between neighbours along ``axis`` of the tensor that ``read`` reads:
    the product of the extents of all later axes. An extent that is not constant counts as a cache line.
    """
    extents = read.args[0].shape[axis + 1 :]
    return prod(extent.constant if extent.is_constant else CACHE_LINE for extent in extents)


def nested_rows(variables: Sequence[int], rows: Rows, facts: Rows) -> Rows | None:
    """Return constraints equivalent to ``rows`` for nested loops over ``variables``, in which each variable is bounded
    by those before it. None if a variable has no bounds.

    >>> i, j, n = (Affine.variable(v) for v in (1, 2, 3))
    >>> triangle = (Constraint("ge", j), Constraint("ge", i - j), Constraint("ge", n - i))
    >>> nested_rows((2, 1), triangle, ())
    (2 >= 0, -2 + 3 >= 0, 1 - 2 >= 0, -1 + 3 >= 0)
    """
    levels: list[Rows] = []
    current: Rows = tuple(rows)
    for v in reversed(variables):
        levels.append(tuple([row for row in current if row.form.coefficient(v)]))
        projected = project(current, [v], facts)
        if projected is None:
            return None
        current = projected
    found: list[Constraint] = []
    for v, level in zip(variables, reversed(levels), strict=True):
        own = list(level)
        for row in level:
            others = [other for other in own if other != row]
            is_last = not any(other.form.coefficient(v) * row.form.coefficient(v) > 0 for other in others)
            if not is_last and is_implied(row, (*facts, *found, *others)):
                own = others
        if {row.form.coefficient(v) > 0 for row in own} != {True, False}:
            return None
        found += own
    return tuple(found)


def _is_plain(row: Constraint, variables: Sequence[int]) -> bool:
    """Return whether `row` is an inequality in which one or more of `variables` occur, all with the coefficient 1 or
    -1. When loops are interchanged, such an inequality still gives exact bounds.
    """
    own = row.form.atoms().intersection(variables)
    if not own:
        return False
    return (
        row.kind == "ge" and row.form.hidden().isdisjoint(own) and all(abs(row.form.coefficient(v)) == 1 for v in own)
    )


def _extent(planner: Planner, v: int, context: EnclosingLoops) -> Affine:
    """Return the number of values of the loop variable `v`, inside of the loops of `context`, as a form in the sizes.
    Return the form `v` if it is unknown.
    """
    found = planner.range(Affine.variable(v), context)
    return Affine.variable(v) if found is None else found[1] - found[0] + 1


def _own_parts(graph: Graph, body: Node) -> list[Node]:
    """Return the nodes that each iteration of a loop with this `body` evaluates. Nodes inside of inner sums are left
    out, unless the loops of these sums are unrolled.
    """
    found: dict[Node, None] = {body: None}
    stack = [body]
    while stack:
        part = stack.pop()
        if part.op in BINDERS and part is not body and not _is_unrolled(graph, part):
            continue
        new = [arg for arg in part.args if arg not in found]
        found.update(dict.fromkeys(new))
        stack += new
    return list(found)


def is_short_range(rows: Rows, v: int) -> bool:
    """Return whether `v` has so few values between its constant bounds in `rows` that its loop is unrolled."""
    own = [row.form for row in rows if row.kind == "ge" and row.form.atoms() == {v}]
    lows = [-form.constant for form in own if form.coefficient(v) == 1]
    highs = [form.constant for form in own if form.coefficient(v) == -1]
    return bool(lows and highs) and min(highs) - max(lows) < UNROLLED


def _is_unrolled(graph: Graph, part: Node) -> bool:
    """Return whether `part` is a reduction, such as a sum, with ranges so short that all its loops are unrolled."""
    return part.op in RANGED and all(is_short_range(part.data, v) for v in graph.bound(part))


def _is_square(power: Node) -> bool:
    """Return whether the exponent of ``power`` is 2, 3 or 4, so that it takes at most two multiplications, which cost
    less than a read from another cache line.
    """
    exponent = power.args[1]
    return exponent.op == "const" and exponent.data in (2, 3, 4)


def _calls(parts: Sequence[Node], variables: Sequence[int], lengths: dict[int, int]) -> int:
    """Return how often a loop nest evaluates the function calls, divisions and inner sums among `parts`. The loops run
    over `variables`, outermost first, with the given `lengths`. Each part is hoisted out of the inner loops on which it
    does not depend.
    """
    total = 0
    for part in parts:
        if part.op == "call" or (part.op == "pow" and not _is_square(part)) or part.op in BINDERS:
            depths = [n for n, v in enumerate(variables) if v in part.free]
            total += prod(lengths[v] for v in variables[: depths[-1] + 1]) if depths else 1
    return total
