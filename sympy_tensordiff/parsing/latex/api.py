"""The function `read_latex`, from a formula in LaTeX to an expression, and the definition of the language."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import Any

import sympy
from lark import Token

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.axes import AxisClasses
from sympy_tensordiff.parsing.frontend import (
    TERMINALS,
    Language,
    Tree,
    bottom_up,
    check_declarations,
    check_not_keyword,
    read,
    short,
    tensor_named,
)
from sympy_tensordiff.parsing.latex.build import LatexBuilder
from sympy_tensordiff.parsing.latex.lower import LatexLowering
from sympy_tensordiff.parsing.latex.lower_base import BoundIndices
from sympy_tensordiff.parsing.latex.names import GREEK, LatexBinder, items_of, name_of_index
from sympy_tensordiff.parsing.latex.shapes import LatexShapes, conflict, first_index, integer_value, order_of_rank
from sympy_tensordiff.parsing.matrix.api import infer_orders, lengths_of_axes, order_word
from sympy_tensordiff.parsing.matrix.shapes import COLUMN, NUMBER
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol

MAX_INPUT = 4_500
"""The greatest number of characters of an input."""
MAX_DEPTH = 120
"""The greatest depth of the syntax tree; a pair of parentheses has about three levels."""
ENVIRONMENTS = frozenset(
    ["cases", "aligned", "align", "align*", "equation", "equation*", "split", "gather", "gathered"]
)
EXAMPLE = r"r'\|A x - b\|_2^2' or r'declare A[m, n], x[n]  \sum_{i=0}^{n-1} x_i^2  derivative wrt x'"

_OPERATORS = frozenset(
    [
        "SIGN",
        "OPERATOR",
        "ENTRYWISE",
        "COMPARE",
        "AND",
        "OR",
        "COMMA",
        "LEFT",
        "LEFT_BRACKET",
        "LEFT_BRACE",
        "LEFT_BAR",
        "LEFT_BARS",
        "LEFT_ANGLE",
        "COLUMN",
        "ROW",
        "FUNCTION",
        "FRACTION",
        "ROOT",
        "BINDER",
        "FOR",
        "WHERE",
        "WRT",
        "DECLARE",
        "BEGIN_CASES",
    ]
)
"""Terminals after which a vertical bar opens."""


class Bars:
    r"""A token filter that decides whether each bar ``|`` or ``\|`` opens or closes; the two look the same."""

    always_accept = ("BAR", "BARS")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Yield the tokens of ``stream``, with each token of a single or double bar renamed to an opening or closing
        one: LEFT_BAR, RIGHT_BAR, LEFT_BARS or RIGHT_BARS.
        """
        opened: list[str] = []
        before = "COMMA"
        for token in stream:
            if token.type in self.always_accept:
                closes = before not in _OPERATORS and opened[-1:] == [token.type]
                opened.pop() if closes else opened.append(token.type)
                token = Token.new_borrow_pos(("RIGHT_" if closes else "LEFT_") + token.type, token.value, token)
            elif token.type in ("LEFT", "LEFT_BRACKET", "LEFT_BRACE"):
                opened.append(token.type)
            elif token.type in ("RIGHT", "RIGHT_BRACKET", "RIGHT_BRACE") and opened:
                opened.pop()
            before = token.type
            yield token


def mistake_hint(token: Token, expected: Collection[str], before: list[Token]) -> str:
    """Return a hint for the error message if the unexpected ``token`` is a frequent mistake, given the ``expected``
    terminals and the tokens ``before`` it; else "".
    """
    if token.type == "COMMAND" or (token.type == "NAME" and token.startswith("\\")):
        return f"`{token}` is not read here"
    if token.type == "PRIME":
        return "a prime follows a matrix"
    return ""


