"""Terms that are zero but where axes are equal, or in one residue class: ``out[p, q] = v(p)*[p == q] + …``.

With a test inside of the loops over all axes most instances do nothing, and no processor vectorises the others.
Instead, one pass over the axes that are left adds ``v(p)`` to ``out[p, p]``. So the array is filled with zeros, or
with the terms that have no such condition, before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import gcd

from sympy_tensordiff.codegen.scatters import Part, unguarded
from sympy_tensordiff.graph.nodes import Graph, Node, ranges
from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.data import data_entries
from sympy_tensordiff.integer.polyhedron import implied

Rows = tuple[Row, ...]


def split_diagonals(
    graph: Graph, axes: Sequence[int], extents: Sequence[Affine], facts: Rows, guard: Rows, body: Node
) -> tuple[Node, list[Part]]:
    """What of ``body``, under ``guard``, is spread over an array with these ``axes``, and what is on diagonals of it.

    ``facts`` say what is known of the sizes.
    """
    rest, parts = [], []
    for term in body.args if body.op == "add" else (body,):
        conditions, value = unguarded(graph, term)
        part = _Diagonal(graph, axes, extents, (*guard, *conditions)).part(facts, value)
        if part is None:
            rest.append(term)
        else:
            parts.append(part)
    return graph.add(rest), parts


class _Diagonal:
    """Where conditions hold: ``index`` is the entry at a point of the axes that are ``left``, with their extents."""

    def __init__(self, graph: Graph, axes: Sequence[int], extents: Sequence[Affine], conditions: Rows) -> None:
        self.graph = graph
        self.index = {axis: Affine.variable(axis) for axis in axes}
        self.left = dict(zip(axes, extents, strict=True))
        self.tests = (*conditions, *ranges(axes, extents))
        while (solved := _equation(self.tests, self.left)) is not None:
            row, axis, form = solved
            del self.left[axis]
            self.replace(row, axis, form)
        while (strided := _residue(self.tests, self.left)) is not None:
            self.stride(*strided)

    def replace(self, row: Row, axis: int, form: Affine) -> None:
        """Put a form in the place of an axis, so that ``row`` holds."""
        new = {axis: form}
        self.tests = tuple(test.substitute(new) for test in self.tests if test is not row)
        self.index = {key: place.substitute(new) for key, place in self.index.items()}

    def stride(self, row: Row, axis: int, first: Affine) -> None:
        """Count the values of an axis in the residue class that begins with ``first``."""
        new, step = self.graph.fresh(self.graph.names[axis]), row.modulus
        order = [new if key == axis else key for key in self.left]
        self.left[new] = quotient(self.left.pop(axis) - first + step - 1, step)
        self.left = {key: self.left[key] for key in order}
        self.replace(row, axis, step * Affine.variable(new) + first)

    def part(self, facts: Rows, value: Node) -> Part | None:
        """The additions that ``value`` stands for; None where no condition ties the axes."""
        if all(place == Affine.variable(axis) for axis, place in self.index.items()):
            return None
        variables, extents = tuple(self.left), tuple(self.left.values())
        box = ranges(variables, extents)
        needed = tuple(dict.fromkeys(test for test in self.tests if not implied(test, (*facts, *box))))
        value = self.graph.substitute(value, self.index)
        return Part(variables, extents, box, needed, tuple(self.index.values()), value, exclusive=True)


def _equation(tests: Rows, axes: Collection[int]) -> tuple[Row, int, Affine] | None:
    """An equation that gives an axis, the last one that it can, as a form of the others."""
    for row in tests:
        if row.kind == "eq" and not data_entries([row.form]):
            for axis in reversed(list(axes)):
                c = row.form.coefficient(axis)
                if abs(c) == 1 and axis not in row.form.hidden():
                    return row, axis, Affine({axis: 1}) - c * row.form
    return None


def _residue(tests: Rows, axes: Collection[int]) -> tuple[Row, int, Affine] | None:
    """A congruence that selects a residue class of one axis, the axis and the first of its values."""
    for row in tests:
        own = row.form.atoms().intersection(axes)
        if row.kind == "mod" and len(own) == 1 and not data_entries([row.form]):
            (axis,) = own
            c = row.form.coefficient(axis) % row.modulus
            if axis not in row.form.hidden() and gcd(c, row.modulus) == 1:
                rest = (Affine({axis: row.form.coefficient(axis)}) - row.form) * pow(c, -1, row.modulus)
                return row, axis, rest - row.modulus * quotient(rest, row.modulus)
    return None
