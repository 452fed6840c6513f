"""Expressions from trees of the text language of Lippmann's thesis, bottom-up.

A chain of sums, or of element-wise products and quotients, becomes one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sympy import S

from sympy_tensordiff.parsing.axes import MATRIX_FUNCTIONS, AxisSizes
from sympy_tensordiff.parsing.frontend import Tree
from sympy_tensordiff.parsing.numbers import Operations, errors_at, read_number
from sympy_tensordiff.parsing.text_terms import split_coefficient
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors import functions
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of

Chain = list[tuple[bool, Any]]
"""The operands of a chain, each with a flag: subtracted, or divided by."""


class ThesisBuilder:
    """Builds the SymPy expression of a syntax tree of the text language of Lippmann's thesis, operands first."""

    def __init__(self, sizes: AxisSizes) -> None:
        self.sizes = sizes
        self.letters = sizes.letters
        self.tensors = {name: TensorSymbol(name, sizes.shape(axes)) for name, axes in sizes.tensors.items()}
        self.operations = Operations()
        self.values: dict[Tree, Any] = {}
        self.chains: dict[Tree, Chain] = {}
        self.rational: set[Tree] = set()  # the chains of rational numbers alone

    def expression(self, nodes: Sequence[Tree]) -> Any:
        """Build the expressions of ``nodes``, operands first, and return the last one."""
        for node in nodes:
            if node.kind == "sum":
                self.extend_chain(node, ("sum",), node.text == "-")
            elif node.kind == "quotient" or (node.kind == "product" and self.is_entrywise(node)):
                self.extend_chain(node, ("product", "quotient"), node.kind == "quotient")
            else:
                self.values[node] = self.checked(node, self.build_node, node)
        return self.take_value(nodes[-1])

    # -------------------------------------------------------------- chains

    def extend_chain(self, node: Tree, kinds: tuple[str, ...], is_inverse: bool) -> None:
        """Record the operands of the sum or product ``node`` as one list, so that ``a + b + c`` is built as one sum:
        the list of a left operand whose kind is in ``kinds`` is continued. ``is_inverse`` says that the right operand
        is subtracted or divides.

        A left operand in parentheses starts a new chain. Leading rational numbers form their own chain, so that they
        become one number.
        """
        left, right = node.children
        value = self.take_value(right)
        goes_on = left in self.chains and left.kind in kinds and not left.is_enclosed
        goes_on = goes_on and (_is_rational(value) or left not in self.rational)
        chain = self.chains.pop(left) if goes_on else [(False, self.take_value(left))]
        if _is_rational(value) and (left in self.rational or (_is_rational(chain[0][1]) and not goes_on)):
            self.rational.add(node)
        chain.append((is_inverse, value))
        self.chains[node] = chain

    def take_value(self, node: Tree) -> Any:
        """Return the expression of ``node``, which has been visited, and remove it from the table of values. If
        ``node`` is a recorded list of terms or factors, build their sum or product first.
        """
        chain = self.chains.pop(node, None)
        if chain is None:
            return self.values.pop(node)
        function = self.sum_of_chain if node.kind == "sum" else self.product_of_chain
        return self.checked(node, function, node, chain)

    def sum_of_chain(self, node: Tree, chain: Chain) -> Any:
        """Return the sum of the operands in ``chain``, a list of pairs ``(is_inverse, value)``. A value is subtracted
        if its ``is_inverse`` is True.
        """
        return self.operations.add(
            [self.operations.negated(value) if is_inverse else value for is_inverse, value in chain]
        )

    def product_of_chain(self, node: Tree, chain: Chain) -> Any:
        """Return the element-wise product of the operands in ``chain``, pairs ``(is divisor, value)``: ``a*b/c`` is the
        chain ``(False, a), (False, b), (True, c)``.
        """
        factors = [self.inverse(node, value) if is_inverse else value for is_inverse, value in chain]
        if any(map(shape_of, factors)):
            self.checked(node, self.operations.multiply, [split_coefficient(factor)[0] for factor in factors])
        return self.operations.multiply(factors)

    def inverse(self, node: Tree, value: Any) -> Any:
        """Return ``1/value``, entry by entry."""
        return self.checked_power(node, value, S.NegativeOne)

    def checked_power(self, node: Tree, base: Any, exponent: Any) -> Any:
        """Return ``base**exponent``, entry by entry; raise `ParseError` if a number in it would be too long or not
        real.
        """
        entry = self.checked(node, self.operations.power, _representative_scalar(base), exponent)
        return self.operations.power(base, exponent) if shape_of(base) else entry

    # -------------------------------------------------------------- nodes

    def build_node(self, node: Tree) -> Any:
        """Return the expression of ``node``, which is neither a sum nor an element-wise product."""
        match node.kind:
            case "number":
                return read_number(node)
            case "name":
                return self.tensors[node.text]
            case "delta":
                axes = self.sizes.axes[node]
                return DeltaTensor(self.sizes.shape(axes[: len(axes) // 2])) if axes else S.One
            case "function":
                return self.build_function(node)
            case "negative":
                return self.operations.negated(self.take_value(node.children[0]))
            case "power":
                return self.build_power(node)
            case _:
                return self.build_product(node)

    def build_function(self, node: Tree) -> Any:
        """Return the function call ``node``, applied entry by entry, or to a whole matrix for ``det``, ``inv`` and
        ``adj``.
        """
        values = [self.take_value(operand) for operand in node.children]
        if node.text not in MATRIX_FUNCTIONS:
            is_tensor = any(map(shape_of, values))
            if is_tensor and all(isinstance(value, FilledTensor) or not shape_of(value) for value in values):
                self.checked(node, self.operations.entrywise, node.text, [*map(_representative_scalar, values)])
            return self.checked(node, self.operations.entrywise, node.text, values)
        (value,) = values
        if not shape_of(value):
            value = FilledTensor(value, self.sizes.shape(self.sizes.axes[node.children[0]]))
        return getattr(functions, node.text)(value)

    def build_power(self, node: Tree) -> Any:
        """Return the power ``node``, whose exponent is a scalar."""
        base, exponent = (self.take_value(part) for part in node.children)
        return self.checked_power(node, base, exponent)

    # -------------------------------------------------------------- products

    def is_entrywise(self, node: Tree) -> bool:
        """Return whether a product with letters, such as ``A *(ij,ij->ij) B``, is element-wise: each tensor in it has
        all letters of the result in the same order.
        """
        found = self.letters[node]
        output = found.output
        tensors = [group for part, group in zip(node.children, found.inputs, strict=True) if self.sizes.axes[part]]
        if not tensors:
            return not any(found.inputs)
        return all(group == output for group in tensors) and all(set(group) <= set(output) for group in found.inputs)

    def build_product(self, node: Tree) -> Any:
        """Return the einsum of the product ``node``, such as ``A *(ij,j->i) x``. A scalar operand with letters that no
        tensor has is repeated along an axis for each of these letters.
        """
        found = self.letters[node]
        values = [self.take_value(part) for part in node.children]
        groups = [group if shape_of(value) else "" for group, value in zip(found.inputs, values, strict=True)]
        missing = "".join(dict.fromkeys(letter for letter in "".join(found.inputs) if letter not in "".join(groups)))
        if missing:  # letters of scalars that no tensor has: these scalars are tensors of one value
            filled = [number for number, group in enumerate(groups) if not group and found.inputs[number]]
            first = filled[0]
            value = self.operations.multiply([values[number] for number in filled])
            letters = self.sizes.by_letter[node]
            values[first] = FilledTensor(value, self.sizes.shape(letters[letter] for letter in missing))
            groups[first] = missing
            for number in filled[1:]:
                del values[number], groups[number]
        return self.build_einsum(groups, found.output, values)

    def build_einsum(self, groups: list[str], output: str, values: list[Any]) -> Any:
        """Return the einsum of ``values``, whose letters are ``groups``, with the result's letters ``output``. Without
        any letters, it is the product of the scalars.
        """
        if len(values) == 1 and groups[0] == output and isinstance(values[0], FilledTensor):
            return values[0]
        if not any(groups):
            return self.operations.multiply(values)
        return EinsumProduct(f"{','.join(groups)}->{output}", *values)

    def checked(self, node: Tree, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``function(*arguments)``. Raise `ParseError` at the position of ``node`` if the call fails, or if a
        scalar result contains a number that is not finite and real.
        """
        with errors_at(node):
            value = function(*arguments)
            return value if shape_of(value) else self.operations.numbers.check_real(value)


def _representative_scalar(value: Any) -> Any:
    """Return a scalar by which the parser checks the numbers in ``value``: ``value`` itself if it is a scalar, the
    common entry of a constant tensor, and 1 for any other tensor.
    """
    if isinstance(value, FilledTensor):
        return value.value
    return S.One if shape_of(value) else value


def _is_rational(value: Any) -> bool:
    """Return whether ``value`` is a SymPy rational number."""
    return bool(getattr(value, "is_Rational", False))
