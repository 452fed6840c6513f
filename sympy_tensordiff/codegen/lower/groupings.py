"""Sums that differ in their parentheses or by a factor as one value: ``y - (z - x)`` in a function, ``x + y - z`` or
``z - x - y`` in its derivative.

Derivatives are written without the parentheses of the function. Kernels of both would compute every function of such a
sum twice. All of them become the grouping of the function: differences of neighbours, which are exact, stay
differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from sympy_tensordiff.codegen.lower.shifts import whole
from sympy_tensordiff.graph.nodes import Graph, Node, reachable


class FlatSum(NamedTuple):
    """An addition without nested additions, as ``number * sum(factor * term)`` with 1 as the first factor. Additions
    that are multiples of each other thus differ in ``number`` only.
    """

    number: Fraction
    terms: tuple[tuple[int, Fraction], ...]
    """The terms by their identities, in order, with their factors."""


def with_common_groupings(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with additions grouped so that they share groups: ``a + b + c`` becomes ``(a + b) + c`` if ``a +
    b`` also occurs. An addition that is a multiple of another, such as ``2*a + 2*b``, is written as this multiple.
    """
    flat: dict[Node, Node] = {}
    leaves: dict[Node, int] = {}
    sums: dict[Node, FlatSum] = {}
    chosen: dict[tuple[tuple[int, Fraction], ...], Node] = {}
    first: dict[tuple[tuple[int, Fraction], ...], Node] = {}
    for part in reachable(*roots):
        flat[part] = graph.with_args(part, [flat[arg] for arg in part.args])
        if part.op != "add" or flat[part].op != "add":  # the transpose of a sum is a view
            continue
        flat[part] = graph.add([term for arg in flat[part].args for term in _terms(graph, arg)])
        leaves[part] = sum(leaves.get(graph.split_view(arg)[1], 1) for arg in part.args)
        if flat[part].op == "add" and len(flat[part].args) == leaves[part]:  # no terms cancel or are collected
            sums[part] = _flat_sum(graph, flat[part])
            if leaves[part] > len(part.args):
                chosen.setdefault(sums[part].terms, part)
            other = first.setdefault(sums[part].terms, part)
            if other is not part:  # so that sums of products with it are multiples of each other, too
                flat[part] = graph.scale(whole(sums[part].number / sums[other].number), flat[other])
    for part, one in sums.items():
        chosen.setdefault(one.terms, part)
    others = {part: chosen[one.terms] for part, one in sums.items() if chosen[one.terms] is not part}
    if not others:
        return list(roots)
    done: dict[Node, Node] = {}
    stack = list(roots)
    while stack:
        part = stack[-1]
        below = (others[part],) if part in others else part.args
        if part not in done and (waiting := [node for node in below if node not in done]):
            stack += waiting
            continue
        stack.pop()
        if part in others:
            ratio = sums[part].number / sums[others[part]].number
            done[part] = graph.scale(whole(ratio), done[others[part]])
        else:
            done[part] = graph.with_args(part, [done[arg] for arg in part.args])
    return [done[root] for root in roots]


def _terms(graph: Graph, term: Node) -> list[Node]:
    """Return the terms of ``term`` if it is an addition or a multiple of one: ``[2*a, 2*b]`` for ``2*(a + b)``. Return
    ``[term]`` for any other term.
    """
    number, core = graph.split_view(term)
    return [graph.scale(number, one) for one in core.args] if core.op == "add" else [term]


def _flat_sum(graph: Graph, addition: Node) -> FlatSum:
    """Return ``addition`` as a `FlatSum`, ``number*sum(factor*term)``. Two additions that are multiples of each other
    get equal terms and factors, and differ in ``number`` only.
    """
    terms = sorted(((core.id, Fraction(number)) for number, core in map(graph.split_view, addition.args)))
    first = terms[0][1]
    return FlatSum(first, tuple((name, number / first) for name, number in terms))
