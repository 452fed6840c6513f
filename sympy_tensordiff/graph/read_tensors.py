"""The classes of whole tensors into the graph: one short line each.

The nodes of whole tensors are closed. A tensor that depends on an index around it, such as the
product of a batch's matrices inside of a comprehension over the batch, is read entry by entry
instead; an inverse or a determinant has no entries in index notation and is refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.graph.applications import Scope
from sympy_tensordiff.graph.conditions import Conditions
from sympy_tensordiff.graph.einsums import tensor_of
from sympy_tensordiff.graph.interning import Recursion, in_turn
from sympy_tensordiff.graph.nodes import Graph, Node, replace
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.symbolic.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow
from sympy_tensordiff.symbolic.matrix_functions import (
    TensorAdjugate,
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorExpr

Build = Callable[[Graph, Any, Sequence[Node]], Node]


class Tensors(Conditions):
    """The part of the reader that knows whole tensors."""

    ranges: dict[int, Affine]
    """How many values variables have that begin at 0."""

    def _whole(self, expr: Any, scope: Scope) -> Recursion[Node]:
        """The node of a whole tensor, or of a scalar that is made of such."""
        operands = yield from in_turn(self._visit(operand, scope) for operand in expr.operands)
        bound = frozenset(scope.values())
        if bound and any(not operand.free.isdisjoint(bound) for operand in operands):
            if isinstance(expr, _OF_MATRICES) and all(v in self.ranges for v in operands[0].free & bound):
                return self._of_all(expr, operands[0], sorted(operands[0].free & bound))
            node: Node = yield self._visit(_by_entries(expr), scope)
            return node
        return _BUILD[type(expr)](self.graph, expr, operands)

    def _of_all(self, expr: Any, matrix: Node, around: Sequence[int]) -> Node:
        """A function of a matrix that depends on indices ``around`` it: one entry of that of all such matrices."""
        graph = self.graph
        variables, _, body = graph.open(matrix)
        extents = *(self.ranges[v] for v in around), *matrix.shape
        whole = _BUILD[type(expr)](graph, expr, [tensor_of(graph, (*around, *variables), extents, body)])
        axes = [graph.fresh(name) for name in "ijkl"[: len(expr.shape)]]
        axes += [graph.fresh(f"i{n}") for n in range(4, len(expr.shape))]
        entry = graph.read(whole, [Affine.variable(v) for v in (*around, *axes)])
        return graph.comprehension(axes, whole.shape[len(around) :], entry) if axes else entry

    def _applied(self, expr: TensorFunction, scope: Scope) -> Recursion[Node]:
        """A function of entries, for all entries at once."""
        graph = self.graph
        body = yield self._visit(expr.template.expr, scope)
        places = [graph.scalar(symbol) for symbol in expr.template.variables]
        operands = yield from in_turn(self._visit(operand, scope) for operand in expr.operands)
        bound = frozenset(scope.values())
        if bound and any(not node.free.isdisjoint(bound) for node in (body, *operands)):
            node: Node = yield self._visit(_by_entries(expr), scope)
            return node
        if body.op == "call" and list(body.args) == places:
            return graph.call(body.data, operands)
        shape = next(operand.shape for operand in operands if operand.shape)
        return graph.broadcast(replace(graph, body, dict(zip(places, operands, strict=True))), shape)

    def _constant(self, expr: DeltaTensor | FilledTensor, scope: Scope) -> Recursion[Node]:
        """A tensor that is made of its shape and at most a scalar."""
        if isinstance(expr, DeltaTensor):
            extents = tuple(self.affine(extent, scope) for extent in expr.shape[: expr.rank // 2])
            return self.graph.delta(extents)
        shape = tuple(self.affine(extent, scope) for extent in expr.shape)
        value = yield self._visit(expr.value, scope)
        if not value.free.isdisjoint(scope.values()):
            node: Node = yield self._visit(_by_entries(expr), scope)
            return node
        return self.graph.broadcast(value, shape)


def _by_entries(expr: Any) -> Any:
    """A tensor as a comprehension of its entries."""
    axes = [sympy.Dummy("ijklmnpq"[axis] if axis < 8 else f"i{axis}", integer=True) for axis in range(expr.rank)]
    entry = expr.write_out(tuple(axes))
    if entry is None:
        raise UnsupportedError(
            f"{expr} depends on an index around it, and a {type(expr).__name__} has no entries in index notation; "
            "give the index around it a range that starts at 0 and ends at a size, or the matrix entries that no index "
            "around it changes"
        )
    return TensorComprehension._trusted(entry, zip(axes, expr.shape, strict=True)) if axes else entry


def _einsum(graph: Graph, expr: EinsumProduct, operands: Sequence[Node]) -> Node:
    return graph.ein(1, zip(operands, expr.inputs, strict=True), expr.output)


def _adjugate(graph: Graph, expr: TensorAdjugate, operands: Sequence[Node]) -> Node:
    return graph.transposed(graph.cofactor(1, operands[0]))


def _cofactor(graph: Graph, expr: TensorCofactor, operands: Sequence[Node]) -> Node:
    return graph.cofactor(int(expr.order), operands[0])


def _logsumexp(graph: Graph, expr: TensorLogSumExp, operands: Sequence[Node]) -> Node:
    return graph.logsumexp(tuple(int(axis) for axis in expr.axes), operands[0])


_OF_MATRICES = (TensorInverse, TensorDeterminant, TensorAdjugate, TensorCofactor)

_BUILD: dict[type[TensorExpr], Build] = {
    EinsumProduct: _einsum,
    TensorAdd: lambda graph, expr, operands: graph.add(operands),
    TensorMul: lambda graph, expr, operands: graph.mul(operands),
    TensorPow: lambda graph, expr, operands: graph.pow(operands[0], operands[1]),
    TensorInverse: lambda graph, expr, operands: graph.inverse(operands[0]),
    TensorDeterminant: lambda graph, expr, operands: graph.cofactor(0, operands[0]),
    TensorAdjugate: _adjugate,
    TensorCofactor: _cofactor,
    TensorLogSumExp: _logsumexp,
}

TENSOR_METHODS: list[tuple[Any, Callable[[Any, Any, Scope], Recursion[Node]]]] = [
    (TensorFunction, Tensors._applied),
    ((DeltaTensor, FilledTensor), Tensors._constant),
    (tuple(_BUILD), Tensors._whole),
]
