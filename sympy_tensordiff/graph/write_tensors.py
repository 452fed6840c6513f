"""Whole tensors into SymPy: products as a reader writes them, with deltas and ones as operands.

A view of a product is written as one product. Operands stand in an order that does not depend on how
the expression came about, so that equal results are equal texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from sympy_tensordiff.graph.contractions import is_core, is_view
from sympy_tensordiff.graph.interning import Number, Recursion, in_turn
from sympy_tensordiff.graph.nodes import Node
from sympy_tensordiff.graph.write_forms import Forms, Scope
from sympy_tensordiff.symbolic.depth import measures
from sympy_tensordiff.symbolic.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.elementwise import TensorAdd, TensorFunction, TensorMul, TensorPow, placeholders
from sympy_tensordiff.symbolic.matrix_functions import (
    TensorAdjugate,
    TensorCofactor,
    TensorDeterminant,
    TensorInverse,
    TensorLogSumExp,
)
from sympy_tensordiff.symbolic.subscripts import FROM_I, LETTERS, axis_labels

Labelled = tuple[Any, tuple[Any, ...]]
"""An operand in SymPy's terms and its labels."""


def operands_of(node: Node) -> list[tuple[Node, tuple[int, ...]]]:
    """The operands of an einsum and their labels; for a view of a core those of the core."""
    operands = list(zip(node.args, node.data.inputs, strict=True))
    if not (is_view(node) and node.args and is_core(node.args[0])):
        return operands
    (core, labels) = operands[0]
    outer = dict(zip(core.data.output, labels, strict=True))
    # A diagonal that is taken of a core, i.e. a repeated label here, joins labels there.
    new = len(node.data.extents)
    for label in range(len(core.data.extents)):
        if label not in outer:
            outer[label] = new
            new += 1
    return [
        (arg, tuple(outer[label] for label in inputs)) for arg, inputs in zip(core.args, core.data.inputs, strict=True)
    ]


def along_paths(
    operands: Sequence[tuple[Node, tuple[int, ...]]], output: Sequence[int], known: Mapping[Node, bool]
) -> list[Labelled]:
    """Return the operands, with the labels of symmetric matrices in the order of a path through the product.

    ``known`` says which matrices are symmetric. A path starts at the first axis of the result, or at an end.
    """
    if not any(len(labels) == 2 and known.get(arg) for arg, labels in operands):
        return list(operands)
    place: dict[int, int] = {}
    for label in (*output[:1], *(label for _, labels in operands for label in labels)):
        if label not in place:
            path = _reached(operands, label)
            path = path if label in output[:1] else _reached(operands, path[-1])
            place.update((label, len(place) + n) for n, label in enumerate(path))
    return [
        (arg, labels[::-1] if len(labels) == 2 and known.get(arg) and place[labels[0]] > place[labels[1]] else labels)
        for arg, labels in operands
    ]


def _reached(operands: Sequence[tuple[Node, tuple[int, ...]]], start: int) -> list[int]:
    """Return the labels that operands connect with one, in the order of their distance from it."""
    found = {start: None}
    queue = [start]
    for label in queue:
        for _, labels in operands:
            queue += [other for other in dict.fromkeys(labels) if label in labels and other not in found]
            found.update(dict.fromkeys(labels if label in labels else ()))
    return queue


def write_einsum(node: Node, operands: Sequence[Labelled], extents: Sequence[Any], names: Mapping[int, str]) -> Any:
    """An einsum of operands that are written already.

    ``extents`` are those of the labels of the output, ``names`` are letters that labels should have.
    """
    scalars = [expr for expr, labels in operands if not labels]
    tensors = sorted(((expr, labels) for expr, labels in operands if labels), key=_order)
    factor = sympy.Mul(number(node.data.coefficient), *scalars)
    if not tensors and (len(set(node.data.output)) == len(node.data.output) or factor == 0):
        return FilledTensor(factor, [extents[label] for label in node.data.output])
    output, deltas = _without_repetition(node.data.output, extents)
    tensors += deltas
    used = {label for _, labels in tensors for label in labels}
    missing = [label for label in dict.fromkeys(output) if label not in used]
    if missing:
        tensors.append((FilledTensor(sympy.S.One, [extents[label] for label in missing]), tuple(missing)))
    if all(labels == output for _, labels in tensors):
        return scaled(factor, [expr for expr, _ in tensors])
    if len(tensors) == 1 and isinstance(tensors[0][0], DeltaTensor) and tensors[0][1] == output:
        return scaled(factor, [tensors[0][0]])
    subscripts = _subscripts([labels for _, labels in tensors], output, names)
    return scaled(factor, [EinsumProduct(subscripts, *(expr for expr, _ in tensors))])


def scaled(factor: Any, tensors: Sequence[Any]) -> Any:
    """The element-wise product of tensors of one shape, or of a scalar, with a number or a scalar in front."""
    if not getattr(tensors[0], "shape", ()):
        return sympy.Mul(factor, *tensors)
    factors = list(tensors) if factor == 1 else [factor, *tensors]
    return factors[0] if len(factors) == 1 else TensorMul(*factors)


def _order(operand: Labelled) -> tuple[Any, ...]:
    """Variables by name, then the others: any order that is the same in every process."""
    expr = operand[0]
    return (0, expr.name, "") if expr.is_symbol else (1, "", measures(expr).digest.hex())


