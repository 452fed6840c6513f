"""The annihilating product: an exact 0 in a cotangent stays 0, whatever slope it is multiplied by.

The cotangent of ``log(x[i])`` in ``Piecewise((log(x[i]), x[i] > 0), (0, True))`` is 0 where the condition does not
hold, but floating point numbers say ``0 * 1/x[i] = nan`` at ``x[i] = 0``. Products lift a choice between something and
0 over such factors (`Graph.mul`), and guards over all. A node that is used under several conditions has an addition,
or a sum, of such choices as its cotangent. A pullback is linear in the cotangent, so it is applied in each of them.
That costs operations, and is not done for a node that the function evaluates unconditionally: where that is a
number, so is its slope.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy

from sympy_tensordiff.graph.einsums import scalar_of, tensor_of
from sympy_tensordiff.graph.interning import is_total
from sympy_tensordiff.graph.nodes import Graph, Node, ranges, reachable
from sympy_tensordiff.graph.patterns import Label, Labels, Operand
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.data import data_entries
from sympy_tensordiff.simplify.choices import is_chosen


def unconditional(root: Node) -> set[Node]:
    """The nodes evaluated under no condition on values or data; those on indices travel with cotangents."""
    found = {root}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.op == "guard" and data_entries(row.form for row in node.data):
            continue
        new = [arg for arg in node.args[: 1 if node.op == "select" else None] if arg not in found]
        found.update(new)
        stack += new
    return found


def may_be_infinite(nodes: Sequence[Node]) -> bool:
    """Whether a quotient, or a function that is not finite everywhere, differs from entry to entry.

    Overflow does not count, nor the slope of a root at 0, which is chosen to be 0.
    """
    parts = reachable(*nodes)
    tested = {arg for part in parts if part.op == "compare" and part.data == "ne" for arg in part.args}
    varying: set[Node] = set()
    for part in parts:
        if part.op == "tensor" or not varying.isdisjoint(part.args):
            varying.add(part)
            if part.args and part.args[0] not in tested and _may_be_infinite(part):
                return True
    return False


def _may_be_infinite(node: Node) -> bool:
    """The same of one node."""
    base = node.args[0] if node.op == "pow" else node
    is_exponential = base.op == "call" and base.data is sympy.exp
    return node.op in ("pow", "call") and not is_exponential and not is_total(node.op, node.data, node.args)


def applied(graph: Graph, cotangent: Node, rule: Callable[[Node], Node], *, certain: bool) -> Node:
    """A rule that is linear in the cotangent, applied to what the cotangent chooses.

    Parameters
    ----------
    graph : Graph
    cotangent : Node
    rule : callable
    certain : bool
        Whether what the rule multiplies by is a number wherever the function is. Of a table that is read, only some
        entries may count: the guards of several reads choose these.
    """
    guards = cotangent.op == "add" and all(term.op == "guard" for term in cotangent.args)
    if certain and not guards and (not _is_guarded(cotangent) or rule(graph.one).total):
        return rule(cotangent)
    return _applied(graph, cotangent, rule)


def _is_guarded(node: Node) -> bool:
    """Whether a node is an addition of guards, or a sum or a product of such."""
    if node.op in ("mul", "sum"):
        return any(map(_is_guarded, node.args))
    return node.op == "add" and all(term.op == "guard" or _is_guarded(term) for term in node.args)


def _applied(graph: Graph, cotangent: Node, rule: Callable[[Node], Node]) -> Node:
    if cotangent is graph.zero or not is_chosen(graph, cotangent):
        return rule(cotangent)
    match cotangent.op:
        case "select":
            return graph.select(cotangent.args[0], *(_applied(graph, side, rule) for side in cotangent.args[1:]))
        case "guard":
            return graph.guard(cotangent.data, _applied(graph, cotangent.args[0], rule))
        case "add":
            return graph.add([_applied(graph, term, rule) for term in cotangent.args])
        case "sum":
            variables, rows, body = graph.open(cotangent)
            return graph.sum(variables, rows, _applied(graph, body, rule))
        case "mul":
            choice = next(factor for factor in cotangent.args if is_chosen(graph, factor))
            others = [factor for factor in cotangent.args if factor is not choice]
            return _applied(graph, choice, lambda part: rule(graph.mul((*others, part))))
    # What an einsum or a table chooses shows in its value only.
    return graph.select(graph.compare("ne", cotangent, graph.zero), rule(cotangent), graph.zero)


def contraction(
    graph: Graph, cotangent: Operand, factors: Sequence[Operand], output: Labels, extents: dict[Label, Affine]
) -> Node:
    """The annihilating product of a cotangent of whole tensors and factors, with the labels of ``output``.

    Parameters
    ----------
    graph : Graph
    cotangent : (Node, labels)
    factors : sequence of (Node, labels)
        What is multiplied where the node that they come from is used.
    output : sequence of labels
    extents : mapping
        The extents of the labels of the output.
    """
    if all(factor.total for factor, _ in factors) or not is_chosen(graph, cotangent[0]):
        return graph.ein(1, [cotangent, *factors], output, extents)
    chosen = _in_choice(graph, cotangent, factors)
    if chosen is not None:
        return graph.ein(1, chosen, output, extents)
    operands = [cotangent, *factors]
    sizes = {label: size for part, labels in operands for label, size in zip(labels, part.shape, strict=True)}
    variables = {label: graph.fresh(f"i{n}") for n, label in enumerate(sizes)}
    value, *slopes = (
        graph.read(part, [Affine.variable(variables[label]) for label in labels]) for part, labels in operands
    )
    nonzero = graph.compare("ne", value, graph.zero)
    product = graph.select(nonzero, graph.mul((value, *slopes)), graph.zero)
    axes, summed = [label for label in sizes if label in output], [label for label in sizes if label not in output]
    if summed:
        over = [variables[label] for label in summed]
        product = graph.sum(over, ranges(over, [sizes[label] for label in summed]), product)
    shape = tuple(sizes[label] for label in axes)
    found = (
        tensor_of(graph, [variables[label] for label in axes], shape, product) if axes else scalar_of(graph, product)
    )
    return graph.ein(1, [(found, axes)], output, extents)


def _in_choice(graph: Graph, cotangent: Operand, factors: Sequence[Operand]) -> list[Operand] | None:
    """The operands of the product, with the factors inside of a choice that has all of their axes; None without one."""
    node, labels = cotangent
    parts = [cotangent]
    if node.op == "ein" and len(set(node.data.output)) == len(labels):
        names: dict[int, Label] = dict(zip(node.data.output, labels, strict=True))
        parts = [(graph.const(node.data.coefficient), ())]
        for arg, inner in zip(node.args, node.data.inputs, strict=True):
            parts.append((arg, tuple(names.setdefault(label, (node.id, label)) for label in inner)))
    moved = [factor for factor in factors if not factor[0].total]
    needed = {label for _, own in moved for label in own}
    chosen = [part for part in parts if is_chosen(graph, part[0])]
    for choice, own in chosen:
        others = [part for part in chosen if part[0] is not choice]
        inside = needed.union(*(labels for _, labels in others)).issubset(own) and len(set(own)) == len(own)
        if choice.op == "select" and any(map(graph.is_zero, choice.args[1:])) and inside:
            rest = [part for part in (*parts, *factors) if part not in (*chosen, *moved)]
            return [(_with_factors(graph, (choice, own), others, moved), own), *rest]
    return None


def _with_factors(graph: Graph, chosen: Operand, others: Sequence[Operand], moved: Sequence[Operand]) -> Node:
    """A choice whose other side is multiplied by other choices and by the factors that are moved into it."""
    choice, own = chosen
    sizes = dict(zip(own, choice.shape, strict=True))
    sides = []
    for side in choice.args[1:]:
        if not graph.is_zero(side):
            part = graph.ein(1, [(graph.broadcast(side, choice.shape), own), *others], own, sizes)
            side = contraction(graph, (part, own), moved, own, sizes)
        sides.append(side)
    return graph.select(choice.args[0], *sides)
