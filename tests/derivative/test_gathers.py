"""What derivatives of gathers by data look like, and the ranges of random data; values are in the table of reads."""

import numpy as np
import pytest
from every import every
from sympy import KroneckerDelta, Min, Mod, Piecewise, floor

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values
from sympy_tensordiff.testing.integer_data import data_ranges

e, i, j, k, n, p = td.indices("e i j k n p")
x, y, v = td.TensorSymbol("x", 7), td.TensorSymbol("y", 7), td.TensorSymbol("v", 5)
X, z = td.TensorSymbol("X", (4, 3)), td.TensorSymbol("z", n)
idx, jdx, label = (td.TensorSymbol(name, 4, dtype=int) for name in ("idx", "jdx", "label"))
row, col, start = (td.TensorSymbol(name, 5, dtype=int) for name in ("row", "col", "start"))
pairs = td.TensorSymbol("pairs", (4, 2), dtype=int)
total, table, delta = td.IndexedSum, td.TensorComprehension, KroneckerDelta

SQUARES = total(x[idx[i]] ** 2, (i, 0, 3))
SPARSE = table(total(v[e] * x[col[e]] * delta(i, row[e]), (e, 0, 4)), (i, 4))
ROWS = table(total(v[e] * x[col[e]], (e, start[i], start[i + 1] - 1)), (i, 4))
HISTOGRAM = table(total(delta(p, label[i]) * x[i] ** 2, (i, 0, 3)), (p, 3))
# What is rounded stands in a test of data that its own index selects: no unknown in its place solves anything.
ROUNDED = total(delta(idx[i], Mod(1 - i, 4)) * x[floor(i / 2)], (i, 0, 3))
# Of both indices of a minimum one is outside of the data: an entry of data is one unknown, not a choice of two.
MIRRORED = total(Piecewise((x[i], label[Min(i, 6 - i)] >= 1), (0, True)), (i, 0, 6))
# Where idx[1] is 0 the other data are outside: at i == 1 nothing is left.
NEVER = table(total(delta(0, idx[i]) * delta(p, idx[i - 2]) * x[i] * delta(2 * i, j), (i, 0, 3), (j, 1, 3)), (p, 3))
CLAMPED = table(total(delta(1, idx[Min(i, 2)]) * v[k], (k, 0, i)) / y[i], (i, 3))

# A part of what is printed, or all of it, of each result.
SHOWN = {
    "a sum of squares": (td.gradient(SQUARES, x), "(2*x[p]*IndexedSum(KroneckerDelta(p, idx[i]), (i, 0, 3)), (p, 7))"),
    "its hessian": (
        td.hessian(SQUARES, x),
        "(2*KroneckerDelta(p, q)*IndexedSum(KroneckerDelta(p, idx[i]), (i, 0, 3)), (p, 7), (q, 7))",
    ),
    "a stride": (
        td.hessian(total(x[2 * idx[i]] ** 2, (i, 0, 3)), x),
        "KroneckerDelta(p, q)*IndexedSum(KroneckerDelta(p, 2*idx[i])",
    ),
    "two axes": (
        td.jacobian(table(X[i, pairs[i, k]] ** 2, (i, 4), (k, 2)), X),
        "(2*KroneckerDelta(i, p)*KroneckerDelta(q, pairs[i, k])*X[i, q], (i, 4), (k, 2), (p, 4), (q, 3))",
    ),
    "an offset": (
        td.gradient(total(x[2 * idx[i] + k] ** 2 * y[k], (k, 0, 2), (i, 0, 3)), x),
        "(2*x[p]*IndexedSum(Piecewise((y[p - 2*idx[i]], (p >= 2*idx[i]) & (p <= 2*idx[i] + 2)), "
        "(0, True)), (i, 0, 3)), (p, 7))",
    ),
    "a sparse product": (td.jacobian(SPARSE, v), "(KroneckerDelta(i, row[p])*x[col[p]], (i, 4), (p, 5))"),
    "rows of a sparse matrix": (
        td.jacobian(ROWS, v),
        "(Piecewise((x[col[p]], (p >= start[i]) & (p <= start[i + 1] - 1)), (0, True)), (i, 4), (p, 5))",
    ),
    "a tangent": (td.jvp(table(x[idx[i]], (i, 4)), x, y), "(y[idx[i]], (i, 4))"),
    "a delta": (
        td.simplify_deltas(total(y[k] * delta(k, idx[0]), (k, 0, 6))),
        "Piecewise((y[idx[0]], (idx[0] >= 0) & (idx[0] <= 6)), (0, True))",
    ),
    "a histogram": (td.jacobian(HISTOGRAM, x), "Piecewise((2*KroneckerDelta(p, label[q])*x[q], q <= 3), (0, True))"),
    "a remainder": (
        td.gradient(ROUNDED, x),
        "(IndexedSum(KroneckerDelta(3 - idx[i], Mod(i + 2, 4)), (i, 2*p, Min(3, 2*p + 1))), (p, 7))",
    ),
    "a mirror": (td.gradient(MIRRORED, x), "(Piecewise((1, label[Min(p, 6 - p)] >= 1), (0, True)), (p, 7))"),
    "data outside of their tensor": (td.simplify_deltas(NEVER), "TensorComprehension(0, (p, 3))"),
    "a clamp that ranges decide": (td.simplify_deltas(CLAMPED), "KroneckerDelta(1, idx[i])"),
}


@every("result, text", SHOWN)
def test_what_can_be_solved_is_solved(result, text):
    assert text in str(result)


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
