"""Reduction of integer lattices: echelon forms with short transforms, LLL, short representatives.

Vectors are lists of ints, a basis is a list of vectors. The algorithm is that of Havas, Majewski
and Matthews (1998), "Extended gcd and Hermite normal form algorithms via lattice basis
reduction"; its arithmetic is de Weger's integer form of LLL. Everything is exact and
deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from operator import mul
from typing import TypeAlias

Rows: TypeAlias = list[list[int]]

# A few sweeps shorten a vector by a reduced basis (31 at most in 1,600 random systems); a
# representative is valid after any number of them, so a bound costs no correctness.
_MAX_SWEEPS = 100


def echelon(rows: Rows) -> tuple[Rows, Rows, Rows]:
    """Return ``(form, transform, relations)`` of an integer matrix: its echelon form, the unimodular matrix with
    ``transform @ rows == form``, and a short basis of all c with ``c @ rows == 0``.

    The form has the non-zero rows with positive pivots, and ``transform * rows == form``. The relations are an
    LLL-reduced basis of all ``c`` with ``c * rows == 0``; together with the rows of the transform, which are shortened
    by it, they are a basis of all integer vectors.

    Examples
    --------
    >>> echelon([[6], [10], [15]])
    ([[1]], [[1, 1, -1]], [[0, 3, -2], [-5, 0, 2]])
    """
    reduction = _Reduction(rows)
    reduction.run()
    zeros = sum(lead == reduction.width for lead in reduction.lead)
    return reduction.a[zeros:][::-1], reduction.b[zeros:][::-1], reduction.b[:zeros]


def independent(vectors: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the vectors that are not linear combinations of the vectors before them.

    Examples
    --------
    >>> independent([(1, 2), (2, 4), (0, 3), (1, 0)])
    [(1, 2), (0, 3)]
    """
    result: list[tuple[int, ...]] = []
    reduced: list[tuple[int, list[int]]] = []
    for vector in vectors:
        rest = list(vector)
        for pivot, other in reduced:
            if rest[pivot]:
                rest = [other[pivot] * a - rest[pivot] * b for a, b in zip(rest, other, strict=True)]
        if any(rest):
            content = gcd(*rest)
            reduced.append((next(pivot for pivot, c in enumerate(rest) if c), [c // content for c in rest]))
            result.append(vector)
    return result


class _Reduction:
    """The state of one lattice reduction (LLL). The rows ``a`` are brought to echelon form; ``b`` are the operations
    made so far: ``a == b @ original``.

    Each operation on rows is made on ``a`` and ``b`` alike; at first ``b`` is the identity, so
    ``a == b * original`` holds throughout. The rows are in reverse echelon order, zero rows of
    ``a`` first, and among those the ``b`` are LLL-reduced. The Gram-Schmidt data of ``b`` are
    integers: ``d[k + 1]`` is the Gram determinant of its first ``k + 1`` rows, ``mu[k][i] /
    d[i + 1]`` the coefficient of row ``k`` along the orthogonalised row ``i``.
    """

    __slots__ = ("a", "b", "d", "lead", "mu", "width")

    def __init__(self, rows: Rows) -> None:
        count = len(rows)
        self.a = [row[:] for row in rows]
        self.b = identity(count)
        self.d = [1] * (count + 1)
        self.mu = [[0] * k for k in range(count)]
        self.width = len(rows[0]) if rows else 0
        self.lead = [self._pivot_position(row) for row in self.a]  # the position of the pivot, `width` for a zero row

    def run(self) -> None:
        """Run the reduction, in place: bring the rows of the matrix ``a`` to reverse echelon form (zero rows first),
        and make the rows of ``b``, the matrix of the row operations, short.
        """
        for k in range(len(self.a)):
            self._make_pivot_positive(k)
        k = 1
        while k < len(self.a):
            self._reduce(k, k - 1)
            if self._must_swap(k):
                self._swap(k)
                k = max(k - 1, 1)
            else:
                for i in range(k - 2, -1, -1):
                    self._reduce(k, i)
                k += 1

    def _pivot_position(self, row: list[int]) -> int:
        """Return the position of the first non-zero entry of a row, ``width`` for a zero row."""
        return next((j for j, entry in enumerate(row) if entry), self.width)

    def _must_swap(self, k: int) -> bool:
        """Return whether rows ``k - 1`` and ``k`` must be exchanged. Rows are sorted by their leading columns, as in
        the echelon form; zero rows by the exchange condition of the LLL algorithm, which makes the vectors in ``b``
        short.
        """
        before, here = self.lead[k - 1], self.lead[k]
        if before < self.width:
            return before <= here
        if here < self.width:
            return False
        # The exchange condition of LLL, with 99/100 in place of 3/4 for shorter vectors.
        d = self.d
        return 100 * (d[k - 1] * d[k + 1] + self.mu[k][k - 1] ** 2) < 99 * d[k] * d[k]

    def _make_pivot_positive(self, k: int) -> None:
        """Negate row ``k`` if its first nonzero entry is negative, and update the Gram-Schmidt data."""
        if self.lead[k] < self.width and self.a[k][self.lead[k]] < 0:
            self.a[k], self.b[k] = negated(self.a[k]), negated(self.b[k])
            self.mu[k] = negated(self.mu[k])
            for later in self.mu[k + 1 :]:
                later[k] = -later[k]

    def _reduce(self, k: int, i: int) -> None:
        """Subtract a multiple of row ``i`` from row ``k`` (a step of lattice reduction), so that the entry of row ``k``
        in the pivot column of row ``i`` becomes small.

        If row ``i`` is 0, the row ``b[k]`` of the transformation becomes shorter.
        """
        lead = self.lead[i]
        q = nearest(self.a[k][lead], self.a[i][lead]) if lead < self.width else nearest(self.mu[k][i], self.d[i + 1])
        if not q:
            return
        self.b[k] = minus(self.b[k], q, self.b[i])
        mine, other = self.mu[k], self.mu[i]
        mine[i] -= q * self.d[i + 1]
        for j in range(i):
            mine[j] -= q * other[j]
        if lead < self.width:
            self.a[k] = minus(self.a[k], q, self.a[i])
            self.lead[k] = self._pivot_position(self.a[k])
            self._make_pivot_positive(k)

    def _swap(self, k: int) -> None:
        """Exchange rows ``k - 1`` and ``k``, and update the Gram-Schmidt data."""
        for rows in (self.a, self.b):
            rows[k - 1], rows[k] = rows[k], rows[k - 1]
        d, lead, mu = self.d, self.lead, self.mu
        lead[k - 1], lead[k] = lead[k], lead[k - 1]
        mu[k - 1], mu[k][: k - 1] = mu[k][: k - 1], mu[k - 1]
        along = mu[k][k - 1]
        new = (d[k - 1] * d[k + 1] + along * along) // d[k]
        for later in mu[k + 1 :]:
            before, after = later[k - 1], later[k]
            later[k - 1] = (before * along + after * d[k - 1]) // d[k]
            later[k] = (before * d[k + 1] - after * along) // d[k]
        d[k] = new


def canonical_basis(basis: Rows) -> Rows:
    """Return the vectors of a reduced basis, each shortened by the others, in a fixed order and with fixed signs.

    The first non-zero entry of each vector is positive. Vectors with few non-zero entries come first, short ones first
    among those.
    """
    basis = basis[:]
    for i in range(len(basis) if len(basis) > 1 else 0):
        basis[i] = shortened(basis[i], basis[:i] + basis[i + 1 :])
    positive = [negated(v) if first_nonzero(v) < 0 else v for v in basis]
    return sorted(positive, key=lambda v: (len(v) - v.count(0), dot(v, v), negated(v)))


def shortened(vector: list[int], basis: Rows) -> list[int]:
    """Return ``vector`` minus multiples of the basis vectors, until none of them makes it shorter."""
    for _ in range(_MAX_SWEEPS if basis else 0):
        start = vector
        for other in basis:
            q = nearest(dot(vector, other), dot(other, other))
            if q:
                vector = minus(vector, q, other)
        if vector is start:
            break
    return vector


def nearest(p: int, q: int) -> int:
    """Return the integer nearest to ``p/q``, for q > 0; if two are equally near, the one closer to zero.

    >>> nearest(1, 2), nearest(3, 2), nearest(-1, 2), nearest(-5, 3)
    (0, 1, 0, -2)
    """
    return (2 * p + q - 1) // (2 * q) if p >= 0 else -((q - 1 - 2 * p) // (2 * q))


def first_nonzero(vector: Sequence[int]) -> int:
    """Return the first non-zero entry of a vector, 0 if all are zero.

    >>> first_nonzero([0, -3, 1]), first_nonzero([0, 0]), first_nonzero([])
    (-3, 0, 0)
    """
    return next(filter(None, vector), 0)


def dot(v: Sequence[int], w: Sequence[int]) -> int:
    """Return the inner product of the vectors ``v`` and ``w``, which have the same length."""
    return sum(map(mul, v, w))


def minus(v: list[int], q: int, w: list[int]) -> list[int]:
    """Return the vector ``v - q * w``."""
    return [x - q * y for x, y in zip(v, w, strict=True)]


def negated(v: list[int]) -> list[int]:
    """Return the vector ``-v``."""
    return [-x for x in v]


def identity(size: int) -> Rows:
    """Return the rows of the identity matrix with ``size`` rows."""
    return [[int(i == j) for j in range(size)] for i in range(size)]


def transposed(rows: Rows, width: int) -> Rows:
    """Return the transpose of a matrix with ``width`` columns, which may have no rows."""
    return [[row[j] for row in rows] for j in range(width)]


def product(left: Rows, right: Rows) -> Rows:
    """Return the matrix product of ``left`` and ``right``. Matrices without rows are allowed."""
    columns = list(zip(*right, strict=True))
    return [[dot(row, column) for column in columns] for row in left]
