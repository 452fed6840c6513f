"""Where values can be computed: whether all they read is inside of its shape there."""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import BINDERS, Graph, Node
from sympy_tensordiff.graph.trampoline import Recursion, trampoline
from sympy_tensordiff.integer.affine import Affine, Row
from sympy_tensordiff.integer.polyhedron import implied
from sympy_tensordiff.simplify.choices import inside_shape, reads_no_data_outside

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
        self._read: dict[tuple[Node, Rows], list[tuple[Node, Rows]] | None] = {}
        self._deep: dict[tuple[Node, Rows], bool] = {}

    def is_safe(self, node: Node, rows: Rows) -> bool:
        """Whether all reads of ``node`` are inside their shapes wherever ``rows`` hold.

        What fills the tables that it reads is not looked at: they have kernels of their own.
        """
        return self._tables(node, rows) is not None

    def is_deeply_safe(self, node: Node, rows: Rows) -> bool:
        """As `is_safe`, with all reads that fill the tables."""
        return trampoline(self._is_deeply_safe(node, rows))

    def _is_deeply_safe(self, node: Node, rows: Rows) -> Recursion[bool]:
        key = (node, rows)
        if key not in self._deep:
            tables = self._tables(node, rows)
            self._deep[key] = tables is not None
            for table in tables or ():
                if not (yield self._is_deeply_safe(*table)):
                    self._deep[key] = False
                    break
        return self._deep[key]

    def _tables(self, node: Node, rows: Rows) -> list[tuple[Node, Rows]] | None:
        """The tables that ``node`` reads, with what is known of the sizes there; None where a read may leave a shape.

        Those that depend on the loops around them are looked into.
        """
        key = (node, rows)
        if key not in self._read:
            self._read[key] = self._find_tables(node, rows)
        return self._read[key]

    def _find_tables(self, node: Node, rows: Rows) -> list[tuple[Node, Rows]] | None:
        stack = [(node, rows)]
        seen = set()
        tables: dict[tuple[Node, Rows], None] = {}
        while stack:
            part, known = stack.pop()
            if (part, known) in seen:
                continue
            seen.add((part, known))
            facts = (*self.facts, *known)
            if not all(implied(row, facts) for row in inside_shape(self.graph, part)):
                return None
            if part.op == "read":
                table = part.args[0]
                if table.op == "comprehension" and not part.free.isdisjoint(table.free - self.outside):
                    stack.append((table, known))
                elif table.op == "comprehension":
                    tables[table, tuple(row for row in known if row.form.atoms() <= self.outside)] = None
            elif part.op in BINDERS:
                variables, more, body = self.graph.open(part)
                if not reads_no_data_outside(self.graph, more, facts, variables):
                    return None
                stack.append((body, known + more))
            elif part.op == "guard":
                if not reads_no_data_outside(self.graph, part.data, facts):
                    return None
                stack.append((part.args[0], known + part.data))
            else:
                stack += [(arg, known) for arg in part.args]
        return list(tables)


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
