"""The union of the entries of all terms in the order of compressed rows, and where each value goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sympy
from numpy.typing import NDArray

from sympy_tensordiff.structure.points import check_inside, enumerate_points, evaluate, holds
from sympy_tensordiff.structure.terms import Binder, Place, Term

Shapes = Sequence[tuple[int, ...]]


class Group(NamedTuple):
    """Terms over the same points; ``dense`` of them fill blocks."""

    binders: tuple[Binder, ...]
    conditions: tuple[Any, ...]
    terms: tuple[Term, ...]
    dense: bool


class Pattern(NamedTuple):
    """Compressed rows, and for each group its points and for each of its terms the positions of the values.

    ``points[g]`` is None where the group has none at these sizes. ``targets[g][t]`` holds for each point of the group the
    position in the values, and a second array for the mirrored entry or None; positions past the last are dropped.
    """

    shape: tuple[int, int]
    indptr: NDArray[Any]
    columns: NDArray[Any]
    points: tuple[list[NDArray[np.int64]] | None, ...]
    targets: tuple[tuple[tuple[NDArray[Any], NDArray[Any] | None], ...], ...]

    @property
    def rows(self) -> NDArray[Any]:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=self.columns.dtype), np.diff(self.indptr))


def grouped(terms: Sequence[Term]) -> tuple[Group, ...]:
    """Terms over equal ranges under equal conditions together, in the order of their first ones.

    Each term of a derivative has indices of its own: those of the first one of a group replace those of the others.
    """
    groups: dict[Any, list[Term]] = {}
    heads: dict[Any, Term] = {}
    for term in terms:
        marks = {b.index: sympy.Symbol(f"%{n}", integer=True) for n, b in enumerate(term.binders)}
        ranges = tuple((b.low.xreplace(marks), b.high.xreplace(marks)) for b in term.binders)
        key = (ranges, tuple(c.xreplace(marks) for c in term.conditions), term.is_dense)
        head = heads.setdefault(key, term)
        groups.setdefault(key, []).append(_with_indices_of(term, head))
    return tuple(
        Group(heads[key].binders, heads[key].conditions, _added(members), heads[key].is_dense)
        for key, members in groups.items()
    )


def _with_indices_of(term: Term, head: Term) -> Term:
    names = {own.index: other.index for own, other in zip(term.binders, head.binders, strict=True)}
    row, column = (Place(p.tensor, tuple(i.xreplace(names) for i in p.indices)) for p in (term.row, term.column))
    return Term(head.binders, head.conditions, term.value.xreplace(names), row, column, term.mirrored)


def _added(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Terms at equal places are one; what cancels is none."""
    values: dict[Any, Any] = {}
    for term in terms:
        key = (term.row, term.column, term.mirrored)
        values[key] = values.get(key, 0) + term.value
    found = [Term(terms[0].binders, terms[0].conditions, value, *key) for key, value in values.items() if value != 0]
    return tuple(found)


def find_pattern(
    groups: Sequence[Group], sizes: tuple[Shapes, Shapes], known: Mapping[Any, Any], *, lower: bool = False
) -> Pattern:
    """The pattern of the sum of all groups, for rows and columns of tensors with the given shapes.

    ``lower`` drops the entries above the diagonal.
    """
    starts = [np.cumsum([0, *(_count(shape) for shape in shapes)]) for shapes in sizes]
    shape = int(starts[0][-1]), int(starts[1][-1])
    points = [points_of(group, known) for group in groups]
    keys: list[NDArray[np.int64]] = []
    for group, at in zip(groups, points, strict=True):
        for term in group.terms if at is not None else ():
            row, column = _flat_places(term, group, at or [], sizes, starts, known)
            for r, c in ((row, column), (column, row)) if term.mirrored else ((row, column),):
                key = r * shape[1] + c
                keys.append(np.where(r >= c, key, shape[0] * shape[1]) if lower else key)
    entries, positions = _unique(keys, shape[0] * shape[1])
    counts = np.bincount(entries // max(shape[1], 1), minlength=shape[0])
    dtype = np.int32 if max(*shape, len(entries)) < 2**31 else np.int64
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(dtype)
    pieces = iter(np.split(positions, np.cumsum([len(k) for k in keys])[:-1]) if keys else [])
    targets = tuple(
        tuple((next(pieces), next(pieces) if term.mirrored else None) for term in group.terms) if at is not None else ()
        for group, at in zip(groups, points, strict=True)
    )
    return Pattern(shape, indptr, (entries % max(shape[1], 1)).astype(dtype), tuple(points), targets)


def points_of(group: Group, known: Mapping[Any, Any]) -> list[NDArray[np.int64]] | None:
    """The points of a group, None where there are none."""
    if not group.binders:
        return [] if holds(group.conditions, known) else None
    coordinates = enumerate_points(group.binders, group.conditions, known)
    return coordinates if len(coordinates[0]) else None


def _flat_places(
    term: Term,
    group: Group,
    points: list[NDArray[np.int64]],
    sizes: tuple[Shapes, Shapes],
    starts: Sequence[NDArray[Any]],
    known: Mapping[Any, Any],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of all points; C order within a tensor, tensors one after the other."""
    values = {**known, **dict(zip((b.index for b in group.binders), points, strict=True))}
    count = len(points[0]) if points else 1
    flat = []
    for place, shapes, start in zip((term.row, term.column), sizes, starts, strict=True):
        total: Any = np.int64(0)
        for axis, (index, length) in enumerate(zip(place.indices, shapes[place.tensor], strict=True)):
            position = evaluate(index, values)
            check_inside(position, length, f"the index {index} on axis {axis} of variable {place.tensor}")
            total = total * length + position
        flat.append(np.broadcast_to(total + start[place.tensor], (count,)))
    return flat[0], flat[1]


def _unique(keys: Sequence[NDArray[np.int64]], dropped: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The sorted distinct keys below ``dropped``, and the place of each key among them.

    The keys of one term are sorted as a rule, and a stable sort merges sorted runs.
    """
    everything = np.concatenate(keys) if keys else np.empty(0, np.int64)
    order = np.argsort(everything, kind="stable")
    ordered = everything[order]
    new = np.empty(len(ordered), bool)
    if len(ordered):
        new[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    positions = np.empty(len(ordered), np.int32 if len(ordered) < 2**31 else np.int64)
    positions[order] = np.cumsum(new, dtype=positions.dtype) - 1
    entries = ordered[new]
    return entries[: np.searchsorted(entries, dropped)], positions


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))
