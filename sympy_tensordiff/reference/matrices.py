"""Determinants, minors and inverses of small matrices of the oracle's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.reference.duals import Number, add, multiply, power, primal, to_float
from sympy_tensordiff.reference.inputs import ObjectArray


def determinant(matrix: ObjectArray) -> Number:
    """The determinant by Laplace's expansion, every minor once.

    Nothing is divided by, so that its derivatives are exact at singular matrices, too.
    """
    n = len(matrix)
    # From the last row up: the minors of the rows from `row` on, by their columns.
    minors: dict[tuple[int, ...], Number] = {(): 1}
    for row in reversed(range(n)):
        minors = {columns: _expand(matrix[row], columns, minors) for columns in combinations(range(n), n - row)}
    return minors[tuple(range(n))]


def _expand(row: ObjectArray, columns: tuple[int, ...], minors: dict[tuple[int, ...], Number]) -> Number:
    total: Number = 0
    for place, column in enumerate(columns):
        minor = minors[columns[:place] + columns[place + 1 :]]
        total = add(total, multiply((-1) ** place, multiply(row[column], minor)))
    return total


def cofactors(order: int, matrix: ObjectArray) -> ObjectArray:
    """All derivatives of that order of the determinant by entries: axes row, column, row, column, …

    An entry is the determinant of the matrix without these rows and columns, with the sign of the
    permutation that brings them to the front; 0 where a row or a column is there twice.
    """
    result = np.full(matrix.shape * order, 0, dtype=object)
    known: dict[tuple[frozenset[int], frozenset[int]], Number] = {}
    for position in np.ndindex(result.shape):
        rows, columns = position[::2], position[1::2]
        key = frozenset(rows), frozenset(columns)
        if len(key[0]) < order or len(key[1]) < order:
            continue
        if key not in known:
            known[key] = determinant(np.delete(np.delete(matrix, rows, axis=0), columns, axis=1))
        sign = (-1) ** (sum(position) + _inversions(rows) + _inversions(columns))
        result[position] = multiply(sign, known[key])
    return result


def _inversions(numbers: Sequence[int]) -> int:
    return sum(first > second for first, second in combinations(numbers, 2))


def inverse(matrix: ObjectArray) -> ObjectArray:
    """The inverse by Gauss and Jordan's elimination; pivots are the largest values of their columns.

    Raises
    ------
    ArgumentError
        The matrix is singular.
    """
    n = len(matrix)
    rows = np.concatenate([matrix, np.identity(n, dtype=int).astype(object)], axis=1)
    for column in range(n):
        pivot = max(range(column, n), key=lambda row: abs(to_float(primal(rows[row, column]))))
        if primal(rows[pivot, column]) == 0:
            raise ArgumentError(f"the matrix of which the inverse is needed is singular: {matrix.tolist()}")
        rows[[column, pivot]] = rows[[pivot, column]]
        scale = power(rows[column, column], -1)
        rows[column] = [multiply(scale, number) for number in rows[column]]
        for row in range(n):
            factor = multiply(-1, rows[row, column])
            if row != column:
                rows[row] = [add(a, multiply(factor, b)) for a, b in zip(rows[row], rows[column], strict=True)]
    return rows[:, n:]
