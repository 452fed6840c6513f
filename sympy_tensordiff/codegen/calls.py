"""Which nodes of whole tensors become calls of a library on whole arrays."""

from __future__ import annotations

import sympy

from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.nodes import Graph, Node

STORED = frozenset({"tensor", "comprehension", "inv", "cof", "lse"})
"""What is an array before anything is computed with it, besides sums of products."""


def sums_labels(node: Node) -> bool:
    """Whether a node is an einsum with a label that is summed."""
    return is_core(node) and not set(range(len(node.data.extents))).issubset(node.data.output)


def is_computed(node: Node) -> bool:
    """Whether a loop computes a tensor that is no array of its own yet."""
    return node.op not in STORED and not sums_labels(node)


def is_product(node: Node) -> bool:
    """Whether a node is a sum of products that a library for matrices computes.

    An operand has to have an axis of its own. The inner product of two arrays is one, too; that of
    values that are still to be computed runs in the loop that computes them.
    """
    if not sums_labels(node) or len(node.args) != 2:
        return False
    left, right = (set(labels) for labels in node.data.inputs)
    if left != right:
        return bool((left & right) - set(node.data.output))
    return not node.data.output and all(arg.op in STORED or sums_labels(arg) for arg in node.args)


def solved_place(node: Node) -> int | None:
    """Which operand of a product is an inverse that need not be computed: equations are solved instead.

    One of its last two axes is summed over; the other one is an axis of the product that the other operand
    does not have. Those in front are axes of all three.
    """
    if is_product(node):
        for place, (arg, labels) in enumerate(zip(node.args, node.data.inputs, strict=True)):
            batch, theirs = set(labels[:-2]), set(node.data.inputs[1 - place])
            free = set(labels[-2:]) - theirs
            if arg.op == "inv" and len(free) == 1 and free.issubset(node.data.output):
                summed = set(labels[-2:]) - free
                is_one = len(summed) == 1 and summed.isdisjoint(node.data.output) and not summed & batch
                if is_one and len(batch) == len(labels) - 2 and batch.issubset(theirs.intersection(node.data.output)):
                    return place
    return None


def direction_place(node: Node) -> int | None:
    """Which operand is the direction, a matrix, in which a node is the derivative of the cofactors of another one."""
    if is_core(node) and len(node.args) == 2:
        for place, labels in enumerate(node.data.inputs):
            tensor, axes = node.args[1 - place], node.data.inputs[1 - place]
            if (
                tensor.op == "cof"
                and tensor.data == 2
                and len(set(axes)) == len(axes) == 4
                and len(set(labels)) == len(labels) == 2
            ):
                for pair, rest in ((axes[:2], axes[2:]), (axes[2:], axes[:2])):
                    if set(pair) == set(labels) and set(rest) == set(node.data.output):
                        return place
    return None


def determinant(node: Node) -> tuple[str, Node] | None:
    """The name of the function, and its matrix, where a node is the logarithm of a determinant."""
    if node.op == "call" and node.data is sympy.log:
        inner, function = node.args[0], "logdet"
        if inner.op == "call" and inner.data is sympy.Abs:
            inner, function = inner.args[0], "logabsdet"
        if inner.op == "cof" and inner.data == 0:
            return function, inner.args[0]
    return None


def factorized(node: Node) -> Node | None:
    """The matrix of which a library call needs triangular factors; None for a node that is no such call."""
    if node.op == "inv" or (node.op == "cof" and node.data == 0):
        return node.args[0]
    if (found := determinant(node)) is not None:
        return found[1]
    place = solved_place(node) if direction_place(node) is None else None
    return None if place is None else node.args[place].args[0]


def is_positive(graph: Graph, matrix: Node) -> bool:
    """Whether a matrix is positive definite by what is declared: a sum, a multiple, an inverse, a unit matrix."""
    stack = [matrix]
    while stack:
        node = stack.pop()
        if node.op in ("inv", "add") and node.shape:
            stack += node.args
        elif is_view(node) and node.data.coefficient > 0 and (node.args or len(set(node.data.output)) == 1):
            if (node.args and node.args[0].shape != node.shape) or len(node.data.extents) != len(node.shape) - (
                not node.args
            ):
                return False
            stack += node.args
        elif node not in graph.positive:
            return False
    return True


def array_operands(node: Node) -> tuple[Node, ...] | None:
    """The nodes whose arrays a library call takes; None for a node that is no such call."""
    if node.op in ("inv", "cof", "lse"):
        return node.args
    if (found := determinant(node)) is not None:
        return (found[1],)
    if is_product(node):
        place = solved_place(node)
        if (direction := direction_place(node)) is not None:
            place = 1 - direction
        return tuple([arg.args[0] if n == place else arg for n, arg in enumerate(node.args)])
    return None
