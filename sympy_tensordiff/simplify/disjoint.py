"""Summands and rows apart, so that each sum is over inequalities and congruences of its own and tests nothing.

Guards in the terms of a summand, deltas and guards inside of its functions, and conditions that allow several
remainders are cases that do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import Graph, Node, reachable, replace
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.data import selected_in
from sympy_tensordiff.integer.rows import Rows, normalise, partition

NESTED_LIMIT = 4
"""Each equation inside of a function triples the sums; with more of them the equations stay."""

SPLIT_LIMIT = 2
"""Each inequality inside of a function doubles the sums, up to four; with more of them the inequalities stay."""


def ties(node: Node, variables: frozenset[int]) -> bool:
    """Whether a guard, or one right behind it, ties variables, or an equation that a sum could not solve."""
    rows = node.data if node.op == "guard" or (node.op == "sum" and not node.free.isdisjoint(variables)) else ()
    if any(not row.form.atoms().isdisjoint(variables) for row in rows if node.op == "guard" or row.kind == "eq"):
        return True
    inner = node.args[0] if node.op == "guard" else None
    terms = () if inner is None else inner.args if inner.op == "add" else (inner,)
    return any(term.op == "guard" and ties(term, variables) for term in terms)


def terms_with_guards(graph: Graph, variables: frozenset[int], body: Node) -> list[Node] | None:
    """The terms of ``body`` apart, where one is guarded by ``variables``; None where none is."""
    if body.plain:
        return None
    if body.op == "add" and any(ties(term, variables) for term in body.args):
        plain = [term for term in body.args if not ties(term, variables)]
        return [*(term for term in body.args if ties(term, variables)), graph.add(plain)]
    if body.op == "mul":
        for n, factor in enumerate(body.args):
            if factor.op == "add" and any(ties(term, variables) for term in factor.args):
                others = body.args[:n] + body.args[n + 1 :]
                terms = terms_with_guards(graph, variables, factor) or []
                return [graph.mul((*others, term)) for term in terms]
    return _cases_of_nested_equation(graph, variables, body)


def _cases_of_nested_equation(graph: Graph, variables: frozenset[int], body: Node) -> list[Node] | None:
    """``f(delta)`` where the equation of the delta holds, below it and above it; None without such a delta."""
    guards, rows = _nested_rows(variables, body)
    equations = [row for row in rows if row.kind == "eq"]
    if not equations or len(equations) > NESTED_LIMIT:
        return None
    row = equations[0]
    elsewhere = _decided(graph, body, guards, {row: False})
    return [
        graph.guard([row], _decided(graph, body, guards, {row: True})),
        graph.guard([Row("ge", row.form - 1)], elsewhere),
        graph.guard([Row("ge", -row.form - 1)], elsewhere),
    ]


def cases_of_nested_inequality(graph: Graph, variables: frozenset[int], body: Node) -> list[Node] | None:
    """``f(guard)`` where a row of the guard holds and where it does not, so that no loop tests it; None without one."""
    if body.plain:
        return None
    guards, rows = _nested_rows(variables, body)
    opposites: dict[Row, Row] = {}
    for row in rows:
        opposite = normalise(row.negation()) if row.kind != "eq" and row not in opposites.values() else None
        if isinstance(opposite, Row):
            opposites[row] = opposite
    if not 0 < len(opposites) <= SPLIT_LIMIT:
        return None
    row, opposite = next(iter(opposites.items()))
    return [
        graph.guard([row], _decided(graph, body, guards, {row: True, opposite: False})),
        graph.guard([opposite], _decided(graph, body, guards, {row: False, opposite: True})),
    ]


def _nested_rows(variables: frozenset[int], body: Node) -> tuple[Sequence[Node], Rows]:
    """The guards inside of the functions in a body without sums, and their rows over the variables."""
    if body.height:
        return (), ()
    guards = [node for node in reachable(body) if node.op == "guard"]
    rows = dict.fromkeys(row for node in guards for row in node.data)
    apart = (row for row in rows if selected_in(row.form).isdisjoint(variables))  # data is tested in any case
    return guards, partition(apart, variables)[1]


def _decided(graph: Graph, body: Node, guards: Sequence[Node], known: dict[Row, bool]) -> Node:
    """The body where it is known of some rows of the guards inside whether they hold."""
    new: dict[Node, Node] = {}
    for node in guards:  # inner ones first: guards may stand inside of others
        if not known.keys().isdisjoint(node.data):
            inner = replace(graph, node.args[0], new)
            fails = any(known.get(row) is False for row in node.data)
            new[node] = graph.zero if fails else graph.guard((r for r in node.data if r not in known), inner)
    return replace(graph, body, new)
