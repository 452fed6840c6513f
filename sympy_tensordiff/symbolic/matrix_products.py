"""Einsum products of matrices and vectors as products of SymPy's matrices.

A label that two factors share, and that is summed, is a matrix product; vectors are columns. Where
more factors share one, vectors become diagonal matrices, and matrices between the same two labels
become one, entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from sympy import DiagMatrix, DiagonalOf, HadamardProduct, MatMul, Mul, OneMatrix, Trace
from sympy.matrices.expressions.matexpr import MatrixElement


class Part(NamedTuple):
    """A matrix and its two labels, a column and its label, or a scalar."""

    value: Any
    labels: str

    def facing(self, row: str) -> Any:
        """The matrix with the axis of a label first."""
        return self.value if self.labels[0] == row else self.value.T

    def other(self, label: str) -> str:
        """The label of the other axis; none of a column."""
        return self.labels.replace(label, "")


def contract(parts: Iterable[Part], output: str) -> Any:
    """The product of the parts, summed over all labels that are not in the output, which has at most two.

    A matrix, a column where the output is one label, a scalar where there is none. None where
    there is no such product: three matrices share a label that is summed.
    """
    rest = [_diagonal(part, output) for part in parts]
    while True:
        summed = {label for part in rest for label in part.labels if label not in output}
        if not summed:
            return _joined(rest, output)
        step = _contraction(rest, summed) or _merger(rest, summed)
        if step is None:
            return None
        members, part = step
        rest[members[0]] = part
        rest = [part for position, part in enumerate(rest) if position not in members[1:]]


Step = tuple[tuple[int, ...], Part]


def _diagonal(part: Part, output: str) -> Part:
    """The column of a diagonal that is read."""
    if len(set(part.labels)) == len(part.labels):
        return part
    return Part(DiagonalOf(part.value), part.labels[0])


def _holders(parts: Sequence[Part], label: str) -> tuple[int, ...]:
    return tuple(position for position, part in enumerate(parts) if label in part.labels)


def _contraction(parts: Sequence[Part], summed: set[str]) -> Step | None:
    """The sum over a label that one or two parts have; of parts that stand close to each other where possible."""
    found = [(label, holders) for label in summed if len(holders := _holders(parts, label)) < 3]
    found.sort(key=lambda pair: (pair[1][-1] - pair[1][0], pair[1], -parts[pair[1][0]].labels.index(pair[0])))
    for label, holders in found:
        if len(holders) == 1:
            return holders, _total(parts[holders[0]], label)
        left, right = (parts[position] for position in holders)
        if left.other(label) != right.other(label) or not left.other(label):
            return holders, _product(left, right, label)
        if left.other(label) in summed and _holders(parts, left.other(label)) == holders:
            product = (left.value, right.value) if left.labels != right.labels else (left.value.T, right.value)
            return holders, Part(Trace(times(*product)), "")
    return None


def _total(part: Part, label: str) -> Part:
    """The sum over a label that nothing else has."""
    if isinstance(part.value, DiagonalOf):
        return Part(Trace(part.value.arg), "")
    length = part.value.shape[part.labels.index(label)]
    if len(part.labels) == 1:
        return Part(entry(times(OneMatrix(1, length), part.value)), "")
    rest = part.other(label)
    return Part(times(part.facing(rest), OneMatrix(length, 1)), rest)


def _product(left: Part, right: Part, label: str) -> Part:
    """The matrix product over a label."""
    if len(left.labels) == len(right.labels) == 1:
        return Part(entry(times(left.value.T, right.value)), "")
    if len(right.labels) == 1:
        return Part(times(left.facing(left.other(label)), right.value), left.other(label))
    if len(left.labels) == 1:
        return Part(times(right.facing(right.other(label)), left.value), right.other(label))
    row, column = left.other(label), right.other(label)
    return Part(times(left.facing(row), right.facing(label)), row + column)


def _merger(parts: Sequence[Part], summed: set[str]) -> Step | None:
    """Two parts that share a label with others, as one part."""
    for first, second in combinations(range(len(parts)), 2):
        left, right = parts[first], parts[second]
        common = summed.intersection(left.labels).intersection(right.labels)
        if not common:
            continue
        if set(left.labels) == set(right.labels):
            return (first, second), Part(by_entry(left.value, right.facing(left.labels[0])), left.labels)
        if len(left.labels) == 1 or len(right.labels) == 1:
            column, matrix = (left, right) if len(left.labels) == 1 else (right, left)
            return (first, second), Part(_scaled(matrix, column), matrix.labels)
    return None


def _scaled(matrix: Part, column: Part) -> Any:
    """The matrix with its rows, or its columns, multiplied by the entries of a column."""
    diagonal = DiagMatrix(column.value)
    first = column.labels == matrix.labels[0]
    return times(diagonal, matrix.value) if first else times(matrix.value, diagonal)


def _joined(parts: Sequence[Part], output: str) -> Any:
    """What is left without sums, entry by entry."""
    scalars = [part.value for part in parts if not part.labels]
    if not output:
        return Mul(*scalars)
    columns = {label: [part.value for part in parts if part.labels == label] for label in output}
    matrices = [part.facing(output[0]) for part in parts if len(part.labels) == 2]
    if len(output) == 1:
        return times(*scalars, by_entry(*columns[output]))
    if not matrices:
        left, right = (by_entry(*columns[label]) for label in output)
        return times(*scalars, left, right.T)
    matrix = Part(by_entry(*matrices), output)
    for label in output:
        if columns[label]:
            matrix = Part(_scaled(matrix, Part(by_entry(*columns[label]), label)), output)
    return times(*scalars, matrix.value)


def times(*factors: Any) -> Any:
    """The matrix product of matrices, and of scalars in front."""
    return MatMul(*factors).doit(deep=False)


def by_entry(*matrices: Any) -> Any:
    """The product of matrices of one shape entry by entry."""
    return matrices[0] if len(matrices) == 1 else HadamardProduct(*matrices).doit(deep=False)


def entry(matrix: Any) -> Any:
    """The number that a matrix of one entry holds."""
    return MatrixElement(matrix, 0, 0)
