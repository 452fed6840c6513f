"""What the names of an input stand for: tensors, the sizes in their shapes, what is differentiated by, and ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sympy_tensordiff.parsing.frontend import Tree, bottom_up, check_declared, check_word, cut, known
from sympy_tensordiff.parsing.numbers import about
from sympy_tensordiff.symbolic.indices import indices
from sympy_tensordiff.symbolic.tensors import TensorSymbol


class Names:
    """The names of one input.

    Attributes
    ----------
    tensors : dict
        The declared tensors, in the order of their declarations, without the one that is defined.
    sizes : dict
        The symbols in the shapes, and the declared integers.
    declared_shape : tuple of Expr or None
        The shape of the tensor that is defined, where it is declared too.
    """

    def __init__(self, declarations: list[Tree], defined: Tree) -> None:
        self.tensors: dict[str, TensorSymbol] = {}
        self.declared_shape: tuple[Any, ...] | None = None
        self.declarations = declarations
        self.defined = defined.text
        check_declared(declarations)
        check_word(defined)
        self.sizes = {node.text: indices(node.text) for node in declarations if is_integer(node) and not has_axes(node)}
        names = {node.text for node in declarations}
        for node in declarations:
            self._collect(names, node)

    def declare(self, extent: Callable[[Tree], Any]) -> None:
        """Make the tensors, with the extents of their axes."""
        for node in self.declarations:
            axes = tuple(map(extent, node.parts))
            if node.text == self.defined:
                self.declared_shape = axes
            elif node.text not in self.sizes:
                self.tensors[node.text] = _tensor(node, axes)

    def argument(self, node: Tree) -> TensorSymbol:
        """The tensor that is differentiated by."""
        tensor, name = self.tensors.get(node.text), cut(node.text)
        if tensor is None and node.text == self.defined:
            raise node.error(f"{name} is what is defined; {known(self.tensors)}")
        if tensor is None:
            raise node.error(f"wrt takes a declared tensor, and {name} is none; {known(self.tensors)}")
        if tensor.dtype is int:
            raise node.error(f"nothing is differentiated by {name}, a tensor of integers")
        return tensor

    def check_index(self, node: Tree) -> None:
        """Raise where an index has a name that stands for something else."""
        check_word(node)
        if node.text in self.tensors or node.text in self.sizes:
            what = "a tensor" if node.text in self.tensors else "a size"
            raise node.error(f"{cut(node.text)} is {what}, so no index has this name; take another")

    def range_of(self, index: Tree, body: Tree) -> Any:
        """The extent of all axes in ``body`` at which the name of ``index`` stands alone.

        Raises
        ------
        ParseError
            If there is no such axis, or if two have different extents.
        """
        name = cut(index.text)
        found: dict[Any, str] = {}
        for node in bottom_up(body):
            tensor = self.tensors.get(node.parts[0].text) if node.kind == "entry" else None
            if tensor is None or node.parts[0].kind != "name":
                continue
            for axis, (at, extent) in enumerate(zip(node.parts[1:], tensor.shape, strict=False)):
                if at.kind == "name" and at.text == index.text:
                    found.setdefault(extent, f"{tensor.name} (axis {axis})")
        if len(found) == 1:
            return next(iter(found))
        what = " and ".join(f"{name} runs to {extent} along {where}" for extent, where in [*found.items()][:2])
        raise index.error(
            f"{what or f'no axis tells how far {name} runs'}; write its range, as in ({name}, 0, n - 1) in a sum, or "
            "declare the shape of the result"
        )

    def _collect(self, names: set[str], declaration: Tree) -> None:
        """The sizes in a shape."""
        for node in bottom_up(declaration):
            if node.kind == "name" and node.text not in self.sizes:
                if node.text in names:
                    raise node.error(f"{cut(node.text)} is a tensor and stands in a shape; a size is a name of its own")
                check_word(node)
                self.sizes[node.text] = indices(node.text)


def has_axes(declaration: Tree) -> bool:
    """Whether a declaration, or the left side of the definition, has brackets."""
    return len(declaration.tokens) > 1 + is_integer(declaration)


def is_integer(declaration: Tree) -> bool:
    """Whether what is declared holds integers."""
    return declaration.tokens[0].type == "INT"


def _tensor(node: Tree, axes: tuple[Any, ...]) -> TensorSymbol:
    with about(node):
        tensor: TensorSymbol = TensorSymbol(node.text, axes, dtype=int if is_integer(node) else float)
        return tensor
