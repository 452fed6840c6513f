"""Meaning of a LaTeX syntax tree: entries, sums over indices, transposes and functions, as trees for inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lark import Token

from sympy_tensordiff.parsing.frontend import Tree, bottom_up, short
from sympy_tensordiff.parsing.latex.names import (
    FREE_INDICES,
    Binder,
    bound_letters,
    command_of,
    first_limits,
    is_extremum,
    items_of,
    leaf,
    letters_in,
    name_of,
    name_of_index,
)
from sympy_tensordiff.parsing.matrix.shapes import FUNCTIONS

Scope = Mapping[str, Binder]
_FUNCTION_NAMES = {"Tr": "tr", "trace": "tr", "sgn": "sign", "ReLU": "relu", "ln": "log"}
_RELATIONS = {
    **{"=": "==", "<": "<", ">": ">", "le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=", "geq": ">="},
    **{"geqslant": ">=", "ne": "!=", "neq": "!=", "lt": "<", "gt": ">"},
}


class Lowering:
    """The trees of a formula in terms of entries, reductions and functions.

    Attributes
    ----------
    base : int
        The number at which indices start in the text: 0 or 1.
    binders : dict
        The binders of each reduction and comprehension, from left to right.
    scopes : dict
        The bound indices around each entry.
    ranks : dict
        The number of indices of each name that is written with indices, with the first such entry.
    parts : dict
        The values of the parts that "where" lines define, in order.
    integers, sizes : set
        The names of sizes and of indices that nothing binds; and those that are in limits and sizes.
    """

    def __init__(self, root: Tree, declared: Mapping[str, int]) -> None:
        self.declared = declared
        self.binders: dict[Tree, list[Binder]] = {}
        self.scopes: dict[Tree, Scope] = {}
        self.ranks: dict[str, tuple[int, Tree]] = {}
        self.integers: set[str] = set()
        self.sizes: set[str] = set()
        self.parts: dict[str, Tree] = {}
        self.notes: dict[str, None] = {}
        self.indices = bound_letters(root)
        starts = [start for start in first_limits(root) if start is not None]
        self.base = int(bool(starts) and min(starts) >= 1)
        self.indexed = _indexed_names(root, self.indices)
        self.index_depth = 0
        self.bold = {
            name
            for node in bottom_up(root)
            if node.kind == "font" and command_of(node.text) in ("mathbf", "boldsymbol", "bm", "vec")
            if (name := name_of(node)) is not None
        }

    # ------------------------------------------------------------------------ nodes

    def node(self, kind: str, at: Tree, children: Sequence[Tree], text: str = "", *tokens: str) -> Tree:
        """Return a node at the position of ``at``."""
        marks = tuple(Token("STAR", token, start_pos=at.position) for token in tokens)
        return Tree(kind, text, marks, tuple(children), at.start, at.end, at.position, 1, source=at.source)

    def lower(self, node: Tree, scope: Scope) -> Tree:
        """Return the meaning of ``node`` inside of the binders ``scope``."""
        lowered: Tree = getattr(self, f"_lower_{node.kind}")(node, scope)
        return lowered

    def integer(self, node: Tree, scope: Scope) -> Tree:
        """Return the meaning of an index, whose names are integers."""
        self.index_depth += 1
        lowered = self.lower(node, scope)
        self.index_depth -= 1
        return lowered

    def size(self, node: Tree, scope: Scope) -> Tree:
        """Return the meaning of a limit or a size, whose names are integers."""
        lowered = self.integer(node, scope)
        self.sizes.update(part.text for part in bottom_up(lowered) if part.kind == "index" and part.text not in scope)
        return lowered

    def base_of(self, name: str) -> int:
        """Return what the value of the index or size ``name`` in the text exceeds its value here by."""
        return self.base if name in self.indices or name not in self.sizes else 0

    def _lower_number(self, node: Tree, scope: Scope) -> Tree:
        return leaf("number", node.text, node)

    def _lower_letter(self, node: Tree, scope: Scope) -> Tree:
        name = name_of(node)
        if name is None:
            return self.sequence(node, [part for part in node.children], scope)
        return self.named(name, node, scope)

    _lower_command = _lower_font = _lower_letter

    def named(self, name: str, node: Tree, scope: Scope) -> Tree:
        """Return the tensor, the index or the constant ``name``."""
        if name == "lamda" and "lambda" in self.declared:
            name = "lambda"
        if name in self.parts:
            return leaf("part", name, node)
        if name in scope and name not in self.declared:
            return leaf("index", name, node)
        if self.index_depth and name not in self.declared:
            self.integers.add(name)
            return leaf("index", name, node)
        if name == "I" and name not in self.declared and name not in self.indexed:
            return leaf("name", "eye", node)
        if name in ("nabla", "partial", "infty"):
            raise node.error(f"`\\{name}` is not read inside of a formula")
        return leaf("name", name, node)

    def _lower_constant(self, node: Tree, scope: Scope) -> Tree:
        return self.constant(node, [], scope)

    def constant(self, node: Tree, sizes: list[Tree], scope: Scope) -> Tree:
        """Return zeros, ones or the unit tensor; ``sizes`` is empty where its size is inferred."""
        digit = node.text.rstrip("} ")[-1]
        if not sizes:
            if digit == "I":
                return leaf("name", "eye", node)
            return self.node("call", node, [leaf("number", digit, node)], "vector")
        return self.node("filled", node, [self.size(size, scope) for size in sizes], digit)

    def _lower_relation(self, node: Tree, scope: Scope) -> Tree:
        signs = []
        for token in node.tokens:
            word = token.strip("& \\")
            if word not in _RELATIONS:
                raise node.error("sets are not read: write the range of an index, as in \\sum_{i=1}^{n}")
            signs.append(_RELATIONS[word])
        return self.node("relation", node, [self.lower(part, scope) for part in node.children], signs[0], *signs)

    def _lower_either(self, node: Tree, scope: Scope) -> Tree:
        return self.node(node.kind, node, [self.lower(part, scope) for part in node.children], node.text)

    _lower_both = _lower_either

    def _lower_sum(self, node: Tree, scope: Scope) -> Tree:
        return self.node("sum", node, [self.lower(part, scope) for part in node.children], node.text, *node.tokens)

    def _lower_signed(self, node: Tree, scope: Scope) -> Tree:
        return self.node("signed", node, [self.lower(part, scope) for part in node.children], node.text)

    # ------------------------------------------------------------------------ products

    def _lower_term(self, node: Tree, scope: Scope) -> Tree:
        value = self.lower(node.children[0], scope)
        for token, part in zip(node.tokens, node.children[1:], strict=True):
            other = self.lower(part, scope)
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

    def _lower_chain(self, node: Tree, scope: Scope) -> Tree:
        return self.sequence(node, sorted([*node.children, *_as_nodes(node)], key=lambda part: part.start), scope)

    _lower_open_argument = _lower_chain

    def sequence(self, node: Tree, items: Sequence[Tree], scope: Scope) -> Tree:
        """Return the product of ``items``; ``/`` binds as a product does, a dot or cross binds less."""
        segments: list[list[Tree]] = [[]]
        for item in items:
            if item.kind == "operator" and item.text != "/":
                segments.append([])
            else:
                segments[-1].append(item)
        value = self.quotient(node, segments[0], scope)
        for segment in segments[1:]:
            value = self.node("dot", node, [value, self.quotient(node, segment, scope)])
        return value

    def quotient(self, node: Tree, items: Sequence[Tree], scope: Scope) -> Tree:
        """Return a product of factors, of which those after a ``/`` divide."""
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
                factor, skipped = self.differential(items[number + 1], scope), True
            elif item.kind == "bare" and number + 1 < len(items) and _is_indicator(item, items[number + 1]):
                factor, skipped = self.indicator(items[number + 1], scope), True
            elif self.is_sigmoid(item) and number + 1 < len(items) and _is_parenthesis(items[number + 1]):
                factor, skipped = self.sigmoid(items[number + 1], scope), True
            else:
                factor = self.lower(item, scope)
            if is_divisor:
                factors = [self.node("fraction", node, [self.product(node, factors), factor])]
            else:
                factors.append(factor)
            is_divisor = False
        return self.product(node, factors)

    def product(self, node: Tree, factors: Sequence[Tree]) -> Tree:
        """Return the product of matrices or numbers ``factors``."""
        if len(factors) == 1:
            return factors[0]
        return self.node("product", node, factors, "*", *("*" for _ in factors[1:]))

    def indicator(self, item: Tree, scope: Scope) -> Tree:
        """Return 1 where the condition in the parenthesis ``item`` holds, and 0 elsewhere."""
        return self.node("indicator", item, [self.lower(item.children[0].children[0], scope)])

    def is_sigmoid(self, item: Tree) -> bool:
        """Return whether ``item`` is an undeclared sigma, which is the logistic function before a parenthesis."""
        return (
            item.kind == "bare"
            and len(item.children) == 1
            and item.children[0].text == "\\sigma"
            and not {"sigma"} & {*self.declared, *self.indexed, *self.parts}
        )

    def sigmoid(self, item: Tree, scope: Scope) -> Tree:
        """Return the logistic function of the parenthesis ``item``."""
        group, *scripts = item.children
        self.notes["sigma is the logistic function"] = None
        call = self.node("closed_call", item, [group, *scripts], "\\sigmoid")
        return self._lower_closed_call(call, scope)

    def differential(self, item: Tree, scope: Scope) -> Tree:
        """Return the name ``dx`` that is printed as a roman d before the name x."""
        value = self.lower(item, scope)
        for part in bottom_up(value):
            if part.kind in ("name", "part"):
                part.text = f"d{part.text}"
                part.kind = "part" if part.text in self.parts else "name"
                break
        return value

    # ------------------------------------------------------------------------ operands with scripts

    def _lower_bare(self, node: Tree, scope: Scope) -> Tree:
        """Return an operand with its subscripts and superscripts."""
        base, *scripts = node.children
        below = [part for part in scripts if part.kind == "subscript"]
        above = [part for part in scripts if part.kind == "superscript"]
        if len(below) > 1:
            raise below[1].error("an operand has one subscript; write A_{i j}")
        name = name_of(base) if base.kind in ("letter", "command", "font") else None
        if name is not None:
            while above and (label := _label(above[0])) and f"{name}" not in self.declared:
                name, above = name + label, above[1:]
            if name == "e" and above and name not in self.declared and not below:
                return self.raised(
                    node, self.node("call", node, [self.exponent(above[0], scope)], "exp"), above[1:], scope
                )
            value = self.symbol(name, base, below, scope)
        elif base.kind == "constant" and below:
            value = self.constant(base, _sizes(below[0]), scope)
        elif base.kind == "length":
            value = self.norm(base, below, scope)
        elif base.kind == "square" and below and self.is_comprehension(base, below[0]):
            value = self.comprehension(node, base, below[0], scope)
        else:
            value = self.lower(base, scope)
            if below:
                value = self.entry(node, value, below[0], scope)
        return self.raised(node, value, above, scope)

    _lower_plain = _lower_bare

    def symbol(self, name: str, node: Tree, below: list[Tree], scope: Scope) -> Tree:
        """Return a name, whose subscript is part of it, or an entry of the tensor with this name."""
        if not below:
            return self.named(name, node, scope)
        items = items_of(below[0])
        texts = [name_of_index(item) for item in items]
        whole = name + "_" + "_".join(text or "" for text in texts)
        if None not in texts and whole not in self.declared and whole.replace("_", "") in self.declared:
            whole = whole.replace("_", "")
        if self.index_depth and name not in self.declared and len(texts) == 1 and str(texts[0]).isdigit():
            return self.named(name + str(texts[0]), node, scope)
        if whole in self.parts:
            return leaf("part", whole, node)
        if whole in self.declared and not any(text in scope for text in texts):
            return self.named(whole, node, scope)
        if self.is_entry(name, texts, scope):
            if name == "delta" and len(items) == 2 and name not in self.declared:
                delta = self.node("delta", node, [self.integer(item, scope) for item in items])
                self.scopes[delta] = scope
                return delta
            return self.entry(node, leaf("name", name, node), below[0], scope)
        if None in texts:
            raise below[0].error(f"the subscript of {name} is neither an index nor a part of the name")
        return self.named(whole, node, scope)

    def is_entry(self, name: str, texts: list[str | None], scope: Scope) -> bool:
        """Return whether a subscript selects an entry of ``name`` instead of being a part of the name."""
        if self.declared.get(name) or name in self.indexed:
            return True
        if any(text is None or text in scope for text in texts):
            return True
        free = [text is not None and (text in FREE_INDICES or text in "mnrst") for text in texts]
        if len(texts) > 1:
            return all(f or str(text).isdigit() for f, text in zip(free, texts, strict=True))
        return texts[0] in FREE_INDICES and not name[0].isupper()

    def entry(self, node: Tree, base: Tree, script: Tree, scope: Scope) -> Tree:
        """Return an entry of ``base``."""
        subscripts = [self.integer(item, scope) for item in items_of(script)]
        found = self.node("entry", node, [base, *subscripts])
        if base.kind == "name":
            rank, _ = self.ranks.setdefault(base.text, (len(subscripts), found))
            if rank != len(subscripts):
                raise node.error(f"{short(base.text)} has {len(subscripts)} indices here and {rank} elsewhere")
        self.scopes[found] = scope
        return found

    def raised(self, node: Tree, value: Tree, above: Sequence[Tree], scope: Scope) -> Tree:
        """Return ``value`` with superscripts: a power, a transpose or an inverse."""
        for script in above:
            if script.text == "'" or any(token.type == "TOP" for token in script.tokens) or self.is_letter_t(script):
                if any(token.type == "SIGN" for token in script.tokens):
                    value = self.node("call", node, [value], "inv")
                value = self.node("transpose", node, [value], "'", "'")
            elif any(token.type == "ENTRYWISE" for token in script.tokens):
                value = self.node("power", node, [value, self.lower(script.children[0], scope)], ".^", ".^")
            elif any(token.type == "STAR" for token in script.tokens) or script.text.endswith("*"):
                raise script.error("`^*` is not read: name the value, as in \\hat{x}")
            elif _is_negative_t(script):
                value = self.node("transpose", node, [self.node("call", node, [value], "inv")], "'", "'")
            else:
                value = self.node("power", node, [value, self.exponent(script, scope)], "^", "^")
        return value

    def is_letter_t(self, script: Tree) -> bool:
        """Return whether a superscript is the letter T, for the transpose."""
        items = items_of(script)
        return len(items) == 1 and name_of_index(items[0]) == "T" and "T" not in self.declared

    def exponent(self, script: Tree, scope: Scope) -> Tree:
        """Return the exponent that a superscript contains."""
        items = items_of(script) if not script.children else list(script.children)
        if len(items) != 1:
            raise script.error("an exponent is one expression")
        return self.lower(items[0], scope)

    def norm(self, base: Tree, below: list[Tree], scope: Scope) -> Tree:
        """Return a norm: of Euclid or Frobenius, or the sum of absolute values."""
        kind = name_of_index(items_of(below[0])[0]) if below else "2"
        if kind not in ("2", "F", "1"):
            raise base.error(r"the norms are \|x\|, \|x\|_2, \|A\|_F and \|x\|_1")
        return self.node("call", base, [self.lower(base.children[0], scope)], "norm1" if kind == "1" else "norm2")

    def _lower_length(self, node: Tree, scope: Scope) -> Tree:
        return self.norm(node, [], scope)

    # ------------------------------------------------------------------------ other operands

    def _lower_round(self, node: Tree, scope: Scope) -> Tree:
        if len(node.children) != 1:
            raise node.error("several values in parentheses are arguments of a function")
        return self.lower(node.children[0], scope)

    _lower_braced = _lower_round

    def _lower_square(self, node: Tree, scope: Scope) -> Tree:
        value = self._lower_round(node, scope)
        return self.node("indicator", node, [value]) if value.kind in ("relation", "both", "either") else value

    def _lower_fraction(self, node: Tree, scope: Scope) -> Tree:
        if not node.children:
            digits = [leaf("number", digit, node) for digit in node.text if digit.isdigit()]
            return self.node("fraction", node, digits)
        return self.node("fraction", node, [self.lower(part, scope) for part in node.children])

    def _lower_root(self, node: Tree, scope: Scope) -> Tree:
        *degree, radicand = node.children
        value = self.lower(radicand, scope)
        if degree:
            inverse = self.node("fraction", node, [leaf("number", "1", node), self.lower(degree[0], scope)])
            return self.node("power", node, [value, inverse], ".^", ".^")
        return self.node("call", node, [value], "sqrt")

    def _lower_modulus(self, node: Tree, scope: Scope) -> Tree:
        (part,) = node.children
        is_braced = node.source[part.start] == "{"
        return self.node("modulus", node, [self.lower(part, scope)], "braced" if is_braced else "")

    def _lower_inner(self, node: Tree, scope: Scope) -> Tree:
        return self.node("inner", node, [self.lower(part, scope) for part in node.children])

    def _lower_rounded(self, node: Tree, scope: Scope) -> Tree:
        name = "floor" if "floor" in node.text else "ceiling"
        return self.node("call", node, [self.lower(node.children[0], scope)], name)

    def _lower_cases(self, node: Tree, scope: Scope) -> Tree:
        children = []
        for case in node.children:
            children += [self.lower(part, scope) for part in case.children]
            if len(case.children) == 1 and case is not node.children[-1]:
                raise case.error("the case `otherwise` is the last one")
        return self.node("cases", node, children)

    def _lower_arrow(self, node: Tree, scope: Scope) -> Tree:
        raise node.error("functions written with \\mapsto are not read")

    # ------------------------------------------------------------------------ functions

    def _lower_closed_call(self, node: Tree, scope: Scope) -> Tree:
        place = next(n for n, part in enumerate(node.children) if part.kind in ("round", "square", "braced"))
        before, group, after = node.children[:place], node.children[place], node.children[place + 1 :]
        if is_extremum(node):
            operand = self.node("plain", group, [group, *after])
            return self.binding(node, command_of(node.text), before, operand, scope)
        while group.kind == "braced" and len(group.children) == 1 and _lone_group(group.children[0]) is not None:
            group = _lone_group(group.children[0])  # type: ignore[assignment]
        arguments = [self.lower(part, scope) for part in group.children]
        value = self.call(node, arguments, [part for part in before if part.kind == "subscript"], scope)
        value = self.raised(node, value, [part for part in before if part.kind == "superscript"], scope)
        for part in after:
            if part.kind == "subscript":
                value = self.entry(node, value, part, scope)
        return self.raised(node, value, [part for part in after if part.kind == "superscript"], scope)

    def _lower_open_call(self, node: Tree, scope: Scope) -> Tree:
        *scripts, operand = node.children
        if is_extremum(node):
            return self.binding(node, command_of(node.text), scripts, operand, scope)
        below = [part for part in scripts if part.kind == "subscript"]
        value = self.call(node, [self.lower(operand, scope)], below, scope)
        return self.raised(node, value, [part for part in scripts if part.kind == "superscript"], scope)

    def call(self, node: Tree, arguments: list[Tree], below: list[Tree], scope: Scope) -> Tree:
        """Return a function of the arguments; a subscript of softmax and its relatives is an axis."""
        text = node.text.rstrip("} ")
        name = text.partition("{")[2].strip() or command_of(text)
        name = _FUNCTION_NAMES.get(name, name)
        if below:
            axes = [name_of_index(item) for item in items_of(below[0])]
            if name not in ("softmax", "logsumexp", "mean") or not all(axis and axis.isdecimal() for axis in axes):
                raise below[0].error(f"a subscript of {name} is not read")
            return self.node("along", node, arguments, name, *map(str, axes))
        if name not in FUNCTIONS:
            raise node.error(f"{name} is not a function of formulas: these are {', '.join(sorted(FUNCTIONS))}")
        return self.node("call", node, arguments, name)

    # ------------------------------------------------------------------------ binders

    def _lower_binder(self, node: Tree, scope: Scope) -> Tree:
        *scripts, body = node.children
        name = "sum" if "sum" in node.text else "prod"
        return self.binding(node, name, scripts, body, scope)

    def binding(self, node: Tree, name: str, scripts: Sequence[Tree], body: Tree, scope: Scope) -> Tree:
        """Return a reduction of ``body`` over the indices of the subscript."""
        below = [part for part in scripts if part.kind == "subscript"]
        above = [part for part in scripts if part.kind == "superscript"]
        if len(below) != 1 or len(above) > 1:
            raise node.error(f"\\{name} has one subscript with its index, as in \\{name}_{{i=1}}^{{n}}")
        found, conditions, inner = self.limits(below[0], scope, above[0] if above else None)
        value = self.lower(body, inner)
        for condition in conditions:
            if name not in ("sum", "prod"):
                raise node.error(f"conditions of \\{name} are not read; write its range, as in 0 \\le i < n")
            other = leaf("number", "0" if name == "sum" else "1", node)
            value = self.node("cases", node, [value, self.lower(condition, inner), other])
        ends = [end for binder in found for end in (binder.lower, binder.upper) if end is not None]
        reduction = self.node("reduction", node, [value, *ends], name)
        self.binders[reduction] = found
        return reduction

    def limits(self, script: Tree, scope: Scope, above: Tree | None = None) -> tuple[list[Binder], list[Tree], Scope]:
        """Return the binders of a subscript, the conditions in it, and the scope inside."""
        inner = dict(scope)
        found: list[Binder] = []
        conditions: list[Tree] = []
        for item in items_of(script):
            if item.kind != "relation":
                found.append(self.bind(item, inner))
            elif (binder := self.range_of(item, inner, above)) is not None:
                found.append(binder)
            else:  # such as i < j
                for part in item.children:
                    if (letter := name_of_index(part)) and letter not in inner:
                        found.append(self.bind(part, inner))
                conditions.append(item)
        if above is not None:  # i, j = 1
            for binder in found:
                if binder.upper is None:
                    binder.lower, binder.upper = found[-1].lower, found[-1].upper
        return found, conditions, inner

    def bind(
        self,
        part: Tree,
        scope: dict[str, Binder],
        lower: Tree | None = None,
        upper: Tree | None = None,
        is_open: bool = False,
    ) -> Binder:
        """Add the index ``part`` to ``scope`` and return its binder; raise `ParseError` if it is not a letter."""
        letter = name_of_index(part)
        if letter is None or letter.isdigit() or letter in self.declared:
            raise part.error(f"{part.shown} is not an index: an index is a letter that is not declared")
        scope[letter] = Binder(letter, part, lower, upper, is_open)
        return scope[letter]

    def range_of(self, item: Tree, scope: dict[str, Binder], above: Tree | None) -> Binder | None:
        """Return the binder of ``i = 1``, ``0 <= i < n`` or ``i < n``; None if ``item`` is a condition."""
        signs = [_RELATIONS.get(token.strip("& \\"), "") for token in item.tokens]
        if "" in signs:
            raise item.error("sets of indices are not read: write a range, as in \\sum_{i=1}^{n}")
        left, *others = item.children
        if signs == ["=="]:
            if above is None:
                raise item.error("the upper limit is missing, as in \\sum_{i=1}^{n}")
            ends = self.size(others[0], scope), self.size(items_of(above)[0], scope)
            return self.bind(left, scope, *ends)
        if len(signs) == 2 and set(signs) <= {"<", "<="}:
            lower, upper = self.size(left, scope), self.size(others[1], scope)
            lower = self.successor(lower) if signs[0] == "<" else lower
            return self.bind(others[0], scope, lower, upper, signs[1] == "<")
        if signs in (["<"], ["<="]) and above is None and name_of_index(others[0]) not in self.indices:
            return self.bind(left, scope, None, self.size(others[0], scope), signs[0] == "<")
        return None

    def successor(self, value: Tree) -> Tree:
        """Return ``value`` + 1."""
        return self.node("sum", value, [value, leaf("number", "1", value)], "+", "+")

    def is_comprehension(self, base: Tree, script: Tree) -> bool:
        """Return whether brackets with indices define a tensor, instead of being an entry of the value inside."""
        items = items_of(script)
        if any(item.kind == "relation" for item in items):
            return True
        letters = {name_of_index(item) for item in items}
        inside = {letter for part in bottom_up(base) if part.kind == "subscript" for letter in letters_in(part)}
        return bool(letters & inside)

    def comprehension(self, node: Tree, base: Tree, script: Tree, scope: Scope) -> Tree:
        """Return the tensor of the values in brackets for all values of the indices."""
        found, _, inner = self.limits(script, scope)
        value = self.lower(base.children[0], inner)
        ends = [binder.upper for binder in found if binder.upper is not None]
        result = self.node("comprehension", node, [value, *ends])
        self.binders[result] = found
        return result


def _as_nodes(node: Tree) -> list[Tree]:
    """Return the operators of a chain as nodes."""
    return [
        Tree("operator", str(token), (), (), token.start_pos or 0, token.end_pos or 0, token.start_pos or 0, 1)
        for token in node.tokens
    ]


def _sizes(script: Tree) -> list[Tree]:
    """Return the sizes in a subscript such as n × m."""
    items = items_of(script)
    if len(items) == 1 and items[0].kind == "chain" and items[0].tokens:
        return list(items[0].children)
    return items


def _lone_group(node: Tree) -> Tree | None:
    """Return the parenthesis that ``node`` consists of, or None."""
    if node.kind == "chain" and len(node.children) == 1 and node.children[0].kind == "plain":
        (part,) = node.children
        return part.children[0] if len(part.children) == 1 else None
    return None


def _label(script: Tree) -> str:
    """Return the label in a superscript such as ``(1)``, or ""."""
    if len(script.children) == 1 and (group := _lone_group(script.children[0])) is not None:
        inside = group.children[0] if len(group.children) == 1 else None
        name = name_of_index(inside) if inside is not None and group.kind == "round" else None
        return name or ""
    return ""


def _is_negative_t(script: Tree) -> bool:
    """Return whether a superscript is ``-T``."""
    if len(script.children) != 1 or script.children[0].kind != "signed" or script.children[0].text != "-":
        return False
    return name_of_index(script.children[0].children[0]) == "T"


def _is_differential(node: Tree) -> bool:
    """Return whether ``node`` is a roman d, which is printed before the name of a part."""
    return (
        node.kind == "bare"
        and len(node.children) == 1
        and node.children[0].kind == "font"
        and command_of(node.children[0].text) == "mathrm"
        and name_of(node.children[0]) == "d"
    )


def _is_indicator(item: Tree, following: Tree) -> bool:
    """Return whether ``item`` is a bold 1 before a condition in parentheses."""
    if item.children[0].kind != "constant" or len(item.children) > 1 or following.kind != "plain":
        return False
    group = following.children[0]
    return len(following.children) == 1 and group.children[0].kind in ("relation", "both", "either")


def _is_parenthesis(node: Tree) -> bool:
    """Return whether ``node`` is in round or square parentheses."""
    return node.kind == "plain" and node.children[0].kind in ("round", "square")


def _indexed_names(root: Tree, letters: set[str]) -> set[str]:
    """Return the names that are written with a bound index as subscript."""
    found: set[str] = set()
    for node in bottom_up(root):
        if node.kind != "bare" or node.children[0].kind not in ("letter", "command", "font"):
            continue
        for script in node.of_kind("subscript"):
            if letters & {*letters_in(script)} and (name := _try_name(node.children[0])):
                found.add(name)
    return found


def _try_name(node: Tree) -> Any:
    return name_of(node)
