"""Index notation that is an einsum, as whole tensors: the inverse of `graph.entries`.

``[p == q] Sum_k A[p, k] x[k]`` over all of ``p, q`` is a view of a product. What reads a tensor at other
places than the indices themselves, runs over a part of a range, or uses an index as a number has no
whole form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy_tensordiff.graph.interning import Shape
from sympy_tensordiff.graph.nodes import Graph, Node, ranges
from sympy_tensordiff.graph.patterns import Label
from sympy_tensordiff.graph.trampoline import Recursion, trampoline
from sympy_tensordiff.integer.affine import Affine, Row

Labelled = tuple[Node, tuple[int, ...]]
"""A whole tensor and the variable of each of its axes, all different."""

ELEMENTWISE = frozenset({"add", "pow", "call", "compare", "and", "or", "not", "select"})


def as_tensor(graph: Graph, axes: Sequence[int], shape: Shape, entry: Node) -> Node | None:
    """The whole tensor with the ``entry`` at ``axes``; None where it has no whole form.

    Parameters
    ----------
    graph : Graph
    axes : sequence of int
        The variables of the axes.
    shape : tuple of Affine
    entry : Node
        A scalar.
    """
    work = _Recognition(graph, dict(zip(axes, shape, strict=True)))
    found = trampoline(work.visit(entry))
    if found is None:
        return None
    return graph.ein(1, [found], axes, work.extents)


def tensor_of(graph: Graph, axes: Sequence[int], shape: Shape, value: Node) -> Node:
    """The tensor of an entry: whole tensors for the terms that are einsums, a comprehension for the others."""
    if not shape:
        return value
    parts, rest = [], []
    for term in value.args if value.op == "add" else (value,):
        whole = as_tensor(graph, axes, shape, term)
        if whole is None:
            rest.append(term)
        else:
            parts.append(whole)
    if rest:
        parts.append(graph.comprehension(axes, shape, graph.add(rest)))
    return graph.add(parts)


def scalar_of(graph: Graph, node: Node) -> Node:
    """A sum in which no bound variable is free, as a contraction of whole tensors where it is one."""
    work = _Recognition(graph, {})
    found = trampoline(work.visit_sum(node))
    return node if found is None else graph.ein(1, [found], (), work.extents)


class _Recognition:
    def __init__(self, graph: Graph, extents: Mapping[int, Affine]) -> None:
        self.graph = graph
        self.extents: dict[Label, Affine] = {v: extent for v, extent in extents.items()}
        self._done: dict[Node, Labelled | None] = {}

    def visit(self, node: Node) -> Recursion[Labelled | None]:
        if node not in self._done:
            if all(v >= 0 and v not in self.extents for v in node.free):
                self._done[node] = (node, ())
            else:
                special = self.visit_sum if node.op == "sum" else getattr(self, f"_{node.op}", None)
                if special is None and node.op in ELEMENTWISE:
                    special = self._elementwise
                self._done[node] = None if special is None else (yield special(node))
        return self._done[node]

    def _read(self, node: Node) -> Recursion[Labelled | None]:
        yield from ()
        tensor = node.args[0]
        if any(v < 0 or v in self.extents for v in tensor.free):
            return None
        labels = []
        for form, extent in zip(node.data, tensor.shape, strict=True):
            v = form.terms[0][0] if len(form.terms) == 1 else None
            if not isinstance(v, int) or form != Affine.variable(v) or self.extents.get(v) != extent:
                return None
            labels.append(v)
        return self._operand([(tensor, labels)])

    def _operand(self, operands: Sequence[tuple[Node, Sequence[int]]], without: Sequence[int] = ()) -> Labelled:
        """The product of operands, summed over the variables ``without``."""
        kept = tuple(v for v in dict.fromkeys(v for _, labels in operands for v in labels) if v not in without)
        return self.graph.ein(1, operands, kept), kept

    def _mul(self, node: Node) -> Recursion[Labelled | None]:
        operands = yield self._all(node.args)
        return None if operands is None else self._operand(operands)

    def _all(self, nodes: Sequence[Node]) -> Recursion[list[Labelled] | None]:
        operands = []
        for node in nodes:
            operand = yield self.visit(node)
            if operand is None:
                return None
            operands.append(operand)
        return operands

    def _elementwise(self, node: Node) -> Recursion[Labelled | None]:
        operands = yield self._all(node.args)
        if operands is None:
            return None
        labels = tuple(dict.fromkeys(v for _, own in operands for v in own))
        args = [
            self.graph.ein(1, [operand], labels, self.extents) if operand[1] else operand[0] for operand in operands
        ]
        return self.graph.rebuild(node, args), labels

    def visit_sum(self, node: Node) -> Recursion[Labelled | None]:
        graph = self.graph
        variables, rows, body = graph.open(node)
        extents = [_extent(v, rows) for v in variables]
        known = [extent for extent in extents if extent is not None]
        if len(known) != len(extents) or set(rows) != set(ranges(variables, known)):
            return None
        if any(v in self.extents or v in variables for extent in known for v in extent.atoms()):
            return None  # a triangle: the range depends on another index
        self.extents.update(zip(variables, known, strict=True))
        inner = yield self.visit(body)
        if inner is None:
            return None
        repeated = [graph.index(self.extents[v]) for v in variables if v not in inner[1]]
        return self._operand([inner, *((count, ()) for count in repeated)], variables)

    def _guard(self, node: Node) -> Recursion[Labelled | None]:
        inner = yield self.visit(node.args[0])
        if inner is None:
            return None
        operands: list[tuple[Node, Sequence[int]]] = [inner]
        implied = {row for v, extent in self.extents.items() if isinstance(v, int) for row in ranges((v,), (extent,))}
        for row in node.data:
            if row in implied:
                continue
            pair = [v for v, _ in row.form.terms if isinstance(v, int)]
            equal = row.kind == "eq" and len(pair) == 2 and row.form in (_difference(*pair), _difference(*pair[::-1]))
            if not equal or any(v not in self.extents for v in pair) or self.extents[pair[0]] != self.extents[pair[1]]:
                return None
            operands.append((self.graph.delta((self.extents[pair[0]],)), pair))
        return self._operand(operands)


def _difference(v: int, w: int) -> Affine:
    return Affine.variable(v) - Affine.variable(w)


def _extent(v: int, rows: Sequence[Row]) -> Affine | None:
    """The extent of a variable that runs from 0."""
    for row in rows:
        if row.kind == "ge" and row.form.coefficient(v) == -1:
            return row.form + Affine.variable(v) + 1
    return None
