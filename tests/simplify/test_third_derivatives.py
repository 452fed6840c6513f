"""Third derivatives of functions with guards read inside of their tensors, and what is tight stays as it is."""

import pytest
from fuzz.equality import assert_equal
from sympy import Piecewise, exp, log, sin, sqrt

from sympy_tensordiff import IndexedSum, TensorSymbol, gradient, indices, jacobian, lambdify
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.reference.derivatives import derivative
from sympy_tensordiff.simplify import pipeline
from sympy_tensordiff.simplify.bounds import tighten
from sympy_tensordiff.testing.values import call_arguments, random_values, to_double

i, j, N, M = indices("i j N M")
x, y, u = TensorSymbol("x", N), TensorSymbol("y", N), TensorSymbol("u", (M, N))


def where(value, condition, otherwise=0):
    return Piecewise((value, condition), (otherwise, True))


FUNCTIONS = {
    "padded": (x, IndexedSum(exp((where(x[i - 2], i >= 2) + x[i]) ** 2 + where(x[i + 1], i <= N - 2)), (i, 0, N - 1))),
    "wrapped": (x, IndexedSum(log((x[i] - where(x[i + 1], i <= N - 2, x[0])) ** 2 + 2), (i, 0, N - 1))),
    "summed": (x, IndexedSum(sin(x[i - 1] * x[i]) * y[j], (j, 0, i - 1), (i, 0, N - 1))),
    "pairs": (x, IndexedSum(where(1 / ((x[i] - x[j]) ** 2 + 1), (i < j) & (j <= i + 1)), (i, 0, N - 1), (j, 0, N - 1))),
    "total variation of an image": (
        u,
        IndexedSum(sqrt((u[i + 1, j] - u[i, j]) ** 2 + (u[i, j + 1] - u[i, j]) ** 2 + 1), (i, 0, M - 2), (j, 0, N - 2)),
    ),
}


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_third_derivatives_read_inside(name, monkeypatch):
    variable, function = FUNCTIONS[name]
    results = []

    def twice(graph, nodes, *rest):
        first = tighten(graph, nodes, *rest)
        results.append((first, tighten(graph, first, *rest)))
        return first

    monkeypatch.setattr(pipeline, "tighten", twice)
    third = jacobian(jacobian(gradient(function, variable), variable), variable)
    assert len(results) >= 3  # a Jacobian compares both modes
    for first, second in results:
        assert first == second  # what is tight stays as it is
    for size in (1, 3) if variable is x else (2,):
        values = random_values((function, variable), {N: size, M: 2}, size, low=-1, high=1)
        expected = derivative(function, (variable,) * 3, values)
        assert_equal(evaluate(third, values), expected, f"{name}, N = {size}")
        arguments, arrays = call_arguments((function, variable), values)
        result = lambdify(arguments, third, "numpy")(*arrays)
        assert_equal(result, to_double(expected), f"{name}, N = {size}, NumPy", 1e-9)
