"""Ranges of tensors of integers: what is declared of them, or the axis that all of their entries select from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sympy_tensordiff.graph.nodes import Graph, Node, ranges, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import DataEntry, data_entries
from sympy_tensordiff.integer.polyhedron import implied
from sympy_tensordiff.integer.rows import Rows, partition
from sympy_tensordiff.simplify.facts import Seen, positive_sizes, unconditional_parts

Selection = tuple[Node, int]
"""A read, and the axis that data select from."""


def read_with_ranges(reader: Reader, exprs: Sequence[Any]) -> list[Node]:
    """The nodes of expressions, in which data without a declared range have that of the axis that they select from."""
    nodes = [reader.read(expr) for expr in exprs]
    found = implied_ranges(reader.graph, nodes)
    if not found:
        return nodes
    reader.declare(found)
    return [reader.read(expr) for expr in exprs]


def implied_ranges(graph: Graph, roots: Sequence[Node]) -> dict[str, Selection]:
    """For tensors of integers without a declared range, a read in which all entries select from the shortest axis.

    The read, such as ``x[idx[i]]``, happens unconditionally for each entry of ``idx``, so that no other data are of
    any use. Where entries select from several axes, one is provably not longer than the others; else there is none.
    """
    names = graph.integers.keys() - graph.below.keys()
    names -= _partly_selected(roots) if names else set()
    if not names:
        return {}
    facts = positive_sizes(graph, roots)
    found: dict[str, dict[Affine, Selection]] = {}
    for entry, read, axis in _selections(graph, roots, facts):
        if entry.tensor in names:
            found.setdefault(entry.tensor, {}).setdefault(read.args[0].shape[axis], (read, axis))
    return {
        name: selection
        for name, selections in found.items()
        for extent, selection in selections.items()
        if all(implied(Row("ge", other - extent), facts) for other in selections)
    }


def _selections(graph: Graph, roots: Sequence[Node], facts: Rows) -> Iterator[tuple[DataEntry, Node, int]]:
    """The unconditional reads in which each entry of a tensor in turn is the index of an axis."""
    seen: Seen = set()
    for root in roots:
        for node, context, _ in unconditional_parts(graph, root, facts, seen):
            for axis, form in enumerate(node.data) if node.op == "read" else ():
                entry = form.terms[0][0] if form.terms else None
                if isinstance(entry, DataEntry) and form == Affine.variable(entry) and _is_each(entry, graph, context):
                    yield entry, node, axis


def _partly_selected(roots: Sequence[Node]) -> set[str]:
    """The tensors of integers that select what tensors hold of which not all entries need be computed."""
    parts = reachable(*roots)
    inner = [arg for node in parts if node.op == "read" or _takes_diagonals(node) for arg in node.args]
    forms = [form for part in reachable(*inner) if part.op == "read" for form in part.data]
    return {entry.tensor for entry in data_entries(forms)}


def _takes_diagonals(node: Node) -> bool:
    return node.op == "ein" and any(len(set(labels)) < len(labels) for labels in node.data.inputs)


def _is_each(entry: DataEntry, graph: Graph, context: Rows) -> bool:
    """Whether an entry is each of its tensor in turn: its indices are variables that run over the axes, freely."""
    shape = graph.integers[entry.tensor].shape
    variables = [v for form in entry.index for v, _ in form.terms]
    whole = [row for v, extent in zip(variables, shape, strict=False) for row in ranges((v,), (extent,))]
    around = set(partition(context, variables)[1])
    indices = tuple(map(Affine.variable, variables))
    return entry.index == indices and len(set(variables)) == len(shape) and around == set(whole)
