"""`sympy.LeviCivita` of indices: cross products, determinants, and what is refused."""

from math import prod

import numpy as np
import pytest
import sympy
from every import every
from exact_checks import assert_derivative_exact
from sympy import LeviCivita

import sympy_tensordiff as td
from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.reference import evaluate

INDICES = i, j, k, l, m, p = td.indices("i j k l m p")
a, b, r = td.TensorSymbol("a", 3), td.TensorSymbol("b", 3), sympy.Symbol("r", real=True)
A, idx = td.TensorSymbol("A", (3, 3)), td.TensorSymbol("idx", 3, dtype=int)
EVERYWHERE = [(index, 0, 2) for index in (i, j, k)]
CROSS = td.IndexedSum(LeviCivita(i, j, k) * a[j] * b[k], (j, 0, 2), (k, 0, 2))
EXPRESSIONS = {
    "cross product": (td.TensorComprehension(CROSS, (i, 3)), a),
    "triple product": (td.IndexedSum(LeviCivita(i, j, k) * A[0, i] * A[1, j] * A[2, k], *EVERYWHERE), A),
    "shifted": (td.IndexedSum(LeviCivita(i + 1, j + 1, 3) * a[i] ** 2 * b[j], *EVERYWHERE[:2]), a),
    "in a condition": (td.IndexedSum(sympy.Piecewise((a[i], LeviCivita(i, j, k) > 0), (0, True)), *EVERYWHERE), a),
    "of data": (td.IndexedSum(LeviCivita(idx[0], idx[1], i) * a[i] ** 2, EVERYWHERE[0]), a),
}  # fmt: skip


@every("name", [*EXPRESSIONS])
def test_derivatives(name):
    expression, variable = EXPRESSIONS[name]
    assert_derivative_exact(expression, variable, values={idx: np.array([0, 2, 1])} if name == "of data" else None)


@pytest.mark.usefixtures("uncompiled")
@every("order", range(1, 6))
def test_determinants(order):
    M = td.TensorSymbol("M", (order, order))
    chosen = INDICES[:order]
    factors = prod(M[row, column] for row, column in enumerate(chosen))
    expr = td.IndexedSum(LeviCivita(*chosen) * factors, *((index, 0, order - 1) for index in chosen))
    values = np.random.default_rng(0).normal(size=(order, order))
    assert td.lambdify(M, expr)(values) == pytest.approx(np.linalg.det(values))


def test_values_are_those_of_sympy():
    here = td.TensorComprehension(LeviCivita(i, j, k), (i, 4), (j, 4), (k, 4))
    expected = [[[LeviCivita(u, v, w) for w in range(4)] for v in range(4)] for u in range(4)]
    assert evaluate(here, {}).tolist() == evaluate(td.simplify_deltas(here), {}).tolist() == expected
    u, v = sympy.symbols("u v")
    first, second = (sympy.IndexedBase(name, shape=3) for name in "ab")
    native = sympy.Sum(LeviCivita(u, v, 2) * first[u] * second[v], (u, 0, 2), (v, 0, 2))
    assert evaluate(td.gradient(native, second), {a: [1, 2, 3]}).tolist() == [-2, 1, 0]


@pytest.mark.parametrize("expr", [LeviCivita(*td.indices("a b c d e f g")) * r, LeviCivita(a[i], 0, i) * r])
def test_others_are_refused(expr):
    with pytest.raises(UnsupportedError, match=r"LeviCivita\(.* LeviCivita takes up to 6 indices; write its values as"):
        td.diff(expr, r)
    with pytest.raises(UnsupportedError, match=r"LeviCivita takes up to 6 indices"):
        td.lambdify([r, *expr.free_symbols - {r}], expr)
