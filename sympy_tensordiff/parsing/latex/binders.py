"""Lowering of sums over indices and of tensors by their entries."""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.parsing.frontend import Tree, bottom_up
from sympy_tensordiff.parsing.latex.lower_base import BoundIndices, LoweringBase
from sympy_tensordiff.parsing.latex.names import (
    LatexBinder,
    items_of,
    leaf,
    letters_in,
    name_of_index,
)

RELATIONS = {
    **{"=": "==", "<": "<", ">": ">", "le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=", "geq": ">="},
    **{"geqslant": ">=", "ne": "!=", "neq": "!=", "lt": "<", "gt": ">"},
}


class BinderLowering(LoweringBase):
    """Converts sums, products, extrema and comprehensions of LaTeX trees to the tree nodes that all text languages
    share.
    """

    def _lower_binder(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Convert ``\sum`` or ``\prod`` with its subscript to a reduction node."""
        *scripts, body = node.children
        name = "sum" if "sum" in node.text else "prod"
        return self.binding(node, name, scripts, body, bound_indices)

    def binding(self, node: Tree, name: str, scripts: Sequence[Tree], body: Tree, bound_indices: BoundIndices) -> Tree:
        """Return the tree of a reduction of ``body``, where ``name`` is its kind, such as "sum". ``scripts`` are the
        subscript and superscript of the operator, which give the indices and their ranges; ``bound_indices`` are bound
        outside.

        Errors refer to the position of ``node``.
        """
        below = [part for part in scripts if part.kind == "subscript"]
        above = [part for part in scripts if part.kind == "superscript"]
        if len(below) != 1 or len(above) > 1:
            raise node.error(f"\\{name} has one subscript with its index, as in \\{name}_{{i=1}}^{{n}}")
        found, conditions, inner = self.limits(below[0], bound_indices, above[0] if above else None)
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

    def limits(
        self, script: Tree, bound_indices: BoundIndices, above: Tree | None = None
    ) -> tuple[list[LatexBinder], list[Tree], BoundIndices]:
        r"""Return ``(binders, conditions, inner bound indices)`` of the subscript ``script`` of a sum, such as
        ``i=1, i \neq j``. ``above`` is the upper limit, ``bound_indices`` the indices bound outside.
        """
        inner = dict(bound_indices)
        found: list[LatexBinder] = []
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
        bound_indices: dict[str, LatexBinder],
        lower: Tree | None = None,
        upper: Tree | None = None,
        is_open: bool = False,
    ) -> LatexBinder:
        """Declare the letter ``part`` as an index with the first value ``lower`` and the last value ``upper``, and
        return its `LatexBinder`, which is added to ``bound_indices``. Raise `ParseError` if it is not a letter, or is a
        declared name.

        A value that is not stated is None; ``upper`` is excluded if ``is_open``.
        """
        letter = name_of_index(part)
        if letter is None or letter.isdigit() or letter in self.declared:
            raise part.error(f"{part.shown} is not an index: an index is a letter that is not declared")
        bound_indices[letter] = LatexBinder(letter, part, lower, upper, is_open)
        return bound_indices[letter]

    def range_of(self, item: Tree, bound_indices: dict[str, LatexBinder], above: Tree | None) -> LatexBinder | None:
        """Return the index that the relation ``item`` declares, with its range: ``i = 1`` (up to the upper limit
        ``above``), ``0 <= i < n`` or ``i < n``. None if ``item`` is only a condition, such as ``i < j``.
        """
        signs = [RELATIONS.get(token.strip("& \\"), "") for token in item.tokens]
        if "" in signs:
            raise item.error("sets of indices are not read: write a range, as in \\sum_{i=1}^{n}")
        left, *others = item.children
        if signs == ["=="]:
            if above is None:
                raise item.error("the upper limit is missing, as in \\sum_{i=1}^{n}")
            ends = self.size(others[0], bound_indices), self.size(items_of(above)[0], bound_indices)
            return self.bind(left, bound_indices, *ends)
        if len(signs) == 2 and set(signs) <= {"<", "<="}:
            lower, upper = self.size(left, bound_indices), self.size(others[1], bound_indices)
            lower = self.successor(lower) if signs[0] == "<" else lower
            return self.bind(others[0], bound_indices, lower, upper, signs[1] == "<")
        if signs in (["<"], ["<="]) and above is None and name_of_index(others[0]) not in self.indices:
            return self.bind(left, bound_indices, None, self.size(others[0], bound_indices), signs[0] == "<")
        return None

    def successor(self, value: Tree) -> Tree:
        """Return the tree of ``value + 1``."""
        return self.node("sum", value, [value, leaf("number", "1", value)], "+", "+")

    def is_comprehension(self, base: Tree, script: Tree) -> bool:
        """Return whether ``base`` in brackets with the subscript ``script``, as ``[x_i]_i``, defines a tensor.

        Otherwise it is an entry of the tensor in brackets: the subscript has no relation, and its letters do not occur
        in subscripts inside.
        """
        items = items_of(script)
        if any(item.kind == "relation" for item in items):
            return True
        letters = {name_of_index(item) for item in items}
        inside = {letter for part in bottom_up(base) if part.kind == "subscript" for letter in letters_in(part)}
        return bool(letters & inside)

    def comprehension(self, node: Tree, base: Tree, script: Tree, bound_indices: BoundIndices) -> Tree:
        """Return the node of ``[x_i y_j]_{i j}``: the tensor of the values in the brackets ``base`` for all values of
        the indices in the subscript ``script``.
        """
        found, _, inner = self.limits(script, bound_indices)
        value = self.lower(base.children[0], inner)
        ends = [binder.upper for binder in found if binder.upper is not None]
        result = self.node("comprehension", node, [value, *ends])
        self.binders[result] = found
        return result
