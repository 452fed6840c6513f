"""The order of every subexpression, from those of the declared tensors upwards (thesis, 3.2.3).

Numbers and tensors of order 0 fit beside every order.
"""

from __future__ import annotations

from collections.abc import Iterable

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.constants import Constant
from sympy_tensordiff.parsing.letters import Letters
from sympy_tensordiff.parsing.names import HIGHEST, order
from sympy_tensordiff.parsing.tree import Tree, shown

OF_MATRICES = frozenset({"det", "inv", "adj"})
SIGNS = {"sum": "+", "difference": "-", "quotient": "/"}


class Orders:
    """One pass over a tree, the parts of each node first."""

    def __init__(
        self, declared: dict[str, int], letters: dict[Tree, Letters], constants: dict[Tree, Constant], source: str
    ) -> None:
        self.declared = declared
        self.letters = letters
        self.constants = constants
        self.source = source
        self.found: dict[Tree, int] = {}

    def of(self, nodes: Iterable[Tree]) -> dict[Tree, int]:
        """The orders of all nodes."""
        for node in nodes:
            self.found[node] = self.order(node)
        return self.found

    def order(self, node: Tree) -> int:
        """The order of a node from those of its parts."""
        match node.kind:
            case "number":
                return 0
            case "name":
                return self.declared[node.text]
            case "delta":
                return 2 * order(node.text, self.source, node.place, HIGHEST // 2)
            case "function":
                return self.function(node)
            case "product" | "relabelled":
                return self.product(node)
            case "power":
                return self.power(node)
            case "negative":
                return self.found[node.parts[0]]
            case _:
                return self.elementwise(node)

    def function(self, node: Tree) -> int:
        """An element-wise function keeps the order; the others take matrices."""
        (operand,) = node.parts
        given = self.found[operand]
        if node.text not in OF_MATRICES:
            return given
        if given != 2 and operand not in self.constants:
            raise ParseError(
                f"{node.text} takes a tensor of order 2, a matrix, but {shown(operand, self.source)} has order {given}",
                self.source,
                operand.start,
            )
        return 0 if node.text == "det" else 2

    def elementwise(self, node: Tree) -> int:
        """Sums, differences and quotients."""
        left, right = (self.found[part] for part in node.parts)
        if left != right and left and right:
            first, second = (shown(part, self.source) for part in node.parts)
            raise ParseError(
                f"the operands of {SIGNS[node.kind]} have different orders: {first} has order {left}, {second} has "
                f"order {right}; they need equal orders, or one of them order 0",
                self.source,
                node.place,
            )
        return max(left, right)

    def power(self, node: Tree) -> int:
        """The exponent is a scalar."""
        base, exponent = node.parts
        if self.found[exponent]:
            raise ParseError(
                f"the exponent {shown(exponent, self.source)} has order {self.found[exponent]}; an exponent has order "
                "0: write a power of a tensor by a tensor as `exp(b *(i,i->i) log(a))`",
                self.source,
                exponent.start,
            )
        return self.found[base]

    def product(self, node: Tree) -> int:
        """As many letters as axes, or an operand without axes."""
        found = self.letters[node]
        for operand, group in zip(node.parts, found.inputs, strict=True):
            given = self.found[operand]
            if given and given != len(group):
                count = f"{len(group)} {'letter' if len(group) == 1 else 'letters'}"
                raise ParseError(
                    f"{shown(operand, self.source)} has order {given}, but ({found}) gives it {count}"
                    f"{f' ({group})' * bool(group)}; write one letter for each axis",
                    self.source,
                    node.place,
                )
        return len(found.output)
