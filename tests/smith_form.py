"""The Smith normal form and the pseudo-inverse of the paper (eqs. 11, 12, 18, 19), by which `integer.smith` is checked.

The package needs neither: its diagonal form is the Smith form before the factors divide one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd
from typing import NamedTuple

from sympy_tensordiff.integer.lattice import minus
from sympy_tensordiff.integer.smith import Matrix, Vector, _as_tuples, _check_matrix, _DiagonalForm, _diagonalise, solve


class Smith(NamedTuple):
    """The decomposition ``s = u * matrix * v``, eq. (12), ``u`` and ``v`` unimodular.

    ``s`` is zero but for its first ``rank`` diagonal entries, the invariant ``factors``:
    positive, each a divisor of the next, eqs. (10) and (11).
    """

    u: Matrix
    s: Matrix
    v: Matrix
    rank: int
    factors: Vector


def smith_decomposition(matrix: Sequence[Sequence[int]], columns: int | None = None) -> Smith:
    """Return the Smith normal form with short transforms, for a matrix of any shape and rank.

    Columns ``rank`` and up of ``v`` are the `kernel_basis`, rows ``rank`` and up of ``u`` the
    `cokernel`.

    ``columns`` is the number of columns, needed if there are no rows.
    """
    rows, width = _check_matrix(matrix, columns)
    form = _diagonalise(rows, width)
    left, factors, right, cokernel, kernel = form
    divide_in_order(form)
    form.shorten()
    rank = len(factors)
    s = tuple(tuple(factors[i] if i == j < rank else 0 for j in range(width)) for i in range(len(rows)))
    return Smith(_as_tuples(left + cokernel), s, tuple(zip(*right, *kernel, strict=True)), rank, tuple(factors))


def pseudo_inverse(matrix: Sequence[Sequence[int]], columns: int | None = None) -> tuple[tuple[Fraction, ...], ...]:
    """Return the pseudo-inverse ``I`` of eqs. (18) and (19), with the law ``A * I * A == A``.

    ``I * b`` is the sum of the particular terms of `solve`.
    """
    rows, width = _check_matrix(matrix, columns)
    terms = solve(rows, width).particular
    return tuple(
        tuple(sum((Fraction(t.column[i] * t.row[j], t.factor) for t in terms), Fraction()) for j in range(len(rows)))
        for i in range(width)
    )


def divide_in_order(form: _DiagonalForm) -> None:
    """Make each factor, all of them positive, a divisor of the next, eq. (11), in place."""
    factors = form.factors
    for i in range(len(factors)):
        for j in range(i + 1, len(factors)):
            if factors[j] % factors[i]:
                _make_divide(form, i, j)


def _make_divide(form: _DiagonalForm, i: int, j: int) -> None:
    """Replace factor ``i`` by the gcd and factor ``j`` by the lcm of both, and transform their vectors."""
    left, factors, right = form[:3]
    common = gcd(factors[i], factors[j])
    a, b = factors[i] // common, factors[j] // common
    x = pow(a, -1, b)  # 0 where b == 1
    y = (1 - x * a) // b  # x*a + y*b == 1
    left[i], left[j] = _linear_combination(x, left[i], y, left[j]), _linear_combination(-b, left[i], a, left[j])
    right[i], right[j] = (
        _linear_combination(1, right[i], 1, right[j]),
        _linear_combination(-y * b, right[i], x * a, right[j]),
    )
    factors[i], factors[j] = common, common * a * b


def _linear_combination(p: int, v: list[int], q: int, w: list[int]) -> list[int]:
    """Return the vector ``p * v + q * w``."""
    return minus([p * x for x in v], -q, w)
