"""The product rule along the tree of the cheapest contraction.

A product of many operands is differentiated as the products of two that compute it: each of them costs two more
products of the same size in a reverse sweep, and two in a forward sweep. So a derivative takes a small multiple of the
operations of the product, whatever the shapes are, and no intermediate is larger than those of the product itself
(except for the axes of the differentiated expression).

Source: reverse and forward mode over a binary evaluation tree (Griewank & Walther 2008, sections 3.1 and 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.contraction_paths import contraction_path
from sympy_tensordiff.graph.einsum_normal_form import Label, Operand
from sympy_tensordiff.graph.nodes import Graph, Node


class ProductTree(NamedTuple):
    """A contraction as a binary tree: leaves are its operands, inner nodes pairwise products.

    `node` is the value of the product, with one of `labels` for each axis; `factors` are empty for a leaf. `place` is
    the position of a leaf among all operands; `is_active` says whether an operand below depends on a variable.
    """

    node: Node
    labels: tuple[Label, ...]
    factors: tuple[ProductTree, ...]
    place: int
    is_active: bool

    @property
    def operand(self) -> Operand:
        """The product as an operand of further products: the pair ``(node, labels)``, with a label for each axis."""
        return self.node, self.labels


def product_tree(
    graph: Graph, operands: Sequence[Operand], output: Collection[Label], is_active: Callable[[int], bool]
) -> ProductTree:
    """Return a tree of pairwise products that contracts `operands` (pairs of node and labels) to the labels `output`,
    with the fewest operations at typical sizes. ``is_active(n)`` says whether operand `n` depends on a variable.
    """
    known = list(dict.fromkeys(label for _, labels in operands for label in labels))
    number = {label: n for n, label in enumerate(known)}
    hints = Hints()
    sizes = {
        number[label]: hints(extent)
        for node, labels in operands
        for label, extent in zip(labels, node.shape, strict=True)
    }
    inputs = [frozenset(number[label] for label in labels) for _, labels in operands]
    path = contraction_path(inputs, frozenset(number[label] for label in output if label in number), sizes)
    trees = [ProductTree(node, tuple(labels), (), n, is_active(n)) for n, (node, labels) in enumerate(operands)]
    left = dict(enumerate(trees))
    for n, step in enumerate(path, len(trees)):
        factors = tuple(left.pop(m) for m in step)
        needed = {label for tree in left.values() for label in tree.labels}.union(output)
        own = dict.fromkeys(label for factor in factors for label in factor.labels)
        labels = tuple(label for label in own if label in needed)
        node = graph.ein(1, [factor.operand for factor in factors], labels)
        left[n] = ProductTree(node, labels, factors, -1, any(factor.is_active for factor in factors))
    (root,) = left.values()
    return root


Contract = Callable[[Operand, Sequence[Operand], Sequence[Label]], Node]
"""The product of a cotangent and other operands, with the labels of the output."""


def leave_one_out(
    tree: ProductTree, cotangent: Operand, outer: Sequence[Label], contract: Contract
) -> Iterator[tuple[ProductTree, Node]]:
    """Yield ``(leaf, cotangent)`` for each operand ``leaf`` of the product `tree` that depends on a variable: its
    cotangent is `cotangent`, that of the whole product, times all other operands. ``contract`` multiplies operands;
    ``outer`` are the labels of the leading axes of all cotangents.

    Partial products are shared.

    `cotangent` is that of the whole product, a pair of node and labels; `outer` are its axes that belong to the
    differentiated expression.
    """
    stack = [(tree, cotangent)]
    while stack:
        product, given = stack.pop()
        if not product.is_active:
            continue
        if not product.factors:
            yield product, contract(given, [], (*outer, *product.labels))
            continue
        for n, factor in enumerate(product.factors):
            if factor.is_active:
                others = [other.operand for m, other in enumerate(product.factors) if m != n]
                own = (*outer, *dict.fromkeys(factor.labels))
                stack.append((factor, (contract(given, others, own), own)))


def directional(graph: Graph, tree: ProductTree, tangents: Sequence[Operand | None], outer: Sequence[Label]) -> Node:
    """Return the tangent of the product `tree` by the product rule: the sum of the products in which one operand is
    replaced by its tangent. ``tangents`` has the tangent of each operand (None for zero), ``outer`` the labels of the
    axes that number the directions.

    The result has the axes of the tree, then those of the directions, whose labels are ``outer``.

    `tangents` has the node and labels of each operand's tangent, None for zero; the labels are those of the operand
    followed by `outer`, the axes of the directions.
    """
    products = [tree]
    for product in products:
        products += product.factors
    found: dict[int, Operand] = {}
    for product in reversed(products):
        if not product.is_active:
            continue
        if not product.factors:
            tangent = tangents[product.place]
            assert tangent is not None
            found[id(product)] = tangent
            continue
        labels = (*product.labels, *outer)
        parts = []
        for n, factor in enumerate(product.factors):
            if factor.is_active:
                others = [other.operand for m, other in enumerate(product.factors) if m != n]
                parts.append(graph.ein(1, [found[id(factor)], *others], labels))
        found[id(product)] = graph.add(parts), labels
    return found[id(tree)][0]
