"""Segments, ``starts[t] <= j < starts[t + 1]``: if ``starts`` never decreases, each j is in at most one of them.

So a value that depends on t and j has one entry for each j, where an array over t and j would have one for each pair:
the attention weights of a graph have one for each edge, if the edges of a node are a segment. The array is filled in
loops over the segments; calls check that ``starts`` does not decrease, and otherwise run another program.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sympy_tensordiff.graph.nodes import RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.indirect import IndirectIndex, data_entries
from sympy_tensordiff.integer.rows import Rows, shape_rows


class AxisSegment(NamedTuple):
    """Loops over the segments of an axis: ``starts[row] <= place < starts[row + 1]``."""

    starts: str
    """The name of the integer tensor."""
    row: int
    place: Affine
    """The index of the axis, perhaps with a sign and an offset."""
    rows: Rows
    """These two constraints, and the range of ``row`` over all segments."""
    length: Affine
    """The length of the axis, by the declared range of ``starts``."""

    def flattened(self, graph: Graph, node: Node) -> Node:
        """Return `node`, a value in these loops, as a function of ``place`` alone: the sum over the segments that
        contain it, of which there is at most one.
        """
        loop = graph.fresh(graph.names[self.row])
        renaming = {self.row: Affine.variable(loop)}
        rows = [row.substitute(renaming) for row in self.rows]
        value = graph.guard(tuple(rows[:2]), graph.substitute(node, renaming))
        return graph.sum((loop,), rows[2:], value)

    def around(self, rows: Rows) -> Rows:
        """Return the constraints of the loops, ``rows``, without those on ``row``, and with the range of the axis."""
        rest = tuple([row for row in rows if self.row not in row.form.atoms()])
        return (*rest, Constraint("ge", self.place), Constraint("ge", self.length - 1 - self.place))


def segment_in(graph: Graph, node: Node, rows: Rows, variables: Collection[int]) -> AxisSegment | None:
    """Return the segment of which `node` depends on the number and the place, in the loops over `variables` with the
    constraints ``rows``. None if there is none, or if a reduction in `node` runs along the places.

    It has all segments, whatever further conditions choose some of them, so that all of these read one array.
    """
    loops = frozenset(variables) & node.free
    for row in rows:
        for entry in data_entries([row.form]) if row.kind == "ge" else ():
            found = _segment_from(graph, row, entry, rows, loops)
            if found is not None:
                return None if _has_moving_ranges(node, found.place.atoms() & loops) else found
    return None


def _has_moving_ranges(node: Node, variables: Collection[int]) -> bool:
    """Return whether the range of a reduction in `node` begins or ends at one of `variables`, as in ``Sum_{k < j}``: in
    the loops over j it is a running sum, and an array of its values would take a sum for each.
    """
    reductions = [part for part in reachable(node) if part.op in RANGED]
    return any(not row.form.atoms().isdisjoint(variables) for part in reductions for row in part.data)


def _segment_from(
    graph: Graph, low: Constraint, entry: IndirectIndex, rows: Rows, loops: frozenset[int]
) -> AxisSegment | None:
    """Return the segment that begins at ``entry``, by the constraint ``low`` among `rows`; None if it is not one whose
    number and place are both indices of ``loops``.
    """
    if low.form.coefficient(entry) != -1 or len(entry.index) != 1 or entry.below is None:
        return None
    place, (index,) = low.form + Affine.variable(entry), entry.index
    moving, number = place.atoms() & loops, index.atoms() & loops
    if len(moving) != 1 or len(number) != 1 or moving == number or place.compounds():
        return None
    (variable,), (row,) = moving, number
    high = Constraint("ge", Affine.variable(IndirectIndex(entry.tensor, (index + 1,), entry.below)) - 1 - place)
    if abs(place.coefficient(variable)) != 1 or index != Affine.variable(row) or high not in rows:
        return None
    limits = (low, high, *shape_rows((index, index + 1), 2 * graph.integers[entry.tensor].shape))
    return AxisSegment(entry.tensor, row, place, limits, entry.below - 1)
