"""Bounds are written without asking SymPy, as SymPy would have them."""

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Max, Min, ceiling, floor

import sympy_tensordiff as td
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.graph.write import Writer
from sympy_tensordiff.integer.affine import quotient

i, j, k, p, q = td.indices("i j k p q")
coefficients = st.lists(st.integers(-9, 9), min_size=4, max_size=4)


@settings(max_examples=25, deadline=None)
@given(coefficients, st.integers(1, 6), st.booleans(), st.integers(2, 4))
def test_rounded_quotients_are_those_of_sympy(numbers, divisor, nested, inner):
    reader = Reader(Graph())
    writer = Writer(reader)
    expr = sum((c * s for c, s in zip(numbers[:3], (i, p, q), strict=True)), sympy.Integer(numbers[3]))
    form = reader.affine(expr)
    if nested:
        form = form + quotient(reader.affine(i + p), inner)
    expr = writer.form(form, ())
    for function in (floor, ceiling):
        assert writer.rounded(function, form, divisor, ()) == function(expr / divisor)


def by_entry(body, *limits, entry):
    return sympy.diff(td.IndexedSum(body, *limits), entry)


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2), (2, 3)])
def test_bounds_are_rebuilt_as_they_are(strides):
    a, b = strides
    n, m = td.indices("n m")
    x, y = td.TensorSymbol("x", a * n + b * m), td.TensorSymbol("y", (n, m))
    result = by_entry(x[a * i + b * j] * y[i, j], (i, 0, n - 1), (j, 0, m - 1), entry=x[p])
    (total,) = result.atoms(td.IndexedSum)
    for node in total.atoms(Max, Min, floor, ceiling):
        assert node.func(*node.args) == node
    assert total.atoms(Max, Min)


def test_what_sympy_knows_of_a_symbol_is_used():
    s, n = sympy.Symbol("s", integer=True, nonnegative=True), td.indices("n")
    y = td.TensorSymbol("y", n)
    # No extent is s, so that the rows do not know its sign; they would leave Max(0, s) as it is.
    total = td.IndexedSum(td.IndexedSum(sympy.KroneckerDelta(i, j) * y[i] ** 2, (i, s, n - 1)), (j, 0, n - 1))
    assert td.simplify_deltas(total) == td.IndexedSum(y[i] ** 2, (i, s, n - 1)).xreplace({i: j})
