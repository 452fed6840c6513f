"""Keys of nodes that do not depend on the order in which an expression was written.

Operands of sums and products enter in the order of their keys. The axes of a product stand in the
order of its operands, so they are told apart by what they read, not by their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeAlias

from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node

Key: TypeAlias = tuple[str, tuple[str, ...]]
"""Of a node, and of each of its axes."""

COMMUTATIVE = frozenset({"add", "mul", "and", "or"})
INDEXED = BINDERS | {"tensor", "guard", "read", "index"}


class Keys:
    """Digests: equal for equal nodes, in any graph; that they differ for different ones is likely only."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[Node, Key] = {}

    def of(self, node: Node) -> Key:
        """The keys of a node and of its axes."""
        stack = [node]
        while stack:
            missing = [arg for arg in stack[-1].args if arg not in self._known]
            if missing:
                stack += missing
            else:
                top = stack.pop()
                self._known[top] = self._key(top, [self._known[arg] for arg in top.args])
        return self._known[node]

    def _key(self, node: Node, args: Sequence[Key]) -> Key:
        if node.op == "ein":
            return _contraction(node, args)
        if node.op in INDEXED:
            key = _digest(node.op, self._indexed(node), *(digest for digest, _ in args))
            return key, tuple(_digest(key, str(axis)) for axis in range(len(node.shape)))
        data = getattr(node.data, "__name__", repr(node.data))
        if node.op in ("inv", "cof", "lse"):
            (key, axes), key_of = args[0], _digest(node.op, data, args[0][0])
            if node.op == "lse":
                reduced = sorted(axis for n, axis in enumerate(axes) if n in node.data)
                rest = [axis for n, axis in enumerate(axes) if n not in node.data]
                return _digest(node.op, key, *reduced), tuple(_digest(node.op, axis) for axis in rest)
            batch, own = axes[:-2], axes[-2:]
            own = own[::-1] if node.op == "inv" else own * node.data
            ends = tuple(_digest(node.op, str(n // 2), axis) for n, axis in enumerate(own))
            return key_of, (*(_digest(node.op, axis) for axis in batch), *ends)
        order = sorted if node.op in COMMUTATIVE else list
        read = [[axes[n] for _, axes in args if axes] for n in range(len(node.shape))]
        colours = tuple(_digest(node.op, data, *order(axes)) for axes in read)
        return _digest(node.op, data, *order(key for key, _ in args), *sorted(colours)), colours

    def _indexed(self, node: Node) -> str:
        """The data of a node of index notation; with free indices by their names only."""
        names = sorted(self.graph.names[v] for v in node.free if v >= 0)
        return repr(names) if names else repr(node.data)


def _contraction(node: Node, args: Sequence[Key]) -> Key:
    coefficient, inputs, output, extents = node.data
    if is_view(node) and inputs and sorted(inputs[0]) == sorted(output):
        (key, axes), place = args[0], inputs[0].index
        return (_digest("ein", repr(coefficient), key) if coefficient != 1 else key), tuple(
            axes[place(n)] for n in output
        )
    colours = [f"{output.count(label)}" for label in range(len(extents))]
    for _ in range(3):
        reads = [_read(key, [colours[label] for label in labels]) for key, labels in zip(args, inputs, strict=True)]
        seen: list[list[str]] = [[] for _ in extents]
        for read, (_, axes), labels in zip(reads, args, inputs, strict=True):
            for axis, label in zip(axes, labels, strict=True):
                seen[label].append(_digest(read, axis))
        colours = [_digest(colour, *sorted(own)) for colour, own in zip(colours, seen, strict=True)]
    key = _digest("ein", repr(coefficient), *sorted(reads), *sorted(colours))
    return key, tuple(_digest(key, colours[label]) for label in output)


def _read(key: Key, labels: Sequence[str]) -> str:
    """An operand under labels."""
    return _digest(key[0], *sorted(_digest(axis, label) for axis, label in zip(key[1], labels, strict=True)))


def _digest(*parts: str) -> str:
    return blake2b(" ".join(parts).encode(), digest_size=12).hexdigest()
