"""The order of every subexpression, from those of the declared tensors upwards (thesis, 3.2.3).

Numbers and tensors of order 0 fit beside every order.
"""

from __future__ import annotations

from collections.abc import Iterable

from lark import Token

from sympy_tensordiff.parsing.front import Tree, bottom_up, check_declared, cut, known
from sympy_tensordiff.parsing.language import OF_MATRICES
from sympy_tensordiff.parsing.letters import Letters

HIGHEST = 26
"""The highest order of a tensor: there are as many letters."""


def declared(root: Tree) -> dict[str, int]:
    """The order of each declared tensor, in the order of the declarations; every name in use is one of them."""
    declarations = root.of_kind("declaration")
    check_declared(declarations)
    orders = {node.text: order(node, node.tokens[1]) for node in declarations}
    for node in bottom_up(root):
        if node.kind == "name" and node.text not in orders:
            name = cut(node.text)
            raise node.error(
                f"{name} is not declared; write its order before `expression`, as in `{name} 2`, or {known(orders)}"
            )
        if node.kind == "argument" and node.text not in orders:
            raise node.error(f"the derivative is by {cut(node.text)}, which is not declared; {known(orders)}")
    return orders


def order(node: Tree, token: Token, highest: int = HIGHEST) -> int:
    """The number that a token stands for."""
    if not token.isdecimal():
        raise node.error(f"an order is a whole number, such as 2 for a matrix, not {cut(token)}", token.start_pos)
    if len(token.lstrip("0")) > 2 or int(token) > highest:
        raise node.error(
            f"the order {cut(token)} is too high: at most {highest} is possible here, as there are {HIGHEST} letters "
            "for axes",
            token.start_pos,
        )
    return int(token)


class Orders:
    """One pass over a tree, the parts of each node first."""

    def __init__(self, declared: dict[str, int], letters: dict[Tree, Letters]) -> None:
        self.declared = declared
        self.letters = letters
        self.found: dict[Tree, int] = {}
        self.numbers: set[Tree] = set()  # of no axes, whatever the sizes are

    def of(self, nodes: Iterable[Tree]) -> dict[Tree, int]:
        """The orders of all nodes."""
        for node in nodes:
            self.found[node] = self.order(node)
            if node.kind == "number" or (node.parts and self.numbers.issuperset(node.parts) and self.is_plain(node)):
                self.numbers.add(node)
        return self.found

    def is_plain(self, node: Tree) -> bool:
        """Whether a node gives its parts no axes."""
        letters = self.letters.get(node)
        return node.text not in OF_MATRICES and (letters is None or not any(letters.inputs))

    def order(self, node: Tree) -> int:
        """The order of a node from those of its parts."""
        match node.kind:
            case "number":
                return 0
            case "name":
                return self.declared[node.text]
            case "delta":
                return 2 * order(node, node.tokens[2], HIGHEST // 2)
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
        if given != 2 and operand not in self.numbers:
            raise node.error(
                f"{node.text} takes a tensor of order 2, a matrix, but {operand.shown} has order {given}",
                operand.start,
            )
        return 0 if node.text == "det" else 2

    def elementwise(self, node: Tree) -> int:
        """Sums, differences and quotients."""
        first, second = node.parts
        left, right = self.found[first], self.found[second]
        if left != right and left and right:
            raise node.error(
                f"the operands of {node.text} have different orders: {first.shown} has order {left}, {second.shown} "
                f"has order {right}; they need equal orders, or one of them order 0"
            )
        return max(left, right)

    def power(self, node: Tree) -> int:
        """The exponent is a scalar."""
        base, exponent = node.parts
        if self.found[exponent]:
            raise node.error(
                f"the exponent {exponent.shown} has order {self.found[exponent]}; an exponent has order 0: write a "
                "power of a tensor by a tensor as `exp(b *(i,i->i) log(a))`",
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
                raise node.error(
                    f"{operand.shown} has order {given}, but ({found}) gives it {count}{f' ({group})' * bool(group)}; "
                    "write one letter for each axis"
                )
        return len(found.output)
