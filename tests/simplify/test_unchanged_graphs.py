"""Indices that nothing in a product, a maximum or a minimum depends on: powers, and one value; values before all."""

from fractions import Fraction

from every import every
from sympy import Piecewise
from test_printed import entries

import sympy_tensordiff as td
from sympy_tensordiff.reference import evaluate

i, j, n, p = td.indices("i j n p")
x, d = td.TensorSymbol("x", n), td.TensorSymbol("d", 30)
PROD, MAX, MIN = td.IndexedProduct, td.IndexedMax, td.IndexedMin


@every("expr", lambda: [e.value for e in entries("Sums and extrema over an index that the body does not have")])
def test_values_of_the_forms_of_printed_txt(expr):
    result = td.simplify_deltas(expr)
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
    """In the derivative with respect to ``y`` the value is ``y[p]``, as often as there are ``k``: no comparison is left
    of it.
    """
    k, m = td.indices("k m")
    y, z = td.TensorSymbol("y", n), td.TensorSymbol("z", m)
    greatest = MAX(Piecewise((z[k], i < 1), (y[i], True)), (k, 0, m - 1))
    gradient = td.gradient(td.IndexedSum(greatest, (i, 0, n - 1)), y)
    assert str(gradient) == "TensorComprehension(Piecewise((1, p >= 1), (0, True)), (p, n))"
