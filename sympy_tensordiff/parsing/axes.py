"""Inference of axes in the language of the thesis: axes of equal length, a size symbol per length, letters of
products.

Orders are propagated from the declared tensors to the whole expression (thesis, 3.2.3 and 3.2.4). Numbers and tensors
of order 0 fit any order.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from itertools import chain, count
from sys import maxsize
from types import MappingProxyType
from typing import Any

from lark import Token

from sympy_tensordiff.parsing.frontend import (
    Language,
    Tree,
    bottom_up,
    check_declarations,
    names_hint,
    short,
    token_text,
)
from sympy_tensordiff.parsing.numbers import ENTRYWISE, FUNCTIONS
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.whole_tensors.subscripts import Subscripts

MAX_INPUT = 200_000
"""The greatest number of characters of an input."""
MATRIX_FUNCTIONS = ("det", "inv", "adj")
RESERVED = frozenset({"declare", "expression", "derivative", "wrt", "delta", *FUNCTIONS, *MATRIX_FUNCTIONS})
"""Words that cannot be names of tensors."""


def mistake_hint(token: Token, expected: Collection[str], before: list[Token]) -> str:
    """Return a hint for the error message if the unexpected ``token`` is a frequent mistake, given the ``expected``
    terminals and the tokens ``before`` it; else "".
    """
    if set(expected) == {"NUMBER"} and before[-1].type == "NAME":
        return f"{token_text(token)} is not a number; expected is the order of the tensor `{short(before[-1])}`"
    if token in RESERVED and "NAME" in expected and "LEFT" not in expected:
        return f"`{token}` is a word of the language, which cannot be the name of a tensor; take another name"
    if "LETTERS" in expected and before and before[-1].type == "STAR" and "LEFT" not in expected:
        return (
            "a product needs its letters: two operands' and the result's, as in `a *(i,i->i) b` for element-wise "
            f"products, `A *(ij,j->i) x` or, for scalars, `a *(,->) b`; not {token_text(token)}"
        )
    if "PLUS" not in expected:
        return "an exponent that is not a number or name needs parentheses, as in `x^(-1)`" * (
            token.type == "MINUS" and bool(before) and before[-1].type == "CARET"
        )
    if token.type in ("NAME", "NUMBER", "FUNCTION", "DELTA"):
        return (
            f"{token_text(token)} follows an operand without an operator; "
            "write a product with its letters, as in `2 *(,i->i) x`"
        )
    if token.type == "COMMA":
        return "a comma separates the letters of a product, as in `a *(i,i->) b`, or the operands of a function"
    if token.type in ("LEFT", "LETTERS"):
        return "an operator is missing before the parenthesis: write a product as `a *(i,i->i) (b + c)`"
    return ""


_BINARY = frozenset({"STAR", "SLASH", "CARET", "LETTERS"})
THESIS = Language(
    grammar="grammar.lark",
    display_name="the language",
    max_length=MAX_INPUT,
    max_depth=maxsize,
    example='"declare x 1 expression x *(i,i->) x derivative wrt x"',
    signs={
        "": "inputs consist of letters a-z and A-Z, digits, + - * / ^ ( ) and blanks",
        ">": "an arrow separates the letters of a product from those of the result, as in `a *(i,i->) b`",
        "_": "names are letters and digits, beginning with a letter",
        ".": "a number has a digit before or after the point",
        "@": "write the product with its letters, as in `A *(ij,jk->ik) B`",
        "'": "write the transpose as `(ij->ji)A`",
        "=": "an input states an expression, and no equation (`parse_indexed` reads f[i] = …)",
        **dict.fromkeys(
            "[]",
            "parentheses are round; tensors are written without indices (`parse_indexed` reads entries such as x[i])",
        ),
    },
    groups=(
        (
            frozenset({"NUMBER", "NAME", "FUNCTION", "DELTA", "LEFT", "MINUS"}),
            "a number, a name, a function, `delta(n)`, `(` or `-`",
            _BINARY,
        ),
        (frozenset({"PLUS", "MINUS"}), "an operator (`+`, `-`, `/`, `^` or a product `*(ij,j->i)`)", _BINARY),
    ),
    mistake_hint=mistake_hint,
)


MAX_ORDER = 26
"""The highest order of a tensor: the number of letters."""
SIZE_NAMES = "nmlpqrstuv"
"""The names of size symbols, in this order."""
Axes = tuple[int, ...]


def declared_orders(root: Tree) -> dict[str, int]:
    """Return a dictionary from the names of the tensors that the tree ``root`` declares to their orders (numbers of
    axes), in the order of the declarations.

    Raise `ParseError` if a name is used but not declared.
    """
    declarations = root.of_kind("declaration")
    check_declarations(declarations)
    orders = {node.text: parse_order(node, node.tokens[1]) for node in declarations}
    for node in bottom_up(root):
        if node.kind == "name" and node.text not in orders:
            name = short(node.text)
            raise node.error(
                f"{name} is not declared; write its order before `expression`, as in `{name} 2`, or "
                f"{names_hint(orders)}"
            )
        if node.kind == "argument" and node.text not in orders:
            raise node.error(f"the derivative is by {short(node.text)}, which is not declared; {names_hint(orders)}")
    return orders


def parse_order(node: Tree, token: Token, highest: int = MAX_ORDER) -> int:
    """Return the tensor order (number of axes) that ``token`` states; raise `ParseError` at ``node`` unless it is a
    number from 0 to ``highest``.
    """
    if not token.isdecimal():
        raise node.error(f"an order is a whole number, such as 2 for a matrix, not {short(token)}", token.start_pos)
    if len(token.lstrip("0")) > 2 or int(token) > highest:
        raise node.error(
            f"the order {short(token)} is too high: at most {highest} is possible here, as there are {MAX_ORDER} "
            "letters for axes",
            token.start_pos,
        )
    return int(token)


class AxisClasses:
    """Groups of axes that must be equally long, merged as a union-find structure. An axis is a number."""

    def __init__(self) -> None:
        self.parents: list[int] = []

    def new_axes(self, number: int) -> Axes:
        """Return ``number`` new axes, none of which is yet known to be as long as another."""
        first = len(self.parents)
        self.parents += range(first, first + number)
        return tuple(range(first, first + number))

    def root(self, axis: int) -> int:
        """Return the axis that represents the group of ``axis``."""
        while self.parents[axis] != axis:
            self.parents[axis] = self.parents[self.parents[axis]]
            axis = self.parents[axis]
        return axis

    def unify(self, first: int, second: int) -> None:
        """Record that the axes ``first`` and ``second`` are equally long: merge their groups, and let the lower of the
        two representatives represent both.
        """
        low, high = sorted((self.root(first), self.root(second)))
        self.parents[high] = low


class AxisSizes:
    """Infers the axes of all nodes of a syntax tree, from the leaves up, and gives each group of equally long axes one
    size symbol.

    `axes` has the axes of each node, `letters` the letters of each product, `by_letter` the axis of each letter of a
    product.
    """

    def __init__(self, declared: dict[str, int], nodes: Iterable[Tree]) -> None:
        self.unified = AxisClasses()
        self.tensors = {name: self.unified.new_axes(order) for name, order in declared.items()}
        self.axes: dict[Tree, Axes] = {}
        self.letters: dict[Tree, Subscripts] = {}
        self.by_letter: dict[Tree, dict[str, int]] = {}
        self.numbers: set[Tree] = set()  # what has no axes, whatever the sizes are
        for node in nodes:  # the parts of each node first
            if node.kind in ("product", "relabelled"):
                self.letters[node] = parse_letters(node)
            if node.kind == "number" or (
                node.children and self.numbers.issuperset(node.children) and self.leaves_operands_scalar(node)
            ):
                self.numbers.add(node)
            self.axes[node] = self._infer_node(node)
        self.names = size_symbols(self.unified, self.tensors)

    def shape(self, axes: Iterable[int]) -> tuple[Any, ...]:
        """Return the size symbols of ``axes``."""
        return tuple(self.names[self.unified.root(axis)] for axis in axes)

    def leaves_operands_scalar(self, node: Tree) -> bool:
        """Return whether a number that is an operand of ``node`` stays a scalar, as in a sum. An operand of ``det``,
        ``inv`` or ``adj``, or of a product with letters, becomes a tensor filled with this number instead.
        """
        return node.text not in MATRIX_FUNCTIONS and not (node in self.letters and any(self.letters[node].inputs))

    def _infer_node(self, node: Tree) -> Axes:
        """Return the axes of ``node``, whose operands have known axes; raise `ParseError` if these do not fit
        together.
        """
        match node.kind:
            case "number":
                return ()
            case "name":
                return self.tensors[node.text]
            case "delta":
                return 2 * self.unified.new_axes(parse_order(node, node.tokens[2], MAX_ORDER // 2))
            case "function" if node.text in MATRIX_FUNCTIONS:
                return self._infer_matrix(node)
            case "function":
                return self._infer_function(node)
            case "negative":
                return self.axes[node.children[0]]
            case "power":
                return self._infer_power(node)
            case "product" | "relabelled":
                return self._infer_product(node)
            case _:
                return self._infer_elementwise(node)

    def _infer_function(self, node: Tree) -> Axes:
        """Return the axes of a function that is applied entry by entry; raise `ParseError` if there is none of this
        name, or if the operands do not fit.
        """
        if node.text not in ENTRYWISE:
            others = [name for name in ENTRYWISE if name.islower() and name not in FUNCTIONS]
            raise node.error(
                f"`{short(node.text)}` is not a function: the functions are "
                f"{', '.join((*FUNCTIONS, *MATRIX_FUNCTIONS, *others))}; "
                "write a product with its letters, as in `a *(i,i->i) (b + c)`"
            )
        self._check_operands(node, *ENTRYWISE[node.text])
        return self._infer_elementwise(node)

    def _check_operands(self, node: Tree, least: int, most: int) -> None:
        """Raise `ParseError` unless the function ``node`` has ``least`` to ``most`` operands."""
        if not least <= len(node.children) <= most:
            needed = least if least == most else f"{least} or more"
            raise node.error(f"{node.text} takes {needed} operands, and {len(node.children)} are given")

    def _infer_elementwise(self, node: Tree) -> Axes:
        """Return the axes of the sum, difference, quotient or function `node`: those of an operand with axes. Record
        that corresponding axes of the operands have equal lengths; raise `ParseError` if the operands have different
        numbers of axes.
        """
        first = next((part for part in node.children if self.axes[part]), node.children[0])
        axes = self.axes[first]
        for other in node.children:
            own = self.axes[other]
            if own and len(own) != len(axes):
                raise node.error(
                    f"the operands of {node.text} have different orders: {first.shown} has order {len(axes)}, "
                    f"{other.shown} has order {len(own)}; they need equal orders, or one of them order 0"
                )
            for pair in zip(axes, own, strict=False):
                self.unified.unify(*pair)
        return axes

    def _infer_power(self, node: Tree) -> Axes:
        """Return the axes of a power, those of its base; raise `ParseError` if the exponent has axes."""
        base, exponent = node.children
        if self.axes[exponent]:
            raise node.error(
                f"the exponent {exponent.shown} has order {len(self.axes[exponent])}; an exponent has order 0: write "
                "a power of a tensor by a tensor as `exp(b *(i,i->i) log(a))`",
                exponent.start,
            )
        return self.axes[base]

    def _infer_matrix(self, node: Tree) -> Axes:
        """Return the axes of `node`, ``det(X)`` (none), or ``inv(X)`` or ``adj(X)`` (those of X), and record that both
        axes of X have equal lengths. A number X stands for a matrix filled with it.
        """
        self._check_operands(node, 1, 1)
        (operand,) = node.children
        if operand in self.numbers:
            self.axes[operand] = self.unified.new_axes(2)
        given = self.axes[operand]
        if len(given) != 2:
            raise node.error(
                f"{node.text} takes a tensor of order 2, a matrix, but {operand.shown} has order {len(given)}",
                operand.start,
            )
        self.unified.unify(*given)
        return () if node.text == "det" else given

    def _infer_product(self, node: Tree) -> Axes:
        """Return the axes of a product with letters, such as ``*(ij,jk->ik)``; axes with the same letter become equally
        long.

        An operand without axes may have any letters. Raise `ParseError` if the number of letters is not that of the
        axes.
        """
        found = self.letters[node]
        axes: dict[str, int] = {}
        for operand, group in zip(node.children, found.inputs, strict=True):
            given = self.axes[operand]
            if given and len(given) != len(group):
                count = f"{len(group)} {'letter' if len(group) == 1 else 'letters'}"
                raise node.error(
                    f"{operand.shown} has order {len(given)}, but ({found}) gives it {count}"
                    f"{f' ({group})' * bool(group)}; write one letter for each axis"
                )
            for letter, axis in zip(group, given, strict=False):
                self.unified.unify(axes.setdefault(letter, axis), axis)
        for letter in "".join(found.inputs):
            if letter not in axes:  # one that no axis has means a new one
                (axes[letter],) = self.unified.new_axes(1)
        self.by_letter[node] = axes
        return tuple(axes[letter] for letter in found.output)


def size_symbols(
    unified: AxisClasses, taken: Container[str], known: Mapping[int, Any] = MappingProxyType({})
) -> dict[int, Any]:
    """Return a dictionary with a size symbol for each group of equally long axes in ``unified``; its keys are the axes
    that represent the groups. The symbols in ``known`` are used; new ones have names that are not in ``taken``.
    """
    classes = sorted({unified.root(axis) for axis in range(len(unified.parents))} - known.keys())
    names = (name for name in chain(SIZE_NAMES, (f"n{number}" for number in count(1))) if name not in taken)
    return {**known, **{axis: indices(name) for axis, name in zip(classes, names, strict=False)}}


# -------------------------------------------------------------- letters


def parse_letters(node: Tree) -> Subscripts:
    """Return the letters of a product such as ``A *(ij,jk->ik) B`` as `Subscripts`; raise `ParseError` if they are
    invalid.
    """
    arrow = node.text.index("->")
    groups = [""]
    for number, character in enumerate(node.text[:-1]):
        if number in (0, arrow + 1) or character.isspace():
            continue
        is_next = number == arrow or (character == "," and number < arrow)
        complaint = _separator_mistake(groups, character, len(node.children)) if is_next else _letter_mistake(character)
        if number > arrow and not complaint:
            complaint = _output_mistake(character, groups)
        if complaint:
            raise node.error(complaint, node.position + number)
        if is_next:
            groups.append("")
        else:
            groups[-1] += character
    return Subscripts(tuple(groups[:-1]), groups[-1])


def _separator_mistake(groups: list[str], character: str, operands: int) -> str:
    """Return, as text, why the comma or arrow ``character`` is wrong after ``groups``, the letters so far of a product
    with ``operands`` operands; "" if it is right.
    """
    if character == "-":
        return (
            "the product has two operands, so a comma separates their letters, as in `(ij,j->i)`; an operand "
            "without axes has no letters, as in `(,i->i)`"
        ) * (len(groups) < operands)
    if operands == 1:
        return (
            "a product of one operand has no comma between its letters, as in `(ij->ji)A`; of two operands it reads "
            "`A *(ij,j->i) x`"
        )
    return (
        "the product has two operands, so one comma separates their letters; write a product of three as "
        "`a *(i,i->i) b *(i,i->i) c`"
    ) * (len(groups) == 2)


def _letter_mistake(character: str) -> str:
    """Return the reason why ``character`` cannot be an index letter in a product such as ``(ij,jk->ik)``, as text; ""
    if it is a letter from a to z.
    """
    if "a" <= character <= "z":
        return ""
    if "A" <= character <= "Z":
        return f"the letters of a product are lower case: write {character.lower()} for {character}"
    if character == ",":
        return "after the arrow are the letters of one result, without a comma"
    return f"{character!r} is not a letter of a product, as in `(ij,jk->ik)`: letters a-z, a comma, an arrow"


def _output_mistake(letter: str, groups: list[str]) -> str:
    """Return, as text, why ``letter`` cannot be the next letter of a product's result; "" if it can. ``groups`` are the
    letters of the operands, followed by those of the result so far.
    """
    *inputs, output = groups
    if letter in output:
        return (
            f"the letter {letter} is repeated in the result, which is a diagonal: use two letters and multiply by "
            "`delta(1)`, as in `x *(i,ij->ij) delta(1)`"
        )
    return (
        f"the letter {letter} of the result is in no operand, so the length of this axis is unknown; write it at an "
        "operand without axes, as in `x *(i,j->ij) 1`"
    ) * (not any(letter in group for group in inputs))
