"""Integer linear systems ``A x = b`` with an unknown right side: Smith form, kernel, cokernel.

The laws are those of Urban and van der Smagt (2017), sec. 4.1, eqs. (9) to (19). The paper
builds the Smith form by Bézout steps (its algorithm 1), after which the transforms of a 12x12
matrix have hundreds of digits. Here the matrix is brought to echelon form by columns and by
rows in turn, each time with a transform kept short by lattice reduction, until it is diagonal.

A matrix is a sequence of rows of integers; where it may have no rows, its number of columns is
passed as well. Everything is exact, and the same matrix gives the same result in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from operator import index
from typing import NamedTuple, TypeAlias

from .lattice import (
    Rows,
    canonical_basis,
    dot,
    echelon,
    first_nonzero,
    identity,
    negated,
    product,
    shortened,
    transposed,
)

Vector: TypeAlias = tuple[int, ...]
Matrix: TypeAlias = tuple[Vector, ...]


class SolutionTerm(NamedTuple):
    """One term of a particular solution x of ``A x = b``, as a function of the right side b: the vector ``column``
    times the number ``(row . b)/factor``.
    """

    row: Vector
    factor: int
    column: Vector


class Congruence(NamedTuple):
    """The condition ``row . b == 0 (mod modulus)`` that a right side ``b`` must satisfy for an integer solution;
    ``modulus > 1``.
    """

    row: Vector
    modulus: int


class IntegerSolution(NamedTuple):
    """The integer solutions x of ``matrix * x = b`` for all right sides ``b``, as formulas in ``b``: the conditions for
    a solution, one particular solution, and a basis of the solutions for ``b = 0``.

    Solutions exist if and only if all ``equations`` (rows ``c`` with ``c . b == 0``) and all
    ``congruences`` hold. They are then, each once, the sum of the ``particular`` terms
    plus all integer combinations of the vectors of ``kernel``.
    """

    particular: tuple[SolutionTerm, ...]
    congruences: tuple[Congruence, ...]
    equations: Matrix
    kernel: Matrix


def kernel_basis(matrix: Sequence[Sequence[int]], columns: int | None = None) -> Matrix:
    """Return a short basis of all integer vectors ``x`` with ``matrix * x = 0``. ``columns`` is the number of columns,
    needed for a matrix without rows.

    It is LLL-reduced, then each vector is shortened once more by all others. The first non-zero
    entry of each vector is positive; vectors with few non-zero entries come first, short ones
    first among those.

    >>> kernel_basis([[1, -2]])  # fig. 3 of the paper
    ((2, 1),)
    >>> kernel_basis([[6, 10, 15]])
    ((0, 3, -2), (5, 0, -2))
    >>> kernel_basis([], columns=2)
    ((1, 0), (0, 1))
    """
    return _as_tuples(_diagonalise(*_check_matrix(matrix, columns)).kernel)


def cokernel(matrix: Sequence[Sequence[int]], columns: int | None = None) -> Matrix:
    """Return the rows ``c`` that decide whether ``matrix*x = b`` has a rational solution: it has one if and only if ``c
    . b == 0`` for all of them. ``columns`` is the number of columns, needed for a matrix without rows.

    >>> cokernel([[2], [1]])  # x[2*i, i]
    ((1, -2),)
    """
    return _as_tuples(_diagonalise(*_check_matrix(matrix, columns)).cokernel)


def solve(matrix: Sequence[Sequence[int]], columns: int | None = None) -> IntegerSolution:
    """Return the integer solutions of ``matrix * x = b`` for all ``b`` at once, as an `IntegerSolution`. ``columns`` is
    the number of columns, needed for a matrix without rows.

    Eq. (46) of the paper drops "I b integer", which does not follow from the ranges: each factor
    above 1 gives a congruence. The factors are those of a diagonal form in which one need not
    divide the next, so independent conditions stay independent: ``x[2*i, 3*j]``
    gives one modulo 2 and one modulo 3, whereas the Smith form has a single one modulo 6.

    >>> solve([[2, 4]])  # x[2*i + 4*j]
    IntegerSolution(particular=(SolutionTerm(row=(1,), factor=2, column=(1, 0)),), \
congruences=(Congruence(row=(1,), modulus=2),), equations=(), kernel=((2, -1),))
    >>> solve([[2], [1]])  # x[2*i, i]
    IntegerSolution(particular=(SolutionTerm(row=(0, 1), factor=1, column=(1,)),), \
congruences=(), equations=((1, -2),), kernel=())
    >>> solve([[2, 0], [0, 3]]).congruences
    (Congruence(row=(1, 0), modulus=2), Congruence(row=(0, 1), modulus=3))
    """
    left, factors, right, cokernel, kernel = _diagonalise(*_check_matrix(matrix, columns))
    particular = tuple(
        SolutionTerm(tuple(u), factor, tuple(v)) for u, factor, v in zip(left, factors, right, strict=True)
    )
    congruences = tuple(_congruence(row, factor) for row, factor, _ in particular if factor > 1)
    return IntegerSolution(particular, congruences, _as_tuples(cokernel), _as_tuples(kernel))


def _congruence(row: Vector, modulus: int) -> Congruence:
    """Return the congruence ``row . b == 0 (mod modulus)`` in an equivalent form with a short row: ``row`` is
    multiplied by a number that is invertible modulo ``modulus``, and its entries are reduced.
    """
    units = (1, *(pow(x, -1, modulus) for x in row if gcd(x, modulus) == 1))
    best = min((_residues(row, unit, modulus) for unit in units), key=lambda v: (dot(v, v), negated(v)))
    return Congruence(tuple(best), modulus)


def _residues(row: Sequence[int], unit: int, modulus: int) -> list[int]:
    """Return the entries of ``unit*row`` reduced modulo ``modulus`` to least absolute values, with the first non-zero
    one positive.
    """
    residues = [unit * x % modulus for x in row]
    if 2 * first_nonzero(residues) > modulus:
        residues = [-x % modulus for x in residues]
    return [x - modulus if 2 * x > modulus else x for x in residues]


class _DiagonalForm(NamedTuple):
    """A diagonal form of a matrix ``A``: ``left[i] * A * right[j]`` is ``factors[i]`` if ``i == j``, else 0.

    The vectors ``left + cokernel`` are a basis of all integer vectors, and so are ``right +
    kernel``. The methods work in place.
    """

    left: Rows
    factors: list[int]
    right: Rows
    cokernel: Rows
    kernel: Rows

    def shorten(self) -> None:
        """Make the vectors in the transformation matrices ``left`` and ``right`` short and the diagonal factors
        positive, in place. The vectors still diagonalise the matrix.
        """
        left, factors, right, cokernel, kernel = self
        for i, factor in enumerate(factors):
            left[i], right[i] = shortened(left[i], cokernel), shortened(right[i], kernel)
            if factor < 0:
                factors[i], right[i] = -factor, negated(right[i])
            if first_nonzero(left[i]) < 0:
                left[i], right[i] = negated(left[i]), negated(right[i])


def _diagonalise(rows: Rows, width: int) -> _DiagonalForm:
    """Return a diagonal form of the integer matrix ``rows`` with ``width`` columns: its columns and its rows are
    brought to echelon form in turn, until it is diagonal.

    The wider side goes first: its surplus becomes the kernel (or cokernel), and the rest for
    the other side is small. After one pass on each side the core is square and not singular;
    from then on a pass lowers a diagonal entry or leaves its row and column clean, so the loop ends.
    """
    bases = [identity(len(rows)), identity(width)]
    null: list[Rows] = [[], []]
    side = int(width >= len(rows))
    core = transposed(rows, width) if side else rows
    while not _is_diagonal(core, len(bases[1 - side])):
        core, transform, relations = echelon(core)
        null[side] += product(relations, bases[side])
        bases[side] = product(transform, bases[side])
        core = transposed(core, len(bases[1 - side]))
        side = 1 - side
    left, right = bases
    form = _DiagonalForm(
        left, [core[i][i] for i in range(len(core))], right, canonical_basis(null[0]), canonical_basis(null[1])
    )
    form.shorten()
    return form


def _is_diagonal(core: Rows, width: int) -> bool:
    """Return whether the matrix ``core``, with ``width`` columns, is square and diagonal without a zero on the
    diagonal.
    """
    return len(core) == width and all(bool(x) == (i == j) for i, row in enumerate(core) for j, x in enumerate(row))


def _check_matrix(matrix: Sequence[Sequence[int]], columns: int | None) -> tuple[Rows, int]:
    """Return the rows as lists of integers, and the number of columns. Raise ValueError for rows of different lengths,
    or if there are no rows and ``columns`` is None.
    """
    rows = [[index(x) for x in row] for row in matrix]
    if columns is None:
        if not rows:
            raise ValueError("a matrix without rows needs its number of columns")
        columns = len(rows[0])
    if any(len(row) != columns for row in rows):
        raise ValueError(f"all rows of {rows} should have {columns} entries")
    return rows, columns


def _as_tuples(rows: Rows) -> Matrix:
    """Return the rows as tuples."""
    return tuple(tuple(row) for row in rows)
