"""Einsum nodes: one kind for products, sums over axes, transposes, diagonals, deltas, ones and zeros.

An ``ein`` node is in one of two forms. A *core* multiplies and sums: coefficient 1, two operands or
more or a summed label, different output labels that each occur in an operand. A *view* moves
entries: at most one operand, no summed label, any coefficient; an output label that is repeated
embeds a diagonal, one that the operand lacks repeats it. Views never are operands: what reads a
view reads its operand, under other labels. A delta, which is a view of nothing, therefore vanishes
in every contraction by itself, and one that is left stands outermost.

Source: Laue, Mitterreiter & Giesen 2020 for the product; the labels that stand in no operand, or
twice in the output, are what its pullback needs (Lippmann 2022, section 4.6, multiplies by ones).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

from sympy_tensordiff.graph.arithmetic import Arithmetic
from sympy_tensordiff.graph.gathering import Contraction, Extents, Gathering, Labels, Operand, is_gathered, pattern
from sympy_tensordiff.graph.interning import Node, Number, Shape
from sympy_tensordiff.integer.affine import Affine


def is_view(node: Node) -> bool:
    """Whether a node only moves, repeats and scales the entries of its operand, or of nothing."""
    return node.view


def is_core(node: Node) -> bool:
    """Whether a node multiplies or sums."""
    return node.op == "ein" and not node.view


def sums_labels(node: Node) -> bool:
    """Whether a node is an einsum with a label that is summed."""
    return is_core(node) and not set(range(len(node.data.extents))).issubset(node.data.output)


class _Kind(NamedTuple):
    """What nodes do, its number, which is a key that is compared at once, and their shape."""

    data: Contraction
    number: int
    shape: Shape


class Contractions(Arithmetic):
    """The constructor of einsum nodes."""

    _patterns: dict[Any, tuple[_Kind | None, _Kind | None]]
    _kinds: dict[Any, _Kind]

    def ein(
        self,
        coefficient: Number,
        operands: Iterable[Operand],
        output: Labels,
        extents: Extents | None = None,
    ) -> Node:
        """``output[…] = coefficient * sum(product of operands[…])`` over all labels that are not in the output.

        Parameters
        ----------
        coefficient : number
        operands : iterable of (Node, labels)
            One label per axis of the node; labels may repeat within one operand.
        output : sequence of labels
            May repeat, and may hold labels that occur in no operand.
        extents : mapping, optional
            The extents of the labels that occur in no operand.
        """
        parts, sizes = list(operands), extents or {}
        if coefficient == 0 or not is_gathered(parts):
            gathering = Gathering(self, coefficient, {label: sizes[label] for label in output if label in sizes})
            for node, labels in parts:
                gathering.add(node, labels)
            parts, output = gathering.result(output)
            coefficient, sizes = gathering.coefficient, gathering.extents
        if coefficient == 0:
            return self.filled(0, [sizes[label] for label in output])
        if isinstance(coefficient, Fraction) and coefficient.denominator == 1:
            coefficient = coefficient.numerator
        if not output and not any(labels for _, labels in parts):
            return self.mul((self.const(coefficient), *(node for node, _ in parts)))
        # By id, so that a product is one node in whatever order it is written.
        parts.sort(key=_id_of)
        return self._product(coefficient, parts, output, sizes)

    def _product(self, coefficient: Number, parts: Sequence[Operand], output: Labels, extents: Extents) -> Node:
        """The core or the view of operands that are no views."""
        inputs = tuple([tuple(labels) for _, labels in parts])
        shapes = tuple([node.shape for node, _ in parts])
        used = {label for labels in inputs for label in labels}
        missing = tuple([extents[label] for label in output if label not in used])
        key = (coefficient, type(coefficient), inputs, tuple(output), shapes, missing)
        known = self._patterns.get(key)
        if known is None:
            sizes = dict(zip(chain(*inputs), chain(*shapes), strict=True))
            sizes.update((label, extents[label]) for label in output if label not in used)
            core, view = pattern(coefficient, inputs, output, sizes)
            known = None if core is None else self._kind(core), None if view is None else self._kind(view)
            self._patterns[key] = known
        args = tuple([node for node, _ in parts])
        for kind in known:
            if kind is not None:
                args = (self._node("ein", kind.data, args, kind.number, (), kind.shape),)
        if known[1] is not None:
            return args[0]
        if output:
            return args[0]
        return self.scale(coefficient, args[0]) if args else self.const(coefficient)

    def _contraction(self, data: Contraction, args: tuple[Node, ...]) -> Node:
        """The node as it is."""
        kind = self._kind(data)
        return self._node("ein", data, args, kind.number, (), kind.shape)

    def _kind(self, data: Contraction) -> _Kind:
        found = self._kinds.get(key := _typed(data))
        if found is None:
            found = self._kinds[key] = _Kind(data, len(self._kinds), data.shape)
        return found

    # -------------------------------------------------------------- views by name

    def filled(self, value: Number, shape: Sequence[Affine]) -> Node:
        """The tensor of one number."""
        labels = tuple(range(len(shape)))
        return self._contraction(Contraction(value, (), labels, tuple(shape)), ()) if shape else self.const(value)

    def delta(self, shape: Sequence[Affine]) -> Node:
        """The unit tensor of shape ``shape + shape``."""
        labels = tuple(range(len(shape)))
        return self._contraction(Contraction(1, (), labels * 2, tuple(shape)), ()) if shape else self.one

    def broadcast(self, scalar: Node, shape: Shape) -> Node:
        """A scalar at every entry; a tensor of the shape as it is."""
        if scalar.shape == shape:
            return scalar
        labels = tuple(range(len(shape)))
        return self.ein(1, [(scalar, ())], labels, dict(enumerate(shape)))

    def transposed(self, matrix: Node) -> Node:
        """A matrix with its axes exchanged, or all matrices in the last two axes of a tensor."""
        *batch, row, column = range(len(matrix.shape))
        return self.ein(1, [(matrix, (*batch, row, column))], (*batch, column, row))

    def is_zero(self, node: Node) -> bool:
        """Whether a node is the number 0, or a tensor of zeros."""
        return node is self.zero or (node.op == "ein" and node.data.coefficient == 0)

    def split_view(self, node: Node) -> tuple[Number, Node]:
        """``(c, rest)`` with node = c * rest, for tensors and scalars."""
        if not node.shape:
            return self.split_coefficient(node)
        if not node.view or node.data.coefficient == 1 or node.data.coefficient == 0:
            return 1, node
        data = node.data._replace(coefficient=1)
        return node.data.coefficient, node.args[0] if data.is_identity else self._contraction(data, node.args)

    def with_operands(self, node: Node, operands: Sequence[Node]) -> Node:
        """An einsum of other operands of the same shapes."""
        coefficient, inputs, output, extents = node.data
        return self.ein(coefficient, zip(operands, inputs, strict=True), output, dict(enumerate(extents)))

    # -------------------------------------------------------------- matrices

    def inverse(self, matrix: Node) -> Node:
        """The inverses of the matrices in the last two axes; of inverses, transposes, multiples what they invert."""
        if matrix.op == "inv":
            return matrix.args[0]
        if is_view(matrix) and matrix.data.coefficient != 0:
            coefficient, inputs, output, _ = matrix.data
            factor = 1 / Fraction(coefficient) if isinstance(coefficient, int) else 1 / coefficient
            if matrix.args and matrix.args[0].shape == matrix.shape and _moves_matrices(inputs[0], output):
                return self.ein(factor, [(self.inverse(matrix.args[0]), inputs[0])], output)
            if not matrix.args and len(output) == 2 and output[0] == output[1]:
                return self.ein(factor, (), output, {output[0]: matrix.shape[0]})
        return self._node("inv", None, (matrix,), None, (), matrix.shape)

    def cofactor(self, order: int, matrix: Node) -> Node:
        """The derivative of the determinant, ``order`` times by the matrix: axes ``i1 j1 … ik jk``.

        The matrices stand in the last two axes; those in front come first. 0 is the determinant, 1 the transposed
        adjugate; all of them are polynomials in the entries, at singular matrices too.
        """
        shape, count = matrix.shape, len(matrix.shape) - 2
        if is_view(matrix) and matrix.args and matrix.data.coefficient == 1 and matrix.args[0].shape == shape:
            labels, output = matrix.data.inputs[0], matrix.data.output
            if _moves_matrices(labels, output) and labels != output:
                pairs = [(count + 2 * n, count + 2 * n + 1) for n in range(order)]
                axes = [*range(count), *(label for pair in pairs for label in pair[::-1])]
                inner = self.cofactor(order, matrix.args[0])
                return self.ein(1, [(inner, axes)], range(count + 2 * order)) if order else inner
        return self._node("cof", order, (matrix,), order, (), shape[:count] + shape[count:] * order)

    def logsumexp(self, axes: tuple[int, ...], tensor: Node) -> Node:
        """``log(sum(exp(tensor)))`` over some axes, which the result has no more."""
        shape = tuple([extent for axis, extent in enumerate(tensor.shape) if axis not in axes])
        return self._node("lse", axes, (tensor,), axes, (), shape)

    def tensor_node(self, node: Node, args: Sequence[Node]) -> Node:
        """A node of this class over other arguments of the same shapes."""
        if node.op == "ein":
            return self.with_operands(node, args)
        if node.op == "inv":
            return self.inverse(args[0])
        return self.cofactor(node.data, args[0]) if node.op == "cof" else self.logsumexp(node.data, args[0])


def _moves_matrices(labels: Sequence[int], output: Sequence[int]) -> bool:
    """Whether a view of a tensor exchanges rows and columns, its last two axes, or nothing."""
    ends = labels[-2:] in (output[-2:], output[:-3:-1])
    return len(set(output)) == len(output) == len(labels) and labels[:-2] == output[:-2] and ends


def _id_of(operand: Operand) -> int:
    return operand[0].id


def _typed(data: Contraction) -> Any:
    """A key under which 0.5 and 1/2, which are equal but print differently, are two."""
    return data if type(data.coefficient) is int else (type(data.coefficient).__name__, data)
