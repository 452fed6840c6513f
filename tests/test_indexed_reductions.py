"""Products, maxima and minima over index ranges: their values, and what they refuse."""

import random
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from sympy import Max, Min

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError, IndexExpressionError, OutOfShapeError
from sympy_tensordiff.reference import evaluate

# What a text for Numba means is asked here, not what a compiler makes of it.
pytestmark = pytest.mark.usefixtures("uncompiled")

i, j, k, n, m, p = td.indices("i j k n m p")
A, x = td.TensorSymbol("A", (n, m)), td.TensorSymbol("x", m)

PLAIN = {td.IndexedProduct: prod, td.IndexedMax: max, td.IndexedMin: min}
every_class = pytest.mark.parametrize("cls", PLAIN, ids=lambda cls: cls.__name__)


def values(seed):
    rng = random.Random(seed)

    def number():
        return Fraction(rng.randint(-6, 6), rng.randint(1, 3))

    return {A: [[number() for _ in range(4)] for _ in range(3)], x: [number() for _ in range(4)]}


@pytest.mark.in_turns(8)
@every_class
@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_plain_loops(cls, seed):
    given, plain = values(seed), PLAIN[cls]
    a, v = given[A], given[x]
    cases = [
        (cls(A[i, k] - x[k], (k, 0, i), (i, 0, n - 1)), plain(a[r][c] - v[c] for r in range(3) for c in range(r + 1))),
        (cls(x[k] ** 2 + k, (k, Max(0, p - 2), Min(3, p))), plain(v[c] ** 2 + c for c in range(1, 4))),
        (
            td.IndexedSum(cls(A[i, k] * x[k], (k, 0, m - 1)), (i, 0, n - 1)),
            sum(plain(a[r][c] * v[c] for c in range(4)) for r in range(3)),
        ),
        (
            cls(td.IndexedSum(A[i, k] * x[k], (k, 0, i)), (i, 0, n - 1)),
            plain(sum(a[r][c] * v[c] for c in range(r + 1)) for r in range(3)),
        ),
    ]
    for expr, expected in cases:
        assert evaluate(expr, {**given, p: 3}) == expected
        assert evaluate(td.simplify_deltas(expr), {**given, p: 3}) == expected
    arguments = [np.array(given[A], float), np.array(given[x], float), 3]
    # Maxima and minima differ by one word, in kernels too.
    for backend in ("numpy", "numba") if seed == 0 and cls is not td.IndexedMin else ("numpy",):
        found = td.lambdify([A, x, p], tuple(expr for expr, _ in cases), backend)(*arguments)
        np.testing.assert_allclose(found, [float(expected) for _, expected in cases], rtol=1e-12)


@every_class
def test_ranges_are_checked_as_those_of_sums(cls):
    name = cls.__name__
    with pytest.raises(ArgumentError, match=rf"{name}\(x\[k\]\) has no range; write {name}\(body, \(k, 0, n - 1\)\)"):
        cls(x[k])
    with pytest.raises(ArgumentError, match=f"{name}: the upper bound of k is oo; a finite range is needed"):
        cls(x[k], (k, 0, float("inf")))
    with pytest.raises(IndexExpressionError, match=f"{name}: the upper bound of k: n/2 is not an integer"):
        cls(x[k], (k, 0, n / 2))
    with pytest.raises(OutOfShapeError, match="leaves the shape"):
        cls(td.TensorSymbol("y", 3)[k], (k, 0, 3))
