"""The sparsity pattern of a sum of terms in compressed rows, and the map from computed values to its entries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import sympy

from sympy_tensordiff.errors import DataIndexError, OutOfShapeError
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.structure.points import all_hold, check_inside, enumerate_points, evaluate
from sympy_tensordiff.structure.terms import DerivativeTerm
from sympy_tensordiff.symbolic.expressions.replacement import Replacement, Substitution
from sympy_tensordiff.symbolic.index_notation.indices import data_of
from sympy_tensordiff.symbolic.index_notation.limits import IndexRange

if TYPE_CHECKING:
    from numpy.typing import NDArray

Shapes = Sequence[tuple[int, ...]]


class TermGroup(NamedTuple):
    """Terms of a derivative with the same index ranges and conditions; one loop computes their values. ``dense`` says
    that the terms fill whole blocks of the matrix.
    """

    binders: tuple[IndexRange, ...]
    conditions: tuple[Any, ...]
    terms: tuple[DerivativeTerm, ...]
    dense: bool

    @property
    def values(self) -> tuple[Any, ...]:
        """The expressions (`value`) of the derivative terms in this group, without duplicates, in order of first
        occurrence.
        """
        return tuple(dict.fromkeys(term.value for term in self.terms))


class SparsityPattern(NamedTuple):
    """A sparsity pattern in compressed-row (CSR) form. It also lists, for each stored entry, the numbers of the
    computed values whose sum is this entry.

    The values of all groups are concatenated: for each group, each of `TermGroup.values` at all points. Entry ``e`` is
    the sum of the values at ``sources[starts[e]:starts[e + 1]]``; ``starts`` is None if each entry has one source.
    """

    shape: tuple[int, int]
    indptr: NDArray[Any]
    columns: NDArray[Any]
    points: tuple[list[NDArray[np.int64]] | None, ...]
    sources: NDArray[Any]
    starts: NDArray[Any] | None

    @property
    def rows(self) -> NDArray[Any]:
        """The row number of each stored entry."""
        return np.repeat(np.arange(self.shape[0], dtype=self.columns.dtype), np.diff(self.indptr))


def group_terms(terms: Sequence[DerivativeTerm]) -> tuple[TermGroup, ...]:
    """Partition the derivative terms ``terms`` into groups with equal index ranges and conditions, so that one loop can
    compute each group. Drop terms that cancel.
    """
    groups: dict[Any, list[DerivativeTerm]] = {}
    first_terms: dict[Any, DerivativeTerm] = {}
    renamings: dict[Any, Replacement] = {}
    for term in terms:
        canonical = term._replace(value=sympy.S.One).renamed(
            Replacement({b.index: sympy.Symbol(f"%{n}", integer=True) for n, b in enumerate(term.binders)})
        )
        key = (canonical.binders, canonical.conditions, term.is_dense)
        first_term = first_terms.setdefault(key, term)
        names = tuple((own.index, other.index) for own, other in zip(term.binders, first_term.binders, strict=True))
        rule = Substitution({own: other for own, other in names if own != other})
        groups.setdefault(key, []).append(term.renamed(renamings.setdefault(names, Replacement(rule))))
    added = {key: _add_equal_positions(members) for key, members in groups.items()}  # () if all terms cancel
    return tuple(
        TermGroup(first_terms[key].binders, first_terms[key].conditions, members, first_terms[key].is_dense)
        for key, members in added.items()
        if members
    )


def _add_equal_positions(terms: Sequence[DerivativeTerm]) -> tuple[DerivativeTerm, ...]:
    """Return ``terms`` with those at equal positions added up; a sum of 0 is dropped."""
    values: dict[Any, Any] = {}
    for term in terms:
        key = (term.row, term.column, term.mirrored)
        values[key] = values.get(key, 0) + term.value
    found = [
        DerivativeTerm(terms[0].binders, terms[0].conditions, value, *key)
        for key, value in values.items()
        if value != 0
    ]
    return tuple(found)


def find_pattern(
    groups: Sequence[TermGroup], sizes: tuple[Shapes, Shapes], environment: Mapping[Any, Any], *, lower: bool = False
) -> SparsityPattern:
    """Return the sparsity pattern of the matrix that is the sum of all ``groups`` of terms; with ``lower``, of its
    lower triangle only. ``sizes`` has the shapes of the tensors along rows and columns, ``environment`` the values of
    size symbols and index arrays.
    """
    starts = [np.cumsum([0, *map(math.prod, shapes)]) for shapes in sizes]
    shape = int(starts[0][-1]), int(starts[1][-1])
    points = [points_of_group(group, environment) for group in groups]
    keys: list[NDArray[np.int64]] = []
    sources: list[NDArray[np.int64]] = []
    first = 0
    for group, coordinates in zip(groups, points, strict=True):
        if coordinates is None:
            continue
        count, values = len(coordinates[0]) if coordinates else 1, group.values
        for term in group.terms:
            row, column = _flat_positions(term, group, coordinates, sizes, starts, environment)
            own = np.arange(count) + (first + count * values.index(term.value))
            for r, c in ((row, column), (column, row)) if term.mirrored else ((row, column),):
                inside = np.flatnonzero(r >= c) if lower else slice(None)
                keys.append((r * shape[1] + c)[inside])
                sources.append(own[inside])
        first += count * len(values)
    return _to_compressed_rows(keys, sources, shape, tuple(points), first)


def _to_compressed_rows(
    keys: list[NDArray[np.int64]], sources: list[NDArray[np.int64]], shape: tuple[int, int], points: Any, total: int
) -> SparsityPattern:
    """Return the CSR pattern of a sparse matrix of ``shape``, given the flat (row-major) positions ``keys`` of computed
    values and their numbers ``sources``. Values at equal positions will be added up to one entry.

    ``sources`` has the number of the value at each position, from 0 to ``total`` - 1. ``points`` is stored in the
    pattern unchanged.
    """
    all_keys = np.concatenate([*keys, np.empty(0, np.int64)])
    keys.clear()
    dtype = np.int32 if max(*shape, len(all_keys), total) < 2**31 else np.int64
    order = np.argsort(all_keys, kind="stable")
    all_keys = all_keys[order]
    source = np.concatenate([*sources, np.empty(0, np.int64)], dtype=dtype, casting="same_kind")[order]
    del order
    new = np.ones(len(all_keys), bool)
    np.not_equal(all_keys[1:], all_keys[:-1], out=new[1:])
    entries = all_keys[new]
    starts = None if len(entries) == len(all_keys) else np.append(np.flatnonzero(new), len(new)).astype(dtype)
    rows = entries // max(shape[1], 1)
    columns = (entries - rows * shape[1]).astype(dtype)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))]).astype(dtype)
    return SparsityPattern(shape, indptr, columns, points, source, starts)


def points_of_group(group: TermGroup, environment: Mapping[Any, Any]) -> list[NDArray[np.int64]] | None:
    """Return the values of each index at all points of ``group``, as one array per index; [] if it has no indices, None
    if it has no point. ``environment`` has the values of sizes and index arrays.
    """
    if not group.binders:
        return [] if all_hold(group.conditions, environment) else None
    coordinates = enumerate_points(group.binders, group.conditions, environment)
    return coordinates if len(coordinates[0]) else None


def _flat_positions(
    term: DerivativeTerm,
    group: TermGroup,
    points: list[NDArray[np.int64]],
    sizes: tuple[Shapes, Shapes],
    starts: Sequence[NDArray[Any]],
    environment: Mapping[Any, Any],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row numbers and the column numbers of the derivative term ``term`` in the matrix, at all ``points``,
    which are arrays of the values of each index of ``group``. Raise an error if an index is out of bounds.

    ``sizes`` are the shapes of the tensors along rows and columns, ``starts`` their first rows and columns;
    ``environment`` has the values of sizes and index arrays.
    """
    values = {**environment, **dict(zip((b.index for b in group.binders), points, strict=True))}
    count = len(points[0]) if points else 1
    flat = []
    for block_index, shapes, start in zip((term.row, term.column), sizes, starts, strict=True):
        total: Any = np.int64(0)
        for axis, (index, length) in enumerate(zip(block_index.indices, shapes[block_index.tensor], strict=True)):
            position = evaluate(index, values)
            error = DataIndexError if data_of(index) else OutOfShapeError
            check_inside(position, length, f"the index {index} on axis {axis} of variable {block_index.tensor}", error)
            total = total * length + position
        flat.append(np.broadcast_to(total + start[block_index.tensor], (count,)))
    return flat[0], flat[1]
