"""The forward sweep over whole tensors: the tangent of every node from those of its operands.

An einsum is linear in each operand, an element-wise rule is its own transpose; the others are the
derivatives of the inverse, of the cofactors and of log-sum-exp applied to a direction. Entry-by-entry
parts are swept by `derivative.pushforward`. Each node is visited once, without recursion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.derivative.pullbacks import pull
from sympy_tensordiff.derivative.pushforward import Pushforward
from sympy_tensordiff.derivative.tensor_pullbacks import softmax
from sympy_tensordiff.derivative.tensor_sweep import ENTRYWISE, closed_parts
from sympy_tensordiff.graph.einsums import tensor_of
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.graph.patterns import Operand


class TensorPushforward:
    """One forward sweep with the tangents of all variables at once.

    Parameters
    ----------
    graph : Graph
    tangents : mapping of Node to sequence of Node
        For each leaf what its tangent is the sum of: tensors of its shape, or scalars.
    sizes : frozenset of int
        The variables that are never bound.
    """

    def __init__(self, graph: Graph, tangents: Mapping[Node, Sequence[Node]], sizes: frozenset[int]) -> None:
        self.graph = graph
        self._sizes = sizes
        self._done = {leaf: graph.add(parts) for leaf, parts in tangents.items()}

    def tangent(self, node: Node) -> Node:
        """The tangent of a node, of its shape; the scalar zero where it does not depend on a leaf."""
        return trampoline(self._visit(node))

    def _visit(self, node: Node) -> Recursion[Node]:
        if node not in self._done:
            if node.op in ENTRYWISE:
                tangent = yield self._entries(node)
            else:
                args = yield from in_turn(self._visit(arg) for arg in node.args)
                tangent = self._rule(node, args)
            self._done[node] = self.graph.zero if self.graph.is_zero(tangent) else tangent
        return self._done[node]

    def _rule(self, node: Node, tangents: Sequence[Node]) -> Node:
        graph = self.graph
        if all(tangent is graph.zero for tangent in tangents):
            return graph.zero
        if node.op == "select":
            return graph.select(node.args[0], *tangents[1:])
        if node.op == "ein":
            return self._contraction(node, tangents)
        if node.op in ("inv", "cof", "lse"):
            return self._matrix(node, tangents[0])
        parts = []
        for position, tangent in enumerate(tangents):
            if tangent is not graph.zero:
                parts.append(pull(graph, node, graph.broadcast(tangent, node.shape), position))
        return graph.add(parts)

    def _contraction(self, node: Node, tangents: Sequence[Node]) -> Node:
        """D (A * B)[H, K] = H * B + A * K"""
        graph = self.graph
        parts = []
        for n, tangent in enumerate(tangents):
            if tangent is not graph.zero:
                operands = [*node.args[:n], tangent, *node.args[n + 1 :]]
                parts.append(graph.with_operands(node, operands))
        return graph.add(parts)

    def _matrix(self, node: Node, tangent: Node) -> Node:
        """D inv(X)[H] = -inv(X) H inv(X),  D cof(k, X)[H] = cof(k + 1, X) : H,  D lse(X)[H] = sum(softmax(X) H)"""
        graph = self.graph
        if node.op == "inv":
            batch = tuple(range(4, 2 + len(node.shape)))
            factors = [(node, (*batch, 0, 1)), (tangent, (*batch, 1, 2)), (node, (*batch, 2, 3))]
            return graph.ein(-1, factors, (*batch, 0, 3))
        own = tuple(range(len(node.shape)))
        if node.op == "cof":
            derivative = graph.cofactor(node.data + 1, node.args[0])
            return graph.ein(
                1, [(derivative, (*own, "a", "b")), (tangent, (*own[: len(tangent.shape) - 2], "a", "b"))], own
            )
        labels = tuple(range(len(tangent.shape)))
        operands: list[Operand] = [(softmax(graph, node), labels), (tangent, labels)]
        return graph.ein(1, operands, [axis for axis in labels if axis not in node.data])

    def _entries(self, node: Node) -> Recursion[Node]:
        """The tangent of index notation, whose parts are nodes of this sweep."""
        graph = self.graph
        variables: tuple[int, ...] = ()
        body = node
        if node.op == "comprehension":
            variables, _, body = graph.open(node)
        tangents = {}
        for part in closed_parts(body, frozenset(variables), node):
            tangent = yield self._visit(part)
            tangents[part] = [] if tangent is graph.zero else [tangent]
        entry = Pushforward(graph, tangents, self._sizes).tangent(body)
        return entry if entry is graph.zero else tensor_of(graph, variables, node.shape, entry)
