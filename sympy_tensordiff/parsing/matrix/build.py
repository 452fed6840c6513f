"""Expressions from trees of matrix formulas with known shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from sympy import S

from sympy_tensordiff.parsing.frontend import Tree
from sympy_tensordiff.parsing.matrix.shapes import (
    COLUMN,
    MATRIX,
    NUMBER,
    ShapeInference,
    axis_of_call,
    integer_exponent,
    shape_code,
)
from sympy_tensordiff.parsing.numbers import ENTRYWISE, Operations, errors_at, read_number
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors import (
    concatenation,
    entrywise_functions,
    functions,
    operators,
    rearrangements,
    reductions,
)
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of

_PLAIN: dict[str, Any] = {
    **{"sum": reductions.sum, "mean": reductions.mean, "norm": reductions.norm, "norm2": reductions.norm},
    **{"logsumexp": reductions.logsumexp, "softmax": reductions.softmax, "diag": functions.diag},
    **{"tr": functions.trace, "trace": functions.trace, "det": functions.det, "inv": functions.inv},
    **{"adj": functions.adj, "dot": functions.dot, "outer": functions.outer},
    **{"solve": functions.solve, "kron": concatenation.kron, "flip": rearrangements.flip},
    **{name: getattr(reductions, name) for name in ("prod", "var", "std", "cumsum", "cumprod")},
}


class MatrixBuilder:
    """Builds the expression of a syntax tree of the matrix language, operands first.

    Rows and columns are tensors of rank 1; `orders` has the shape code of each node.
    """

    def __init__(self, shapes: ShapeInference, sizes: Mapping[int, Any], tensors: Mapping[str, TensorSymbol]) -> None:
        self.shapes = shapes
        self.sizes = sizes
        self.tensors = tensors
        self.operations = Operations()
        self.values: dict[Tree, Any] = {}
        self.orders = {node: shape_code(axes) for node, axes in shapes.axes.items()}

    def expression(self, nodes: Sequence[Tree]) -> Any:
        """Build the expressions of ``nodes``, operands first, and return the last one."""
        for node in nodes:
            parts = [self.values.get(part) for part in node.children]
            with errors_at(node):
                value = self.values[node] = getattr(self, f"_build_{node.kind}")(node, *parts)
                if not shape_of(value):
                    self.operations.numbers.check_real(value)
        return self.values[nodes[-1]]

    def shape(self, axes: Sequence[int | None]) -> tuple[Any, ...]:
        """Return the extents of the ``axes``; items that are None, for a missing row or column axis, are left out."""
        root = self.shapes.unified.root if self.shapes.unified else int
        return tuple(self.sizes[root(axis)] for axis in axes if axis is not None)

    def _build_number(self, node: Tree) -> Any:
        """Return the exact value of the number ``node``."""
        return read_number(node)

    def _build_name(self, node: Tree) -> Any:
        """Return the value of a name: a tensor, ``pi``, the unit matrix for ``eye``, or a size."""
        if node.text in self.tensors:
            return self.tensors[node.text]
        if node.text == "pi":
            return sympy.pi
        return DeltaTensor(self.shape(self.shapes.axes[node][:1])) if self.orders[node] else indices(node.text)

    def _build_modulus(self, node: Tree, value: Any) -> Any:
        """Return ``|value|``, the absolute value of a number."""
        return self.operations.entrywise("abs", [value])

    def _build_tuple(self, node: Tree, *parts: Any) -> Any:
        """Return 0 for `node`, a tuple of sizes such as ``(n, m)``, as a placeholder: it has no value of its own."""
        return S.Zero

    def _build_signed(self, node: Tree, value: Any) -> Any:
        """Return ``value`` with the sign that ``node`` gives it."""
        return self.operations.negated(value) if node.text == "-" else value

    def _build_transpose(self, node: Tree, value: Any) -> Any:
        """Return the transpose of a matrix. Rows and columns are returned unchanged, because both are tensors with one
        axis.
        """
        return operators.transposed(value) if self.orders[node] == MATRIX else value

    def _build_sum(self, node: Tree, *parts: Any) -> Any:
        """Return the sum or difference of the operands ``parts``."""
        terms = [*parts[:1]]
        for sign, part in zip(node.tokens, parts[1:], strict=True):
            terms.append(self.operations.negated(part) if sign == "-" else part)
        return self.operations.add(terms)

    def _build_product(self, node: Tree, *parts: Any) -> Any:
        """Return the value of `node`, a chain of products and quotients; `parts` are the values of its operands.
        Whether ``*`` is a matrix product depends on the shapes of both operands.
        """
        value, order = parts[0], self.orders[node.children[0]]
        for sign, part, operand in zip(node.tokens, parts[1:], node.children[1:], strict=True):
            other = self.orders[operand]
            if sign in ("/", "./"):
                value, order = (
                    self.operations.multiply([value, self.operations.power(part, S.NegativeOne)]),
                    order or other,
                )
            elif sign == "@":
                value = operators.matmul(value, part)
                order = MATRIX if len(shape_of(value)) == 2 else COLUMN if shape_of(value) else NUMBER
            elif sign == ".*" or self.shapes.is_numpy or NUMBER in (order, other):
                value, order = self.operations.multiply([value, part]), order or other
            else:
                product = functions.outer if order == COLUMN else operators.matmul  # a column is multiplied by a row
                value, order = product(value, part), (order & COLUMN) | (other & ~COLUMN)
        return value

    def _build_power(self, node: Tree, base: Any, exponent: Any) -> Any:
        """Return an element-wise power, or an integer power of a square matrix."""
        if node.tokens[0] != "^" or self.orders[node] == NUMBER:
            return self.operations.power(base, exponent)
        number = integer_exponent(node.children[1])
        assert number is not None
        value = base = functions.inv(base) if number < 0 else base
        for _ in range(abs(number) - 1):
            value = operators.matmul(value, base)
        return value

    def _build_call(self, node: Tree, *parts: Any) -> Any:
        """Return the value of a function call with the operands ``parts``."""
        name = node.text
        if name in ENTRYWISE:
            return self.operations.entrywise(name, parts)
        shape = self.shape(self.shapes.axes[node])
        match name:
            case "norm1":
                return reductions.sum(entrywise_functions.abs(parts[0]))
            case "logdet":
                return self.operations.entrywise("log", [functions.det(parts[0])])
            case "transpose":
                return self._build_transpose(node, parts[0])
            case "reshape":
                return rearrangements.reshape(parts[0], shape)
            case "vector" | "matrix" | "ones" | "zeros":
                return FilledTensor(
                    parts[0] if name in ("vector", "matrix") else S.One if name == "ones" else S.Zero, shape
                )
            case "eye" | "DeltaTensor":
                return DeltaTensor(shape[:1])
            case _ if (axis := axis_of_call(node)) is not None:
                return _PLAIN[name](parts[0], axis=axis)
            case _:
                return _PLAIN[name](*parts)
