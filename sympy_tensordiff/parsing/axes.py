"""The axes of every subexpression, those of one length unified (thesis, 3.2.4), and a size for each length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from sympy_tensordiff.parsing.front import Tree
from sympy_tensordiff.parsing.language import OF_MATRICES
from sympy_tensordiff.parsing.letters import Letters
from sympy_tensordiff.symbolic.indices import indices

NAMES = "nmlpqrstuv"
"""What sizes are called, in this order."""
Axes = tuple[int, ...]


class Unified:
    """Axes as numbers, in classes of equal length."""

    def __init__(self) -> None:
        self.parents: list[int] = []

    def new(self, number: int) -> Axes:
        """Axes of their own."""
        first = len(self.parents)
        self.parents += range(first, first + number)
        return tuple(range(first, first + number))

    def root(self, axis: int) -> int:
        """The number of the class of an axis."""
        while self.parents[axis] != axis:
            self.parents[axis] = self.parents[self.parents[axis]]
            axis = self.parents[axis]
        return axis

    def unify(self, first: int, second: int) -> None:
        """Make two axes equally long; the older class gives its number."""
        low, high = sorted((self.root(first), self.root(second)))
        self.parents[high] = low


class Sizes:
    """The axes of all nodes of a tree, and their lengths."""

    def __init__(self, declared: dict[str, int], letters: dict[Tree, Letters]) -> None:
        self.unified = Unified()
        self.letters = letters
        self.tensors = {name: self.unified.new(order) for name, order in declared.items()}
        self.axes: dict[Tree, Axes] = {}
        self.by_letter: dict[Tree, dict[str, int]] = {}

    def of(self, nodes: Iterable[Tree], orders: dict[Tree, int]) -> Sizes:
        """One pass over a tree, the parts of each node first, then names for the lengths."""
        for node in nodes:
            self.axes[node] = self.node(node, orders)
        self.names = self.named()
        return self

    def shape(self, axes: Iterable[int]) -> tuple[Any, ...]:
        """The lengths of some axes."""
        return tuple(self.names[self.unified.root(axis)] for axis in axes)

    def node(self, node: Tree, orders: dict[Tree, int]) -> Axes:
        """The axes of a node from those of its parts."""
        match node.kind:
            case "number":
                return ()
            case "name":
                return self.tensors[node.text]
            case "delta":
                return 2 * self.unified.new(orders[node] // 2)
            case "function" if node.text in OF_MATRICES:
                return self.matrix(node)
            case "function" | "negative" | "power":
                return self.axes[node.parts[0]]
            case "product" | "relabelled":
                return self.product(node)
            case _:
                left, right = (self.axes[part] for part in node.parts)
                if left and right:
                    self.equal(left, right)
                return left or right

    def equal(self, first: Sequence[int], second: Sequence[int]) -> None:
        """Make the axes of two tensors equally long, one by one."""
        for left, right in zip(first, second, strict=True):
            self.unified.unify(left, right)

    def matrix(self, node: Tree) -> Axes:
        """The matrix is square."""
        (operand,) = node.parts
        if not self.axes[operand]:  # a number
            self.axes[operand] = self.unified.new(2)
        rows, columns = self.axes[operand]
        self.unified.unify(rows, columns)
        return () if node.text == "det" else (rows, columns)

    def product(self, node: Tree) -> Axes:
        """Axes under one letter are equally long; a letter that no axis has means a new one."""
        found = self.letters[node]
        axes: dict[str, int] = {}
        for operand, group in zip(node.parts, found.inputs, strict=True):
            for letter, axis in zip(group, self.axes[operand], strict=False):
                self.unified.unify(axes.setdefault(letter, axis), axis)
        for letter in "".join(found.inputs):
            if letter not in axes:
                (axes[letter],) = self.unified.new(1)
        self.by_letter[node] = axes
        return tuple(axes[letter] for letter in found.output)

    def named(self) -> dict[int, Any]:
        """A size for each class: those of declared tensors first, as these have the lowest numbers."""
        classes = sorted({self.unified.root(axis) for axis in range(len(self.unified.parents))})
        return {axis: indices(name) for axis, name in zip(classes, self.free_names(), strict=False)}

    def free_names(self) -> Iterator[str]:
        """Names that no tensor has."""
        numbered = (f"n{number}" for number in count(1))
        for names in (NAMES, numbered):
            yield from (name for name in names if name not in self.tensors)
