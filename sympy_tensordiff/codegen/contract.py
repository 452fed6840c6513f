"""Einsum nodes of many operands as products of two, in an order of little work.

A product that is used once is part of the einsum that uses it, so that the order can go across the
nodes as written: a chain of Jacobian matrices with a vector at one end becomes one product of a
matrix and a vector after the other, whichever way the chain was multiplied out. (Choosing between
forward and reverse mode at every place is known as cross-country elimination.)

Afterwards an einsum node has two operands; or one, of which it sums axes; or sums nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count

from sympy_tensordiff.codegen.paths import contraction_path, products
from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine

Labelled = tuple[Node, tuple[int, ...]]

SIZE = 100
"""What a symbolic extent is taken for where orders are compared."""


def in_pairs(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """``roots`` with all einsum nodes as products of two operands at most, but for those that sum nothing."""
    work = _Pairing(graph, roots)
    return [work.done[root] for root in roots]


def hint(extent: Affine) -> int:
    """The extent, a guess where it is symbolic."""
    return max(1, extent.evaluate(dict.fromkeys(extent.atoms(), SIZE)))


class _Pairing:
    def __init__(self, graph: Graph, roots: Sequence[Node]) -> None:
        self.graph = graph
        parts = reachable(*roots)
        uses = Counter(roots)
        for part in parts:
            uses.update(part.args)
        self.absorbed = {arg for part in parts if is_core(part) for arg in part.args if is_core(arg) and uses[arg] == 1}
        self.done: dict[Node, Node] = {}
        for part in parts:
            if part in self.absorbed:
                continue
            if is_core(part):
                self.done[part] = self.core(part)
            else:
                self.done[part] = graph.with_args(part, [self.done[arg] for arg in part.args])

    def core(self, node: Node) -> Node:
        """An einsum with all that is absorbed by it."""
        output = tuple(range(len(node.shape)))
        operands, extents = self.gathered(node, output)
        held = Counter(label for _, labels in operands for label in set(labels))
        held.update(output)
        operands = [self.reduced(part, held) for part in operands]
        scalars = [part for part in operands if not part[0].shape]
        tensors = [part for part in operands if part[0].shape]
        if {label for _, labels in tensors for label in labels}.issubset(output):
            return self.graph.ein(1, operands, output)
        inputs = [frozenset(labels) for _, labels in tensors]
        path = contraction_path(inputs, frozenset(output), {label: hint(extents[label]) for label in extents})
        for step, (_, product) in zip(path, products(inputs, frozenset(output), path), strict=True):
            labels = tuple(sorted(product))
            tensors.append((self.product([tensors[number] for number in step], labels), labels))
        return self.graph.ein(1, [tensors[-1], *scalars], output)

    def gathered(self, node: Node, output: tuple[int, ...]) -> tuple[list[Labelled], dict[int, Affine]]:
        """The operands of an einsum and of those that it absorbs, under common labels, and their extents."""
        numbers = count(len(output))
        extents = dict(zip(output, node.shape, strict=True))
        operands: list[Labelled] = []
        stack = [(node, output)]
        while stack:
            part, labels = stack.pop()
            if part is not node and part not in self.absorbed:
                operands.append((self.done[part], labels))
                continue
            known = dict(zip(part.data.output, labels, strict=True))
            for label, extent in enumerate(part.data.extents):
                if label not in known:
                    known[label] = next(numbers)
                    extents[known[label]] = extent
            inner = [tuple([known[label] for label in labels]) for labels in part.data.inputs]
            stack += reversed(list(zip(part.args, inner, strict=True)))
        return operands, extents

    def reduced(self, part: Labelled, held: Counter[int]) -> Labelled:
        """An operand summed over the labels that nothing else has."""
        labels = part[1]
        kept = tuple(dict.fromkeys(label for label in labels if held[label] > 1))
        return part if len(kept) == len(set(labels)) else (self.graph.ein(1, [part], kept), kept)

    def product(self, operands: Sequence[Labelled], output: tuple[int, ...]) -> Node:
        """A product of two operands."""
        node = self.graph.ein(1, operands, output)
        if is_view(node) and node.args and is_core(node.args[0]):
            return self.graph.with_operands(node, [self.traced(node.args[0])])
        return self.traced(node)

    def traced(self, node: Node) -> Node:
        """A product in which both axes of an inverse are summed: one by solving equations, the other afterwards."""
        if node.op != "ein" or len(node.args) != 2:
            return node
        for place, (arg, labels) in enumerate(zip(node.args, node.data.inputs, strict=True)):
            if arg.op == "inv" and len(set(labels)) == 2 and set(labels).isdisjoint(node.data.output):
                other, theirs = node.args[1 - place], node.data.inputs[1 - place]
                row, output, fresh = labels[0], node.data.output, len(node.data.extents)
                moved = tuple([fresh if label == row else label for label in theirs])
                solved = self.graph.ein(1, [(arg, labels), (other, moved)], (*output, row, fresh))
                return self.graph.ein(1, [(solved, (*output, row, row))], output)
        return node
