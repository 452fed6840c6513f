"""Kernels of nested sums over parts of axes and over ranges from data: their loops, products and stored values."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from sympy import Piecewise, cos, exp

import sympy_tensordiff as td

i, j, k, l, q, n, m = td.indices("i j k l q n m")
x, y = td.TensorSymbol("x", (m, n)), td.TensorSymbol("y", (m, n))
v, r = td.TensorSymbol("v", n), td.TensorSymbol("r", m)
line = td.TensorSymbol("line", 2 * n)
g, h = td.TensorSymbol("g", n, dtype=int), td.TensorSymbol("h", n, dtype=int)
ARGUMENTS = x, y, v, r, line, g, h
Sum = td.IndexedSum


def over(index, first=0, last=n - 1):
    return index, first, last


def bounded_by_its_own_entry():
    """The range of j is tested at each j: ``p >= j + n - h[j] - 1`` is not a bound of a loop over j."""
    until = Sum(line[j + n - l - 1] * r[k], (l, 0, h[j]))
    larger = Piecewise((exp(-((v[q] - v[j]) ** 2)) * until, x[k, j] > x[k, q]), (0, True))
    equal = Piecewise((cos((i - q) * r[k]) * Sum(larger, over(j)) ** 2 / 2, sympy.Eq(g[i], g[q])), (0, True))
    value = Sum(exp(-((y[k, i] + Sum(equal, over(q))) ** 2)) * v[i], over(i), (k, 0, m - 1))
    return sympy.log(value**2 + 2), line


def products_of_two_lengths():
    """``cos((i - j)*r[k])`` is an operand for j up to ``n - 2`` and up to ``n - 1``: arrays of two lengths."""
    squares = Sum(cos((j - q) * r[k]) * v[q] ** 2, over(q))
    return Sum(sympy.sin(Sum(exp(-((v[i] - v[j]) ** 2)) * squares, (j, 0, i - 1))), over(i), (k, 0, m - 1)), v


def triangular_sum_without_rows():
    """A sum over ``j > i`` inside of a product along ``i - j``: no triangular product has both as labels."""
    later = y[k, i] + Sum((i - j) * y[k, j], (j, i + 1, n - 1))
    share = exp(later) / Sum(exp(later.subs(k, q)), (q, 0, m - 1))
    inner = Piecewise((line[n - 1 + l - i] * (share - (i + 1) / sympy.Integer(4)), sympy.Ne(i, l)), (0, True))
    return sympy.sqrt(Sum(Sum(inner, over(i)), over(l), (k, 0, m - 1)) ** 2 + 1), line


def neighbours_after_a_place():
    """Of ``j > l`` and ``i >= j - 1``, only the first bounds j from below: the sum over l stays around both."""
    larger = Piecewise((y[k, i] * y[k, j], y[k, j] > y[k, i]), (0, True))
    pairs = Sum(larger, (i, j - 1, sympy.Min(j + 1, n - 1)), (j, l + 1, n - 1), (l, 0, q - 1))
    return Sum(pairs * x[k, q] ** 2, (q, 1, n - 1), (k, 0, m - 1)), y


CASES = bounded_by_its_own_entry, products_of_two_lengths, triangular_sum_without_rows, neighbours_after_a_place


@pytest.mark.parametrize("case", CASES)
def test_gradients(case):
    value, variable = case()
    results = value, td.gradient(value, variable)
    compiled, plain = (
        td.lambdify(ARGUMENTS, results, "llvm"),
        td.lambdify(ARGUMENTS, results, "numpy", temporaries=False),
    )
    for rows, places in ((1, 1), (2, 5), (3, 13)):
        random = np.random.default_rng(places)
        floats = [random.normal(0, 0.7, shape) for shape in ((rows, places), (rows, places), places)]
        data = random.integers(0, places, (2, places))
        arrays = [*floats, random.uniform(0.1, 0.9, rows), random.normal(size=2 * places), *data]
        for found, wanted in zip(compiled(*arrays), plain(*arrays), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)
