"""What the names of an input stand for: tensors, the sizes in their shapes, and what is differentiated by."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable
from typing import Any

from sympy_tensordiff.errors import ParseError, TensorDiffError
from sympy_tensordiff.parsing.indexed.syntax import Input, Item, Part
from sympy_tensordiff.parsing.tree import cut
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

    def __init__(self, parsed: Input, source: str, shape: Callable[[Names, Part], Any]) -> None:
        self.source = source
        self.tensors: dict[str, TensorSymbol] = {}
        self.sizes: dict[str, Any] = {}
        self.declared_shape: tuple[Any, ...] | None = None
        self.defined = parsed.left.name
        names = [item.name for item in parsed.declarations]
        for place, item in enumerate(parsed.declarations):
            if item.name in names[:place]:
                raise ParseError(f"{cut(item.name)} is declared twice; leave one of the two away", source, item.place)
            self._check(item.name, item.place)
        for item in parsed.declarations:
            if item.is_integer and item.axes is None:
                self.sizes[item.name] = indices(item.name)
        for item in parsed.declarations:
            self._collect(names, item.axes or ())
        for item in parsed.declarations:
            axes = tuple(shape(self, part) for part in item.axes or ())
            if item.name == parsed.left.name:
                self.declared_shape = axes
            elif item.name not in self.sizes:
                self.tensors[item.name] = self._tensor(item, axes)
        self._check(parsed.left.name, parsed.left.place)

    def argument(self, name: str, place: int) -> TensorSymbol:
        """The tensor that is differentiated by."""
        tensor = self.tensors.get(name)
        if tensor is None and name == self.defined:
            raise ParseError(f"{cut(name)} is what is defined; {self.known()}", self.source, place)
        if tensor is None:
            raise ParseError(
                f"wrt takes a declared tensor, and {cut(name)} is none; {self.known()}", self.source, place
            )
        if tensor.dtype is int:
            raise ParseError(f"nothing is differentiated by {cut(name)}, a tensor of integers", self.source, place)
        return tensor

    def known(self) -> str:
        """The declared names, in words."""
        names = list(self.tensors)
        if not names:
            return "there is none: write its shape behind `declare`"
        return f"take a declared name: {', '.join(map(cut, names[:10]))}{', …' if len(names) > 10 else ''}"

    def check_index(self, name: str, place: int) -> None:
        """Raise where an index has a name that stands for something else."""
        self._check(name, place)
        if name in self.tensors or name in self.sizes:
            what = "a tensor" if name in self.tensors else "a size"
            raise ParseError(f"{cut(name)} is {what}, so no index has this name; take another", self.source, place)

    def _tensor(self, item: Item, axes: tuple[Any, ...]) -> TensorSymbol:
        try:
            tensor: TensorSymbol = TensorSymbol(item.name, axes, dtype=int if item.is_integer else float)
            return tensor
        except TensorDiffError as error:
            raise ParseError(str(error), self.source, item.place) from None

    def _collect(self, names: Iterable[str], parts: Iterable[Part]) -> None:
        """The sizes in shapes."""
        waiting = list(parts)
        while waiting:
            part = waiting.pop(0)
            waiting = [*part.parts, *waiting]
            if part.kind == "name" and part.text not in self.sizes:
                if part.text in names:
                    raise ParseError(
                        f"{cut(part.text)} is a tensor and stands in a shape; a size is a name of its own",
                        self.source,
                        part.place,
                    )
                self._check(part.text, part.place)
                self.sizes[part.text] = indices(part.text)

    def _check(self, name: str, place: int) -> None:
        if keyword.iskeyword(name):  # functions are names as well: what is called has parentheses behind it
            raise ParseError(f"{name} is a keyword of Python; take another name, e.g. {name}1", self.source, place)
