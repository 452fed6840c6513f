"""A value as those that conditions on indices choose among, each with the conditions under which it is the one."""

from __future__ import annotations

from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node, replace
from sympy_tensordiff.integer.affine import Row
from sympy_tensordiff.integer.implication import is_empty
from sympy_tensordiff.integer.rows import Rows

MOST_CASES = 8
"""Values that are chosen among more stay whole."""


def cases_of(graph: Graph, value: Node) -> list[tuple[Rows, Node]]:
    """The cases of a value, which exclude each other and leave nothing out; the guards in them hold or are gone.

    Guards inside of binders are theirs.
    """
    found: list[tuple[Rows, Node]] = []
    waiting: list[tuple[Rows, Node]] = [((), value)]
    while waiting:
        rows, case = waiting.pop()
        guard = _outermost_guard(case)
        if guard is None:
            found.append((rows, case))
            continue
        parts = [((*rows, *guard.data), replace(graph, case, {guard: guard.args[0]}))]
        elsewhere = replace(graph, case, {guard: graph.zero})
        parts += [((*rows, *piece), elsewhere) for piece in _outside(guard.data)]
        waiting += [part for part in reversed(parts) if not is_empty(part[0])]
        if len(found) + len(waiting) > MOST_CASES:
            return [((), value)]
    return found


def _outermost_guard(node: Node) -> Node | None:
    waiting, seen = [node], {node}
    for part in waiting:
        if part.op == "guard":
            return part
        new = [arg for arg in part.args if arg not in seen and not arg.plain] if part.op not in BINDERS else []
        seen.update(new)
        waiting += new
    return None


def _outside(rows: Rows) -> list[Rows]:
    """Where the rows do not all hold, in pieces that exclude each other."""
    pieces: list[Rows] = []
    for n, row in enumerate(rows):
        opposites = [Row("ge", row.form - 1), Row("ge", -row.form - 1)] if row.kind == "eq" else [row.negation()]
        pieces += [(*rows[:n], opposite) for opposite in opposites]
    return pieces
