"""Base of the lowering of LaTeX: nodes, names and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lark import Token

from sympy_tensordiff.parsing.frontend import Tree, bottom_up
from sympy_tensordiff.parsing.latex.names import (
    LatexBinder,
    bound_letters,
    command_of,
    first_limits,
    leaf,
    letters_in,
    name_of,
)

BoundIndices = Mapping[str, LatexBinder]
"""The indices bound around a node: from the letter of an index to the sum or bracket that binds it."""


class LoweringBase:
    """The base class of the classes that lower LaTeX trees to the tree nodes of all text languages.

    Indices in the text start at `base`, 0 or 1. `binders` has the binders of each reduction and comprehension, from
    left to right; `scopes` the bound indices around each entry; `ranks` the number of indices of each name written with
    indices, with the first such entry; `parts` the values that "where" lines define, in order. `integers` are names of
    sizes and unbound indices, `sizes` those in limits and sizes.
    """

    def __init__(self, root: Tree, declared: Mapping[str, int]) -> None:
        self.declared = declared
        self.binders: dict[Tree, list[LatexBinder]] = {}
        self.scopes: dict[Tree, BoundIndices] = {}
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

    def node(self, kind: str, at: Tree, children: Sequence[Tree], text: str = "", *tokens: str) -> Tree:
        """Return a new tree node of this ``kind`` with ``children``, ``text`` and ``tokens``, at the source position of
        ``at``.
        """
        marks = tuple(Token("STAR", token, start_pos=at.position) for token in tokens)
        return Tree(kind, text, marks, tuple(children), at.start, at.end, at.position, 1, source=at.source)

    def lower(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert ``node``, a LaTeX tree, to a node that all text languages share, by the method for its kind.
        ``bound_indices`` has the indices that the sums and comprehensions around ``node`` bind.
        """
        lowered: Tree = getattr(self, f"_lower_{node.kind}")(node, bound_indices)
        return lowered

    def integer(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert ``node``, an index expression such as ``i + 1``, to a node that all text languages share. Undeclared
        names in it are read as integers.
        """
        self.index_depth += 1
        lowered = self.lower(node, bound_indices)
        self.index_depth -= 1
        return lowered

    def size(self, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Convert a size, or an end of a range. Names in it are integers; names that ``bound_indices`` does not bind
        are recorded as sizes.
        """
        lowered = self.integer(node, bound_indices)
        self.sizes.update(
            part.text for part in bottom_up(lowered) if part.kind == "index" and part.text not in bound_indices
        )
        return lowered

    def offset_of(self, name: str) -> int:
        """Return the number to add to the SymPy symbol of ``name`` to get its value in the text: 1 for an index that
        the text counts from 1, otherwise 0.

        Symbols of indices count from 0, but indices in the text may count from 1.
        """
        return self.base if name in self.indices or name not in self.sizes else 0

    def named(self, name: str, node: Tree, bound_indices: BoundIndices) -> Tree:
        """Return the tree node for an occurrence of ``name`` at ``node``: an index, a part that a line after "where"
        defines, the unit matrix ``I``, or else a tensor or scalar.
        """
        if name == "lamda" and "lambda" in self.declared:
            name = "lambda"
        if name in self.parts:
            return leaf("part", name, node)
        if name in bound_indices and name not in self.declared:
            return leaf("index", name, node)
        if self.index_depth and name not in self.declared:
            self.integers.add(name)
            return leaf("index", name, node)
        if name == "I" and name not in self.declared and name not in self.indexed:
            return leaf("name", "eye", node)
        if name in ("nabla", "partial", "infty"):
            raise node.error(f"`\\{name}` is not read inside of a formula")
        return leaf("name", name, node)

    def constant(self, node: Tree, sizes: list[Tree], bound_indices: BoundIndices) -> Tree:
        """Return the node of a constant tensor in a formula: zeros, ones or the unit tensor, as the symbol in `node`
        says. ``sizes`` are its extents; without them, its size is inferred later.
        """
        digit = node.text.rstrip("} ")[-1]
        if not sizes:
            if digit == "I":
                return leaf("name", "eye", node)
            return self.node("call", node, [leaf("number", digit, node)], "vector")
        return self.node("filled", node, [self.size(size, bound_indices) for size in sizes], digit)


def _indexed_names(root: Tree, letters: set[str]) -> set[str]:
    """Return the names in the tree ``root`` with a subscript that contains one of ``letters``, the bound indices: these
    names are tensors.
    """
    found: set[str] = set()
    for node in bottom_up(root):
        if node.kind != "bare" or node.children[0].kind not in ("letter", "command", "font"):
            continue
        for script in node.of_kind("subscript"):
            if letters & {*letters_in(script)} and (name := name_of(node.children[0])):
                found.add(name)
    return found
