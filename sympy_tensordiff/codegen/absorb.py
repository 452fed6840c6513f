"""Which products are part of the einsums that use them, so that these can choose the order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from math import prod
from typing import Any

from sympy_tensordiff.codegen.calls import sums_labels
from sympy_tensordiff.codegen.hints import Hints
from sympy_tensordiff.codegen.paths import contraction_path, operation_count
from sympy_tensordiff.graph.contractions import is_core
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.integer.affine import Affine

Labelled = tuple[Node, tuple[int, ...]]
Extents = dict[Any, Affine]

_USERS = 4
_OPERANDS = 10


class Products:
    """The products of some nodes: ``absorbed`` are those that the einsums that use them multiply out.

    They are used once; or, used by einsums only, multiplying them out in each is less work.
    """

    def __init__(self, parts: Sequence[Node], roots: Sequence[Node], hints: Hints) -> None:
        self.hints = hints
        self.uses = Counter(roots)
        self.users: dict[Node, list[Node]] = {}
        for part in parts:
            self.uses.update(part.args)
            for arg in part.args:
                self.users.setdefault(arg, []).append(part)
        kept = set(roots)
        inner = [part for part in parts if is_core(part) and part not in kept and all(map(is_core, self.users[part]))]
        self.absorbed = {part for part in inner if self.uses[part] == 1}
        for part in reversed(inner):
            if 1 < self.uses[part] <= _USERS and sums_labels(part) and self.is_less_work_apart(part):
                self.absorbed.add(part)

    def is_less_work_apart(self, node: Node) -> bool:
        """Whether the einsums that use a product do better without it."""
        groups: dict[Node, None] = {}
        stack = list(self.users[node])
        while stack and len(groups) <= _USERS:
            user = stack.pop()
            if user in self.absorbed:
                stack += self.users[user]
            else:
                groups[user] = None
        own = self.work(node)
        with_it = [self.work(group) for group in groups]
        self.absorbed.add(node)
        without = [self.work(group) for group in groups]
        self.absorbed.remove(node)
        if own is None or None in with_it or None in without:
            return False
        return sum(work or 0 for work in without) < own + sum(work or 0 for work in with_it)

    def work(self, node: Node) -> int | None:
        """About how many multiplications an einsum takes; None for one of many operands."""
        output = tuple(range(len(node.shape)))
        operands, extents = self.gathered(node, output, {}, _OPERANDS)
        if len(operands) > _OPERANDS:
            return None
        held = Counter(label for _, labels in operands for label in set(labels))
        held.update(output)
        inputs = [frozenset(label for label in labels if held[label] > 1) for _, labels in operands]
        sizes = {label: self.hints(extent) for label, extent in extents.items()}
        path = contraction_path(inputs, frozenset(output), sizes)
        return operation_count(inputs, frozenset(output), sizes, path)

    def gathered(
        self, node: Node, output: tuple[int, ...], done: Mapping[Node, Node], most: int | None = None
    ) -> tuple[list[Labelled], Extents]:
        """The operands of an einsum and of those that it absorbs, under common labels, and the extents of these.

        ``done`` are the nodes that operands have become; what has more than ``most`` operands is left unfinished.
        """
        numbers = count(len(output))
        extents = dict(zip(output, node.shape, strict=True))
        operands: list[Labelled] = []
        stack = [(node, output)]
        while stack and (most is None or len(operands) <= most):
            part, labels = stack.pop()
            if part is not node and part not in self.absorbed:
                part = done.get(part, part)
                if not is_outer(part):
                    operands.append((part, labels))
                    continue
            known = dict(zip(part.data.output, labels, strict=True))
            for label, extent in enumerate(part.data.extents):
                if label not in known:
                    known[label] = next(numbers)
                    extents[known[label]] = extent
            inner = [tuple([known[label] for label in labels]) for labels in part.data.inputs]
            stack += reversed(list(zip(part.args, inner, strict=True)))
        return operands, extents

    def volume(self, labels: Sequence[int], extents: Extents) -> int:
        """The number of entries over different labels."""
        return prod([self.hints(extents[label]) for label in set(labels)])


def is_outer(node: Node) -> bool:
    """Whether a node is a product of operands that all have fewer axes, and sums nothing."""
    return is_core(node) and not sums_labels(node) and all(len(arg.shape) < len(node.shape) for arg in node.args)
