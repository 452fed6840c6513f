"""What an expression takes for granted: positive extents, and reads that stay inside their shapes.

Only reads that happen unconditionally count: those behind guards and conditions on values do not,
and those inside a sum only where the sum is provably not empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.extrema import parts_in, separated
from sympy_tensordiff.integer.polyhedron import implied, is_empty
from sympy_tensordiff.integer.products import factors_in
from sympy_tensordiff.integer.rows import Rows, atoms_in, linear, normalise_rows
from sympy_tensordiff.integer.values import at_extreme, is_nonempty
from sympy_tensordiff.simplify.choices import inside_shape


def extents_of(nodes: Sequence[Node]) -> list[Affine]:
    """The extents of all tensors and comprehensions below ``nodes``."""
    found: dict[Affine, None] = {}
    for node in reachable(*nodes):
        found.update(dict.fromkeys(node.shape))
    return list(found)


def size_variables(nodes: Sequence[Node]) -> frozenset[int]:
    """The free variables in the extents of all tensors and comprehensions: no index takes their place."""
    return frozenset(v for v in atoms_in(extents_of(nodes)) if v >= 0)


def input_facts(graph: Graph, roots: Sequence[Node]) -> Rows:
    """The facts that the expressions ``roots`` (as the user wrote them) stand for.

    Rows over sizes and free indices: what is granted; every extent is at least 1, and so is each factor of one
    that is a product; every unconditional read lies inside its shape, at the extreme points of the
    ranges around it. Reads that can never do so say nothing: they have to stay, so that the call
    can refuse them.
    """
    positive = positive_sizes(graph, roots)
    if not positive and not any(root.free for root in roots):
        return ()
    rows = dict.fromkeys(positive)
    seen: Seen = set()
    for root in roots:
        for row in unconditional_reads(graph, root, tuple(rows), seen):
            # One with a maximum is two cases, of which every question would be asked.
            if linear((row,)) or not parts_in((row.form,)):
                rows[row] = None
    return positive if is_empty(tuple(rows), ()) else tuple(rows)


def positive_sizes(graph: Graph, roots: Sequence[Node]) -> Rows:
    """What is granted, that every extent is at least 1, and so is each factor of one that is a product."""
    extents = extents_of([*roots, *graph.integers.values()])
    sizes = extents if linear(extents) else [*extents, *map(Affine.variable, factors_in(extents))]
    # One that is a number says nothing: it may be 0 in a program for calls with empty arrays.
    return normalise_rows((*graph.granted, *(Row("ge", size - 1) for size in sizes if size.terms))) or ()


Seen = set[tuple[Node, Rows]]
"""Nodes with the ranges around them that have been looked into."""


def unconditional_reads(
    graph: Graph,
    root: Node,
    known: Rows,
    seen: Seen | None = None,
    most: int | None = None,
) -> Rows:
    """The rows that say that the unconditional reads of an expression lie inside their shapes.

    They are over its sizes and free indices; ``known`` decides which ranges are not empty. What has
    been ``seen`` for another expression is left out. No more than ``most`` nodes are looked at.
    """
    found: list[Row] = []
    for node, context, bound in unconditional_parts(graph, root, known, set() if seen is None else seen, most):
        for row in inside_shape(graph, node):
            extreme = at_extreme(row, bound, context)
            if extreme is not None:
                found.append(extreme)
    if not linear(found):
        parts = [part for row in found for part in separated(row, row.form.atoms())]
        found = [row for row in parts if linear((row,)) or not implied(row, ())]
    return normalise_rows(found) or ()


def unconditional_parts(
    graph: Graph, root: Node, known: Rows, seen: Seen, most: int | None = None
) -> Iterator[tuple[Node, Rows, tuple[int, ...]]]:
    """What an expression computes unconditionally, with the ranges around it and their variables, innermost first."""
    stack: list[tuple[Node, Rows, tuple[int, ...]]] = [(root, (), ())]
    while stack and (most is None or len(seen) < most):
        node, context, bound = stack.pop()
        if node.free.isdisjoint(bound):  # what is around does not matter inside
            context, bound = (), ()
        if (node, context) in seen or node.op == "guard":
            continue
        seen.add((node, context))
        if node.op in BINDERS:
            variables, rows, body = graph.inside(node, bound)
            if node.op in RANGED and not is_nonempty(rows, variables, (*known, *context)):
                seen.discard((node, context))  # another expression may know more
                continue
            stack.append((body, context + rows, (*variables, *bound)))
            continue
        yield node, context, bound
        stack += [(arg, context, bound) for arg in (node.args[:1] if node.op == "select" else node.args)]
