"""The union of the entries of all terms in the order of compressed rows, and where each value goes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sympy
from numpy.typing import NDArray

from sympy_tensordiff.errors import DataIndexError, OutOfShapeError
from sympy_tensordiff.structure.points import check_inside, enumerate_points, evaluate, holds
from sympy_tensordiff.structure.terms import Binder, Term
from sympy_tensordiff.symbolic.indices import Substitution, data_of
from sympy_tensordiff.symbolic.replacement import Replacement

Shapes = Sequence[tuple[int, ...]]


class Group(NamedTuple):
    """Terms over the same points; where they are ``dense``, they fill blocks."""

    binders: tuple[Binder, ...]
    conditions: tuple[Any, ...]
    terms: tuple[Term, ...]
    dense: bool

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the terms, each once."""
        return tuple(dict.fromkeys(term.value for term in self.terms))


class Pattern(NamedTuple):
    """Compressed rows, the points of each group (None: it has none at these sizes), and where each entry comes from.

    The values of all groups stand one after the other, each group's `Group.values` in turn at all of its points. Entry
    ``e`` is the sum of those at ``sources[starts[e]:starts[e + 1]]``; ``starts`` is None where each has one source.
    """

    shape: tuple[int, int]
    indptr: NDArray[Any]
    columns: NDArray[Any]
    points: tuple[list[NDArray[np.int64]] | None, ...]
    sources: NDArray[Any]
    starts: NDArray[Any] | None

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
    renamings: dict[Any, Replacement] = {}
    for term in terms:
        marked = term._replace(value=sympy.S.One).renamed(
            Replacement({b.index: sympy.Symbol(f"%{n}", integer=True) for n, b in enumerate(term.binders)})
        )
        key = (marked.binders, marked.conditions, term.is_dense)
        head = heads.setdefault(key, term)
        names = tuple((own.index, other.index) for own, other in zip(term.binders, head.binders, strict=True))
        rule = Substitution({own: other for own, other in names if own != other})
        groups.setdefault(key, []).append(term.renamed(renamings.setdefault(names, Replacement(rule))))
    added = {key: _added(members) for key, members in groups.items()}  # of none, where all of its terms cancel
    return tuple(
        Group(heads[key].binders, heads[key].conditions, members, heads[key].is_dense)
        for key, members in added.items()
        if members
    )


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
    starts = [np.cumsum([0, *map(math.prod, shapes)]) for shapes in sizes]
    shape = int(starts[0][-1]), int(starts[1][-1])
    points = [points_of(group, known) for group in groups]
    keys: list[NDArray[np.int64]] = []
    sources: list[NDArray[np.int64]] = []
    first = 0
    for group, at in zip(groups, points, strict=True):
        if at is None:
            continue
        count, values = len(at[0]) if at else 1, group.values
        for term in group.terms:
            row, column = _flat_positions(term, group, at, sizes, starts, known)
            own = np.arange(count) + (first + count * values.index(term.value))
            for r, c in ((row, column), (column, row)) if term.mirrored else ((row, column),):
                inside = np.flatnonzero(r >= c) if lower else slice(None)
                keys.append((r * shape[1] + c)[inside])
                sources.append(own[inside])
        first += count * len(values)
    return _sorted(keys, sources, shape, tuple(points), first)


def _sorted(
    keys: list[NDArray[np.int64]], sources: list[NDArray[np.int64]], shape: tuple[int, int], points: Any, total: int
) -> Pattern:
    """Equal keys are one entry. The keys of a term are sorted as a rule, and a stable sort merges sorted runs."""
    everything = np.concatenate([*keys, np.empty(0, np.int64)])
    keys.clear()
    dtype = np.int32 if max(*shape, len(everything), total) < 2**31 else np.int64
    order = np.argsort(everything, kind="stable")
    everything = everything[order]
    source = np.concatenate([*sources, np.empty(0, np.int64)], dtype=dtype, casting="same_kind")[order]
    del order
    new = np.ones(len(everything), bool)
    np.not_equal(everything[1:], everything[:-1], out=new[1:])
    entries = everything[new]
    starts = None if len(entries) == len(everything) else np.append(np.flatnonzero(new), len(new)).astype(dtype)
    rows = entries // max(shape[1], 1)
    columns = (entries - rows * shape[1]).astype(dtype)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))]).astype(dtype)
    return Pattern(shape, indptr, columns, points, source, starts)


def points_of(group: Group, known: Mapping[Any, Any]) -> list[NDArray[np.int64]] | None:
    """The points of a group, None where there are none."""
    if not group.binders:
        return [] if holds(group.conditions, known) else None
    coordinates = enumerate_points(group.binders, group.conditions, known)
    return coordinates if len(coordinates[0]) else None


def _flat_positions(
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
            error = DataIndexError if data_of(index) else OutOfShapeError
            check_inside(position, length, f"the index {index} on axis {axis} of variable {place.tensor}", error)
            total = total * length + position
        flat.append(np.broadcast_to(total + start[place.tensor], (count,)))
    return flat[0], flat[1]
