"""Products that contain other products: a value that is a product of tensors reads the products of its gradient.

``trace(K @ H @ L @ H)`` is ``sum(K*M.T)`` with ``M = H @ L @ H``, and M is its derivative with respect to K:
once M is computed for the gradient, the value takes one multiplication for each entry. The best order for each einsum
alone would multiply other pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import NamedTuple

from sympy_tensordiff.graph.contraction_order import Extents, Labelled, Products
from sympy_tensordiff.graph.contractions import is_core, sums_labels
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.graph.sum_parts import core_of

MAX_OPERANDS = 8
"""Einsums of more operands are left as they are."""

MAX_CHOICES = 100
"""Of an einsum, no more sets of operands than these are compared with other einsums."""


class _Einsum(NamedTuple):
    """An einsum as a list of its operands with their labels, the labels of its result, and their extents. Products
    among the operands are replaced by their own operands.
    """

    operands: list[Labelled]
    output: tuple[int, ...]
    extents: Extents

    def node(self, graph: Graph) -> Node:
        """Return the einsum as a node."""
        return graph.ein(1, self.operands, self.output, self.extents)


def with_contained_products(
    graph: Graph, roots: Sequence[Node], parts: Sequence[Node], products: Products
) -> list[Node]:
    """Return the expressions `roots` with einsums that reuse the values of others where this saves operations:
    ``A @ B @ C`` becomes ``P @ C`` if ``P = A @ B`` is also computed. `parts` are all nodes of `roots`, arguments
    first; `products` decides which of them are multiplied out.

    An einsum that another one reads stays as it is: where it contains a third one, that is for the next call.
    """
    einsums = {}
    for part in parts:
        if is_core(part) and part not in products.absorbed:
            output = tuple(range(len(part.shape)))
            operands, extents = products.gathered(part, output, {}, MAX_OPERANDS)
            if 2 <= len(operands) <= MAX_OPERANDS:
                einsums[part] = _Einsum(operands, output, extents)
    inner = [part for part in einsums if part.shape and sums_labels(part)]
    counts = {part: Counter(node for node, _ in own.operands) for part, own in einsums.items()}
    found: dict[Node, _Einsum] = {}
    for whole, own in sorted(einsums.items(), key=lambda item: -len(item[1].operands)):
        smaller = [part for part in inner if whole not in found and counts[part] < counts[whole]]
        contained = {core_of(einsums[part].node(graph)): part for part in smaller}
        if contained and (new := _with_cheapest(graph, own, contained, products)) is not None:
            found[whole], part = new
            found.setdefault(part, einsums[part])
    if not found:
        return list(roots)
    done: dict[Node, Node] = {}
    for part in parts:
        if part in found:
            operands, output, extents = found[part]
            done[part] = graph.ein(1, [(_replaced(graph, node, done), own) for node, own in operands], output, extents)
        else:
            done[part] = graph.with_args(part, [done.get(arg, arg) for arg in part.args])
    return [done.get(root, root) for root in roots]


def _replaced(graph: Graph, node: Node, done: Mapping[Node, Node]) -> Node:
    """Return the operand `node` with all nodes below it that are keys of `done` replaced by their values."""
    return done[node] if node in done else graph.with_args(node, [_replaced(graph, arg, done) for arg in node.args])


def _with_cheapest(
    graph: Graph, whole: _Einsum, contained: Mapping[Node, Node], products: Products
) -> tuple[_Einsum, Node] | None:
    """Return ``(einsum, value)``: the einsum `whole`, with several operands replaced by their product in the cheapest
    way, and the node with the value of this product. ``contained`` maps the products that may be used to these nodes.
    None if no replacement saves operations.
    """
    operands, output, extents = whole
    least = products.work_in_order(operands, output, extents)
    best: tuple[_Einsum, Node] | None = None
    for new, part in islice(_choices(graph, whole, contained), MAX_CHOICES):
        work = products.work_in_order(new, output, extents)
        if work < least:
            least, best = work, (whole._replace(operands=new), part)
    return best


def _choices(graph: Graph, whole: _Einsum, contained: Mapping[Node, Node]) -> Iterator[tuple[list[Labelled], Node]]:
    """Yield ``(operands, value)`` for each way to replace some operands of the einsum `whole` by their product, if this
    is a key of `contained`: the operands after the replacement, and the node that `contained` has for the product.
    """
    wanted = {frozenset(Counter(part.args).items()) for part in contained}
    sizes = {len(part.args) for part in contained}
    for size in sorted(sizes, reverse=True):
        for places in combinations(range(len(whole.operands)), size):
            chosen = [whole.operands[place] for place in places]
            if frozenset(Counter(node for node, _ in chosen).items()) not in wanted:
                continue
            rest = [operand for place, operand in enumerate(whole.operands) if place not in places]
            outside = {*whole.output, *(label for _, labels in rest for label in labels)}
            labels = tuple(dict.fromkeys(label for _, own in chosen for label in own if label in outside))
            for same in product(*(_orders(graph, *operand) for operand in chosen)):
                found = graph.ein(1, same, labels)
                if (part := contained.get(core_of(found))) is not None:
                    yield [*rest, (found, labels)], part
                    break


def _orders(graph: Graph, node: Node, labels: tuple[int, ...]) -> list[Labelled]:
    """Return the operand ``(node, labels)`` in a list; if `node` is a symmetric matrix, also the equal operand with its
    two labels exchanged.
    """
    return [(node, labels), (node, labels[::-1])] if graph.symmetric.get(node) else [(node, labels)]
