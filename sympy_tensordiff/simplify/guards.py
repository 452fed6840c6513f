"""The rows of guards: without redundant ones, with equations where inequalities meet, and what these determine."""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import Graph, Node, Substitution
from sympy_tensordiff.integer.affine import Affine, Compound, Row, Variable
from sympy_tensordiff.integer.data import data_terms
from sympy_tensordiff.integer.polyhedron import implied, without_redundant
from sympy_tensordiff.integer.rows import Rows, atoms_in
from sympy_tensordiff.integer.system import definitions
from sympy_tensordiff.integer.values import single_value


def with_equations(rows: Sequence[Row], facts: Rows, sizes: frozenset[int]) -> Rows:
    """The rows without redundant ones; those that leave an index a single value as equations."""
    rows = without_redundant(rows, facts)
    for v in sorted(atoms_in(rows) - sizes):
        single = single_value([v], rows)
        if single is not None:
            rows = without_redundant((Row("eq", Affine({v: 1}) - single[0][v]), *single[1], *rows), facts)
    return tuple(_as_equation(row, (*facts, *rows), sizes) for row in rows)


def _as_equation(row: Row, known: Rows, sizes: frozenset[int]) -> Row:
    """``p <= 0`` as ``p == 0`` where ``p >= 0`` is known."""
    meets = row.kind == "ge" and not row.form.atoms() <= sizes and implied(Row("ge", -row.form), known)
    return Row("eq", row.form) if meets else row


def pivot(rows: Sequence[Row], sizes: frozenset[int]) -> tuple[Row, dict[Variable, Affine]] | None:
    """An equation solved for the data in it, those that the oldest index selects first, or for the newest index."""
    for row in rows:
        data = data_terms(row.form)
        inside = row.form.hidden()
        terms = row.form.terms if row.kind == "eq" else ()
        for v, c in sorted(terms, key=_newest) if len(data) > 1 else reversed(terms):
            is_index = isinstance(v, int) and v not in sizes and v not in inside
            value = Affine({v: 1}) - row.form * c
            if abs(c) == 1 and (v not in definitions(value.compounds()) if v in data else is_index and not data):
                return row, {v: value}
    return None


def _newest(term: tuple[Variable, int]) -> int:
    """The index in a term that was introduced last."""
    variable = term[0]
    return max(
        (v for v in (variable.atoms() if isinstance(variable, Compound) else (variable,)) if isinstance(v, int)),
        default=-1,
    )


def solved(rows: Rows, sizes: frozenset[int]) -> Substitution:
    """The indices that equations among ``rows`` determine, as forms of the others."""
    mapping: dict[Variable, Affine] = {}
    while (found := pivot(rows, sizes)) is not None:
        row, new = found
        mapping = {v: form.substitute(new) for v, form in mapping.items()} | dict(new)
        rows = tuple(r.substitute(new) for r in rows if r is not row)
    return mapping


def paired(graph: Graph, terms: list[Node], facts: Rows) -> list[Node]:
    """``p == 0`` as ``p <= 0`` where ``p >= 1`` stands beside it and nothing lies below: opposites, one choice."""
    guards = {term.data for term in terms if term.op == "guard"}
    return [_beside(graph, term, guards, facts) if term.op == "guard" else term for term in terms]


def _beside(graph: Graph, term: Node, guards: set[Rows], facts: Rows) -> Node:
    for row in term.data if len(guards) > 1 else ():
        rest = tuple(other for other in term.data if other is not row)
        for form in (row.form, -row.form) if row.kind == "eq" else ():
            above = tuple(sorted((*rest, Row("ge", form - 1))))
            if above in guards and implied(Row("ge", form), (*facts, *rest)):
                return graph.guard((*rest, Row("ge", -form)), term.args[0])
    return term
