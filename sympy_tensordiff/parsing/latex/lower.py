"""Meaning of a LaTeX syntax tree: entries, sums over indices, transposes and functions, as trees for inference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sympy_tensordiff.parsing.frontend import Tree
from sympy_tensordiff.parsing.latex.binders import RELATIONS
from sympy_tensordiff.parsing.latex.lower_base import BoundIndices
from sympy_tensordiff.parsing.latex.names import (
    command_of,
    is_extremum,
    items_of,
    leaf,
    name_of,
    name_of_index,
)
from sympy_tensordiff.parsing.latex.operands import OperandLowering, lone_group
from sympy_tensordiff.parsing.matrix.shapes import FUNCTIONS, listed_functions

_FUNCTION_NAMES = {"Tr": "tr", "trace": "tr", "sgn": "sign", "ReLU": "relu", "ln": "log"}


class LatexLowering(OperandLowering):
    """Converts LaTeX trees (products, parentheses, functions) to the tree nodes that all text languages share; this is
    called lowering.
    """

    def _lower_number(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a number literal to a "number" node of the tree that all text languages share."""
        return leaf("number", node.text, node)

    def _lower_letter(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a letter to a name node. Letters that are not one name, as ``ab``, become a product."""
        name = name_of(node)
        if name is None:
            return self.sequence(node, [part for part in node.children], bound_indices)
        return self.named(name, node, bound_indices)

    _lower_command = _lower_font = _lower_letter

    def _lower_constant(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a constant tensor that is written without its sizes, such as a bold 1."""
        return self.constant(node, [], bound_indices)

    def _lower_relation(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Convert a chain of comparisons; raise `ParseError` for a relation of sets such as ``\in``."""
        signs = []
        for token in node.tokens:
            word = token.strip("& \\")
            if word not in RELATIONS:
                raise node.error("sets are not read: write the range of an index, as in \\sum_{i=1}^{n}")
            signs.append(RELATIONS[word])
        return self.node(
            "relation", node, [self.lower(part, bound_indices) for part in node.children], signs[0], *signs
        )

    def _lower_either(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert conditions joined by "and" or "or" to the node that all text languages share."""
        return self.node(node.kind, node, [self.lower(part, bound_indices) for part in node.children], node.text)

    _lower_both = _lower_either

    def _lower_sum(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a sum or difference to the node that all text languages share."""
        return self.node(
            "sum", node, [self.lower(part, bound_indices) for part in node.children], node.text, *node.tokens
        )

    def _lower_signed(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert an operand with a sign in front, such as ``-x``, to a "signed" node of the tree that all text
        languages share.
        """
        return self.node("signed", node, [self.lower(part, bound_indices) for part in node.children], node.text)

    def _lower_term(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Convert a chain of element-wise products, quotients, ``\bmod`` and einsum products to nodes that all text
        languages share.
        """
        value = self.lower(node.children[0], bound_indices)
        for token, part in zip(node.tokens, node.children[1:], strict=True):
            other = self.lower(part, bound_indices)
            command = command_of(token)
            if token.startswith("*"):
                letters = "".join(c for c in token[token.index("(") + 1 :] if c.isalpha() or c == ",")
                letters = letters.replace("to", "->", 1).removesuffix("right")
                value = self.node("einsum", node, [value, other], letters)
                for operand, group in zip(value.children, letters.partition("->")[0].split(","), strict=True):
                    if operand.kind == "name":
                        self.ranks.setdefault(operand.text, (len(group), operand))
            elif command == "bmod":
                value = self.node("modulo", node, [value, other])
            else:
                value = self.node("product", node, [value, other], "*", "./" if command == "oslash" else ".*")
        return value

    def _lower_chain(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Convert factors written side by side, such as ``A x \cdot y``, to the nodes that all text languages share.
        Factors and operator signs are merged into the order of the text.
        """
        return self.sequence(
            node, sorted([*node.children, *_operators_as_nodes(node)], key=lambda part: part.start), bound_indices
        )

    _lower_open_argument = _lower_chain

    def sequence(self, node: Tree, items: Sequence[Tree], bound_indices: BoundIndices) -> Tree:
        r"""Return the tree of the product of ``items``, the operands and operator signs that are written side by side
        in LaTeX. ``/`` binds as tightly as writing side by side, ``\cdot`` and ``\times`` less tightly.

        `node` is the tree that has these items.
        """
        segments: list[list[Tree]] = [[]]
        for item in self.words(items):
            if item.kind == "operator" and item.text != "/":
                segments.append([])
            else:
                segments[-1].append(item)
        value = self.quotient(node, segments[0], bound_indices)
        for segment in segments[1:]:
            value = self.node("dot", node, [value, self.quotient(node, segment, bound_indices)])
        return value

    def quotient(self, node: Tree, items: Sequence[Tree], bound_indices: BoundIndices) -> Tree:
        """Return the product of the ``items`` of `node`, factors and ``/`` signs; the factors before a ``/`` are
        divided by the factor after it.
        """
        factors: list[Tree] = []
        is_divisor = False
        skipped = False
        for number, item in enumerate(items):
            if skipped:
                skipped = False
                continue
            if item.kind == "operator":
                is_divisor = True
                continue
            if _is_differential(item) and number + 1 < len(items):
                factor, skipped = self.differential(items[number + 1], bound_indices), True
            elif item.kind == "bare" and number + 1 < len(items) and _is_indicator(item, items[number + 1]):
                factor, skipped = self.indicator(items[number + 1], bound_indices), True
            elif self.is_sigmoid(item) and number + 1 < len(items) and _is_parenthesis(items[number + 1]):
                factor, skipped = self.sigmoid(items[number + 1], bound_indices), True
            else:
                factor = self.lower(item, bound_indices)
            if is_divisor:
                factors = [self.node("fraction", node, [self.product(node, factors), factor])]
            else:
                factors.append(factor)
            is_divisor = False
        return self.product(node, factors)

    def product(self, node: Tree, factors: Sequence[Tree]) -> Tree:
        """Return the node of the product of ``factors``, numbers or matrices; a single factor is returned unchanged."""
        if len(factors) == 1:
            return factors[0]
        return self.node("product", node, factors, "*", *("*" for _ in factors[1:]))

    def indicator(self, item: Tree, bound_indices: BoundIndices) -> Tree:
        """Return the node of a bold 1 before a condition in parentheses: 1 where the condition in ``item`` holds, else
        0.
        """
        return self.node("indicator", item, [self.lower(item.children[0].children[0], bound_indices)])

    def is_sigmoid(self, item: Tree) -> bool:
        r"""Return whether ``item`` is an undeclared ``\sigma``, which before a parenthesis means the logistic
        function.
        """
        return (
            item.kind == "bare"
            and len(item.children) == 1
            and item.children[0].text == "\\sigma"
            and not {"sigma"} & {*self.declared, *self.indexed, *self.parts}
        )

    def sigmoid(self, item: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Return the node of the logistic function of the parenthesis ``item``, written ``\sigma(x)``."""
        group, *scripts = item.children
        self.notes["sigma is the logistic function"] = None
        call = self.node("closed_call", item, [group, *scripts], "\\sigmoid")
        return self._lower_closed_call(call, bound_indices)

    def differential(self, item: Tree, bound_indices: BoundIndices) -> Tree:
        """Return the node of the name ``dx`` for ``item``, a name ``x`` after an upright d; subscripts of ``item``
        become indices of ``dx``. Raise `ParseError` if ``item`` is not a name.
        """
        base, *scripts = item.children
        name = name_of(base) if base.kind in ("letter", "command", "font") else None
        if name is None:
            raise item.error("a roman d is read before a name only")
        return self.lower(self.node("bare", item, [leaf("letter", f"d{name}", base), *scripts]), bound_indices)

    def words(self, items: Sequence[Tree]) -> list[Tree]:
        """Return ``items``, the parsed symbols of a formula, with adjacent letters joined to one name if they spell a
        declared one, such as ``loss``.
        """
        found: list[Tree] = []
        lengths = sorted({len(name) for name in self.declared if len(name) > 1 and name.isalpha()}, reverse=True)
        at = 0
        while at < len(items):
            for length in lengths:
                run = items[at : at + length]
                word = "".join(part.children[0].text for part in run if _is_letter(part))
                is_close = all(first.end == second.start for first, second in pairwise(run))
                if (
                    word in self.declared
                    and len(word) == length
                    and is_close
                    and not any(p.children[1:] for p in run[:-1])
                ):
                    letter = leaf("letter", word, run[0].children[0])
                    found.append(self.node("bare", run[-1], [letter, *run[-1].children[1:]]))
                    at += length
                    break
            else:
                found.append(items[at])
                at += 1
        return found

    def _lower_round(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert parentheses around a value, such as ``(x + y)``, to the node of the value; raise `ParseError` if
        there are several values.
        """
        if len(node.children) != 1:
            raise node.error("several values in parentheses are arguments of a function")
        return self.lower(node.children[0], bound_indices)

    _lower_braced = _lower_round

    def _lower_square(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert ``[x]``: the value of x or, for a condition, an indicator that is 1 where it holds, else 0 (Iverson
        bracket).
        """
        value = self._lower_round(node, bound_indices)
        return self.node("indicator", node, [value]) if value.kind in ("relation", "both", "either") else value

    def _lower_fraction(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Convert a ``\frac`` to a quotient node, also one with two digits without braces, ``\frac12``."""
        if not node.children:
            digits = [leaf("number", digit, node) for digit in node.text if digit.isdigit()]
            return self.node("fraction", node, digits)
        return self.node("fraction", node, [self.lower(part, bound_indices) for part in node.children])

    def _lower_root(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a square root to a call node; a root of another degree becomes a power."""
        *degree, radicand = node.children
        value = self.lower(radicand, bound_indices)
        if degree:
            inverse = self.node("fraction", node, [leaf("number", "1", node), self.lower(degree[0], bound_indices)])
            return self.node("power", node, [value, inverse], "**", "**")
        return self.node("call", node, [value], "sqrt")

    def _lower_modulus(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert ``|x|`` to one "modulus" node. Whether it means a determinant or an absolute value is decided later,
        when the shape of ``x`` is known.
        """
        (part,) = node.children
        is_braced = node.source[part.start] == "{"
        return self.node("modulus", node, [self.lower(part, bound_indices)], "braced" if is_braced else "")

    def _lower_inner(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Convert an inner product in angle brackets, such as ``\langle x, y \rangle``, to one node."""
        return self.node("inner", node, [self.lower(part, bound_indices) for part in node.children])

    def _lower_rounded(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Convert ``\lfloor x \rfloor`` or ``\lceil x \rceil`` to a call node."""
        name = "floor" if "floor" in node.text else "ceiling"
        return self.node("call", node, [self.lower(node.children[0], bound_indices)], name)

    def _lower_cases(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a cases environment to one node whose children are value, condition, value, condition, and so on."""
        children = []
        for case in node.children:
            children += [self.lower(part, bound_indices) for part in case.children]
            if len(case.children) == 1 and case is not node.children[-1]:
                raise case.error("the case `otherwise` is the last one")
        return self.node("cases", node, children)

    def _lower_column(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a LaTeX matrix with one column to one tree node. The elements of the column are numbers, or tensors
        to be stacked.
        """
        return self.node("column", node, [self.lower(part, bound_indices) for part in node.children])

    def _lower_arrow(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Raise `ParseError`: functions written with ``\mapsto`` are not supported."""
        raise node.error("functions written with \\mapsto are not read")

    def _lower_closed_call(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a function call with parentheses; subscripts and superscripts may be before or after them."""
        place = next(n for n, part in enumerate(node.children) if part.kind in ("round", "square", "braced"))
        before, group, after = node.children[:place], node.children[place], node.children[place + 1 :]
        if is_extremum(node):
            operand = self.node("plain", group, [group, *after])
            return self.binding(node, command_of(node.text), before, operand, bound_indices)
        while group.kind == "braced" and len(group.children) == 1 and lone_group(group.children[0]) is not None:
            group = lone_group(group.children[0])  # type: ignore[assignment]
        arguments = [self.lower(part, bound_indices) for part in group.children]
        value = self.call(node, arguments, [part for part in before if part.kind == "subscript"], bound_indices)
        value = self.raised(node, value, [part for part in before if part.kind == "superscript"], bound_indices)
        for part in after:
            if part.kind == "subscript":
                value = self.entry(node, value, part, bound_indices)
        return self.raised(node, value, [part for part in after if part.kind == "superscript"], bound_indices)

    def _lower_open_call(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Convert a function call without parentheses, such as ``\sin x``."""
        *scripts, operand = node.children
        if is_extremum(node):
            return self.binding(node, command_of(node.text), scripts, operand, bound_indices)
        below = [part for part in scripts if part.kind == "subscript"]
        value = self.call(node, [self.lower(operand, bound_indices)], below, bound_indices)
        return self.raised(node, value, [part for part in scripts if part.kind == "superscript"], bound_indices)

    def call(self, node: Tree, arguments: list[Tree], below: list[Tree], bound_indices: BoundIndices) -> Tree:
        """Return the node of a function of ``arguments``. A subscript of softmax, logsumexp or mean, in ``below``,
        names axes by number; for any other function it is an error.
        """
        text = node.text.rstrip("} ")
        name = text.partition("{")[2].strip() or command_of(text)
        name = _FUNCTION_NAMES.get(name, name)
        if below:
            axes = [name_of_index(item) for item in items_of(below[0])]
            if name not in ("softmax", "logsumexp", "mean") or not all(axis and axis.isdecimal() for axis in axes):
                raise below[0].error(f"a subscript of {name} is not read")
            return self.node("along", node, arguments, name, *map(str, axes))
        if name not in FUNCTIONS:
            raise node.error(f"{name} is not a function of formulas: these are {', '.join(listed_functions())}")
        return self.node("call", node, arguments, name)


def _operators_as_nodes(node: Tree) -> list[Tree]:
    """Return the operator signs in the text of ``node``, such as a dot between factors, as tree nodes with their
    positions in the text. The caller sorts them by position into the sequence of the factors.
    """
    return [
        Tree("operator", str(token), (), (), token.start_pos or 0, token.end_pos or 0, token.start_pos or 0, 1)
        for token in node.tokens
    ]


def _is_differential(node: Tree) -> bool:
    """Return whether ``node`` is an upright d, which before a name means a differential."""
    return (
        node.kind == "bare"
        and len(node.children) == 1
        and node.children[0].kind == "font"
        and command_of(node.children[0].text) == "mathrm"
        and name_of(node.children[0]) == "d"
    )


def _is_indicator(item: Tree, following: Tree) -> bool:
    """Return whether ``item`` is a bold 1 and ``following``, the next factor, a condition in parentheses, so that both
    together are an indicator.
    """
    if item.children[0].kind != "constant" or len(item.children) > 1 or following.kind != "plain":
        return False
    group = following.children[0]
    return len(following.children) == 1 and group.children[0].kind in ("relation", "both", "either")


def _is_parenthesis(node: Tree) -> bool:
    """Return whether ``node`` is in round or square parentheses."""
    return node.kind == "plain" and node.children[0].kind in ("round", "square")


def _is_letter(node: Tree) -> bool:
    """Return whether ``node`` is a letter, perhaps with scripts."""
    return node.kind == "bare" and node.children[0].kind == "letter"