def _without_repetition(output: tuple[int, ...], extents: Sequence[Any]) -> tuple[tuple[int, ...], list[Labelled]]:
    """Output labels that differ, and the deltas that make them equal; a new label is a negative number."""
    new: list[int] = []
    pairs: list[tuple[int, int]] = []
    for place, label in enumerate(output):
        if label in output[:place]:
            pairs.append((label, -1 - place))
            new.append(-1 - place)
        else:
            new.append(label)
    result = tuple(new)
    rank = len(output)
    if pairs and 2 * len(pairs) == rank and output[: rank // 2] == output[rank // 2 :]:
        delta = DeltaTensor([extents[label] for label in output[: rank // 2]])
        return result, [(delta, result)]
    return result, [(DeltaTensor([extents[label]]), (label, other)) for label, other in pairs]


def _subscripts(inputs: Sequence[tuple[int, ...]], output: tuple[int, ...], names: Mapping[int, str]) -> str:
    letters: dict[int, str] = {}
    order = dict.fromkeys((*output, *(label for labels in inputs for label in labels)))
    for label in order:
        if (name := names.get(label, "")) in LETTERS and len(name) == 1 and name not in letters.values():
            letters[label] = name
    free = (letter for letter in FROM_I if letter not in letters.values())
    letters |= {label: next(free) for label in order if label not in letters}

    def text(labels: Sequence[int]) -> str:
        return "".join(letters[label] for label in labels)

    return ",".join(map(text, inputs)) + "->" + text(output)


def number(value: Number) -> Any:
    """A number in SymPy's terms."""
    if isinstance(value, float):
        return sympy.Float(value)
    return sympy.Rational(value.numerator, value.denominator)


class TensorWriter(Forms, ABC):
    """The part of the writer that knows whole tensors."""

    @abstractmethod
    def visit(self, node: Node, scope: Scope) -> Recursion[Any]:
        """The expression of a node."""

    @abstractmethod
    def plain(self, node: Node, args: list[Any], scope: Scope) -> Any:
        """A node without scopes over written arguments."""

    def whole(self, node: Node, scope: Scope) -> Recursion[Any]:
        """A tensor, or a scalar that is made of such."""
        if node.op == "ein":
            return (yield self._einsum(node, scope))
        if node.op in ("call", "select", "compare", "and", "or", "not"):
            return (yield self._applied(node, scope))
        args = yield from in_turn(self.visit(arg, scope) for arg in node.args)
        match node.op:
            case "add":
                return TensorAdd(*args)
            case "pow":
                return TensorPow(*args)
            case "inv":
                return TensorInverse(*args)
            case "lse":
                return TensorLogSumExp(args[0], node.data)
        return _cofactor(node.data, args[0])

    def _einsum(self, node: Node, scope: Scope) -> Recursion[Any]:
        operands: list[Labelled] = []
        parts = operands_of(node)
        core = node.args[0] if is_view(node) and node.args else node
        names: dict[int, str] = {}
        if is_core(core) and core.id in self.reader.graph.hints:
            inputs = zip(parts, core.data.inputs, strict=True)
            pairs = (pair for (_, labels), own in inputs for pair in zip(labels, own, strict=True))
            names = {label: self.reader.graph.hints[core.id][own] for label, own in pairs}
        for arg, labels in along_paths(parts, node.data.output, self.reader.graph.symmetric):
            if arg.op == "cof" and arg.data == 1:
                matrix = yield self.visit(arg.args[0], scope)
                operands.append((TensorAdjugate(matrix), (*labels[:-2], labels[-1], labels[-2])))
            else:
                operands.append(((yield self.visit(arg, scope)), tuple(labels)))
        extents = [self.form(extent, scope) for extent in node.data.extents]
        return write_einsum(node, operands, extents, names)

    def _applied(self, node: Node, scope: Scope) -> Recursion[Any]:
        """Functions and choices of entries as one template, over the tensors and scalars that they are taken of."""
        leaves: dict[Node, Any] = {}
        template = yield (self._call if node.op == "call" else self._choice)(node, leaves, scope)
        operands = yield from in_turn(self.visit(leaf, scope) for leaf in leaves)
        return TensorFunction(sympy.Lambda(tuple(leaves.values()), template), *operands)

    def _call(self, node: Node, leaves: dict[Node, Any], scope: Scope) -> Recursion[Any]:
        args = yield from in_turn(self._leaf(arg, leaves, scope) for arg in node.args)
        return self.plain(node, args, scope)

    def _choice(self, node: Node, leaves: dict[Node, Any], scope: Scope) -> Recursion[Any]:
        """A choice between values, or a condition."""
        if node.op not in ("select", "compare", "and", "or", "not"):
            leaf: Any = yield self._leaf(node, leaves, scope)
            return leaf
        pairs = []
        while node.op == "select":
            condition = yield self._choice(node.args[0], leaves, scope)
            pairs.append(((yield self._choice(node.args[1], leaves, scope)), condition))
            node = node.args[2]
        if pairs:
            pairs.append(((yield self._choice(node, leaves, scope)), sympy.true))
            return sympy.Piecewise(*pairs, evaluate=False)
        args = yield from in_turn(self._choice(arg, leaves, scope) for arg in node.args)
        return self.plain(node, args, scope)

    def _leaf(self, node: Node, leaves: dict[Node, Any], scope: Scope) -> Recursion[Any]:
        """A number as it is, everything else by a symbol of the template."""
        if node.op == "const":
            return self.plain(node, [], scope)
        yield from ()
        return leaves.setdefault(node, placeholders(len(leaves) + 1)[-1])


def _cofactor(order: int, matrix: Any) -> Any:
    if order == 0:
        return TensorDeterminant(matrix)
    if order == 1:
        *batch, row, column = list(axis_labels(matrix.shape))
        return EinsumProduct(f"{''.join(batch)}{row}{column}->{''.join(batch)}{column}{row}", TensorAdjugate(matrix))
    return TensorCofactor(order, matrix)
