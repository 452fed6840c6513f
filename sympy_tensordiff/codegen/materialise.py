"""Which whole tensors become arrays, and which are computed entry by entry where they are used.

Arrays are the results, what a library takes and gives, and sums over axes, each of which is
computed once. What is between them is fused into the loops that use it, unless

- two arrays use it, or every entry of an array uses each of its entries again (it is repeated
  along an axis), and it is more than a few operations;
- it has grown large: compilers take more than linear time for a loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from sympy_tensordiff.codegen.calls import array_operands, sums_labels
from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Node, reachable

LARGE = 60
"""A value of more than this becomes an array."""

CHEAP = 4
"""A value of no more than this is computed again wherever it is used."""

_FUNCTION = 20
_LIGHT = frozenset({sympy.Abs, sympy.sign, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling, sympy.Heaviside})
CONDITIONS = frozenset({"compare", "and", "or", "not"})


def arrays_of(roots: Sequence[Node]) -> set[Node]:
    """The nodes that become arrays; variable tensors, which are arrays already, are not among them."""
    parts = reachable(*roots)
    work = _Materialising(parts)
    work.arrays.update(roots)
    for part in reversed(parts):
        work.visit(part)
    return {node for node in work.arrays if node.op != "tensor"}


class _Materialising:
    def __init__(self, parts: Sequence[Node]) -> None:
        self.arrays: set[Node] = set()
        self.users: dict[Node, Node | None] = {}
        """The one array whose loop a node stands in; None where there are several."""
        self.costs: dict[Node, int] = {}
        for part in parts:
            cost = self.cost(part)
            if cost > LARGE and part.shape and part.op not in CONDITIONS and all(v >= 0 for v in part.free):
                self.arrays.add(part)
                cost = 1
            self.costs[part] = cost

    def cost(self, node: Node) -> int:
        """About how many operations one entry takes."""
        if node.op in ("const", "scalar", "index"):
            return 0
        if node.op in ("tensor", "comprehension") or array_operands(node) is not None or sums_labels(node):
            return 1
        if node.op in RANGED:
            return LARGE
        return _own_cost(node) + sum(self.costs[arg] for arg in node.args)

    def visit(self, node: Node) -> None:
        """Decide about the arguments of a node, all users of which have been visited."""
        if node not in self.arrays and node not in self.users:
            return  # an inverse that is only solved with
        user = node if node in self.arrays or node.op == "comprehension" else self.users[node]
        operands = array_operands(node)
        if operands is not None:
            self.arrays.update(operands)
            self.arrays.add(node)
        elif node.op == "ein":
            if sums_labels(node):
                self.arrays.add(node)
                user = node
            for arg, labels in zip(node.args, node.data.inputs, strict=True):
                self.use(arg, node, user, len(set(labels)) < len(node.data.extents))
        else:
            for arg in node.args:
                self.use(arg, node, user, _repeats(node, arg))

    def use(self, node: Node, by: Node, user: Node | None, repeated: bool) -> None:
        """A node is an argument in the loop of the array ``user``, ``repeated`` for several of its entries."""
        if node in self.arrays:
            return
        apart = repeated or user is None or self.users.get(node, user) is not user
        # What index notation computes behind a condition reads nothing where that fails.
        always = bool(node.shape) or (by.shape and by.op != "select") or by.op == "ein"
        closed = all(v >= 0 for v in node.free)
        if apart and always and closed and node.op not in CONDITIONS and self.costs[node] > CHEAP:
            self.arrays.add(node)
        else:
            self.users[node] = None if apart else user


def _own_cost(node: Node) -> int:
    if node.op == "call":
        return 2 if node.data in _LIGHT else _FUNCTION
    if node.op == "pow":
        exponent = node.args[1]
        small = exponent.op == "const" and isinstance(exponent.data, int) and abs(exponent.data) <= 4
        return 4 if small else _FUNCTION
    return max(1, len(node.args) - 1)


def is_dear(node: Node) -> bool:
    """Whether a node calls a function that takes many operations."""
    return node.op == "call" and node.data not in _LIGHT


def _repeats(node: Node, arg: Node) -> bool:
    """Whether one entry of an argument serves several of a node."""
    if node.op in BINDERS:
        return all(v >= 0 for v in arg.free)
    if node.op == "read":
        return any(v < 0 for v in node.free)
    return arg.shape != node.shape or (any(v < 0 for v in node.free) and all(v >= 0 for v in arg.free))
