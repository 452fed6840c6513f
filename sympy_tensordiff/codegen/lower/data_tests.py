"""Tests of data in sums become choices, ``Sum_i [kind[i] == 0]*f(i)`` the sum of ``f(i) if kind[i] == 0 else 0``.

The sum then runs over the plain range of its indices, as sums without tests do: loops over the same range are joined,
rows are read in memory order, and compilers make vectors of a cheap choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.codegen.lower.functions import FORMULAS
from sympy_tensordiff.graph.interning import breadth_first, outside_of_binders
from sympy_tensordiff.graph.nodes import Graph, Node, rewritten
from sympy_tensordiff.integer.affine import Constraint
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.rows import Rows


def with_tests_as_choices(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """Return `roots` with the conditions of sums on data, such as ``kind[i] == 0``, moved into the summand, as
    ``Sum_i (value if kind[i] == 0 else 0)``.

    Conditions stay where the value reads at indices that are data, since they may keep these in bounds, and where it
    calls functions with long formulas.
    """
    if not graph.integers:
        return list(roots)

    def with_choice(node: Node) -> Node:
        """Return a sum with its conditions on data as a choice; other nodes are unchanged."""
        if node.op != "sum":
            return node
        variables, rows, body = graph.open(node)
        tests = tuple([row for row in rows if _tests_data(row, variables)])
        around = tuple([row for row in rows if row not in tests])
        if body.op == "guard" and all(_tests_data(row, variables) for row in body.data):
            tests, body = (*tests, *body.data), body.args[0]
        if not tests or _reads_at_data(body) or _calls_long_formula(body):
            return node
        factors = [(factor.free.isdisjoint(variables), factor) for factor in graph.factors(body)]
        inner = graph.mul([factor for is_outer, factor in factors if not is_outer])
        total = graph.sum(variables, around, graph.select(_condition(graph, tests), inner, graph.zero))
        outer = [factor for is_outer, factor in factors if is_outer]
        if all(factor.op == "const" for factor in outer):
            return graph.mul((*outer, total))
        # Where no term is selected, the factors may be infinite.
        return graph.select(graph.compare("ne", total, graph.zero), graph.mul((*outer, total)), graph.zero)

    return rewritten(graph, roots, with_choice)


def _tests_data(row: Constraint, variables: Sequence[int]) -> bool:
    """Return whether `row` compares one entry of an integer array, at indices in `variables`, with an expression in
    sizes, such as ``y[i] >= 1``. Relations between indices, such as ``y[i] == j`` and ``y[i] == y[p]``, do not count.
    """
    entries = [v for v in row.form.variables() if isinstance(v, IndirectIndex)]
    plain = [v for v in row.form.variables() if not isinstance(v, IndirectIndex)]
    if row.kind not in ("ge", "eq") or len(entries) != 1 or entries[0].atoms().isdisjoint(variables):
        return False
    # Indices that are bound further out are negative.
    return all(v in variables or v >= 0 for v in entries[0].atoms()) and all(
        isinstance(v, int) and v >= 0 and v not in variables for v in plain
    )


def _reads_at_data(value: Node) -> bool:
    """Return whether `value` reads at indices that are data, such as ``x[y[i] - 1]``: conditions on data may be what
    keeps these in bounds. Reads in inner sums are not examined.
    """
    parts = breadth_first(value, outside_of_binders)
    return any(part.op == "read" and data_entries(part.data) for part in parts)


def _calls_long_formula(value: Node) -> bool:
    """Return whether `value` calls a function whose code is a long formula, such as ``log_ndtr``.

    A choice would compute parts of the formula for all terms: the gradient of an ordered probit model takes 1.2 times
    as long.
    """
    parts = breadth_first(value, outside_of_binders)
    return any(part.op == "call" and part.data in FORMULAS for part in parts)


def _condition(graph: Graph, rows: Rows) -> Node:
    """Return the condition node that is true where all of ``rows`` hold."""
    tests = [
        graph.compare("eq", graph.index(row.form), graph.zero)
        if row.kind == "eq"
        else graph.compare("le", graph.zero, graph.index(row.form))
        for row in rows
    ]
    return tests[0] if len(tests) == 1 else graph.logic("and", tests)
