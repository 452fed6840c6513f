"""Whether all that a value reads is inside of its shape: then what is read in vain refuses no call."""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import BINDERS, RANGED, Graph, Node
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.data import apart
from sympy_tensordiff.integer.polyhedron import implied

Rows = tuple[Row, ...]


class Safety:
    """Answers, and remembers, for one program.

    Parameters
    ----------
    graph : Graph
    outside : frozenset of int
        The sizes and free indices.
    facts : rows
        What is known about those.
    """

    def __init__(self, graph: Graph, outside: frozenset[int], facts: Rows) -> None:
        self.graph = graph
        self.outside = outside
        self.facts = facts
        self._known: dict[tuple[Node, Rows], bool] = {}

    def is_safe(self, node: Node, rows: Rows) -> bool:
        """Whether all reads of ``node``, those of the comprehensions in it too, are inside wherever ``rows`` hold."""
        if (node, rows) not in self._known:
            stack = [(node, rows)]
            seen = set()
            while stack:
                part, known = stack.pop()
                if (part, known) in seen or self._known.get((part, known)):
                    continue
                seen.add((part, known))
                if not all(implied(row, (*self.facts, *known)) for row in _inside(self.graph, part)):
                    self._known[node, rows] = False
                    return False
                stack += self._below(part, known)
            self._known.update(dict.fromkeys(seen, True))
        return self._known[node, rows]

    def _below(self, node: Node, known: Rows) -> list[tuple[Node, Rows]]:
        """What a node is computed of, with the rows that hold there."""
        if node.op == "read" and node.args[0].op == "comprehension":
            table = node.args[0]
            is_inner = not node.free.isdisjoint(table.free - self.outside)
            return [(table, known if is_inner else tuple(r for r in known if r.form.atoms() <= self.outside))]
        if node.op in BINDERS:
            _, more, body = self.graph.open(node)
            return [(body, known + more)]
        return [(arg, known + node.data if node.op == "guard" else known) for arg in node.args]


def _inside(graph: Graph, node: Node) -> list[Row]:
    """The rows that say that what a node itself reads is inside: its entry, and data in its index or conditions."""
    if node.op == "guard" or node.op in RANGED:
        plain, tested = apart(node.data)
        return [row for row in graph.inside_data(r.form for r in tested) if not implied(row, plain)]
    if node.op not in ("read", "index"):
        return []
    forms = node.data if node.op == "read" else (node.data,)
    rows = graph.inside_data(forms)
    for form, extent in zip(node.data, node.args[0].shape, strict=True) if node.op == "read" else ():
        rows += [Row("ge", form), Row("ge", extent - 1 - form)]
    return rows


def is_never_empty(variables: Sequence[int], rows: Sequence[Row], facts: Rows) -> bool:
    """Whether a sum over variables, innermost last, has a term wherever the facts hold."""
    for v in reversed(variables):
        own = [row for row in rows if v in row.form.atoms()]
        if any(row.kind != "ge" or abs(row.form.coefficient(v)) != 1 for row in own):
            return False
        lows = [Affine.variable(v) - row.form for row in own if row.form.coefficient(v) > 0]
        highs = [Affine.variable(v) + row.form for row in own if row.form.coefficient(v) < 0]
        around = tuple([row for row in rows if row not in own])
        if not all(implied(Row("ge", high - low), (*facts, *around)) for low in lows for high in highs):
            return False
        rows = around
    return True