LATEX = Language(
    grammar="latex/grammar.lark",
    display_name="the LaTeX of formulas",
    max_length=MAX_INPUT,
    max_depth=MAX_DEPTH,
    example=EXAMPLE,
    signs={
        "": "formulas consist of letters, digits, operators and commands such as \\frac, \\sum, \\operatorname{tr}",
        "\\": "commands of layout and definitions are not read, nor are environments but cases, columns and aligned",
        "#": "macros are not read: write the formula itself",
        "!": "factorials are not read",
        ":": "a definition is written with =",
    },
    groups=((frozenset({"NUMBER"}), "an operand", frozenset(TERMINALS)),),
    mistake_hint=mistake_hint,
    lexer="contextual",
    postlex=Bars(),
)


def read_latex(text: str) -> ParsedExpression:
    """Parse a formula in LaTeX and return it as a `ParsedExpression`. The orders (number of axes) and sizes of names
    that are not declared are inferred.

    Raise `ParseError` if the text is invalid, or its tensors do not fit.
    """
    try:
        root = read(LATEX, text)
    except ParseError as error:
        raise _unknown_command(text, error) from None
    declarations = root.of_kind("declaration")
    for node in declarations:
        node.text = node.text.lstrip("\\")
    check_declarations(declarations)
    formula = LatexLowering(root, {node.text: len(node.children) for node in declarations if not is_size(node)})
    formula.sizes.update(node.text for node in declarations if is_size(node))
    formula.integers.update(formula.sizes)
    sizes = {node: [formula.size(part.children[0], {}) for part in node.children] for node in declarations}
    first, *others = root.of_kind("statement")
    if others and not any(token.type == "WHERE" for token in others[0].tokens):
        raise others[0].error("one formula is read, and here is a second line; parts follow after `where`")
    for statement in others:
        _define_part(formula, statement)
    body = _definition(formula, first)
    if formula.base:
        formula.base = first_index(formula, {node.text: sizes[node] for node in declarations})
        start = "1 in the text and at 0 in the expression" if formula.base else "0 in the text"
        formula.notes[f"indices start at {start}"] = None
    return LatexReader(root, formula, body, sizes).result()


def _define_part(formula: LatexLowering, statement: Tree) -> None:
    """Record in ``formula`` the definition of a named part of the formula. ``statement`` is the line after "where" that
    gives it, such as ``u = x + y``.
    """
    body = statement.children[0]
    if body.kind != "relation" or body.tokens[0].strip("& ") != "=":
        raise statement.error("a part is defined with =")
    left = formula.lower(body.children[0], {})
    name = left.children[0] if left.kind == "entry" else left
    if name.kind != "name":
        raise body.error("the left side of a definition is a name, or its entry")
    for known in (formula.ranks, formula.integers, formula.indexed):
        if name.text in known:
            known.pop(name.text) if isinstance(known, dict) else known.remove(name.text)
    formula.parts[name.text] = _definition(formula, statement)


def _unknown_command(text: str, error: ParseError) -> ParseError:
    """Return the error about the first command or environment in ``text`` that is not known; if all are known, return
    ``error``.
    """
    for match in re.finditer(r"\\begin\s*\{([a-z]+\*?)\}|\\([A-Za-z]{2,})", text[:MAX_INPUT]):
        environment, command = match.groups()
        if environment and environment not in ENVIRONMENTS:
            return ParseError(
                f"the environment {short(environment)} is not read; write the entries of a matrix with its indices",
                text,
                match.start(),
            )
        if command and command not in GREEK | _words():
            return ParseError(f"`\\{short(command)}` is not read; macros are not expanded", text, match.start())
    return error


@cache
def _words() -> frozenset[str]:
    """Return all words in the grammar file, by which unknown commands are recognised."""
    return frozenset(re.findall("[A-Za-z]{2,}", files(__package__).joinpath("grammar.lark").read_text("utf-8")))


