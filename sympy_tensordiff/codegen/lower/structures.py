"""The structure of nodes without their indices: a quick test of whether one array may hold two of them."""

from __future__ import annotations

from typing import Any

from sympy_tensordiff.graph.nodes import RANGED, Node, reachable

_INDEXED = frozenset({"index", "read", "guard", "comprehension", *RANGED})
"""Nodes whose data are index forms, rows or extents."""


class Structures:
    """Numbers of structures, and which of them have arrays.

    Two nodes that are equal after a change of indices have one number. So only for a node whose number is known to have
    an array the change of indices, which rebuilds all that is below the node, is worth finding. Each node of a graph is
    visited once, however many nodes above it are asked for.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._of: dict[Node, int] = {}
        self._stored: set[int] = set()

    def add(self, node: Node) -> None:
        """Remember that an array holds nodes of the structure of ``node``."""
        self._stored.add(self._number(node))

    def __contains__(self, node: Node) -> bool:
        return self._number(node) in self._stored

    def _number(self, node: Node) -> int:
        for part in reachable(node, known=self._of):
            own = None if part.op in _INDEXED else part.data
            # The order of arguments depends on when they were made.
            key = part.op, own, tuple(sorted(self._of[arg] for arg in part.args))
            self._of[part] = self._numbers.setdefault(key, len(self._numbers))
        return self._of[node]
