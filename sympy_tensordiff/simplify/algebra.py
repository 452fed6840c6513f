"""The last simplification of results over whole tensors: what a reader would write.

Nothing is expanded, nothing grows: a pass whose result weighs more (`rewriting.size`) is dropped. The
result is the same after another time, and for operands and terms in another order.

Rules of one node (`recognition`); ``u``, ``x`` are any tensors or scalars:

- ``log(sum(exp(u)))`` over axes is ``lse(u)``; ``log(1 + exp(u))`` is ``softplus(u)``
- ``(1 + exp(u))**-n`` is ``sigmoid(-u)**n``; ``log(sigmoid(u))`` is ``-softplus(-u)``
- ``1 - sigmoid(u)`` is ``sigmoid(-u)``, unless only ``sigmoid(u)`` is there: ``s (1 - s)`` stays
- ``(x**a)**n`` is ``x**(a n)``; ``exp(u)**-n`` is ``exp(-u)**n``; ``abs(x)**(2 n)`` is ``x**(2 n)``
- functions of a transposed or repeated tensor are transposed or repeated functions
- the diagonal of a function of repeated tensors is the function of what is repeated
- matrices such as ``X^T X`` and ``A + A^T``, sums, functions and inverses of such are their own transposes
- ``c x - c y`` is ``c (x - y)``; ``(x + y) + x`` is ``2 x + y``

Rules of the operands of a product (`products`):

- ``inv(A) A`` and ``A inv(A)`` are deltas; ``exp(u) exp(-u)`` is 1
- ``exp(u) / sum(exp(u))`` is ``exp(u - lse(u))``, whose sum is 1
- ``exp(u) sigmoid(-u)`` is ``sigmoid(u)``
- ``sign(x) abs(x)**n`` is ``x**n`` for odd n, ``x sign(x)`` is ``abs(x)``
- ``x (x y)**n`` is ``x**(n + 1) y**n``

Rules of products and sums as a whole:

- a product that one product alone needs is part of it, a sum that one sum alone needs likewise (`flattening`)
- operands that terms have in common in the same role stand outside of the sum, where that is lighter (`factoring`)

What holds by construction: deltas in products, ``x/x``, powers of one base, equal addends, double
transposes, inverses of inverses, cofactors over the determinant (`graph.contractions`,
`graph.elementwise`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.factoring import factored
from sympy_tensordiff.simplify.flattening import flattened
from sympy_tensordiff.simplify.recognition import SINGLE, recognise
from sympy_tensordiff.simplify.rewriting import size

MOST_ROUNDS = 20
"""One that changes nothing is the last."""

Step = Callable[[Graph, Sequence[Node], Sequence[Node]], list[Node]]
"""A pass over roots, of which all nodes are given, too."""


def simplify(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """The results of a derivative in the form that is kept; those without whole tensors as they are."""
    if not any(root.whole for root in roots):
        return list(roots)
    work = _Simplification(graph, roots)
    for _ in range(MOST_ROUNDS):
        before = work.roots
        work.unless_heavier(recognise, *(partial(recognise, rules=rules) for rules in SINGLE))
        work.unless_heavier(_flattened)
        work.unless_heavier(factored)
        if work.roots == before:
            break
    return work.roots


class _Simplification:
    """The roots so far, and all nodes below them."""

    def __init__(self, graph: Graph, roots: Sequence[Node]) -> None:
        self.graph = graph
        self.roots = list(roots)
        self.nodes = reachable(*roots)
        self.limit = size(self.nodes)

    def unless_heavier(self, step: Step, *parts: Step) -> None:
        """The roots after a step, or after those of its parts that are light enough."""
        changed = step(self.graph, self.roots, self.nodes)
        if changed == self.roots:
            return
        nodes = reachable(*changed)
        if size(nodes) <= self.limit:
            self.roots, self.nodes = changed, nodes
            return
        for part in parts:
            self.unless_heavier(part)


def _flattened(graph: Graph, roots: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """Products of products, in which more may cancel."""
    flat = flattened(graph, roots, nodes)
    return flat if flat == roots else recognise(graph, flat)
