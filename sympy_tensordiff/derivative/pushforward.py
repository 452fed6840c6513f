"""The forward sweep: the tangent of every node from the tangents of its arguments.

The pullback of a scalar node is linear in the cotangent and has no other use for it, so the rules
of `derivative.pullbacks` are the pushforwards, too: the tangent of ``f(a, b)`` is the sum of
``pull(f, tangent of a, 0)`` and ``pull(f, tangent of b, 1)``. A read of a variable becomes the read
of its tangent at the same place, a read of a comprehension the read of the comprehension of
tangents; sums, ranges and guards stay around as they are. So the loops of the result are those of
the function, and no equation is to be solved. (Griewank & Walther 2008, *Evaluating Derivatives*,
section 3.1.)

Of whole tensors, an einsum is linear in each operand, and an element-wise rule is its own transpose; the others are the
derivatives of the inverse, of the cofactors and of log-sum-exp applied to a direction. Parts that are given entry by
entry are swept in index notation.

Each node is visited once, without recursion; a tangent that is zero is not built.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fractions import Fraction

import sympy

from sympy_tensordiff.derivative.pullbacks import CONDITIONS, opened_product, pull, share
from sympy_tensordiff.derivative.tensor_pullbacks import softmax
from sympy_tensordiff.derivative.tensor_sweep import ENTRYWISE, closed_parts
from sympy_tensordiff.graph.einsums import tensor_of
from sympy_tensordiff.graph.gathering import Operand
from sympy_tensordiff.graph.interning import Recursion, in_turn, trampoline
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.tables import tabulated


class Pushforward:
    """One forward sweep with the tangents of all variables at once.

    Parameters
    ----------
    graph : Graph
    tangents : mapping of Node to sequence of Node
        For each leaf what its tangent is the sum of: tensors of its shape, or scalars.
    sizes : frozenset of int
        The variables that are never bound.
    symmetric : collection of Node
        The leaves of which both entries that are equal move by the mean of what the tangent says of them.
    """

    def __init__(
        self,
        graph: Graph,
        tangents: Mapping[Node, Sequence[Node]],
        sizes: frozenset[int],
        symmetric: Container[Node] = (),
    ) -> None:
        self.graph = graph
        self._sizes = sizes
        self._symmetric = symmetric
        self._given = tangents
        self._done: dict[Node, Node] = {}
        self._written: dict[Node, tuple[tuple[int, ...], Node] | None] = {}

    def tangent(self, node: Node) -> Node:
        """The tangent of a scalar node, zero where it does not depend on a leaf."""
        return trampoline(self._visit(node))

    def _visit(self, node: Node) -> Recursion[Node]:
        if node not in self._done:
            if node.op in CONDITIONS:
                self._done[node] = self.graph.zero
            elif node in self._given and not node.shape and node.op != "tensor":
                self._done[node] = self.graph.add(self._given[node])
            else:
                special = getattr(self, f"_{node.op}", self._all_arguments)
                self._done[node] = yield special(node)
        return self._done[node]

    def _all_arguments(self, node: Node) -> Recursion[Node]:
        """The sum over all arguments of what each hands up."""
        parts = []
        for position, arg in enumerate(node.args):
            tangent = yield self._visit(arg)
            if tangent is not self.graph.zero:
                parts.append(pull(self.graph, node, tangent, position))
        return self.graph.add(parts)

    def _select(self, node: Node) -> Recursion[Node]:
        """One choice between both tangents; a condition has none."""
        condition, value, otherwise = node.args
        value = yield self._visit(value)
        otherwise = yield self._visit(otherwise)
        return self.graph.select(condition, value, otherwise)

    def _guard(self, node: Node) -> Recursion[Node]:
        return self.graph.guard(node.data, (yield self._visit(node.args[0])))

    def _sum(self, node: Node) -> Recursion[Node]:
        variables, rows, body = self.graph.open(node)
        return self.graph.sum(variables, rows, (yield self._visit(body)))

    def _max(self, node: Node) -> Recursion[Node]:
        variables, rows, body = self.graph.open(node)
        tangent = yield self._visit(body)
        return self.graph.sum(variables, rows, share(self.graph, node, body, tangent))

    _min = _max

    def _prod(self, node: Node) -> Recursion[Node]:
        variables, rows, body, others = opened_product(self.graph, node)
        tangent = yield self._visit(body)
        return self.graph.sum(variables, rows, self.graph.mul((tangent, others)))

    def _call(self, node: Node) -> Recursion[Node]:
        """D log(prod_k b(k)) = sum_k D b(k) / b(k), likewise for `mul` and `pow`; other functions by their slopes."""
        graph, argument = self.graph, node.args[0]
        op = argument.op if node.data is sympy.log and argument not in self._given else ""
        if op == "prod":
            variables, rows, body = graph.open(argument)
            return graph.sum(variables, rows, (yield self._visit(graph.call(sympy.log, (body,)))))
        if op == "mul":
            slopes = yield from in_turn(self._visit(graph.call(sympy.log, (factor,))) for factor in argument.args)
            return graph.add(slopes)
        if op == "pow" and argument.args[1].op == "const":
            return graph.mul((argument.args[1], (yield self._visit(graph.call(sympy.log, (argument.args[0],))))))
        tangent: Node = yield self._all_arguments(node)
        return tangent

    def _read(self, node: Node) -> Recursion[Node]:
        tensor = node.args[0]
        if tensor.op == "tensor" or tensor in self._given:
            tables = self._given.get(tensor, ())
            moved = self.graph.add([self._at(table, node.data) for table in tables])
            if tensor not in self._symmetric:
                return moved
            exchanged = self.graph.add([self._at(table, node.data[::-1]) for table in tables])
            return self.graph.scale(Fraction(1, 2), self.graph.add((moved, exchanged)))
        table = yield self._visit(tensor)
        return self._at(table, node.data)

    def _comprehension(self, node: Node) -> Recursion[Node]:
        variables, _, body = self.graph.open(node)
        entry = yield self._visit(body)
        return entry if entry is self.graph.zero else self.graph.comprehension(variables, node.data, entry)

    def _at(self, table: Node, index: Sequence[Affine]) -> Node:
        """An entry of a tangent; written out where the tangent is mostly zeros, or no more than another read."""
        if table not in self._written:
            self._written[table] = None
            if table.op == "comprehension":
                variables, _, entry = self.graph.open(table)
                self._written[table] = variables, tabulated(self.graph, variables, table.data, entry, self._sizes)
        written = self._written[table]
        if written is None:
            return self.graph.read(table, index) if index and table is not self.graph.zero else table
        return self.graph.substitute(written[1], dict(zip(written[0], index, strict=True)))


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
