"""Loops that shelter data: what is read inside of its tensor only where the loops around run.

``jdx[M - 3]`` in ``l <= m + jdx[M - 3]`` is read only where ``m`` has a value, and may be outside
where it has none. A projection would carry it into the bounds of ``m``. While loops are nested,
such an entry has the indices that shelter it among its own: then no loop around theirs has it in
its bounds, nor have they, as with data that they select. Where it is inside only because all loops
have values, that they have some becomes a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine, Row, Variable
from sympy_tensordiff.integer.data import DataEntry, apart, data_entries
from sympy_tensordiff.integer.exact_projection import project_exactly
from sympy_tensordiff.integer.fourier_motzkin import eliminate, project
from sympy_tensordiff.integer.polyhedron import implied, is_empty

Facts = tuple[Row, ...]


def sheltered(
    graph: Graph, rows: Sequence[Row], variables: Sequence[int], facts: Facts
) -> tuple[Facts, Facts, dict[Variable, Affine]]:
    """The rows, the data in them with the indices that shelter them; and what gives the data as they are.

    Between these what the rows tell of data, that they are inside, where the loops around do not say so.
    Data that the facts hold are read around the loops already.
    """
    plain, data = apart(rows)
    plain += steady(graph, data, facts)
    read = set(data_entries(row.form for row in facts))
    to: dict[Variable, Affine] = {}
    back: dict[Variable, Affine] = {}
    more: dict[Row, None] = {}
    told: dict[Row, None] = {}
    for entry in data_entries(row.form for row in data):
        if entry in read:
            continue
        held = [row.form for row in data if entry in data_entries([row.form])]
        around = _around(graph, entry, plain, held, variables, facts)
        if around:
            new = DataEntry(entry.tensor, (*entry.index, *map(Affine.variable, around)))
            to[entry], back[new] = Affine.variable(new), Affine.variable(entry)
        inner = frozenset(variables).difference(around, entry.atoms())
        known = (*facts, *(row for row in plain if inner.isdisjoint(row.form.atoms())))
        needed = [row for row in graph.inside_data([Affine.variable(entry)]) if not implied(row, known)]
        if needed:
            found = _for_values(plain, inner, known)
            more.update(dict.fromkeys(found))
            told.update(
                dict.fromkeys(row for row in apart(needed)[0] if is_empty((row.negation(), *plain, *found), facts))
            )
    return (*(row.substitute(to) for row in rows), *more), tuple(told), back


def _for_values(plain: Sequence[Row], inner: frozenset[int], known: Facts) -> Facts:
    """Rows, not ``known``, without which the ``inner`` loops have no values."""
    told = project_exactly(plain, inner)
    if told is None:
        told = project(plain, inner) or ()
    return tuple(row for row in told if not implied(row, known))


def _around(
    graph: Graph, entry: DataEntry, plain: Sequence[Row], held: Sequence[Affine], variables: Sequence[int], facts: Facts
) -> list[int]:
    """The indices that an entry may be read inside of only; none where it is inside of its tensor for sure.

    These have bounds without it, and what holds it bounds another index. Fewer may be enough to tell that it is inside.
    """
    needed = graph.inside_data([Affine.variable(entry)])

    def is_inside(indices: Sequence[int]) -> bool:
        others = frozenset(variables).difference(indices, entry.atoms())
        known = (*facts, *(row for row in plain if others.isdisjoint(row.form.atoms())))
        return all(implied(row, known) for row in needed)

    if is_inside(()):
        return []
    bounded = _bounded(variables, plain)
    nested = [v for v in bounded if v not in entry.atoms()]
    nested += [v for v in variables if v not in bounded and v not in entry.atoms()]
    # In this order each entry stands in the bounds of an index inside of what shelters it.
    place = {v: n for n, v in enumerate(nested)}
    inner = min(max((place[v] for v in form.atoms() if v in place), default=0) for form in held)
    chosen = [v for v in nested[:inner] if v in bounded]
    for v in tuple(chosen) if is_inside(chosen) else ():
        fewer = [other for other in chosen if other != v]
        chosen = fewer if is_inside(fewer) else chosen
    return chosen


def _bounded(variables: Sequence[int], rows: Sequence[Row]) -> list[int]:
    """The variables that rows bound from below and from above, by each other and by what is no variable."""
    kept: list[int] = []
    left = list(variables)
    while kept != left:
        kept, lost = left, frozenset(variables).difference(left)
        own = [row.form for row in rows if lost.isdisjoint(row.form.atoms())]
        left = [v for v in kept if len({form.coefficient(v) > 0 for form in own if form.coefficient(v)}) == 2]
    return kept


def without_index(graph: Graph, v: int, value: Affine, rows: Sequence[Row]) -> Facts:
    """What rows say of the others, where an index becomes data that these may read outside of their tensors.

    With the data in its place the rows say the same, and no longer before the data are read.
    """
    plain, data = apart(rows)
    plain += steady(graph, data)
    bounds = [row for row in plain if row.kind == "ge"]
    others = [row for row in bounds if v not in row.form.atoms()]
    needed = graph.inside_data([value])
    if all(implied(row, others) for row in needed):
        return ()
    told = eliminate([row for row in bounds if v not in row.form.hidden()], v) or ()
    lost = tuple(row for row in needed if not implied(row, (*others, *told)))
    # Elimination has no rounded quotients: what these say beyond it is that the data are inside.
    exact = project_exactly(bounds, [v]) if lost else ()
    return told + tuple(row for row in lost if exact is None or implied(row, exact))


def steady(graph: Graph, rows: Sequence[Row], facts: Facts = ()) -> list[Row]:
    """The rows whose data are inside of their tensors wherever they are read: these shelter others as numbers do."""
    found: list[Row] = []
    for row in rows:
        entries = data_entries([row.form])
        extents = {extent for entry in entries for extent in graph.integers[entry.tensor].shape}
        known = (*facts, *(Row("ge", extent - 1) for extent in extents))
        if all(implied(inside, known) for inside in graph.inside_data([row.form])):
            found.append(row)
    return found
