"""Forms of derivatives of gathers by data, and the ranges of random data; values are in the table of reads."""

import numpy as np
import pytest
from sympy import KroneckerDelta, Piecewise, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.values import data_ranges

e, i, j, k, n, p = td.indices("e i j k n p")
x, y, v = td.TensorSymbol("x", 7), td.TensorSymbol("y", 7), td.TensorSymbol("v", 5)
X, z = td.TensorSymbol("X", (4, 3)), td.TensorSymbol("z", n)
idx, jdx, label = (td.TensorSymbol(name, 4, dtype=int) for name in ("idx", "jdx", "label"))
row, col, start = (td.TensorSymbol(name, 5, dtype=int) for name in ("row", "col", "start"))
pairs = td.TensorSymbol("pairs", (4, 2), dtype=int)
total, table, delta = td.IndexedSum, td.TensorComprehension, KroneckerDelta


RANGES = {
    "an index": (x[idx[i]], {"idx": (0, 6)}),
    "with an offset": (total(x[2 * idx[i] - k], (k, -1, 1), (i, 0, 3)), {"idx": (1, 2)}),
    "negative": (total(x[3 - idx[i]], (i, 0, 3)), {"idx": (-3, 3)}),
    "rounded": (total(x[floor(idx[i] / 2)], (i, 0, 3)), {"idx": (0, 13)}),
    "a share each": (total(x[idx[i] + jdx[i]], (i, 0, 3)), {"idx": (0, 3), "jdx": (0, 3)}),
    "of data": (total(x[idx[jdx[i]]], (i, 0, 3)), {"idx": (0, 6), "jdx": (0, 3)}),
    "of a size": (total(z[idx[i]], (i, 0, 3)), {"idx": (0, 4)}),
    "compared": (table(total(delta(p, label[i]), (i, 0, 3)), (p, 3)), {"label": (-1, 3)}),
    "bounds": (total(v[e], (e, start[0], start[1] - 1)), {"start": (1, 4)}),
    "a number": (total(idx[i] * x[i], (i, 0, 3)), {"idx": (-2, 3)}),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_of_random_data(name):
    expr, ranges = RANGES[name]
    assert data_ranges([expr], {n: 5, i: 2}) == ranges
    values = random_values(expr, {n: 5, i: 2}, 3)
    evaluate(expr, values)
    for name_, (low, high) in ranges.items():
        (data,) = (np.asarray(array) for tensor, array in values.items() if str(tensor) == name_)
        assert low <= data.min()
        assert data.max() <= high


def test_no_value_is_inside():
    with pytest.raises(ArgumentError, match="no value of idx keeps all reads inside"):
        random_values(total(x[idx[i]] + x[idx[i] + 8], (i, 0, 3)))


@pytest.mark.parametrize(
    "body",
    [
        Piecewise((z[idx[i]] ** 2, (idx[i] >= 0) & (idx[i] < n)), (0, True)) * v[i],
        total(z[j] ** 2 * delta(j, idx[i]), (j, 0, n - 1)) * v[i],
    ],
)
def test_no_guard_says_what_is_declared_of_data(body):
    slope = td.diff(total(body, (i, 0, 3)), v[p])
    guard = "(p <= 3) & (idx[p] >= 0) & (idx[p] <= n - 1)"
    assert str(slope) == f"Piecewise((z[idx[p]]**2, {guard}), (0, True))"
    bounded = body.subs(idx, td.TensorSymbol("idx", 4, dtype=int, below=n))
    slope = td.diff(total(bounded, (i, 0, 3)), v[p])
    assert str(slope) == "Piecewise((z[idx[p]]**2, p <= 3), (0, True))"
