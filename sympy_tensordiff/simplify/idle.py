"""Products, maxima and minima over indices that nothing in them depends on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.implication import implied
from sympy_tensordiff.integer.polyhedron import Bounds
from sympy_tensordiff.integer.rows import Rows
from sympy_tensordiff.integer.values import bound_rows, never_empty, number_of_values


def without_idle_indices(
    graph: Graph,
    op: str,
    limits: Sequence[Bounds],
    body: Node,
    facts: Rows,
    harmless: Callable[[Node, Rows], bool],
) -> tuple[tuple[Bounds, ...], Node]:
    """The ranges, outermost first, of the indices that the body or another range depends on, and the body.

    A product over one that goes is a power: ``Prod_k b`` is ``b**n`` for n values of k. Equal values have
    that value as their greatest and least one, where there is one: over an empty range that is infinite.
    All values count where the greatest ones share a derivative: as often each, or the index stays.

    Parameters
    ----------
    graph : Graph
    op : str
    limits : sequence of Bounds
    body : Node
    facts : rows
    harmless : callable
        Whether a node may be evaluated where it was not before, given what is known there.
    """
    kept = tuple(limits)
    own = [limit.variable for limit in limits]
    for limit in reversed(limits):
        place = kept.index(limit)
        before, behind = kept[:place], kept[place + 1 :]
        if limit.variable in body.free or any(limit.variable in row.form.atoms() for row in bound_rows(behind)):
            continue
        known = (*facts, *bound_rows(before))
        filled = never_empty([limit], known)
        count = number_of_values(limit)
        if op == "prod":
            if count is None or not (filled or implied(Row("ge", count), known)):
                continue
            if not (filled or harmless(body, (*known, *bound_rows(behind)))):
                continue
            body = graph.pow(body, graph.index(count))
        elif not filled or count is None or not count.atoms().isdisjoint(own):
            continue
        kept = (*before, *behind)
    return kept, body