def _definition(formula: LatexLowering, statement: Tree) -> Tree:
    """Convert ``statement``, a line such as ``f_i = x_i`` or an expression alone, to the tree nodes that all languages
    share, by ``formula``. Return the tree of its expression, or a comprehension if the left side has indices.
    """
    body, *ranges = statement.children
    if body.kind != "relation" or body.tokens[0].strip("& ") != "=" or len(body.tokens) > 1:
        if ranges:
            raise ranges[0].error("one formula is read, and here is another after a comma")
        return formula.lower(body, {})
    left, right = body.children
    axes = _left_indices(left)
    bound_indices: BoundIndices = {letter: LatexBinder(letter, node) for letter, node in axes}
    formula.indices.update(bound_indices)
    for item in ranges:
        letter = name_of_index(item.children[0]) if item.kind == "relation" else None
        if letter is None or letter not in bound_indices or item.tokens[0].strip("& ") != "<":
            raise item.error("after a comma are the ranges of the indices on the left, as in i < n")
        binder = bound_indices[letter]
        binder.upper, binder.is_open = formula.size(item.children[1], {}), True
    value = formula.lower(right, bound_indices)
    if not axes:
        return value
    result = formula.node(
        "comprehension", body, [value, *(b.upper for b in bound_indices.values() if b.upper is not None)]
    )
    formula.binders[result] = [*bound_indices.values()]
    return result


def _left_indices(left: Tree) -> list[tuple[str, Tree]]:
    """Return the indices on the left side of a definition such as ``f_{i j} = …``."""
    if left.kind != "chain" or len(left.children) != 1:
        return []
    (operand,) = left.children
    scripts = operand.of_kind("subscript")
    if operand.kind not in ("bare", "plain") or len(scripts) != 1:
        return []
    found = [(name_of_index(item), item) for item in items_of(scripts[0])]
    return [(letter, item) for letter, item in found if letter is not None and len(letter) == 1 and letter.isalpha()]


class LatexReader:
    """Infers the orders and sizes of the names in one formula, and builds its expression."""

    def __init__(self, root: Tree, formula: LatexLowering, body: Tree, sizes: dict[Tree, list[Tree]]) -> None:
        self.root = root
        self.sizes = sizes
        self.formula = formula
        self.nodes = [node for tree in (*formula.parts.values(), body) for node in bottom_up(tree)]
        for node in self.nodes:
            if node.kind == "name" and node.text in formula.integers:
                node.kind = "index"
        self.declared = {node.text: node for node in sizes if not is_size(node)}
        self.names: dict[str, Tree] = {}
        for node in sorted(self.nodes, key=lambda node: node.position):
            if node.kind == "name" and (node.text not in ("eye", "pi") or node.text in formula.ranks):
                self.names.setdefault(node.text, node)
        for node in root.of_kind("argument"):
            node.text = node.text.lstrip("\\")
        for name, node in self.declared.items():
            self.names.setdefault(name, node)
        for node in self.names.values():
            check_not_keyword(node)
        self.ranks = {name: len(node.children) for name, node in self.declared.items()}
        for name, (rank, _) in formula.ranks.items():
            self.ranks.setdefault(name, rank)
        self.higher = {name: rank for name, rank in self.ranks.items() if rank > 2}

    def result(self) -> ParsedExpression:
        """Return the parsed formula as a `ParsedExpression`."""
        known = {name: order_of_rank(rank) for name, rank in self.ranks.items() if rank <= 2}
        names = {name: node for name, node in self.names.items() if name not in self.higher}
        infer = partial(LatexShapes, formula=self.formula, higher=self.higher)
        orders, assumed = infer_orders(
            self.nodes, names, known, False, infer, self.count_unusual_orders, capital_number=3
        )
        tensors, expression = self.build(orders)
        arguments = tuple(tensor_named(node, tensors) for node in self.root.of_kind("argument"))
        notes = [f"{name} is {order_word(order)}" for name, order in assumed.items()]
        return ParsedExpression(tensors, expression, arguments, (*notes, *self.formula.notes))

    def count_unusual_orders(self, orders: Mapping[str, int]) -> int:
        """Return how many names have an unusual order (number of axes) in ``orders``, to choose among several possible
        readings: usually a letter is a scalar, and a bold letter a vector.
        """
        return sum(
            (order == COLUMN) != (name in self.formula.bold)
            for name, order in orders.items()
            if order in (NUMBER, COLUMN)
        )

    def build(self, orders: dict[str, int]) -> tuple[dict[str, TensorSymbol], Any]:
        """Return ``(tensors by name, expression)`` for the text. ``orders`` maps each name to its shape code: 0 number,
        1 column, 3 matrix.
        """
        unified = AxisClasses()
        ranks = {**{name: (order & 1) + (order >> 1) for name, order in orders.items()}, **self.higher}
        ordered = [*self.declared, *(name for name in self.names if name not in self.declared)]
        axes: dict[str, Any] = {}
        for name in ordered:
            own = unified.new_axes(ranks[name])
            axes[name] = own if len(own) > 2 else (*own, None, None)[:2]
        shapes = LatexShapes(orders, False, unified, axes, {"": 0}, formula=self.formula, higher=self.higher)
        self.declare(shapes, axes)
        shapes.run(self.nodes)
        known = known_sizes(shapes)
        taken = {*self.names, *self.formula.integers, *self.formula.indices}
        lengths = lengths_of_axes(self.root, shapes, taken, known)
        tensors = {
            name: TensorSymbol(
                name,
                tuple(lengths[unified.root(axis)] for axis in axes[name] if axis is not None),
                dtype=int if name in self.declared and is_integer(self.declared[name]) else float,
            )
            for name in ordered
        }
        builder = LatexBuilder(shapes, lengths, tensors)
        builder.formula, builder.stated = self.formula, frozenset(known)
        return tensors, builder.expression(self.nodes)

    def declare(self, shapes: LatexShapes, axes: dict[str, Any]) -> None:
        """Record in `shapes` the sizes that declarations such as ``x[n]`` give; ``axes`` maps each name to its axes."""
        for name, node in self.declared.items():
            present = [axis for axis in axes[name] if axis is not None]
            for axis, part in zip(present, self.sizes[node], strict=True):
                size = integer_value(part)
                if size is None:
                    raise part.error("a size is an affine expression of names and integers")
                shapes.exact.append((axis, size, part))


