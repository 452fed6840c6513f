"""Additions of the components of vectors as sums: ``x[0]*y[0] + x[1]*y[1] + x[2]*y[2]`` is ``Sum_c x[c]*y[c]``.

Written out, a function of vectors with few components has as many cotangents as components, each a formula of its own
under a delta, and its second derivative the square of that number. As a sum it has one formula for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sympy_tensordiff.graph.einsums import OPAQUE
from sympy_tensordiff.graph.nodes import Graph, Node, ranges, reachable, rewritten
from sympy_tensordiff.integer.affine import Affine

WHOLE = OPAQUE - {"tensor", "comprehension"}
"""Functions of matrices, and scans: inside of a sum they would have no derivative."""


def with_sums_over_components(graph: Graph, roots: Sequence[Node], tensors: Collection[Node]) -> list[Node]:
    """Return `roots` with sums in place of additions that have one term for each index of an axis: ``x[0]**2 +
    x[1]**2`` becomes ``Sum x[i]**2``. Each term must read one of `tensors`.

    The terms read `tensors`, and perhaps others, at one number each, and are equal but for this number; the numbers
    are all entries of axes of one constant extent. Other terms stay as they are.
    """
    nodes = reachable(*roots)
    read = {place for node in nodes for place in _components(node) if node.op == "read" and node.args[0] in tensors}
    if len(read) < 2:
        return list(roots)
    return rewritten(graph, roots, lambda node: _with_sums(graph, node, tensors) if node.op == "add" else node)


def _components(node: Node) -> set[tuple[int, int]]:
    """Return ``(number, extent)`` for each index of the read `node` that is a number, on an axis of constant extent:
    ``(0, 3)`` for ``x[0]``.
    """
    if node.op != "read":
        return set()
    pairs = zip(node.data, node.args[0].shape, strict=True)
    return {(form.constant, extent.constant) for form, extent in pairs if form.is_constant and extent.is_constant}


def _with_sums(graph: Graph, addition: Node, tensors: Collection[Node]) -> Node:
    """Return `addition` with terms that differ only in the component, ``x[0]**2 + x[1]**2 + x[2]**2``, joined to one
    sum over the axis. Each term must read one of `tensors`.
    """
    if addition.shape:
        return addition
    index = graph.fresh("c")
    groups: dict[tuple[Node, int], dict[int, Node]] = {}
    for term in addition.args:
        parts = reachable(term)
        if any(part.op in WHOLE for part in parts):
            continue
        places = set().union(*map(_components, parts))
        if len(places) == 1 and any(part.op == "read" and part.args[0] in tensors for part in parts):
            ((number, extent),) = places
            body = _with_index(graph, term, number, Affine.variable(index))
            groups.setdefault((body, extent), {}).setdefault(number, term)
    joined: list[Node] = []
    done: set[Node] = set()
    for (body, extent), terms in groups.items():
        if len(terms) == extent > 1 and all(0 <= number < extent for number in terms):
            joined.append(graph.sum([index], ranges([index], [Affine.of(extent)]), body))
            done.update(terms.values())
    return graph.add([*joined, *(term for term in addition.args if term not in done)]) if joined else addition


def _with_index(graph: Graph, term: Node, number: int, place: Affine) -> Node:
    """Replace the constant index `number` by the form `place` in all reads in `term`: ``x[c]*y[c]`` for ``x[0]*y[0]``.
    Axes of symbolic extent keep the number.
    """

    def with_place(node: Node) -> Node:
        """Return the read `node` with the index ``place`` instead of the number ``number`` on each axis of constant
        extent: ``x[c]`` for ``x[0]``. Other nodes are unchanged.
        """
        if node.op != "read":
            return node
        pairs = zip(node.data, node.args[0].shape, strict=True)
        forms = [place if f == Affine.of(number) and extent.is_constant else f for f, extent in pairs]
        return graph.read(node.args[0], forms)

    return rewritten(graph, [term], with_place)[0]
