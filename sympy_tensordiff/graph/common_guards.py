"""Constraints common to the guards of all terms of a sum, which move to one guard around the sum."""

from __future__ import annotations

from collections.abc import Container, Iterator

from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Constraint
from sympy_tensordiff.integer.implication import is_implied
from sympy_tensordiff.integer.indirect import partition_data
from sympy_tensordiff.integer.rows import Rows

MAX_TERMS = 16
"""The most guarded terms whose constraints are compared."""


def common_rows(addition: Node) -> Rows:
    """Return the inequalities that hold in every term of `addition`, because its guard states or implies them; () if
    there are none. They can be moved to one guard around the sum.

    A constraint that some guards only imply is taken if two state it, and if it is all that one states: then the sum
    has as many guards as before, or fewer.
    """
    paths = list(_guards(addition, ()))
    if len(paths) > MAX_TERMS or not all(paths):
        return ()
    stated = dict.fromkeys(row for path in paths for row in path if row.kind != "eq")
    common = [row for row in stated if all(row in path for path in paths)]
    if partition_data(common)[1]:
        return ()
    rest = [row for row in partition_data(stated)[0] if sum(row in path for path in paths) >= 2]
    implied = [row for row in rest if row not in common and all(row in p or is_implied(row, p) for p in paths)]
    more = (*common, *implied)
    freed = any(all(row in more or row.kind == "eq" for row in path) for path in paths)
    return more if freed else tuple(common)


def without_rows(graph: Graph, node: Node, rows: Container[Constraint]) -> Node:
    """Return `node` with the constraints `rows` removed from its guards and from those of its terms."""
    if node.op == "add":
        return graph.add([without_rows(graph, term, rows) for term in node.args])
    if node.op == "guard":
        return graph.guard([row for row in node.data if row not in rows], without_rows(graph, node.args[0], rows))
    return node


def _guards(node: Node, rows: Rows) -> Iterator[Rows]:
    """Yield for each term of `node` the constraints under which it is added: ``rows`` and those of all guards around
    it.
    """
    if node.op == "guard":
        yield from _guards(node.args[0], (*rows, *node.data))
    elif node.op == "add":
        for term in node.args:
            yield from _guards(term, rows)
    else:
        yield rows
