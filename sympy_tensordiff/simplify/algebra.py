"""The last simplification of results over whole tensors: what a reader would write.

Nothing is expanded, nothing grows: a pass whose result weighs more (`passes.size`) is dropped. The
result is the same after another time, and for operands and terms in another order.

Rules of one node (`recognition`); ``u``, ``x`` are any tensors or scalars:

- ``log(sum(exp(u)))`` over axes is ``lse(u)``; ``log(1 + exp(u))`` is ``softplus(u)``
- ``(1 + exp(u))**-n`` is ``sigmoid(-u)**n``; ``1 - sigmoid(u)`` is ``sigmoid(-u)`` unless ``sigmoid(u)`` is there
- ``(x**a)**n`` is ``x**(a n)``; ``exp(u)**-n`` is ``exp(-u)**n``; ``abs(x)**(2 n)`` is ``x**(2 n)``
- functions of a transposed or repeated tensor are transposed or repeated functions
- a matrix such as ``X^T X``, or a sum of such, is its own transpose

Rules of the operands of a product (`products`):

- ``inv(A) A`` and ``A inv(A)`` are deltas; ``exp(u) exp(-u)`` is 1
- ``exp(u) / sum(exp(u))`` is ``exp(u - lse(u))``, whose sum is 1
- ``exp(u) sigmoid(-u)`` is ``sigmoid(u)``
- ``sign(x) abs(x)`` is ``x``, ``x sign(x)`` is ``abs(x)``

Rules of products and sums as a whole:

- a product that one product alone needs is part of it, a sum that one sum alone needs likewise (`flattening`)
- operands that terms have in common in the same role stand outside of the sum (`factoring`)

What holds by construction: deltas in products, ``x/x``, powers of one base, equal addends, double
transposes, inverses of inverses, cofactors over the determinant (`graph.contractions`,
`graph.elementwise`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.simplify.factoring import factored
from sympy_tensordiff.simplify.flattening import flattened
from sympy_tensordiff.simplify.passes import size
from sympy_tensordiff.simplify.recognition import SINGLE, recognise

MOST_ROUNDS = 20
"""One that changes nothing is the last."""

Step = Callable[[Graph, Sequence[Node]], list[Node]]


def simplify(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """The results of a derivative in the form that is kept; those without whole tensors as they are.

    Parameters
    ----------
    graph : Graph
    roots : sequence of Node
    """
    roots = list(roots)
    if not any(root.whole for root in roots):
        return roots
    limit = size(roots)
    for _ in range(MOST_ROUNDS):
        before = roots
        roots = _unless_heavier(graph, roots, limit, recognise, *_SINGLE)
        roots = _unless_heavier(graph, roots, limit, _flattened)
        roots = _unless_heavier(graph, roots, limit, factored)
        if roots == before:
            break
    return roots


def _unless_heavier(graph: Graph, roots: list[Node], limit: int, step: Step, *parts: Step) -> list[Node]:
    """The roots after a step, or after those of its parts that are light enough."""
    changed = step(graph, roots)
    if changed == roots or size(changed) <= limit:
        return changed
    for part in parts:
        roots = _unless_heavier(graph, roots, limit, part)
    return roots


def _flattened(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Products of products, in which more may cancel."""
    return recognise(graph, flattened(graph, roots))


_SINGLE: tuple[Step, ...] = tuple(partial(recognise, rules=rules) for rules in SINGLE)
