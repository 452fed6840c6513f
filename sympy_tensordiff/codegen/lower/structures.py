"""Structure of nodes without their indices: a cheap necessary test whether one array may store both of two nodes."""

from __future__ import annotations

from typing import Any

from sympy_tensordiff.graph.nodes import RANGED, Node, reachable

_INDEXED = frozenset({"index", "read", "guard", "comprehension", *RANGED})
"""Nodes whose data are index forms, rows or extents."""


class Structures:
    """Numbers the structures of nodes: nodes that are equal up to indices and the order of arguments, such as
    ``x[i]**2`` and ``x[j + 1]**2``, have the same number. So one can test quickly whether any array may store the
    values of a node.

    Two nodes that are equal after a change of indices have one number. So only for a node whose number is known to have
    an array the change of indices, which rebuilds all that is below the node, is worth finding. Each node of a graph is
    visited once, however many nodes above it are asked for.
    """

    def __init__(self, has_numbers: bool = True) -> None:
        self.has_numbers = has_numbers
        """False: nodes that differ in the numbers in front of their parts have one structure."""
        self._numbers: dict[Any, int] = {}
        self._of: dict[Node, int] = {}
        self.stored: set[int] = set()

    def add(self, node: Node) -> None:
        """Record that an array stores ``node``: add the number of its structure to ``self.stored``. Nodes that are
        equal up to indices have the same number.
        """
        self.stored.add(self.number(node))

    def __contains__(self, node: Node) -> bool:
        return self.number(node) in self.stored

    def number(self, node: Node) -> int:
        """Return a number that identifies the structure of ``node``. Two nodes have the same number if they are equal
        up to indices and the order of arguments and, unless ``has_numbers``, up to numeric factors.
        """
        for part in reachable(node, known=self._of):
            own = None if part.op in _INDEXED else part.data
            # The order of arguments depends on when they were made.
            args = part.args
            if part.op == "mul" and not self.has_numbers:
                args = tuple([arg for arg in args if arg.op != "const"])
            key = part.op, own, tuple(sorted(self._of[arg] for arg in args))
            is_multiple = part.op == "mul" and len(args) == 1
            self._of[part] = self._of[args[0]] if is_multiple else self._numbers.setdefault(key, len(self._numbers))
        return self._of[node]
