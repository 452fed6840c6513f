"""Lowering of operands with scripts: entries, powers, transposes and names."""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.parsing.frontend import Tree, short
from sympy_tensordiff.parsing.latex.binders import BinderLowering
from sympy_tensordiff.parsing.latex.lower_base import BoundIndices
from sympy_tensordiff.parsing.latex.names import (
    FREE_INDICES,
    items_of,
    leaf,
    name_of,
    name_of_index,
)


class OperandLowering(BinderLowering):
    """Converts operands with subscripts and superscripts: names, entries, powers, transposes and norms."""

    def _lower_bare(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a LaTeX operand with its subscripts and superscripts, such as ``A_{i j}^2``, to the node of an entry,
        a power, a transpose and so on.
        """
        base, *scripts = node.children
        if base.kind == "braced" and len(base.children) == 1 and name_of(base.children[0]) is not None:
            base = leaf("letter", str(name_of(base.children[0])), base)  # {x}_{i}
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
                    node,
                    self.node("call", node, [self.exponent(above[0], bound_indices)], "exp"),
                    above[1:],
                    bound_indices,
                )
            value = self.symbol(name, base, below, bound_indices)
        elif base.kind == "constant" and below:
            value = self.constant(base, _sizes(below[0]), bound_indices)
        elif base.kind == "length":
            value = self.norm(base, below, bound_indices)
        elif base.kind == "square" and below and self.is_comprehension(base, below[0]):
            value = self.comprehension(node, base, below[0], bound_indices)
        else:
            value = self.lower(base, bound_indices)
            if below:
                value = self.entry(node, value, below[0], bound_indices)
        return self.raised(node, value, above, bound_indices)

    _lower_plain = _lower_bare

    def symbol(self, name: str, node: Tree, below: list[Tree], bound_indices: BoundIndices) -> Tree:
        """Return the node for ``name`` with the subscripts ``below``, as in ``x_i``: an entry of the tensor ``x``, or a
        name that contains its subscript, such as ``x_0``.
        """
        if not below:
            return self.named(name, node, bound_indices)
        items = items_of(below[0])
        texts = [name_of_index(item) for item in items]
        whole = name + "_" + "_".join(text or "" for text in texts)
        if None not in texts and whole not in self.declared and whole.replace("_", "") in self.declared:
            whole = whole.replace("_", "")
        if self.index_depth and name not in self.declared and len(texts) == 1 and str(texts[0]).isdigit():
            return self.named(name + str(texts[0]), node, bound_indices)
        if whole in self.parts:
            return leaf("part", whole, node)
        if whole in self.declared and not any(text in bound_indices for text in texts):
            return self.named(whole, node, bound_indices)
        if self.is_entry(name, texts, bound_indices):
            if name == "delta" and len(items) == 2 and name not in self.declared:
                delta = self.node("delta", node, [self.integer(item, bound_indices) for item in items])
                self.scopes[delta] = bound_indices
                return delta
            return self.entry(node, leaf("name", name, node), below[0], bound_indices)
        if None in texts:
            raise below[0].error(f"the subscript of {name} is neither an index nor a part of the name")
        return self.named(whole, node, bound_indices)

    def is_entry(self, name: str, texts: list[str | None], bound_indices: BoundIndices) -> bool:
        """Return whether the subscripts ``texts`` select an entry of ``name``, and are not part of the name, as in
        ``x_{max}``.
        """
        if self.declared.get(name) or name in self.indexed:
            return True
        if any(text is None or text in bound_indices for text in texts):
            return True
        free = [text is not None and (text in FREE_INDICES or text in "mnrst") for text in texts]
        if len(texts) > 1:
            return all(f or str(text).isdigit() for f, text in zip(free, texts, strict=True))
        return texts[0] in FREE_INDICES and not name[0].isupper()

    def entry(self, node: Tree, base: Tree, script: Tree, bound_indices: BoundIndices) -> Tree:
        """Return the node for the entry of ``base`` at the indices in the subscript ``script``."""
        subscripts = [self.integer(item, bound_indices) for item in items_of(script)]
        found = self.node("entry", node, [base, *subscripts])
        if base.kind == "name":
            rank, _ = self.ranks.setdefault(base.text, (len(subscripts), found))
            if rank != len(subscripts):
                raise node.error(f"{short(base.text)} has {len(subscripts)} indices here and {rank} elsewhere")
        self.scopes[found] = bound_indices
        return found

    def raised(self, node: Tree, value: Tree, above: Sequence[Tree], bound_indices: BoundIndices) -> Tree:
        """Return the node of ``value`` with the superscripts ``above`` applied in turn: each is a power, a transpose or
        an inverse.
        """
        for script in above:
            if script.text == "'" or any(token.type == "TOP" for token in script.tokens) or self.is_letter_t(script):
                if any(token.type == "SIGN" for token in script.tokens):
                    value = self.node("call", node, [value], "inv")
                value = self.node("transpose", node, [value], "'", "'")
            elif any(token.type == "ENTRYWISE" for token in script.tokens):
                value = self.node("power", node, [value, self.lower(script.children[0], bound_indices)], ".^", ".^")
            elif any(token.type == "STAR" for token in script.tokens) or script.text.endswith("*"):
                raise script.error("`^*` is not read: name the value, as in \\hat{x}")
            elif _is_negative_t(script):
                value = self.node("transpose", node, [self.node("call", node, [value], "inv")], "'", "'")
            else:
                value = self.node("power", node, [value, self.exponent(script, bound_indices)], "^", "^")
        return value

    def is_letter_t(self, script: Tree) -> bool:
        """Return whether a superscript is the letter T, for the transpose."""
        items = items_of(script)
        return len(items) == 1 and name_of_index(items[0]) == "T" and "T" not in self.declared

    def exponent(self, script: Tree, bound_indices: BoundIndices) -> Tree:
        """Return the node of the exponent that the superscript ``script`` contains."""
        items = items_of(script) if not script.children else list(script.children)
        if len(items) != 1:
            raise script.error("an exponent is one expression")
        return self.lower(items[0], bound_indices)

    def norm(self, base: Tree, below: list[Tree], bound_indices: BoundIndices) -> Tree:
        """Return the node of a norm of ``base``: the Euclidean or Frobenius norm, or the sum of absolute values if the
        subscript, in ``below``, is 1.
        """
        kind = name_of_index(items_of(below[0])[0]) if below else "2"
        if kind not in ("2", "F", "1"):
            raise base.error(r"the norms are \|x\|, \|x\|_2, \|A\|_F and \|x\|_1")
        return self.node(
            "call", base, [self.lower(base.children[0], bound_indices)], "norm1" if kind == "1" else "norm2"
        )

    def _lower_length(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        r"""Convert a norm ``\|x\|`` without a subscript, which is the 2-norm."""
        return self.norm(node, [], bound_indices)


def _sizes(script: Tree) -> list[Tree]:
    r"""Return the sizes in the subscript ``script``, such as ``n \times m``."""
    items = items_of(script)
    if len(items) == 1 and items[0].kind == "chain" and items[0].tokens:
        return list(items[0].children)
    return items


def lone_group(node: Tree) -> Tree | None:
    """Return the part in parentheses if ``node`` consists of nothing else, as ``(1)``; None otherwise."""
    if node.kind == "chain" and len(node.children) == 1 and node.children[0].kind == "plain":
        (part,) = node.children
        return part.children[0] if len(part.children) == 1 else None
    return None


def _label(script: Tree) -> str:
    """Return the label in a superscript: ``1`` for ``(1)``, the superscript of ``W^{(1)}``. Return "" if it is not a
    name or number in parentheses.
    """
    if len(script.children) == 1 and (group := lone_group(script.children[0])) is not None:
        inside = group.children[0] if len(group.children) == 1 else None
        name = name_of_index(inside) if inside is not None and group.kind == "round" else None
        return name or ""
    return ""


def _is_negative_t(script: Tree) -> bool:
    """Return whether the superscript ``script`` is ``-T``."""
    if len(script.children) != 1 or script.children[0].kind != "signed" or script.children[0].text != "-":
        return False
    return name_of_index(script.children[0].children[0]) == "T"
