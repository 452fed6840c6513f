"""The declared names of a text in index notation: tensors with their shapes, sizes and integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sympy_tensordiff.parsing.frontend import Tree, bottom_up, check_declarations, check_not_keyword, names_hint, short
from sympy_tensordiff.parsing.numbers import errors_at
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol


class DeclaredNames:
    """The names that one text declares: tensors, sizes and integers.

    `tensors` has the declared tensors in order, without the one that is defined; `declared_shape` is the shape of that
    one if it is declared, too, else None. `sizes` has the symbols in the shapes, and the declared integers.
    """

    def __init__(self, declarations: list[Tree], defined: Tree) -> None:
        self.tensors: dict[str, TensorSymbol] = {}
        self.declared_shape: tuple[Any, ...] | None = None
        self.declarations = declarations
        self.defined = defined.text
        check_declarations(declarations)
        check_not_keyword(defined)
        self.sizes = {node.text: indices(node.text) for node in declarations if is_integer(node) and not has_axes(node)}
        names = {node.text for node in declarations}
        for node in declarations:
            self._collect_sizes(names, node)

    def declare(self, extent: Callable[[Tree], Any]) -> None:
        """Create the declared tensors; ``extent`` converts the node of an extent to its value."""
        for node in self.declarations:
            axes = tuple(map(extent, node.children))
            if node.text == self.defined:
                self.declared_shape = axes
            elif node.text not in self.sizes:
                self.tensors[node.text] = _tensor(node, axes)

    def argument(self, node: Tree) -> TensorSymbol:
        """Return the tensor named by the derivative clause ``node`` (``d/dx``); raise `ParseError` if it is not a
        declared real tensor.
        """
        tensor, name = self.tensors.get(node.text), short(node.text)
        if tensor is None and node.text == self.defined:
            raise node.error(f"{name} is what is defined; {names_hint(self.tensors)}")
        if tensor is None:
            raise node.error(f"wrt takes a declared tensor, and {name} is not one; {names_hint(self.tensors)}")
        if tensor.dtype is int:
            raise node.error(f"{name} is a tensor of integers, which has no derivative")
        return tensor

    def check_index(self, node: Tree) -> None:
        """Raise `ParseError` if the index ``node`` has the name of a tensor, a size or a keyword."""
        check_not_keyword(node)
        if node.text in self.tensors or node.text in self.sizes:
            what = "a tensor" if node.text in self.tensors else "a size"
            raise node.error(f"{short(node.text)} is {what}, so no index has this name; take another")

    def extent_of(self, index: Tree, body: Tree) -> Any:
        """Return the extent of the axes that ``index`` runs over in ``body``, where it is written alone, as ``i`` in
        ``x[i]``.

        Raise `ParseError` if there is no such axis, or if two have different extents.
        """
        name = short(index.text)
        found: dict[Any, str] = {}
        for node in bottom_up(body):
            tensor = self.tensors.get(node.children[0].text) if node.kind == "entry" else None
            if tensor is None or node.children[0].kind != "name":
                continue
            for axis, (at, extent) in enumerate(zip(node.children[1:], tensor.shape, strict=False)):
                if at.kind == "name" and at.text == index.text:
                    found.setdefault(extent, f"{tensor.name} (axis {axis})")
        if len(found) == 1:
            return next(iter(found))
        what = " and ".join(f"{name} runs to {extent} along {where}" for extent, where in [*found.items()][:2])
        raise index.error(
            f"{what or f'no axis tells how far {name} runs'}; write its range, as in ({name}, 0, n - 1) in a sum, or "
            "declare the shape of the result"
        )

    def _collect_sizes(self, names: set[str], declaration: Tree) -> None:
        """Record the names in the shape of ``declaration`` as sizes; raise `ParseError` if one is the name of a
        tensor.
        """
        for node in bottom_up(declaration):
            if node.kind == "name" and node.text not in self.sizes:
                if node.text in names:
                    raise node.error(
                        f"{short(node.text)} is a tensor, but is used in a shape; use another name for the size"
                    )
                check_not_keyword(node)
                self.sizes[node.text] = indices(node.text)


def has_axes(declaration: Tree) -> bool:
    """Return whether a declaration, or the left side of the definition, has brackets, as ``x[n]``."""
    return len(declaration.tokens) > 1 + is_integer(declaration)


def is_integer(declaration: Tree) -> bool:
    """Return whether a declaration begins with ``int``."""
    return declaration.tokens[0].type == "INT"


def _tensor(node: Tree, axes: tuple[Any, ...]) -> TensorSymbol:
    """Return the tensor symbol that the tree ``node`` declares, with the extents ``axes``."""
    with errors_at(node):
        tensor: TensorSymbol = TensorSymbol(node.text, axes, dtype=int if is_integer(node) else float)
        return tensor
