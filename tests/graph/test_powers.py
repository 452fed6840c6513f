"""Powers of products: equal functions are printed the same."""

from fractions import Fraction

import numpy as np
import sympy
from fuzz.equality import assert_equal
from sympy import exp, log

from sympy_tensordiff import IndexedSum, TensorComprehension, TensorSymbol, gradient, indices, lambdify
from sympy_tensordiff.graph.arithmetic import JOINED_LIMIT
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.testing import random_values

i, j, N = indices("i j N")
x, y = TensorSymbol("x", (N,)), TensorSymbol("y", (N,))
S = IndexedSum(exp(x[j]), (j, 0, N - 1))


def scalars(graph, count):
    return [graph.scalar(sympy.Symbol(f"a{n}", real=True)) for n in range(count)]


def test_a_root_of_a_product_and_a_long_product_stay():
    graph = Graph()
    a, b = scalars(graph, 2)
    assert graph.pow(graph.mul((a, b)), graph.const(Fraction(1, 2))).op == "pow"
    long = graph.mul(scalars(graph, JOINED_LIMIT + 1))
    assert graph.pow(long, graph.const(-1)).args == (long, graph.const(-1))


def test_cross_entropy_has_one_gradient_however_it_is_written():
    ways = [
        -IndexedSum(y[i] * log(exp(x[i]) / S), (i, 0, N - 1)),
        IndexedSum(y[i] * (log(S) - x[i]), (i, 0, N - 1)),
        IndexedSum(y[i] * log(S * exp(-x[i])), (i, 0, N - 1)),
    ]
    values = random_values((ways[0], x), {N: 3}, seed=1)
    found = [gradient(form, x) for form in ways]
    assert len(set(map(str, found))) == 1, found
    assert str(found[0].body) == (
        "exp(x[p])*IndexedSum(y[i], (i, 0, N - 1))/IndexedSum(exp(x[j]), (j, 0, N - 1)) - y[p]"
    )
    for form in ways:
        assert_equal(evaluate(found[0], values), derivative(form, (x,), values), str(form))


def test_a_power_of_zero_that_sympy_inverts_is_one_where_the_exponent_is_zero():
    inverted = sympy.S.Zero ** (-2 * i * (i + 1))
    assert inverted.has(sympy.zoo)
    function = TensorComprehension(x[i] * inverted, (i, 1))
    values = random_values((function,), {N: 2}, 3)
    assert evaluate(function, values) == [values[x][0]]
    assert lambdify((x,), function, backend="numpy")(np.array([2.0, 3.0])) == [2.0]