def is_integer(declaration: Tree) -> bool:
    """Return whether a declaration begins with ``int``."""
    return declaration.tokens[0].type == "INT"


def is_size(declaration: Tree) -> bool:
    """Return whether a declaration is of an integer without axes."""
    return is_integer(declaration) and not declaration.children


def known_sizes(shapes: LatexShapes) -> dict[int, Any]:
    """Return a dictionary from axes to the lengths that a LaTeX formula gives them, by a declaration or by the largest
    value of an index.

    The key is the axis that represents a group of equally long axes. Raise `ParseError` if sizes contradict each other.
    """
    assert shapes.unified is not None
    root = shapes.unified.root
    known: dict[int, Any] = {}
    for axis, size, node in shapes.exact:
        if known.setdefault(root(axis), size) != size:
            raise conflict(node, known[root(axis)], size)
    least: dict[int, Any] = {}
    for axis, size, node in shapes.least:
        at = root(axis)
        if at in known:
            continue
        if at not in least:
            least[at] = size
            continue
        difference = sympy.expand(size - least[at])
        if difference.is_number:
            least[at] = size if difference > 0 else least[at]
        elif not is_useless_bound(size, shapes):
            if is_useless_bound(least[at], shapes):
                least[at] = size
            else:
                raise conflict(node, least[at], size)
    return {**{at: size for at, size in least.items() if not is_useless_bound(size, shapes)}, **known}


def is_useless_bound(size: Any, shapes: LatexShapes) -> bool:
    """Return whether ``size``, a lower bound for the length of an axis, cannot be used because it contains an index, or
    a name that is not a size. Such bounds come from subscripts, such as ``n + 1`` from ``x_{n}``.
    """
    free = {str(symbol) for symbol in size.free_symbols}
    return bool(free & shapes.formula.indices) or not free <= shapes.formula.sizes
