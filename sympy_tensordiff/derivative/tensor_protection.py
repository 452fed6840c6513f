"""Derivatives of whole tensors stay where the function is chosen, as those of scalars do (`derivative.protection`).

The cotangent of a product in a branch is a product with a choice in it, ``select(c, C, 0)[i] A[i, j]``.
Another factor, which may be a number in that branch only, goes to where the choice is made:
``select(c, C B, 0)[i] A[i, j]``. The branches so get the axes of the factor, too. A choice that is summed over
is looked for where there is no other: the sum may be any factor, and the node is needed where one summand is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sympy_tensordiff.derivative.protection import LIMIT, within
from sympy_tensordiff.graph.interning import Number
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.graph.patterns import Label, Labels, Operand
from sympy_tensordiff.integer.affine import Affine

Extents = dict[Label, Affine]


def protected_product(
    graph: Graph, cotangent: Operand, factors: Sequence[Operand], output: Labels, extents: Extents
) -> Node:
    """The product of a cotangent and factors as `Graph.ein` gives it, protected by the choices in the cotangent.

    Parameters
    ----------
    graph : Graph
    cotangent : (Node, labels)
    factors : sequence of (Node, labels)
        What is multiplied where the node that they come from is needed.
    output : sequence of labels
    extents : mapping
        The extents of the labels of the output.
    """
    partial = [factor for factor in factors if not factor[0].total]
    sums = next((sums for sums in (False, True) if is_chosen(graph, cotangent[0], sums)), None) if partial else None
    if sums is None:
        return graph.ein(1, [cotangent, *factors], output, extents)
    total = [factor for factor in factors if factor[0].total]
    inner = _kept([cotangent, *partial], [((), output), *total])
    return _product(graph, 1, [(_within(graph, cotangent, partial, inner, sums), inner), *total], output, extents)


def is_chosen(graph: Graph, node: Node, sums: bool) -> bool:
    """Whether a tensor is 0 unless conditions choose otherwise, as far as few steps show; in ``sums``, too."""
    return _is_chosen(graph, node, sums, [LIMIT])


def _is_chosen(graph: Graph, node: Node, sums: bool, room: list[int]) -> bool:
    room[0] -= 1
    if room[0] < 0:
        return False
    if node.op == "select":
        sides = node.args[1:]
        return any(graph.is_zero(side) for side in sides) or any(_is_chosen(graph, side, sums, room) for side in sides)
    if node.op == "ein":
        kept = [arg for arg, labels in zip(node.args, node.data.inputs, strict=True) if sums or _is_kept(node, labels)]
        return any(_is_chosen(graph, arg, sums, room) for arg in kept)
    if node.op in ("mul", "comprehension") or (node.op == "sum" and sums):
        return any(_is_chosen(graph, arg, sums, room) for arg in node.args)
    if node.op == "add":
        return all(_is_chosen(graph, term, sums, room) for term in node.args)
    return node.op == "guard"


def _is_kept(node: Node, labels: Labels) -> bool:
    """Whether an einsum sums over none of the labels of an operand."""
    return set(labels).issubset(node.data.output)


def _within(graph: Graph, operand: Operand, factors: Sequence[Operand], output: Labels, sums: bool) -> Node:
    """A tensor times factors, which stand beside what it chooses."""
    node, labels = operand
    if is_chosen(graph, node, sums):
        match node.op:
            case "select":
                return _choice(graph, node, labels, factors, output, sums)
            case "ein" | "mul":
                return _beside(graph, node, labels, factors, output, sums)
            case "comprehension":
                return _table(graph, node, labels, factors, output)
            case "add":
                terms = [(graph.broadcast(term, node.shape), labels) for term in node.args]
                return graph.add([_within(graph, term, factors, output, sums) for term in terms])
    return _product(graph, 1, [operand, *factors], output, _extents([operand, *factors]))


def _choice(graph: Graph, node: Node, labels: Labels, factors: Sequence[Operand], output: Labels, sums: bool) -> Node:
    extents = _extents([(node, labels), *factors])
    axes = list(extents)
    condition, *sides = (graph.broadcast(arg, node.shape) for arg in node.args)
    zero = graph.filled(0, list(extents.values()))
    inner = [zero if graph.is_zero(side) else _within(graph, (side, labels), factors, axes, sums) for side in sides]
    chosen = graph.select(_product(graph, 1, [(condition, labels)], axes, extents), *inner)
    return _product(graph, 1, [(graph.broadcast(chosen, zero.shape), axes)], output, extents)


def _beside(graph: Graph, node: Node, labels: Labels, factors: Sequence[Operand], output: Labels, sums: bool) -> Node:
    """A product in which the factors go to the operand that chooses."""
    coefficient: Number = 1
    parts: list[Operand] = [(arg, ()) for arg in node.args]
    if node.op == "ein":
        coefficient, inputs, own, _ = node.data
        names: dict[int, Label] = {}
        parts = []
        for inner, label, extent in zip(own, labels, node.shape, strict=True):
            if names.setdefault(inner, label) != label:
                parts.append((graph.delta((extent,)), (names[inner], label)))
        parts += [
            (arg, tuple([names.get(label, (node.id, len(factors), label)) for label in read]))
            for arg, read in zip(node.args, inputs, strict=True)
        ]
    around = labels if not sums else [label for _, own in parts for label in own]
    choices = [n for n, (part, own) in enumerate(parts) if set(own).issubset(around) and is_chosen(graph, part, sums)]
    # The axes of what is differentiated may have choices of their own.
    needed = {label for _, own in factors for label in own}
    place = max(choices, key=lambda n: len(needed.intersection(parts[n][1])))
    rest = [*parts[:place], *parts[place + 1 :]]
    inside = _kept([parts[place], *factors], [((), output), *rest])
    extents = _extents([(node, labels), *parts, *factors])
    chosen = _within(graph, parts[place], factors, inside, sums)
    return _product(graph, coefficient, [(chosen, inside), *rest], output, extents)


def _table(graph: Graph, node: Node, labels: Labels, factors: Sequence[Operand], output: Labels) -> Node:
    """A tensor given entry by entry, in which entries of the factors go to where the choice is made."""
    variables, _, body = graph.open(node)
    extents = _extents([(node, labels), *factors])
    index = {label: graph.fresh(f"i{n}") for n, label in enumerate(extents)}
    forms = {label: Affine.variable(v) for label, v in index.items()}
    entry = graph.substitute(body, {v: forms[label] for v, label in zip(variables, labels, strict=True)})
    reads = [graph.read(factor, [forms[label] for label in own]) for factor, own in factors]
    chosen = graph.comprehension(list(index.values()), list(extents.values()), within(graph, entry, reads))
    return _product(graph, 1, [(chosen, tuple(extents))], output, extents)


def _product(graph: Graph, coefficient: Number, parts: Sequence[Operand], output: Labels, extents: Extents) -> Node:
    """A product; of scalars alone an ordinary one."""
    if not output and not any(labels for _, labels in parts):
        return graph.mul((graph.const(coefficient), *(node for node, _ in parts)))
    return graph.ein(coefficient, parts, output, extents)


def _kept(parts: Iterable[Operand], around: Iterable[tuple[object, Labels]]) -> list[Label]:
    """The labels of ``parts`` that something around them has, too."""
    needed = {label for _, labels in around for label in labels}
    return list(dict.fromkeys(label for _, labels in parts for label in labels if label in needed))


def _extents(parts: Iterable[Operand]) -> Extents:
    return {label: extent for node, labels in parts for label, extent in zip(labels, node.shape, strict=True)}
