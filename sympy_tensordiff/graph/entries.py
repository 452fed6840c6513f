"""One entry of a whole tensor in index notation, one level deep: its operands are read."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from sympy_tensordiff.graph.contractions import is_core
from sympy_tensordiff.graph.nodes import Graph, Node, ranges, reachable, replace
from sympy_tensordiff.integer.affine import Affine, Row

OPAQUE = frozenset({"inv", "cof", "tensor", "comprehension"})
"""What has no index notation, or is in it already: it is read as it is."""


def entry(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    """The entry of ``node`` at ``index``, in which the operands of ``node`` appear as reads.

    Labels that are summed become the variables of a sum, output labels that are repeated equations
    of a guard. Scalars are themselves.
    """
    if not node.shape and node.op not in ("ein", "lse"):
        return node
    if node.op in OPAQUE:
        return graph.read(node, index)
    if node.op == "ein":
        return _contraction(graph, node, index)
    if node.op == "lse":
        return _logsumexp(graph, node, index)
    args = [graph.read(arg, index) if arg.shape else arg for arg in node.args]
    return graph.rebuild(node, args)


def written_out(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    """The entry of ``node`` at ``index``, in index notation down to sums of products, inverses and variables.

    What the expression shares at one index the entry shares.
    """
    done: dict[tuple[Node, tuple[Affine, ...]], Node] = {}
    stack = [(node, tuple(index))]
    while stack:
        key = stack[-1]
        top, forms = key
        if key in done:
            stack.pop()
        elif not top.shape or _sums(top) or top.op in ("inv", "cof", "lse", "tensor"):
            done[key] = graph.read(top, forms)
        elif top.op == "comprehension":
            variables, _, body = graph.open(top)
            done[key] = graph.substitute(body, dict(zip(variables, forms, strict=True)))
        else:
            below = entry(graph, top, forms)
            reads = [part for part in reachable(below) if part.op == "read" and part.args[0] in top.args]
            missing = [(part.args[0], part.data) for part in reads if (part.args[0], part.data) not in done]
            stack += missing
            if not missing:
                done[key] = replace(graph, below, {part: done[part.args[0], part.data] for part in reads})
    return done[node, tuple(index)]


def _sums(node: Node) -> bool:
    """Whether a node is a product that is summed over a label."""
    return is_core(node) and len(node.data.output) < len(node.data.extents)


def _contraction(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    coefficient, inputs, output, extents = node.data
    forms: dict[int, Affine] = {}
    rows: list[Row] = []
    for label, form in zip(output, index, strict=True):
        if label in forms:
            rows.append(Row("eq", forms[label] - form))
        else:
            forms[label] = form
    summed = [label for label in range(len(extents)) if label not in forms]
    variables = [graph.fresh(_name(n)) for n in range(len(summed))]
    forms.update(zip(summed, map(Affine.variable, variables), strict=True))
    factors = [
        graph.read(arg, [forms[label] for label in labels]) for arg, labels in zip(node.args, inputs, strict=True)
    ]
    body = graph.mul((graph.const(coefficient), *factors))
    if summed:
        body = graph.sum(variables, ranges(variables, [extents[label] for label in summed]), body)
    return graph.guard(rows, body)


def _logsumexp(graph: Graph, node: Node, index: Sequence[Affine]) -> Node:
    (tensor,) = node.args
    variables = {axis: graph.fresh(_name(n)) for n, axis in enumerate(node.data)}
    rest = iter(index)
    forms = [Affine.variable(variables[a]) if a in variables else next(rest) for a in range(len(tensor.shape))]
    body = graph.call(sympy.exp, (graph.read(tensor, forms),))
    over = tuple(variables.values())
    return graph.call(sympy.log, (graph.sum(over, ranges(over, [tensor.shape[axis] for axis in variables]), body),))


def _name(n: int) -> str:
    return "klmn"[n] if n < 4 else f"k{n}"
