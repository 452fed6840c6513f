"""Einsum nodes: one kind for products, sums over axes, transposes, diagonals, deltas, ones and zeros.

An ``ein`` node is in one of two forms. A *core* multiplies and sums: coefficient 1, two operands or
more or a summed label, different output labels that each occur in an operand. A *view* moves
entries: at most one operand, no summed label, any coefficient; a repeated output label embeds a
diagonal, an output label that the operand lacks broadcasts it. Views never are operands: an einsum of
a view reads the operand of the view, under other labels. A delta, which is a view without operand,
therefore vanishes in every contraction, and a remaining one is outermost.

Source: Laue, Mitterreiter & Giesen 2020 for the product; labels that occur in no operand, or
twice in the output, are needed for its pullback (Lippmann 2022, section 4.6, multiplies by ones).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

from sympy_tensordiff.graph.arithmetic import Arithmetic
from sympy_tensordiff.graph.einsum_normal_form import (
    Contraction,
    Extents,
    Gathering,
    Labels,
    Operand,
    is_normal_operand_list,
    pattern,
)
from sympy_tensordiff.graph.interning import Node, Number, Shape
from sympy_tensordiff.integer.affine import Affine


def is_view(node: Node) -> bool:
    """Return whether `node` is a transpose, broadcast, diagonal or multiple of one operand, or a constant tensor, so
    that it computes nothing but products with a number.
    """
    return node.view


def is_core(node: Node) -> bool:
    """Return whether `node` is an einsum that multiplies several operands or sums, and not just a view (transpose,
    broadcast or multiple) of one.
    """
    return node.op == "ein" and not node.view


def is_transpose(node: Node) -> bool:
    """Return whether a node is a view that only permutes the axes of its operand."""
    if node.op != "ein" or not node.view or not node.args or node.data.coefficient != 1:
        return False
    labels, output = node.data.inputs[0], node.data.output
    return len(set(labels)) == len(labels) and sorted(labels) == sorted(output)


def sums_labels(node: Node) -> bool:
    """Return whether a node is an einsum with a summed label."""
    return is_core(node) and not set(range(len(node.data.extents))).issubset(node.data.output)


class _InternedContraction(NamedTuple):
    """The stored copy of a `Contraction` (the data of an einsum), with the shape of its result. Equal contractions
    share one copy, whose ``number`` identifies it in keys of the node table.
    """

    data: Contraction
    number: int
    shape: Shape


class Contractions(Arithmetic):
    """The constructors of einsum nodes and of functions of whole matrices."""

    _patterns: dict[Any, tuple[_InternedContraction | None, _InternedContraction | None]]
    _kinds: dict[Any, _InternedContraction]

    def ein(
        self,
        coefficient: Number,
        operands: Iterable[Operand],
        output: Labels,
        extents: Extents | None = None,
    ) -> Node:
        """Return the einsum ``output[...] = coefficient * sum(product of operands)``, summed over all labels that are
        not in `output`. ``extents`` has the lengths of output labels that occur in no operand.

        Each operand is a pair of a node and one label per axis. Labels may repeat within an operand and in the output.
        Scalars are factors of a result without axes: that is the product of them with the einsum of the tensors.
        """
        factors, sizes = list(operands), extents or {}
        if coefficient == 0 or not is_normal_operand_list(factors):
            gathering = Gathering(self, coefficient, {label: sizes[label] for label in output if label in sizes})
            for node, labels in factors:
                gathering.add(node, labels)
            factors, output = gathering.result(output)
            coefficient, sizes = gathering.coefficient, gathering.extents
        if coefficient == 0:
            return self.filled(0, [sizes[label] for label in output])
        if isinstance(coefficient, Fraction) and coefficient.denominator == 1:
            coefficient = coefficient.numerator
        if not output and not all(labels for _, labels in factors):
            scalars = [node for node, labels in factors if not labels]
            if tensors := [factor for factor in factors if factor[1]]:
                scalars.append(self.ein(1, tensors, (), sizes))
            return self.mul((self.const(coefficient), *scalars))
        # By id, so that a product is one node in whatever order it is written.
        factors.sort(key=_id_of)
        return self._core_or_view(coefficient, factors, output, sizes)

    def _core_or_view(self, coefficient: Number, factors: Sequence[Operand], output: Labels, extents: Extents) -> Node:
        """Return the einsum of `factors` as a product with its axes in a standard order and, if needed, a view around
        it, which permutes the axes to `output`, repeats entries or multiplies by `coefficient`.

        None of `factors` is a view itself. ``extents`` has the length of each label.
        """
        inputs = tuple([tuple(labels) for _, labels in factors])
        shapes = tuple([node.shape for node, _ in factors])
        used = {label for labels in inputs for label in labels}
        missing = tuple([extents[label] for label in output if label not in used])
        key = (coefficient, type(coefficient), inputs, tuple(output), shapes, missing)
        known = self._patterns.get(key)
        if known is None:
            sizes = dict(zip(chain(*inputs), chain(*shapes), strict=True))
            sizes.update((label, extents[label]) for label in output if label not in used)
            core, view = pattern(coefficient, inputs, output, sizes)
            known = None if core is None else self._interned(core), None if view is None else self._interned(view)
            self._patterns[key] = known
        args = tuple([node for node, _ in factors])
        for kind in known:
            if kind is not None:
                args = (self._node("ein", kind.data, args, kind.number, (), kind.shape),)
        if known[1] is not None:
            return args[0]
        if output:
            return args[0]
        return self.scale(coefficient, args[0]) if args else self.const(coefficient)

    def _contraction_node(self, data: Contraction, args: tuple[Node, ...]) -> Node:
        """Return the node with exactly the data `data` and the arguments `args`, without normalising these."""
        kind = self._interned(data)
        return self._node("ein", data, args, kind.number, (), kind.shape)

    def _interned(self, data: Contraction) -> _InternedContraction:
        """Return the record that stores the contraction `data`, the same one for equal contractions. It is created at
        the first call; coefficients of different types, such as 1 and 1.0, give different records.
        """
        found = self._kinds.get(key := _key_with_number_type(data))
        if found is None:
            found = self._kinds[key] = _InternedContraction(data, len(self._kinds), data.shape)
        return found

    # -------------------------------------------------------------- views by name

    def filled(self, value: Number, shape: Sequence[Affine]) -> Node:
        """Return the tensor of this `shape` filled with one number."""
        labels = tuple(range(len(shape)))
        return self._contraction_node(Contraction(value, (), labels, tuple(shape)), ()) if shape else self.const(value)

    def delta(self, shape: Sequence[Affine]) -> Node:
        """Return the unit tensor of shape ``shape + shape``, which is 1 where the first half of the indices equals the
        second, else 0.
        """
        labels = tuple(range(len(shape)))
        return self._contraction_node(Contraction(1, (), labels * 2, tuple(shape)), ()) if shape else self.one

    def broadcast(self, scalar: Node, shape: Shape) -> Node:
        """Return the tensor of this `shape` with a scalar at every entry; a tensor of that shape is unchanged."""
        if scalar.shape == shape:
            return scalar
        labels = tuple(range(len(shape)))
        return self.ein(1, [(scalar, ())], labels, dict(enumerate(shape)))

    def transposed(self, matrix: Node) -> Node:
        """Return the matrix with its two axes exchanged; for a tensor of more axes, exchange the last two."""
        *batch, row, column = range(len(matrix.shape))
        return self.ein(1, [(matrix, (*batch, row, column))], (*batch, column, row))

    def is_zero(self, node: Node) -> bool:
        """Return whether a node is the number 0 or a tensor filled with it."""
        return node is self.zero or (node.op == "ein" and node.data.coefficient == 0)

    def split_view(self, node: Node) -> tuple[Number, Node]:
        """Return ``(c, rest)`` with ``node == c*rest`` and a number c, such as ``(2, x)`` for ``2*x``; c is 1 if there
        is no numeric factor. `node` is a tensor or a scalar.
        """
        if not node.shape:
            return self.split_coefficient(node)
        if not node.view or node.data.coefficient == 1 or node.data.coefficient == 0:
            return 1, node
        data = node.data._replace(coefficient=1)
        return node.data.coefficient, node.args[0] if data.is_identity else self._contraction_node(data, node.args)

    def with_operands(self, node: Node, operands: Sequence[Node]) -> Node:
        """Return the einsum `node` with the given `operands`, of the same shapes, in place of its own."""
        coefficient, inputs, output, extents = node.data
        return self.ein(coefficient, zip(operands, inputs, strict=True), output, dict(enumerate(extents)))

    # -------------------------------------------------------------- matrices

    def inverse(self, matrix: Node) -> Node:
        """Return the inverse of a matrix, or of each matrix in the last two axes. ``inv(inv(A))``, ``inv(A.T)`` and
        ``inv(2*A)`` are simplified.
        """
        if matrix.op == "inv":
            return matrix.args[0]
        if is_view(matrix) and matrix.data.coefficient != 0:
            coefficient, inputs, output, _ = matrix.data
            factor = 1 / Fraction(coefficient) if isinstance(coefficient, int) else 1 / coefficient
            if matrix.args and matrix.args[0].shape == matrix.shape and _preserves_matrices(inputs[0], output):
                return self.ein(factor, [(self.inverse(matrix.args[0]), inputs[0])], output)
            if not matrix.args and len(output) == 2 and output[0] == output[1]:
                return self.ein(factor, (), output, {output[0]: matrix.shape[0]})
        return self._node("inv", None, (matrix,), None, (), matrix.shape)

    def cofactor(self, order: int, matrix: Node) -> Node:
        """Return the derivative of order `order` of ``det(matrix)`` with respect to `matrix`: for 0 the determinant,
        for 1 the cofactor matrix. `matrix` may be a stack of matrices.

        The axes of the result are ``i1 j1 ... ik jk`` after those of the stack.

        The matrices are in the last two axes; the others come first in the result. Order 0 is the determinant, 1 the
        transposed adjugate; all of them are polynomials in the entries, at singular matrices too.
        """
        shape, count = matrix.shape, len(matrix.shape) - 2
        if is_view(matrix) and matrix.args and matrix.data.coefficient == 1 and matrix.args[0].shape == shape:
            labels, output = matrix.data.inputs[0], matrix.data.output
            if _preserves_matrices(labels, output) and labels != output:
                pairs = [(count + 2 * n, count + 2 * n + 1) for n in range(order)]
                axes = [*range(count), *(label for pair in pairs for label in pair[::-1])]
                inner = self.cofactor(order, matrix.args[0])
                return self.ein(1, [(inner, axes)], range(count + 2 * order)) if order else inner
        return self._node("cof", order, (matrix,), order, (), shape[:count] + shape[count:] * order)

    def logsumexp(self, axes: tuple[int, ...], tensor: Node) -> Node:
        """Return the log-sum-exp of ``tensor``, ``log(sum(exp(tensor)))``, where the sum runs over the numbered
        ``axes``, which the result does not have.
        """
        shape = tuple([extent for axis, extent in enumerate(tensor.shape) if axis not in axes])
        return self._node("lse", axes, (tensor,), axes, (), shape)

    def scan(self, data: Any, args: Sequence[Node]) -> Node:
        """Return the node of a scan (a loop over time) with the operands `args`; ``data`` is the `ScanData` that
        describes it.
        """
        return self._node("scan", data, tuple(args), data, data.forms, data.shape)

    def tensor_node(self, node: Node, args: Sequence[Node]) -> Node:
        """Return a node like ``node``, an einsum, inverse, cofactor, log-sum-exp or scan, with other arguments of the
        same shapes.
        """
        if node.op == "ein":
            return self.with_operands(node, args)
        if node.op == "inv":
            return self.inverse(args[0])
        if node.op == "scan":
            return self.scan(node.data, args)
        return self.cofactor(node.data, args[0]) if node.op == "cof" else self.logsumexp(node.data, args[0])


def _preserves_matrices(labels: Sequence[int], output: Sequence[int]) -> bool:
    """Return whether a view with the input ``labels`` and the result labels ``output`` changes nothing or only
    transposes the last two axes, the matrices: an inverse or cofactor can then be taken before the view.
    """
    ends = labels[-2:] in (output[-2:], output[:-3:-1])
    return len(set(output)) == len(output) == len(labels) and labels[:-2] == output[:-2] and ends


def _id_of(operand: Operand) -> int:
    """Return the id of the operand's node, a sort key."""
    return operand[0].id


def _key_with_number_type(data: Contraction) -> Any:
    """Return a key for the contraction ``data`` that tells the coefficients 0.5 and 1/2 apart: they are equal, but
    print differently.
    """
    return data if type(data.coefficient) is int else (type(data.coefficient).__name__, data)
