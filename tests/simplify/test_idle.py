"""Indices that nothing in a product, a maximum or a minimum depends on: powers, and one value; values before all."""

from fractions import Fraction

from every import every
from sympy import Max, Min, Piecewise

import sympy_tensordiff as td
from sympy_tensordiff.reference import evaluate

i, j, n, p = td.indices("i j n p")
x, d = td.TensorSymbol("x", n), td.TensorSymbol("d", 30)
PROD, MAX, MIN = td.IndexedProduct, td.IndexedMax, td.IndexedMin

FORMS = {
    "a number of factors": (PROD(d[p], (i, 0, 9)), "d[p]**10"),
    "a size": (PROD(2 * x[0], (i, 0, n - 1)), "(2*x[0])**n"),
    "of two indices": (PROD(x[0], (i, 2, 4), (j, 0, n - 1)), "x[0]**(3*n)"),
    "the inner one": (PROD(d[j], (i, 0, j), (j, 0, 5)), "IndexedProduct(d[j]**(j + 1), (j, 0, 5))"),
    "the outer one": (PROD(d[i], (i, 0, 4), (j, 0, 5)), "IndexedProduct(d[i]**6, (i, 0, 4))"),
    "a bound depends on it": (PROD(d[i], (i, 0, j), (j, 0, 5)), "IndexedProduct(d[i], (i, 0, j), (j, 0, 5))"),
    "maybe less than nothing": (PROD(d[0], (i, 0, p - 1)), "IndexedProduct(d[0], (i, 0, p - 1))"),
    "maybe nothing to read": (PROD(d[5 - p], (i, 0, p - 1)), "IndexedProduct(d[5 - p], (i, 0, p - 1))"),
    "several bounds": (PROD(d[0], (i, 0, Min(4, p))), "IndexedProduct(d[0], (i, 0, Min(4, p)))"),
    "greatest of one": (MAX(d[p], (i, 0, 3)), "d[p]"),
    "least of one": (MIN(x[0] + 1, (i, 0, n - 1)), "x[0] + 1"),
    "greatest of maybe nothing": (MAX(d[0], (i, 0, p - 1)), "IndexedMax(d[0], (i, 0, p - 1))"),
    # Equal values share a derivative as often as they occur.
    "greatest, as often each": (MAX(d[j], (i, 0, 4), (j, 0, 5)), "IndexedMax(d[j], (j, 0, 5))"),
    "greatest, the inner one": (MAX(d[j], (i, 0, j), (j, 0, 5)), "IndexedMax(d[j], (i, 0, j), (j, 0, 5))"),
    "greatest, empty for some": (MAX(d[j], (i, 3, j), (j, 0, 5)), "IndexedMax(d[j], (i, 3, j), (j, 3, 5))"),
    "empty product": (PROD(d[i], (i, 5, 2)), "1"),
    "empty maximum": (MAX(d[i], (i, 5, 2)), "IndexedMax(d[i], (i, 5, 2))"),
    "one point": (MAX(d[i + j], (j, i, i), (i, 2, 2)), "d[4]"),
    "factors stay inside": (PROD(2 * d[i], (i, 0, 5)), "IndexedProduct(2*d[i], (i, 0, 5))"),
    "terms and signs stay inside": (MAX(d[p] - d[i], (i, 0, 5)), "IndexedMax(d[p] - d[i], (i, 0, 5))"),
    "a row that follows": (MIN(x[i], (i, Max(0, -n), Min(n - 1, 2 * n))), "IndexedMin(x[i], (i, 0, n - 1))"),
}


@every("expr, expected", FORMS.values(), ids=FORMS)
def test_forms(expr, expected):
    result = td.simplify_deltas(expr)
    assert str(result) == expected
    compared = 0
    for size in (1, 2, 5):
        for number in (0, 1, 3):
            values = {x: [Fraction(7 - v, 3) for v in range(size)], d: [Fraction(v * v - 9 * v, 2) for v in range(30)]}
            known = {**values, n: size, p: number}
            left, right = (evaluate(e, {s: v for s, v in known.items() if s in e.free_symbols}) for e in (expr, result))
            assert left == right
            compared += 1
    assert compared == 9


def test_an_index_that_a_decided_case_leaves_out_goes():
    """In the derivative by ``y`` the value is ``y[p]``, as often as there are ``k``: no comparison is left of it."""
    k, m = td.indices("k m")
    y, z = td.TensorSymbol("y", n), td.TensorSymbol("z", m)
    greatest = MAX(Piecewise((z[k], i < 1), (y[i], True)), (k, 0, m - 1))
    gradient = td.gradient(td.IndexedSum(greatest, (i, 0, n - 1)), y)
    assert str(gradient) == "TensorComprehension(Piecewise((1, p >= 1), (0, True)), (p, n))"
