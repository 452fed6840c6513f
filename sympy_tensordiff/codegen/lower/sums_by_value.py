"""Sums over the terms whose integer data are below or above an index, as running sums over the values of the data.

``Sum_t [r[t] <= i]*h[t]`` for all i takes a pass over t for each i. As ``Sum_{p <= i} b[p]`` with ``b[p] = Sum_t
[r[t] == p]*h[t]`` it takes one pass over t, which adds ``h[t]`` to ``b[r[t]]``, and one over p. Such sums are the
gradients of sums that begin or end where data say, as those over the subjects at risk in Cox's partial likelihood.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import cast

import sympy

from sympy_tensordiff.codegen.lower.scatters import has_few_values, unguarded
from sympy_tensordiff.graph.nodes import Graph, Node, ranges, rewritten
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.rows import Rows, atoms_in
from sympy_tensordiff.simplify.growing_functions import is_call


def sums_by_value(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with each ``Sum_t [r[t] <= i]*h[t]``, where r are integer data, as ``Sum_{p <= i} b[p]``: the
    array b has the sum of the terms with ``r[t] == p``. Other signs and offsets are treated alike.
    """
    return rewritten(graph, roots, partial(_by_value, graph)) if graph.integers else list(roots)


def _by_value(graph: Graph, node: Node) -> Node:
    """Return the sum `node` as a sum over the values of data; other nodes are returned unchanged."""
    if node.op != "sum" or all(v >= 0 for v in node.free):
        return node
    variables, rows, body = graph.open(node)
    tests, value = unguarded(graph, body)
    found = _order_test((*rows, *tests), variables)
    if found is None:
        return node
    row, entry = found
    rows, tests = (tuple(other for other in given if other is not row) for given in (rows, tests))
    own = _bounded_together(variables, (*rows, *tests), entry)
    others = [v for v in variables if v not in own]
    outside, inside = _parted(graph, graph.factors(value), own)
    (own_rows, other_rows), (own_tests, other_tests) = _rows_with(own, rows), _rows_with(own, tests)
    moved = _loops(row.form.substitute({entry: Affine()}).atoms())
    if moved & (inside.free | entry.atoms()) or atoms_in((*own_rows, *own_tests)) & moved:
        return node  # there would be an array of sums for each value of an index that the inequality compares

    def running(terms: Node) -> Node:
        """Return the sum of `terms` where the inequality holds."""
        bound = [v for v in variables if v in own]
        return _running_sum(graph, bound, own_rows, graph.guard(own_tests, terms), row, entry)

    product = graph.mul([*outside, running(inside)])
    if not all(factor.total or _is_exponential(factor) for factor in outside):
        count = running(graph.one)  # without terms the sum is 0, whatever the factors are
        product = graph.select(graph.compare("ne", count, graph.zero), product, graph.zero)
    product = graph.guard(other_tests, product)
    return graph.sum(others, other_rows, product) if others else graph.guard(other_rows, product)


def _running_sum(
    graph: Graph, variables: Sequence[int], rows: Rows, terms: Node, row: Constraint, entry: IndirectIndex
) -> Node:
    """Return ``Sum_{p <= i} b[p]`` for the inequality `row`, which says that ``entry <= i``. The array b has the sum of
    `terms` over `variables` in the range `rows` where ``entry == p``.
    """
    p, place = graph.fresh("p"), graph.fresh("p")
    extent = cast(Affine, entry.below)
    equation = Constraint("eq", Affine.variable(entry) - Affine.variable(p))
    table = graph.comprehension((p,), (extent,), graph.sum(variables, rows, graph.guard((equation,), terms)))
    limits = (*ranges((place,), (extent,)), row.substitute({entry: Affine.variable(place)}))
    return graph.sum((place,), limits, graph.read(table, (Affine.variable(place),)))


def _rows_with(variables: frozenset[int], rows: Rows) -> tuple[Rows, Rows]:
    """Split `rows` into the constraints that contain some of `variables`, and the others."""
    found = tuple(row for row in rows if not variables.isdisjoint(row.form.atoms()))
    return found, tuple(row for row in rows if row not in found)


def _bounded_together(variables: Collection[int], rows: Rows, entry: IndirectIndex) -> frozenset[int]:
    """Return those of the summed `variables` on which the data ``entry`` depends, and those which `rows` relate to
    them.
    """
    own = entry.atoms().intersection(variables)
    while True:
        linked = [row.form.atoms().intersection(variables) for row in rows]
        more = own.union(*(found for found in linked if found & own))
        if more == own:
            return frozenset(own)
        own = more


def _parted(graph: Graph, factors: Sequence[Node], own: frozenset[int]) -> tuple[list[Node], Node]:
    """Return the `factors` that do not depend on the variables ``own``, and the product of the others."""
    outside = [factor for factor in factors if factor.free.isdisjoint(own)]
    return outside, graph.mul([factor for factor in factors if factor not in outside])


def _is_exponential(factor: Node) -> bool:
    """Return whether `factor` is the exponential of a finite number. If it may overflow, it is scaled with the sum."""
    return is_call(factor, sympy.exp) and factor.args[0].total


def _order_test(rows: Rows, variables: Collection[int]) -> tuple[Constraint, IndirectIndex] | None:
    """Return the inequality in `rows` that compares an entry ``r[t]`` of integer data, where t is one of the summed
    `variables`, with forms of indices around the sum, and this entry. None if there is not exactly one.
    """
    own = frozenset(variables)
    found = []
    for row in rows if all(row.kind in ("ge", "eq") for row in rows) else ():
        if row.kind == "ge":
            for entry, c in row.form.terms:
                rest = row.form - c * Affine.variable(entry)
                is_alone = own.isdisjoint(rest.atoms()) and bool(_loops(rest.atoms()))
                if isinstance(entry, IndirectIndex) and abs(c) == 1 and is_alone and not own.isdisjoint(entry.atoms()):
                    found.append((row, entry))
    return found[0] if len(found) == 1 and has_few_values(found[0][1]) else None


def _loops(variables: Collection[int]) -> frozenset[int]:
    """Return those of `variables` that are indices of axes or sums, not sizes."""
    return frozenset(v for v in variables if v < 0)
